"""Read a log of products in blocks, so that it need not fit in memory: checked once, then decoded when asked for."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from zoosim.core.action_space import PRODUCTS
from zoosim.core.blocks import BLOCK_ROWS, RowArray, StoredRows
from zoosim.core.calls import no_progress
from zoosim.core.errors import DataError
from zoosim.core.memory import available_memory
from zoosim.core.parameters import unknown
from zoosim.core.parquet import UNREADABLE, check_parquet, declared_bytes, decoding, read_meta
from zoosim.core.types import FloatArray, IntArray, Progress
from zoosim.logs.checks import (
    bad_rows,
    check_columns,
    check_names,
    check_numeric,
    expected_id,
    floats,
    missing_faults,
    refusal,
    shown_value,
)
from zoosim.logs.log import Log
from zoosim.logs.parse import catalogue_of, encoding_of, faults_of, named_action_space, normalized
from zoosim.logs.records import ProductRecords, records_of, seen_actions
from zoosim.logs.schema import (
    CANDIDATE_PROPENSITIES,
    LIFE,
    LISTED,
    OWN_MARGINAL,
    READ,
    REQUIRED,
    REWARDS,
    SOURCE,
    SOURCE_PRODUCTS,
)
from zoosim.logs.sources import CandidateSources, SourceNumbers
from zoosim.logs.stream_ids import RepeatedIds, UserNumbers
from zoosim.logs.stream_sets import DistinctSets

FIRST_ROWS = 1_000
"""Rows by which the length of lists is estimated."""

LARGEST_WINDOW = 16 * BLOCK_ROWS
"""Rows that are decoded at once, a whole number of blocks; fewer where visitors have many features."""

WINDOW_VALUES = 2**24
"""Numbers in lists, such as features, that are decoded at once."""

LISTS = ("user", *LISTED, CANDIDATE_PROPENSITIES)
"""Columns of lists, by whose lengths rows take more or less memory."""

MEMORY_TIMES = 4.0
"""What reading a log whole takes, in sizes of its table."""


def stream_log(
    path: str | os.PathLike[str],
    *,
    columns: Sequence[str] = (),
    skip_bad: bool = False,
    progress: Progress = no_progress,
) -> Log:
    """Return a log of products whose rows are read from a Parquet file in blocks, whenever they are asked for.

    All rows are checked once, as `read_log` does. What is kept of each is in files without names, in the folder for
    temporary files (`TMPDIR`): some 8 to 24 bytes, for users whose ids are words, lists of candidates, and
    decision_ids while they are compared.

    Args:
        path: The file.
        columns, skip_bad: As in `read_log`.
        progress: Called with lines about how far it is.

    Raises:
        DataError: as `read_log`; or the log is one of rankings, boosts, or visitors who come back.
    """
    file = Path(path)
    if not file.is_file():
        raise DataError(f"{file}: no such file; give a Parquet file of Records")
    check_parquet(file, fits_in_memory=False)
    held = _held_beside_products(file)
    if held is not None:
        raise DataError(
            f"{file}: is a log of {held}, and in blocks logs of products alone are read; leave out --stream"
        )
    rewards = [str(name) for name in read_meta(file).get(REWARDS, [])]
    wanted = {*READ, OWN_MARGINAL, *columns, *rewards}
    windows = _Windows(file, [*columns, *rewards], wanted)
    catalogue = catalogue_of(windows.catalogues(), file)
    log = _Scan(windows, columns, rewards, catalogue.products, progress).log(skip_bad)
    fitted = encoding_of(file, log.features.shape[1])
    return replace(
        log,
        categories=catalogue.categories,
        ids=catalogue.ids,
        names=catalogue.names,
        other_names=catalogue.other_names,
        other_products=catalogue.other_products,
        fitted=fitted,
    )


def is_too_large(path: Path) -> bool:
    """Return whether a Parquet file is a log of products that would take more memory than is left."""
    if MEMORY_TIMES * declared_bytes(path) <= available_memory():
        return False
    check_parquet(path, fits_in_memory=False)
    return _held_beside_products(path) is None


def _held_beside_products(path: Path) -> str | None:
    """Return what a log holds decisions of where it is not of products for visitors of one decision, else None."""
    space = named_action_space(path)
    if space not in (None, PRODUCTS):
        return space
    with _parquet(path):
        schema = pl.scan_parquet(path, glob=False).collect_schema()
    if set(LIFE) <= set(schema.names()):
        return "visitors who come back"
    return "boosts" if isinstance(schema.get("action"), pl.List | pl.Array) else None


@contextmanager
def _parquet(path: Path) -> Iterator[None]:
    """Decode a Parquet file in a block; raises `DataError` where that cannot be done."""
    try:
        with decoding():
            yield
    except UNREADABLE as error:
        reason = str(error).splitlines()[0]
        raise DataError(f"{path}: cannot be read as Parquet, perhaps truncated: {reason}") from None


def _stamp(path: Path) -> tuple[int, ...]:
    """Return what is another once a file was changed or replaced; nothing where it is gone."""
    try:
        state = path.stat()
    except OSError:
        return ()
    return state.st_ino, state.st_size, state.st_mtime_ns


class _Windows:
    """The rows of a Parquet file, decoded a window at a time; the last window of each column is kept."""

    def __init__(self, path: Path, columns: Sequence[str], wanted: set[str]) -> None:
        self.path = path
        self._stamp = _stamp(path)
        with _parquet(path):
            self._scan = pl.scan_parquet(path, glob=False)
            known = self._scan.collect_schema().names()
            self.n_rows = int(self._scan.select(pl.len()).collect().item())
        check_names(known, str(path), REQUIRED)
        missing = [name for name in columns if name not in known]
        if missing:
            raise DataError(f"{path}: {unknown('no column', missing[0], known)}")
        if not self.n_rows:
            raise DataError(f"{path}: got no rows, expected at least one interaction")
        self.names = [name for name in known if name in wanted]
        self.length = LARGEST_WINDOW
        check_columns(self.frame(0, length=1), str(path), records_of(PRODUCTS).required)
        lists = [name for name in LISTS if name in self.names]
        if lists:
            few = self.frame(0, lists, FIRST_ROWS)
            width = few.select(pl.sum_horizontal(pl.col(lists).list.len().mean())).item() or 0.0
            fitting = int(WINDOW_VALUES / max(width, 1.0)) // BLOCK_ROWS * BLOCK_ROWS
            self.length = int(np.clip(fitting, BLOCK_ROWS, LARGEST_WINDOW))
        self._kept: dict[str, tuple[int, np.ndarray]] = {}
        self._count_ids()

    def _count_ids(self) -> None:
        """Find out whether the log names users, and by words or whole numbers."""
        self.names_users = False
        self.names_users_by_words = False
        if "user_id" not in self.names:
            return
        ids = pl.col("user_id")
        no_whole = ids.cast(pl.Int64, strict=False).null_count()
        with _parquet(self.path):
            counts = self._scan.select(ids.null_count().alias("missing"), no_whole.alias("words")).collect(
                engine="streaming"
            )
        self.names_users = counts["missing"].item() < self.n_rows
        is_whole = self._scan.collect_schema()["user_id"].is_integer() and not counts["words"].item()
        self.names_users_by_words = self.names_users and not is_whole

    def catalogues(self) -> pl.DataFrame:
        """Return the names of the catalogues in all rows, each once."""
        if "catalogue" not in self.names:
            return pl.DataFrame()
        with _parquet(self.path):
            return self._scan.select(pl.col("catalogue").unique()).collect(engine="streaming")

    @property
    def starts(self) -> range:
        """The first row of each window."""
        return range(0, self.n_rows, self.length)

    def frame(self, start: int, names: Sequence[str] | None = None, length: int = 0) -> pl.DataFrame:
        """Return columns of a window, or of fewer rows, by its first row, in the form that checks expect."""
        return normalized(self._decoded(start, length or self.length, self.names if names is None else list(names)))

    def _decoded(self, start: int, length: int, names: list[str]) -> pl.DataFrame:
        with self._unchanged(), _parquet(self.path):
            return self._scan.slice(start, length).select(names).collect()

    @contextmanager
    def _unchanged(self) -> Iterator[None]:
        """Read from the file in a block; raises `DataError` where it is another than it was, whatever was read."""
        try:
            yield
        finally:
            if _stamp(self.path) != self._stamp:
                raise DataError(f"{self.path}: was changed while it was read; repeat this when nobody writes to it")

    def array(
        self, name: str, convert: Callable[[pl.Series], np.ndarray], dtype: Any, width: int | None = None
    ) -> RowArray:
        """Return a column as an array that is decoded when rows are asked for: `(n,)`, or `(n, width)`."""

        def window(start: int) -> np.ndarray:
            if self._kept.get(name, (-1,))[0] != start:
                self._kept.pop(name, None)  # before the next one is decoded
                self._kept[name] = (start, convert(self.frame(start, [name])[name]))
            return self._kept[name][1]

        def read(start: int, stop: int) -> np.ndarray:
            first = start // self.length * self.length
            parts = [window(begin)[max(start - begin, 0) : stop - begin] for begin in range(first, stop, self.length)]
            return parts[0] if len(parts) == 1 else np.concatenate(parts)

        return RowArray((self.n_rows,) if width is None else (self.n_rows, width), dtype, read)


class _Scan:
    """One pass over all rows, that checks them and finds what can only be known of all of them."""

    def __init__(
        self,
        windows: _Windows,
        columns: Sequence[str],
        rewards: Sequence[str],
        products: FloatArray | None,
        progress: Progress,
    ) -> None:
        self._windows = windows
        self._columns = list(columns)
        self._rewards = list(rewards)
        self._products = products
        self._progress = progress
        self._source = str(windows.path)
        self._n_actions = self._count_products()
        self._is_bad = StoredRows((windows.n_rows,), bool)
        self._skipped: dict[str, int] = {}
        self._first_bad: tuple[int, str, str] | None = None
        self._positions: set[int | None] = set()
        self._n_bad = 0
        self._width: int | None = None
        self._nulls: dict[str, bool] = {}
        self._repeated = self._repeated_ids()
        self._users = UserNumbers(windows.n_rows, self._source) if windows.names_users_by_words else None
        self._sets = DistinctSets(windows.n_rows, self._n_actions, self._source)
        self._sources = SourceNumbers(windows.n_rows) if set(SOURCE) <= set(windows.names) else None
        for start in windows.starts:
            self._check(start)
            stop = min(start + windows.length, windows.n_rows)
            progress(f"checked {stop:,} of {windows.n_rows:,} rows")
        self._check_ids()

    def log(self, skip_bad: bool) -> Log:
        """Return the log, without bad rows where these are skipped; raises `DataError` for them where they are not."""
        windows = self._windows
        n = windows.n_rows
        if self._first_bad is not None and not skip_bad:
            row, column, expected = self._first_bad
            value = shown_value(windows.frame(row, [column], 1)[column], 0)
            got = f"row {row}, column {column}: got {value}, expected {expected}"
            raise DataError(refusal(self._source, got, self._n_bad, n))
        if self._n_bad == n:
            reasons = "; ".join(f"{count:,} x {reason}" for reason, count in self._skipped.items())
            raise DataError(f"{self._source}: every one of {n:,} rows is bad; {reasons}")
        zeros: Any = RowArray((n,), np.int64, lambda start, stop: np.zeros(stop - start, np.int64))
        candidates, candidate_set = self._sets.candidates(zeros)
        log = Log(
            actions=self._whole("action"),
            propensities=self._numbers("propensity"),
            rewards=self._numbers("reward"),
            candidates=candidates,
            candidate_set=candidate_set,
            features=self._features(),
            positions=self._whole("position") if "position" in windows.names else zeros,
            products=np.zeros((self._n_actions, 0)) if self._products is None else self._products,
            user_ids=self._user_ids(),
            times=self._times(),
            marginals=self._numbers(OWN_MARGINAL) if OWN_MARGINAL in windows.names else None,
            candidate_sources=self._candidate_sources(zeros),
            columns={name: self._numbers(name) for name in self._columns},
            rewards_by_name={name: self._numbers(name) for name in self._rewards},
            skipped=self._skipped,
            source=self._source,
        )
        if not self._n_bad:
            return log
        is_bad = self._is_bad
        return log.rows(RowArray((n,), bool, lambda start, stop: ~is_bad[start:stop]))

    def _repeated_ids(self) -> IntArray:
        """Return the rows whose decision_id an earlier row has, in order."""
        ids = RepeatedIds(self._windows.n_rows)
        if "decision_id" in self._windows.names:
            for start in self._windows.starts:
                ids.add(start, self._windows.frame(start, ["decision_id"])["decision_id"])
        return ids.repeated(self._progress)

    def _count_products(self) -> int:
        if self._products is not None:
            return len(self._products)
        listed = [name for name in LISTED if name in self._windows.names]
        return max(seen_actions(self._windows.frame(start, ["action", *listed])) for start in self._windows.starts)

    def _check(self, start: int) -> None:
        """Find the bad rows of a window, and take in what it holds."""
        frame = self._windows.frame(start)
        check_columns(frame, self._source, records_of(PRODUCTS).required)
        check_numeric(frame, [*self._columns, *self._rewards], self._source)
        self._check_alike(frame, start)
        without_ids = frame.drop("decision_id", strict=False)  # which are compared with those of all rows, later
        records = ProductRecords(without_ids, self._source, self._n_actions)
        faults = chain(missing_faults(frame.select(pl.col("^decision_id$"))), faults_of(records, self._rewards))
        bad, skipped, (row, column, expected) = bad_rows(frame.height, faults)
        self._is_bad[start : start + frame.height] = bad
        if bad.any():
            self._take_bad(skipped, start + row, column, expected)
        if "position" in frame.columns:
            self._positions |= set(frame["position"].unique().head(2))
        is_kept = ~bad
        first, last = np.searchsorted(self._repeated, [start, start + frame.height])
        is_kept[self._repeated[first:last] - start] = False
        if self._users is not None:
            self._users.add(start, frame["user_id"], is_kept)
        self._sets.add(start, frame, is_kept)
        if self._sources is not None:
            self._sources.add(start, frame, is_kept)

    def _take_bad(self, skipped: dict[str, int], row: int, column: str, expected: str) -> None:
        """Count bad rows by reason, the first of which has a fault in a column."""
        if self._first_bad is None or row < self._first_bad[0]:
            self._first_bad = (row, column, expected)
        self._n_bad += sum(skipped.values())
        for reason, count in skipped.items():
            self._skipped[reason] = self._skipped.get(reason, 0) + count

    def _check_alike(self, frame: pl.DataFrame, start: int) -> None:
        """Refuse rows that are described by lists of another length, or lack what those before them have."""
        if "user" in frame.columns:
            width = int(str(frame["user"].list.len().drop_nulls().mode().min() or 0))
            if self._width is None:
                self._width = width
            if width != self._width:
                got = f"got lists of {width} numbers in column user from row {start} on, {self._width} before"
                raise DataError(f"{self._source}: {got}; mend the log, or judge its parts one by one")
        for name in ("time", "decision_id"):
            if name in frame.columns:
                is_empty = frame[name].null_count() == frame.height
                if self._nulls.setdefault(name, is_empty) != is_empty:
                    raise DataError(
                        f"{self._source}: column {name} holds nothing in some of the rows around row {start}, expected "
                        "a value in all of them or in none; mend the log"
                    )

    def _check_ids(self) -> None:
        """Add the rows whose decision_id an earlier row has to the bad ones."""
        expected = expected_id(shows_positions=len(self._positions) > 1)
        for row in self._repeated.tolist():
            if not self._is_bad[row]:
                self._is_bad[row : row + 1] = np.ones(1, bool)
                self._take_bad({f"decision_id: expected {expected}": 1}, row, "decision_id", expected)

    def _whole(self, name: str) -> Any:
        def convert(column: pl.Series) -> IntArray:
            return np.asarray(column.fill_null(0).cast(pl.Int64).to_numpy())

        return self._windows.array(name, convert, np.int64)

    def _numbers(self, name: str) -> Any:
        if name not in self._windows.names:
            return RowArray((self._windows.n_rows,), np.float64, lambda start, stop: np.full(stop - start, np.nan))
        return self._windows.array(name, floats, np.float64)

    def _features(self) -> Any:
        width = self._width or 0
        if not width:
            return RowArray((self._windows.n_rows, 0), np.float64, lambda start, stop: np.zeros((stop - start, 0)))

        def convert(column: pl.Series) -> FloatArray:
            lengths = column.list.len()
            if (lengths != width).any() or lengths.null_count():  # in bad rows, which are left out
                blank = pl.lit(pl.Series([[0.0] * width]))
                rows = pl.select(pl.when(lengths == width).then(column.cast(pl.List(pl.Float64))).otherwise(blank))
                column = rows.to_series()
            return floats(column.list.explode(keep_nulls=False, empty_as_null=False)).reshape(-1, width)

        return self._windows.array("user", convert, np.float64, width)

    def _candidate_sources(self, zeros: RowArray) -> CandidateSources | None:
        if self._sources is None:
            return None
        products = self._whole(SOURCE_PRODUCTS) if SOURCE_PRODUCTS in self._windows.names else zeros
        return self._sources.with_columns(self._numbers(SOURCE[2]), products)

    def _user_ids(self) -> Any:
        if self._users is not None:
            return self._users.numbers
        return self._whole("user_id") if self._windows.names_users else None

    def _times(self) -> Any:
        if "time" not in self._windows.names or self._nulls.get("time", True):
            return None

        def convert(column: pl.Series) -> IntArray:
            return np.asarray(column.dt.epoch("us").fill_null(0).to_numpy())

        return self._windows.array("time", convert, np.int64)
