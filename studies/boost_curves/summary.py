"""Means over seeds of what was measured."""

from collections.abc import Sequence

from studies.boost_curves.learners import LEARNERS, WORLDS
from studies.boost_curves.records import ALL, Reached
from zoosim.core.statistics import Interval, mean_interval

Rows = Sequence[Reached]


def worlds_in(rows: Rows) -> list[str]:
    """Return the laws that were measured."""
    return [laws for laws in WORLDS if any(row.laws == laws for row in rows)]


def learners_in(rows: Rows, laws: str) -> list[str]:
    """Return the learners under some laws."""
    return [who for who in LEARNERS if any((row.who, row.laws) == (who, laws) for row in rows)]


def lines_in(rows: Rows, laws: str) -> list[str]:
    """Return the lines under some laws."""
    return list(dict.fromkeys(row.who for row in rows if row.laws == laws and row.visits == 0))


def segments_in(rows: Rows, laws: str) -> list[str]:
    """Return the segments under some laws."""
    return [name for name in dict.fromkeys(row.segment for row in rows if row.laws == laws) if name != ALL]


def checkpoints_in(rows: Rows, laws: str) -> list[int]:
    """Return after how many visits learners were scored."""
    return sorted({row.visits for row in rows if row.laws == laws and row.visits})


def by_seed(rows: Rows, who: str, laws: str, visits: int = 0, segment: str = ALL) -> dict[int, Reached]:
    """Return what was reached at each seed; 0 visits for a line."""
    wanted = (who, laws, visits, segment)
    return {row.seed: row for row in rows if (row.who, row.laws, row.visits, row.segment) == wanted}


def shares(rows: Rows, who: str, laws: str, visits: int = 0, segment: str = ALL) -> list[float]:
    """Return the share of the optimum at each seed; seeds where a segment cannot bring anything are left out."""
    return [row.share for row in by_seed(rows, who, laws, visits, segment).values() if row.optimum > 0.0]


def share(rows: Rows, who: str, laws: str, visits: int = 0, segment: str = ALL) -> Interval | None:
    """Return the mean share of the optimum, None where there is none."""
    found = shares(rows, who, laws, visits, segment)
    return mean_interval(found) if found else None


def times(rows: Rows, who: str, line: str, laws: str, visits: int = 0) -> list[float]:
    """Return what was reached at each seed, in units of what a line is worth there."""
    bars = by_seed(rows, line, laws)
    return [row.reward / bars[seed].reward for seed, row in by_seed(rows, who, laws, visits).items()]


def reward(rows: Rows, who: str, laws: str, visits: int = 0, segment: str = ALL) -> Interval:
    """Return the mean reward in EUR a visit."""
    return mean_interval([row.reward for row in by_seed(rows, who, laws, visits, segment).values()])
