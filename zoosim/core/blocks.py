"""Arrays of rows that are gone through in blocks of a fixed size: sums have the same bits in memory and from a file.

A sum over rows is the sum of each block's, in the order of the rows. So it does not matter who keeps the rows, how a
file groups them, or how many threads read it.
"""

import tempfile
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.rng import mix, stream_key
from zoosim.core.types import FloatArray, IntArray

BLOCK_ROWS = 65_536
"""Rows of a block: few enough to stay in a processor's cache, and many beside what is done once per block."""


def row_blocks(n: int, parts: int = 1) -> Iterator[slice]:
    """Yield `n` rows in blocks, in order, or each block in so many parts of equal length."""
    length = BLOCK_ROWS // parts
    for start in range(0, n, length):
        yield slice(start, min(start + length, n))


class RowArray:
    """An array of n rows that is read or computed for some of them at a time, and never whole.

    Args:
        shape: Its shape, n first.
        dtype: The type of its numbers.
        read: Returns the rows from a first one to before another.
    """

    def __init__(self, shape: tuple[int, ...], dtype: Any, read: Callable[[int, int], np.ndarray]) -> None:
        self.shape = shape
        self.ndim = len(shape)
        self.dtype = np.dtype(dtype)
        self._read = read

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> Any:
        """Return some rows as an array: a slice without a step, the numbers of rows in any order, or one row."""
        if isinstance(rows, slice):
            start, stop, _ = rows.indices(len(self))
            return self._read(start, stop)
        if isinstance(rows, int | np.integer):
            return self._read(int(rows), int(rows) + 1)[0]
        return self._gather(np.asarray(rows))

    def _gather(self, rows: IntArray) -> np.ndarray:
        """Return rows by their numbers `(m,)`: each block that holds some of them is read once."""
        rises = bool((rows[1:] >= rows[:-1]).all())
        order: Any = np.argsort(rows, kind="stable") if not rises else np.arange(len(rows))
        numbers = rows[order]
        out = np.empty((len(rows), *self.shape[1:]), self.dtype)
        start = 0
        while start < len(numbers):
            first = int(numbers[start]) // BLOCK_ROWS * BLOCK_ROWS
            stop = int(np.searchsorted(numbers, first + BLOCK_ROWS))
            block = self._read(first, min(first + BLOCK_ROWS, len(self)))
            out[order[start:stop]] = block[numbers[start:stop] - first]
            start = stop
        return out

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        """Refuse to become an array in memory."""
        raise TypeError("these rows are read in blocks, and never as a whole")


class StoredRows(RowArray):
    """An array of n rows in a file without a name, which is gone when nobody uses it any more; rows are set in blocks.

    Args:
        shape: Its shape, n first.
        dtype: The type of its numbers.
    """

    def __init__(self, shape: tuple[int, ...], dtype: Any) -> None:
        file = tempfile.TemporaryFile()  # noqa: SIM115 (open as long as the array is)
        row_bytes = np.dtype(dtype).itemsize * int(np.prod(shape[1:], dtype=np.int64))

        def read(start: int, stop: int) -> np.ndarray:
            file.seek(start * row_bytes)
            return np.frombuffer(file.read((stop - start) * row_bytes), dtype).reshape(-1, *shape[1:])

        super().__init__(shape, dtype, read)
        self._file = file
        self._row_bytes = row_bytes
        weakref.finalize(self, file.close)

    def __setitem__(self, rows: slice, values: np.ndarray) -> None:
        """Set the rows of a slice."""
        self._file.seek(rows.start * self._row_bytes)
        self._file.write(np.ascontiguousarray(values, self.dtype).tobytes())


class RowSelection:
    """Some of n rows that are read in blocks: those that `marks (n,)` holds true for; `n_rows` of them."""

    def __init__(self, marks: RowArray) -> None:
        self._marks = marks
        counts = [int(marks[rows].sum()) for rows in row_blocks(len(marks))]
        self._ends = np.cumsum(counts, dtype=np.int64)
        self.n_rows = int(self._ends[-1]) if counts else 0

    def of(self, array: Any) -> RowArray:
        """Return the selected rows of an array `(n, ...)`."""

        def read(start: int, stop: int) -> np.ndarray:
            first = int(np.searchsorted(self._ends, start, side="right"))
            last = int(np.searchsorted(self._ends, stop, side="left"))
            before = 0 if first == 0 else int(self._ends[first - 1])
            parts = []
            for number in range(first, last + 1):
                rows = slice(number * BLOCK_ROWS, min((number + 1) * BLOCK_ROWS, len(array)))
                parts.append(array[rows][self._marks[rows]])
            return np.concatenate(parts)[start - before : stop - before]

        return RowArray((self.n_rows, *array.shape[1:]), array.dtype, read)


class RowSpan:
    """The rows from `start` to before `stop` of arrays that are read in blocks."""

    def __init__(self, start: int, stop: int) -> None:
        self._start = start
        self.n_rows = stop - start

    def of(self, array: Any) -> RowArray:
        """Return these rows of an array `(n, ...)`."""
        first = self._start
        shape = (self.n_rows, *array.shape[1:])
        return RowArray(shape, array.dtype, lambda start, stop: array[first + start : first + stop])


class SparseRows(RowArray):
    """An array of n rows that holds 0 but in some.

    Args:
        n: How many rows there are.
        places: The numbers of the others, in order `(m,)`.
        values: What these hold `(m,)`.
    """

    def __init__(self, n: int, places: IntArray, values: FloatArray) -> None:
        super().__init__((n,), np.float64, self._spread)
        self._places = places
        self._values = values

    def _spread(self, start: int, stop: int) -> FloatArray:
        out = np.zeros(stop - start)
        first, last = np.searchsorted(self._places, [start, stop])
        out[self._places[first:last] - start] = self._values[first:last]
        return out


class RowSigns(RowArray):
    """1 or -1 for each of n rows, as if drawn by chance: by the number of the row and a `name`, so in any order."""

    def __init__(self, n: int, name: str) -> None:
        key = stream_key(0, name)
        super().__init__((n,), np.float64, lambda start, stop: _signs(key, start, stop))


@jit
def _signs(key: np.uint64, start: int, stop: int) -> FloatArray:
    out = np.empty(stop - start)
    for row in range(start, stop):
        out[row - start] = 1.0 if mix(np.uint64(key ^ np.uint64(row))) >> np.uint64(63) else -1.0
    return out


def mapped(function: Callable[..., np.ndarray], *arrays: Any, dtype: Any = np.float64, width: int | None = None) -> Any:
    """Return what a function makes of arrays `(n, ...)`, row by row: `(n,)`, or `(n, width)`.

    Where one of them is read in blocks, the result is computed in blocks, too, whenever rows are asked for.
    """
    if not any(isinstance(array, RowArray) for array in arrays):
        return function(*arrays)
    n = len(arrays[0])
    shape = (n,) if width is None else (n, width)
    return RowArray(shape, dtype, lambda start, stop: function(*(array[start:stop] for array in arrays)))


def empty_rows(shape: tuple[int, ...], like: Any) -> Any:
    """Return an array to be filled in, n rows first: in a file where `like`, one of other things, is read in blocks."""
    return StoredRows(shape, np.float64) if isinstance(like, RowArray) else np.empty(shape)


def block_sum(values: Any) -> float:
    """Return the sum of `values (n,)`."""
    return sum((float(values[rows].sum()) for rows in row_blocks(len(values))), 0.0)


def count_rows(marks: Any) -> int:
    """Return how many of `marks (n,)` are true."""
    return sum(int(marks[rows].sum()) for rows in row_blocks(len(marks)))


def block_sums(values: Any, function: Callable[[FloatArray], FloatArray] = lambda block: block) -> FloatArray:
    """Return the sums of the columns of what a function makes of `values (n, d)`: `(d,)`."""
    total = np.zeros(values.shape[1])
    for rows in row_blocks(len(values)):
        total += function(values[rows]).sum(axis=0)
    return total


def dot(x: Any, y: Any) -> float:
    """Return the sum of products of `x (n,)` and `y (n,)`, with the same bits on any number of threads, unlike BLAS."""
    return sum((float((x[rows] * y[rows]).sum()) for rows in row_blocks(len(x))), 0.0)


def block_unique(values: Any) -> np.ndarray:
    """Return the different ones among `values (n,)`, in order."""
    return np.unique(np.concatenate([np.unique(values[rows]) for rows in row_blocks(len(values))]))


def extremes(values: Any) -> tuple[float, float]:
    """Return the least and the largest of `values (n,)`, both NaN where one of them is."""
    blocks = [(values[rows].min(), values[rows].max()) for rows in row_blocks(len(values))]
    # By numpy: Python's `min` passes over a NaN that does not come first.
    lows, highs = np.array(blocks).T
    return lows.min(), highs.max()


def block_any(condition: Callable[..., Any], *arrays: Any) -> bool:
    """Return whether a condition is true of any row of arrays `(n, ...)`; later blocks are not looked at then."""
    return any(bool(np.any(condition(*(array[rows] for array in arrays)))) for rows in row_blocks(len(arrays[0])))
