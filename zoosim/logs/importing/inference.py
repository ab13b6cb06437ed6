"""The schema of an import: what the user says, or what is inferred so that an import accepts it as it stands."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from zoosim.core.config import build
from zoosim.core.errors import ConfigError, DataError
from zoosim.core.parameters import shown
from zoosim.logs.importing.dates import shorter_order
from zoosim.logs.importing.tables import read_table
from zoosim.logs.importing.times import TimeNotation, lacks_zone, read_times
from zoosim.schema.schema import Schema, infer_products, infer_schema, read_schema
from zoosim.schema.values import checked_zone

NAMES_NO_ZONE = "names no time zone, taken as UTC; if that is wrong, say which by --time-zone Europe/Berlin"


class InferredSchema(NamedTuple):
    """A schema, and what each column was taken for, by its name; those of products follow the name of their table."""

    schema: Schema
    notes: dict[str, str]


def checked_schema(
    described: str | os.PathLike[str] | Mapping[str, Any] | Schema, products: Any, time_zone: str | None
) -> Schema:
    """Return the schema that a user gives, with the table of products and the time zone that it leaves open.

    Raises:
        ConfigError: the schema is wrong, or names what is given beside it.
        DataError: the table of products cannot be read.
    """
    schema = _as_schema(described)
    for name, option, said in (("products", products, schema.products), ("time_zone", time_zone, schema.time_zone)):
        if option is not None and said is not None:
            raise ConfigError(f"{name}: got it twice, in the schema and beside it; leave one out")
    changes: dict[str, Any] = {} if time_zone is None else {"time_zone": checked_time_zone(time_zone)}
    if products is not None:
        table, source = read_table(products)
        changes["products"], _ = infer_products(table, products, source)
    return schema.model_copy(update=changes)


def _as_schema(described: Any) -> Schema:
    if isinstance(described, Schema):
        return described
    if isinstance(described, str | os.PathLike):
        return read_schema(described)
    if not isinstance(described, Mapping):
        raise ConfigError(f"schema: got {shown(described)}, expected a YAML file or a mapping")
    schema: Schema = build(Schema, described, "schema")
    return schema


def checked_time_zone(name: str | None) -> str | None:
    """Return the name of a time zone, or None; raises `ConfigError` for one that is unknown."""
    try:
        return None if name is None else checked_zone(name)
    except ValueError as error:
        raise ConfigError(f"time_zone: {error}") from None


def infer_import(
    frame: pl.DataFrame,
    source: str,
    *,
    products: Any = None,
    folder: Path | None = None,
    time_zone: str | None = None,
) -> InferredSchema:
    """Guess what the columns of a table are, and of its table of products where there is one.

    Args:
        frame: The table, a row per product shown.
        source: What messages call it.
        products: A CSV or Parquet file, or a data frame, with a row per product.
        folder: From where the schema names the file of products; None to name it as it is.
        time_zone: The zone of times that name none.

    Raises:
        ConfigError: no column looks like what was shown, or like what it earned, or like the products' ids.
        DataError: a table cannot be read, has no rows, or is of another kind.
    """
    time_zone = checked_time_zone(time_zone)
    inferred, notes = infer_schema(frame, source)
    column = inferred.columns.time
    if column is not None:
        inferred, notes[column] = _with_times(inferred, frame[column], time_zone)
    if products is None:
        return InferredSchema(inferred, notes)
    described, described_source = read_table(products)
    table = products
    if isinstance(products, str | os.PathLike):
        table = os.fspath(products) if folder is None else os.path.relpath(products, folder)
    columns, more = infer_products(described, table, described_source)
    label = Path(described_source).name if described_source != "table" else "products"
    notes |= {f"{label}: {name}": note for name, note in more.items()}
    return InferredSchema(inferred.model_copy(update={"products": columns}), notes)


def _with_times(schema: Schema, times: pl.Series, time_zone: str | None) -> tuple[Schema, str]:
    """Return the schema with how the column of times is written, and what there is to say of it.

    Without the column where no time can be read.
    """
    order = shorter_order(times)
    try:
        read = read_times(times, TimeNotation(time_zone, dates=order), "")
        reason = "" if 2 * read.null_count() <= len(read) else "most of its values are no times"
    except DataError as error:
        reason = str(error).removeprefix(": ")
    if reason:
        columns = schema.columns.model_copy(update={"time": None})
        return schema.model_copy(update={"columns": columns}), f"left out: {reason}"
    note = "time" if order is None else f"time, its dates {order}, as far as their span tells"
    if time_zone is None and lacks_zone(times):
        note = f"{note}; {NAMES_NO_ZONE}"
    return schema.model_copy(update={"dates": order, "time_zone": time_zone}), note
