"""Summary of the import of a shop's table, in words: rows, products, time, rewards, probabilities and columns."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from zoosim.core.number_format import counted, significant
from zoosim.core.types import REWARD, FloatArray
from zoosim.schema.columns import AnyColumn, CategoryColumn, TimeColumn, WordsColumn
from zoosim.schema.number_columns import NumberColumn
from zoosim.schema.schema import FittedSchema, Schema

ERRORS = 4.0
"""Standard errors by which the mean of 1 / propensity may miss the number of candidates, which is what it estimates."""

TOLERANCE = 0.05
"""Share of the number of candidates by which it may miss it in any case."""


MOST_NAMES = 6
"""Segments, or types of queries, that are named; the others are counted."""

USES = {
    "action": "product shown",
    "propensity": "probability of the product shown",
    "user_id": "visitor",
    "decision_id": "decision",
    "product": "product shown",
    "density": "density of the boosts",
    "clicked": "reward click",
    "purchased": "reward purchases",
}
"""Uses of columns by their role, where the role says them less plainly."""


@dataclass(frozen=True)
class Imported:
    """Outcome of the import of a table.

    Args:
        skipped: How many rows were left out, by reason.
        drift: What is new to the features of an earlier log, by column; empty where they were fitted to this table.
        notes: What to look at, by column: features that are doubtful, and values that count as missing.
        facts: What was understood: rows, products, time, rewards and propensities, each in words.
        columns: What each column of the table is used for, in words.
    """

    skipped: dict[str, int]
    drift: dict[str, str]
    notes: dict[str, str]
    facts: dict[str, str] = field(default_factory=dict)
    columns: dict[str, str] = field(default_factory=dict)


def facts_of(records: pl.DataFrame, schema: Schema, candidates: FloatArray | float, others: int = 0) -> dict[str, str]:
    """Say what the rows of a log hold.

    Args:
        records: Its Records; the features of visitors are not needed.
        schema: What the table's columns are.
        candidates: The number of products that could be shown, in each row `(n,)` or in all of them.
        others: The number of products that the shop describes, but no row shows or lists.
    """
    facts = {"rows": _rows(records), "products": _products(records, others)}
    if "time" in records.columns:
        facts["time"] = _period(records["time"], schema.time_zone or "UTC")
    for name in schema.reward_columns:
        facts["reward" if name == REWARD else f"reward {name}"] = _reward(records[name])
    facts["learned"] = _objective(schema.weights)
    facts["propensity"] = _propensity(records, schema, candidates)
    return facts


def facts_of_searches(
    searches: pl.DataFrame, zone: str, n_products: int, objective: Mapping[str, float]
) -> dict[str, str]:
    """Say what the rows of a log of searches hold.

    Args:
        searches: Its Records, a row per search.
        zone: The zone of times.
        n_products: The number of products in the shop's catalogue.
        objective: What rewards weigh in what a search earned, by name.
    """
    shown = searches["shown"]
    rows = [
        f"{searches.height:,} searches, {significant(len(shown.explode()) / searches.height, 3)} products shown in each"
    ]
    facts = {"rows": ", ".join(rows + _visitors(searches))}
    facts["products"] = f"{shown.explode().n_unique():,} shown, of {n_products:,} in the catalogue"
    if "time" in searches.columns:
        facts["time"] = _period(searches["time"], zone)
    facts["reward click"] = _per_search(searches["click"])
    facts["reward purchases"] = _per_search(searches["purchases"])
    facts["learned"] = _objective(objective)
    facts["segments"] = _shares(searches["segment"])
    facts["query types"] = _shares(searches["query_type"])
    facts["boosts"] = _boosts(searches)
    return facts


def _per_search(counts: pl.Series) -> str:
    share = share_of(float((counts > 0).sum()), len(counts))
    return f"{significant(float(counts.sum()) / len(counts), 3)} a search; at least one in {share} of searches"


def _shares(names: pl.Series) -> str:
    counts = names.value_counts(sort=True, name="rows").head(MOST_NAMES).iter_rows()
    written = ", ".join(f"{name} {share_of(rows, len(names))}" for name, rows in counts)
    others = names.n_unique() - MOST_NAMES
    return f"{written} and {others:,} more" if others > 0 else written


def _boosts(searches: pl.DataFrame) -> str:
    """Say whether boosts can be learned from the log."""
    if searches["action"].list.eval(pl.element() != 0.0).list.any().any():
        if "propensity" in searches.columns:
            return "logged with their densities: other boosts can be learned and judged"
        return "logged without densities: other boosts can be learned, but not judged (name columns.density)"
    return "none: what others would earn is learned in a world by `zoosim fit-world`"


def _rows(records: pl.DataFrame) -> str:
    parts = [counted(records.height, "row")]
    if "decision_id" in records.columns:
        parts.append(counted(records["decision_id"].n_unique(), "decision"))
    return ", ".join(parts + _visitors(records))


def _visitors(records: pl.DataFrame) -> list[str]:
    """Count visitors, and the visits of which nobody knows whose they are."""
    if "user_id" not in records.columns:
        return []
    ids = records["user_id"].drop_nulls()
    unknown = records.height - len(ids)
    n = ids.n_unique()
    parts = [counted(n, "visitor")]
    if unknown:
        parts.append(f"{counted(unknown, 'row')} without a visitor, each counted as a visitor of its own")
    return parts


def _products(records: pl.DataFrame, others: int) -> str:
    shown = f"{records['action'].n_unique():,} shown"
    if not others:
        return shown
    if others == 1:
        return f"{shown}; 1 more product of the table was never shown: policies know it by its columns"
    return f"{shown}; {others:,} more products of the table were never shown: policies know them by their columns"


def _period(times: pl.Series, zone: str) -> str:
    moments = (
        pl.Series([times.min(), times.max()], dtype=times.dtype)
        .dt.convert_time_zone(zone)
        .dt.to_string("%Y-%m-%d %H:%M")
    )
    return f"{moments[0]} to {moments[-1]}, {zone}"


def _reward(rewards: pl.Series) -> str:
    earned = rewards.filter(rewards != 0.0)
    if earned.is_in([1.0]).all():
        return f"{share_of(len(earned), len(rewards))} of rows ({len(earned):,})"
    mean = float(np.mean(rewards.to_numpy()))
    return f"{significant(mean, 3)} a row; not 0 in {share_of(len(earned), len(rewards))} of rows ({len(earned):,})"


def _objective(weights: Mapping[str, float]) -> str:
    return " + ".join(name if weight == 1.0 else f"{weight:g} {name}" for name, weight in weights.items() if weight)


def _propensity(records: pl.DataFrame, schema: Schema, candidates: FloatArray | float) -> str:
    """Say whether propensities fit the number of candidates: where each has a chance, 1 / propensity averages that."""
    if "propensity" not in records.columns:
        return (
            "none: `zoosim evaluate` can estimate them, with a weak verdict at best (--propensity-model); columns that "
            "depend on the product shown are recognised only where it nearly settles them"
        )
    propensities = records["propensity"].to_numpy()
    mean = f"mean {significant(float(propensities.mean()), 2)}"
    if schema.rankings:  # a later position has fewer products to choose from
        return mean
    inverse = 1.0 / propensities
    expected = float(np.mean(candidates))
    miss = float(inverse.mean()) - expected
    error = float(inverse.std()) / np.sqrt(len(inverse))
    averages = significant(float(inverse.mean()), 3)
    compared = f"{mean}; 1/propensity averages {averages} for {significant(expected, 3)} candidates"
    if abs(miss) <= max(ERRORS * error, TOLERANCE * expected):
        return f"{compared}, as it should"
    if miss > 0.0:
        return f"{compared}: it cannot average more; are these the probabilities of the products shown?"
    return f"{compared}: some are never shown to some visitors, or could not be (say so by columns.candidates)"


def columns_of(
    table: pl.DataFrame, schema: Schema, fitted: FittedSchema, left_out: Mapping[str, str]
) -> dict[str, str]:
    """Say what each column of a table is used for.

    Args:
        table: The shop's table.
        schema: What its columns are.
        fitted: How features are made of it.
        left_out: Why columns are left out, by name.
    """
    roles = uses_of(schema.columns.model_dump(exclude_none=True))
    roles |= {column: f"reward {name}" for name, column in schema.rewards.items()}
    features = {column.name: column for column in fitted.visitors.columns}
    used = {}
    for name in table.columns:
        uses = [roles[name]] if name in roles else []
        if name in features:
            uses.append("feature, " + describe_column(features[name]) + _missing(table[name]))
        if name in schema.keep:
            uses.append("kept")
        used[name] = "; ".join(uses) or left_out.get(name, "not used")
    return used


def uses_of(columns: Mapping[str, str]) -> dict[str, str]:
    """Say what each column is used for, by its name, where `columns` names it by its role."""
    return {column: USES.get(role, role.replace("_", " ")) for role, column in columns.items()}


def describe_column(column: AnyColumn) -> str:
    """Say what a fitted column is taken for."""
    if isinstance(column, NumberColumn):
        return f"number, {significant(column.low, 4)} to {significant(column.high, 4)}" + (
            " (by its logarithm)" if column.log else ""
        )
    if isinstance(column, CategoryColumn) and column.rest:
        return f"category, {len(column.levels)} values and {share_of(column.rest, 1.0)} rarer ones"
    if isinstance(column, CategoryColumn):
        return f"category, {len(column.levels)} values"
    if isinstance(column, WordsColumn):
        return f"list of {len(column.levels)} words"
    if isinstance(column, TimeColumn):
        return f"time of day and of week, {column.time_zone}"
    return str(column.type)


def _missing(column: pl.Series) -> str:
    count = column.null_count()
    return f", {share_of(count, len(column))} missing" if count else ""


def share_of(part: float, whole: float) -> str:
    """Write a share to two digits: 2.3%, 45%."""
    percent = 100.0 * part / whole
    return f"{percent:.0f}%" if percent >= 9.95 else f"{significant(percent, 2)}%"
