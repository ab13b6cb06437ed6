"""The parts of `Adaptive` that predict a reward: how each is believed, and what its effects say of candidates."""

import numpy as np

from zoosim.core.id_table import IN_USE, UNKNOWN
from zoosim.core.jit import jit
from zoosim.core.types import FloatArray
from zoosim.linear.dense import dot
from zoosim.models.shrunk_effects import Offer, View, look
from zoosim.models.standard_scores import clipped, length_factor, scale_of
from zoosim.policies.products.adaptive_state import NUMBERS, Candidates, State

CHANCES = 4
"""Linear models of the chance of a reward, the first of `State.effects`."""

CELLS, CURVES, PARTS = 0, 1 + CHANCES, 2 + CHANCES
"""Places in `losses`: the cells, then the linear models, then the curves."""

HEAD_START = 2.0
"""How much better, in nats, the effects must have predicted lately than the cells to weigh as much."""

LEAST_WEIGHT = 0.02
"""Weight below which a part has no say."""

COLUMN_WIDTH, OWN_WIDTH = 1.5, 2.0
"""How many times wider the effects of columns, and what differs between single products, their own effects and numbers,
are drawn at most, where there are rewards enough to try them."""

COLUMN_REWARDS, OWN_REWARDS = 5.0, 0.2
"""Rewards of the rarer kind, per effect of a column and per product, at which they are drawn halfway to the most."""

SHARPNESS = 2.0
"""How fast nearness falls with the squared distance between visitors, whose mean square length is 1."""

FEW_NUMBERS = 4.0
"""Products' numbers together vary as much as so many, however many there are."""


@jit
def part_weights(state: State) -> FloatArray:
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
        out[part] = np.exp(best - out[part])
        total += out[part]
    for part in range(PARTS):
        out[part] /= total
    return out


@jit
def nearness(state: State, unit: FloatArray) -> FloatArray:
    """Return how near a visitor [1, u] `(1 + d_u,)` is to each landmark, 1 for the same features, towards 0 `(J,)`."""
    users, found = unit.shape[0] - 1, state.landmarks_found[0]
    near, scales = np.zeros(state.landmarks.shape[0]), np.empty(users)
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
def with_curves(state: State, unit: FloatArray) -> FloatArray:
    """Return [1, u, nearness to landmarks, of length 1] `(1 + d_u + J,)` for [1, u] `(1 + d_u,)`.

    A network of radial basis functions (Broomhead & Lowe 1988), normalised.
    """
    near = nearness(state, unit)
    length = np.sqrt(dot(near, near) + 1e-9)
    out = np.empty(unit.shape[0] + near.shape[0])
    out[: unit.shape[0]] = unit
    for j in range(near.shape[0]):
        out[unit.shape[0] + j] = near[j] / length
    return out


@jit
def numbers_of(state: State, products: FloatArray) -> FloatArray:
    """Return the numbers of products `(K, d_p)`, standardised `(K, n)`."""
    numbers = np.empty((products.shape[0], state.columns.counts[NUMBERS]))
    factor = min(1.0, np.sqrt(FEW_NUMBERS / max(1.0, numbers.shape[1])))
    for n in range(numbers.shape[1]):
        column = state.columns.numbers[n]
        mean, scale = state.product_scales.mean[column], scale_of(state.product_scales, column)
        for k in range(numbers.shape[0]):
            numbers[k, n] = factor * clipped(scale * (products[k, column] - mean))
    return numbers


@jit
def offer_of(state: State, candidates: Candidates) -> Offer:
    """Return the candidates as the effects read them."""
    columns = np.empty(candidates.columns.shape[0], np.int64)
    for a in range(columns.shape[0]):
        columns[a] = state.columns.block_of[candidates.columns[a]]
    numbers = numbers_of(state, candidates.products)
    return Offer(numbers, columns, candidates.starts, candidates.active, candidates.slots)


@jit
def see_effects(state: State, weights: FloatArray, unit: FloatArray, offer: Offer) -> View:
    """Return the mean of the parts' logits, with the spread of the likeliest part."""
    leader, total = 1, 0.0
    for part in range(1, PARTS):
        total += weights[part]
        if weights[part] > weights[leader]:
            leader = part
    view = see_part(state, leader, unit, offer, True)
    weighed = weights[leader] / total
    for k in range(view.mean.shape[0]):
        view.mean[k] *= weighed
    for part in range(1, PARTS):
        share = weights[part] / total
        if part != leader and share > LEAST_WEIGHT:
            other = see_part(state, part, unit, offer, False)
            weighed += share
            for k in range(view.mean.shape[0]):
                view.mean[k] += share * other.mean[k]
    of_columns, of_products = how_much_wider(state, offer)
    for k in range(view.mean.shape[0]):
        view.mean[k] /= weighed
        view.own[k] *= of_products
    for a in range(view.of_columns.shape[0]):
        view.of_columns[a] *= of_columns
    return view


@jit
def see_part(state: State, part: int, unit: FloatArray, offer: Offer, spreads: bool) -> View:
    clock = float(state.updates[0])
    if part == CURVES:
        return look(state.curves, 0, clock, with_curves(state, unit), offer, spreads)
    return look(state.effects, part - 1, clock, unit, offer, spreads)


@jit
def see_size(state: State, model: int, unit: FloatArray, offer: Offer) -> View:
    return look(state.effects, CHANCES + model, float(state.updates[0]), unit, offer)


@jit
def how_much_wider(state: State, offer: Offer) -> tuple[float, float]:
    """Return how much wider the effects of columns, and what differs between single products, are drawn.

    A shop finds what is best by trying, but cannot try it all where there is more to try than rewards to tell it by.
    Rewards that are 0 and others tell it, as many as there are of the rarer kind: shops where every visit pays draw no
    wider. How many products there are is told by how many were shown, and by their share of the candidates; of columns
    those of the candidates count, each with one effect and those of the visitors' features.
    """
    paid, count, shown = state.paid[0], offer.products.shape[0], 0
    rewards = float(min(paid, state.updates[0] - paid))
    for slot in offer.products:
        shown += slot != UNKNOWN
    known = state.products.counts[IN_USE]
    products = known * count / shown if shown > 0 else float(known + count)
    effects = max(1, offer.columns.shape[0]) * (1 + state.segments.binary.shape[0])
    of_columns = _grown_to(COLUMN_WIDTH, rewards / effects / COLUMN_REWARDS)
    return of_columns, _grown_to(OWN_WIDTH, rewards / products / OWN_REWARDS)


@jit
def _grown_to(most: float, progress: float) -> float:
    """Return what grows from 1 to `most` with progress, of which half the way is at 1."""
    return 1.0 + (most - 1.0) * progress**2 / (1.0 + progress**2)
