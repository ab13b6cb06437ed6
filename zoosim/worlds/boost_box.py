"""Boosts as worlds take them: numbers inside a box."""

from typing import Any

import numpy as np

from zoosim.core.errors import ActionError
from zoosim.core.parameters import shown
from zoosim.core.types import FloatArray


def check_boosts(action: Any, count: int, a_max: float, *, clip: bool = False) -> FloatArray:
    """Return an action as boosts `(count,)` inside the box.

    Args:
        action: As many numbers.
        count: How many boosts there are.
        a_max: How large they may be.
        clip: Whether larger ones are brought into the box.

    Raises:
        ActionError: it is of another shape, holds NaN, or lies outside the box and is not to be clipped.
    """
    try:
        boosts = np.array(action, np.float64)
    except (TypeError, ValueError):
        boosts = np.zeros(0)  # of the wrong shape, so it is refused below
    if boosts.shape != (count,):
        raise ActionError(f"step: got action {shown(action)}, expected {count} numbers")
    # Asked for by itself, as no comparison with a_max holds for NaN, and clipping keeps it.
    if np.isnan(boosts).any():
        raise ActionError("step: got NaN in the action, expected numbers")
    if clip:
        return np.clip(boosts, -a_max, a_max)
    largest = np.abs(boosts).max()
    if largest > a_max:
        raise ActionError(
            f"step: got a boost of size {largest:g}, expected at most a_max = {a_max:g}; "
            "set clip to true to have actions brought into the box"
        )
    return boosts
