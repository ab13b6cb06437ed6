"""Write a user's table as a log of Records."""

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from zoosim.core.config import build
from zoosim.core.errors import ConfigError
from zoosim.core.parameters import shown
from zoosim.core.parquet import write_parquet
from zoosim.logs.importing.mapping import LogMapping, read_mapping, to_records
from zoosim.logs.importing.tables import read_words
from zoosim.logs.schema import SCHEMA_VERSION


def import_log(
    table: Any,
    mapping: str | os.PathLike[str] | Mapping[str, Any] | LogMapping,
    out: str | os.PathLike[str],
    *,
    skip_bad: bool = False,
) -> dict[str, int]:
    """Write `table` (a CSV or Parquet file, or a data frame) as Records to `out`; return what was skipped, by reason.

    What is known of the products lies beside it as catalogue-HASH.parquet. Raises `ConfigError` for a wrong mapping,
    `DataError` for a table that lacks a column or has a bad row, before anything is written.
    """
    path = Path(out)
    if path.suffix != ".parquet" or path.is_dir() or not path.parent.is_dir():
        raise ConfigError(f"import: got {str(out)!r}, expected a file that ends in .parquet, in a folder that is there")
    if isinstance(table, str | os.PathLike) and path.exists() and path.samefile(table):
        raise ConfigError(
            f"import: got {path} as the table and as the log, expected another file, which is written anew"
        )
    frame, source = read_words(table)
    found = to_records(frame, _mapping(mapping), source=source, skip_bad=skip_bad)
    digest = _digest(found.products)
    told = found.records.with_columns(
        pl.lit(digest).alias("catalogue"),
        found.products["product_id"][found.records["action"].to_numpy()].alias("product_id"),
    )
    write_parquet(found.products, path.parent / f"catalogue-{digest}.parquet", {"schema": "catalogue", **VERSION})
    write_parquet(told, path, {"schema": "record", **VERSION})
    return found.skipped


def _digest(products: pl.DataFrame) -> str:
    """Hash what is known of the products, so that another description gets another file."""
    return hashlib.sha256(repr(products.to_dict(as_series=False)).encode()).hexdigest()[:16]


VERSION = {"schema_version": SCHEMA_VERSION}


def _mapping(given: Any) -> LogMapping:
    if isinstance(given, LogMapping):
        return given
    if isinstance(given, str | os.PathLike):
        return read_mapping(given)
    if not isinstance(given, Mapping):
        raise ConfigError(f"mapping: got {shown(given)}, expected a YAML file or a mapping")
    mapping: LogMapping = build(LogMapping, given, "mapping")
    return mapping
