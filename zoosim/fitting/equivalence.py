"""Does a fitted world earn what its log says? A test of equivalence within a margin, not of a difference.

That two intervals overlap shows nothing: the less a log tells, the more they do. Two one-sided tests (Schuirmann 1987)
ask whether the difference is shown to lie within a margin; whether it is shown to lie beyond follows from the same
interval.
"""

import math
from typing import NamedTuple

from scipy import special

from zoosim.core.statistics import Interval

MARGIN = 0.10
"""Share of the logged value by which a world may be off and still agree."""

LEVEL = 0.05
"""The chance that a world whose value is off by the margin is said to agree."""

POWER = 0.80
"""The chance with which the rows that are asked for tell whether a world agrees."""

MOST_TIMES = 1_000
"""Times as many rows as there are; more are not asked for."""


class Equivalence(NamedTuple):
    """The `difference` of a world's value less the log's, with its interval, and what may be between them (`margin`).

    The interval holds the difference with 90%: each end is one of two one-sided tests at 5%. `rows_needed` are the rows
    that a log needs to tell, None where none tell or where it tells already.
    """

    difference: float
    low: float
    high: float
    margin: float
    rows_needed: int | None

    @property
    def agrees(self) -> bool | None:
        """True where the difference is shown to be within the margin, False where beyond, None where neither is."""
        if -self.margin < self.low and self.high < self.margin:
            return True
        if self.low > self.margin or self.high < -self.margin:
            return False
        return None

    @property
    def words(self) -> str:
        """The answer in a few words."""
        if self.agrees is None:
            rows = f" (needs about {self.rows_needed:,} rows)" if self.rows_needed is not None else ""
            return f"cannot tell{rows}"
        return f"agrees within {MARGIN:.0%}" if self.agrees else f"differs by more than {MARGIN:.0%}"


def compare_values(world: float, world_error: float, log: Interval, logged_value: float, rows: int) -> Equivalence:
    """Test whether a world's value is the log's, within `MARGIN` of the logged value.

    What is tested is the world's mean over its draws; how far draws differ is what the same rows leave open, and not
    counted again.

    Args:
        world: What a policy earns in the world, its mean over draws.
        world_error: The standard error of that mean, as computed.
        log: What it earns by the log, with a 95% interval.
        logged_value: What the log's own choices earn, from which the margin is taken.
        rows: How many rows the log has.

    Raises:
        ValueError: `log` has an open end.
    """
    if log.low is None or log.high is None:
        raise ValueError("log: the interval has an open end, expected a value to compare with")
    # From the ends of the 95% interval back to a standard error, with that of the world's simulation beside it.
    error = math.hypot((log.high - log.low) / (2.0 * float(special.ndtri(0.975))), world_error)
    # The same for all policies of a log, so that one which earns next to nothing has a margin, too.
    margin = MARGIN * abs(logged_value)
    difference = world - log.mean
    # Both one-sided tests reject at `LEVEL` just where the interval of 1 - 2 `LEVEL` lies within the margin.
    reach = float(special.ndtri(1.0 - LEVEL)) * error
    result = Equivalence(difference, difference - reach, difference + reach, margin, None)
    if result.agrees is not None:
        return result
    return result._replace(rows_needed=_rows_needed(abs(abs(difference) - margin), error, rows))


def _rows_needed(distance: float, error: float, rows: int) -> int | None:
    """Return rows by which a difference at some distance from the margin is told to lie on its side of it."""
    standard = float(special.ndtri(1.0 - LEVEL) + special.ndtri(POWER))
    if distance <= 0.0 or error <= 0.0:
        return None
    # Errors fall with the square root of rows: (z_level + z_power) error / sqrt(times) = distance, solved for times.
    times = (standard * error / distance) ** 2
    if times > MOST_TIMES:
        return None
    # Two significant digits: the distance and the error that this rests on are estimates themselves.
    digits = 1 - math.floor(math.log10(times * rows))
    return int(round(math.ceil(times * rows), digits))
