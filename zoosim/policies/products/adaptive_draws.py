"""What `Adaptive` believes of a request, and the draws from it that decide."""

from typing import NamedTuple

import numpy as np

from zoosim.core.id_table import IN_USE, renew_slots
from zoosim.core.jit import jit
from zoosim.core.normals import fill_normals
from zoosim.core.rng import beta
from zoosim.core.types import BoolArray, FloatArray, IntArray
from zoosim.models import change_filter
from zoosim.models.shrunk_effects import NOTHING, Offer, View, draw
from zoosim.models.standard_scores import unit_row
from zoosim.policies.choice import DRAWS, first_of_each
from zoosim.policies.products.adaptive_from_log import model_weight, predict_rewards
from zoosim.policies.products.adaptive_parts import (
    CELLS,
    LEAST_WEIGHT,
    offer_of,
    part_weights,
    see_effects,
    see_size,
)
from zoosim.policies.products.adaptive_sizes import (
    GAIN,
    LOSS,
    RAW,
    SIGN,
    are_losses,
    goes_by_logarithms,
    size_of,
)
from zoosim.policies.products.adaptive_state import Candidates, State, expected_click
from zoosim.policies.products.segments import find

PRIOR_VISITS, PRIOR_EVENTS = 2.0, 1.0
"""Weight of what all cells have in common when a cell begins anew: in visits, and in rewards of the rarer kind.

Where few visits pay, two of them weigh next to nothing: the first that does not pay would put a cell's chance at 0.
"""

LEAST_CHANCE = 1e-3
"""Least chance of the rarer kind for which `PRIOR_EVENTS` are waited for."""

SIZE_WIDTH = 0.5
"""How much narrower sizes are drawn than chances are before there are rewards enough to try more."""

FARTHEST_LOGIT = 12.0

CERTAIN = 700.0
"""A logit of what is certain."""


class Beliefs(NamedTuple):
    """What is believed of a request's K candidates, of R categories, by those that were asked.

    `chances` holds the logit of a reward by effects; `weight` goes to cells and the rest to effects. `sign`, `gain`
    and `loss` or `amount` say what a reward then is. `from_log (K,)` is what the model of a log says, in logits or,
    where rewards have several sizes, in rewards, and `log_weight` its weight. `allowed (K,)`; `firsts (R,)`, the first
    allowed candidate of each category or -1, `groups (K,)` the category of each candidate, and `segment`.
    """

    offer: Offer
    chances: View
    weight: float
    sign: View
    gain: View
    loss: View
    amount: View
    from_log: FloatArray
    log_weight: float
    allowed: BoolArray
    firsts: IntArray
    groups: IntArray
    segment: int


class Tried(NamedTuple):
    """A segment's cells of R categories: how likely a reward is, and which were tried `(R,)`; those not asked are 0."""

    filters: FloatArray
    chances: FloatArray
    is_tried: BoolArray


@jit
def room(state: State) -> int:
    """Return how many segments there is room for."""
    return int(state.cells.shown.shape[0])


@jit
def per_category(state: State, candidates: Candidates, chance: float) -> float:
    """Return the share of one category in a chance that is given for all of a segment's."""
    known = state.categories.counts[IN_USE] - 1
    share: float = chance / max(known, candidates.keys.shape[0])
    return share


@jit
def prior_visits(chance: float) -> float:
    """Return the weight of the prior of a cell, in visits, where `chance` of them are expected to pay."""
    return float(max(PRIOR_VISITS, PRIOR_EVENTS / max(min(chance, 1.0 - chance), LEAST_CHANCE)))


@jit
def believe(state: State, candidates: Candidates, user: FloatArray, available: BoolArray) -> Beliefs:
    """Return what is believed of the candidates; of a category that is overdue alone, where there is one."""
    renew_slots(state.categories, candidates.keys, candidates.numbers, candidates.version)
    renew_slots(state.products, candidates.ids, candidates.slots, candidates.slots_version)
    firsts = first_of_each(candidates.group_of, available, candidates.keys.shape[0])
    s = find(state.segments, user, room(state))
    weights = part_weights(state)
    offer = offer_of(state, candidates)
    unit = unit_row(state.scales, user, state.segments.binary)
    chances = see_effects(state, weights, unit, offer)
    sign = gain = loss = amount = NOTHING
    if state.sizes.several[0]:
        if goes_by_logarithms(state.sizes):
            gain = see_size(state, GAIN, unit, offer)
            if state.sizes.negative[0]:
                sign = see_size(state, SIGN, unit, offer)
                loss = see_size(state, LOSS, unit, offer)
        else:
            amount = see_size(state, RAW, unit, offer)
    from_log = predict_rewards(
        state.model, candidates.weights, candidates.size_weights, user, state.sizes.several[0] > 0
    )
    beliefs = Beliefs(
        offer=offer,
        chances=chances,
        weight=weights[CELLS],
        sign=sign,
        gain=gain,
        loss=loss,
        amount=amount,
        from_log=from_log,
        log_weight=model_weight(state.model),
        allowed=available.copy(),
        firsts=firsts,
        groups=candidates.group_of,
        segment=s,
    )
    if beliefs.weight > 0.5:
        _keep_overdue(state, candidates, beliefs)
    return beliefs


@jit
def _cells_of(state: State, candidates: Candidates, beliefs: Beliefs) -> Tried:
    """Return what is known of the categories for a visitor's segment."""
    cells, s, groups = state.cells, beliefs.segment, beliefs.firsts.shape[0]
    filters = np.empty((groups, cells.filters.shape[2], cells.filters.shape[3]))
    chances, is_tried = np.zeros(groups), np.zeros(groups, np.bool_)
    expected = expected_click(cells.tally)
    for r in range(groups):
        if beliefs.firsts[r] >= 0:
            g = candidates.numbers[r]
            is_tried[r] = s >= 0 and cells.learned[s, g] > 0.0
            chances[r] = expected
            if is_tried[r]:
                filters[r] = cells.filters[s, g]
                chances[r] = change_filter.mean(filters[r])
    return Tried(filters, chances, is_tried)


@jit
def _keep_overdue(state: State, candidates: Candidates, beliefs: Beliefs) -> None:
    """Where a category is overdue for a segment, allow its candidates alone."""
    cells, s, groups = state.cells, beliefs.segment, beliefs.firsts.shape[0]
    if s < 0:
        return
    sizes = _expected_sizes(state, beliefs)
    largest = np.abs(sizes).max()
    means, unseen = np.zeros(groups), np.zeros(groups)
    for r in range(groups):
        if beliefs.firsts[r] >= 0:
            g = candidates.numbers[r]
            tried = cells.learned[s, g] > 0.0
            chance = change_filter.mean(cells.filters[s, g]) if tried else expected_click(cells.tally)
            means[r] = chance * sizes[beliefs.firsts[r]] / largest
            unseen[r] = state.segments.decided[s] + 1.0 - cells.shown[s, g]
    ceiling = 1.0 if sizes.max() > 0.0 else 0.0
    overdue = _most_overdue(means, unseen, beliefs.firsts, per_category(state, candidates, state.due), ceiling)
    if overdue >= 0:
        for k in range(beliefs.allowed.shape[0]):
            beliefs.allowed[k] &= candidates.group_of[k] == overdue


@jit
def _expected_sizes(state: State, beliefs: Beliefs) -> FloatArray:
    """Return what each candidate `(K,)` earns on average if it earns something; 1 or -1 while all earn the same."""
    count = beliefs.allowed.shape[0]
    if not state.sizes.several[0]:
        return np.full(count, -1.0 if state.sizes.first[0] < 0.0 else 1.0)
    values = np.full(count, CERTAIN)
    _times_sizes(state, beliefs, 0.0, np.zeros(count + beliefs.offer.columns.shape[0]), values)
    return values


@jit
def _most_overdue(means: FloatArray, unseen: FloatArray, firsts: IntArray, due: float, ceiling: float) -> int:
    """Return the most overdue of R categories, or -1: `means (R,)`, `unseen (R,)` visits, `firsts (R,)` or -1.

    A category unseen for v visits has become the best with probability about due * v, and the expected loss grows with
    v again, hence v**2; means reach up to a ceiling. It is overdue once that exceeds the cost of one look, best - mean.
    """
    best, chosen, top = -np.inf, -1, 0.0
    for g in range(firsts.shape[0]):
        if firsts[g] >= 0:
            best = max(best, means[g])
    for g in range(firsts.shape[0]):
        if firsts[g] >= 0 and means[g] < best:
            over = 0.25 * due * (max(ceiling - best, 0.0) * unseen[g]) ** 2 - (best - means[g])
            if over >= top:
                chosen, top = g, over
    return chosen


@jit
def draw_best(
    state: State, candidates: Candidates, beliefs: Beliefs, key: np.uint64, first: int, chosen: IntArray
) -> None:
    """Write the candidates of the highest values in draws `first`, `first + 1`, ... to `chosen (n,)`.

    Many draws to a call: handing a state over takes longer than a draw.
    """
    tried = _cells_of(state, candidates, beliefs)
    if state.sampling and state.model.rows[0] > 0:
        places = _near_best(state, beliefs, tried, key)
        if places.shape[0] == 1:
            chosen[:] = places[0]
            return
        _draw_places(state, _narrowed(beliefs, places), _only(tried, beliefs.groups[places]), key, first, chosen)
        for n in range(chosen.shape[0]):
            chosen[n] = places[chosen[n]]
    else:
        _draw_places(state, beliefs, tried, key, first, chosen)


@jit
def _draw_places(state: State, beliefs: Beliefs, tried: Tried, key: np.uint64, first: int, chosen: IntArray) -> None:
    """Write where among the candidates of `beliefs` the highest values are in draws `first`, `first + 1`, ..."""
    count, columns = beliefs.allowed.shape[0], beliefs.offer.columns.shape[0]
    normals = np.zeros((2 if state.sizes.several[0] else 1) * (count + columns))
    values = np.empty(count)
    sharpness = state.sharpness if state.sampling else 0.0
    for n in range(chosen.shape[0]):
        if state.sampling:
            fill_normals(key, DRAWS + first + n, normals)
        _draw_values(state, beliefs, tried, state.width, sharpness, key, first + n, normals, values)
        chosen[n] = _highest(values, beliefs.allowed)


@jit
def _draw_values(
    state: State,
    beliefs: Beliefs,
    tried: Tried,
    width: float,
    sharpness: float,
    key: np.uint64,
    number: int,
    normals: FloatArray,
    values: FloatArray,
) -> None:
    """Write a draw of what candidates are worth to `values (K,)`: logits, or rewards where these have several sizes."""
    count, columns = beliefs.allowed.shape[0], beliefs.offer.columns.shape[0]
    draw(beliefs.chances, beliefs.offer, width, normals, values)
    for k in range(count):
        values[k] = min(max(values[k], -FARTHEST_LOGIT), FARTHEST_LOGIT)
    if beliefs.weight > LEAST_WEIGHT:
        cells = np.zeros(beliefs.firsts.shape[0])
        _draw_cells(tried, sharpness, are_losses(state.sizes), key, number, cells)
        for k in range(count):
            values[k] = beliefs.weight * cells[beliefs.groups[k]] + (1.0 - beliefs.weight) * values[k]
    if state.sizes.several[0]:
        _times_sizes(state, beliefs, SIZE_WIDTH * width, normals[count + columns :], values)
    elif state.sizes.first[0] < 0.0:
        for k in range(count):
            values[k] = -values[k]
    if beliefs.log_weight > 0.0:
        for k in range(count):
            values[k] += beliefs.log_weight * (beliefs.from_log[k] - values[k])


@jit
def _margin(state: State) -> float:
    """Return by what share less than the best a candidate may be expected to earn and still be tried.

    It grows with what was learned since the log was read.
    """
    since = (state.updates[0] - state.model.rows[0]) / state.model.rows[0]
    return float(state.margin * (1.0 + since))


@jit
def _near_best(state: State, beliefs: Beliefs, tried: Tried, key: np.uint64) -> IntArray:
    """Return which allowed candidates are expected to earn nearly as much as the best, as places in order.

    So exploring costs no more than the margin, however many candidates there are and however little is known of them
    (after Wu, Shariff, Lattimore & Szepesvari 2016, "Conservative Bandits", https://arxiv.org/abs/1602.04282), and
    draws are made of few.
    """
    count, columns = beliefs.allowed.shape[0], beliefs.offer.columns.shape[0]
    several = state.sizes.several[0] > 0
    values, nothing = np.empty(count), np.zeros((2 if several else 1) * (count + columns))
    _draw_values(state, beliefs, tried, 0.0, 0.0, key, 0, nothing, values)
    best, margin = values[_highest(values, beliefs.allowed)], _margin(state)
    least = best - margin * abs(best) if several else best + np.log(max(1.0 - margin, 1e-9))
    places, found = np.empty(count, np.int64), 0
    for k in range(count):
        if beliefs.allowed[k] and values[k] >= least:
            places[found] = k
            found += 1
    return places[:found]


@jit
def _narrowed(beliefs: Beliefs, places: IntArray) -> Beliefs:
    """Return what is believed of some of the candidates, all of them allowed."""
    offer = beliefs.offer
    starts = np.zeros(places.shape[0] + 1, np.int64)
    for i in range(places.shape[0]):
        starts[i + 1] = starts[i] + offer.starts[places[i] + 1] - offer.starts[places[i]]
    active = np.empty(starts[-1], np.int64)
    for i in range(places.shape[0]):
        active[starts[i] : starts[i + 1]] = offer.active[offer.starts[places[i]] : offer.starts[places[i] + 1]]
    return Beliefs(
        offer=Offer(offer.numbers[places], offer.columns, starts, active, offer.products[places]),
        chances=_view_of(beliefs.chances, places),
        weight=beliefs.weight,
        sign=_view_of(beliefs.sign, places),
        gain=_view_of(beliefs.gain, places),
        loss=_view_of(beliefs.loss, places),
        amount=_view_of(beliefs.amount, places),
        from_log=beliefs.from_log[places] if beliefs.log_weight > 0.0 else beliefs.from_log,
        log_weight=beliefs.log_weight,
        allowed=np.ones(places.shape[0], np.bool_),
        firsts=beliefs.firsts,
        groups=beliefs.groups[places],
        segment=beliefs.segment,
    )


@jit
def _view_of(view: View, places: IntArray) -> View:
    """Return the view of some of the candidates; nobody's of nobody's."""
    if view.mean.shape[0] == 0:
        return view
    return View(view.mean[places], view.of_columns, view.own[places])


@jit
def _only(tried: Tried, groups: IntArray) -> Tried:
    """Return what is known of some categories, so that none is drawn of the others."""
    chances = np.zeros(tried.chances.shape[0])
    for r in groups:
        chances[r] = tried.chances[r]
    return Tried(tried.filters, chances, tried.is_tried)


@jit
def _highest(values: FloatArray, allowed: BoolArray) -> int:
    """Return the place of the highest value among those allowed."""
    best = -1
    for k in range(values.shape[0]):
        if allowed[k] and (best < 0 or values[k] > values[best]):
            best = k
    return best


@jit
def _draw_cells(
    tried: Tried, sharpness: float, rewards_are_losses: bool, key: np.uint64, i: int, out: FloatArray
) -> None:
    """Write the logit of each category's draw number i from its filter to `out (R,)`, each draw at least the mean.

    Thompson sampling, made optimistic (May, Korda, Lee & Leslie 2012): a good category is never drawn low; where
    rewards are losses, a category is never drawn high. Without sharpness, the mean.
    """
    j = 0
    for r in range(out.shape[0]):
        chance = tried.chances[r]
        if chance > 0.0 and sharpness > 0.0:
            if tried.is_tried[r]:
                drawn, j = change_filter.sample(tried.filters[r], sharpness, key, i, j)
                chance = min(drawn, chance) if rewards_are_losses else max(drawn, chance)
            else:
                visits = prior_visits(chance)
                chance, j = beta(key, i, j, visits * chance, visits - visits * chance)
        out[r] = _logit(chance)


@jit
def _logit(chance: float) -> float:
    return float(np.log(max(chance, 1e-6) / max(1.0 - chance, 1e-6)))


@jit
def _times_sizes(state: State, beliefs: Beliefs, width: float, normals: FloatArray, values: FloatArray) -> None:
    """Replace the logits of rewards in `values (K,)` by what the candidates earn, sizes drawn by `normals`."""
    sizes, offer, count = state.sizes, beliefs.offer, values.shape[0]
    one = np.empty(count)
    total = np.zeros(count)
    if not goes_by_logarithms(sizes):
        draw(beliefs.amount, offer, width, normals, one)
        for k in range(count):
            total[k] = size_of(sizes, RAW, one[k])
    else:
        draw(beliefs.gain, offer, width, normals, one)
        for k in range(count):
            total[k] = size_of(sizes, GAIN, one[k])
        if sizes.negative[0]:
            loss = np.empty(count)
            draw(beliefs.loss, offer, 0.0, normals, loss)
            draw(beliefs.sign, offer, width, normals, one)
            for k in range(count):
                positive = 1.0 / (1.0 + np.exp(-one[k]))
                total[k] = positive * total[k] - (1.0 - positive) * size_of(sizes, LOSS, loss[k])
    for k in range(count):
        values[k] = total[k] / (1.0 + np.exp(-values[k]))
