"""The rows that the study of boost learning measures, as plain data."""

from dataclasses import dataclass

ALL = "all"
"""Stands for all segments together."""


@dataclass(frozen=True)
class Score:
    """The expected reward of a learner's recommendations after `visits`, or of a baseline, at 0, in EUR per visit.

    On held-out visits of a `segment`, or of "all"; `optimum` is that of the best vector of each segment there.
    """

    policy: str
    behaviour: str
    seed: int
    visits: int
    segment: str
    reward: float
    optimum: float

    @property
    def share(self) -> float:
        """The reward as a share of the optimum."""
        return self.reward / self.optimum


@dataclass(frozen=True)
class SegmentBoosts:
    """Mean `boosts`, by feature, that a learner recommends to a `segment` in the end; or its best ones, the optimum."""

    policy: str
    behaviour: str
    seed: int
    segment: str
    boosts: dict[str, float]


@dataclass(frozen=True)
class OnlineResult:
    """The expected reward of a learner's actions at visits 31 to 300, `earned`, as a share of the optimum's.

    None where it served fewer visits. `decision_ms` and `learning_ms` are milliseconds of processor time per visit.
    `coverage` is of a learner that predicts rewards: how often mean +- 1.96 std hold the expected reward of what it
    recommends in the end.
    """

    policy: str
    behaviour: str
    seed: int
    earned: float | None
    decision_ms: float
    learning_ms: float
    coverage: float | None = None
