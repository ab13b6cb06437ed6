"""Measure what learners are worth before and after each of two changes of what visitors like."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from studies.cache import kept_rows
from studies.session_curves import VISITORS_PER_VISIT, Learner, LearningRun, best_worth
from studies.work import names_of, rows_by_task
from zoosim.core.checks import check_whole
from zoosim.core.config import Shock
from zoosim.core.types import Progress
from zoosim.experiments.request import parse_seeds
from zoosim.policies.registry import make_entry
from zoosim.worlds.recommendation.shocks import LOUD, SILENT
from zoosim.worlds.sessions.world import Sessions

LEARNERS = {name: Learner(name, name, {}) for name in ("planner", "dqn", "q-table", "linucb", "d-linucb")}

VISITORS = 800
"""Visitors of each period: of the opening, after the loud shock, and after the silent one."""

CHECKPOINTS = (100, 300, 600, 1_000, 2_000, 3_000, 5_000, 10_000)
"""Visits since the last shock after which what was learned is looked at."""

BACK = 95.0
"""% of the optimum of the new laws from which a learner is back."""

PERIODS = ("opening", "loud shock", "silent shock")
"""The periods of a run, each of which begins with a change but the first."""


@dataclass(frozen=True)
class Followed:
    """What a learner was worth under the laws of a period, so many visits after it began, in % of their optimum.

    Visits are 0 right before the first visitor of the period; there are none where the period is over before.
    """

    learner: str
    seed: int
    period: str
    visits: int
    percent: float


def measure(
    *,
    seeds: Any = "1000:1008",
    jobs: Any = None,
    visitors: int = VISITORS,
    learners: Any = None,
    progress: Progress = lambda line: None,
) -> list[Followed]:
    """Return what each of the `learners`, all by default, is worth in three periods of `visitors`; kept on disk."""
    count = check_whole("shocks-sessions: visitors", visitors, 300, 1_000_000)
    names = names_of("shocks-sessions", "learner", learners, list(LEARNERS), "[planner, dqn]")
    chosen = [LEARNERS[name] for name in names]
    tasks = [(learner, seed) for learner in chosen for seed in parse_seeds(seeds)]
    return rows_by_task(partial(_kept, count), tasks, jobs=jobs, words=_words, progress=progress)


def _words(task: tuple[Learner, int]) -> str:
    return f"{task[0].name}, seed {task[1]}"


def _kept(visitors: int, task: tuple[Learner, int]) -> list[Followed]:
    learner, seed = task
    entry = make_entry(learner.policy, params=dict(learner.params))
    key = (entry.fingerprint, learner.name, sorted(learner.params.items()), seed, visitors, CHECKPOINTS)
    return kept_rows("shocks-sessions", key, Followed, partial(followed, learner, seed, visitors))


def shocks(visitors: int) -> list[dict[str, Any]]:
    """Return both shocks, each so many visitors after the one before."""
    return [_at(LOUD, visitors), _at(SILENT, 2 * visitors)]


def _at(shock: Shock, visitor: int) -> dict[str, Any]:
    return {"step": visitor, "name": shock.name, "set": shock.set}


def followed(learner: Learner, seed: int, visitors: int) -> list[Followed]:
    """Return what a learner is worth in each period, at each checkpoint.

    Args:
        learner: Who learns. It observes the whole state.
        seed: Seed of the visitors, and of the policy.
        visitors: Visitors of each period.
    """
    total = len(PERIODS) * visitors
    world = Sessions(seed, total, observe="state", shocks=shocks(visitors))
    run = LearningRun(learner, world, round(total / VISITORS_PER_VISIT))
    rows = []
    for number, name in enumerate(PERIODS):
        first = number * visitors
        truth = world.truth_of(first)
        in_percent = 100.0 / truth.value(truth.optimum)
        last = first + visitors
        before = run.visits
        for checkpoint in (0, *CHECKPOINTS):
            run.go_on(before + checkpoint, last=last)
            if run.visits < before + checkpoint:
                break  # the period is over
            percent = in_percent * best_worth(world, run.policy, first)
            rows.append(Followed(learner.name, seed, name, checkpoint, percent))
        run.meet(last)
    return rows


def visits_until_back(rows: Sequence[Followed]) -> int | None:
    """Return after how many visits since a shock a learner is back for good, None if it is not at the last checkpoint.

    Args:
        rows: Of one learner, seed and period, by visits.
    """
    back = None
    for row in rows:
        if row.percent < BACK:
            back = None
        elif back is None:
            back = row.visits
    return back
