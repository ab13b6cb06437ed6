"""Worlds of visitors who come back as compiled functions, through which loops run without the interpreter."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from zoosim.core.types import FloatArray, IntArray

GONE, RETURNED, STAYED = range(3)
"""What follows a decision: the visitor has gone for good, comes back for another visit, or goes on with this one."""

TO_THE_END = 2**62
"""Decisions for which visitors are followed where nobody cuts them off."""


@dataclass(frozen=True)
class VisitorKernel:
    """The compiled functions of a world; `name` tells them apart in the cache.

    `arrays` is a named tuple of the world's own, and `place (n,)` whole numbers that say where a visitor stands:

        arrive(arrays, visitor, place)
            writes the place of a visitor who is new
        observe(arrays, place, user)
            writes the features `user (d_u,)` of a visitor
        offer(arrays, place, available)
            writes which candidates are there, `available (K,)`; leaves it alone where all always are
        serve(arrays, place, action) -> reward, follows
            moves the visitor to what follows: GONE, RETURNED or STAYED
        worth(arrays, place, available, action) -> expected, best
            returns what an action and the best one that is there bring from here on, if the best is done after it
    """

    name: str
    arrive: Callable[..., None]
    observe: Callable[..., None]
    offer: Callable[..., None]
    serve: Callable[..., tuple[float, int]]
    worth: Callable[..., tuple[float, float]]


class CompiledWorld(NamedTuple):
    """A world whose products stay the same: the functions and what they take.

    A visitor who is still there after so many decisions is `followed` no longer.
    """

    kernel: VisitorKernel
    arrays: Any
    place_size: int
    product_ids: IntArray
    products: FloatArray
    followed: int = TO_THE_END
