"""Check names and shapes of a saved state before any of it is loaded."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from zoosim.core.errors import ConfigError

OTHER = "the saved state is of another policy, task or parameters"

Shapes = Mapping[str, str]
"""The shape of each value by its name, a letter for each side: "pp" for a square matrix, "" for a single number."""


def flat(parts: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the values of all parts as `PART.NAME`."""
    return {f"{part}.{name}": value for part, values in parts.items() for name, value in values.items()}


def taken(state: Mapping[str, Any], parts: Mapping[str, Shapes], sides: dict[str, int]) -> dict[str, dict[str, Any]]:
    """Return copies of the values of a flat `state` by part, or raise `ConfigError` unless names and shapes are right.

    `sides` holds the lengths of the sides that are settled, by letter, and takes in those that the state settles.
    """
    shapes = flat(parts)
    if set(state) != set(shapes):
        raise ConfigError(OTHER)
    values: dict[str, dict[str, Any]] = {part: {} for part in parts}
    for name, letters in shapes.items():
        part, _, key = name.partition(".")
        values[part][key] = _checked(state[name], letters, sides)
    return values


def _checked(value: Any, letters: str, sides: dict[str, int]) -> Any:
    """Return a copy of an array of numbers, or a number; equal letters stand for equal sides."""
    try:
        array = np.array(value)
    except ValueError:  # lists of unequal lengths
        raise ConfigError(OTHER) from None
    right = array.dtype.kind in "biuf" and array.ndim == len(letters)
    if not right or any(sides.setdefault(letter, n) != n for letter, n in zip(letters, array.shape, strict=True)):
        raise ConfigError(OTHER)
    return array if letters else array.item()
