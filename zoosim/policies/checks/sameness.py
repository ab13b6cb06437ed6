"""Equality of states, contexts and answers, to the bit."""

from collections.abc import Mapping
from typing import Any

import numpy as np


def same(a: Any, b: Any) -> bool:
    """Return whether two states are equal, types included; NaN equals itself."""
    if isinstance(a, Mapping):
        return isinstance(b, Mapping) and set(a) == set(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    if a is None or isinstance(a, str | bytes | bool | int):
        return type(a) is type(b) and bool(a == b)
    one = np.asarray(a)
    other = np.asarray(b)
    return one.dtype == other.dtype and np.array_equal(one, other, equal_nan=one.dtype.kind in "fc")
