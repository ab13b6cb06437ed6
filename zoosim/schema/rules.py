"""Rules by which one column of a log follows from another, to within a few rows."""

from typing import Any

import numpy as np
import polars as pl

from zoosim.core.types import BoolArray
from zoosim.schema.values import numbers_of, text_of_any, truth_of, which

EVIDENCE = 10.0
"""Rows of which chance would have to explain that they fit a rule, for the rule to count."""

EXCEPTIONS = 0.05
"""Share of those rows that may break the rule."""

SAME = 0.99
"""Correlation from which on a number counts as another one in other units."""


def _is_a_rule(n_by_chance: float, n_exceptions: int) -> bool:
    return n_by_chance >= EVIDENCE and n_exceptions <= EXCEPTIONS * n_by_chance


def follows(column: pl.Series, given: pl.Series) -> bool:
    """Return whether rows with one value of `given` have one value of the column; the first of each proves nothing.

    Args:
        column: What may follow, `(n,)`.
        given: What it may follow from, `(n,)`.
    """
    pairs = pl.DataFrame({"value": column, "given": given}).group_by("given", "value").len("count")
    usual = pairs.group_by("given").agg(pl.col("count").max())["count"]
    commonest: Any = pairs.group_by("value").agg(pl.col("count").sum())["count"].max()
    n_repeats = column.len() - usual.len()
    # Of the repeats so many would by chance hold another value than the commonest: rows that only a rule explains.
    return _is_a_rule(n_repeats * (1.0 - commonest / column.len()), column.len() - int(usual.sum()))


def needs(held: BoolArray, earned: BoolArray) -> bool:
    """Return whether a column holds something only where a reward was earned.

    Args:
        held: Rows in which it holds something, `(n,)`.
        earned: Rows that earned the reward, `(n,)`.
    """
    return _is_a_rule(held.sum() * (1.0 - earned.mean()), int((held & ~earned).sum()))


def holds_something(column: pl.Series) -> BoolArray:
    """Return which values are neither missing nor no nor 0."""
    numbers = numbers_of(column)
    holds: BoolArray = numbers != 0.0
    no_number = np.isnan(numbers)
    holds[no_number] = which(column.filter(no_number), _is_something)
    return holds


def _is_something(value: Any) -> bool:
    return text_of_any(value) is not None and truth_of(value) is not False


def is_in_other_units(column: pl.Series, reward: pl.Series) -> bool:
    """Return whether a column holds the numbers of a reward, but for units and rounding.

    Args:
        column: The column, `(n,)`.
        reward: The reward, `(n,)`; rows in which either is no number are left out.
    """
    both = np.stack([numbers_of(column), numbers_of(reward)])
    both = both[:, np.isfinite(both).all(axis=0)]
    if both.shape[1] < EVIDENCE or not (both.std(axis=1) > 0.0).all():
        return False
    correlations = np.asarray(np.corrcoef(both))
    return bool(abs(correlations[0, 1]) >= SAME)
