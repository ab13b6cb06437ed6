"""Check arrays and numbers from outside, once; each error is one line."""

from typing import Any

import numpy as np

from zoosim.core.arrays import as_floats
from zoosim.core.errors import ConfigError, DataError, ObjectiveError
from zoosim.core.parameters import shown, written
from zoosim.core.types import FloatArray

LARGEST = 1e9
"""No state, action or reward may be larger in size."""

LARGEST_COORDINATE = 1e100
"""Coordinates of points beyond it are refused: their squares would overflow."""

SMALLEST_RADIUS = 1e-9


def check_whole(label: str, value: Any, low: int, high: int) -> int:
    """Return a whole number from `low` to `high`, or raise `ConfigError`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not low <= value <= high:
        raise ConfigError(f"{label}: got {shown(value)}, expected a whole number, {written(low)} to {written(high)}")
    return int(value)


def check_widths(label: str, value: Any) -> tuple[int, ...]:
    """Return the widths of 1 to 8 hidden layers, or raise `ConfigError`."""
    if not isinstance(value, tuple | list) or not 1 <= len(value) <= 8:
        raise ConfigError(f"{label}: got {shown(value)}, expected 1 to 8 widths, such as (64, 64)")
    return tuple(check_whole(label, size, 1, 4_096) for size in value)


def parse_widths(label: str, text: str) -> tuple[int, ...]:
    """Return the widths of 1 to 8 hidden layers that are written as 64 or 128-64, or raise `ConfigError`."""
    parts = text.split("-")
    if not all(part.isascii() and part.isdigit() and 1 <= int(part) <= 4_096 for part in parts) or len(parts) > 8:
        expected = "1 to 8 layer sizes from 1 to 4,096, such as 64 or 128-64"
        raise ConfigError(f"{label}: got {shown(text)}, expected {expected}")
    return tuple(map(int, parts))


def check_number(label: str, value: Any, low: float, high: float, *, above: bool = False) -> float:
    """Return a number from `low` to `high`, or `above` low where that is asked, or raise `ConfigError`."""
    is_number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not is_number or not low <= value <= high or (above and value <= low):
        allowed = f" above {written(low)} and at most" if above else f", {written(low)} to"
        raise ConfigError(f"{label}: got {shown(value)}, expected a number{allowed} {written(high)}")
    return float(value)


def check_optional(label: str, value: Any, low: float, high: float) -> None:
    """Refuse what is neither None nor a number from `low` to `high`."""
    if value is not None:
        check_number(label, value, low, high)


def check_array(label: str, value: Any, shape: tuple[int | None, ...]) -> FloatArray:
    """Return `value` as floats of a `shape`, None standing for any length, or raise `DataError`.

    NaN, infinity and numbers beyond `LARGEST` are refused.
    """
    try:
        array = np.ascontiguousarray(as_floats(value)) if np.ndim(value) else np.zeros(())
    except (TypeError, ValueError, OverflowError):
        raise DataError(f"{label}: got {shown(value)}, expected an array of numbers") from None
    fits = array.ndim == len(shape) and all(want in (None, have) for want, have in zip(shape, array.shape, strict=True))
    if not fits:
        came = written_shape(np.shape(value))
        raise DataError(f"{label}: got an array of shape {came}, expected {written_shape(shape)}")
    if not array.size:
        raise DataError(f"{label}: got an empty array, expected at least one row")
    # Not `abs(array) > LARGEST`, which is false of NaN.
    bad = ~(np.abs(array) <= LARGEST)
    if bad.any():
        place = tuple(int(i) for i in np.argwhere(bad)[0])
        where = f"{label}: got {array[place]:g} at {written_shape(place)}"
        raise DataError(f"{where}, expected finite numbers up to {LARGEST:g} in size")
    return array


def check_rng(rng: Any) -> np.random.Generator:
    """Refuse what is not a generator, such as a seed: the same noise would come at every call."""
    if not isinstance(rng, np.random.Generator):
        raise ConfigError(f"rng: got {shown(rng)}, expected a generator, such as np.random.default_rng(0)")
    return rng


def check_points(label: str, value: Any) -> FloatArray:
    """Return one point `(d,)` or several `(n, d)` as finite floats."""
    points = _floats(label, value)
    if points.ndim not in (1, 2) or points.shape[-1] < 1:
        raise ConfigError(f"{label}: got an array of shape {points.shape}, expected (d,) or (n, d)")
    return _finite(label, points)


def check_base(label: str, value: Any, shape: tuple[int, ...], a_max: float) -> FloatArray:
    """Return actions of `shape` inside the box; `value` is of that shape or one action `(d,)` for all."""
    base = _floats(label, value)
    if base.shape not in (shape, shape[-1:]):
        expected = " or ".join(dict.fromkeys(map(str, (shape[-1:], shape))))
        raise ConfigError(f"{label}: got an array of shape {base.shape}, expected {expected}")
    largest = float(np.abs(_finite(label, base)).max())
    if largest > a_max:
        raise ConfigError(f"{label}: got a coordinate of size {largest:g}, expected at most a_max = {a_max:g}; clip it")
    return np.broadcast_to(base, shape).copy()


def check_radius(label: str, value: Any, shape: tuple[int, ...]) -> FloatArray:
    """Return radii of `shape`; `value` is of that shape or one number for all."""
    radius = _floats(label, value)
    if radius.shape not in (shape, ()):
        expected = "a number" if shape == () else f"a number or an array of shape {shape}"
        raise ConfigError(f"{label}: got an array of shape {radius.shape}, expected {expected}")
    if not np.isfinite(radius).all() or (radius.size and radius.min() < SMALLEST_RADIUS):
        raise ConfigError(f"{label}: got {shown(value)}, expected finite numbers of at least {SMALLEST_RADIUS:g}")
    return np.broadcast_to(radius, shape).copy()


def check_output(name: str, value: Any, shape: tuple[int, ...]) -> FloatArray:
    """Return an objective's output as floats of `shape`; the compiled loops check whether they are finite."""
    try:
        output = as_floats(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ObjectiveError(f"objective: its {name} are {shown(value)}, expected numbers of shape {shape}") from error
    if output.shape != shape:
        raise ObjectiveError(f"objective: its {name} have the shape {output.shape}, expected {shape}")
    return np.ascontiguousarray(output)


def refuse_output(name: str, value: float, action: FloatArray) -> None:
    """Refuse an objective's NaN or infinity, naming the action."""
    point = np.array2string(action[:4], precision=3, separator=", ")[1:-1] + (", ..." if action.size > 4 else "")
    raise ObjectiveError(f"objective: its {name} hold {value} at action [{point}], expected finite numbers")


def _floats(label: str, value: Any) -> FloatArray:
    try:
        return as_floats(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ConfigError(f"{label}: got {shown(value)}, expected an array of numbers") from error


def _finite(label: str, array: FloatArray) -> FloatArray:
    if not (np.abs(array) <= LARGEST_COORDINATE).all():
        raise ConfigError(
            f"{label}: got {shown(array)}, expected finite numbers of size {LARGEST_COORDINATE:g} at most"
        )
    return array


def written_shape(shape: tuple[int | None, ...]) -> str:
    """Write a shape or an index as text, "n" for any length."""
    return f"({', '.join('n' if size is None else str(size) for size in shape)}{',' if len(shape) == 1 else ''})"
