"""Measure what learners reach after so many visits of visitors who come back."""

from typing import Any

from studies.session_curves import STATE, Learned, Learner, measure_curves
from studies.work import names_of
from zoosim.core.checks import check_whole
from zoosim.core.errors import ConfigError
from zoosim.core.parameters import unknown
from zoosim.core.types import Progress
from zoosim.worlds.sessions.world import OBSERVATIONS

LEARNERS = (
    *(Learner(name, name, {}) for name in ("linucb", "d-linucb", "product-linucb", "q-table")),
    Learner("double-q-table", "q-table", {"double": True}),
    *(Learner(name, name, {}) for name in ("dqn", "ppo", "planner", "qmdp")),
)

VISITS = 30_000


def measure(
    *,
    seeds: Any = "1000:1008",
    jobs: Any = None,
    visits: int = VISITS,
    learners: Any = None,
    observe: str = STATE,
    progress: Progress = lambda line: None,
) -> list[Learned]:
    """Return what each of the `learners`, by default all, reaches in up to so many `visits`.

    `observe` is what they see of a visitor, such as state or shop: see `SessionConfig`.
    """
    if observe not in OBSERVATIONS:
        raise ConfigError(unknown("session-learners: unknown observe", str(observe), list(OBSERVATIONS)))
    count = check_whole("session-learners: visits", visits, 300, 100_000_000)
    return measure_curves(_chosen(learners), count, seeds=seeds, jobs=jobs, progress=progress, observe=observe)


def _chosen(names: Any) -> list[Learner]:
    known = {learner.name: learner for learner in LEARNERS}
    return [known[name] for name in names_of("session-learners", "learner", names, list(known), "[dqn, linucb]")]
