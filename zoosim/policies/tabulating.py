"""Policies that answer many requests with the same candidates at once."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from zoosim.core.types import BoolArray, FloatArray, IntArray


class TabulatingPolicy(ABC):
    """A policy that gives the probabilities of many requests at once, the same ones as `propensities` one by one."""

    at_once: ClassVar[Mapping[str, tuple[str, ...]]] = {"tabulate": ("propensities",)}
    """Methods about many requests, each with those about a single one that it must say the same as."""

    @abstractmethod
    def attach_block(self, product_ids: IntArray, products: FloatArray, decisions: int) -> Any:
        """Return what is derived from candidates that stay the same for a number of decisions."""

    @abstractmethod
    def readers(self, candidates: Any, count: int) -> list[tuple[Any, Any]]:
        """Return so many pairs of state and candidates that `tabulate` may read side by side, in threads."""

    @abstractmethod
    def tabulate(
        self,
        state: Any,
        candidates: Any,
        user_ids: IntArray,
        users: FloatArray,
        masks: BoolArray,
        mask_of: IntArray,
        out: FloatArray,
    ) -> None:
        """Add the probability of each candidate at n requests to zeros.

        Args:
            state: The policy's, from `readers`.
            candidates: What `attach_block` returned for them, from `readers`.
            user_ids: Of the visitors `(n,)`.
            users: Their features `(n, d_u)`, all finite.
            masks: What may be shown, in each of the sets of candidates that occur `(m, K)`.
            mask_of: The row of `masks` of each request `(n,)`.
            out: Where the probabilities go `(n, K)`: zeros.
        """


def tabulates(policy: Any) -> bool:
    """Return whether a policy's `tabulate` says the same as its `propensities`.

    A class that overrides a method about a single request alone may say something else there, and is to be asked
    itself; see `TabulatingPolicy.at_once`.
    """
    if not isinstance(policy, TabulatingPolicy):
        return False
    depth = {name: place for place, cls in reversed([*enumerate(type(policy).__mro__)]) for name in vars(cls)}
    return all(depth[many] <= depth[single] for many, singles in policy.at_once.items() for single in singles)
