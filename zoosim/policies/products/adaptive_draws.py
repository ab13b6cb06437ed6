"""The draws from what `Adaptive` believes of a request, which decide."""

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.normals import fill_normals, remember
from zoosim.core.rng import beta
from zoosim.core.types import BoolArray, FloatArray, IntArray
from zoosim.models import change_filter
from zoosim.models.shrunk_effects import CandidatePredictions, draw
from zoosim.policies.choice import DRAWS, posterior_key
from zoosim.policies.products.adaptive_beliefs import Beliefs, SegmentCells, expect_among
from zoosim.policies.products.adaptive_from_log import predict_rewards
from zoosim.policies.products.adaptive_parts import LEAST_WEIGHT, SpreadInputs, bound_own, spread_own
from zoosim.policies.products.adaptive_sizes import RewardSizeModels, are_losses
from zoosim.policies.products.adaptive_state import AdaptiveCandidates, AdaptiveState
from zoosim.policies.products.adaptive_worth import fill_worth, logit_of

PRIOR_VISITS, PRIOR_EVENTS = 2.0, 1.0
"""Weight of what all cells have in common when a cell begins anew: in visits, and in rewards of the rarer kind.

Where few visits pay, two of them weigh next to nothing: the first that does not pay would put a cell's chance at 0.
"""

LEAST_CHANCE = 1e-3
"""Least chance of the rarer kind for which `PRIOR_EVENTS` are waited for."""

SIZE_WIDTH = 0.5
"""Width of the draws of sizes relative to those of chances, before there are rewards enough to try more."""

MANY, MANY_PER_NUMBER = 512, 16
"""Candidates, and candidates per number of theirs, from which on it pays to work out few of their spreads: what this
takes grows with the third power of how many numbers they have."""

LEAST_NUMBERS = 8
"""Numbers of candidates from which on it pays."""


@jit
def prior_visits(chance: float) -> float:
    """Return the weight of the prior of a cell, in visits, where `chance` of them are expected to pay."""
    return float(max(PRIOR_VISITS, PRIOR_EVENTS / max(min(chance, 1.0 - chance), LEAST_CHANCE)))


@jit
def draw_best(state: AdaptiveState, beliefs: Beliefs, chosen: IntArray) -> None:
    """Write the candidates of the highest values in all posterior draws to `chosen (DRAWS,)`.

    Many draws to a call: handing a state over takes longer than a draw.
    """
    count = beliefs.places.shape[0]
    columns = beliefs.ones.columns.shape[0]
    key = posterior_key(state.key, state.updates)
    normals = np.empty(_normals_of(state.sizes, beliefs))
    # All draws of a state are made of the same numbers, whoever asks: most requests find them made.
    are_remembered = count > 1 and remember(state.normals, key, DRAWS, DRAWS, normals.shape[0])
    cells = np.zeros(beliefs.cells.chances.shape[0])
    drawn = np.empty((beliefs.mean.shape[0], count))
    values = np.empty(count)
    for n in range(chosen.shape[0]):
        if count == 1:
            chosen[n] = beliefs.places[0]
            continue
        # Numbers below DRAWS are those of the cells' draws.
        if are_remembered:
            start = n * state.normals.known[0]
            normals = state.normals.numbers[start : start + normals.shape[0]]
        else:
            fill_normals(key, DRAWS + n, normals)
        _draw_row(beliefs, 0, state.width, normals, drawn[0])
        for row in range(1, drawn.shape[0]):
            _draw_row(beliefs, row, SIZE_WIDTH * state.width, normals[count + columns :], drawn[row])
        if beliefs.weight > LEAST_WEIGHT:
            _draw_cells(beliefs.cells, state.sharpness, are_losses(state.sizes), key, n, cells)
        fill_worth(state, drawn, cells, beliefs.groups, beliefs.weight, beliefs.from_log, beliefs.log_weight, values)
        best = 0
        for k in range(1, count):
            if values[k] > values[best]:
                best = k
        chosen[n] = beliefs.places[best]


@jit
def _draw_row(beliefs: Beliefs, row: int, width: float, normals: FloatArray, out: FloatArray) -> None:
    draw(
        CandidatePredictions(beliefs.mean[row], beliefs.of_columns[row], beliefs.own[row]),
        beliefs.ones,
        width,
        normals,
        out,
    )


@jit
def best_in_draw(
    state: AdaptiveState, candidates: AdaptiveCandidates, user: FloatArray, available: BoolArray, n: int
) -> int:
    """Return the candidate of the highest value in posterior draw n, the one that `draw_best` finds.

    Among many, spreads are worked out only of those that may win it.
    """
    sizes = state.sizes
    from_log = predict_rewards(state.model, candidates.weights, candidates.size_weights, user, sizes.several[0] > 0)
    beliefs, inputs = expect_among(state, candidates, user, available, from_log)
    count = beliefs.places.shape[0]
    if count == 1:
        return int(beliefs.places[0])
    normals = np.empty(_normals_of(sizes, beliefs))
    fill_normals(posterior_key(state.key, state.updates), DRAWS + n, normals)
    if _pays_to_leave_out(sizes, inputs.offer.numbers.shape[0], count, beliefs.log_weight):
        _spread_some(state, inputs, beliefs, _those_that_may_win(state, candidates, inputs, beliefs, n, normals))
    else:
        spread_own(state, inputs, beliefs.places, beliefs.own)
    best: int = beliefs.places[_values_in_draw(state, beliefs, n, normals).argmax()]
    return best


@jit
def _pays_to_leave_out(sizes: RewardSizeModels, numbers: int, count: int, log_weight: float) -> bool:
    """Return whether candidates are so many that it pays to find out whose spreads a draw needs, and this can be."""
    is_dear = numbers >= LEAST_NUMBERS and count >= max(MANY, MANY_PER_NUMBER * numbers)
    # Values must grow, or fall, with the logits that are drawn, and after rounding, too.
    return bool(is_dear and not sizes.several[0] and log_weight == 0.0)


@jit
def _those_that_may_win(
    state: AdaptiveState,
    candidates: AdaptiveCandidates,
    inputs: SpreadInputs,
    beliefs: Beliefs,
    n: int,
    normals: FloatArray,
) -> IntArray:
    """Return who may have the highest value in draw n; the others have less with the spreads that are filled in here.

    Each is drawn with a bound of its spread: it must reach what the likeliest one reaches with its own.
    """
    _draw_at_best(state, candidates, inputs, beliefs, normals)
    likeliest = _values_in_draw(state, beliefs, n, normals).argmax()
    _spread_some(state, inputs, beliefs, np.full(1, likeliest))
    values = _values_in_draw(state, beliefs, n, normals)
    return np.flatnonzero(values >= values[likeliest])


@jit
def _values_in_draw(state: AdaptiveState, beliefs: Beliefs, n: int, normals: FloatArray) -> FloatArray:
    """Return what candidates are worth in posterior draw n `(K,)`."""
    half = beliefs.places.shape[0] + beliefs.ones.columns.shape[0]
    cells = np.zeros(beliefs.cells.chances.shape[0])
    drawn = np.empty((beliefs.mean.shape[0], beliefs.places.shape[0]))
    values = np.empty(beliefs.places.shape[0])
    _draw_row(beliefs, 0, state.width, normals, drawn[0])
    for row in range(1, drawn.shape[0]):
        _draw_row(beliefs, row, SIZE_WIDTH * state.width, normals[half:], drawn[row])
    if beliefs.weight > LEAST_WEIGHT:
        key = posterior_key(state.key, state.updates)
        _draw_cells(beliefs.cells, state.sharpness, are_losses(state.sizes), key, n, cells)
    fill_worth(state, drawn, cells, beliefs.groups, beliefs.weight, beliefs.from_log, beliefs.log_weight, values)
    return values


@jit
def _draw_at_best(
    state: AdaptiveState,
    candidates: AdaptiveCandidates,
    inputs: SpreadInputs,
    beliefs: Beliefs,
    normals: FloatArray,
) -> None:
    """Fill in spreads with which no candidate is drawn worse by its `normals` than with its own."""
    own = beliefs.own[0]
    bound_own(state, inputs, candidates.square_lengths, beliefs.places, own)
    columns = beliefs.ones.columns.shape[0]
    sign = -1.0 if are_losses(state.sizes) else 1.0
    for k in range(own.shape[0]):
        if sign * normals[columns + k] < 0.0:
            own[k] = 0.0


@jit
def _spread_some(state: AdaptiveState, inputs: SpreadInputs, beliefs: Beliefs, some: IntArray) -> None:
    """Work out the spreads of some of the candidates that may be chosen."""
    places = np.empty(some.shape[0], np.int64)
    for i in range(places.shape[0]):
        places[i] = beliefs.places[some[i]]
    own = np.zeros((beliefs.own.shape[0], places.shape[0]))
    spread_own(state, inputs, places, own)
    for row in range(own.shape[0]):
        for i in range(places.shape[0]):
            beliefs.own[row, some[i]] = own[row, i]


@jit
def _normals_of(sizes: RewardSizeModels, beliefs: Beliefs) -> int:
    """Return how many normal numbers a draw takes."""
    count: int = beliefs.places.shape[0] + beliefs.ones.columns.shape[0]
    return 2 * count if sizes.several[0] else count


@jit
def _draw_cells(
    cells: SegmentCells, sharpness: float, rewards_are_losses: bool, key: np.uint64, i: int, out: FloatArray
) -> None:
    """Write the logit of each category's draw number i from its filter to `out (R,)`, each draw at least the mean.

    Thompson sampling, made optimistic (May, Korda, Lee & Leslie 2012): a good category is never drawn low; where
    rewards are losses, a category is never drawn high.
    """
    j = 0
    for r in range(out.shape[0]):
        chance = cells.chances[r]
        if chance > 0.0:
            if cells.is_tried[r]:
                drawn, j = change_filter.sample(cells.filters[cells.numbers[r]], sharpness, key, i, j)
                chance = min(drawn, chance) if rewards_are_losses else max(drawn, chance)
            else:
                visits = prior_visits(chance)
                chance, j = beta(key, i, j, visits * chance, visits - visits * chance)
            out[r] = logit_of(chance)
