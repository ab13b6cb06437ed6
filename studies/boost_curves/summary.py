"""Means over seeds of the scores of learners and baselines."""

from collections.abc import Sequence

from studies.boost_curves.learners import LEARNERS, SHOPS
from studies.boost_curves.records import ALL, Score
from zoosim.core.statistics import Interval, mean_interval

Rows = Sequence[Score]


def behaviours_in(rows: Rows) -> list[str]:
    """Return the behaviours of visitors that were measured."""
    return [behaviour for behaviour in SHOPS if any(row.behaviour == behaviour for row in rows)]


def learners_in(rows: Rows, behaviour: str) -> list[str]:
    """Return the learners measured with a behaviour."""
    measured = {row.policy for row in rows if row.behaviour == behaviour}
    return [policy for policy in LEARNERS if policy in measured]


def baselines_in(rows: Rows, behaviour: str) -> list[str]:
    """Return the baselines measured with a behaviour."""
    return list(dict.fromkeys(row.policy for row in rows if row.behaviour == behaviour and row.visits == 0))


def segments_in(rows: Rows, behaviour: str) -> list[str]:
    """Return the segments measured with a behaviour."""
    segments = dict.fromkeys(row.segment for row in rows if row.behaviour == behaviour)
    return [name for name in segments if name != ALL]


def checkpoints_in(rows: Rows, behaviour: str) -> list[int]:
    """Return after how many visits learners were scored."""
    return sorted({row.visits for row in rows if row.behaviour == behaviour and row.visits})


def by_seed(rows: Rows, policy: str, behaviour: str, visits: int = 0, segment: str = ALL) -> dict[int, Score]:
    """Return the score at each seed; 0 visits for a baseline."""
    key = (policy, behaviour, visits, segment)
    return {row.seed: row for row in rows if (row.policy, row.behaviour, row.visits, row.segment) == key}


def shares(rows: Rows, policy: str, behaviour: str, visits: int = 0, segment: str = ALL) -> list[float]:
    """Return the share of the optimum at each seed; seeds where a segment cannot earn anything are left out."""
    return [row.share for row in by_seed(rows, policy, behaviour, visits, segment).values() if row.optimum > 0.0]


def share(rows: Rows, policy: str, behaviour: str, visits: int = 0, segment: str = ALL) -> Interval | None:
    """Return the mean share of the optimum, None where there is none."""
    values = shares(rows, policy, behaviour, visits, segment)
    return mean_interval(values) if values else None


def ratios(rows: Rows, policy: str, baseline: str, behaviour: str, visits: int = 0) -> list[float]:
    """Return the reward at each seed in units of a baseline's reward there."""
    baseline_rows = by_seed(rows, baseline, behaviour)
    scores = by_seed(rows, policy, behaviour, visits)
    return [row.reward / baseline_rows[seed].reward for seed, row in scores.items()]


def reward(rows: Rows, policy: str, behaviour: str, visits: int = 0, segment: str = ALL) -> Interval:
    """Return the mean reward in EUR per visit."""
    return mean_interval([row.reward for row in by_seed(rows, policy, behaviour, visits, segment).values()])
