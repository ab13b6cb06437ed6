"""Measure learners with one mistake each on visitors who come back, and how a linear one diverges in two states."""

from dataclasses import dataclass
from typing import Any

from studies.session_curves import Learned, Learner, measure_curves
from zoosim.core.checks import check_whole
from zoosim.core.types import Progress

RIGHT = Learner("dqn, as it is", "dqn", {})
BROKEN = {
    "the visit taken for the episode": Learner("dqn, a visit's end is the end", "dqn", {"horizon": "visit"}),
    "a loss that clips errors": Learner("dqn, Huber loss", "dqn", {"longest_error": 1.0}),
    "no trailing network": Learner("dqn, no trailing network", "dqn", {"trail": 1.0}),
    "a learning rate that stays": Learner("dqn, learning rate stays", "dqn", {"last_rate": 1.0}),
    "no trailing network, a rate that stays": Learner(
        "dqn, no trailing network, learning rate stays", "dqn", {"trail": 1.0, "last_rate": 1.0}
    ),
}
VISITS = 30_000
DISCOUNT = 0.99
RATE = 0.1
SWEEPS = (0, 10, 50, 100)
"""Updates of the linear learner after which its weight is told."""


@dataclass(frozen=True)
class Diverged:
    """The weight of a linear learner of two states after so many updates; the right one is 0.

    `updates` all states alike (`uniform`), or as often as visitors are in them.
    """

    uniform: bool
    updates: int
    weight: float


def measure(
    *, seeds: Any = "1000:1008", jobs: Any = None, visits: int = VISITS, progress: Progress = lambda line: None
) -> list[Learned | Diverged]:
    """Return what each learner reaches in up to so many `visits`, by seed; kept on disk."""
    count = check_whole("traps: visits", visits, 300, 100_000_000)
    rows: list[Learned | Diverged] = []
    learners = (RIGHT, *BROKEN.values())
    rows += measure_curves(learners, count, seeds=seeds, jobs=jobs, progress=progress)
    rows += [
        Diverged(uniform, updates, two_states(updates, uniform)) for uniform in (True, False) for updates in SWEEPS
    ]
    return rows


def two_states(updates: int, uniform: bool) -> float:
    """Return the weight of a linear learner after so many updates, from 1.

    Two states of value 0 with the features 1 and 2: the first leads to the second, the second to itself, without
    rewards (Tsitsiklis & Van Roy 1996). If both are updated alike, towards targets by the same weight, it grows by a
    factor of 1 + (6 discount - 5) x rate with each update. By the shares of visitors, who are in the second state
    nearly all the time, it falls to 0.

    Args:
        updates: How often both states are updated.
        uniform: Whether both states weigh alike, or as often as visitors are in them.
    """
    weight = 1.0
    first_share, second_share = (1.0, 1.0) if uniform else (0.02, 1.98)
    for _ in range(updates):
        first_error = DISCOUNT * 2.0 * weight - weight
        second_error = DISCOUNT * 2.0 * weight - 2.0 * weight
        weight += RATE * (first_share * 1.0 * first_error + second_share * 2.0 * second_error)
    return weight
