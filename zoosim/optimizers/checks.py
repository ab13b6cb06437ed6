"""What comes into an optimizer from outside, checked once: one clear line each, before anything is drawn."""

import math
from typing import Any

import numpy as np

from zoosim.core.errors import ConfigError, ObjectiveError
from zoosim.core.parameters import shown, written
from zoosim.core.types import FloatArray

LARGEST = 1e100
"""Coordinates beyond it are refused: their squares would overflow."""

SMALLEST_RADIUS = 1e-9


def check_whole(label: str, value: Any, low: int, high: int) -> None:
    """Refuse what is not a whole number from `low` to `high`."""
    if not _whole(value) or not low <= value <= high:
        raise ConfigError(f"{label}: got {shown(value)}, expected a whole number from {low:,} to {high:,}")


def check_number(label: str, value: Any, low: float, high: float, *, above: bool = False) -> None:
    """Refuse what is not a number from `low` to `high`, or not `above` low where that is asked."""
    if not _number(value) or not low <= value <= high or (above and value <= low):
        start = f"above {written(float(low))} and at most" if above else f"{written(float(low))} to"
        raise ConfigError(f"{label}: got {shown(value)}, expected a number {start} {written(float(high))}")


def check_optional(label: str, value: Any, low: float, high: float) -> None:
    """Refuse what is neither None nor a number from `low` to `high`."""
    if value is not None:
        check_number(label, value, low, high)


def _whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _number(value: Any) -> bool:
    return _whole(value) or (isinstance(value, float | np.floating) and math.isfinite(value))


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
    """Return actions of `shape`, given so or as one action `(d,)` for all, inside the box."""
    base = _floats(label, value)
    if base.shape not in (shape, shape[-1:]):
        expected = " or ".join(dict.fromkeys(map(str, (shape[-1:], shape))))
        raise ConfigError(f"{label}: got an array of shape {base.shape}, expected {expected}")
    largest = float(np.abs(_finite(label, base)).max())
    if largest > a_max:
        raise ConfigError(f"{label}: got a coordinate of size {largest:g}, expected at most a_max = {a_max:g}; clip it")
    return np.broadcast_to(base, shape).copy()


def check_radius(label: str, value: Any, shape: tuple[int, ...]) -> FloatArray:
    """Return radii of `shape`, given so or as one number for all."""
    radius = _floats(label, value)
    if radius.shape not in (shape, ()):
        expected = "a number" if shape == () else f"a number or an array of shape {shape}"
        raise ConfigError(f"{label}: got an array of shape {radius.shape}, expected {expected}")
    if not np.isfinite(radius).all() or (radius.size and radius.min() < SMALLEST_RADIUS):
        raise ConfigError(f"{label}: got {shown(value)}, expected finite numbers of at least {SMALLEST_RADIUS:g}")
    return np.broadcast_to(radius, shape).copy()


def check_output(name: str, value: Any, shape: tuple[int, ...]) -> FloatArray:
    """Return what an objective gave as floats of `shape`; whether they are finite is left to the compiled loops."""
    try:
        output = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ObjectiveError(f"objective: its {name} are {shown(value)}, expected numbers of shape {shape}") from error
    if output.shape != shape:
        raise ObjectiveError(f"objective: its {name} have the shape {output.shape}, expected {shape}")
    return np.ascontiguousarray(output)


def refuse_output(name: str, value: float, action: FloatArray) -> None:
    """Refuse what an objective gave that is NaN or infinite, with the action that it gave it for."""
    point = np.array2string(action[:4], precision=3, separator=", ")[1:-1] + (", ..." if action.size > 4 else "")
    raise ObjectiveError(f"objective: its {name} hold {value} at action [{point}], expected finite numbers")


def _floats(label: str, value: Any) -> FloatArray:
    try:
        return np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ConfigError(f"{label}: got {shown(value)}, expected an array of numbers") from error


def _finite(label: str, array: FloatArray) -> FloatArray:
    if not (np.abs(array) <= LARGEST).all():
        raise ConfigError(f"{label}: got {shown(array)}, expected finite numbers of size {LARGEST:g} at most")
    return array
