"""The Python call behind `zoosim tune`: settings tried by successive halving, and the winner judged anew."""

import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import chdir, redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoosim.api.runs import RunResult, finish_run, held_plan, open_backend
from zoosim.core.calls import automatic_progress, public_call
from zoosim.core.errors import ConfigError, PolicyFailure
from zoosim.core.extras import needs_extra
from zoosim.core.tabular import TabularResult

if TYPE_CHECKING:
    from concurrent.futures import Executor

    import polars as pl

    from zoosim.arena.backends import Backend
    from zoosim.arena.halving import Standing
    from zoosim.arena.plan import Plan
    from zoosim.arena.runner import RunOutcome
    from zoosim.core.tables import Table
    from zoosim.core.types import FloatArray, Progress
    from zoosim.experiments.tuning import Tuning
    from zoosim.policies.base import Policy

DEFAULT_OUT = "runs/tune-{experiment}-{hash}"
"""Folder of the command line's tunings when none is named."""

TUNING, JUDGED, TRIED, SUMMARY = "tuning", "judged", "tried.csv", "tune.json"
"""What stands in the folder of a tuning: two runs, the table of what was tried, and the figures."""


@dataclass(frozen=True, repr=False)
class TuneResult(TabularResult):
    """What was tried, which setting won, and how it does on seeds that tuning never saw.

    `summary` is tune.json; `verdict` a sentence; `judged` the run on the other seeds, of the winner and of the same
    policy as it was, in which it is called by the setting's name; `notes` lines worth reading.
    """

    path: Path
    summary: dict[str, Any]
    verdict: str
    judged: RunResult
    notes: tuple[str, ...]
    temporary: "tempfile.TemporaryDirectory[str] | None" = None

    @property
    def winner(self) -> dict[str, Any]:
        """The setting that won: its name, the policy, its type, all its parameters, and those that were tuned."""
        return dict(self.summary["winner"])

    @property
    def tried(self) -> "pl.DataFrame":
        """A row per setting, the winner first: what it was, on how many seeds it was tried, how far it lay behind."""
        import polars as pl

        names = dict.fromkeys(key for row in self.summary["tried"] for key in row["tuned"])
        rows = [
            {
                **{key: value for key, value in row.items() if key != "tuned"},
                **{name: row["tuned"].get(name) for name in names},
            }
            for row in self.summary["tried"]
        ]
        return pl.DataFrame(rows, infer_schema_length=None, strict=False)

    def to_polars(self) -> "pl.DataFrame":
        """Return `tried`."""
        return self.tried

    def _headline(self) -> str:
        return self.verdict

    def _tables(self) -> "list[Table]":
        from zoosim.experiments.tuning import tried_table

        return [tried_table(self.summary)]


@public_call
def tune(
    experiment: str | os.PathLike[str],
    over: str | Sequence[str],
    *,
    extra: "Sequence[str | type[Policy]]" = (),
    candidates: int | None = None,
    seeds: str | int | Sequence[int] = "0:64",
    judge: str | int | Sequence[int] = "1000:1032",
    steps: int | None = None,
    config: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    settings: Sequence[str] = (),
    jobs: int | None = None,
    executor: "Executor | str | None" = None,
    isolate: bool = False,
    out: str | os.PathLike[str] | None = None,
    progress: "Progress | bool | None" = automatic_progress,
) -> TuneResult:
    """Tune parameters of policies: try many settings on few seeds, the better ones on more, and judge the winner anew.

    Successive halving (Karnin et al. 2013; Jamieson & Talwalkar 2016): all settings of a round meet the same visitors,
    and the half with the higher mean fraction of oracle goes on to twice as many seeds. Each policy takes part as it
    is, too. The winner's mean while tuning is the highest of many, hence too high; so it is judged, beside the same
    policy as it was, on seeds that tuning never saw.

    Args:
        experiment: The name of an experiment, `FILE.world` or `FILE.py:World`, as `run` takes it.
        over: What to try: "POLICY.KEY=A,B,C" lists values, "POLICY.KEY=LOW:HIGH" draws them evenly, and
            "POLICY.KEY=LOW:HIGH:log" evenly in the logarithm. All combinations of lists are tried.
        extra: Policies of yours, `FILE.py:Class` or classes, which `over` may name.
        candidates: Settings to draw per policy. Default: 32 where there are ranges.
        seeds: Seeds to tune on, as `run` takes them; the last round uses all.
        judge: Other seeds, on which the winner is judged.
        steps: Visits per seed. Default: the experiment's.
        config: Changes to the defaults: a YAML file, or what it would hold.
        settings: Further changes, each `PATH=VALUE`; they win over `config`.
        jobs: Number of processes. Default: one per core.
        executor: Computes the trials in place of processes of this machine, as in `run`.
        isolate: Run policies of yours in other processes even with one job.
        out: A folder that keeps all trials, and is resumed where it holds a part of them. Default: a temporary one.
        progress: Show a line on how far it is, as long as it takes; a function takes it instead.

    Returns:
        What was tried, the winner, and the run that judged it.

    Raises:
        ConfigError: an argument is invalid, or a seed would be both tuned on and judged by; nothing is written.
        DataError: a file of the world is broken.
        PolicyError: a policy cannot be found or made.
        PolicyFailure: all settings failed.
        WorldError: a world of your own cannot be found, or fails; finished trials are kept.
    """
    needs_extra("tune", "lab")
    from zoosim.core.checks import check_whole
    from zoosim.experiments.request import RunRequest, parse_seeds
    from zoosim.experiments.tuning import make_tuning

    count = None if candidates is None else check_whole("candidates", candidates, 1, 10_000)
    request = RunRequest(experiment, seeds, steps, None, extra, config, settings)
    listed = [over] if isinstance(over, str) else over
    with chdir("."), redirect_stdout(sys.stderr):
        tuning = make_tuning(request, listed, candidates=count, judge=parse_seeds(judge))
    temporary = tempfile.TemporaryDirectory(prefix="zoosim-") if out is None else None
    try:
        path = Path(temporary.name) if temporary is not None else _folder(tuning, out or "")
        _check_folder(path)
        with chdir("."), redirect_stdout(sys.stderr), open_backend(jobs, executor, isolate=isolate) as backend:
            result = _Tuner(tuning, path, backend, progress).result(temporary)
    except BaseException:
        if temporary is not None:
            temporary.cleanup()
        raise
    return result


def _folder(tuning: "Tuning", out: str | os.PathLike[str]) -> Path:
    """Return the folder of a tuning; by default one per experiment, world, seeds and settings."""
    from zoosim.core.digests import value_digest

    if out != DEFAULT_OUT:
        return Path(out)
    plan = tuning.plan
    asked = {
        **plan.identity,
        "seeds": list(plan.seeds),
        "judge": list(tuning.judge),
        "tried": [entry.name for entry in tuning.settings],
    }
    return Path(DEFAULT_OUT.format(experiment=plan.experiment.title, hash=value_digest(asked)[:8]))


def _check_folder(path: Path) -> None:
    """Refuse a folder of other things, and one that cannot be written to."""
    from zoosim.core.files import make_folder

    if path.exists() and not path.is_dir():
        raise ConfigError(f"--out: {path} is a file, expected a folder")
    held = {item.name for item in path.iterdir() if not item.name.startswith(".")} if path.exists() else set()
    if held - {TUNING, JUDGED, TRIED, SUMMARY}:
        other = min(held - {TUNING, JUDGED, TRIED, SUMMARY})
        raise ConfigError(f"--out: {path} holds {other}, not a tuning; name an empty or a new folder")
    make_folder(path)


class _Tuner:
    """Runs the rounds in one folder and the judgement in another; what they hold already is not computed again."""

    def __init__(self, tuning: "Tuning", path: Path, backend: "Backend", progress: Any) -> None:
        self._tuning = tuning
        self._path = path
        self._backend = backend
        self._progress = progress
        self._failures: dict[str, PolicyFailure] = {}

    def result(self, temporary: "tempfile.TemporaryDirectory[str] | None") -> TuneResult:
        """Tune, judge, and write the figures and the table."""
        from zoosim.core.files import write_text
        from zoosim.experiments.tuning import tuning_summary, verdict

        self._check_judged()
        standings = self._standings()
        judged = self._judged(standings[0].name)
        trials = sum(len(standing.scores) for standing in standings)
        summary = tuning_summary(self._tuning, standings, self._failures, trials, judged.summary)
        write_text(self._path / SUMMARY, json.dumps(summary, indent=2, allow_nan=False) + "\n")
        result = TuneResult(self._path, summary, verdict(summary), judged, self._tuning.plan.notes, temporary)
        write_text(self._path / TRIED, result.tried.write_csv())
        return result

    def _standings(self) -> "list[Standing]":
        """Return how all settings fared; raises `PolicyFailure` where all failed."""
        from zoosim.arena.halving import halve, rounds

        plan = self._tuning.plan
        names = [entry.name for entry in self._tuning.settings]
        self._rounds = len(rounds(len(names), len(plan.seeds)))
        standings = halve(names, plan.seeds, self._scores)
        if standings[0].left:
            raise next(iter(self._failures.values()))
        return standings

    def _scores(self, number: int, names: Sequence[str], seeds: Sequence[int]) -> "dict[str, FloatArray]":
        """Run a round, and return the fraction of oracle of each setting that did not fail, by seed."""
        import numpy as np

        from zoosim.arena.metrics import oracle_fraction
        from zoosim.arena.store import RunFolder, TrialKey

        doing = f"round {number} of {self._rounds}, {len(names)} settings on {len(seeds)} seeds"
        outcome = self._run(self._plan(names, seeds), TUNING, doing)
        for failure in outcome.failures:
            self._failures.setdefault(failure.policy, failure)
        folder = RunFolder(self._path / TUNING)
        scores = {}
        for name in names:
            if name not in self._failures:
                trials = [folder.read_trial(TrialKey(name, seed)) for seed in seeds]
                scores[name] = np.array([oracle_fraction(rows, 0, len(rows.rewards)) for rows in trials])
        return scores

    def _check_judged(self) -> None:
        """Refuse a folder that holds a judgement on other seeds, whose trials would count in this one."""
        held = held_plan(self._path / JUDGED)
        others = set() if held is None else set(held.seeds) - set(self._tuning.judge)
        if others:
            raise ConfigError(
                f"--out: {self._path} holds a judgement on seed {min(others)}, which is not among those to judge by; "
                "name a new folder"
            )

    def _judged(self, winner: str) -> RunResult:
        """Return the run of the winner, and of the same policy as it was, on the other seeds."""
        names = dict.fromkeys((winner, self._tuning.unchanged[winner].name))
        seeds = self._tuning.judge
        plan = self._plan(list(names), seeds)
        outcome = self._run(plan, JUDGED, f"judging the winner on {len(seeds)} other seeds")
        return finish_run(self._path / JUDGED, outcome, None)

    def _plan(self, names: Sequence[str], seeds: Sequence[int]) -> "Plan":
        entries = tuple(self._tuning.setting(name) for name in names)
        return replace(self._tuning.plan, entries=entries, seeds=tuple(seeds))

    def _run(self, plan: "Plan", folder: str, doing: str) -> "RunOutcome":
        from zoosim.arena.runner import missing_trials, run_plan
        from zoosim.rehearsal.progress import RunLines

        path = self._path / folder
        lines = RunLines(self._progress, doing)
        held = held_plan(path)
        lines.start(plan, missing_trials(plan, path, False), self._backend.jobs)
        return run_plan(plan, path, backend=self._backend, keep_log=False, report=lines.report, held=held)
