"""What comes of one decision for a visitor, compiled: a click, and whether the visitor goes on, comes back or has gone.

Draws are keyed by what they are for, the visitor, and the decision, the visit or the kind, so that every policy meets
the same visitors, in whatever order they are served.
"""

import numpy as np

from zoosim.core.jit import inlined, jit
from zoosim.core.rng import stream_key, uniform
from zoosim.core.types import FloatArray

PERSONAS, CLICKS, GOES_ON, RETURNS = range(4)
DRAWS = ("personas", "clicks", "goes on", "returns")
"""What draws are for, in the order of their keys."""

UIntArray = np.ndarray


def draw_keys(seed: int) -> UIntArray:
    """Return the keys of all draws of the visitors of a seed, `(4,)` in the order of `DRAWS`."""
    return np.array([stream_key(seed, name) for name in DRAWS])


@jit
def draw_persona(up_to: FloatArray, keys: UIntArray, visitor: int) -> int:
    """Return the number of a visitor's persona.

    Args:
        up_to: Shares of the visitors of each persona and those before it, `(P,)`.
        keys: The keys of the draws.
        visitor: Number of the visitor.
    """
    draw = uniform(keys[PERSONAS], visitor, 0)
    persona = 0
    # The last one takes what rounding leaves of 1.
    while persona < up_to.shape[0] - 1 and draw >= up_to[persona]:
        persona += 1
    return persona


@inlined
def is_clicked(chance: float, keys: UIntArray, visitor: int, step: int, kind: int, kinds: int) -> bool:
    """Return whether a visitor clicks what is shown.

    Args:
        chance: The chance of it.
        keys: The keys of the draws.
        visitor: Number of the visitor.
        step: Number of the decision since the visitor came first.
        kind: Kind of product that is shown.
        kinds: The number of kinds.
    """
    # By the kind, so that products of one kind are clicked alike, and policies that show one meet the same visitor.
    return uniform(keys[CLICKS], visitor, step * kinds + kind) < chance


@inlined
def is_over(goes_on: float, keys: UIntArray, visitor: int, step: int) -> bool:
    """Return whether a visit ends after a decision; `goes_on` is the chance that it does not."""
    return uniform(keys[GOES_ON], visitor, step) >= goes_on


@inlined
def has_gone(returns: float, keys: UIntArray, visitor: int, visit: int) -> bool:
    """Return whether a visitor has gone for good at the end of a visit; `returns` is the chance of another one."""
    return uniform(keys[RETURNS], visitor, visit) >= returns
