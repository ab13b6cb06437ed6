"""What an index of product vectors must do, and what it returns."""

from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from zoosim.core.checks import check_whole, written_shape
from zoosim.core.errors import DataError
from zoosim.core.parameters import shown
from zoosim.core.types import BoolArray, FloatArray, IntArray

LARGEST = 1e9
"""No coordinate of a vector or a query may be larger in size."""

MOST_VECTORS = 20_000_000
MOST_COORDINATES = 4_096

NO_ID = -1
"""Stands where an index holds, or a mask allows, fewer products than were asked for."""


class Matches(NamedTuple):
    """The products with the largest inner products, the largest first.

    Attributes:
        ids: Ids of products `(Q, k)`; -1 behind the last where there are fewer than k.
        scores: Their inner products with the query `(Q, k)`; -inf where there is no product.
    """

    ids: IntArray
    scores: FloatArray


class Index(Protocol):
    """Product vectors by id, and the search for those with the largest inner product with a query.

    The same vectors give the same answers, to the bit: however the index was built (all at once, one by one, by two
    threads, from a file), and whether queries come alone or together.
    """

    @property
    def ids(self) -> IntArray:
        """Ids of the products that the index holds, ascending `(n,)`."""
        ...

    @property
    def width(self) -> int:
        """Coordinates of a vector."""
        ...

    @property
    def version(self) -> str:
        """Names what the index holds and how it searches: equal versions find the same."""
        ...

    def search(self, queries: Any, k: int, allowed: Any = None) -> Matches:
        """Return the k products with the largest inner products for each query.

        Args:
            queries: One query `(d,)` or several `(Q, d)`, numbers up to 1e9 in size.
            k: How many products, 1 to 100,000.
            allowed: Which products may be found: a mask over `ids (n,)`, or some of the ids `(m,)`. None: all.

        Raises:
            DataError: a query or a mask has another shape than expected, or holds what is no finite number.
            ConfigError: `k` is no whole number within its range.
        """
        ...

    def add(self, ids: Any, vectors: Any) -> None:
        """Add products `(m,)` with their vectors `(m, d)`; those that the index holds get the new vector."""
        ...

    def remove(self, ids: Any) -> None:
        """Remove products `(m,)`: no search finds them from now on. Raises `DataError` for an id that is not held."""
        ...

    def save(self, path: str | Path) -> None:
        """Write the index to a file with a checksum, whole or not at all."""
        ...


MOST_MATCHES = 100_000


def check_vectors(label: str, value: Any, width: int | None = None) -> np.ndarray:
    """Return vectors `(n, d)` as 32 bit numbers, or raise `DataError`."""
    try:
        vectors = np.ascontiguousarray(value, dtype=np.float32)
    except (TypeError, ValueError, OverflowError):
        raise DataError(f"{label}: got {shown(value)}, expected an array of numbers (n, d)") from None
    if vectors.ndim != 2 or not 1 <= vectors.shape[1] <= MOST_COORDINATES or width not in (None, vectors.shape[1]):
        expected = f"(n, {width})" if width else f"(n, d), d from 1 to {MOST_COORDINATES:,}"
        raise DataError(f"{label}: got an array of shape {written_shape(np.shape(value))}, expected {expected}")
    _check_finite(label, vectors)
    return vectors


def check_queries(value: Any, width: int) -> FloatArray:
    """Return queries `(Q, width)`, one alone as a batch of one, or raise `DataError`."""
    try:
        queries = np.ascontiguousarray(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise DataError(f"queries: got {shown(value)}, expected numbers ({width},) or (n, {width})") from None
    if queries.ndim not in (1, 2) or queries.shape[-1] != width:
        came = written_shape(queries.shape)
        raise DataError(f"queries: got an array of shape {came}, expected ({width},) or (n, {width})")
    _check_finite("queries", queries)
    return queries.reshape(-1, width)


def check_ids(label: str, value: Any) -> IntArray:
    """Return ids `(m,)`, each once, or raise `DataError`."""
    ids = np.asarray(value)
    if ids.size == 0 and ids.ndim == 1:
        return np.zeros(0, np.int64)
    if ids.ndim != 1 or ids.dtype.kind not in "iu" or (ids.dtype.kind == "u" and ids.max() > np.iinfo(np.int64).max):
        raise DataError(f"{label}: got {shown(value)}, expected an array of whole numbers (n,)")
    ids = ids.astype(np.int64)
    if ids.min() < 0:
        raise DataError(f"{label}: got the id {ids.min()}, expected ids of 0 and up")
    ascending = np.sort(ids)
    repeated = ascending[1:][ascending[1:] == ascending[:-1]]
    if len(repeated):
        raise DataError(f"{label}: got the id {repeated[0]} twice, expected each id once")
    return ids


def check_matches(k: Any) -> int:
    """Return how many products are to be found, or raise `ConfigError`."""
    return check_whole("k", k, 1, MOST_MATCHES)


def check_allowed(value: Any, ids: IntArray) -> BoolArray:
    """Return which of the ids `(n,)` may be found, as a mask, or raise `DataError`."""
    allowed = np.asarray(value)
    if allowed.dtype == bool:
        if allowed.shape != ids.shape:
            came = written_shape(allowed.shape)
            raise DataError(f"allowed: got a mask of shape {came}, expected one over the ids, ({len(ids)},)")
        return np.ascontiguousarray(allowed)
    mask = np.zeros(len(ids), bool)
    mask[places_of(check_ids("allowed", value), ids, "allowed")] = True
    return mask


def places_of(wanted: IntArray, ids: IntArray, label: str) -> IntArray:
    """Return where wanted ids `(m,)` stand among ascending ids `(n,)`; raises `DataError` for one that is not there."""
    places = np.searchsorted(ids, wanted)
    # An id beyond the last has the place n, which no id stands at.
    is_held = np.zeros(len(wanted), bool)
    within = places < len(ids)
    is_held[within] = ids[places[within]] == wanted[within]
    if not is_held.all():
        missing = wanted[~is_held][0]
        raise DataError(f"{label}: got the id {missing}, which the index does not hold; add it first, or leave it out")
    return places


def _check_finite(label: str, array: np.ndarray) -> None:
    # Not `abs(array) > LARGEST`, which is false of NaN. By extremes: a mask of a million vectors takes as long again.
    if array.size and not (array.max() <= LARGEST and array.min() >= -LARGEST):
        place = tuple(int(i) for i in np.argwhere(~(np.abs(array) <= LARGEST))[0])
        came = f"{label}: got {array[place]:g} at {written_shape(place)}"
        raise DataError(f"{came}, expected finite numbers up to {LARGEST:g} in size")
