"""What the study measures, as rows of plain data."""

from dataclasses import dataclass

ALL = "all"
"""Stands for all segments together."""


@dataclass(frozen=True)
class Reached:
    """What a learner recommends after `visits`, or a line, at 0, in expected EUR a visit on visits apart.

    Of a `segment`, or of "all"; `optimum` is what the best vector of each segment earns there.
    """

    who: str
    laws: str
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
class Way:
    """How a learner got there: `earned` in expectation over visits 31 to 300, as a share of the optimum's.

    None where it met fewer visits. `decision_ms` and `learning_ms` are milliseconds of processor time a visit.
    """

    who: str
    laws: str
    seed: int
    earned: float | None
    decision_ms: float
    learning_ms: float
