"""Check what comes into an index from outside; each error is one line."""

from typing import Any

import numpy as np

from zoosim.core.arrays import places_in
from zoosim.core.checks import check_whole, written_shape
from zoosim.core.errors import DataError
from zoosim.core.parameters import shown
from zoosim.core.types import BoolArray, FloatArray, IntArray

LARGEST = 1e9
"""No coordinate of a vector or a query may be larger in size."""

MOST_COORDINATES = 4_096
MOST_VECTORS = 20_000_000
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


def check_products(ids: Any, vectors: Any, width: int | None = None) -> tuple[IntArray, np.ndarray]:
    """Return ids `(n,)` and vectors `(n, d)` that fit each other, or raise `DataError`."""
    checked_ids = check_ids("ids", ids)
    checked_vectors = check_vectors("vectors", vectors, width)
    if len(checked_ids) != len(checked_vectors):
        raise DataError(f"vectors: got {len(checked_vectors):,} rows, expected one per id ({len(checked_ids):,})")
    if len(checked_ids) > MOST_VECTORS:
        raise DataError(f"ids: got {len(checked_ids):,} products, expected at most {MOST_VECTORS:,}")
    return checked_ids, checked_vectors


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
    places = places_in(ids, wanted)
    if (places < 0).any():
        missing = wanted[places < 0][0]
        raise DataError(f"{label}: got the id {missing}, which the index does not hold; add it first, or leave it out")
    return places


def _check_finite(label: str, array: np.ndarray) -> None:
    # Not `abs(array) > LARGEST`, which is false of NaN. By extremes: a mask of a million vectors takes as long again.
    if array.size and not (array.max() <= LARGEST and array.min() >= -LARGEST):
        place = tuple(int(i) for i in np.argwhere(~(np.abs(array) <= LARGEST))[0])
        came = f"{label}: got {array[place]:g} at {written_shape(place)}"
        raise DataError(f"{came}, expected finite numbers up to {LARGEST:g} in size")
