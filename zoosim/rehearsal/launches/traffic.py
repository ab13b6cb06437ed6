"""Who comes during a launch: the visitors of a log, drawn anew, each with all visits that the log knows of them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from zoosim.core.types import FloatArray, IntArray


class Visits(NamedTuple):
    """Visits of some drawn visitors, one visitor after another, `(m,)` each; `hour` grows within a visitor.

    Attributes:
        row: The row of the log that each visit is.
        hour: Hours since the launch began.
        is_first: Whether it is the first of its visitor.
    """

    row: IntArray
    hour: FloatArray
    is_first: np.ndarray


@dataclass(frozen=True)
class Traffic:
    """The visits of a log by visitor, which are drawn with replacement, a period as long as the log after another.

    Visitors keep the hours at which they came, and come back as often as in the log, within a period.

    Attributes:
        rows: The rows of the log, one visitor after another, each in order of time `(n,)`.
        hours: The hour of each since the log began `(n,)`.
        starts: Where the rows of each visitor start `(U,)`.
        lengths: How many rows each has `(U,)`.
        period: Hours that the log spans.
        pace: Visitors who come in a period, in units of the log's.
    """

    rows: IntArray
    hours: FloatArray
    starts: IntArray
    lengths: IntArray
    period: float
    pace: float = 1.0

    @property
    def visits_per_hour(self) -> float:
        """How many visits there are per hour, on average."""
        return len(self.rows) * self.pace / self.period

    def periods(self, rng: np.random.Generator) -> Iterator[Visits]:
        """Draw the visits of one period after another, without end."""
        begin = 0.0
        while True:
            count = int(rng.poisson(len(self.starts) * self.pace))
            drawn = rng.integers(0, len(self.starts), count)
            lengths = self.lengths[drawn]
            is_first = np.zeros(int(lengths.sum()), bool)
            firsts = np.cumsum(lengths) - lengths
            is_first[firsts] = True
            place = np.arange(len(is_first)) - np.repeat(firsts - self.starts[drawn], lengths)
            yield Visits(self.rows[place], begin + self.hours[place], is_first)
            begin += self.period


def traffic_of(users: IntArray, hours: FloatArray, period: float, pace: float = 1.0) -> Traffic:
    """Return the traffic of a log.

    Args:
        users: Who came at each row `(n,)`.
        hours: When, in hours since the log began `(n,)`.
        period: Hours that the log spans.
        pace: Visitors who come in a period, in units of the log's.
    """
    order = np.lexsort((hours, users))
    of_users = users[order]
    starts = np.flatnonzero(np.append(True, of_users[1:] != of_users[:-1]))
    lengths = np.diff(np.append(starts, len(order)))
    return Traffic(order, hours[order], starts, lengths, period, pace)
