"""Train learners on logs of a bandit, and tell the exact worth of what they then take for best."""

import json
from dataclasses import asdict, dataclass
from functools import cache, partial
from typing import Any

import numpy as np

from studies.cache import kept_array
from studies.session_curves import best_worth
from studies.session_logs import SessionLogs
from studies.work import rows_by_task
from zoosim.core.rng import stream
from zoosim.core.types import Progress
from zoosim.experiments.request import parse_seeds
from zoosim.policies.registry import make_entry
from zoosim.worlds.sessions.world import Sessions

LEARNERS = ("linucb", "q-table", "dqn", "planner")
VISITORS = (200, 2_000, 20_000)
"""Visitors of a log: whole lives, of one and a half visits on average."""


@dataclass(frozen=True)
class Trained:
    """What a learner takes for best after a log of so many `visitors` and `visits`, in % of the optimum, exactly."""

    learner: str
    seed: int
    visitors: int
    visits: int
    percent: float


def measure(*, seeds: Any = "1000:1008", jobs: Any = None, progress: Progress = lambda line: None) -> list[Trained]:
    """Train each learner on a log of each length, for each seed; what is measured is kept on disk."""
    tasks = [(learner, seed, count) for learner in LEARNERS for count in VISITORS for seed in parse_seeds(seeds)]
    return rows_by_task(_kept, tasks, jobs=jobs, words=_words, progress=progress)


def _words(task: tuple[str, int, int]) -> str:
    return f"{task[0]}, seed {task[1]}, {task[2]:,} visitors"


def _kept(task: tuple[str, int, int]) -> list[Trained]:
    key = (make_entry(task[0]).fingerprint, *task)
    return [Trained(**json.loads(str(kept_array("offline-sessions", key, partial(_text, task)))))]


def _text(task: tuple[str, int, int]) -> str:
    return json.dumps(asdict(trained_on(*task)))


def trained_on(learner: str, seed: int, visitors: int) -> Trained:
    """Train a learner on a log of so many visitors.

    Args:
        learner: The name of a policy.
        seed: Seed of the log, and of the policy.
        visitors: Whole lives in the log.
    """
    log, _ = _logs().draw(visitors, seed)
    assert log.lives is not None
    world = Sessions(seed, visitors, observe="state", per_kind=1)
    policy = make_entry(learner).make(world.spec(visitors), stream(seed, "policy", learner), None)
    policy.fit(log)
    truth = world.truth_of(0)
    visits = len(np.unique(np.column_stack([log.lives.visitor, log.lives.visit]), axis=0))
    percent = 100.0 * best_worth(world, policy) / truth.value(truth.optimum)
    return Trained(learner, seed, visitors, visits, percent)


@cache
def _logs() -> SessionLogs:
    return SessionLogs()
