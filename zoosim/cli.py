"""The command line: a thin skin over the Python calls. Heavy modules are imported inside the commands."""

import os
import signal
import sys
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from zoosim.core.errors import PolicyFailure, ZoosimError

app = typer.Typer(
    help="A shop you can experiment on: simulate visitors, compare policies, trust the winner.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Experiment = Annotated[str, typer.Argument(metavar="NAME", help="An experiment, see `zoosim list`.")]
Config = Annotated[str | None, typer.Option(metavar="FILE.yaml", help="Changes to world, run and policies.")]
Settings = Annotated[
    list[str] | None, typer.Option("--set", metavar="PATH=VALUE", help="One change, such as env.n_products=500.")
]
Data = Annotated[str | None, typer.Option(metavar="FILE", help="labelled: a CSV or Parquet table.")]
Label = Annotated[str | None, typer.Option(metavar="COLUMN", help="labelled: the column with the classes.")]
SkipBad = Annotated[bool, typer.Option("--skip-bad", help="Leave bad rows out, and say how many.")]
Debug = Annotated[bool, typer.Option(help="Show tracebacks.")]


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
        _stop("interrupted: what was finished is kept, the same command goes on from there", 130)
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
    seeds: Annotated[str | None, typer.Option(metavar="N|A:B", help="0 to N-1, or A to B-1.")] = None,
    steps: Annotated[int | None, typer.Option(metavar="N", help="Visits a seed.")] = None,
    policies: Annotated[str | None, typer.Option(metavar="A,B", help="Who competes.")] = None,
    policy: Annotated[
        list[str] | None, typer.Option(metavar="FILE.py:Class", help="A policy of your own that joins.")
    ] = None,
    config: Config = None,
    settings: Settings = None,
    data: Data = None,
    label: Label = None,
    jobs: Annotated[int | None, typer.Option(metavar="N", help="Processes; one a core by default.")] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder, kept and resumed; runs/NAME-HASH by default.")
    ] = None,
    log: Annotated[bool, typer.Option("--log", help="Keep every interaction as a Record.")] = False,
    csv: Annotated[bool, typer.Option("--csv", help="Write rows.csv too.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print summary.json to standard output.")] = False,
    debug: Debug = False,
) -> None:
    """Compare policies on the same visitors and write a report."""
    from zoosim import api, terminal
    from zoosim.experiments import CONTINUOUS_VS_DISCRETE

    if name == CONTINUOUS_VS_DISCRETE:
        numbers = {"seeds": seeds, "steps": steps, "jobs": jobs, "data": data, "label": label, "config": config}
        rest = {"policies": policies, "policy": policy, "log": log or None, "csv": csv or None}
        _continuous_vs_discrete(out, json, {**numbers, **rest}, settings or [])
        return
    changes = [*(settings or []), *_data_settings(data, label)]
    names = None if policies is None else [part.strip() for part in policies.split(",") if part.strip()]
    with terminal.Progress() as progress:
        result = api.run(
            name,
            policies=names,
            extra=policy or (),
            seeds=seeds,
            steps=steps,
            config=config,
            settings=changes,
            jobs=jobs,
            out=out if out is not None else api.DEFAULT_OUT,
            log=log,
            csv=csv,
            report=progress.report,
            started=progress.start,
        )
    _show(result, json, debug)


def _continuous_vs_discrete(out: Path | None, json: bool, given: dict[str, Any], settings: list[str]) -> None:
    """Compare learners of boosts and of templates; some options of a run do not go with it."""
    from zoosim import terminal
    from zoosim.core.config import read_setting
    from zoosim.experiments import CONTINUOUS_VS_DISCRETE
    from zoosim.studies.continuous_vs_discrete.run import run as compare

    options = {key: value for key, value in given.items() if value is not None}
    options |= {".".join(path): value for path, value in map(read_setting, settings)}
    _, story, folder = compare(out, progress=_tell, **options)
    if json:
        typer.echo((folder / "summary.json").read_text(encoding="utf-8"), nl=False)
    else:
        terminal.print_story(CONTINUOUS_VS_DISCRETE, story, folder)


def _data_settings(data: str | None, label: str | None) -> list[str]:
    """Say --data and --label as settings of the world; quoted, so that YAML takes them as they are."""
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
    """Print one line a policy that failed, its first failing seed."""
    for policy in dict.fromkeys(failure.policy for failure in failures):
        own = [failure for failure in failures if failure.policy == policy]
        more = f" (and {len(own) - 1} more seeds)" if len(own) > 1 else ""
        typer.echo(f"zoosim: {own[0]}{more}", err=True)
        if debug:
            typer.echo(own[0].details, err=True)


@app.command("list")
def list_experiments() -> None:
    """Name the experiments, a line each."""
    from zoosim.experiments import CONTINUOUS_VS_DISCRETE, EXPERIMENTS

    summaries = {name: experiment.summary for name, experiment in EXPERIMENTS.items()}
    summaries[CONTINUOUS_VS_DISCRETE] = (
        "learners of boosts and of templates, beside what both can reach at best (hours)"
    )
    for name, summary in summaries.items():
        typer.echo(f"{name:<{max(map(len, summaries))}}  {summary}")


@app.command("policies")
def list_policies() -> None:
    """Print every policy with its parameters, defaults and ranges."""
    from zoosim.core.parameters import parameters_of, written
    from zoosim.policies.registry import BUILT_IN, find_class

    for name in BUILT_IN:
        cls = find_class(name)
        typer.echo(f"{name}: {(cls.__doc__ or '').strip().splitlines()[0]}")
        for key, value in parameters_of(cls).items():
            typer.echo(f"    {key} = {written(value.default)}  ({value.range})  {value.help}")


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a run.")], debug: Debug = False
) -> None:
    """Draw the page of a run again."""
    from zoosim import api, terminal

    terminal.print_result(api.read_run(folder))


@app.command()
def describe(
    world: Annotated[str, typer.Argument(metavar="WORLD", help="search, recommendation, or an experiment's name.")],
    seed: Annotated[int, typer.Option(metavar="N", help="Which catalogue, users and visits.")] = 0,
    visits: Annotated[int, typer.Option(metavar="N", help="search: how many visits are simulated.")] = 4_000,
    config: Config = None,
    settings: Settings = None,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Folder; runs/describe-WORLD by default.")] = None,
    debug: Debug = False,
) -> None:
    """Draw a page of what a world is like; of a file, only the world's part counts."""
    from zoosim import terminal, worlds

    choices = settings or ()
    found = worlds.describe(world, seed=seed, visits=visits, config=config, settings=choices, out=out, progress=_tell)
    typer.echo(f"Page: {terminal.address(found.path)}")


@app.command()
def optimum(
    world: Annotated[str, typer.Argument(metavar="WORLD", help="search, or an experiment's name.")] = "search",
    by: Annotated[str, typer.Option(metavar="all|segment|cell", help="What gets a vector of its own.")] = "segment",
    seed: Annotated[int, typer.Option(metavar="N", help="Which catalogue and users.")] = 0,
    step: Annotated[int, typer.Option(metavar="N", help="The visit whose market counts, with shifts.")] = 0,
    config: Config = None,
    settings: Settings = None,
    json: Annotated[bool, typer.Option("--json", help="Print rows as JSON.")] = False,
    debug: Debug = False,
) -> None:
    """Search the best template and the best boosts of each kind of visit to a search shop; kept on disk."""
    from zoosim import terminal, worlds

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
    out: Annotated[Path, typer.Argument(metavar="FILE.parquet", help="Where the Records go.")],
    n: Annotated[int, typer.Option("--n", metavar="N", help="How many interactions.")] = 200_000,
    policy: Annotated[str, typer.Option(metavar="NAME", help="A policy's name or FILE.py:Class.")] = "random",
    seed: Annotated[int, typer.Option(metavar="N", help="Which world, visitors and draws.")] = 0,
    config: Config = None,
    settings: Settings = None,
    debug: Debug = False,
) -> None:
    """Write the interactions of a policy, by default a uniformly random one, as Records with propensities."""
    from zoosim import api

    mean = api.write_log(out, n=n, policy=policy, seed=seed, config=config, settings=settings or ())
    typer.echo(f"{n:,} interactions of {policy}, mean reward {mean:.4f}: {out}")


@app.command("import")
def import_table(
    table: Annotated[Path, typer.Argument(metavar="TABLE", help="A CSV or Parquet file.")],
    mapping: Annotated[Path, typer.Argument(metavar="MAPPING.yaml", help="Which column holds what.")],
    out: Annotated[Path, typer.Argument(metavar="FILE.parquet", help="Where the Records go.")],
    skip_bad: SkipBad = False,
    debug: Debug = False,
) -> None:
    """Write a table of one's own as Records, which `zoosim evaluate` reads."""
    from zoosim.logs import import_log

    skipped = import_log(table, mapping, out, skip_bad=skip_bad)
    for reason, count in skipped.items():
        typer.echo(f"skipped {count:,} rows: {reason}", err=True)
    typer.echo(f"Records: {out}")


@app.command()
def evaluate(
    log: Annotated[str, typer.Argument(metavar="LOG", help="Records, or open-bandit:POLICY/CAMPAIGN.")],
    policy: Annotated[
        list[str],
        typer.Option(
            metavar="SPEC", help="A name, FILE.py:Class, a saved FILE.npz, column:NAME, learned:linear or learned:mlp."
        ),
    ],
    estimators: Annotated[str | None, typer.Option(metavar="A,B", help="Which, such as ips,snips,dr.")] = None,
    interval: Annotated[str, typer.Option(metavar="KIND", help="asymptotic, bernstein, sequence.")] = "bootstrap",
    level: Annotated[float, typer.Option(metavar="P", help="How often intervals hold.")] = 0.95,
    rankings: Annotated[bool, typer.Option("--rankings", help="Rows of one decision_id are a ranking.")] = False,
    samples: Annotated[int, typer.Option(metavar="N", help="Bootstrap samples; levels near 1 need more.")] = 1_000,
    reward_range: Annotated[
        str | None, typer.Option(metavar="LOW:HIGH", help="Of a reward, for bernstein, sequence; that seen by default.")
    ] = None,
    bandwidth: Annotated[float | None, typer.Option(metavar="H", help="Of kernels over boosts.")] = None,
    a_max: Annotated[float | None, typer.Option("--a-max", metavar="A", help="Boosts lie in [-A, A].")] = None,
    data: Annotated[Path | None, typer.Option(metavar="DIR", help="Folder of the Open Bandit Dataset.")] = None,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Folder for the page, none by default.")] = None,
    skip_bad: SkipBad = False,
    json: Annotated[bool, typer.Option("--json", help="Print all figures as JSON.")] = False,
    debug: Debug = False,
) -> None:
    """Judge policies by a log that another one wrote, and say whether the log can tell."""
    from zoosim import logs, terminal

    options: dict[str, Any] = {"interval": interval, "level": level, "data": data, "skip_bad": skip_bad}
    options |= {"samples": samples, "out": out, "rankings": rankings, "bandwidth": bandwidth, "a_max": a_max}
    if reward_range is not None:
        options["reward_range"] = reward_range.split(":")
    if estimators is not None:
        options["estimators"] = [part.strip() for part in estimators.split(",") if part.strip()]
    evaluation = logs.evaluate(log, policy, **options)
    if json:
        import json as writer

        typer.echo(writer.dumps(evaluation.summary, indent=2, allow_nan=False))
    else:
        terminal.print_evaluation(evaluation, out)


@app.command("fit-world")
def fit_world(
    log: Annotated[str, typer.Argument(metavar="LOG", help="Records, or open-bandit:POLICY/CAMPAIGN.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for world.yaml and the page.")] = Path("runs/world"),
    segments: Annotated[int | None, typer.Option(metavar="N", help="Segments of visitors at most.")] = None,
    categories: Annotated[int | None, typer.Option(metavar="N", help="Categories at most.")] = None,
    data: Annotated[Path | None, typer.Option(metavar="DIR", help="Folder of the Open Bandit Dataset.")] = None,
    skip_bad: SkipBad = False,
    json: Annotated[bool, typer.Option("--json", help="Print summary.json to standard output.")] = False,
    debug: Debug = False,
) -> None:
    """Estimate a recommendation world from a log of clicks, for `zoosim run --config`, and show how well it fits."""
    from zoosim import logs, terminal

    options: dict[str, Any] = {"segments": segments, "categories": categories, "data": data, "skip_bad": skip_bad}
    world, fit = logs.fit_world(log, out, **options)
    if json:
        typer.echo((out / "summary.json").read_text(encoding="utf-8"), nl=False)
    else:
        terminal.print_world(world, fit, out)


@app.command("check-policy")
def check_policy(
    source: Annotated[str, typer.Argument(metavar="FILE.py:Class", help="The policy to check.")], debug: Debug = False
) -> None:
    """Put a policy through the contract tests; exit code 1 when one fails."""
    from zoosim.policies.contract import check_policy as check

    results = check(source)
    for result in results:
        mark = "ok  " if result.ok else "FAIL"
        typer.echo(f"{mark}  {result.name}{'' if result.ok else ': ' + result.message}")
    failed = sum(not result.ok for result in results)
    typer.echo(f"{len(results) - failed} of {len(results)} checks passed")
    if failed:
        sys.exit(1)
