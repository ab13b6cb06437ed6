"""The test of which decisions came before a change: cells that changed, and cells that did not."""

import numpy as np

from zoosim.core.types import BoolArray, FloatArray, IntArray
from zoosim.models.changes import seen_before_change

SIZES, KINDS = (4, 3), 5
CHANGE = 8_000


def decisions(n: int, seed: int) -> tuple[IntArray, IntArray, FloatArray]:
    """Return values of two parts, kinds, and the chance of a click by the first part and the kind, at n decisions."""
    rng = np.random.default_rng(seed)
    values = np.column_stack([rng.integers(0, size, n) for size in SIZES])
    table = rng.uniform(0.02, 0.6, (SIZES[0], KINDS))
    kinds = rng.integers(0, KINDS, n)
    return values, kinds, table[values[:, 0], kinds]


def looked_at(chances: FloatArray, seed: int) -> BoolArray:
    return np.random.default_rng([seed, 1]).random(len(chances)) < chances


def test_nothing_is_forgotten_where_nothing_changes() -> None:
    for seed in range(20):
        values, kinds, chances = decisions(10_000, seed)
        # Newer decisions are of other states than older ones: that alone is no change.
        order = np.argsort(values[:, 0] + np.random.default_rng(seed).normal(0.0, 2.0, len(kinds)))
        values, kinds, chances = values[order], kinds[order], chances[order]
        assert not seen_before_change(values, kinds, looked_at(chances, seed), chances, SIZES, KINDS).any()


def test_a_cell_that_changed_is_forgotten_alone() -> None:
    for seed in range(20):
        values, kinds, chances = decisions(10_000, seed)
        cell = (values[:, 0] == 2) & (kinds == 3)
        is_new = np.arange(len(kinds)) >= CHANGE
        late = np.where(cell & is_new, 0.95, chances)
        clicked = looked_at(late, seed)
        # The model was fitted to all: it takes the cell for what it was on average.
        fitted = np.where(cell, clicked[cell].mean(), chances)
        before = seen_before_change(values, kinds, clicked, fitted, SIZES, KINDS)
        assert before[cell & ~is_new].mean() > 0.9
        assert not before[~cell].any()
        assert before[cell & is_new].mean() < 0.5
