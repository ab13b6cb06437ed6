"""The command line: a thin skin over the Python calls. Heavy modules are imported inside the commands."""

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from zoosim.core.errors import PolicyFailure, ZoosimError

if TYPE_CHECKING:
    from zoosim.policies.checks.products import CheckResult

app = typer.Typer(
    help="A shop you can experiment on: simulate visitors, compare policies, trust the winner.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Experiment = Annotated[
    str, typer.Argument(metavar="NAME", help="Experiment (`zoosim list` names them), or your own world FILE.py:Class.")
]
Seeds = Annotated[
    str | None,
    typer.Option(
        metavar="N|A:B",
        help="Seeds: a count N (0 to N-1) or a range A:B (B excluded) [default: the experiment's].",
    ),
]
Steps = Annotated[int | None, typer.Option(metavar="N", help="Visits per seed [default: the experiment's].")]
PolicyNames = Annotated[
    str | None,
    typer.Option(metavar="A,B", help="Policies to compare, separated by commas [default: the experiment's]."),
]
OwnPolicies = Annotated[
    list[str] | None,
    typer.Option(
        "--policy",
        metavar="FILE.py:Class",
        help="Your own policy, beside those of --policies or of the experiment (repeatable).",
    ),
]
Config = Annotated[
    str | None,
    typer.Option(metavar="FILE.yaml", help="File with changes to the defaults of world, run and policies."),
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="PATH=VALUE", help="One such change (repeatable), such as env.n_products=500."),
]
TableFile = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="labelled: CSV or Parquet table to classify [default: handwritten digits]."),
]
Label = Annotated[str | None, typer.Option(metavar="COLUMN", help="labelled: column of --data that holds the classes.")]
Jobs = Annotated[int | None, typer.Option(metavar="N", help="Worker processes [default: one per core].")]
RunFolder = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Output folder; an interrupted run resumes here [default: runs/NAME-HASH]."),
]
KeepLog = Annotated[
    bool,
    typer.Option("--log", help="Also write every decision, with its propensity, to log/ as Parquet."),
]
WriteCsv = Annotated[bool, typer.Option("--csv", help="Also write rows.csv: one row per visit, like rows.parquet.")]
PrintSummary = Annotated[
    bool, typer.Option("--json", help="Print summary.json to standard output instead of the table.")
]
Debug = Annotated[bool, typer.Option(help="Show the traceback of an error.")]

KeptRun = Annotated[Path, typer.Argument(metavar="DIR", help="Output folder of `zoosim run`.")]
WorldFile = Annotated[str, typer.Argument(metavar="FILE.py:Class", help="World class to check.")]
SourceFile = Annotated[str, typer.Argument(metavar="FILE.py:Class", help="Policy class to check.")]

World = Annotated[
    str, typer.Argument(metavar="WORLD", help="World to describe: search, recommendation, or that of an experiment.")
]
SearchWorld = Annotated[str, typer.Argument(metavar="WORLD", help="search, or an experiment with a search world.")]
WorldSeed = Annotated[int, typer.Option("--seed", metavar="N", help="Seed of catalogue, users and visits.")]
ShopSeed = Annotated[int, typer.Option("--seed", metavar="N", help="Seed of catalogue and users.")]
Visits = Annotated[int, typer.Option(metavar="N", help="search: visits to simulate.")]
PageFolder = Annotated[
    Path | None, typer.Option("--out", metavar="DIR", help="Output folder of the page [default: runs/describe-WORLD].")
]
VisitTypes = Annotated[
    str,
    typer.Option(
        metavar="all|segment|cell",
        help="One optimum for all visits, per segment, or per cell (segment and query type).",
    ),
]
MarketStep = Annotated[
    int, typer.Option(metavar="N", help="Visit at which to take the market, where shifts change it.")
]
PrintRows = Annotated[bool, typer.Option("--json", help="Print the rows as JSON instead of the table.")]

LogFile = Annotated[Path, typer.Argument(metavar="FILE.parquet", help="Log to write.")]
Decisions = Annotated[int, typer.Option("--n", metavar="N", help="Decisions to log.")]
LoggingPolicy = Annotated[
    str, typer.Option("--policy", metavar="NAME", help="Policy that decides: a built-in name or FILE.py:Class.")
]
LogSeed = Annotated[int, typer.Option("--seed", metavar="N", help="Seed of world, visitors and decisions.")]
UserTable = Annotated[Path, typer.Argument(metavar="TABLE", help="Your CSV or Parquet table, one row per decision.")]
SchemaOut = Annotated[
    Path | None, typer.Option("--out", metavar="FILE.yaml", help="File to write; else it is printed.")
]
SchemaAndLog = Annotated[
    list[Path],
    typer.Argument(
        metavar="[SCHEMA.yaml] FILE.parquet",
        help="What the table's columns are, inferred when left out (see `zoosim schema`), and the log to write.",
    ),
]
Like = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Earlier log, or model, whose features the log is to have; else fitted anew."),
]
TrainedPolicies = Annotated[
    list[str], typer.Option("--policy", metavar="NAME", help="Policy to train (repeatable): a name or FILE.py:Class.")
]
ModelFile = Annotated[Path, typer.Option("--out", metavar="FILE.zoosim", help="Model to write.")]
TrainingShare = Annotated[
    float, typer.Option(metavar="X", help="Share of the rows, the earliest, to train on; the rest judge.")
]
TrainingSeed = Annotated[int, typer.Option("--seed", metavar="N", help="Seed of the policies and of the bootstrap.")]
SkipBad = Annotated[
    bool,
    typer.Option("--skip-bad", help="Drop invalid rows and count them by reason; biased unless they are random."),
]

LogPath = Annotated[
    str,
    typer.Argument(
        metavar="LOG",
        help="Log: a Parquet file by `zoosim run --log`, `log` or `import`, or open-bandit:POLICY/CAMPAIGN.",
    ),
]
Policies = Annotated[
    list[str],
    typer.Option(
        "--policy",
        metavar="SPEC",
        help="Policy to evaluate (repeatable): a built-in name, FILE.py:Class, a saved FILE.npz, "
        "or column:NAME (its probabilities in the log).",
    ),
]
Train = Annotated[
    bool,
    typer.Option("--train", help="Train policies on the first 60% of the rows, and evaluate all by the rest."),
]
Estimators = Annotated[
    str | None,
    typer.Option(
        metavar="A,B", help="Estimators, separated by commas, such as snips,dr [default: those of the log's type]."
    ),
]
Interval = Annotated[str, typer.Option(metavar="KIND", help="bootstrap, asymptotic, bernstein or sequence.")]
Level = Annotated[float, typer.Option(metavar="P", help="Confidence level of the intervals, between 0 and 1.")]
Rankings = Annotated[
    bool, typer.Option("--rankings", help="Read rows with the same decision_id as one ranking, not as single actions.")
]
Samples = Annotated[int, typer.Option(metavar="N", help="Bootstrap samples; levels close to 1 need more.")]
RewardRange = Annotated[
    str | None,
    typer.Option(
        metavar="LOW:HIGH",
        help="Range of a visit's reward, for bernstein and sequence [default: the range seen in the log].",
    ),
]
Bandwidth = Annotated[
    float | None,
    typer.Option(metavar="H", help="Kernel width in units of the boosts [default: chosen from the log]."),
]
BoostLimit = Annotated[
    float | None,
    typer.Option(
        "--a-max",
        metavar="A",
        help="Boosts lie in [-A, A] [default: the log's column a_max, else its largest boost].",
    ),
]
OpenBanditFolder = Annotated[
    Path | None, typer.Option("--data", metavar="DIR", help="Folder of the Open Bandit Dataset, for open-bandit logs.")
]
EvaluationFolder = Annotated[
    Path | None, typer.Option("--out", metavar="DIR", help="Output folder of page and summary [default: none written].")
]
PrintFigures = Annotated[bool, typer.Option("--json", help="Print all figures as JSON instead of the tables.")]
FittedFolder = Annotated[Path, typer.Option("--out", metavar="DIR", help="Output folder of world.yaml and the page.")]
MaxSegments = Annotated[
    int | None, typer.Option("--segments", metavar="N", help="Largest number of segments [default: 12].")
]
MaxCategories = Annotated[
    int | None,
    typer.Option("--categories", metavar="N", help="Largest number of categories [default: 1000]."),
]


def main() -> None:
    """Run the command line: exit code 0 when all is well, 1 when a policy failed, 2 on bad input, 130 on Ctrl-C."""
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        code = app(args=sys.argv[1:] or ["--help"], standalone_mode=False)
        if code == 130:  # how typer reports Ctrl-C
            raise KeyboardInterrupt
        sys.exit(code)
    except typer.TyperException as error:
        message = getattr(error, "format_message", error.__str__)()
        _stop(f"{message.rstrip('.')}; see zoosim --help and zoosim COMMAND --help", 2)
    except ZoosimError as error:
        if "--debug" in sys.argv:
            raise
        _stop(str(error), 1 if isinstance(error, PolicyFailure) else 2)
    except KeyboardInterrupt:
        _stop("interrupted; nothing was saved", 130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:  # a full disk, say
        if "--debug" in sys.argv:
            raise
        _stop(f"{error.filename or 'a file'}: cannot be read or written ({error.strerror or error})", 2)


def _interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt


def _stop(line: str, code: int) -> NoReturn:
    typer.echo(f"zoosim: {' '.join(line.split())}", err=True)
    sys.exit(code)


@app.command()
def run(
    name: Experiment,
    seeds: Seeds = None,
    steps: Steps = None,
    policies: PolicyNames = None,
    policy: OwnPolicies = None,
    config: Config = None,
    settings: Settings = None,
    data: TableFile = None,
    label: Label = None,
    jobs: Jobs = None,
    out: RunFolder = None,
    log: KeepLog = False,
    csv: WriteCsv = False,
    json: PrintSummary = False,
    debug: Debug = False,
) -> None:
    """Compare policies on the same visitors and write a report."""
    from zoosim import terminal
    from zoosim.api import runs

    changes = [*(settings or []), *_data_settings(data, label)]
    names = None if policies is None else [part.strip() for part in policies.split(",") if part.strip()]
    try:
        with terminal.Progress() as progress:
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
                report=progress.report,
                started=progress.start,
            )
    except KeyboardInterrupt:
        _stop("interrupted; finished trials are saved, repeat the command to resume", 130)
    _show(result, json, debug)


def _data_settings(data: str | None, label: str | None) -> list[str]:
    """Return --data and --label as settings of the world, quoted so that YAML reads them as text."""
    given = {"data": data, "label": label}
    return [f"env.{key}='{value.replace(chr(39), chr(39) * 2)}'" for key, value in given.items() if value is not None]


def _show(result: Any, json: bool, debug: bool) -> None:
    from zoosim import terminal

    if json:
        typer.echo((result.path / "summary.json").read_text(encoding="utf-8"), nl=False)
        for note in result.notes:
            typer.echo(f"note: {note}", err=True)
    else:
        terminal.print_result(result)
    _tell_failures(result.failures, debug)
    if result.failures:
        sys.exit(1)


def _tell_failures(failures: tuple[PolicyFailure, ...], debug: bool) -> None:
    """Print one line per policy that failed, with its first failing seed."""
    for policy in dict.fromkeys(failure.policy for failure in failures):
        own = [failure for failure in failures if failure.policy == policy]
        more = f" (and {len(own) - 1} more seeds)" if len(own) > 1 else ""
        typer.echo(f"zoosim: {own[0]}{more}", err=True)
        if debug:
            typer.echo(own[0].details, err=True)


@app.command("list")
def list_experiments() -> None:
    """List the experiments, one line each."""
    from zoosim.experiments import EXPERIMENTS

    summaries = {name: experiment.summary for name, experiment in EXPERIMENTS.items()}
    for name, summary in summaries.items():
        typer.echo(f"{name:<{max(map(len, summaries))}}  {summary}")


@app.command("policies")
def list_policies() -> None:
    """List the built-in policies and their parameters. Each with its default and range."""
    from zoosim.core.parameters import parameters_of, written
    from zoosim.policies.registry import BUILT_IN, find_class

    for name in BUILT_IN:
        cls = find_class(name)
        typer.echo(f"{name}: {(cls.__doc__ or '').strip().splitlines()[0]}")
        for key, value in parameters_of(cls).items():
            typer.echo(f"    {key} = {written(value.default)}  ({value.range})  {value.help}")


@app.command()
def report(folder: KeptRun, debug: Debug = False) -> None:
    """Write a finished run's report again and print its table."""
    from zoosim import terminal
    from zoosim.api import runs

    terminal.print_result(runs.read_run(folder))


@app.command()
def describe(
    world: World,
    seed: WorldSeed = 0,
    visits: Visits = 4_000,
    config: Config = None,
    settings: Settings = None,
    out: PageFolder = None,
    debug: Debug = False,
) -> None:
    """Write a page about a simulated shop. From a --config file only the world's part is read."""
    from zoosim import terminal
    from zoosim.api import worlds

    choices = settings or ()
    found = worlds.describe(world, seed=seed, visits=visits, config=config, settings=choices, out=out, progress=_tell)
    typer.echo(f"Page: {terminal.address(found.path)}")


@app.command()
def optimum(
    world: SearchWorld = "search",
    by: VisitTypes = "segment",
    seed: ShopSeed = 0,
    step: MarketStep = 0,
    config: Config = None,
    settings: Settings = None,
    json: PrintRows = False,
    debug: Debug = False,
) -> None:
    """Compute a search shop's best template and boosts (cached). One row per visit type."""
    from zoosim import terminal
    from zoosim.api import worlds

    choices = settings or ()
    frame = worlds.optimum(world, seed=seed, by=by, step=step, config=config, settings=choices, progress=_tell)
    if json:
        typer.echo(frame.write_json())
    else:
        terminal.print_optimum(frame)


def _tell(line: str) -> None:
    typer.echo(f"  {line}", err=True)


@app.command()
def log(
    out: LogFile,
    n: Decisions = 200_000,
    policy: LoggingPolicy = "random",
    seed: LogSeed = 0,
    config: Config = None,
    settings: Settings = None,
    debug: Debug = False,
) -> None:
    """Log a policy's decisions in a simulated shop. With propensities, for `zoosim evaluate`."""
    from zoosim.api import runs

    mean = runs.write_log(out, n=n, policy=policy, seed=seed, config=config, settings=settings or ())
    typer.echo(f"{n:,} interactions of {policy}, mean reward {mean:.4f}: {out}")


@app.command()
def schema(table: UserTable, out: SchemaOut = None, debug: Debug = False) -> None:
    """Guess what the columns of your table are. Prints what each was taken for, and writes YAML to correct."""
    from zoosim.api.logs import describe_table

    text, notes = describe_table(table, out)
    for name, note in notes.items():
        typer.echo(f"{name:<{max(map(len, notes))}}  {note}", err=True)
    if out is None:
        typer.echo(text, nl=False)
    else:
        typer.echo(f"Schema: {out}", err=True)


@app.command("import")
def import_table(
    table: UserTable,
    files: SchemaAndLog,
    like: Like = None,
    skip_bad: SkipBad = False,
    debug: Debug = False,
) -> None:
    """Convert your CSV or Parquet table to a log. `zoosim train`, `evaluate` and `fit-world` read it."""
    from zoosim.api.logs import import_log
    from zoosim.core.errors import ConfigError

    if len(files) > 2:
        raise ConfigError(f"import: got {len(files) + 1} files, expected TABLE [SCHEMA.yaml] FILE.parquet")
    *described, out = files
    imported = import_log(table, described[0] if described else None, out, like=like, skip_bad=skip_bad)
    for reason, count in imported.skipped.items():
        typer.echo(f"skipped {count:,} rows: {reason}", err=True)
    for name, note in imported.drift.items():
        typer.echo(f"note: column {name}: {note}", err=True)
    typer.echo(f"Log: {out}")


@app.command()
def train(
    log: LogPath,
    policy: TrainedPolicies,
    out: ModelFile,
    share: TrainingShare = 0.8,
    seed: TrainingSeed = 0,
    skip_bad: SkipBad = False,
    debug: Debug = False,
) -> None:
    """Train policies on a log, and save the best. Trained on its earlier rows, judged by the later."""
    from zoosim import terminal
    from zoosim.api import models

    training = models.train(log, policy, out, share=share, seed=seed, skip_bad=skip_bad, progress=_tell)
    if training.evaluation is not None:
        terminal.print_evaluation(training.evaluation)
    typer.echo(f"Model: {out} ({training.policy}, trained on {training.model.facts['rows']:,} rows)")


@app.command()
def evaluate(
    log: LogPath,
    policy: Policies,
    train: Train = False,
    estimators: Estimators = None,
    interval: Interval = "bootstrap",
    level: Level = 0.95,
    rankings: Rankings = False,
    samples: Samples = 1_000,
    reward_range: RewardRange = None,
    bandwidth: Bandwidth = None,
    a_max: BoostLimit = None,
    data: OpenBanditFolder = None,
    out: EvaluationFolder = None,
    skip_bad: SkipBad = False,
    json: PrintFigures = False,
    debug: Debug = False,
) -> None:
    """Estimate what policies would have earned, from a log.

    The log is that of another policy. Each estimate has an interval and a verdict: trust, weak or do not use.
    """
    from zoosim import terminal
    from zoosim.api import logs
    from zoosim.core.jit import watch_compilation
    from zoosim.off_policy.evaluate import EvaluationInterrupted

    options: dict[str, Any] = {"interval": interval, "level": level, "data": data, "skip_bad": skip_bad}
    options |= {"samples": samples, "out": out, "rankings": rankings, "bandwidth": bandwidth, "a_max": a_max}
    options |= {"train": train}
    if reward_range is not None:
        options["reward_range"] = reward_range.split(":")
    if estimators is not None:
        options["estimators"] = [part.strip() for part in estimators.split(",") if part.strip()]
    try:
        with terminal.StatusLine() as status, watch_compilation(lambda: status.show(terminal.COMPILING)):
            evaluation = logs.evaluate(log, policy, progress=status.show, **options)
    except EvaluationInterrupted as interrupted:
        if interrupted.evaluation is not None:
            _show_evaluation(interrupted.evaluation, json, out)
        saved = "nothing was saved" if interrupted.evaluation is None or out is None else f"the others are in {out}"
        _stop(f"interrupted; not evaluated: {', '.join(interrupted.missing)}; {saved}", 130)
    _show_evaluation(evaluation, json, out)


def _show_evaluation(evaluation: Any, json: bool, out: Path | None) -> None:
    from zoosim import terminal

    if json:
        import json as writer

        typer.echo(writer.dumps(evaluation.summary, indent=2, allow_nan=False))
    else:
        terminal.print_evaluation(evaluation, out)


@app.command("fit-world")
def fit_world(
    log: LogPath,
    out: FittedFolder = Path("runs/world"),
    segments: MaxSegments = None,
    categories: MaxCategories = None,
    data: OpenBanditFolder = None,
    skip_bad: SkipBad = False,
    json: PrintSummary = False,
    debug: Debug = False,
) -> None:
    """Estimate a recommendation world from a click log. For `zoosim run --config`; the page shows its fit."""
    from zoosim import terminal
    from zoosim.api import logs

    options: dict[str, Any] = {"segments": segments, "categories": categories, "data": data, "skip_bad": skip_bad}
    world, fit = logs.fit_world(log, out, **options)
    if json:
        typer.echo((out / "summary.json").read_text(encoding="utf-8"), nl=False)
    else:
        terminal.print_world(world, fit, out)


@app.command("check-world")
def check_world(source: WorldFile, debug: Debug = False) -> None:
    """Test whether your world keeps the contract. Exit code 1 if a check fails."""
    from zoosim.worlds.check import check_world as check

    _print_checks(check(source))


@app.command("check-policy")
def check_policy(source: SourceFile, debug: Debug = False) -> None:
    """Test whether your policy keeps the contract. Exit code 1 if a check fails."""
    from zoosim.policies.checks.products import check_policy as check

    _print_checks(check(source))


def _print_checks(results: "list[CheckResult]") -> None:
    for result in results:
        mark = "ok  " if result.ok else "FAIL"
        typer.echo(f"{mark}  {result.name}{'' if result.ok else ': ' + result.message}")
    failed = sum(not result.ok for result in results)
    typer.echo(f"{len(results) - failed} of {len(results)} checks passed")
    if failed:
        sys.exit(1)
