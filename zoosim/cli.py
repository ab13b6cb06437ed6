"""The command line: a thin skin over the Python calls. Heavy modules are imported inside the commands."""

import _thread
import math
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
import typer.main

from zoosim import __version__, cli_launches, cli_loops, cli_tune
from zoosim import cli_options as option
from zoosim.cli_help import CommandsByStep
from zoosim.core.errors import ConfigError, PolicyFailure, ZoosimError
from zoosim.core.extras import missing_extra
from zoosim.terminal.output import address, echo, print_list, skipped_lines
from zoosim.watched import FORWARDED, limit_time, watch

if TYPE_CHECKING:
    from zoosim.policies.checks.contract import CheckResult

ECHO = 1.0
"""Seconds within which a second signal is taken for the echo of the first."""

app = typer.Typer(
    help="A shop you can experiment on: simulate visitors, compare policies, trust the winner.",
    cls=CommandsByStep,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("deploy")(cli_launches.deploy)
app.command("rehearse-launch")(cli_launches.rehearse_launch)
app.command("loops")(cli_loops.loops)
app.command("tune")(cli_tune.tune)
app.command("launch-report")(cli_launches.launch_report)


def _print_version(is_asked: bool) -> None:
    if is_asked:
        echo(f"zoosim {__version__}")
        raise typer.Exit


@app.callback()
def _all_commands(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line in a process that this one watches; a service, which others watch, in this one."""
    _open_closed_streams()
    if sys.argv[1:2] == ["serve"]:
        run_command()
    watch(next(iter(sys.argv[1:]), "zoosim"), run_command, _interrupted())


def run_command() -> None:
    """Run the command line: exit code 0 when all is well, 1 when a policy failed, 2 on bad input, 130 on Ctrl-C."""
    interrupt = _Interrupt()
    for name in FORWARDED:  # SIGHUP is that of a terminal that was closed
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) != signal.SIG_IGN:  # as under nohup
            signal.signal(number, interrupt)
    sys.unraisablehook = _interrupt_again
    sys.excepthook = interrupt.hide
    try:
        _check_arguments()
        # Not app(), which takes the hook for errors that nobody handles.
        code = typer.main.get_command(app)(sys.argv[1:] or ["--help"], "zoosim", standalone_mode=False)
        if code == 130:  # how typer reports Ctrl-C
            raise KeyboardInterrupt
        _flush_output()
        sys.exit(code)
    except (Exception, KeyboardInterrupt) as error:
        # Python, and code that answers its own errors, may raise another error in the place of an interrupt.
        if isinstance(error, KeyboardInterrupt) or interrupt.has_come:
            _stop(_interrupted(), 130)
        _explain(error)
        raise


def _check_arguments() -> None:
    """Refuse arguments that are no text or empty, which as a path would mean the working directory; and one removed."""
    try:
        os.getcwd()
    except OSError:
        raise ConfigError("the working directory is gone; change to one that is there") from None
    for argument in sys.argv[1:]:
        if any("\ud800" <= char <= "\udfff" for char in argument):
            raise ConfigError(f"got {argument} as an argument, expected UTF-8; rename the file")
        if not argument or re.fullmatch("--[a-z-]+=", argument):
            raise ConfigError(f"got {argument!r} as an argument, expected a value; is a variable of your shell empty?")


def _interrupted() -> str:
    """Return the line for a command that was interrupted."""
    if sys.argv[1:2] in (["run"], ["recommend"], ["tune"]):
        return "interrupted; finished trials are saved, repeat the command to resume"
    if sys.argv[1:2] == ["rehearse-launch"]:
        return "interrupted; finished launches are saved, repeat the command to go on with them"
    if sys.argv[1:2] == ["deploy"]:
        return "interrupted; zoosim deploy prints whether the change was made"
    if sys.argv[1:2] == ["loops"]:
        return "interrupted; zoosim loops prints whether the change was made"
    if sys.argv[1:2] == ["playground"]:
        return "interrupted; the shop is closed, and its service has ended"
    return "interrupted; nothing was saved"


def _explain(error: BaseException) -> None:
    """End with one line about an error that a user can do something about; return where it is none, or to debug."""
    if isinstance(error, typer.TyperException):
        message = getattr(error, "format_message", error.__str__)()
        context = getattr(error, "ctx", None)
        _stop(f"{message.rstrip('.')}; see {'zoosim' if context is None else context.command_path} --help", 2)
    if isinstance(error, BrokenPipeError):
        _drop_output()
        sys.exit(1)
    if "--debug" in sys.argv:
        return
    if isinstance(error, ModuleNotFoundError):
        error = missing_extra(error) or error
    if isinstance(error, ZoosimError):
        _stop(str(error), 1 if isinstance(error, PolicyFailure) else 2)
    if isinstance(error, MemoryError):
        _stop(f"not enough memory ({error or 'no more of it'}); ask for less at once", 2)
    if isinstance(error, OSError):  # a full disk, say
        _drop_output()
        what = error.filename or "a file or standard output"
        _stop(f"{what}: cannot be read or written ({error.strerror or error})", 2)


class _Interrupt:
    """Turns a signal into `KeyboardInterrupt`, but not another that comes at once: a terminal signals all processes."""

    def __init__(self) -> None:
        self._last = -math.inf
        self.has_come = False

    def __call__(self, *_: object) -> None:
        now = time.monotonic()
        is_echo = now - self._last < ECHO
        self._last = now
        self.has_come = True
        if not is_echo:
            raise KeyboardInterrupt

    def hide(self, *error: Any) -> None:
        """Print an error that nobody handles, but not after a signal: compiled modules print it where they load."""
        if not self.has_come:
            sys.__excepthook__(*error)


def _interrupt_again(unraisable: "sys.UnraisableHookArgs") -> None:
    """Interrupt once more where an interrupt came inside of a callback, such as a compiler's, which drops errors."""
    if not isinstance(unraisable.exc_value, KeyboardInterrupt):
        sys.__unraisablehook__(unraisable)
        return
    timer = threading.Timer(ECHO, _thread.interrupt_main)
    timer.daemon = True
    timer.start()


def _open_closed_streams() -> None:
    """Open what was closed of the standard streams as a void: files that are opened later would take their places."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            handle = os.open(os.devnull, os.O_RDWR)
            if handle != number:
                os.dup2(handle, number)
                os.close(handle)
            os.set_inheritable(number, True)  # which dup2 leaves as it is where both are the same
            setattr(sys, name, open(number, "r" if number == 0 else "w"))  # noqa: SIM115


def _flush_output() -> None:
    """Write what is still to be printed, so that what goes wrong goes wrong here."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OSError(error.errno, error.strerror, "standard output") from None


def _drop_output() -> None:
    """Print nothing more where it cannot be written, or Python would try again, and complain, when it ends."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _stop(line: str, code: int) -> NoReturn:
    with suppress(OSError):  # standard error may be full, too; the exit code says that something is wrong
        echo(f"zoosim: {' '.join(line.split())}", err=True)
    sys.exit(code)


@app.command()
def run(
    name: option.Experiment,
    seeds: option.Seeds = None,
    steps: option.Steps = None,
    policies: option.PolicyNames = None,
    policy: option.OwnPolicies = None,
    config: option.Config = None,
    settings: option.Settings = None,
    data: option.TableFile = None,
    label: option.Label = None,
    jobs: option.Jobs = None,
    executor: option.Executor = None,
    out: option.RunFolder = None,
    log: option.KeepLog = False,
    csv: option.WriteCsv = False,
    through: option.Through = None,
    live: option.Live = False,
    wide: option.Wide = False,
    json: option.PrintSummary = False,
    debug: option.Debug = False,
) -> None:
    """Compare policies on the same visitors, and write a page."""
    from zoosim.api import runs
    from zoosim.api.live import RunPage
    from zoosim.progress import Progress

    changes = [*(settings or []), *_data_settings(data, label)]
    names = None if policies is None else _split_names(policies)
    with RunPage(lambda line: echo(line, err=True)) as page:
        with Progress() as progress:
            result = runs.run(
                name,
                policies=names,
                extra=policy or (),
                seeds=seeds,
                steps=steps,
                config=config,
                settings=changes,
                jobs=jobs,
                out=out if out is not None else runs.DEFAULT_OUT,
                log=log,
                csv=csv,
                through=through,
                isolate=True,
                executor=executor,
                report=progress.report,
                started=progress.start,
                live=page if live else None,
            )
        _show_result(result, json, wide, debug)
        page.stay()
    if result.failures:
        sys.exit(1)


def _split_names(text: str) -> list[str]:
    """Return the words of a text between its commas."""
    return [part.strip() for part in text.split(",") if part.strip()]


def _data_settings(data: str | None, label: str | None) -> list[str]:
    """Return --data and --label as settings of the world, in YAML."""
    from zoosim.core.yaml_text import write_yaml

    settings = {"data": data, "label": label}
    return [f"env.{key}={write_yaml(text)}" for key, text in settings.items() if text is not None]


def _show_result(result: Any, json: bool, wide: bool, debug: bool) -> None:
    from zoosim.terminal.run import print_result

    if json:
        typer.echo((result.path / "summary.json").read_text(encoding="utf-8"), nl=False)
        for note in result.notes:
            echo(f"note: {note}", err=True)
    else:
        print_result(result, wide=wide)
    _print_failures(result.failures, debug)


def _print_failures(failures: Sequence[PolicyFailure], debug: bool) -> None:
    """Print one line per policy that failed, with its first failing seed."""
    for policy in dict.fromkeys(failure.policy for failure in failures):
        first, *others = [failure for failure in failures if failure.policy == policy]
        more = f" (and {len(others)} more seeds)" if others else ""
        echo(f"zoosim: {first}{more}", err=True)
        if debug:
            echo(first.details, err=True)


@app.command("list")
def list_experiments(name: option.ExperimentName = None) -> None:
    """List the experiments, or describe one with the keys of its world."""
    from zoosim.terminal.experiments import print_experiment, print_experiments

    if name is None:
        print_experiments()
    else:
        print_experiment(name)


@app.command("policies")
def list_policies(name: option.PolicyName = None) -> None:
    """List the built-in policies, or describe one."""
    from zoosim.terminal.policies import print_policies, print_policy

    if name is None:
        print_policies()
    else:
        print_policy(name)


@app.command()
def report(folder: option.KeptRun, wide: option.Wide = False, debug: option.Debug = False) -> None:
    """Print a finished run's table, and write its page again."""
    from zoosim.api import runs
    from zoosim.terminal.run import print_result

    print_result(runs.read_run(folder), wide=wide)


@app.command()
def describe(
    world: option.World,
    seed: option.WorldSeed = 0,
    visits: option.Visits = 4_000,
    config: option.Config = None,
    settings: option.Settings = None,
    out: option.PageFolder = None,
    json: option.PrintFigures = False,
    debug: option.Debug = False,
) -> None:
    """Describe a simulated shop, a fitted world or a model.

    Of a simulated shop a page is written; from a --config file only the world's part is read. Of a file the figures are
    printed, and a page is written if --out is given.
    """
    from zoosim.api import worlds
    from zoosim.terminal.description import print_description

    description = worlds.describe(
        world, seed=seed, visits=visits, config=config, settings=settings or (), out=out, progress=_print_progress
    )
    if json:
        import json as writer

        typer.echo(writer.dumps(description.as_dict(), ensure_ascii=False))
    else:
        print_description(description, world)


@app.command()
def optimum(
    world: option.SearchWorld = "search",
    by: option.VisitTypes = "segment",
    seed: option.ShopSeed = 0,
    step: option.MarketStep = 0,
    config: option.Config = None,
    settings: option.Settings = None,
    wide: option.Wide = False,
    json: option.PrintRows = False,
    debug: option.Debug = False,
) -> None:
    """Compute the best template and boosts of a search shop. One row per type of visit; results are cached."""
    from zoosim.api import worlds
    from zoosim.terminal.optimum import print_optimum

    frame = worlds.optimum(
        world, seed=seed, by=by, step=step, config=config, settings=settings or (), progress=_print_progress
    )
    if json:
        typer.echo(frame.write_json())
    else:
        print_optimum(frame, wide=wide)


def _print_progress(line: str) -> None:
    echo(f"  {line}", err=True)


@app.command()
def log(
    out: option.LogFile,
    n: option.Decisions = 200_000,
    policy: option.LoggingPolicy = "random",
    seed: option.LogSeed = 0,
    world: option.LoggedWorld = None,
    config: option.Config = None,
    settings: option.Settings = None,
    debug: option.Debug = False,
) -> None:
    """Write a log of a policy's decisions in a simulated shop. It has propensities, for `zoosim evaluate`."""
    from zoosim.api import runs

    written = runs.write_log(out, n=n, policy=policy, seed=seed, world=world, config=config, settings=settings or ())
    echo(f"Log: {out} ({written.decisions:,} decisions of {policy}, mean reward {written.mean_reward:.4g})")


@app.command()
def schema(
    table: option.UserTable,
    products: option.ProductFile = None,
    out: option.SchemaOut = None,
    time_zone: option.TimeZone = None,
    debug: option.Debug = False,
) -> None:
    """Infer what the columns of your table are. Prints what each was taken for, and writes YAML to correct."""
    from zoosim.api.logs import describe_table

    text, notes = describe_table(table, products, out, time_zone)
    print_list(notes, err=True)
    if out is None:
        typer.echo(text, nl=False)
    else:
        echo(f"Schema: {out}", err=True)


@app.command("import")
def import_table(
    table: option.UserTable,
    files: option.SchemaAndLog,
    products: option.ProductFile = None,
    time_zone: option.TimeZone = None,
    like: option.Like = None,
    skip_bad: option.SkipBad = False,
    debug: option.Debug = False,
) -> None:
    """Convert your CSV or Parquet table to a log. `zoosim train`, `evaluate` and `fit-world` read it."""
    from zoosim.api.shops import import_log
    from zoosim.terminal.importing import print_import

    if len(files) > 2:
        raise ConfigError(f"import: got {len(files) + 1} files, expected TABLE [SCHEMA.yaml] FILE.parquet")
    *described, out = files
    imported = import_log(
        table,
        described[0] if described else None,
        out,
        products=products,
        time_zone=time_zone,
        like=like,
        skip_bad=skip_bad,
    )
    print_import(imported)
    _print_skipped(imported.skipped)
    echo(f"Log: {out}")


@app.command()
def drift(
    log: option.LogPath,
    window: option.Window = 2_000,
    json: option.PrintFigures = False,
    debug: option.Debug = False,
) -> None:
    """Say what changed of a log: visitors, rewards, propensities and products.

    The newest window of decisions is compared with the first period. Each change comes with its beginning, its cost and
    advice. Of a log in which nothing changes, anything is ever told with a probability of at most 5%.
    """
    from zoosim.api.drift import drift as find_drift

    found = find_drift(log, window=window)
    if json:
        import json as writer

        typer.echo(writer.dumps(found.as_dict(), indent=2, allow_nan=False))
    else:
        for line in found.sentences:
            echo(line)


@app.command()
def forecasts(
    source: option.ForecastSource,
    wide: option.Wide = False,
    json: option.PrintFigures = False,
    debug: option.Debug = False,
) -> None:
    """Score what was forecast of models by what came.

    `zoosim train`, `evaluate` and `recommend` keep what they forecast of a model beside its file; `serve` and `deploy`
    take it into the log. A forecast is scored by the first decisions of its model, as many as it names: held, missed,
    or too early.
    """
    from zoosim.api.forecasts import forecasts as score

    scores = score(source)
    if json:
        import json as writer

        typer.echo(writer.dumps(scores, indent=2, allow_nan=False))
    else:
        from zoosim.terminal.forecasts import print_forecasts

        print_forecasts(scores, wide=wide)


@app.command("export")
def export_service(service: option.ServedLog, out: option.ExportedLog, debug: option.Debug = False) -> None:
    """Write what a service decided as a log, or a log of visitors' lives as a data set of Minari.

    A Parquet file, with the table of products beside it. Decisions that still wait for feedback are left out. The
    service may go on meanwhile; `zoosim train`, `evaluate` and `fit-world` read its log directly, too. Where OUT ends
    in .minari, it is a folder with an episode per visitor, of a service's log or that of a file.
    """
    from zoosim.api.served import export_log

    _print_skipped(export_log(service, out))
    echo(f"Log: {out}")


@app.command()
def forget(service: option.ServedLog, visitor_id: option.VisitorId, debug: option.Debug = False) -> None:
    """Erase a visitor from the log of a service.

    The id and the features are removed; rows keep their places and what was shown, and are neither learned from nor
    exported any more. The service may go on meanwhile. Snapshots and models name nothing that fewer than 20 visitors
    had; what decisions moved stays in their numbers. Tables, imported and exported logs and backups are yours to clean.
    """
    from zoosim.api.served import forget_visitor
    from zoosim.core.number_format import counted

    echo(f"{counted(forget_visitor(service, visitor_id), 'decision')} forgotten")


def _print_skipped(skipped: dict[str, int]) -> None:
    """Print how many rows were left out, by reason."""
    for line in skipped_lines(skipped):
        echo(line, err=True)


@app.command()
def train(
    log: option.LogPath,
    policy: option.TrainedPolicies,
    out: option.ModelFile,
    settings: option.TrainedSettings = None,
    share: option.TrainingShare = 0.8,
    seed: option.TrainingSeed = 0,
    propensity_model: option.PropensityModel = None,
    stream: option.Stream = None,
    report: option.TrainingPage = None,
    skip_bad: option.SkipBad = False,
    wide: option.Wide = False,
    debug: option.Debug = False,
) -> None:
    """Train policies on a log, and save the best. Its earlier rows train, the later ones judge."""
    from zoosim.api import models
    from zoosim.core.config import read_parameters
    from zoosim.core.forecasts import forecasts_path
    from zoosim.core.jit import watch_compilation
    from zoosim.core.status_line import COMPILING, StatusLine
    from zoosim.terminal.evaluation import print_training

    with StatusLine() as status, watch_compilation(lambda: status.show(COMPILING)):
        training = models.train(
            log,
            policy,
            out,
            parameters=read_parameters(settings or []),
            share=share,
            seed=seed,
            skip_bad=skip_bad,
            propensity_model=propensity_model,
            stream=stream,
            report=report,
            progress=status.show,
        )
    print_training(training, wide=wide, has_page=report is not None)
    echo(f"Model: {out} ({training.policy}, trained on {training.model.facts['rows']:,} rows)")
    if forecasts_path(out).exists():
        echo(f"Forecasts: {forecasts_path(out)}")
    if report is not None:
        echo(f"Page: {address(report)}")


@app.command("train-retriever")
def train_retriever(
    log: option.LogPath,
    out: option.RetrieverFile,
    reward: option.ClickReward = None,
    candidates: option.RetrievedCandidates = 500,
    width: option.VectorWidth = 32,
    passes: option.Passes = None,
    share: option.JudgedShare = 0.8,
    seed: option.RetrieverSeed = 0,
    skip_bad: option.SkipBad = False,
    wide: option.Wide = False,
    debug: option.Debug = False,
) -> None:
    """Learn which of many products to retrieve for whom: a vector per product, a query per visitor.

    What was shown and not clicked counts. A retriever of the earlier rows is judged by the later ones, beside plain
    rules; the one that is written has learned from all rows.
    """
    from zoosim.api.retrieval import train_retriever as train_on
    from zoosim.core.jit import watch_compilation
    from zoosim.core.status_line import COMPILING, StatusLine
    from zoosim.terminal.retrieval import print_retriever

    with StatusLine() as status, watch_compilation(lambda: status.show(COMPILING)):
        retriever = train_on(
            log,
            out,
            reward=reward,
            candidates=candidates,
            width=width,
            passes=passes,
            share=share,
            seed=seed,
            skip_bad=skip_bad,
            progress=status.show,
        )
    print_retriever(retriever, wide=wide)
    echo(f"Retriever: {out} (version {retriever.version})")


@app.command()
def serve(
    model: option.ServedModel = None,
    store: option.Store = None,
    loops: option.ServedLoops = None,
    config: option.ServiceSettings = None,
    host: option.Host = None,
    port: option.Port = None,
    arm: option.Arms = None,
    debug: option.Debug = False,
) -> None:
    """Make decisions for real visitors over HTTP. Logs each with its propensity, and learns from feedback."""
    from zoosim.api.service import run_service

    settings = {"store": store, "loops": loops, "host": host, "port": port, "arms": arm or None}
    run_service(model, config, settings, announce=echo)


@app.command()
def playground(
    out: option.PlaygroundFolder = None, scripted: option.Scripted = False, debug: option.Debug = False
) -> None:
    """Open a simulated shop with a running service, and do to both what happens to shops.

    The address of the service is a page that shows what happens. Keys shock the market, break the pixel, deploy a bad
    policy, kill the learner, or let ten times as many visitors come. Without a terminal, or with --scripted, a fixed
    script does all of that by itself, and what was lost is printed in the end.
    """
    from zoosim.api.playground import open_playground

    open_playground(out, scripted=scripted or not sys.stdin.isatty(), say=echo)


@app.command()
def evaluate(
    log: option.LogPath,
    policy: option.Policies,
    train: option.Train = False,
    estimators: option.Estimators = None,
    interval: option.Interval = "bootstrap",
    level: option.Level = 0.95,
    rankings: option.Rankings = False,
    samples: option.Samples = 1_000,
    reward_range: option.RewardRange = None,
    bandwidth: option.Bandwidth = None,
    gamma: option.Gamma = 1.0,
    propensity_model: option.PropensityModel = None,
    a_max: option.BoostLimit = None,
    data: option.OpenBanditFolder = None,
    out: option.EvaluationFolder = None,
    skip_bad: option.SkipBad = False,
    stream: option.Stream = None,
    executor: option.Executor = None,
    wide: option.Wide = False,
    json: option.PrintFigures = False,
    debug: option.Debug = False,
) -> None:
    """Estimate what policies would have earned, from a log.

    The log was written by another policy. Each estimate has an interval and a verdict: trust, weak or do not use.
    """
    from zoosim.api import logs
    from zoosim.core.jit import watch_compilation
    from zoosim.core.status_line import COMPILING, StatusLine
    from zoosim.off_policy.evaluate import EvaluationInterrupted

    options: dict[str, Any] = {"interval": interval, "level": level, "samples": samples, "bandwidth": bandwidth}
    options["gamma"] = gamma
    options["propensity_model"] = propensity_model
    if reward_range is not None:
        options["reward_range"] = reward_range.split(":")
    if estimators is not None:
        options["estimators"] = _split_names(estimators)
    try:
        with StatusLine() as status, watch_compilation(lambda: status.show(COMPILING)):
            evaluation = logs.evaluate(
                log,
                policy,
                data=data,
                skip_bad=skip_bad,
                rankings=rankings,
                a_max=a_max,
                train=train,
                stream=stream,
                executor=executor,
                out=out,
                progress=status.show,
                **options,
            )
    except EvaluationInterrupted as interrupted:
        if interrupted.evaluation is not None:
            _show_evaluation(interrupted.evaluation, json, out, wide)
        saved = "nothing was saved" if interrupted.evaluation is None or out is None else f"the others are in {out}"
        _stop(f"interrupted; not evaluated: {', '.join(interrupted.missing)}; {saved}", 130)
    _show_evaluation(evaluation, json, out, wide)


def _show_evaluation(evaluation: Any, json: bool, out: Path | None, wide: bool) -> None:
    from zoosim.terminal.evaluation import print_evaluation

    if json:
        import json as writer

        typer.echo(writer.dumps(evaluation.summary, indent=2, allow_nan=False))
    else:
        print_evaluation(evaluation, out, wide=wide)


@app.command("fit-world")
def fit_world(
    log: option.LogPath,
    out: option.FittedFolder = Path("runs/world"),
    reward: option.FittedReward = None,
    gone_after: option.GoneAfter = None,
    data: option.OpenBanditFolder = None,
    skip_bad: option.SkipBad = False,
    wide: option.Wide = False,
    json: option.PrintSummary = False,
    debug: option.Debug = False,
) -> None:
    """Fit a simulated shop to a log. `zoosim run DIR/shop.world` runs in it; a log of searches makes a search shop.

    A log of visitors who come back says whether it pays to look ahead.
    """
    from zoosim.api import shops
    from zoosim.core.status_line import StatusLine
    from zoosim.logs.load import action_space_of

    with StatusLine() as status:
        fitted = shops.fit_world(
            log, out, reward=reward, gone_after=gone_after, data=data, skip_bad=skip_bad, progress=status.show
        )
    if json:
        typer.echo((out / "summary.json").read_text(encoding="utf-8"), nl=False)
    else:
        action_space_of(log).print_fit(fitted, out, wide=wide)


@app.command()
def recommend(
    log: option.LogPath,
    policies: option.RehearsedPolicies = None,
    horizon: option.Horizon = None,
    seeds: option.RehearsalSeeds = "10",
    visits: option.RehearsalVisits = None,
    jobs: option.Jobs = None,
    out: option.RecommendationFolder = None,
    data: option.OpenBanditFolder = None,
    skip_bad: option.SkipBad = False,
    wide: option.Wide = False,
    json: option.PrintSummary = False,
    debug: option.Debug = False,
) -> None:
    """Say what to show your visitors over the next visits. By rehearsal in a simulated shop fitted to your log."""
    from zoosim.api import recommend as api
    from zoosim.core.status_line import StatusLine
    from zoosim.terminal.recommendation import print_recommendation

    with StatusLine() as status:
        recommendation = api.recommend(
            log,
            policies=None if policies is None else _split_names(policies),
            horizon=horizon,
            seeds=seeds,
            visits=visits,
            jobs=jobs,
            out=out,
            data=data,
            skip_bad=skip_bad,
            progress=status.show,
        )
    if json:
        typer.echo((recommendation.path / "summary.json").read_text(encoding="utf-8"), nl=False)
    else:
        print_recommendation(recommendation, wide=wide)
    _print_failures(recommendation.evidence.failures, debug)


@app.command("check-world")
def check_world(source: option.WorldFile, debug: option.Debug = False) -> None:
    """Test whether your world keeps its contract. Exit code 1 if a check fails."""
    from zoosim.worlds.check import check_world as check

    _print_checks(check(source))


@app.command("check-policy")
def check_policy(source: option.SourceFile, limit: option.CheckLimit = 60.0, debug: option.Debug = False) -> None:
    """Test whether your policy keeps its contract. Exit code 1 if a check fails."""
    from zoosim.policies.checks.policy import check_policy as check

    limit_time(limit, f"{source}: importing the file")
    _print_checks(check(source, asking=lambda name: limit_time(limit, f"{source}: the check {name!r}")))


def _print_checks(results: "list[CheckResult]") -> None:
    for result in results:
        mark = "ok  " if result.ok else "FAIL"
        echo(f"{mark}  {result.name}{'' if result.ok else ': ' + result.message}")
    failed = sum(not result.ok for result in results)
    echo(f"{len(results) - failed} of {len(results)} checks passed")
    if failed:
        sys.exit(1)
