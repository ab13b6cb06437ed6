"""Logs that show one product to one kind of visitor: how to tell, and how much chance would make them useful."""

import math
from collections.abc import Mapping
from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy import special

from zoosim.core.types import FloatArray
from zoosim.logs.log import Log
from zoosim.off_policy.intervals.intervals import POWER
from zoosim.off_policy.propensities.estimate import EstimatedPropensities

LEAST_PREDICTED = 0.97
MOST_SURPRISES = 0.01
"""A log counts as deterministic whose model tells the product of so many of all unseen rows, and where it is confident
is so seldom wrong: one that shows 2% of its visits anything by chance surprises in nearly 2% of these."""

PREDICTABLE = 0.985
"""Or one whose products a tree of rules tells in so large a share of unseen rows."""

DETERMINISTIC = (
    "this log is deterministic: features tell nearly always which product is shown, so hardly a row says what another "
    "one would have earned. dm is what a reward model believes of it: take it as information, not as an estimate"
)

TREE_ROWS = 20_000
SHARES = (0.01, 0.05, 0.1, 0.25)
PRECISION = 0.1
"""Half-width that intervals are to reach, as a share of what the logged choices earn."""

PLANNED_ROWS, MOST_CELLS = 2_000, 2**24
"""Rows of a log by which it is planned how much chance it takes; fewer if they have more probabilities than that."""


class Randomisation(NamedTuple):
    """Plan of a log in which a `share` of visits shows any candidate, each with equal chance.

    `rows` it takes until the interval of the policy that is hardest to judge reaches as far as `PRECISION` of what the
    logged choices earn, and until the two policies that promise most are told apart if they differ by so much (None
    with one policy); `days` at the log's traffic, None where it knows no times.
    """

    share: float
    rows: int
    days: float | None
    rows_to_compare: int | None
    days_to_compare: float | None


def is_deterministic(log: Log, estimated: EstimatedPropensities) -> bool:
    """Return whether features nearly always tell which product is shown, by the model of probabilities or by a tree.

    Both are asked about users that they have not seen.
    """
    figures = estimated.figures
    is_known = figures.predicted >= LEAST_PREDICTED and figures.surprises <= MOST_SURPRISES
    if is_known or len(np.unique(log.actions)) == 1:
        return True
    from sklearn.tree import DecisionTreeClassifier

    inputs = np.column_stack([estimated.choices.contexts.inputs[:, 1:], log.candidate_set])
    training = np.flatnonzero(estimated.fold != 0)[:TREE_ROWS]
    unseen = np.flatnonzero(estimated.fold == 0)[:TREE_ROWS]
    if not len(training) or not len(unseen):
        return False
    tree = DecisionTreeClassifier(random_state=0).fit(inputs[training], log.actions[training])
    return float((tree.predict(inputs[unseen]) == log.actions[unseen]).mean()) >= PREDICTABLE


def n_planned_rows(log: Log) -> int:
    """Return by how many of a log's first rows it is planned how much chance it takes."""
    return min(PLANNED_ROWS, len(log), max(1, MOST_CELLS // log.n_actions))


def plan_randomisation(
    log: Log, chances: Mapping[str, FloatArray], values: Mapping[str, float], level: float
) -> tuple[Randomisation, ...]:
    """Work out for some shares of random visits how many rows would judge policies by their weights.

    A row of a policy with probabilities pi has a variance of about sum(pi^2 / p) times that of rewards, where p is the
    share's chance of each product, the usual product's beside it; that of two policies' difference with pi the
    difference of theirs.

    Args:
        log: A deterministic log.
        chances: Each policy's probabilities in the log's first rows `(m, K)`.
        values: What a reward model expects of each, which tells the two to compare.
        level: Confidence level.
    """
    precision = PRECISION * abs(float(log.rewards.mean()))
    if not precision > 0.0 or not chances:
        return ()
    per_day = log.visits_per_day
    n_planned = len(next(iter(chances.values())))
    available = log.available(0, n_planned)
    uniform = available / available.sum(axis=1, keepdims=True)
    # Without chance a log shows what it showed: the logged product stands for the usual one.
    usual = np.zeros_like(uniform)
    usual[np.arange(n_planned), log.actions[:n_planned]] = 1.0
    best_two = sorted(chances, key=lambda name: -values[name])[:2]
    reach = float(special.ndtri(0.5 + level / 2))
    reach_to_compare = reach + float(special.ndtri(POWER))

    plans = []
    for share in SHARES:
        shown = (1.0 - share) * usual + share * uniform
        hardest = max(_spread(policy, shown) for policy in chances.values())
        rows = _rows(hardest, reach, log, precision)
        rows_to_compare = None
        for first, second in combinations(best_two, 2):
            apart = _spread(chances[first] - chances[second], shown)
            rows_to_compare = _rows(apart, reach_to_compare, log, precision)
        days, days_to_compare = (
            None if per_day is None or count is None else count / per_day for count in (rows, rows_to_compare)
        )
        plans.append(Randomisation(share, rows, days, rows_to_compare, days_to_compare))
    return tuple(plans)


def _spread(target: FloatArray, shown: FloatArray) -> float:
    """Return the mean over rows of sum(target^2 / shown) over products that can be shown."""
    squares = np.divide(target**2, shown, out=np.zeros_like(shown), where=shown > 0.0)
    return float(squares.sum(axis=1).mean())


def _rows(spread: float, reach: float, log: Log, precision: float) -> int:
    """Return how many rows make an error so small that `reach` of it comes to the precision, to 3 digits."""
    rows = max(1, math.ceil(spread * float(log.rewards.var()) * (reach / precision) ** 2))
    return int(float(f"{rows:.3g}"))


def plan_sentences(plans: tuple[Randomisation, ...]) -> list[str]:
    """Say what to log from now on, and what it would tell."""
    if not plans:
        return []
    lines = [
        "from now on, show any candidate with equal chance in a share of the visits, and log for each row the "
        "probability of what was shown: share / candidates, and 1 - share more for the usual product"
    ]
    for plan in plans:
        line = f"with {plan.share:.0%} of the visits at random, {_time(plan.rows, plan.days)} of log judge each policy"
        line += f" to {PRECISION:.0%} of what the logged choices earn"
        if plan.rows_to_compare is not None:
            line += f"; {_time(plan.rows_to_compare, plan.days_to_compare)} tell the best two apart that differ by that"
        lines.append(line)
    return lines


def _time(rows: int, days: float | None) -> str:
    if days is None:
        return f"{rows:,} rows"
    return f"{rows:,} rows ({max(days, 0.1):,.{0 if days >= 10.0 else 1}f} days)"
