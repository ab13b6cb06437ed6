"""Let learners of boosts meet visitors whom discounts lure, and look at them after so many visits."""

from dataclasses import dataclass
from functools import partial
from typing import Any

from studies.cache import kept_rows
from studies.session_curves import Learner, LearningRun
from studies.work import names_of, rows_by_task
from zoosim.core.checks import check_whole
from zoosim.core.types import FloatArray, Progress
from zoosim.experiments.request import parse_seeds
from zoosim.policies.base import Policy
from zoosim.policies.registry import make_entry
from zoosim.worlds.lure.world import Lure, LureVisit

LEARNERS = {
    learner.name: learner
    for learner in (
        Learner("item-critic", "item-critic", {}),
        Learner("q-ensemble", "q-ensemble", {}),
        Learner("actor-critic", "actor-critic", {}),
        Learner("actor-critic, visit", "actor-critic", {"discount": 0.0}),
    )
}
"""Who learns, the last one as the actor-critic learns that takes a visit for a visitor's life."""

VISITS = 5_000
CHECKPOINTS = (300, 1_000, 2_000, 5_000, 10_000, 30_000, 100_000)
"""Visits after which what was learned is looked at, up to those of a run."""


@dataclass(frozen=True)
class Reached:
    """What the boosts that a learner takes for best are worth after so many visits, in % of the optimum, exactly.

    `online` is what visitors brought since the checkpoint before, exploration included.
    """

    learner: str
    seed: int
    visits: int
    percent: float
    online: float


def measure(
    *,
    seeds: Any = "1000:1008",
    jobs: Any = None,
    visits: int = VISITS,
    learners: Any = None,
    progress: Progress = lambda line: None,
) -> list[Reached]:
    """Let each of the `learners`, by default all, meet visitors until these have made so many `visits`; kept."""
    count = check_whole("lure: visits", visits, 300, 10_000_000)
    names = names_of("lure", "learner", learners, list(LEARNERS), "[actor-critic, item-critic]")
    tasks = [(LEARNERS[name], seed) for name in names for seed in parse_seeds(seeds)]
    return rows_by_task(partial(_kept, count), tasks, jobs=jobs, words=_words, progress=progress)


def _words(task: tuple[Learner, int]) -> str:
    return f"{task[0].name}, seed {task[1]}"


def _kept(visits: int, task: tuple[Learner, int]) -> list[Reached]:
    learner, seed = task
    entry = make_entry(learner.policy, params=dict(learner.params))
    key = (entry.fingerprint, learner.name, sorted(learner.params.items()), seed, visits, CHECKPOINTS)
    return kept_rows("lure", key, Reached, partial(reached, learner, seed, visits))


def reached(learner: Learner, seed: int, visits: int) -> list[Reached]:
    """Return what a learner reaches at each checkpoint.

    Args:
        learner: Who learns.
        seed: Seed of the visitors, and of the policy.
        visits: Visits of the run.
    """
    world = Lure(seed, visits)
    run = LearningRun(learner, world, visits)
    truth = world.truth_of_all
    in_percent = 100.0 / truth.value_of(truth.optimum)
    rows = []
    for checkpoint in (*(mark for mark in CHECKPOINTS if mark < visits), visits):
        online = run.go_on(checkpoint)
        percent = in_percent * best_worth(world, run.policy)
        rows.append(Reached(learner.name, seed, checkpoint, percent=percent, online=in_percent * online))
    return rows


def best_worth(world: Lure, policy: Policy) -> float:
    """Return what a new visitor brings of whom a policy shows what it takes for best at each visit, in EUR; exact."""

    def boosts(segment: int, level: int) -> FloatArray:
        recommended: FloatArray = policy.recommend(world.context(LureVisit(0, 0, segment, level)))
        return recommended

    return world.truth_of_all.value(boosts)
