"""Beliefs of `Adaptive` about a request, and the draws from them that decide."""

from typing import NamedTuple

import numpy as np

from zoosim.core.id_table import IN_USE, renew_slots
from zoosim.core.jit import jit
from zoosim.core.normals import fill_normals, remember
from zoosim.core.rng import beta
from zoosim.core.types import BoolArray, FloatArray, IntArray
from zoosim.models import change_filter
from zoosim.models.shrunk_effects import CandidateColumns, CandidatePredictions, columns_among, draw
from zoosim.models.standard_scores import unit_row
from zoosim.policies.choice import DRAWS, first_of_each
from zoosim.policies.products.adaptive_from_log import model_weight, predict_rewards
from zoosim.policies.products.adaptive_parts import (
    CELLS,
    LEADING_WEIGHT,
    LEAST_WEIGHT,
    expect,
    offer_of,
    part_weights,
    shares_of,
    spread_columns,
    spread_inputs,
    spread_own,
)
from zoosim.policies.products.adaptive_sizes import (
    GAIN,
    LOSS,
    RAW,
    SIGN,
    RewardSizeModels,
    are_losses,
    goes_by_logarithms,
    size_of,
)
from zoosim.policies.products.adaptive_state import AdaptiveCandidates, AdaptiveState, expected_click
from zoosim.policies.products.segments import find

PRIOR_VISITS, PRIOR_EVENTS = 2.0, 1.0
"""Weight of what all cells have in common when a cell begins anew: in visits, and in rewards of the rarer kind.

Where few visits pay, two of them weigh next to nothing: the first that does not pay would put a cell's chance at 0.
"""

LEAST_CHANCE = 1e-3
"""Least chance of the rarer kind for which `PRIOR_EVENTS` are waited for."""

SIZE_WIDTH = 0.5
"""Width of the draws of sizes relative to those of chances, before there are rewards enough to try more."""

FARTHEST_LOGIT = 12.0


class SegmentCells(NamedTuple):
    """Cells of a `segment`, -1 for a new one, and the R categories of a request.

    `firsts (R,)` are the first available candidate of each, -1 without; `chances (R,)` of a reward, 0 for those that
    are not asked. `numbers (R,)` are their places among the segment's `filters (G, H, 3)`, which count where a cell
    `is_tried (R,)`.
    """

    segment: int
    firsts: IntArray
    chances: FloatArray
    is_tried: BoolArray
    numbers: IntArray
    filters: FloatArray


class Beliefs(NamedTuple):
    """Beliefs about the K candidates of a request that may be chosen, `places (K,)` among all candidates.

    `mean (1 + MODELS, K)` is what is expected of the logit of a reward and of scores of its size; `of_columns (1 +
    MODELS, A)` and `own (1 + MODELS, K)` how far that may be off, by the columns in `ones` and by itself. `cells` say
    what is known of categories, of which `groups (K,)` is that of each candidate; `weight` goes to them and the rest to
    effects. `from_log (K,)` is what the model of a log says, in logits or, where rewards have several sizes, in
    rewards, and `log_weight` its weight.
    """

    places: IntArray
    ones: CandidateColumns
    mean: FloatArray
    of_columns: FloatArray
    own: FloatArray
    cells: SegmentCells
    groups: IntArray
    weight: float
    from_log: FloatArray
    log_weight: float


@jit
def per_category(state: AdaptiveState, candidates: AdaptiveCandidates, chance: float) -> float:
    """Return the share of one category in a chance that is given for all of a segment's."""
    known = state.categories.counts[IN_USE] - 1
    share: float = chance / max(known, candidates.keys.shape[0])
    return share


@jit
def prior_visits(chance: float) -> float:
    """Return the weight of the prior of a cell, in visits, where `chance` of them are expected to pay."""
    return float(max(PRIOR_VISITS, PRIOR_EVENTS / max(min(chance, 1.0 - chance), LEAST_CHANCE)))


@jit
def believe(state: AdaptiveState, candidates: AdaptiveCandidates, user: FloatArray, available: BoolArray) -> Beliefs:
    """Return what is believed of the candidates that may be chosen.

    Those are the candidates of a category that is overdue, where there is one; after a log, those that are expected to
    earn nearly as much as the best; and where nothing is sampled, the best alone.
    """
    with_sizes = state.sizes.several[0] > 0
    from_log = predict_rewards(state.model, candidates.weights, candidates.size_weights, user, with_sizes)
    return believe_with(state, candidates, user, available, from_log)


@jit
def believe_with(
    state: AdaptiveState,
    candidates: AdaptiveCandidates,
    user: FloatArray,
    available: BoolArray,
    from_log: FloatArray,
) -> Beliefs:
    """Return the same by what the model of a log says of the candidates, `from_log (K,)`; empty without one."""
    renew_slots(state.categories, candidates.keys, candidates.numbers, candidates.version)
    renew_slots(state.products, candidates.ids, candidates.slots, candidates.slots_version)
    weights = part_weights(state)
    shares = shares_of(state, weights)
    offer = offer_of(state, candidates, shares)
    unit = unit_row(state.scales, user, state.segments.binary)
    mean = expect(state, shares, unit, offer, candidates.own)
    log_weight = model_weight(state.model)
    cells = _cells_of(state, candidates, find(state.segments, user, state.cells.shown.shape[0]), available)
    allowed = _without_overdue(state, candidates, weights[CELLS], cells, available, mean)
    values = mean[0]
    if not state.sampling or state.model.rows[0] > 0:
        values = np.empty(allowed.shape[0])
        logits = _logits_of(cells)
        _fill_worth(state, mean, logits, candidates.group_of, weights[CELLS], from_log, log_weight, values)
    places = _near_best(state, values, allowed)
    ones = columns_among(offer.ones, places)
    of_columns = np.zeros((mean.shape[0], ones.columns.shape[0]))
    own = np.zeros((mean.shape[0], places.shape[0]))
    if places.shape[0] > 1:
        inputs = spread_inputs(state, shares, unit, offer)
        spread_columns(state, inputs, ones.columns, of_columns)
        spread_own(state, inputs, places, own)
    groups = np.empty(places.shape[0], np.int64)
    from_log_among = np.empty(places.shape[0])
    for k in range(places.shape[0]):
        groups[k] = candidates.group_of[places[k]]
        from_log_among[k] = from_log[places[k]] if log_weight > 0.0 else 0.0
    return Beliefs(
        places=places,
        ones=ones,
        mean=_columns_of(mean, places),
        of_columns=of_columns,
        own=own,
        cells=_only(cells, groups),
        groups=groups,
        weight=weights[CELLS],
        from_log=from_log_among,
        log_weight=log_weight,
    )


@jit
def _cells_of(state: AdaptiveState, candidates: AdaptiveCandidates, s: int, available: BoolArray) -> SegmentCells:
    """Return what is known of the categories of available candidates for segment s, -1 for a new one."""
    firsts = first_of_each(candidates.group_of, available, candidates.keys.shape[0])
    groups = firsts.shape[0]
    expected = expected_click(state.cells.tally)
    chances = np.zeros(groups)
    is_tried = np.zeros(groups, np.bool_)
    for r in range(groups):
        if firsts[r] >= 0:
            g = candidates.numbers[r]
            is_tried[r] = s >= 0 and state.cells.learned[s, g] > 0.0
            chances[r] = change_filter.mean(state.cells.filters[s, g]) if is_tried[r] else expected
    # For a new segment, s = -1, these are the last one's filters; as no cell `is_tried`, they are not read.
    return SegmentCells(s, firsts, chances, is_tried, candidates.numbers, state.cells.filters[s])


@jit
def _without_overdue(
    state: AdaptiveState,
    candidates: AdaptiveCandidates,
    weight: float,
    cells: SegmentCells,
    available: BoolArray,
    mean: FloatArray,
) -> BoolArray:
    """Return which candidates are allowed `(K,)`: where cells lead and a category is overdue for a segment, its own."""
    allowed = available.copy()
    s = cells.segment
    firsts = cells.firsts
    if weight <= LEADING_WEIGHT or s < 0:
        return allowed
    sizes = _expected_sizes(state, mean)
    largest = np.abs(sizes).max()
    means = np.zeros(firsts.shape[0])
    unseen = np.zeros(firsts.shape[0])
    for r in range(firsts.shape[0]):
        if firsts[r] >= 0:
            means[r] = cells.chances[r] * sizes[firsts[r]] / largest
            unseen[r] = state.segments.decided[s] + 1.0 - state.cells.shown[s, candidates.numbers[r]]
    ceiling = 1.0 if sizes.max() > 0.0 else 0.0
    overdue = _most_overdue(means, unseen, firsts, per_category(state, candidates, state.due), ceiling)
    if overdue >= 0:
        for k in range(allowed.shape[0]):
            allowed[k] &= candidates.group_of[k] == overdue
    return allowed


@jit
def _expected_sizes(state: AdaptiveState, mean: FloatArray) -> FloatArray:
    """Return what each candidate `(K,)` earns on average if it earns something; 1 or -1 while all earn the same."""
    if not state.sizes.several[0]:
        return np.full(mean.shape[1], -1.0 if state.sizes.first[0] < 0.0 else 1.0)
    sizes = np.empty(mean.shape[1])
    _fill_sizes(state.sizes, mean, sizes)
    return sizes


@jit
def _most_overdue(means: FloatArray, unseen: FloatArray, firsts: IntArray, due: float, ceiling: float) -> int:
    """Return the most overdue of R categories, or -1: `means (R,)`, `unseen (R,)` visits, `firsts (R,)` or -1.

    A category unseen for v visits has become the best with probability about due * v, and the expected loss grows with
    v again, hence v**2; means reach up to a ceiling. It is overdue once that exceeds the cost of one look, best - mean.
    """
    best = -np.inf
    chosen = -1
    top = 0.0
    for g in range(firsts.shape[0]):
        if firsts[g] >= 0:
            best = max(best, means[g])
    for g in range(firsts.shape[0]):
        if firsts[g] >= 0 and means[g] < best:
            # If jumps land evenly on a range of length 1 below the ceiling, visit t loses due t (ceiling - best)^2 / 2,
            # which adds up to a quarter of due (ceiling - best)^2 v^2 over v visits.
            over = 0.25 * due * (max(ceiling - best, 0.0) * unseen[g]) ** 2 - (best - means[g])
            if over >= top:
                chosen = g
                top = over
    return chosen


@jit
def _margin(state: AdaptiveState) -> float:
    """Return by what share less than the best a candidate may be expected to earn and still be tried.

    It grows with what was learned since the log was read.
    """
    since = (state.updates[0] - state.model.rows[0]) / state.model.rows[0]
    return float(state.margin * (1.0 + since))


@jit
def _near_best(state: AdaptiveState, values: FloatArray, allowed: BoolArray) -> IntArray:
    """Return which allowed candidates may be chosen by their expected `values (K,)`, as places in order.

    Where nothing is sampled it is the best alone; after a log, those that are expected to earn nearly as much as the
    best. So exploring costs no more than the margin, however many candidates there are and however little is known of
    them (after Wu, Shariff, Lattimore & Szepesvari 2016, "Conservative Bandits", https://arxiv.org/abs/1602.04282), and
    draws are made of few.
    """
    best = -1
    for k in range(values.shape[0]):
        if allowed[k] and (best < 0 or values[k] > values[best]):
            best = k
    places = np.empty(values.shape[0], np.int64)
    count = 1
    places[0] = best
    if state.sampling:
        margin = _margin(state)
        least = -np.inf
        count = 0
        if state.model.rows[0] > 0:
            several = state.sizes.several[0] > 0
            # As logits, log(1 - margin) takes the share off the odds, which where few visits pay is that of the chance.
            least = values[best] + (-margin * abs(values[best]) if several else np.log(max(1.0 - margin, 1e-9)))
        for k in range(values.shape[0]):
            if allowed[k] and (values[k] >= least or k == best):
                places[count] = k
                count += 1
    return places[:count]


@jit
def draw_best(state: AdaptiveState, beliefs: Beliefs, key: np.uint64, first: int, chosen: IntArray) -> None:
    """Write the candidates of the highest values in draws `first`, `first + 1`, ... to `chosen (n,)`.

    Many draws to a call: handing a state over takes longer than a draw.
    """
    count = beliefs.places.shape[0]
    columns = beliefs.ones.columns.shape[0]
    several = state.sizes.several[0] > 0
    normals = np.empty((2 if several else 1) * (count + columns))
    # All draws of a state are made of the same numbers, whoever asks: most requests find them made.
    are_remembered = (
        chosen.shape[0] == DRAWS and count > 1 and remember(state.normals, key, DRAWS, DRAWS, normals.shape[0])
    )
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
            fill_normals(key, DRAWS + first + n, normals)
        _draw_row(beliefs, 0, state.width, normals, drawn[0])
        if several:
            for row in range(1, drawn.shape[0]):
                _draw_row(beliefs, row, SIZE_WIDTH * state.width, normals[count + columns :], drawn[row])
        if beliefs.weight > LEAST_WEIGHT:
            _draw_cells(beliefs.cells, state.sharpness, are_losses(state.sizes), key, first + n, cells)
        _fill_worth(state, drawn, cells, beliefs.groups, beliefs.weight, beliefs.from_log, beliefs.log_weight, values)
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
def _fill_worth(
    state: AdaptiveState,
    mean: FloatArray,
    cells: FloatArray,
    groups: IntArray,
    weight: float,
    from_log: FloatArray,
    log_weight: float,
    values: FloatArray,
) -> None:
    """Write what candidates are worth to `values (K,)`: logits, or rewards where these have several sizes.

    `mean (1 + MODELS, K)` holds logits of rewards and scores of sizes by effects, `cells (R,)` logits by categories,
    of which `groups (K,)` is that of each candidate.
    """
    for k in range(values.shape[0]):
        values[k] = min(max(mean[0, k], -FARTHEST_LOGIT), FARTHEST_LOGIT)
        if weight > LEAST_WEIGHT:
            values[k] = weight * cells[groups[k]] + (1.0 - weight) * values[k]
    if state.sizes.several[0]:
        sizes = np.empty(values.shape[0])
        _fill_sizes(state.sizes, mean, sizes)
        for k in range(values.shape[0]):
            values[k] = sizes[k] / (1.0 + np.exp(-values[k]))
    elif state.sizes.first[0] < 0.0:
        for k in range(values.shape[0]):
            values[k] = -values[k]
    if log_weight > 0.0:
        for k in range(values.shape[0]):
            values[k] += log_weight * (from_log[k] - values[k])


@jit
def _fill_sizes(sizes: RewardSizeModels, scores: FloatArray, out: FloatArray) -> None:
    """Write what candidates earn if they earn something to `out (K,)`, by `scores (1 + MODELS, K)` of sizes."""
    for k in range(out.shape[0]):
        if not goes_by_logarithms(sizes):
            out[k] = size_of(sizes, RAW, scores[1 + RAW, k])
        else:
            out[k] = size_of(sizes, GAIN, scores[1 + GAIN, k])
            if sizes.negative[0]:
                positive = 1.0 / (1.0 + np.exp(-scores[1 + SIGN, k]))
                out[k] = positive * out[k] - (1.0 - positive) * size_of(sizes, LOSS, scores[1 + LOSS, k])


@jit
def _columns_of(matrix: FloatArray, places: IntArray) -> FloatArray:
    """Return some of the columns of a matrix."""
    out = np.empty((matrix.shape[0], places.shape[0]))
    for row in range(out.shape[0]):
        for k in range(places.shape[0]):
            out[row, k] = matrix[row, places[k]]
    return out


@jit
def _only(cells: SegmentCells, groups: IntArray) -> SegmentCells:
    """Return what is known of some categories, so that none is drawn of the others."""
    chances = np.zeros(cells.chances.shape[0])
    for r in groups:
        chances[r] = cells.chances[r]
    return SegmentCells(cells.segment, cells.firsts, chances, cells.is_tried, cells.numbers, cells.filters)


@jit
def _logits_of(cells: SegmentCells) -> FloatArray:
    """Return the logit of each category's chance `(R,)`."""
    out = np.empty(cells.chances.shape[0])
    for r in range(out.shape[0]):
        out[r] = _logit(cells.chances[r])
    return out


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
            out[r] = _logit(chance)


@jit
def _logit(chance: float) -> float:
    return float(np.log(max(chance, 1e-6) / max(1.0 - chance, 1e-6)))
