"""Check names and shapes of a saved state before any of it is loaded."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from zoosim.core.errors import ConfigError
from zoosim.core.limits import COUNTS, IDS, MOST, NOT_NEGATIVE, Limits, first_flaw
from zoosim.core.parameters import shown

OTHER = "the saved state is of another policy, task or parameters"

Shapes = Mapping[str, str]
"""The shape of each value by its name, a letter for each side: "pp" for a square matrix, "" for a single number.

In front may stand what the numbers are: "+" not negative, "#" counts, "-" counts or -1, "*" whole numbers of any size.
"""

KINDS: Mapping[str, tuple[type, Limits | None]] = {
    "": (np.float64, None),
    "+": (np.float64, NOT_NEGATIVE),
    "#": (np.int64, COUNTS),
    "-": (np.int64, Limits(-1, MOST)),
    "*": (np.uint64, IDS),
}


def flat(parts: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the values of all parts as `PART.NAME`."""
    return {f"{part}.{name}": value for part, values in parts.items() for name, value in values.items()}


def taken(state: Mapping[str, Any], parts: Mapping[str, Shapes], sides: dict[str, int]) -> dict[str, dict[str, Any]]:
    """Return copies of the values of a flat `state` by part, or raise `ConfigError` unless names and shapes are right.

    `sides` holds the lengths of the sides that are settled, by letter, and takes in those that the state settles.
    """
    shapes = flat(parts)
    if set(state) != set(shapes):
        raise ConfigError(f"{OTHER}: {min(map(str, set(state) ^ set(shapes)))} is missing, or not expected")
    values: dict[str, dict[str, Any]] = {part: {} for part in parts}
    for name, letters in shapes.items():
        part, _, key = name.partition(".")
        values[part][key] = _checked(name, state[name], letters, sides)
    return values


def _checked(name: str, value: Any, shape: str, sides: dict[str, int]) -> Any:
    """Return a copy of an array of numbers, or a number; equal letters stand for equal sides."""
    letters = shape.lstrip("+#-*")
    number_type, limits = KINDS[shape.removesuffix(letters)]
    try:
        array = np.array(value)
        # A Python number fits where it is equal, an array where its type holds nothing else.
        casting: Any = "safe" if array.ndim else "unsafe"
        is_number = array.dtype.kind in "biuf"
        converted: np.ndarray | None = array.astype(number_type, casting=casting) if is_number else None
    except (TypeError, ValueError, OverflowError):  # lists of unequal lengths
        converted = None
    if converted is None or array.ndim != len(letters) or (not letters and converted != array):
        raise ConfigError(f"{OTHER}: {name} is {shown(value)}, expected numbers of {len(letters)} dimensions")
    if any(sides.setdefault(letter, n) != n for letter, n in zip(letters, array.shape, strict=True)):
        raise ConfigError(f"{OTHER}: {name} is of shape {array.shape}")
    flaw = first_flaw(name, converted, limits)
    if flaw:
        raise ConfigError(f"{OTHER}: {flaw}")
    return converted if letters else converted.item()
