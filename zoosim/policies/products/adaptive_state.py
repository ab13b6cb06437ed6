"""State of `Adaptive`: cells of segments and categories, effects, sizes of rewards; and candidates."""

from collections.abc import Iterator
from typing import Annotated, NamedTuple

import numpy as np

from zoosim.core.id_table import IdTable
from zoosim.core.jit import jit
from zoosim.core.limits import COUNTS, INPUTS, NOT_NEGATIVE
from zoosim.core.normals import RememberedNormals
from zoosim.core.types import BoolArray, FloatArray, IntArray
from zoosim.models import change_filter
from zoosim.models.shrunk_effects import ShrunkEffects, prior_flaws
from zoosim.models.standard_scores import FeatureScales
from zoosim.policies.products.adaptive_from_log import LogModel, candidate_weights, weights_in_common
from zoosim.policies.products.adaptive_sizes import MODELS, RewardSizeModels
from zoosim.policies.products.categories import distinct_patterns, still_binary
from zoosim.policies.products.segments import Segments

HYPOTHESES = 8
"""Hypotheses of a cell's filter."""

ROUNDING = 1e-3
"""Rounding error that is allowed in the sum of the means of cells."""

MEANS, TRIED = 0, 1
"""Places in the tally of cells."""

PRIORS = np.array(
    [  # constant, visitor's features, numbers, both, column, visitor's features in it, product, memory
        [4.0, 0.3, 0.25, 0.1, 0.1, 1.0, 0.3, 0.0],
        [4.0, 0.3, 1.0, 0.5, 1.0, 20.0, 0.03, 0.0],
        [4.0, 0.3, 0.25, 0.1, 0.3, 1.0, 0.3, 6_000.0],
        [4.0, 0.3, 0.25, 0.1, 1.0, 2.0, 0.03, 1_500.0],
        [4.0, 0.3, 0.25, 0.1, 0.3, 0.5, 0.3, 0.0],
        [1.0, 0.1, 0.1, 0.1, 0.2, 0.2, 0.2, 0.0],
        [1.0, 0.1, 0.1, 0.1, 0.2, 0.2, 0.2, 0.0],
        [1.0, 0.1, 0.1, 0.1, 0.2, 0.2, 0.2, 0.0],
    ]
)
"""First variances of effects: of four models of the chance of a reward, as logits; of its sign; of sizes, in units of
theirs."""

CURVE_PRIORS = np.array([[4.0, 0.3, 0.25, 0.1, 0.3, 10.0, 0.1, 0.0]])
"""Variances of the effects of curves, which are not learned."""

NEVER = -1.0
"""Value of `AdaptiveCandidates.learned` where nothing was worked out since they came, or a change from outside."""


MAX_NUMBERS = 128
"""Most numbers of products that count."""


class Cells(NamedTuple):
    """Cells of S segments and G categories.

    `filters (S, G, H, 3)`; `shown (S, G)` the segment's decision that showed the category last, `learned (S, G)` the
    segment's reward that came from it last, both 0 for never; `tally (2,)`: sum of the means of the cells that were
    tried, number of those.
    """

    filters: Annotated[FloatArray, NOT_NEGATIVE]
    shown: Annotated[FloatArray, COUNTS]
    learned: Annotated[FloatArray, COUNTS]
    tally: FloatArray

    def flaws(self) -> Iterator[str]:
        """Yield what does not fit together."""
        yield from (f"filters {flaw}" for flaw in change_filter.flaws(self.filters))
        tried = int(np.count_nonzero(self.learned))
        if self.tally[TRIED] != tried:
            yield f"tally holds {self.tally[TRIED]:g} cells that were tried, expected {tried:,}"
        elif not -ROUNDING <= self.tally[MEANS] <= tried + ROUNDING:
            yield f"tally holds a sum of chances of {self.tally[MEANS]:g}, expected 0 to {tried:,}"


class ProductColumnKinds(NamedTuple):
    """Kinds of the products' columns: `binary (d_p,)` whether a column held nothing but 0 and 1 so far.

    A binary column of which a product was 1 has a block of effects: `block_of (d_p,)`, 0 without. The others are
    numbers: `numbers (n,)` gives the column of each, as they came up. `counts (2,)`: blocks, numbers.
    """

    binary: BoolArray
    block_of: IntArray
    numbers: IntArray
    counts: IntArray

    def flaws(self) -> Iterator[str]:
        """Yield what does not fit together."""
        blocks, numbers = self.counts
        if numbers > len(self.numbers):
            yield f"counts holds {numbers:,} numbers, expected at most {len(self.numbers):,}"
        if self.numbers.max(initial=-1) >= len(self.binary):
            yield f"numbers holds {self.numbers.max()}, expected a column below {len(self.binary):,}"
        if blocks < 1 or self.block_of.max(initial=0) >= blocks:
            yield f"block_of holds {self.block_of.max(initial=0)}, expected a block below {blocks:,}"


BLOCKS, NUMBERS = 0, 1


class AdaptiveState(NamedTuple):
    """All that `Adaptive` has learned, and its parameters.

    `categories` gives those that were shown a number, from their hashed patterns in binary columns; number 0 stands for
    all others. `products` gives those that were shown a slot. `effects` are linear in a visitor's features, `curves`
    in how near the visitor is to `landmarks (J, d_u)`, of which there are `landmarks_found (1,)`. `losses (parts,)` of
    the predictions of cells, of the linear models of chances, and of curves, lately. `model` is what a log left.
    `key (1,)` of the posterior draws, `updates (1,)`, the rewards learned from, and `paid (1,)`, how many of those were
    not taken for 0. `normals` remember what posterior draws are made of. `sampling` is False where decisions go by
    means.
    """

    segments: Segments
    categories: IdTable
    columns: ProductColumnKinds
    cells: Cells
    products: IdTable
    scales: FeatureScales
    product_scales: FeatureScales
    effects: ShrunkEffects
    curves: ShrunkEffects
    landmarks: Annotated[FloatArray, INPUTS]
    landmarks_found: IntArray
    losses: Annotated[FloatArray, NOT_NEGATIVE]
    sizes: RewardSizeModels
    model: LogModel
    key: np.ndarray
    updates: IntArray
    paid: IntArray
    normals: RememberedNormals
    hazard: float
    due: float
    sharpness: float
    together: float
    width: float
    margin: float
    sampling: bool

    def flaws(self) -> Iterator[str]:
        """Yield what does not fit together."""
        found = self.segments.found[0]
        room = self.effects.columns.shape[1]
        if len(self.cells.shown) != len(self.segments.clock):
            yield "cells are of another number of segments"
            return
        if (self.cells.learned > self.segments.clock[:, None]).any():
            yield "cells.learned holds a later reward than the segments' clocks"
        if (self.cells.shown[:found] > self.segments.decided[:found, None]).any():
            yield "cells.shown holds a later decision than the segments' clocks"
        if self.columns.counts[BLOCKS] > room:
            yield f"columns.counts holds {self.columns.counts[BLOCKS]:,} blocks, expected at most {room:,}"
        if self.landmarks_found[0] > len(self.landmarks):
            yield f"landmarks_found holds {self.landmarks_found[0]:,}, expected at most {len(self.landmarks):,}"
        yield from (f"effects.{flaw}" for flaw in prior_flaws(self.effects.priors, PRIORS))
        if not np.array_equal(self.curves.priors, CURVE_PRIORS):
            yield "curves.priors hold other variances than those of curves"
        if self.model.rows[0] > self.updates[0]:
            yield f"model.rows holds {self.model.rows[0]:,} rewards of logs, expected at most {self.updates[0]:,}"
        if self.paid[0] > self.updates[0]:
            yield f"paid holds {self.paid[0]:,} rewards that were not 0, expected at most {self.updates[0]:,}"
        if max(self.effects.latest(), self.curves.latest()) > self.updates[0]:
            yield f"effects were reckoned later than the last of {self.updates[0]:,} rewards"


class AdaptiveCandidates(NamedTuple):
    """The K products of a request and the R categories among them.

    `ids (K,)`, `products (K, d_p)`; `binary (d_p,)`, the columns that held nothing but 0 and 1 so far; `group_of (K,)`
    the category of each product; `keys (R,)` their hashed patterns; `numbers (R,)` by which the state knows them, read
    at `version (1,)` of its table; `slots (K,)` of the products, read at `slots_version (1,)`. `columns (A,)` are the
    binary columns of which a candidate is 1: candidate k in `columns[active[i]]`, i from `starts[k]` to
    `starts[k + 1]`. `weights` and `size_weights` `(1 + d_u, K)` are those of the model of a log, K being 0 if none.

    Of what was learned up to `learned (2,)`, rewards and a loss, `standard (n, K)` holds the standardised numbers,
    `square_lengths (K,)` the sums of their squares, and `own (1 + MODELS, K)` what the candidates add whoever visits:
    to the logit of a reward, and to scores of its size.
    """

    ids: IntArray
    products: FloatArray
    binary: BoolArray
    group_of: IntArray
    keys: IntArray
    numbers: IntArray
    version: IntArray
    slots: IntArray
    slots_version: IntArray
    columns: IntArray
    starts: IntArray
    active: IntArray
    weights: FloatArray
    size_weights: FloatArray
    learned: FloatArray
    standard: FloatArray
    square_lengths: FloatArray
    own: FloatArray


def new_cells(segments: int, categories: int) -> Cells:
    """Return cells that have seen nothing."""
    filters = change_filter.new_cells(segments * categories, HYPOTHESES).reshape(segments, categories, HYPOTHESES, 3)
    return Cells(filters, np.zeros((segments, categories)), np.zeros((segments, categories)), np.zeros(2))


@jit
def expected_click(tally: FloatArray) -> float:
    """Return the click probability that an untried cell is expected to have: the mean of the tried ones."""
    # As if two more cells had been tried, of a mean of 1/2: so there is an answer before any was.
    expected: float = (1.0 + tally[MEANS]) / (2.0 + tally[TRIED])
    return expected


@jit
def count_tried(cells: Cells) -> None:
    """Compute the tally anew from the cells that were tried."""
    cells.tally[:] = 0.0
    for s in range(cells.learned.shape[0]):
        for g in range(cells.learned.shape[1]):
            if cells.learned[s, g] > 0.0:
                cells.tally[MEANS] += change_filter.mean(cells.filters[s, g])
                cells.tally[TRIED] += 1.0


@jit
def clear_cells(cells: Cells, g: int) -> None:
    """Clear the cells of a category; those that were never tried hold nothing."""
    for s in range(cells.shown.shape[0]):
        cells.shown[s, g] = 0.0
        if cells.learned[s, g] > 0.0:
            cells.tally[MEANS] -= change_filter.mean(cells.filters[s, g])
            cells.tally[TRIED] -= 1.0
            cells.learned[s, g] = 0.0
            change_filter.clear(cells.filters[s, g])


def new_candidates(ids: IntArray, products: FloatArray, binary: BoolArray, model: LogModel) -> AdaptiveCandidates:
    """Return the candidates with features `products (K, d_p)`; of `binary (d_p,)` those tell categories that are so."""
    # Products of matrices by numpy, whose library rounds otherwise than that of compiled code; all else in one call,
    # since a call takes longer than what each part of it does.
    in_common, size_in_common = weights_in_common(model, products)
    return derive_candidates(ids, products, binary, model, in_common, size_in_common)


@jit
def derive_candidates(
    ids: IntArray,
    products: FloatArray,
    was_binary: BoolArray,
    model: LogModel,
    in_common: FloatArray,
    size_in_common: FloatArray,
) -> AdaptiveCandidates:
    """Return candidates with all that is derived of them, given what `weights_in_common` says of their features."""
    binary = still_binary(was_binary, products)
    keys, group_of = distinct_patterns(products, binary)
    columns, starts, active = _ones(products, binary)
    count = ids.shape[0]
    numbers = binary.shape[0] - int(np.sum(binary))
    return AdaptiveCandidates(
        ids,
        products,
        binary,
        group_of,
        keys,
        np.zeros(keys.shape[0], np.int64),
        np.full(1, -1),
        np.zeros(count, np.int64),
        np.full(1, -1),
        columns,
        starts,
        active,
        candidate_weights(model.product_ids, model.own, ids, in_common),
        candidate_weights(model.product_ids, model.size_own, ids, size_in_common),
        np.full(2, NEVER),
        np.empty((min(numbers, MAX_NUMBERS), count)),
        np.empty(count),
        np.empty((1 + MODELS, count)),
    )


@jit
def _ones(products: FloatArray, binary: BoolArray) -> tuple[IntArray, IntArray, IntArray]:
    """Return `columns (A,)`, `starts (K + 1,)` and `active` of candidates, as they have them."""
    found = np.flatnonzero(binary)
    starts = np.zeros(products.shape[0] + 1, np.int64)
    place = np.full(products.shape[1], -1)
    if found.shape[0] > 0:
        for k in range(products.shape[0]):
            starts[k + 1] = starts[k]
            for column in found:
                if products[k, column] != 0.0:
                    starts[k + 1] += 1
                    place[column] = 0
    columns = np.flatnonzero(place == 0)
    for a in range(columns.shape[0]):
        place[columns[a]] = a
    active = np.empty(starts[-1], np.int64)
    count = 0
    for k in range(products.shape[0] if columns.shape[0] > 0 else 0):
        for column in columns:
            if products[k, column] != 0.0:
                active[count] = place[column]
                count += 1
    return columns, starts, active
