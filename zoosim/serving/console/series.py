"""Projection of the log to what each arm decided and earned over time, in a bounded number of periods."""

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path

import msgspec

from zoosim.core.digests import short_hash
from zoosim.core.durations import MICROSECONDS
from zoosim.core.errors import DataError
from zoosim.core.files import atomic, read_content
from zoosim.serving.arm_replica import checked_rules
from zoosim.serving.events import Annotation, Choice, Feedback, ProductDecision, Row, Start, decision_of
from zoosim.serving.projection import Projection
from zoosim.serving.rules import Rules

MOST_PERIODS = 240
"""Periods that are kept: once there are more, each becomes twice as long."""

FIRST_LENGTH = 10 * MICROSECONDS
"""Length of a period at first."""

MOST_OPEN = 300_000
"""Decisions, the newest, whose rewards are counted while their wait is not over."""

MOST_PRODUCTS = 1_000
"""Products that are counted by name; the others are counted together."""

MOST_CHANGES = 50
"""Changes of what decides that are kept, the newest, and as many annotations."""

DELAYS = (1, 3, 10, 30, 60, 180, 600, 1_800, 3_600, 10_800, 43_200, 86_400)
"""Seconds between a decision and its feedback that are told apart: up to the first, up to the second, and so on."""

OTHERS = ""
"""Name under which products beyond `MOST_PRODUCTS` are counted."""

FILE = "series.json"


class ArmPeriod(msgspec.Struct, array_like=True):
    """What one arm did in a period: its decisions, how many of them earned something, and sums of rewards by name."""

    decisions: int = 0
    rewarded: int = 0
    rewards: dict[str, float] = {}


class Period(msgspec.Struct, array_like=True):
    """A period, from `begin` on, in microseconds since 1970; rewards count when their decision was made."""

    begin: int
    arms: dict[str, ArmPeriod] = {}


class Change(msgspec.Struct, array_like=True):
    """A change of what decides: when, in microseconds since 1970, by whom, why, and what decides since then.

    `shares` are those of the arms beside the champion, `model` is the champion's, empty where an earlier release
    read it.
    """

    time: int
    who: str
    why: str
    shares: dict[str, float]
    model: str = ""


class Series(msgspec.Struct, array_like=True):
    """What a log holds up to a position, over time.

    Attributes:
        position: The row up to which it was read.
        length: The length of a period, in microseconds.
        periods: From the oldest to the newest; those in which nothing was decided are left out.
        delays: Feedbacks by how long after their decision they came, as `DELAYS` says; the last ones later.
        products: How often each product was shown at the top.
        weights, squares: Sums of the weights of decisions for a policy that shows all candidates equally often, and of
            their squares.
        changes: The newest changes of what decides.
        annotations: What happened to the shop, as it was told, the newest last.
    """

    position: int = 0
    length: int = FIRST_LENGTH
    periods: list[Period] = []
    delays: list[int] = msgspec.field(default_factory=lambda: [0] * (len(DELAYS) + 1))
    products: dict[str, int] = {}
    weights: float = 0.0
    squares: float = 0.0
    changes: list[Change] = []
    annotations: list[Annotation] = []

    def effective_decisions(self) -> float:
        """Return as how many decisions at random the log counts where it judges another policy (Kish 1965)."""
        return self.weights**2 / self.squares if self.squares else 0.0


class SeriesProjection(Projection):
    """Follows the log; the same rows come to the same series.

    Attributes:
        series: What was read so far.
    """

    def __init__(self, series: Series | None = None) -> None:
        """Begin before the first row, or behind the last one of a series."""
        self.series = series or Series()
        self._wait = Rules().wait * MICROSECONDS
        # When each decision was made, and by which arm. Of a dict the oldest entry is found the more slowly the more
        # were removed before it.
        self._open: OrderedDict[bytes, tuple[int, str]] = OrderedDict()

    def apply(self, row: Row) -> None:
        """Read the next row."""
        if row.seq <= self.series.position:
            return
        super().apply(row)
        self.series.position = row.seq

    def on_start(self, row: Row, start: Start) -> None:
        """Note a change of what decides."""
        self._wait = checked_rules(start).wait * MICROSECONDS
        shares = {arm.name: arm.share for arm in start.arms}
        self.series.changes.append(Change(row.time, start.who, start.why or "began", shares, start.model))
        del self.series.changes[:-MOST_CHANGES]

    def on_annotation(self, row: Row, annotation: Annotation) -> None:
        """Note what happened to the shop."""
        self.series.annotations.append(annotation)
        del self.series.annotations[:-MOST_CHANGES]

    def on_choice(self, row: Row, choice: Choice) -> None:
        """Count a decision."""
        self._arm_at(row.time, choice.arm).decisions += 1
        name = next(iter(choice.names_shown), OTHERS)
        products = self.series.products
        if name not in products and len(products) >= MOST_PRODUCTS:
            name = OTHERS
        products[name] = products.get(name, 0) + 1
        if isinstance(choice, ProductDecision) and choice.chances:
            weight = 1.0 / (choice.overall_chances[0] * choice.n_products)
            self.series.weights += weight
            self.series.squares += weight * weight
        self._open[_key(row)] = (row.time, choice.arm)
        self._forget_what_is_over(row.time)

    def on_feedback(self, row: Row, feedback: Feedback) -> None:
        """Count what a decision earned, while its wait is not over."""
        made = self._open.get(_key(row))
        if made is None or row.time - made[0] > self._wait:
            return
        time, arm_name = made
        delay = (row.time - time) / MICROSECONDS
        self.series.delays[bisect_left(DELAYS, delay)] += 1
        arm = self._arm_at(time, arm_name)
        arm.rewarded += 1
        for name, value in feedback.rewards.items():
            arm.rewards[name] = arm.rewards.get(name, 0.0) + value

    def _forget_what_is_over(self, now: int) -> None:
        while self._open:
            time, _ = self._open[next(iter(self._open))]
            if len(self._open) <= MOST_OPEN and now - time <= self._wait:
                return
            self._open.popitem(last=False)

    def _arm_at(self, time: int, name: str) -> ArmPeriod:
        """Return what an arm did in the period of a time."""
        periods = self.series.periods
        begin = time - time % self.series.length
        # From the newest back, where nearly all are: the feedback of a long wait alone goes further.
        place = len(periods)
        while place and periods[place - 1].begin > begin:
            place -= 1
        if not place or periods[place - 1].begin != begin:
            periods.insert(place, Period(begin))
            if len(periods) > MOST_PERIODS:
                self._lengthen()
                return self._arm_at(time, name)
            place += 1
        return periods[place - 1].arms.setdefault(name, ArmPeriod())

    def _lengthen(self) -> None:
        """Make each period twice as long."""
        self.series.length *= 2
        merged: list[Period] = []
        for period in self.series.periods:
            begin = period.begin - period.begin % self.series.length
            if not merged or merged[-1].begin != begin:
                merged.append(Period(begin))
            _add(merged[-1].arms, period.arms)
        self.series.periods = merged


def load_series(folder: Path, position: int) -> Series:
    """Return the series that was saved in a folder.

    Args:
        folder: The folder.
        position: The row up to which the log is known; a series that goes beyond it is of another log.

    Returns:
        The series; an empty one where none was saved, or where it cannot be read, as it is no more than a picture.
    """
    try:
        series = _decode(read_content(folder / FILE))
    except (OSError, DataError, msgspec.MsgspecError, RecursionError):
        return Series()
    is_sound = series.length > 0 and len(series.delays) == len(DELAYS) + 1 and series.position <= position
    return series if is_sound else Series()


def save_series(folder: Path, series: Series) -> None:
    """Write a series, whole or not at all; raises `OSError`."""
    with atomic(folder / FILE) as path:
        path.write_bytes(msgspec.json.encode(series))


def totals(periods: list[Period]) -> dict[str, ArmPeriod]:
    """Return what each arm did over several periods together."""
    arms: dict[str, ArmPeriod] = {}
    for period in periods:
        _add(arms, period.arms)
    return arms


def _add(arms: dict[str, ArmPeriod], others: Mapping[str, ArmPeriod]) -> None:
    for name, other in others.items():
        arm = arms.setdefault(name, ArmPeriod())
        arm.decisions += other.decisions
        arm.rewarded += other.rewarded
        for reward, value in other.rewards.items():
            arm.rewards[reward] = arm.rewards.get(reward, 0.0) + value


def _key(row: Row) -> bytes:
    return short_hash(decision_of(row).encode(), 8)


_decode = msgspec.json.Decoder(Series).decode
