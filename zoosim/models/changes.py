"""Which decisions tell of chances that have changed since: a test of each cell of states and kinds of products.

A cell holds the decisions on a kind of product with a value of a part of the states, such as a persona. Under a model
whose chances stay, clicks fall on older and newer decisions as expected clicks do, whichever states those were of, and
so do decisions without a click. How unlikely it is that they fall as they did is a log likelihood ratio (as Besson &
Kaufmann 2019 test one stream), which is looked at for some times of the change.
"""

import numpy as np
from scipy import special

from zoosim.core.types import BoolArray, FloatArray, IntArray

NEWEST = 0.5 ** np.arange(0.5, 5.5, 0.25)
"""Shares of the decisions, the newest ones, that may be of other laws than those before: from .71 to .03."""

SURE = 12.0
"""The log likelihood ratio of a change: without one, about one cell in a million has it at a time."""


def seen_before_change(
    values: IntArray, kinds: IntArray, clicked: BoolArray, chances: FloatArray, sizes: tuple[int, ...], n_kinds: int
) -> BoolArray:
    """Return which decisions came before a change of their cell `(n,)`.

    Only cells of one value of one part are taken at a time, that of the clearest change: those of others change with
    it, and the model must be fitted anew before they are looked at.

    Args:
        values: Value of each part at each decision, the oldest first, `(n, B)`.
        kinds: The kind that was shown, `(n,)`.
        clicked: Whether it was clicked, `(n,)`.
        chances: How likely that was by a model that was fitted to these decisions, `(n,)`.
        sizes: How many values each part has.
        n_kinds: How many kinds there are.
    """
    n = len(kinds)
    before = np.zeros(n, bool)
    splits = np.unique([n - max(1, int(share * n)) for share in NEWEST])
    clearest = SURE
    for part, size in enumerate(sizes):
        cells = values[:, part] * n_kinds + kinds
        ratios = _ratios(cells, clicked, chances, splits, size * n_kinds)
        value = int(ratios.max(axis=0).argmax()) // n_kinds
        of_value = ratios[:, value * n_kinds : (value + 1) * n_kinds]
        if of_value.max() <= clearest:
            continue
        clearest = float(of_value.max())
        since = np.where(of_value.max(axis=0) > SURE, splits[of_value.argmax(axis=0)], 0)
        before = (values[:, part] == value) & (np.arange(n) < since[kinds])
    return before


def _ratios(cells: IntArray, clicked: BoolArray, chances: FloatArray, splits: IntArray, n_cells: int) -> FloatArray:
    """Return the log likelihood ratio of a change before each of the decisions `splits`, `(splits, n_cells)`."""
    ratios = np.zeros((len(splits), n_cells))
    for happened, expected in ((clicked.astype(float), chances), (1.0 - clicked, 1.0 - chances)):
        counts = np.bincount(cells, happened, n_cells)
        total = np.maximum(np.bincount(cells, expected, n_cells), 1e-12)
        for place, split in enumerate(splits):
            newer = np.bincount(cells[split:], happened[split:], n_cells)
            share = np.bincount(cells[split:], expected[split:], n_cells) / total
            ratios[place] += special.rel_entr(newer, counts * share)
            ratios[place] += special.rel_entr(counts - newer, counts * (1.0 - share))
    # A cell of which all decisions are newer, or none, tells nothing.
    return np.where(np.isfinite(ratios), ratios, 0.0)
