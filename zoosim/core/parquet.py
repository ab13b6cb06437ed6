"""Parquet files whose metadata says, as JSON, what made them, and which are sealed."""

import errno
import json
import mmap
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import polars as pl

from zoosim.core.csv_header import check_width
from zoosim.core.errors import DataError
from zoosim.core.files import atomic, open_file
from zoosim.core.memory import available_memory, gigabytes
from zoosim.core.parquet_footer import TAIL, check_pages, declared_sizes, footer_start
from zoosim.core.seal import BLANK, KEY, seal_file, seal_holds

META = "zoosim"
"""The key of our metadata in a Parquet file."""

UNREADABLE = (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ValueError)
"""Errors that reading a damaged file may raise."""

WRITER = b"Polars"
"""Writer of our files in their footers. What another tool wrote anew may still hold the seal of an older file."""

MOST_BYTES, MOST_TIMES = 250_000_000, 2_000
"""A file may declare this many bytes, and as many more as so often its own size: logs shrink 500 times at most."""

MOST_TEXT, MOST_TEXT_TIMES = 100_000_000, 100
"""Its words, written out row by row, may take so many bytes: a dictionary holds each once, however many rows do."""

_REDIRECTING = threading.RLock()
"""Held while standard error is redirected: of two threads that do so at once, one would keep the other's."""


@contextmanager
def decoding() -> Iterator[None]:
    """Keep off standard error what polars prints, beside raising one of `UNREADABLE`, where a decoder panics.

    What other threads print meanwhile comes afterwards; it is dropped with the rest after an error, and where the
    system has no files in memory.
    """
    with _REDIRECTING:
        try:
            # The system's handle, and not `sys.stderr`: it is compiled code that prints.
            standard_error = os.dup(2)
        except OSError:  # it is closed
            yield
            return
        try:
            kept = os.memfd_create("stderr") if hasattr(os, "memfd_create") else os.open(os.devnull, os.O_RDWR)
            try:
                os.dup2(kept, 2)
                yield
                os.dup2(standard_error, 2)
                os.lseek(kept, 0, os.SEEK_SET)
                while text := os.read(kept, 65_536):
                    with suppress(OSError):  # nobody reads it any more
                        os.write(2, text)
            finally:
                os.dup2(standard_error, 2)
                os.close(kept)
        finally:
            os.close(standard_error)


def write_parquet(frame: pl.DataFrame | pl.LazyFrame, path: Path, meta: Mapping[str, Any]) -> None:
    """Write a frame with `meta` as JSON in the file's metadata, sealed, whole or not at all; raises `OSError`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic(path) as temporary:
        sink_parquet(frame, temporary, meta)


def sink_parquet(
    frame: pl.DataFrame | pl.LazyFrame, path: Path, meta: Mapping[str, Any], *, sealed: bool = True, **options: Any
) -> None:
    """Write a frame with `meta` to a file that nobody reads yet, and seal it; `options` are those of polars."""
    metadata = {META: json.dumps(dict(meta)), **({KEY: BLANK} if sealed else {})}
    with naming_full_disks():
        frame.lazy().sink_parquet(path, metadata=metadata, statistics=False, **options)
    if sealed:
        seal_file(path)


@contextmanager
def naming_full_disks() -> Iterator[None]:
    """Raise `OSError` where polars cannot write a file."""
    try:
        yield
    except pl.exceptions.ComputeError as error:
        _, is_full_disk, reason = str(error).partition("IO error: ")
        if is_full_disk:
            raise OSError(errno.EIO, reason) from None
        raise


def read_meta(path: Path) -> dict[str, Any]:
    """Read what `write_parquet` kept beside the rows; raises `DataError` on a truncated or foreign file."""
    try:
        with decoding():
            text = pl.read_parquet_metadata(path).get(META, "{}")
            pl.scan_parquet(path, glob=False).select(pl.len()).collect()
        return dict(json.loads(text))
    except UNREADABLE:
        raise DataError(f"{path} is damaged or truncated; delete it and run again") from None


def read_parquet(path: Path) -> pl.DataFrame:
    """Return a table.

    Raises:
        DataError: the file is no Parquet file, is truncated, differs from what zoosim wrote, or does not fit in memory.
    """
    check_parquet(path)
    try:
        return decode_parquet(path)
    except DataError:
        raise
    except UNREADABLE as error:
        raise DataError(f"{path}: {_unreadable(path)}: {str(error).splitlines()[0]}") from None


def decode_parquet(path: Path, columns: Sequence[str] | None = None) -> pl.DataFrame:
    """Return some columns of a file that was checked, all without `columns`; raises `DataError` or `UNREADABLE`."""
    with decoding():
        frame = pl.read_parquet(path, glob=False, columns=None if columns is None else list(columns))
    # Until words are changed or copied, rows point to those of the dictionary.
    text = sum(series.estimated_size() for series in frame if _holds_text(series.dtype))
    size = path.stat().st_size
    if text > MOST_TEXT + MOST_TEXT_TIMES * size:
        raise DataError(f"{path}: has {size:,} bytes, and text that takes {gigabytes(text)} row by row; leave it out")
    return frame


def _holds_text(dtype: pl.DataType) -> bool:
    while isinstance(dtype, pl.List | pl.Array):
        assert isinstance(dtype.inner, pl.DataType)
        dtype = dtype.inner
    return not (dtype.is_numeric() or dtype.is_temporal() or dtype == pl.Boolean)


def check_parquet(path: Path, *, fits_in_memory: bool = True) -> None:
    """Refuse a file before any of it is decoded, as `read_parquet` does.

    Args:
        path: The file.
        fits_in_memory: Whether it is to be refused where it takes more memory than is left.
    """
    try:
        with open_file(path) as file:
            size = os.fstat(file.fileno()).st_size
            if not size:  # which cannot be mapped
                raise ValueError("it is empty")
            content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        with content:
            start = footer_start(size, content[-TAIL:])
            seal = seal_holds(content, start) if content.rfind(WRITER, start) >= 0 else None
            declared, n_columns = declared_sizes(content[start:-TAIL]) if seal is not False else (0, 0)
            # Of a sealed file that zoosim wrote, the digest says that all pages are as they were written.
            if seal is None:
                check_pages(content, start)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise DataError(f"{path}: {_unreadable(path)}: {reason}") from None
    if seal is False:
        raise DataError(
            f"{path}: differs from what zoosim wrote (its digest does not match), so it is damaged or was edited; "
            f"restore it or write it anew, and save an edited table without its metadata"
        )
    check_width(path, n_columns)
    if declared > MOST_BYTES + MOST_TIMES * size:
        raise DataError(f"{path}: has {size:,} bytes and declares {gigabytes(declared)}; it is damaged, write it anew")
    if fits_in_memory:
        _check_memory(path, declared)


def declared_bytes(path: Path) -> int:
    """Return how many bytes a Parquet file's table takes once it is read, at least; 0 for a broken one."""
    try:
        with open_file(path) as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, size - TAIL))
            start = footer_start(size, file.read(TAIL))
            file.seek(start)
            return declared_sizes(file.read(size - TAIL - start))[0]
    except (OSError, ValueError):
        return 0


def _unreadable(path: Path) -> str:
    hint = "perhaps truncated" if path.suffix.lower() in (".parquet", ".pq") else "zoosim import reads other tables"
    return f"cannot be read as Parquet, {hint}"


def _check_memory(path: Path, declared: int) -> None:
    """Refuse a file that declares more bytes than memory is left."""
    available = available_memory()
    if declared > available:
        held = f"holds {gigabytes(declared)}, and {gigabytes(available)} of memory are left"
        raise DataError(f"{path}: {held}; give fewer rows, or a larger machine")
