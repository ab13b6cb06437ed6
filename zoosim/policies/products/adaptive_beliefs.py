"""Beliefs of `Adaptive` about a request: who may be chosen, what is expected of each, and how far it may be off."""

from typing import NamedTuple

import numpy as np

from zoosim.core.id_table import IN_USE, renew_slots
from zoosim.core.jit import jit
from zoosim.core.types import BoolArray, FloatArray, IntArray
from zoosim.models import change_filter
from zoosim.models.shrunk_effects import CandidateColumns, columns_among
from zoosim.models.standard_scores import unit_row
from zoosim.policies.choice import first_of_each
from zoosim.policies.products.adaptive_from_log import model_weight
from zoosim.policies.products.adaptive_parts import (
    CELLS,
    LEADING_WEIGHT,
    SpreadInputs,
    expect,
    offer_of,
    part_weights,
    shares_of,
    spread_columns,
    spread_inputs,
    spread_own,
)
from zoosim.policies.products.adaptive_state import AdaptiveCandidates, AdaptiveState, expected_click
from zoosim.policies.products.adaptive_worth import fill_sizes, fill_worth, logit_of
from zoosim.policies.products.segments import find


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

    `mean (1 + MODELS, K)` is what is expected of the logit of a reward and of scores of its size, with the logit alone,
    `(1, K)`, while rewards have one size; `of_columns (1 + MODELS, A)` and `own (1 + MODELS, K)` how far that may be
    off, by the columns in `ones` and by itself. `cells` say what is known of categories, of which `groups (K,)` is that
    of each candidate; `weight` goes to them and the rest to effects. `from_log (K,)` is what the model of a log says,
    in logits or, where rewards have several sizes, in rewards, and `log_weight` its weight.
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
def believe(
    state: AdaptiveState,
    candidates: AdaptiveCandidates,
    user: FloatArray,
    available: BoolArray,
    from_log: FloatArray,
) -> Beliefs:
    """Return what is believed of the candidates that may be chosen.

    Those are the candidates of a category that is overdue, where there is one; after a log, those that are expected to
    earn nearly as much as the best; and where nothing is sampled, the best alone.

    Args:
        state, candidates, user, available: The policy's state and the request, as kernels take them.
        from_log: What the model of a log says of the candidates `(K,)`, see `predict_rewards`; empty without one.
    """
    beliefs, inputs = expect_among(state, candidates, user, available, from_log)
    if beliefs.places.shape[0] > 1:
        spread_own(state, inputs, beliefs.places, beliefs.own)
    return beliefs


@jit
def expect_among(
    state: AdaptiveState,
    candidates: AdaptiveCandidates,
    user: FloatArray,
    available: BoolArray,
    from_log: FloatArray,
) -> tuple[Beliefs, SpreadInputs]:
    """Return what `believe` does, but with zeros for the spreads of single candidates, and what these follow from.

    Those spreads are most of the work where there are many candidates.
    """
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
        fill_worth(state, mean, logits, candidates.group_of, weights[CELLS], from_log, log_weight, values)
    places = _near_best(state, values, allowed)
    ones = columns_among(offer.ones, places)
    rows = mean.shape[0] if state.sizes.several[0] else 1
    of_columns = np.zeros((rows, ones.columns.shape[0]))
    own = np.zeros((rows, places.shape[0]))
    inputs = spread_inputs(state, shares, unit, offer)
    if places.shape[0] > 1:
        spread_columns(state, inputs, ones.columns, of_columns)
    groups = np.empty(places.shape[0], np.int64)
    from_log_among = np.empty(places.shape[0])
    for k in range(places.shape[0]):
        groups[k] = candidates.group_of[places[k]]
        from_log_among[k] = from_log[places[k]] if log_weight > 0.0 else 0.0
    beliefs = Beliefs(
        places=places,
        ones=ones,
        mean=_columns_of(mean[:rows], places),
        of_columns=of_columns,
        own=own,
        cells=_only(cells, groups),
        groups=groups,
        weight=weights[CELLS],
        from_log=from_log_among,
        log_weight=log_weight,
    )
    return beliefs, inputs


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
    fill_sizes(state.sizes, mean, sizes)
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
        out[r] = logit_of(cells.chances[r])
    return out
