"""Train learners on logs of a simulated shop, and tell the exact worth of what they then take for best."""

import json
from dataclasses import asdict, dataclass
from functools import cache, partial
from typing import Any

from studies.cache import kept_array
from studies.session_curves import Learner, best_worth
from studies.session_logs import RANDOM, SessionLogs
from studies.work import names_of, rows_by_task
from zoosim.core.rng import stream
from zoosim.core.types import Progress
from zoosim.experiments.request import parse_seeds
from zoosim.policies.registry import make_entry
from zoosim.worlds.sessions.world import Sessions

FOR_LOGS = {"hidden": "64-64", "trail": 0.005, "averaging": 0.005, "weight_decay": 0.0}
"""Networks for a log that stays the same: steadier with a target that trails further behind, which recommends, too."""

LEARNERS = (
    Learner("linucb", "linucb", {}),
    Learner("dqn", "dqn", FOR_LOGS),
    Learner("dqn, pessimism .05", "dqn", {**FOR_LOGS, "pessimism": 0.05}),
    Learner("dqn, pessimism .5", "dqn", {**FOR_LOGS, "pessimism": 0.5}),
    Learner("iql", "iql", FOR_LOGS),
    Learner("planner", "planner", {}),
)
SHORT, LONG = 3_000, 30_000
"""Visits of logs of whole lives."""

ON_SHORT = ("linucb", "dqn", "planner")
"""Who is also trained on the short logs."""


@dataclass(frozen=True)
class Trained:
    """What a learner takes for best after a log of so many `visits`, in % of the optimum, exactly.

    `writing` is what visitors bring while the log is written.
    """

    learner: str
    seed: int
    writers: str
    visits: int
    percent: float
    writing: float


def measure(
    *, seeds: Any = "1000:1008", writers: Any = None, jobs: Any = None, progress: Progress = lambda line: None
) -> list[Trained]:
    """Train learners on short and on long logs by each of the writers, for each seed; kept on disk.

    Args:
        seeds: Of logs and policies, such as "1000:1008".
        writers: Who writes the logs, by name; all by default.
        jobs: Processes; None for one per core.
        progress: Called with a line for each learner that is done.

    Raises:
        ConfigError: there is no such writer.
    """
    tasks = [
        (learner, seed, name, visits)
        for seed in parse_seeds(seeds)
        for name in names_of("offline-sessions", "writer", writers, list(_logs().writers), f"[{RANDOM}]")
        for visits in (SHORT, LONG)
        for learner in LEARNERS
        if visits == LONG or learner.name in ON_SHORT
    ]
    return rows_by_task(_kept, tasks, jobs=jobs, words=_words, progress=progress)


def _words(task: tuple[Learner, int, str, int]) -> str:
    learner, seed, writers, visits = task
    return f"{learner.name}, seed {seed}, {writers}, {visits:,} visits"


def _kept(task: tuple[Learner, int, str, int]) -> list[Trained]:
    learner, *rest = task
    key = (make_entry(learner.policy, params=dict(learner.params)).fingerprint, learner.name, *rest)
    return [Trained(**json.loads(str(kept_array("offline-sessions", key, partial(_text, task)))))]


def _text(task: tuple[Learner, int, str, int]) -> str:
    return json.dumps(asdict(trained_on(*task)))


def trained_on(learner: Learner, seed: int, writers: str, visits: int) -> Trained:
    """Train a learner on a log.

    Args:
        learner: Who learns.
        seed: Seed of the log, and of the policy.
        writers: Who wrote the log, a name of `SessionLogs.writers`.
        visits: Visits of the log, of whole lives.
    """
    logs = _logs()
    log, _ = logs.draw(visits, seed, writers, visits)
    world = Sessions(seed, visits, observe="state", per_kind=1)
    entry = make_entry(learner.policy, params=dict(learner.params))
    policy = entry.make(world.spec(visits), stream(seed, "policy", learner.policy), None)
    policy.fit(log)
    in_percent = 100.0 / logs.truth.value(logs.truth.optimum)
    return Trained(
        learner.name,
        seed,
        writers,
        visits,
        percent=in_percent * best_worth(world, policy),
        writing=in_percent * logs.worth_of_writing(writers),
    )


@cache
def _logs() -> SessionLogs:
    return SessionLogs()
