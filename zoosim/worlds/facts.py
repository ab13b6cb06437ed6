"""Facts that a run may know of its world: how rewards are called and compared, other measures, when it changes."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from zoosim.core.statistics import ANY, Limits
from zoosim.core.types import FloatArray


class RewardScale(NamedTuple):
    """Names, scale and comparison of the rewards of visits.

    Args:
        key: How summary.json calls the mean reward of a visit.
        name: How tables and headings call it.
        word: What rewards are called in sentences.
        limits: Between which values the mean lies.
        is_share: True where a visit pays off or not, so that the mean is a share of the visits. Reports then draw
            it; of amounts, which have more noise, they draw the share of the oracle.
        unit: What a total is counted in, such as EUR; empty for a number.
    """

    key: str
    name: str
    word: str
    limits: Limits = ANY
    is_share: bool = False
    unit: str = ""


CLICKS = RewardScale("ctr", "CTR", "clicks", (0.0, 1.0), is_share=True)
AMOUNTS = RewardScale("reward", "reward", "reward")
EUROS = AMOUNTS._replace(unit="EUR")

ENOUGH = 0.95
"""Share of what the best policy brings, over visitors who come back, from which a simpler policy is enough."""


class Reference(NamedTuple):
    """A line to compare policies with.

    Args:
        name: Who reaches it.
        value: The mean reward where that is a share of the visits, else the share of the oracle; reports draw the same.
    """

    name: str
    value: float


class Target(NamedTuple):
    """A group of products that a shock makes popular with a segment of visitors.

    Args:
        step: The visit from which on it is.
        segment: Name of the segment.
        group: Name of the group of products.
    """

    step: int
    segment: str
    group: str


class Measure(NamedTuple):
    """A measure of visits beside their reward, as a mean over visits.

    Args:
        key: How summary.json calls it.
        heading: How a page calls it.
        value: Makes the figure of the visits' parts of rewards, each `(n,)`.
        limits: Between which values it lies.
        is_share: True for what is told in percent.
        column: Its heading in the table on a terminal; empty for what stands on pages alone.
    """

    key: str
    heading: str
    value: Callable[[Mapping[str, FloatArray]], float]
    limits: Limits = ANY
    is_share: bool = False
    column: str = ""


class Change(NamedTuple):
    """A change of a world from visit `step` on, by its name."""

    step: int
    name: str


class Trait(NamedTuple):
    """A trait that one may know of a world: its `name`, its `value` here, which is value number `place`.

    `asks` says what a world with that value asks of a policy.
    """

    name: str
    value: str
    place: int
    asks: str


def changes_of(records: Sequence[Any]) -> tuple[Change, ...]:
    """Return the changes that records with a `step` and a `name` make, in order."""
    return tuple(Change(record.step, record.name) for record in sorted(records, key=lambda record: record.step))
