"""Parquet files whose metadata says, as JSON, what made them."""

import errno
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from zoosim.core.errors import DataError
from zoosim.core.files import atomic

META = "zoosim"
"""The key of our metadata in a Parquet file."""


def write_parquet(frame: pl.DataFrame | pl.LazyFrame, path: Path, meta: Mapping[str, Any]) -> None:
    """Write a frame with `meta` as JSON in the file's metadata, whole or not at all; raises `OSError`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic(path) as temporary:
        try:
            frame.lazy().sink_parquet(temporary, metadata={META: json.dumps(dict(meta))}, statistics=False)
        except pl.exceptions.ComputeError as error:
            _, is_full_disk, reason = str(error).partition("IO error: ")
            if is_full_disk:
                raise OSError(errno.EIO, reason) from None
            raise


def read_meta(path: Path) -> dict[str, Any]:
    """Read what `write_parquet` kept beside the rows; raises `DataError` on a truncated or foreign file."""
    try:
        text = pl.read_parquet_metadata(path).get(META, "{}")
        pl.scan_parquet(path).select(pl.len()).collect()
        return dict(json.loads(text))
    except (pl.exceptions.PolarsError, OSError, ValueError):
        raise DataError(f"{path} is damaged or truncated; delete it and run again") from None
