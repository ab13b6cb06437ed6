"""Arrays that grow, shrink, get a column of ones; rows spread evenly; codes; where ids stand; numbers from outside."""

from typing import Any

import numpy as np

from zoosim.core.types import FloatArray, IntArray


def as_floats(value: Any) -> FloatArray:
    """Return a value as an array of floats, itself where it is one; raises `TypeError` for complex numbers.

    And `ValueError` for what are no numbers; numpy alone would drop the imaginary part.
    """
    array = np.asarray(value)
    if array.dtype.kind == "c":
        raise TypeError("got complex numbers, expected real ones")
    return np.asarray(array, np.float64)


def copy_overlap(source: np.ndarray, target: np.ndarray) -> None:
    """Copy what fits of an array into the same places of another, whose axes may be longer or shorter."""
    overlap = tuple(slice(min(sides)) for sides in zip(source.shape, target.shape, strict=True))
    target[overlap] = source[overlap]


def resized(array: np.ndarray, *shape: int) -> np.ndarray:
    """Return an array of another `shape` that holds what fits of `array`, and 0 beside it."""
    out = np.zeros(shape, array.dtype)
    copy_overlap(array, out)
    return out


def with_ones(columns: FloatArray) -> FloatArray:
    """Return a column of ones and the `columns (n, d)`: `(n, 1 + d)`."""
    return np.hstack([np.ones((len(columns), 1)), columns])


def codes_of(values: np.ndarray) -> IntArray:
    """Return a number from 0 for each of `values (n,)`, the same for the same value, in the values' order."""
    return np.asarray(np.unique(values, return_inverse=True)[1]).reshape(-1)


def evenly_spread(n: int, most: int) -> IntArray:
    """Return at most so many of `n` rows, in order and evenly spread, with the first and, if they are two, the last."""
    if n <= most:
        return np.arange(n)
    return np.linspace(0, n - 1, most).astype(np.int64)


def places_in(ids: np.ndarray, wanted: np.ndarray) -> IntArray:
    """Return where wanted ids `(m,)` stand among ascending ids `(n,)`, -1 for those that are not there."""
    if not len(ids):
        return np.full(len(wanted), -1)
    places = np.searchsorted(ids, wanted).clip(max=len(ids) - 1)
    return np.where(ids[places] == wanted, places, -1)
