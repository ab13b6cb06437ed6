"""The Python calls behind the command line: run an experiment, read a run's folder, draw its page."""

import os
import shlex
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import chdir, contextmanager, redirect_stdout
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from zoosim.core.calls import public_call
from zoosim.core.errors import ConfigError, PolicyFailure
from zoosim.core.extras import needs_extra
from zoosim.core.files import read_text
from zoosim.core.tabular import TabularResult

if TYPE_CHECKING:
    from concurrent.futures import Executor

    import plotly.graph_objects as go
    import polars as pl

    from zoosim.api.live import RunPage
    from zoosim.arena.backends import Backend
    from zoosim.arena.plan import Plan
    from zoosim.arena.runner import RunOutcome
    from zoosim.arena.store import RunFolder, TrialKey
    from zoosim.arena.summary import Comparison
    from zoosim.arena.trial import Report
    from zoosim.core.tables import Table
    from zoosim.experiments.request import RunRequest
    from zoosim.policies.base import Policy
    from zoosim.progress import Progress
    from zoosim.worlds.facts import Reference


DEFAULT_OUT = "runs/{experiment}-{hash}"
"""Folder of the command line's runs when none is named."""


@dataclass(frozen=True, repr=False)
class RunResult(TabularResult):
    """A finished run: figures, frames and the page.

    `summary` is summary.json; `verdict` a sentence; `failures` the trials whose policy failed;
    `notes` lines worth reading; `reference` what a classifier trained on all labels reaches, in experiments that have
    one.
    """

    plan: "Plan"
    path: Path
    summary: dict[str, Any]
    verdict: str
    failures: tuple[PolicyFailure, ...]
    notes: tuple[str, ...]
    command: str
    comparison: "Comparison"
    temporary: "tempfile.TemporaryDirectory[str] | None" = None

    @cached_property
    def rows(self) -> "pl.DataFrame":
        """All rows: seed, step, policy, action, reward, true_probability, best_probability, and whose they are."""
        return _folder(self.path).read_rows()

    @cached_property
    def policies(self) -> "pl.DataFrame":
        """One row per policy, the best first: fraction of oracle with interval, sd, worst seed, what visits earned."""
        import polars as pl

        return pl.DataFrame([self._row(name) for name in self.comparison.ranked])

    def _row(self, name: str) -> dict[str, Any]:
        figures = self.summary["policies"][name]
        fraction = figures["oracle_fraction"]
        keys = {"oracle_fraction": "mean", "low": "low", "high": "high", "sd": "sd", "min": "min"}
        world = self.plan.any_world
        earned = {
            key: figures[key]["mean"]
            for key in (world.reward_scale.key, *(each.key for each in world.reported_measures))
        }
        return {"policy": name, **{k: fraction[v] for k, v in keys.items()}, **earned}

    @cached_property
    def pairs(self) -> "pl.DataFrame":
        """One row per pair of policies: difference in fraction of oracle, interval, Holm-corrected p."""
        import polars as pl

        return pl.DataFrame(self.summary["pairs"])

    @cached_property
    def references(self) -> "tuple[Reference, ...]":
        """Values of the world to compare policies with, such as the accuracy of a classifier trained on all labels."""
        return self.plan.any_world.reference_values()

    @cached_property
    def figures(self) -> "dict[str, go.Figure]":
        """The figures of the page, by name."""
        from zoosim.report.figures import figures

        return figures(self._report())

    def page(self) -> str:
        """Return the report as one HTML page."""
        from zoosim.report.page import render_page

        return render_page(self._report())

    def to_polars(self) -> "pl.DataFrame":
        """Return `policies`, a row per policy."""
        return self.policies

    def _headline(self) -> str:
        return self.verdict

    def _tables(self) -> "list[Table]":
        from zoosim.arena.tables import results_table

        return [results_table(self.plan, self.summary, self.comparison.ranked)]

    def _page(self) -> str:
        return self.page()

    def _report(self) -> Any:
        import numpy as np

        from zoosim.report.data import Curve, ReportData

        experiment = self.plan.experiment
        visits = np.asarray(self.comparison.at, float)
        curves = {
            name: {kind: Curve(visits, *band) for kind, band in kinds.items()}
            for name, kinds in self.comparison.curves().items()
        }
        return ReportData(
            title=experiment.title,
            question=experiment.question,
            command=self.command,
            verdict=self.verdict,
            notes=self.notes,
            config_yaml=read_text(self.path / "config.yaml"),
            summary=self.summary,
            shocks=tuple((shock.step, shock.name) for shock in self.plan.shocks),
            curves=curves,
            references=self.references,
            reward=self.plan.any_world.reward_scale,
            measures=self.plan.any_world.reported_measures,
            oracle=self.plan.any_world.oracle_note,
            features=experiment.features,
            window=self.plan.window,
            findings=tuple(self.comparison.findings()),
            targets=self.plan.any_world.reported_targets,
        )


@public_call
def run(
    experiment: str | os.PathLike[str],
    *,
    policies: "Sequence[str | type[Policy]] | None" = None,
    extra: "Sequence[str | type[Policy]]" = (),
    seeds: str | int | Sequence[int] | None = None,
    steps: int | None = None,
    config: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    settings: Sequence[str] = (),
    jobs: int | None = None,
    out: str | os.PathLike[str] | None = None,
    log: bool = False,
    csv: bool = False,
    through: str | None = None,
    isolate: bool = False,
    executor: "Executor | str | None" = None,
    report: "Report | None" = None,
    started: "Callable[[Plan, Sequence[TrialKey], int | None], None] | None" = None,
    progress: bool | None = True,
    live: "RunPage | None" = None,
) -> RunResult:
    """Compare policies on the same visitors, and return the figures and a page.

    Args:
        experiment: The name of an experiment (`zoosim list`), the file of a fitted world, `FILE.world`, or a world of
            your own, `FILE.py:World`.
        policies: Who competes: built-in names, `FILE.py:Class`, classes, or files of trained policies (`FILE.zoosim` of
            `train`, `FILE.npz` of `save_policy`), which begin each seed with what they have learned. Default: the
            experiment's own.
        extra: Policies of yours that compete beside those.
        seeds: A count (0 to n - 1), a range `a:b` (b left out) or a list. Default: the experiment's.
        steps: Visits per seed. Default: the experiment's.
        config: Changes to the defaults: a YAML file, or what it would hold.
        settings: Further changes, each `PATH=VALUE`, such as "env.n_products=100"; they win over `config`.
        jobs: Number of processes. Default: one per core.
        out: A folder that keeps the run, and is resumed where it holds a part of it. Default: a temporary one.
        log: Also keep the Records of every trial, with propensities.
        csv: Also write rows.csv.
        through: The address of a running service: it decides for the visitors of one seed, as the policy `service`, and
            is told what they earn. Others compete beside it that `policies` or `extra` name.
        isolate: Run policies of yours in other processes even with one job: a crash then fails the policy alone.
            The command line does; leave it out to step through your code in a debugger.
        executor: Computes the trials, perhaps on other machines, with the same results to the bit: any
            `concurrent.futures.Executor`, such as Dask's `client.get_executor()`, or the address of a cluster,
            `dask:ADDRESS` or `ray:ADDRESS`. Default: processes of this machine.
        report: Called with progress: a trial, visits since the last call, and a line.
        started: Called once before the first trial, with the plan, the trials to compute and the number of jobs, None
            with an executor.
        progress: Show a bar on standard error where that is a terminal or a notebook, unless `report` is given.
        live: A page that shows the run to browsers on this machine while it goes on (`zoosim.api.live.RunPage`).

    Returns:
        Figures, rows and page. Policies that failed on the way are in its `failures`.

    Raises:
        ConfigError: a name, a setting or the folder is invalid; nothing is written.
        DataError: a file of the world is.
        PolicyError: a policy cannot be found or made, or its actions cannot be logged.
        WorldError: a world of your own cannot be found, or fails; finished trials are kept.
    """
    needs_extra("run", "lab")
    from zoosim.arena.recording import check_logged
    from zoosim.arena.runner import check_same_run, missing_trials, run_plan
    from zoosim.experiments.plan import make_plan
    from zoosim.experiments.request import RunRequest

    request = RunRequest(experiment, seeds, steps, policies, extra, config, settings)
    if through is not None:
        request = _with_service(request, through)
    with chdir("."), redirect_stdout(sys.stderr):  # for what a policy's file prints, and where it goes
        plan = make_plan(request)
    if through is not None:
        plan = _plan_with_service(plan, through, log)
    if log:
        for entry in plan.entries:
            check_logged(plan, entry)
    temporary = tempfile.TemporaryDirectory(prefix="zoosim-") if out is None else None
    try:
        path = _folder_of_run(plan, temporary.name if out is None and temporary else out or "")
        is_shown = bool(progress) and report is None and started is None
        with (
            _progress_bar(is_shown) as bar,
            chdir("."),
            redirect_stdout(sys.stderr),
            open_backend(jobs, executor, isolate=isolate) as backend,
        ):
            if bar is not None:
                report = bar.report
                started = bar.start
            missing = missing_trials(plan, path, log) if started or live is not None else []
            if live is not None:
                check_same_run(plan, held_plan(path), path)
                live.show(plan, path, missing, backend.jobs)
            if started:
                started(plan, missing, backend.jobs)
            outcome = run_plan(
                plan,
                path,
                backend=backend,
                keep_log=log,
                report=_told(report, None if live is None else live.report),
                held=held_plan(path),
            )
        result = finish_run(path, outcome, temporary, csv=csv)
        if live is not None:
            live.finish(result)
    except BaseException:
        if temporary is not None:
            temporary.cleanup()
        raise
    return result


def _told(*listeners: "Report | None") -> "Report":
    """Return what tells a report to all who listen."""

    def tell(key: "TrialKey", visits: int, line: str) -> None:
        for listener in listeners:
            if listener is not None:
                listener(key, visits, line)

    return tell


@contextmanager
def open_backend(jobs: int | None, executor: "Executor | str | None", *, isolate: bool) -> "Iterator[Backend]":
    """Yield what computes trials: so many processes of this machine, one per core by default, or an executor's workers.

    Raises:
        ConfigError: `jobs` is no number of processes, or is given beside an executor, or the executor is of no use.
    """
    from zoosim.arena.backends.local import Local, default_jobs
    from zoosim.core.checks import check_whole

    if executor is None:
        yield Local(default_jobs() if jobs is None else check_whole("jobs", jobs, 1, 1024), isolate=isolate)
        return
    from zoosim.arena.backends.clusters import open_executor
    from zoosim.arena.backends.remote import Remote

    if jobs is not None:
        raise ConfigError("jobs: says how many processes of this machine compute, not an executor's; leave one out")
    with open_executor(executor) as opened:
        backend = Remote(opened)
        backend.greet(lambda line: print(line, file=sys.stderr))
        yield backend


@contextmanager
def _progress_bar(is_shown: bool) -> "Iterator[Progress | None]":
    """Show a bar where somebody sits before it; None where nobody does, or where it is not to be shown."""
    from zoosim.core.status_line import is_watched
    from zoosim.progress import Progress

    if not is_shown or not is_watched():
        yield None
        return
    with Progress() as bar:
        yield bar


def _with_service(request: "RunRequest", url: str) -> "RunRequest":
    """Add a running service to a request, under a name of its decisions that no other run has."""
    from zoosim.serving.through import ThroughService

    parameters = {"url": url, "run": uuid.uuid4().hex[:12]}
    return replace(
        request,
        seeds=1 if request.seeds is None else request.seeds,
        policies=() if request.policies is None else request.policies,
        extra=(*request.extra, ThroughService),
        settings=(
            *request.settings,
            *(f"policies.{ThroughService.name}.{key}='{text}'" for key, text in parameters.items()),
        ),
    )


def _plan_with_service(plan: "Plan", url: str, log: bool) -> "Plan":
    """Return a plan with a note on the service; raises `ConfigError` for what a service cannot do, or where none is."""
    from zoosim.serving.through import describe_service

    if len(plan.seeds) > 1:
        got = f"got {len(plan.seeds)} seeds, expected one: what a service has learned of a shop, it keeps"
        raise ConfigError(f"through: {got}; serve a new one for the next seed")
    if log:
        raise ConfigError("through: the service keeps a log itself (zoosim export); leave out --log")
    return replace(plan, notes=(*plan.notes, describe_service(url)))


def held_plan(path: Path) -> "Plan | None":
    """Return the plan of the run that a folder holds; None where it holds none."""
    from zoosim.experiments.plan import finished_plan

    folder = _folder(path)
    folder.check()
    return finished_plan(folder.read_config()) if (path / "config.yaml").exists() else None


def _folder_of_run(plan: "Plan", out: str | os.PathLike[str]) -> Path:
    """Return the folder of a run; by default one per experiment, world and parameters."""
    if out == DEFAULT_OUT:
        return Path(DEFAULT_OUT.format(experiment=plan.experiment.title, hash=plan.folder_hash[:8]))
    return Path(out)


@public_call
def read_run(path: str | os.PathLike[str]) -> RunResult:
    """Read a run's folder again and draw its page anew."""
    from zoosim.arena.runner import RunOutcome
    from zoosim.experiments.plan import finished_plan

    folder = _folder(Path(path))
    if not folder.path.is_dir():
        raise ConfigError(f"{path} is not a folder; give the folder of a run")
    config = folder.read_config()
    plan = finished_plan(config)
    folder.check()
    return finish_run(folder.path, RunOutcome(0.0, tuple(_earlier_failures(folder, ())), plan.notes), None)


class WrittenLog(NamedTuple):
    """The number of decisions in a log, and their mean reward."""

    decisions: int
    mean_reward: float


@public_call
def write_log(
    out: str | os.PathLike[str],
    *,
    n: int = 200_000,
    policy: "str | type[Policy]" = "random",
    seed: int = 0,
    world: str | os.PathLike[str] | None = None,
    config: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    settings: Sequence[str] = (),
) -> WrittenLog:
    """Write a policy's decisions in a simulated shop as a log of Records.

    Args:
        out: The log to write; it ends in `.parquet`.
        n: Number of visitors, at least 1.
        policy: A built-in name, `FILE.py:Class`, a policy's file or a class.
        seed: Seed of shop and policy.
        world: An experiment's name, `FILE.py:World` or `FILE.world`. Default: the gauntlet's shop without its shocks,
            for a policy of boosts or templates the search shop.
        config: A YAML file or a mapping with parameters of the shop.
        settings: Further changes, each `PATH=VALUE`, such as "env.n_products=100"; they win over `config`.

    Returns:
        The number of decisions and their mean reward.

    Raises:
        ConfigError, DataError, PolicyError: an argument is invalid, or the policy failed; nothing was written.
    """
    from zoosim.action_spaces import find_action_space
    from zoosim.arena.loop import play
    from zoosim.arena.past import fit_policy
    from zoosim.arena.recording import check_logged, record_frames, write_records
    from zoosim.core.checks import check_whole
    from zoosim.core.errors import ConfigError
    from zoosim.experiments.plan import MAX_STEPS, make_plan
    from zoosim.experiments.request import RunRequest
    from zoosim.policies.registry import find_class

    path = Path(out).absolute()  # a policy may change the working directory
    if path.is_dir() or path.suffix != ".parquet":
        raise ConfigError(f"log: got {str(out)!r}, expected a file that ends in .parquet")
    seeds = [seed] if isinstance(seed, int) else seed
    experiment = find_action_space(find_class(policy).chooses[0]).experiment if world is None else world
    check_whole("n", n, 1, MAX_STEPS)
    plan = make_plan(RunRequest(experiment, seeds, n, [policy], (), config, settings))
    entry = plan.entries[0]
    check_logged(plan, entry)
    shop = plan.world(plan.seeds[0], entry)
    try:
        made, _ = fit_policy(entry, shop, plan.steps, lambda line: None)
        blocks = list(play(shop, made, n, logged=True, judged=False))
    except PolicyFailure as error:
        raise error.named(entry.name) from error
    try:
        write_records(path, shop, record_frames(shop, blocks, entry.name, entry.fingerprint))
    except OSError as error:
        raise ConfigError(f"log: {path} cannot be written ({error.strerror}); name another file") from None
    decisions = sum(len(block.rewards) for block in blocks)
    return WrittenLog(decisions, float(sum(block.rewards.sum() for block in blocks) / decisions))


def finish_run(
    path: Path,
    outcome: "RunOutcome",
    temporary: "tempfile.TemporaryDirectory[str] | None",
    *,
    csv: bool = False,
) -> RunResult:
    """Compute the figures of all that the folder holds, and write rows, summary and page.

    Seconds and failures of `outcome` are this call's; those of earlier calls are added. A rows.csv that is there stays
    in step.
    """
    from zoosim.arena.summary import Comparison
    from zoosim.core.files import write_text
    from zoosim.experiments.plan import finished_plan

    folder = _folder(path)
    whole = finished_plan(folder.read_config())
    comparison = Comparison(whole, folder, [*_earlier_failures(folder, outcome.failures), *outcome.failures])
    # Rows are written beside the summary and the page, which take as long.
    with ThreadPoolExecutor(1) as beside:
        rows_are_written = beside.submit(folder.write_rows, folder.trials())
        summary = comparison.summary(outcome.seconds + folder.old_summary().get("wall_seconds", 0.0))
        command = _command(whole, path, temporary is None)
        result = RunResult(
            whole, path, summary, comparison.verdict(), outcome.failures, outcome.notes, command, comparison, temporary
        )
        page = result.page()
        rows_are_written.result()
    if csv or (path / "rows.csv").exists():
        folder.write_csv()
    folder.write_summary(summary)
    write_text(path / "report.html", page)
    return result


def _earlier_failures(folder: "RunFolder", new: Sequence[PolicyFailure]) -> list[PolicyFailure]:
    """Return the failures that the folder's summary tells of, where no trial and no newer failure has come since."""
    from zoosim.arena.store import TrialKey

    settled = {*folder.trials(), *(TrialKey(failure.policy, failure.seed) for failure in new)}
    return [
        PolicyFailure(name, item["seed"], item["step"], item["error"], item["place"])
        for name, figures in folder.old_summary().get("policies", {}).items()
        for item in figures.get("failed", [])
        if TrialKey(name, item["seed"]) not in settled
    ]


def _command(plan: "Plan", path: Path, kept: bool) -> str:
    """Say how to run this again, quoted for a shell."""
    config = str(path / "config.yaml") if kept else "config.yaml"
    return shlex.join(["zoosim", "run", plan.experiment.name, "--config", config])


def _folder(path: Path) -> "RunFolder":
    from zoosim.arena.store import RunFolder

    return RunFolder(path)
