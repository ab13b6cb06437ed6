"""Convert a user's table to a log of Records."""

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from zoosim.core.action_space import ActionSpace
from zoosim.core.config import build
from zoosim.core.errors import ConfigError, DataError
from zoosim.core.parameters import shown, unknown
from zoosim.core.parquet import write_parquet
from zoosim.logs.checks import Fault, sound_rows
from zoosim.logs.importing.candidates import CandidateLists, read_lists, unavailable
from zoosim.logs.importing.encoding import checked_columns, encoded, numbers, unusable
from zoosim.logs.importing.mapping import LogMapping, read_mapping
from zoosim.logs.importing.products import ProductTable
from zoosim.logs.importing.tables import read_table
from zoosim.logs.importing.times import read_times
from zoosim.logs.records import RECORDS, faults_within_visits
from zoosim.logs.schema import OWN, SCHEMA_VERSION

VERSION = {"schema_version": SCHEMA_VERSION}
MOST_SHOWN = 5
"""Candidates that a message names."""


class Converted(NamedTuple):
    """A table as `records`, its products, and how many rows were `skipped`, by reason.

    `products` has a row per candidate, in the order of the actions: `product_id`, `product` (features) and, where it is
    known, `category`.
    """

    records: pl.DataFrame
    products: pl.DataFrame
    skipped: dict[str, int]


def import_log(
    table: Any,
    mapping: str | os.PathLike[str] | Mapping[str, Any] | LogMapping,
    out: str | os.PathLike[str],
    *,
    skip_bad: bool = False,
) -> dict[str, int]:
    """Convert a table to a log of Records, which `evaluate` and `fit_world` read.

    Args:
        table: A CSV or Parquet file, or a data frame.
        mapping: Which column holds what: a YAML file or a mapping, see `zoosim.logs.importing.mapping`.
        out: The Parquet file to write; the table of its products, catalogue-HASH.parquet, is written beside it.
        skip_bad: Leave bad rows out, a ranking whole.

    Returns:
        How many rows were left out, by reason.

    Raises:
        ConfigError: the mapping is wrong, or `out` is no Parquet file.
        DataError: the table lacks a column or has a bad row, which is named; nothing is written.
    """
    path = Path(out)
    if path.suffix != ".parquet" or path.is_dir() or not path.parent.is_dir():
        raise ConfigError(f"import: got {str(out)!r}, expected a file that ends in .parquet, in a folder that is there")
    if isinstance(table, str | os.PathLike) and path.exists() and path.samefile(table):
        raise ConfigError(
            f"import: got {path} as the table and as the log, expected another file, which is written anew"
        )
    frame, source = read_table(table)
    converted = to_records(frame, _checked_mapping(mapping), source=source, skip_bad=skip_bad)
    digest = _digest(converted.products)
    product_ids = converted.products["product_id"]
    records = converted.records.with_columns(
        pl.lit(digest).alias("catalogue"),
        product_ids[converted.records["action"].to_numpy()].alias("product_id"),
    )
    write_parquet(converted.products, path.parent / f"catalogue-{digest}.parquet", {"schema": "catalogue", **VERSION})
    write_parquet(records, path, {"schema": "record", **VERSION})
    return converted.skipped


def _digest(products: pl.DataFrame) -> str:
    """Hash what is known of the products, so that another description gets another file."""
    return hashlib.sha256(repr(products.to_dict(as_series=False)).encode()).hexdigest()[:16]


def _checked_mapping(given: Any) -> LogMapping:
    if isinstance(given, LogMapping):
        return given
    if isinstance(given, str | os.PathLike):
        return read_mapping(given)
    if not isinstance(given, Mapping):
        raise ConfigError(f"mapping: got {shown(given)}, expected a YAML file or a mapping")
    mapping: LogMapping = build(LogMapping, given, "mapping")
    return mapping


def to_records(table: pl.DataFrame, mapping: LogMapping, *, source: str = "table", skip_bad: bool = False) -> Converted:
    """Convert a table to Records, with what is known of the products.

    Raises `ConfigError` for a mapping that names something twice, `DataError` for a column that is missing, and for a
    bad row, naming row and column, unless `skip_bad`.
    """
    _check_names(table, mapping, source)
    table = _checked_table(table, mapping, source)
    product_table = ProductTable(mapping.products) if mapping.products is not None else None
    column_of = {name: column for name, column in mapping.columns.model_dump().items() if column}
    listed = mapping.columns.listed
    lists = read_lists(table[listed], mapping.separator) if listed else None
    names = _candidate_names(table[mapping.columns.action], mapping, lists, product_table)
    products = _undescribed(names) if product_table is None else product_table.describe(names)

    frame = pl.DataFrame(list(_converted_columns(table, mapping, column_of, names, source)))
    expected = _expected_action(names, product_table)
    faults = list(_conversion_faults(table, frame, mapping, expected))
    if lists is not None:
        column, list_faults = _unavailable_column(lists, names, frame, mapping, expected)
        frame = frame.with_columns(column)
        faults += list_faults
    space = ActionSpace.RANKINGS if mapping.rankings else ActionSpace.PRODUCTS
    # Features are checked in the table, where they still are the user's columns.
    records = RECORDS[space](frame.drop("user", strict=False), source, len(names))
    faults += records.faults()
    if mapping.rankings:
        features = table.select(mapping.features).with_columns(frame["decision_id"])
        faults += faults_within_visits(features, mapping.features)

    in_their_words = [fault._replace(column=column_of.get(fault.column, fault.column)) for fault in faults]
    sound, skipped = sound_rows(frame, in_their_words, source, skip_bad, table=table, together=records.visit_column)
    return Converted(_completed(sound, mapping), products, skipped)


def _check_names(table: pl.DataFrame, mapping: LogMapping, source: str) -> None:
    """Refuse a mapping that names something twice, or a column that the table lacks; and an empty table."""
    names_of = {
        "actions": [str(name) for name in mapping.actions or ()],
        "keep": mapping.keep,
        "features": mapping.features,
        "products.features": mapping.products.features if mapping.products is not None else [],
    }
    for part, names in names_of.items():
        repeated = [name for number, name in enumerate(names) if name in names[:number]]
        if repeated:
            raise ConfigError(f"mapping.{part}: got {shown(repeated[0])} twice, expected each once")
    for name in mapping.keep:
        if name in OWN:
            raise ConfigError(f"mapping.keep: got {shown(name)}, a name that Records use themselves; rename the column")
    mapped = [column for column in mapping.columns.model_dump().values() if column]
    for name in [*mapped, *mapping.features, *mapping.keep]:
        if name not in table.columns:
            raise DataError(f"{source}: {unknown('no column', name, table.columns)}; correct the mapping")
    if not table.height:
        raise DataError(f"{source}: got no rows, expected at least one interaction")


def _checked_table(table: pl.DataFrame, mapping: LogMapping, source: str) -> pl.DataFrame:
    """Return the table with its columns as numbers, times and words; raises `DataError` for columns of other types."""
    columns = mapping.columns
    ids = [name for name in (columns.action, columns.user_id, columns.decision_id, columns.listed) if name]
    mapped = [name for name in columns.model_dump().values() if name]
    return checked_columns(table, [*mapped, *mapping.features, *mapping.keep], source, ids=ids, lists=columns.listed)


def _candidate_names(
    actions: pl.Series, mapping: LogMapping, lists: CandidateLists | None, products: ProductTable | None
) -> list[str]:
    """Return the candidates' names: those of the mapping, else those shown or listed that the products' table knows.

    Numbers come by size, words by letters.
    """
    if mapping.actions is not None:
        return [str(name) for name in mapping.actions]
    names = set(actions.drop_nulls().unique().cast(pl.String))
    if lists is not None:
        names |= lists.all_names()
    if products is not None:
        names &= products.known
    by_letters = pl.Series(sorted(names), dtype=pl.String)
    whole = by_letters.cast(pl.Int64, strict=False)
    return list(by_letters if whole.null_count() else by_letters.gather(whole.arg_sort()))


def _undescribed(names: list[str]) -> pl.DataFrame:
    """Return products of which nothing is known: each is a category of its own."""
    nothing = pl.Series([[]] * len(names), dtype=pl.List(pl.Float64))
    return pl.DataFrame({"product_id": names, "product": nothing, "category": names})


def _expected_action(names: Sequence[str], products: ProductTable | None) -> str:
    some = ", ".join(names[:MOST_SHOWN]) + (", ..." if len(names) > MOST_SHOWN else "")
    described = "" if products is None else f" and a row of {products.source}, column {products.mapped.id}"
    return f"one of the {len(names)} candidates ({some}){described}"


def _converted_columns(
    table: pl.DataFrame, mapping: LogMapping, column_of: dict[str, str], names: Sequence[str], source: str
) -> Iterator[pl.Series]:
    """Yield the columns of the Records; what cannot be read is null."""
    index = pl.DataFrame({"name": pl.Series(names, dtype=pl.String), "action": np.arange(len(names))})
    shown_names = table.select(pl.col(column_of["action"]).cast(pl.String).alias("name"))
    yield shown_names.join(index, on="name", how="left", maintain_order="left")["action"]
    for name in ("propensity", "reward"):
        yield numbers(table[column_of[name]]).alias(name)
    if "position" in column_of:
        yield table[column_of["position"]].cast(pl.Int32, strict=False).alias("position")
    for name in ("decision_id", "user_id"):
        if name in column_of:
            column = table[column_of[name]]
            is_whole_id = name == "user_id" and column.dtype.is_integer()
            yield (column if is_whole_id else column.cast(pl.String)).alias(name)
    if "time" in column_of:
        yield read_times(table[column_of["time"]], mapping.time_zone, mapping.epoch, source).alias("time")
    for name in mapping.keep:
        yield numbers(table[name])
    if mapping.features:
        features = np.hstack([encoded(table[name], source) for name in mapping.features])
        yield pl.Series("user", features).cast(pl.List(pl.Float64))


def _conversion_faults(
    table: pl.DataFrame, frame: pl.DataFrame, mapping: LogMapping, expected_action: str
) -> Iterator[Fault]:
    """Yield the rows where the table holds what cannot be read, or lacks what is needed."""
    expected = {"action": expected_action, "time": "a time", "position": "a number"}
    columns = mapping.columns.model_dump(exclude={"candidates", "unavailable"}, exclude_none=True)
    for name, column in columns.items():
        unread = (frame[name].is_null() & table[column].is_not_null()).to_numpy()
        yield Fault(name, expected.get(name, "a number"), unread)
        yield Fault(name, "a value", table[column].is_null().to_numpy())
    for name in mapping.features:
        yield Fault(name, *unusable(table[name]))
    for name in mapping.keep:
        yield Fault(name, "a number", (frame[name].is_null() & table[name].is_not_null()).to_numpy())


def _unavailable_column(
    lists: CandidateLists, names: Sequence[str], frame: pl.DataFrame, mapping: LogMapping, expected: str
) -> tuple[pl.Series, list[Fault]]:
    """Return the column `unavailable`, and the rows whose lists are wrong or lack the logged action."""
    are_candidates = mapping.columns.candidates is not None
    name = "candidates" if are_candidates else "unavailable"
    column, unknown_name, empty = unavailable(lists, names, frame.height, are_candidates=are_candidates)
    faults = [
        Fault(name, f"a list of products, each {expected}", unknown_name),
        Fault(name, "at least one product", empty),
    ]
    if are_candidates:
        gone = pl.DataFrame([column, frame["action"]]).select(pl.col("unavailable").list.contains(pl.col("action")))
        outside = (gone.to_series().fill_null(False) & frame["action"].is_not_null()).to_numpy()
        faults.append(Fault("action", f"one of the row's {mapping.columns.candidates}", outside))
    return column, faults


def _completed(frame: pl.DataFrame, mapping: LogMapping) -> pl.DataFrame:
    """Fill in what Records have and the table does not: ids by the row, the position 0."""
    n = frame.height
    defaults = {
        "decision_id": pl.Series([f"row-{row}" for row in range(n)], dtype=pl.String),
        "position": pl.Series(np.zeros(n, np.int32)),
        "user": pl.Series([[]] * n, dtype=pl.List(pl.Float64)),
        "policy": pl.Series([mapping.policy] * n),
    }
    return frame.with_columns(series.alias(name) for name, series in defaults.items() if name not in frame.columns)
