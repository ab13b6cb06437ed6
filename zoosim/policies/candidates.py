"""Arrays that policies derive from the products of a request, kept for the next request with the same ones."""

from abc import abstractmethod
from collections import OrderedDict, deque
from typing import Any, ClassVar, NamedTuple

import numpy as np

from zoosim.core.types import Context, FloatArray, IntArray, PolicySpec
from zoosim.policies.base import Policy
from zoosim.policies.requests import checked_candidates

REMEMBERED = 4
"""Sets of candidates whose derived arrays are kept: rewards come for earlier requests than the newest."""


class Attached(NamedTuple):
    """A set of candidates and what the policy derived from it; `version` says of which of its states.

    `key` are the bytes of the ids: what other sets are told apart by, in one comparison that takes no time.
    """

    product_ids: Any
    products: Any
    ids: IntArray
    features: FloatArray
    candidates: Any
    version: int
    key: bytes


class AttachingPolicy(Policy):
    """A policy that derives arrays from the products of a request once, and keeps them for the newest few sets.

    A subclass says in `_candidates` what it derives, and calls `_forget_candidates` when that changes.
    """

    most_singles: ClassVar[int] = 0
    """Sets of one product, which are what a service learns of, that are kept beside the newest few sets."""

    def __init__(self, spec: PolicySpec, rng: np.random.Generator, **params: Any) -> None:
        """Make a policy that has derived nothing yet.

        Args:
            spec: The dimensions of its task.
            rng: The source of its random draws.
            **params: Values of declared parameters; the others take their defaults.

        Raises:
            ConfigError: a parameter is unknown, of another type or out of range.
        """
        super().__init__(spec, rng, **params)
        self._attached: list[Attached] = []
        self._singles: OrderedDict[tuple[int, int], Attached] = OrderedDict()
        self._met: deque[bytes] = deque(maxlen=REMEMBERED)
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
        if self.most_singles and len(context.product_ids) == 1:
            return self._attach_single(context)
        return self._attach(context)

    def _attach_single(self, context: Context) -> Any:
        """Return what is derived from one product, by the identity of its arrays."""
        key = id(context.product_ids), id(context.products)
        attached = self._singles.get(key)
        if attached is not None and (
            attached.product_ids is not context.product_ids or attached.products is not context.products
        ):
            attached = None  # a copy of the policy keeps the numbers of arrays, not the arrays
        if attached is None:
            if lasting(context.product_ids) is None or lasting(context.products) is None:
                return self._attach(context)
            ids, products = checked_candidates(context, self.spec)
            attached = Attached(context.product_ids, context.products, ids.copy(), products.copy(), None, -1, b"")
            if len(self._singles) >= self.most_singles:
                self._singles.popitem(last=False)
        if attached.version != self._version:
            attached = self._singles[key] = self._derived(attached)
        return attached.candidates

    def _attach(self, context: Context) -> Any:
        place = self._find_attached(context)
        if place is None:
            ids, products = checked_candidates(context, self.spec)
            identity = lasting(context.product_ids), lasting(context.products)
            attached = self._derived(Attached(*identity, ids.copy(), products.copy(), None, 0, ids.tobytes()))
            self._attached = [attached, *self._attached[: REMEMBERED - 1]]
            return attached.candidates
        if self._attached[place].version != self._version:
            self._attached[place] = self._derived(self._attached[place])
        return self._attached[place].candidates

    def _find_attached(self, context: Context) -> int | None:
        """Return where a request's candidates stand among those attached, None when they are new."""
        # By identity first, which costs nothing, then by value.
        product_ids = context.product_ids
        products = context.products
        for place, attached in enumerate(self._attached):
            if attached.products is products and attached.product_ids is product_ids:
                return place
        ids = np.asarray(product_ids)
        if ids.ndim != 1 or ids.dtype.kind not in "iu":
            return None
        key = ids.astype(np.int64).tobytes()
        for place, attached in enumerate(self._attached):
            if attached.key == key and np.array_equal(attached.features, products):
                return place
        return None

    def _derived(self, attached: Attached) -> Attached:
        candidates = self._candidates(attached.ids, attached.features)
        return attached._replace(candidates=candidates, version=self._version)

    def _forget_candidates(self) -> None:
        """Mark all that was derived from candidates as out of date, since the state that it refers to has changed."""
        self._version += 1

    def _meet_candidates(self, context: Context) -> bool:
        """Return whether a request's candidates are new, and remember that they came: the next time they are not.

        Where each request has candidates of its own, all that would be kept of them is work in vain.
        """
        key = np.asarray(context["product_ids"]).tobytes()
        if key in self._met or self._find_attached(context) is not None:
            return False
        self._met.append(key)
        return True

    def _is_attached(self, context: Context) -> bool:
        """Return whether what is derived from a request's candidates is kept, and still right."""
        place = self._find_attached(context)
        return place is not None and self._attached[place].version == self._version


def lasting(array: Any) -> Any:
    """Return an array that cannot change under us, None for one that can: then its values are compared."""
    # A read-only view changes with the array that it looks into, so all owners down to the memory must be read-only.
    owner = array
    while isinstance(owner, np.ndarray) and not owner.flags.writeable:
        owner = owner.base
    return array if owner is None else None
