"""What comes in as arrays and numbers, checked once; each refusal is one line."""

from typing import Any

import numpy as np

from zoosim.core.errors import ConfigError, DataError
from zoosim.core.parameters import shown, written
from zoosim.core.types import FloatArray

LARGEST = 1e9
"""No state, action or reward may be larger in size."""


def check_whole(label: str, value: Any, low: int, high: int) -> int:
    """Return a whole number from `low` to `high`, or raise `ConfigError`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not low <= value <= high:
        raise ConfigError(f"{label}: got {shown(value)}, expected a whole number, {written(low)} to {written(high)}")
    return int(value)


def check_number(label: str, value: Any, low: float, high: float) -> float:
    """Return a number from `low` to `high`, or raise `ConfigError`."""
    known = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not known or not low <= value <= high:
        raise ConfigError(f"{label}: got {shown(value)}, expected a number, {written(low)} to {written(high)}")
    return float(value)


def check_array(label: str, value: Any, shape: tuple[int | None, ...]) -> FloatArray:
    """Return `value` as floats of a `shape`, None standing for any length, or raise `DataError`.

    NaN, infinity and numbers beyond `LARGEST` are refused.
    """
    try:
        array = np.ascontiguousarray(value, np.float64) if np.ndim(value) else np.zeros(())
    except (TypeError, ValueError, OverflowError):
        raise DataError(f"{label}: got {shown(value)}, expected an array of numbers") from None
    fits = array.ndim == len(shape) and all(want in (None, have) for want, have in zip(shape, array.shape, strict=True))
    if not fits:
        came = written_shape(np.shape(value))
        raise DataError(f"{label}: got an array of shape {came}, expected {written_shape(shape)}")
    if not array.size:
        raise DataError(f"{label}: got an empty array, expected at least one row")
    bad = ~(np.abs(array) <= LARGEST)
    if bad.any():
        place = tuple(int(i) for i in np.argwhere(bad)[0])
        where = f"{label}: got {array[place]:g} at {written_shape(place)}"
        raise DataError(f"{where}, expected finite numbers up to {LARGEST:g} in size")
    return array


def alike(saved: Any, own: np.ndarray) -> bool:
    """Tell whether `saved` is an array of finite numbers with the shape and type of `own`."""
    same = isinstance(saved, np.ndarray) and saved.shape == own.shape and saved.dtype == own.dtype
    return same and bool(np.isfinite(saved).all())


def written_shape(shape: tuple[int | None, ...]) -> str:
    """Write a shape or a place, "n" where any length will do."""
    return f"({', '.join('n' if size is None else str(size) for size in shape)}{',' if len(shape) == 1 else ''})"
