"""What policies derive from the products of a request, kept for the next request with the same ones."""

from abc import abstractmethod
from typing import Any, NamedTuple

import numpy as np

from zoosim.core.types import Context, FloatArray, IntArray, PolicySpec
from zoosim.policies.base import Policy
from zoosim.policies.requests import checked_candidates

REMEMBERED = 4
"""Sets of candidates whose derived arrays are kept: rewards come for earlier requests than the newest."""


class Attached(NamedTuple):
    """A set of candidates and what the policy derived from it; `version` says of which of its states."""

    product_ids: Any
    products: Any
    ids: IntArray
    features: FloatArray
    candidates: Any
    version: int


class AttachingPolicy(Policy):
    """A policy that derives arrays from the products of a request once, and keeps them for the newest few sets.

    A subclass says in `_candidates` what it derives, and calls `_forget_candidates` when that changes.
    """

    def __init__(self, spec: PolicySpec, rng: np.random.Generator, **params: Any) -> None:
        super().__init__(spec, rng, **params)
        self._attached: list[Attached] = []
        self._version = 0

    @abstractmethod
    def _candidates(self, ids: IntArray, products: FloatArray) -> Any:
        """Return what is derived from products: `ids (K,)`, `products (K, d_p)`.

        Where this enters something into the state, `_reader` must return a copy.
        """

    def attach(self, context: Context) -> Any:
        """Return what is derived from a request's candidates; free when they are the same read-only arrays as before.

        Raises:
            PolicyError: ids or features have a wrong shape or type, or are not finite.
        """
        place = self._find_attached(context)
        if place is None:
            ids, products = checked_candidates(context, self.spec)
            identity = _lasting(context.product_ids), _lasting(context.products)
            attached = self._derived(Attached(*identity, ids.copy(), products.copy(), None, 0))
            self._attached = [attached, *self._attached[: REMEMBERED - 1]]
            return attached.candidates
        if self._attached[place].version != self._version:
            self._attached[place] = self._derived(self._attached[place])
        return self._attached[place].candidates

    def _find_attached(self, context: Context) -> int | None:
        """Return where a request's candidates stand among those attached, None when they are new."""
        for place, attached in enumerate(self._attached):
            if attached.products is context.products and attached.product_ids is context.product_ids:
                return place
        for place, attached in enumerate(self._attached):
            same_ids = np.array_equal(attached.ids, context.product_ids)
            if same_ids and np.array_equal(attached.features, context.products):
                return place
        return None

    def _derived(self, attached: Attached) -> Attached:
        candidates = self._candidates(attached.ids, attached.features)
        return attached._replace(candidates=candidates, version=self._version)

    def _forget_candidates(self) -> None:
        """Let all that was derived from candidates be derived anew, as the state that it refers to has changed."""
        self._version += 1

    def _is_attached(self, context: Context) -> bool:
        """Return whether what is derived from a request's candidates is kept, and still right."""
        place = self._find_attached(context)
        return place is not None and self._attached[place].version == self._version


def _lasting(array: Any) -> Any:
    """Return an array that cannot change under us, None for one that can: then its values are compared."""
    owner = array
    while isinstance(owner, np.ndarray) and not owner.flags.writeable:
        owner = owner.base
    return array if owner is None else None
