"""What `Adaptive` knows: segments, categories, the cells of both, linear models; and the candidates of a request."""

from typing import NamedTuple

import numpy as np

from zoosim.core.id_table import IdTable
from zoosim.core.jit import jit
from zoosim.core.types import BoolArray, FloatArray, IntArray
from zoosim.linear.rivals import Rivals
from zoosim.models import change_filter
from zoosim.policies.products.categories import distinct_patterns
from zoosim.policies.products.segments import Segments

HYPOTHESES = 8
"""Hypotheses of a cell's filter."""

MEANS, TRIED = 0, 1
"""Places in the tally of cells."""


class Cells(NamedTuple):
    """What is known of S segments and G categories.

    `filters (S, G, H, 3)`; `shown (S, G)` the segment's decision that showed the category last, `learned (S, G)` the
    segment's reward that came from it last, both 0 for never; `tally (2,)`: sum of the means of the cells that were
    tried, number of those.
    """

    filters: FloatArray
    shown: FloatArray
    learned: FloatArray
    tally: FloatArray


class State(NamedTuple):
    """Segments, categories, cells, linear models, and the recent `loss (1,)` of cells.

    `categories` gives those that were shown a number, from their hashed patterns in the columns that are `binary
    (d_p,)`; number 0 stands for all others. `shown (G,)` the decision that showed each category last, to anybody, of
    `decisions (1,)` so far; `key (1,)` of the posterior draws, and `updates (1,)`, the rewards learned from. Linear
    models join the visitor's features with the product's numbers where `interacts`. Parameters follow; `sampling` is
    False where cells go by their means.
    """

    segments: Segments
    categories: IdTable
    binary: BoolArray
    cells: Cells
    rivals: Rivals
    loss: FloatArray
    shown: IntArray
    decisions: IntArray
    key: np.ndarray
    updates: IntArray
    interacts: bool
    hazard: float
    due: float
    sharpness: float
    alpha: float
    together: float
    sampling: bool


class Candidates(NamedTuple):
    """The K products of a request and the R categories among them.

    `products (K, d_p)`; `group_of (K,)` the category of each; `keys (R,)` their hashed patterns; `numbers (R,)` by
    which the state knows them, read at `version (1,)` of its table. `binary (d_p,)`: columns that held nothing but 0
    and 1 so far. `columns (1 + m,)`: 0 for the constant, and 1 + j for each other column j; `mixed (R,)` whether a
    category's products differ in those. `members (K,)`: products ordered by category, those of category r from
    `starts[r]` to `starts[r + 1]`, `starts (R + 1,)`. Where no column is binary, one linear model serves all: `alike`.
    """

    products: FloatArray
    group_of: IntArray
    keys: IntArray
    numbers: IntArray
    version: IntArray
    binary: BoolArray
    columns: IntArray
    mixed: BoolArray
    members: IntArray
    starts: IntArray
    alike: bool


def new_cells(segments: int, categories: int) -> Cells:
    """Return cells that have seen nothing."""
    filters = change_filter.new_cells(segments * categories, HYPOTHESES).reshape(segments, categories, HYPOTHESES, 3)
    return Cells(filters, np.zeros((segments, categories)), np.zeros((segments, categories)), np.zeros(2))


@jit
def expected_click(tally: FloatArray) -> float:
    """Return the click probability that an untried cell is expected to have: the mean of the tried ones."""
    expected: float = (1.0 + tally[MEANS]) / (2.0 + tally[TRIED])
    return expected


@jit
def clear_cells(cells: Cells, shown: IntArray, g: int) -> None:
    """Let the cells of a category forget what they have seen; those that were never tried hold nothing."""
    shown[g] = 0
    for s in range(cells.shown.shape[0]):
        cells.shown[s, g] = 0.0
        if cells.learned[s, g] > 0.0:
            cells.tally[MEANS] -= change_filter.mean(cells.filters[s, g])
            cells.tally[TRIED] -= 1.0
            cells.learned[s, g] = 0.0
            change_filter.clear(cells.filters[s, g])


def new_candidates(products: FloatArray, binary: BoolArray) -> Candidates:
    """Return the candidates with features `products (K, d_p)`; the columns in `binary (d_p,)` tell categories."""
    alike = not binary.any()
    keys, group_of = distinct_patterns(products, binary)
    columns = np.append(0, 1 + np.flatnonzero(~binary))
    members, starts = _members(group_of, len(keys))
    return Candidates(
        products=products,
        group_of=group_of,
        keys=keys,
        numbers=np.zeros(len(keys), np.int64),
        version=np.full(1, -1),
        binary=binary,
        columns=columns,
        mixed=np.zeros(len(keys), np.bool_) if alike else _mixed(products, group_of, columns, len(keys)),
        members=members,
        starts=starts,
        alike=alike,
    )


@jit
def _members(group_of: IntArray, groups: int) -> tuple[IntArray, IntArray]:
    """Return the products `(K,)` ordered by category, and where each category begins `(R + 1,)`."""
    starts = np.zeros(groups + 1, np.int64)
    for k in range(group_of.shape[0]):
        starts[group_of[k] + 1] += 1
    for r in range(groups):
        starts[r + 1] += starts[r]
    filled = starts[:-1].copy()
    members = np.empty(group_of.shape[0], np.int64)
    for k in range(group_of.shape[0]):
        members[filled[group_of[k]]] = k
        filled[group_of[k]] += 1
    return members, starts


@jit
def _mixed(products: FloatArray, group_of: IntArray, columns: IntArray, groups: int) -> BoolArray:
    """Return which categories `(R,)` hold products that differ in the `columns (1 + m,)` of their numbers."""
    mixed = np.zeros(groups, np.bool_)
    first = np.full(groups, -1)
    for k in range(group_of.shape[0]):
        r = group_of[k]
        if first[r] < 0:
            first[r] = k
        for column in columns[1:]:
            mixed[r] |= products[k, column - 1] != products[first[r], column - 1]
    return mixed
