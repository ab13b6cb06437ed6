"""Read a shop's table as Records, without features, and say what is bad in it."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl

from zoosim.core.action_space import PRODUCTS, RANKINGS
from zoosim.core.types import REWARD
from zoosim.logs.checks import Fault, reward_faults
from zoosim.logs.importing.candidates import DistinctCandidateLists, listed_column
from zoosim.logs.importing.columns import numbers, rewards
from zoosim.logs.importing.products import ImportedProducts
from zoosim.logs.importing.times import TimeNotation, read_times
from zoosim.logs.records import faults_within_visits, records_of
from zoosim.schema.schema import FittedSchema, Schema
from zoosim.schema.values import ids_of, texts_of

MOST_SHOWN = 5
"""Candidates that a message names."""


class ReadRecords(NamedTuple):
    """A table as Records without features, what is bad in it, and the column of rows that are bad together."""

    frame: pl.DataFrame
    faults: list[Fault]
    together: str | None


def read_records(
    table: pl.DataFrame,
    schema: Schema,
    names: list[str],
    lists: DistinctCandidateLists | None,
    product_table: ImportedProducts | None,
    fitted: FittedSchema,
    source: str,
) -> ReadRecords:
    """Read a table's columns, and name what is bad in it by the table's own columns."""
    frame = pl.DataFrame(list(_converted_columns(table, schema, names, source)))
    frame = _with_reward(frame, schema, fitted)
    expected = _expected_action(names, product_table)
    faults = list(_conversion_faults(table, frame, schema, expected))
    if product_table is not None and product_table.mapped.sale:
        lists = product_table.for_sale(names, frame["time"], _notation(schema))
    if lists is not None:
        column, list_faults = _candidate_column(lists, names, frame, schema, expected)
        frame = frame.with_columns(column)
        faults += list_faults
    space = RANKINGS if schema.rankings else PRODUCTS
    records = records_of(space)(frame, source, len(names))
    faults += records.faults()
    for name in schema.rewards:
        faults += reward_faults(frame, name)
    if schema.rankings and fitted.visitors.width:
        features = table.select(fitted.visitors.names).with_columns(frame["decision_id"])
        faults += faults_within_visits(features, fitted.visitors.names)
    column_of = schema.column_names
    in_their_words = [fault._replace(column=column_of.get(fault.column, fault.column)) for fault in faults]
    return ReadRecords(frame, in_their_words, records.visit_column)


def _notation(schema: Schema) -> TimeNotation:
    return TimeNotation(schema.time_zone, schema.epoch, schema.dates)


def _with_reward(frame: pl.DataFrame, schema: Schema, fitted: FittedSchema) -> pl.DataFrame:
    """Return the records with what a visit earned: the weighted sum of its rewards."""
    if not schema.rewards:
        return frame
    weighted = [weight * pl.col(name) for name, weight in fitted.weights.items() if weight]
    return frame.with_columns(pl.sum_horizontal(weighted, ignore_nulls=False).alias(REWARD))


def _expected_action(names: Sequence[str], products: ImportedProducts | None) -> str:
    some = ", ".join(names[:MOST_SHOWN]) + (", ..." if len(names) > MOST_SHOWN else "")
    described = "" if products is None else f" and a row of {products.source}, column {products.mapped.id}"
    return f"one of the {len(names)} candidates ({some}){described}"


def _converted_columns(table: pl.DataFrame, schema: Schema, names: Sequence[str], source: str) -> Iterator[pl.Series]:
    """Yield the columns of the Records but for the features; what cannot be read is null."""
    column_of = schema.column_names
    index = pl.DataFrame({"name": pl.Series(names, dtype=pl.String), "action": np.arange(len(names))})
    shown_names = pl.DataFrame({"name": texts_of(table[column_of["action"]])})
    yield shown_names.join(index, on="name", how="left", maintain_order="left")["action"]
    if "propensity" in column_of:
        yield numbers(table[column_of["propensity"]]).alias("propensity")
    for name in (REWARD, *schema.rewards):
        if name in column_of:
            yield rewards(table[column_of[name]]).alias(name)
    if "position" in column_of:
        yield table[column_of["position"]].cast(pl.Int32, strict=False).alias("position")
    for name in ("decision_id", "user_id"):
        if name in column_of:
            column = table[column_of[name]]
            is_whole_id = name == "user_id" and column.dtype.is_integer()
            yield (column if is_whole_id else ids_of(column)).alias(name)
    if "time" in column_of:
        yield read_times(table[column_of["time"]], _notation(schema), source).alias("time")
    for name in schema.keep:
        yield numbers(table[name])


def _conversion_faults(
    table: pl.DataFrame, frame: pl.DataFrame, schema: Schema, expected_action: str
) -> Iterator[Fault]:
    """Yield the rows where the table holds what cannot be read, or lacks what is needed."""
    expected = {"action": expected_action, "time": "a time", "position": "a number"}
    for name, column in schema.column_names.items():
        if name in ("candidates", "unavailable"):
            continue
        unread = (frame[name].is_null() & table[column].is_not_null()).to_numpy()
        yield Fault(name, expected.get(name, "a number"), unread)
        if name != "user_id":
            yield Fault(name, "a value", table[column].is_null().to_numpy())
    for name in schema.keep:
        yield Fault(name, "a number", (frame[name].is_null() & table[name].is_not_null()).to_numpy())


def _candidate_column(
    lists: DistinctCandidateLists, names: Sequence[str], frame: pl.DataFrame, schema: Schema, expected: str
) -> tuple[pl.Series, list[Fault]]:
    """Return the column `candidates` or `unavailable`, and the rows whose lists are wrong or lack the logged action."""
    are_candidates = schema.columns.unavailable is None
    of_row = schema.columns.candidates or "products that were for sale then"
    name = "candidates" if are_candidates else "unavailable"
    column, unknown_name, empty = listed_column(name, lists, names, frame.height)
    faults = [Fault(name, f"a list of products, each {expected}", unknown_name)]
    if are_candidates:
        is_listed = pl.DataFrame([column, frame["action"]]).select(pl.col(name).list.contains(pl.col("action")))
        outside = (~is_listed.to_series().fill_null(True) & frame["action"].is_not_null()).to_numpy()
        faults.append(Fault(name, "at least one product", empty))
        faults.append(Fault("action", f"one of the row's {of_row}", outside))
    return column, faults
