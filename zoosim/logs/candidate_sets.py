"""The different sets of products that the visits of a log chose from, as short lists: a mask each would fill memory."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from zoosim.core.blocks import RowArray
from zoosim.core.types import BoolArray, IntArray

LARGE_CATALOGUE = 5_000
"""Products up to which a mask of all, or a number for each, costs less than what is done for each listed candidate."""


class CandidateLists(NamedTuple):
    """The candidates of m rows: those of row i are `products[first[i] : first[i] + lengths[i]]`."""

    products: IntArray
    first: IntArray
    lengths: IntArray

    def of(self, row: int) -> IntArray:
        """Return the candidates of a row."""
        return self.products[self.first[row] : self.first[row] + self.lengths[row]]

    def flat(self) -> tuple[IntArray, IntArray]:
        """Return all candidates, one row after another: the row that each belongs to `(c,)`, and the product `(c,)`."""
        owner = np.repeat(np.arange(len(self.lengths)), self.lengths)
        before = np.cumsum(self.lengths) - self.lengths
        return owner, self.products[np.arange(len(owner)) + (self.first - before)[owner]]


@dataclass(frozen=True)
class CandidateSets:
    """`s` sets of candidates among `n_products`, each as the list of its products, or of those that it lacks.

    Args:
        starts: Where the list of each set starts in `products`, and where the last one ends `(s + 1,)`.
        products: The lists, one after another, of indices from 0 to `n_products - 1`; in memory, or read in blocks.
        n_products: How many products there are; 0 in a log of boosts.
        are_lacking: Whether lists hold the products that are no candidates.
    """

    starts: IntArray
    products: Any
    n_products: int
    are_lacking: bool = False

    @classmethod
    def everything(cls, n_products: int) -> "CandidateSets":
        """Return one set, of all products."""
        return cls(np.zeros(2, np.int64), np.zeros(0, np.int32), n_products, are_lacking=True)

    @classmethod
    def from_masks(cls, masks: BoolArray) -> "CandidateSets":
        """Return the sets that `masks (s, K)` are true for."""
        # Whichever lists are shorter in all.
        are_lacking = 2 * int(masks.sum()) > masks.size
        sets, products = np.nonzero(masks != are_lacking)
        starts = np.searchsorted(sets, np.arange(len(masks) + 1))
        return cls(starts, products.astype(np.int32), masks.shape[1], are_lacking)

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def are_everything(self) -> bool:
        """True if every set is known to hold all products."""
        return self.are_lacking and not len(self.products)

    @property
    def are_listed(self) -> bool:
        """True if sets are to be gone through as lists: they list what a large catalogue offers."""
        return not self.are_lacking and self.n_products > LARGE_CATALOGUE

    def lists(self, sets: IntArray) -> CandidateLists:
        """Return the list of each of `sets (m,)`: what it holds, or lacks where these sets are `are_lacking`."""
        if isinstance(self.products, RowArray):
            in_memory, set_of = self.only(sets)
            return in_memory.lists(set_of)
        return self._stored(sets)

    def _stored(self, sets: IntArray) -> CandidateLists:
        return CandidateLists(self.products, self.starts[sets], self.starts[sets + 1] - self.starts[sets])

    def only(self, sets: IntArray) -> tuple["CandidateSets", IntArray]:
        """Return the different ones among `sets (m,)` alone, in memory, and which of them each is `(m,)`."""
        distinct, set_of = np.unique(sets, return_inverse=True)
        lists = self._stored(distinct)
        starts = np.append(0, np.cumsum(lists.lengths))
        return CandidateSets(starts, lists.flat()[1], self.n_products, self.are_lacking), set_of.reshape(-1)

    def masks(self, sets: IntArray) -> BoolArray:
        """Return which products each of `sets (m,)` holds `(m, K)`."""
        return self.hold(sets, np.arange(self.n_products))

    def hold(self, sets: IntArray, some: IntArray) -> BoolArray:
        """Return which of `some (k,)` products, in order, each of `sets (m,)` holds `(m, k)`."""
        masks = np.full((len(sets), len(some)), self.are_lacking)
        owner, products = self.lists(sets).flat()
        # `searchsorted` puts a product that is none of `some` in the place of the next one, so such are left out
        # before.
        if len(some) < self.n_products:
            is_one = np.isin(products, some)
            owner = owner[is_one]
            products = np.searchsorted(some, products[is_one])
        masks[owner, products] = not self.are_lacking
        return masks

    def distinct_masks(self, sets: IntArray) -> tuple[BoolArray, IntArray]:
        """Return the masks of the different ones among `sets (m,)`, read-only, and which of them each is `(m,)`."""
        if len(self) == 1:
            distinct = np.zeros(1, np.int64)
            mask_of = np.zeros(len(sets), np.int64)
        else:
            distinct, mask_of = np.unique(sets, return_inverse=True)
        masks = self.masks(distinct)
        masks.flags.writeable = False
        return masks, mask_of.reshape(-1)

    def without(self, sets: IntArray, gone: IntArray) -> "CandidateSets":
        """Return the sets that are left of `sets (m,)` when each loses the products `gone (m, l)`."""
        owner, products = self.lists(sets).flat()
        if self.are_lacking:
            owner = np.concatenate([owner, np.repeat(np.arange(len(sets)), gone.shape[1])])
            products = np.concatenate([products, gone.astype(np.int32).ravel()])
            order = np.argsort(owner, kind="stable")
            owner = owner[order]
            products = products[order]
        else:
            stays = np.ones(len(owner), bool)
            for column in gone.T:
                stays &= products != column[owner]
            owner = owner[stays]
            products = products[stays]
        starts = np.searchsorted(owner, np.arange(len(sets) + 1))
        return CandidateSets(starts, products, self.n_products, self.are_lacking)
