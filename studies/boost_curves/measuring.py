"""Measure every learner's learning curve on every seed, and the baselines beside it."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from studies.boost_curves.baselines import baseline_scores, best_boosts, per_cell
from studies.boost_curves.learners import DEFAULT, LEARNERS, OTHER_VISITS, SHOPS
from studies.boost_curves.records import ALL, OnlineResult, Score, SegmentBoosts
from studies.held_out import CHECKPOINTS, EARLY, learning_curve_of
from studies.side_by_side import side_by_side
from zoosim.arena.backends.local import default_jobs
from zoosim.core.checks import check_whole
from zoosim.core.errors import ConfigError
from zoosim.core.parameters import shown
from zoosim.core.search_names import FEATURES
from zoosim.core.types import Progress
from zoosim.experiments.request import parse_seeds

ALL_SHOPS = "all"

Row = Score | OnlineResult | SegmentBoosts


class Task(NamedTuple):
    """A learning curve to be measured: a learner in the shop of a seed and behaviour, scored at checkpoints."""

    policy: str
    behaviour: str
    seed: int
    checkpoints: tuple[int, ...]


def measure(
    *,
    seeds: Any = "1000:1020",
    visits: Any = 10_000,
    behaviour: Any = ALL_SHOPS,
    policies: Any = None,
    jobs: Any = None,
    progress: Progress = lambda line: None,
) -> list[Row]:
    """Measure baselines and learners over so many `visits` per seed, 1,000 at most in other shops.

    `behaviour` is "default", "changed" (other behaviour of visitors), "savvy" (with savvy shoppers) or "all";
    `policies` are names of learners, all by default. What is finished is kept on disk, so a run that was stopped goes
    on. Raises `ConfigError`.
    """
    behaviours = _behaviours(behaviour)
    learners = _learners(policies)
    last = check_whole("boost-curves: visits", visits, 1, 1_000_000)
    n_jobs = check_whole("boost-curves: jobs", default_jobs() if jobs is None else jobs, 1, 1_024)
    shops = [(name, seed) for name in behaviours for seed in parse_seeds(seeds)]
    tasks = [Task(policy, name, seed, checkpoints_of(name, last)) for name, seed in shops for policy in learners]
    counter = ProgressCounter(len(shops) + len(tasks), progress)
    baselines = side_by_side(_baselines, shops, jobs=n_jobs, done=lambda shop, rows: counter.baselines(*shop, rows))
    curves = side_by_side(_learning_curve, tasks, jobs=n_jobs, done=counter.curve)
    return [row for rows in (*baselines, *curves) for row in rows]


def checkpoints_of(behaviour: str, visits: int) -> tuple[int, ...]:
    """Return after how many of its `visits` a learner is scored, fewer in other shops."""
    last = visits if behaviour == DEFAULT else min(visits, OTHER_VISITS)
    return (*(checkpoint for checkpoint in CHECKPOINTS if checkpoint < last), last)


def _behaviours(behaviour: Any) -> tuple[str, ...]:
    if behaviour == ALL_SHOPS:
        return tuple(SHOPS)
    if behaviour not in tuple(SHOPS):
        expected = f"expected {', '.join(SHOPS)} or {ALL_SHOPS}"
        raise ConfigError(f"boost-curves: behaviour: got {shown(behaviour)}, {expected}")
    return (behaviour,)


def _learners(policies: Any) -> tuple[str, ...]:
    if policies is None:
        return tuple(LEARNERS)
    is_list = isinstance(policies, Sequence) and not isinstance(policies, str) and len(policies) > 0
    if not is_list or not all(name in tuple(LEARNERS) for name in policies):
        expected = f"expected a list of some of {', '.join(LEARNERS)}"
        raise ConfigError(f"boost-curves: policies: got {shown(policies)}, {expected}")
    return tuple(name for name in LEARNERS if name in policies)


def _baselines(shop: tuple[str, int]) -> list[Row]:
    behaviour, seed = shop
    return [*baseline_scores(behaviour, seed), *best_boosts(behaviour, seed)]


def _learning_curve(task: Task) -> list[Row]:
    """Measure a learning curve, unless it is on disk."""
    policy, behaviour, seed, checkpoints = task
    curve = learning_curve_of(LEARNERS[policy].entry(policy), SHOPS[behaviour], seed, checkpoints)
    scores = [
        Score(policy, behaviour, seed, score.visits, score.segment, score.reward, score.optimum)
        for score in curve.scores
    ]
    earned = curve.earned if checkpoints[-1] >= EARLY[1] else None
    boosts = [
        SegmentBoosts(policy, behaviour, seed, segment, dict(zip(FEATURES, values, strict=True)))
        for segment, values in (curve.boosts or {}).items()
    ]
    return [
        *scores,
        *boosts,
        OnlineResult(policy, behaviour, seed, earned, curve.decision_ms, curve.learning_ms, curve.coverage),
    ]


class ProgressCounter:
    """Counts what is finished, and reports a line about each."""

    def __init__(self, total: int, progress: Progress) -> None:
        """Count up to a `total`."""
        self.count = 0
        self.total = total
        self.progress = progress

    def baselines(self, behaviour: str, seed: int, rows: Sequence[Row]) -> None:
        """Report the baselines of a seed."""
        self._report(behaviour, seed, per_cell("vectors"), rows)

    def curve(self, task: Task, rows: Sequence[Row]) -> None:
        """Report a learning curve."""
        self._report(task.behaviour, task.seed, task.policy, rows)

    def _report(self, behaviour: str, seed: int, name: str, rows: Sequence[Row]) -> None:
        scores = [row for row in rows if isinstance(row, Score) and (row.policy, row.segment) == (name, ALL)]
        result = f"{name} {100 * scores[-1].share:.1f}% of the optimum"
        self.count += 1
        self.progress(f"{self.count} of {self.total}, seed {seed}, {behaviour} behaviour: {result}")
