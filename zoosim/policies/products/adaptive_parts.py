"""The parts of `Adaptive` that predict a reward: how each is believed, and what its effects say of candidates."""

from typing import NamedTuple

import numpy as np

from zoosim.core.id_table import IN_USE, UNKNOWN
from zoosim.core.jit import jit
from zoosim.core.types import FloatArray, IntArray
from zoosim.linear.dense import dot, fill_square_lengths, joined, scale_vector
from zoosim.models import shrunk_effects
from zoosim.models.shrunk_effects import (
    CandidateColumns,
    CandidateInputs,
    ShrunkEffects,
    add_own,
    add_slopes,
    add_up,
)
from zoosim.models.standard_scores import clipped, length_factor, scale_of
from zoosim.policies.products.adaptive_sizes import GAIN, LOSS, MODELS, RAW, SIGN, goes_by_logarithms
from zoosim.policies.products.adaptive_state import NUMBERS, AdaptiveCandidates, AdaptiveState

CHANCES = 4
"""Linear models of the chance of a reward, the first of `AdaptiveState.effects`."""

CELLS, CURVES, PARTS = 0, 1 + CHANCES, 2 + CHANCES
"""Places in `losses`: the cells, then the linear models, then the curves."""

HEAD_START = 2.0
"""Nats by which effects and curves must have predicted better lately than the cells to weigh as much."""

LEAST_WEIGHT = 0.02
"""Weight below which a part has no say."""

LEADING_WEIGHT = 0.5
"""Weight of the cells above which they lead: a category that is overdue is shown."""

COLUMN_WIDTH, OWN_WIDTH = 1.5, 2.0
"""Largest factors by which draws widen the effects of columns, and what differs between single products, their own
effects and numbers, where there are rewards enough to try them."""

COLUMN_REWARDS, OWN_REWARDS = 5.0, 0.2
"""Rewards of the rarer kind, per effect of a column and per product, at which they are drawn halfway to the most."""

SHARPNESS = 2.0
"""Rate at which nearness decays with the squared distance between visitors, whose mean square length is 1."""

FEW_NUMBERS = 4.0
"""Products' numbers together vary as much as so many, however many there are."""


@jit
def part_weights(state: AdaptiveState) -> FloatArray:
    """Return how much each part is believed `(PARTS,)`; cells not where numbers alone tell visitors apart."""
    one_segment = state.segments.found[0] <= 1 and not state.segments.binary.all()
    out = np.empty(PARTS)
    best = np.inf
    for part in range(PARTS):
        out[part] = state.losses[part] + (0.0 if part == CELLS else HEAD_START)
        if part == CELLS and one_segment:
            out[part] = np.inf
        best = min(best, out[part])
    total = 0.0
    for part in range(PARTS):
        # Less the best, so that the largest exponential is 1: none overflows, and their sum is not 0.
        out[part] = np.exp(best - out[part])
        total += out[part]
    for part in range(PARTS):
        out[part] /= total
    return out


@jit
def nearness(state: AdaptiveState, unit: FloatArray) -> FloatArray:
    """Return how near a visitor [1, u] `(1 + d_u,)` is to each landmark, 1 for the same features, towards 0 `(J,)`."""
    users = unit.shape[0] - 1
    found = state.landmarks_found[0]
    near = np.zeros(state.landmarks.shape[0])
    scales = np.empty(users)
    factor = length_factor(state.scales)
    for i in range(users):
        scales[i] = 1.0 if state.segments.binary[i] else scale_of(state.scales, i)
    for j in range(found):
        distance = 0.0
        for i in range(users):
            score = state.landmarks[j, i]
            if not state.segments.binary[i]:
                score = clipped(scales[i] * (score - state.scales.mean[i]))
            distance += (unit[1 + i] - factor * score) ** 2
        near[j] = np.exp(-SHARPNESS * distance)
    return near


@jit
def with_curves(state: AdaptiveState, unit: FloatArray) -> FloatArray:
    """Return [1, u, nearness to landmarks, of length 1] `(1 + d_u + J,)` for [1, u] `(1 + d_u,)`.

    A network of radial basis functions (Broomhead & Lowe 1988), normalised.
    """
    near = nearness(state, unit)
    # A visitor who is far from all landmarks stays near 0, rather than being stretched to length 1.
    length = np.sqrt(dot(near, near) + 1e-9)
    for j in range(near.shape[0]):
        near[j] /= length
    return joined(unit, near)


@jit
def fill_numbers(state: AdaptiveState, products: FloatArray, out: FloatArray) -> None:
    """Write the numbers of products `(K, d_p)`, standardised, to `out (n, K)`."""
    factor = min(1.0, np.sqrt(FEW_NUMBERS / max(1.0, out.shape[0])))
    for n in range(out.shape[0]):
        column = state.columns.numbers[n]
        mean = state.product_scales.mean[column]
        scale = scale_of(state.product_scales, column)
        for k in range(out.shape[1]):
            out[n, k] = factor * clipped(scale * (products[k, column] - mean))


@jit
def shares_of(state: AdaptiveState, weights: FloatArray) -> FloatArray:
    """Return how much each part, and after these each model of sizes, counts in what it helps to predict.

    `(PARTS + MODELS,)`: shares of the effects, 0 where they have no say; 0 for cells; 1 for models that are asked.
    """
    out = np.zeros(PARTS + MODELS)
    effects = 0.0
    total = 0.0
    for part in range(1, PARTS):
        effects += weights[part]
    for part in range(1, PARTS):
        if weights[part] > LEAST_WEIGHT * effects:
            out[part] = weights[part]
            total += weights[part]
    for part in range(1, PARTS):
        out[part] /= total
    if state.sizes.several[0]:
        in_logarithms = goes_by_logarithms(state.sizes)
        out[PARTS + GAIN] = in_logarithms
        out[PARTS + SIGN] = out[PARTS + LOSS] = in_logarithms and state.sizes.negative[0] > 0
        out[PARTS + RAW] = not in_logarithms
    return out


@jit
def parts_of(row: int) -> range:
    """Return the parts that help to predict: for row 0 a reward's logit, for others a score of its size."""
    return range(1, PARTS) if row == 0 else range(PARTS + row - 1, PARTS + row)


@jit
def _effects_of(state: AdaptiveState, part: int) -> tuple[ShrunkEffects, int]:
    """Return the effects of a part, and which of their models it is."""
    if part == CURVES:
        return state.curves, 0
    return state.effects, part - 1 if part < PARTS else CHANCES + part - PARTS


@jit
def offer_of(state: AdaptiveState, candidates: AdaptiveCandidates, shares: FloatArray) -> CandidateInputs:
    """Return the candidates as the effects read them.

    Their numbers, and what they add whoever visits, are worked out anew only when something was learned since.
    """
    numbers = candidates.standard[: state.columns.counts[NUMBERS]]
    own = candidates.own
    clock = float(state.updates[0])
    if candidates.learned[0] != clock or candidates.learned[1] != state.losses[1]:
        fill_numbers(state, candidates.products, numbers)
        fill_square_lengths(numbers, candidates.square_lengths)
        for row in range(own.shape[0]):
            for k in range(own.shape[1]):
                own[row, k] = 0.0
            for part in parts_of(row):
                if shares[part] > 0.0:
                    effects, model = _effects_of(state, part)
                    add_own(effects, model, clock, candidates.slots, shares[part], own[row])
        candidates.learned[0], candidates.learned[1] = clock, state.losses[1]
    # Read at each request: columns get blocks as they come up, also by other candidates.
    columns = np.empty(candidates.columns.shape[0], np.int64)
    for a in range(columns.shape[0]):
        columns[a] = state.columns.block_of[candidates.columns[a]]
    ones = CandidateColumns(columns, candidates.starts, candidates.active)
    return CandidateInputs(numbers, ones, candidates.slots)


@jit
def expect(
    state: AdaptiveState, shares: FloatArray, unit: FloatArray, offer: CandidateInputs, own: FloatArray
) -> FloatArray:
    """Return what is expected of candidates `(1 + MODELS, K)`: the logit of a reward, and scores of its size.

    `own (1 + MODELS, K)` is what they add whoever visits, see `AdaptiveCandidates`. Rows of models that are not asked
    hold anything.
    """
    out = np.empty(own.shape)
    clock = float(state.updates[0])
    for row in range(own.shape[0]):
        of_numbers = np.zeros(offer.numbers.shape[0])
        by_column = np.zeros(offer.ones.columns.shape[0])
        base = 0.0
        asked = False
        for part in parts_of(row):
            if shares[part] > 0.0:
                effects, model = _effects_of(state, part)
                user = _visitor_before(state, part, unit)
                base += add_slopes(effects, model, clock, user, offer.ones.columns, shares[part], of_numbers, by_column)
                asked = True
        if asked:
            add_up(offer, base, of_numbers, by_column, own[row], out[row])
    return out


class SpreadInputs(NamedTuple):
    """Inputs of the spreads of a request: the parts' `shares`, the visitor's `unit` row, and the whole `offer`.

    Spreads of chances are drawn `by_columns` and `by_products` times as wide.
    """

    shares: FloatArray
    unit: FloatArray
    offer: CandidateInputs
    by_columns: float
    by_products: float


@jit
def spread_inputs(state: AdaptiveState, shares: FloatArray, unit: FloatArray, offer: CandidateInputs) -> SpreadInputs:
    """Return what spreads follow from, with how much wider they are drawn."""
    by_columns, by_products = how_much_wider(state, offer)
    return SpreadInputs(shares, unit, offer, by_columns, by_products)


@jit
def spread_columns(state: AdaptiveState, inputs: SpreadInputs, columns: IntArray, out: FloatArray) -> None:
    """Write how far what is expected of columns may be off to `out (1 + MODELS, A)`: `columns (A,)`, as slots."""
    for row in range(out.shape[0]):
        leader = _leader_of(inputs.shares, row)
        if leader > 0:
            effects, model = _effects_of(state, leader)
            user = _visitor_before(state, leader, inputs.unit)
            shrunk_effects.spread_columns(effects, model, float(state.updates[0]), user, columns, out[row])
    scale_vector(out[0], inputs.by_columns)


@jit
def spread_own(state: AdaptiveState, inputs: SpreadInputs, places: IntArray, out: FloatArray) -> None:
    """Write how far what is expected of single candidates may be off, those at `places (k,)`, to `out (1 + MODELS, k)`.

    Of chances as the likeliest part has it; how large losses are is never drawn, and stays as it is.
    """
    for row in range(out.shape[0]):
        leader = _leader_of(inputs.shares, row)
        if leader > 0:
            effects, model = _effects_of(state, leader)
            user = _visitor_before(state, leader, inputs.unit)
            shrunk_effects.spread_own(effects, model, float(state.updates[0]), user, inputs.offer, places, out[row])
    scale_vector(out[0], inputs.by_products)


@jit
def bound_own(
    state: AdaptiveState, inputs: SpreadInputs, square_lengths: FloatArray, places: IntArray, out: FloatArray
) -> None:
    """Write what `spread_own` says of chances, at most, to `out (k,)`: `square_lengths (K,)` of candidates' numbers."""
    leader = _leader_of(inputs.shares, 0)
    effects, model = _effects_of(state, leader)
    user = _visitor_before(state, leader, inputs.unit)
    clock = float(state.updates[0])
    shrunk_effects.bound_own(effects, model, clock, user, inputs.offer, square_lengths, places, out)
    scale_vector(out, inputs.by_products)


@jit
def _leader_of(shares: FloatArray, row: int) -> int:
    """Return the part whose spreads a row is drawn by, the likeliest; 0 for none."""
    leader = 0
    for part in parts_of(row):
        if shares[part] > shares[leader]:
            leader = part
    return leader if row != 1 + LOSS else 0


@jit
def _visitor_before(state: AdaptiveState, part: int, unit: FloatArray) -> FloatArray:
    """Return a visitor as a part reads it."""
    return with_curves(state, unit) if part == CURVES else unit


@jit
def how_much_wider(state: AdaptiveState, offer: CandidateInputs) -> tuple[float, float]:
    """Return how much wider the effects of columns, and what differs between single products, are drawn.

    A shop finds what is best by trying, but cannot try it all where there is more to try than rewards to tell it by.
    Rewards that are 0 and others tell it, as many as there are of the rarer kind: shops where every visit pays draw no
    wider. How many products there are is told by how many were shown, and by their share of the candidates; of columns
    those of the candidates count, each with one effect and those of the visitors' features.
    """
    paid = state.paid[0]
    count = offer.products.shape[0]
    shown = 0
    rewards = float(min(paid, state.updates[0] - paid))
    for slot in offer.products:
        shown += slot != UNKNOWN
    known = state.products.counts[IN_USE]
    # Capture and recapture (Lincoln-Petersen): `known` of all products were shown, and `shown` of these candidates.
    products = known * count / shown if shown > 0 else float(known + count)
    effects = max(1, offer.ones.columns.shape[0]) * (1 + state.segments.binary.shape[0])
    of_columns = _grown_to(COLUMN_WIDTH, rewards / effects / COLUMN_REWARDS)
    return of_columns, _grown_to(OWN_WIDTH, rewards / products / OWN_REWARDS)


@jit
def _grown_to(most: float, progress: float) -> float:
    """Return what grows from 1 to `most` with progress, of which half the way is at 1."""
    return 1.0 + (most - 1.0) * progress**2 / (1.0 + progress**2)
