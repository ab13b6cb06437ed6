"""The products that a policy retrieves from: an index that follows what requests offer, or stands for itself."""

from typing import Any

import numpy as np

from zoosim.core.errors import PolicyError
from zoosim.core.types import BoolArray, Context, IntArray
from zoosim.policies.candidates import lasting
from zoosim.policies.requests import check_shape
from zoosim.retrieval import Exact, Index
from zoosim.retrieval.checks import check_products


class CatalogueIndex:
    """The products that a policy retrieves from, and which of them may be shown now.

    A request that brings products is what the shop sells: an index of what requests offer follows it, so that new
    products are added and those that are gone are removed before anything is searched. A request without products is
    about those of the index that was given, which requests leave as it is. Nothing is done where a request's arrays are
    the same read-only ones as before.
    """

    def __init__(self) -> None:
        self.given: Index | None = None
        self._given_version = ""
        self._offered: Index | None = None
        self._offered_version = ""
        self._uses_offered = False
        self._seen: tuple[Any, Any, Any] = (None, None, None)
        self._order: IntArray | None = None
        self.allowed: BoolArray | None = None
        self._allowed_ids: IntArray | None = None

    @property
    def index(self) -> Index:
        """The index that the last request is about; raises `PolicyError` where there is none yet."""
        index = self._offered if self._uses_offered else self.given
        if index is None:
            raise PolicyError("the policy knows no products; give it an index, or requests with product_ids")
        return index

    @property
    def allowed_ids(self) -> IntArray:
        """Ids of the products that the last request may show, ascending; raises `PolicyError` where there are none."""
        if self._allowed_ids is None:
            ids = self.index.ids
            self._allowed_ids = some_of(ids if self.allowed is None else ids[self.allowed])
        return self._allowed_ids

    @property
    def version(self) -> str:
        """Names what the index holds and how it searches, in 16 characters."""
        if self._uses_offered:
            self._offered_version = self._offered_version or self.index.version[:16]
            return self._offered_version
        self._given_version = self._given_version or self.index.version[:16]
        return self._given_version

    def use(self, index: Index) -> None:
        """Search an index from now on, where a request brings no products; it may have changed since."""
        self.given = index
        self._given_version = ""
        self._use_given()

    def _use_given(self, barred: Any = ()) -> None:
        self._uses_offered = self.given is None and self._offered is not None
        self._seen = (None, None, None)  # the same arrays say again what is available
        self._allow(self.index.without(barred) if len(barred) else None)

    def follow(self, context: Context) -> None:
        """Hold what a request offers, and note what of it is available; without products it is about those given."""
        if "product_ids" not in context:
            self._use_given(context.get("barred", ()))
            return
        ids, products, available = self._seen
        if context.product_ids is not ids or context.products is not products:
            self._hold(np.asarray(context.product_ids), context.products)
        elif self._uses_offered and context.available is available:
            return
        self._uses_offered = True
        mask = np.asarray(context.available, bool)
        self._allow(mask if self._order is None else mask[self._order])
        arrays = (context.product_ids, context.products, context.available)
        # What can change under us is looked at each time.
        is_lasting = all(lasting(array) is not None for array in arrays)
        self._seen = arrays if is_lasting else (None, None, None)

    def place_of(self, product_id: int) -> int:
        """Return where a product stands among those of the last request."""
        place = int(np.searchsorted(self.index.ids, product_id))
        return place if self._order is None or not self._uses_offered else int(self._order[place])

    def _hold(self, ids: IntArray, products: Any) -> None:
        if ids.ndim != 1 or ids.dtype.kind not in "iu":
            raise PolicyError(f"product_ids: got an array of {ids.dtype} {ids.shape}, expected whole numbers (K,)")
        check_shape("products", np.asarray(products), (len(ids), np.shape(products)[-1]))
        width = None if self._offered is None else self._offered.width
        check_products(ids, products, width)  # before anything is removed: what is refused changes nothing
        self._seen = (None, None, None)
        is_ascending = bool((ids[1:] > ids[:-1]).all())
        self._order = None if is_ascending else np.argsort(ids, kind="stable")
        if self._offered is None:
            self._offered = Exact(ids, products)
        elif self._order is None:
            _follow(self._offered, ids, products)
        else:
            _follow(self._offered, ids[self._order], np.asarray(products)[self._order])
        self._offered_version = ""

    def _allow(self, mask: BoolArray | None) -> None:
        self.allowed = None if mask is None or mask.all() else mask
        self._allowed_ids = None


def some_of(ids: IntArray) -> IntArray:
    """Return ids of products that may be shown `(m,)`; raises `PolicyError` where there are none."""
    if not len(ids) or ids[0] < 0:
        raise PolicyError("candidates: got none, expected a product that may be shown; add some, or bar fewer of them")
    return ids


def _follow(index: Index, ids: IntArray, products: Any) -> None:
    """Let an index hold products with ascending ids, and no others."""
    vectors = np.asarray(products, np.float32)
    if np.array_equal(index.ids, ids):
        differs = (index.vectors(ids) != vectors).any(axis=1)
        if differs.any():
            index.add(ids[differs], vectors[differs])
        return
    gone = np.setdiff1d(index.ids, ids, assume_unique=True)
    if len(gone):
        index.remove(gone)
    is_held = np.isin(ids, index.ids, assume_unique=True)
    changed = is_held.copy()
    if is_held.any():
        changed[is_held] = (index.vectors(ids[is_held]) != vectors[is_held]).any(axis=1)
    added = ~is_held | changed
    if added.any():
        index.add(ids[added], vectors[added])
