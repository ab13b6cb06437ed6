"""Standardise columns of products by the distinct products seen so far."""

from collections.abc import Iterator
from typing import Annotated, NamedTuple

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.limits import IDS, INPUTS, NOT_NEGATIVE
from zoosim.core.types import FloatArray, IntArray
from zoosim.policies.boosts.base import TASTES

ENOUGH = 500
"""From so many products on, scales stay as they are."""

LEAST_SPREAD = 1e-12

MET, SETTLED = range(2)


class ItemScales(NamedTuple):
    """Centres and scales of columns of products: `means (6,)`, `spreads (6,)`, 0 where products do not differ.

    What there are tastes for is not centred: a taste for price counts for more with the price, not with its distance
    from other products' prices, so visitors who differ in it differ in how much they click at all.
    """

    means: Annotated[FloatArray, INPUTS]
    spreads: Annotated[FloatArray, NOT_NEGATIVE]

    def flaws(self) -> Iterator[str]:
        """Yield what does not fit together."""
        varying = self.spreads[self.spreads > 0.0]
        if varying.min(initial=LEAST_SPREAD) < LEAST_SPREAD:
            yield f"spreads holds {varying.min():g}, expected 0 or at least {LEAST_SPREAD:g}"


class MetProducts(NamedTuple):
    """The products that scales are made from while they are fewer than `ENOUGH`: `ids`, sorted, and `columns (n, 6)`.

    `counts (2,)`: how many there are, and 1 once scales are settled, for good.
    """

    ids: Annotated[IntArray, IDS]
    columns: Annotated[FloatArray, INPUTS]
    counts: IntArray

    def flaws(self) -> Iterator[str]:
        """Yield what does not fit together."""
        met, settled = self.counts
        if met > len(self.ids) or settled > 1:
            yield f"counts holds {met:,} and {settled:,}, expected at most {len(self.ids):,} and 1"


def no_products(columns: int) -> MetProducts:
    """Return an empty set of products."""
    return MetProducts(np.zeros(ENOUGH, np.int64), np.zeros((ENOUGH, columns)), np.zeros(2, np.int64))


def scales_of(columns: FloatArray) -> ItemScales:
    """Return the scales of products with `columns (n, 6)`."""
    spreads = columns.std(axis=0)
    means = np.where(np.arange(columns.shape[1]) < TASTES, 0.0, columns.mean(axis=0))
    return ItemScales(means, np.where(spreads > LEAST_SPREAD, spreads, 0.0))


def meet(met: MetProducts, ids: IntArray, columns: FloatArray) -> ItemScales | None:
    """Add products to those that scales are made from.

    Args:
        met: The products so far; changed in place.
        ids: Ids of the products, `(n,)`.
        columns: Their columns, `(n, 6)`.

    Returns:
        New scales; None where they stay as they are.
    """
    if met.counts[SETTLED]:
        return None
    count = int(met.counts[MET])
    is_new = ~np.isin(ids, met.ids[:count])
    if not is_new.any():
        return None
    all_ids = np.concatenate([met.ids[:count], ids[is_new]])
    all_columns = np.concatenate([met.columns[:count], columns[is_new]])
    # Sorted by id, so that the order in which products come changes no bit.
    distinct, places = np.unique(all_ids, return_index=True)
    if len(distinct) >= ENOUGH:
        settle(met)
    else:
        met.ids[: len(distinct)] = distinct
        met.columns[: len(distinct)] = all_columns[places]
        met.counts[MET] = len(distinct)
    return scales_of(all_columns[places])


def settle(met: MetProducts) -> None:
    """Keep scales as they are from now on."""
    met.ids[:] = 0
    met.columns[:] = 0.0
    met.counts[:] = 0, 1


def scaled(scales: ItemScales, columns: FloatArray) -> FloatArray:
    """Return x of n products, `(n, 7)`: 1, and the standardised columns, 0 where products do not differ.

    Args:
        scales: Centres and scales of the columns.
        columns: The columns, `(n, 6)`.
    """
    out = np.zeros((len(columns), columns.shape[1] + 1))
    out[:, 0] = 1.0
    np.divide(columns - scales.means, scales.spreads, out=out[:, 1:], where=scales.spreads > 0.0)
    return out


@jit
def scale_row(scales: ItemScales, columns: FloatArray, out: FloatArray) -> None:
    """Write x of one product, as `scaled` returns it.

    Args:
        scales: Centres and scales of the columns.
        columns: The columns, `(6,)`.
        out: Overwritten, `(7,)`.
    """
    out[0] = 1.0
    for j in range(columns.shape[0]):
        spread = scales.spreads[j]
        out[j + 1] = (columns[j] - scales.means[j]) / spread if spread > 0.0 else 0.0
