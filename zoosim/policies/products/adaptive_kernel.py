"""Decisions and learning of `Adaptive`, compiled."""

from typing import NamedTuple

import numpy as np

from zoosim.core.id_table import IN_USE, UNKNOWN, claim_slot, renew_slots
from zoosim.core.jit import jit
from zoosim.core.normals import fill_normals
from zoosim.core.rng import beta
from zoosim.core.types import BoolArray, FloatArray, IntArray
from zoosim.linear.dense import dot
from zoosim.models import change_filter
from zoosim.models.shrunk_effects import (
    NOTHING,
    Offer,
    Row,
    View,
    draw,
    forget_product,
    learn_chance,
    learn_priors,
    look,
)
from zoosim.models.standard_scores import clipped, length_factor, scale_of, see_row, unit_row
from zoosim.policies.choice import DRAWS, draw_number, first_of_each, posterior_key
from zoosim.policies.kernel import Kernel
from zoosim.policies.products.adaptive_sizes import (
    GAIN,
    LEAST_REWARD,
    LOSS,
    RAW,
    SIGN,
    are_losses,
    goes_by_logarithms,
    learn_size,
    size_of,
)
from zoosim.policies.products.adaptive_state import (
    MEANS,
    NUMBERS,
    PRIORS,
    TRIED,
    Candidates,
    Cells,
    State,
    clear_cells,
    expected_click,
)
from zoosim.policies.products.segments import enter, find, shed

PRIOR_VISITS, PRIOR_EVENTS = 2.0, 1.0
"""Weight of what all cells have in common when a cell begins anew: in visits, and in rewards of the rarer kind.

Where few visits pay, two of them weigh next to nothing: the first that does not pay would put a cell's chance at 0.
"""

CHANCES = 4
"""Linear models of the chance of a reward, the first of `State.effects`."""

CELLS, CURVES, PARTS = 0, 1 + CHANCES, 2 + CHANCES
"""Places in `losses`: the cells, then the linear models, then the curves."""

MEMORY = 0.998
"""Weight that a prediction keeps from one visit to the next where half of the visits pay, when parts are weighed by how
well they predict. Where few pay, predictions tell less, and are kept for longer."""

HEAD_START = 2.0
"""How much better, in nats, the effects must have predicted lately than the cells to weigh as much."""

LEAST_CHANCE = 1e-3
"""Least chance of the rarer kind for which `PRIOR_EVENTS` are waited for."""

LEAST_INFORMATION = 0.02
"""Least that a visit tells, as a share of what it tells where half of the visits pay."""

LEAST_WEIGHT = 0.02
"""Weight below which a part has no say."""

SIZE_WIDTH = 0.5
"""How much narrower sizes are drawn than chances are before there are rewards enough to try more."""

COLUMN_WIDTH, OWN_WIDTH = 1.5, 2.0
"""How many times wider the effects of columns, and what differs between single products, their own effects and numbers,
are drawn at most, where there are rewards enough to try them."""

COLUMN_REWARDS, OWN_REWARDS = 5.0, 0.2
"""Rewards of the rarer kind, per effect of a column and per product, at which they are drawn halfway to the most."""

SHARPNESS = 2.0
"""How fast nearness falls with the squared distance between visitors, whose mean square length is 1."""

NEAR = 0.7
"""Nearness from which on a visitor is as good as a landmark."""

FARTHEST_LOGIT = 12.0

CERTAIN = 700.0
"""A logit of what is certain."""

FEW_NUMBERS = 4.0
"""Products' numbers together vary as much as so many, however many there are."""


class Beliefs(NamedTuple):
    """What is believed of a request's K candidates, of R categories, by those that were asked.

    `chances` holds the logit of a reward by effects; `weight` goes to cells and the rest to effects. `sign`, `gain`
    and `loss` or `amount` say what a reward then is. `allowed (K,)`; `firsts (R,)`, the first allowed candidate of each
    category or -1, and `segment`.
    """

    offer: Offer
    chances: View
    weight: float
    sign: View
    gain: View
    loss: View
    amount: View
    allowed: BoolArray
    firsts: IntArray
    segment: int


@jit
def _per_category(state: State, candidates: Candidates, chance: float) -> float:
    """Return the share of one category in a chance that is given for all of a segment's."""
    known = state.categories.counts[IN_USE] - 1
    share: float = chance / max(known, candidates.keys.shape[0])
    return share


@jit
def _room(state: State) -> int:
    """Return how many segments there is room for."""
    return int(state.cells.shown.shape[0])


@jit
def _information(state: State) -> float:
    """Return how much whether a visit pays tells, as a share of what it tells where half of the visits pay."""
    chance = expected_click(state.cells.tally)
    return max(4.0 * chance * (1.0 - chance), LEAST_INFORMATION)


@jit
def _prior_visits(chance: float) -> float:
    """Return the weight of the prior of a cell, in visits, where `chance` of them are expected to pay."""
    return float(max(PRIOR_VISITS, PRIOR_EVENTS / max(min(chance, 1.0 - chance), LEAST_CHANCE)))


@jit
def _logit(chance: float) -> float:
    return float(np.log(max(chance, 1e-6) / max(1.0 - chance, 1e-6)))


class Tried(NamedTuple):
    """A segment's cells of R categories: how likely a reward is, and which were tried `(R,)`; those not asked are 0."""

    filters: FloatArray
    chances: FloatArray
    is_tried: BoolArray


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
                visits = _prior_visits(chance)
                chance, j = beta(key, i, j, visits * chance, visits - visits * chance)
        out[r] = _logit(chance)


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
def _see_landmark(state: State, user: FloatArray) -> None:
    """Make a visitor a landmark who is far from all others, while there is room."""
    found = state.landmarks_found[0]
    if found < state.landmarks.shape[0]:
        unit = unit_row(state.scales, user, state.segments.binary)
        if found == 0 or nearness(state, unit).max() < NEAR:
            state.landmarks[found] = user
            state.landmarks_found[0] += 1


@jit
def _numbers_of(state: State, products: FloatArray) -> FloatArray:
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
    numbers = _numbers_of(state, candidates.products)
    return Offer(numbers, columns, candidates.starts, candidates.active, candidates.slots)


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
    overdue = _most_overdue(means, unseen, beliefs.firsts, _per_category(state, candidates, state.due), ceiling)
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
    _times_sizes(state, beliefs, np.zeros(count + beliefs.offer.columns.shape[0]), values)
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
def _believe(state: State, candidates: Candidates, user: FloatArray, available: BoolArray) -> Beliefs:
    """Return what is believed of the candidates; of a category that is overdue alone, where there is one."""
    renew_slots(state.categories, candidates.keys, candidates.numbers, candidates.version)
    renew_slots(state.products, candidates.ids, candidates.slots, candidates.slots_version)
    firsts = first_of_each(candidates.group_of, available, candidates.keys.shape[0])
    s = find(state.segments, user, _room(state))
    weights = part_weights(state)
    offer = offer_of(state, candidates)
    unit = unit_row(state.scales, user, state.segments.binary)
    chances = _see_effects(state, weights, unit, offer)
    sign = gain = loss = amount = NOTHING
    if state.sizes.several[0]:
        if goes_by_logarithms(state.sizes):
            gain = _see_size(state, GAIN, unit, offer)
            if state.sizes.negative[0]:
                sign = _see_size(state, SIGN, unit, offer)
                loss = _see_size(state, LOSS, unit, offer)
        else:
            amount = _see_size(state, RAW, unit, offer)
    beliefs = Beliefs(offer, chances, weights[CELLS], sign, gain, loss, amount, available.copy(), firsts, s)
    if beliefs.weight > 0.5:
        _keep_overdue(state, candidates, beliefs)
    return beliefs


@jit
def _see_size(state: State, model: int, unit: FloatArray, offer: Offer) -> View:
    return look(state.effects, CHANCES + model, float(state.updates[0]), unit, offer)


@jit
def _see_effects(state: State, weights: FloatArray, unit: FloatArray, offer: Offer) -> View:
    """Return the mean of the parts' logits, with the spread of the likeliest part."""
    leader, total = 1, 0.0
    for part in range(1, PARTS):
        total += weights[part]
        if weights[part] > weights[leader]:
            leader = part
    view = _see_part(state, leader, unit, offer, True)
    weighed = weights[leader] / total
    for k in range(view.mean.shape[0]):
        view.mean[k] *= weighed
    for part in range(1, PARTS):
        share = weights[part] / total
        if part != leader and share > LEAST_WEIGHT:
            other = _see_part(state, part, unit, offer, False)
            weighed += share
            for k in range(view.mean.shape[0]):
                view.mean[k] += share * other.mean[k]
    of_columns, of_products = _how_much_wider(state, offer)
    for k in range(view.mean.shape[0]):
        view.mean[k] /= weighed
        view.own[k] *= of_products
    for a in range(view.of_columns.shape[0]):
        view.of_columns[a] *= of_columns
    return view


@jit
def _how_much_wider(state: State, offer: Offer) -> tuple[float, float]:
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


@jit
def _see_part(state: State, part: int, unit: FloatArray, offer: Offer, spreads: bool) -> View:
    clock = float(state.updates[0])
    if part == CURVES:
        return look(state.curves, 0, clock, with_curves(state, unit), offer, spreads)
    return look(state.effects, part - 1, clock, unit, offer, spreads)


@jit
def _draw_best(
    state: State, candidates: Candidates, beliefs: Beliefs, key: np.uint64, first: int, chosen: IntArray
) -> None:
    """Write the candidates of the highest values in draws `first`, `first + 1`, ... to `chosen (n,)`.

    Many draws to a call: handing a state over takes longer than a draw.
    """
    count, columns = beliefs.allowed.shape[0], beliefs.offer.columns.shape[0]
    several, rewards_are_losses = state.sizes.several[0] > 0, state.sizes.first[0] < 0.0
    normals = np.zeros((2 if several else 1) * (count + columns))
    values, cells = np.empty(count), np.zeros(beliefs.firsts.shape[0])
    tried, sharpness = _cells_of(state, candidates, beliefs), state.sharpness if state.sampling else 0.0
    cells_are_losses = are_losses(state.sizes)
    for n in range(chosen.shape[0]):
        if state.sampling:
            fill_normals(key, DRAWS + first + n, normals)
        draw(beliefs.chances, beliefs.offer, state.width, normals, values)
        for k in range(count):
            values[k] = min(max(values[k], -FARTHEST_LOGIT), FARTHEST_LOGIT)
        if beliefs.weight > LEAST_WEIGHT:
            _draw_cells(tried, sharpness, cells_are_losses, key, first + n, cells)
            for k in range(count):
                values[k] = beliefs.weight * cells[candidates.group_of[k]] + (1.0 - beliefs.weight) * values[k]
        if several:
            _times_sizes(state, beliefs, normals[count + columns :], values)
        elif rewards_are_losses:
            for k in range(count):
                values[k] = -values[k]
        chosen[n] = _highest(values, beliefs.allowed)


@jit
def _highest(values: FloatArray, allowed: BoolArray) -> int:
    """Return the place of the highest value among those allowed."""
    best = -1
    for k in range(values.shape[0]):
        if allowed[k] and (best < 0 or values[k] > values[best]):
            best = k
    return best


@jit
def _times_sizes(state: State, beliefs: Beliefs, normals: FloatArray, values: FloatArray) -> None:
    """Replace the logits of rewards in `values (K,)` by what the candidates earn, sizes drawn by `normals`."""
    sizes, offer, count = state.sizes, beliefs.offer, values.shape[0]
    width = SIZE_WIDTH * state.width
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


@jit
def _choose(
    state: State, candidates: Candidates, user_id: int, user: FloatArray, available: BoolArray, draw: float
) -> int:
    beliefs = _believe(state, candidates, user, available)
    chosen = np.empty(1, np.int64)
    _draw_best(state, candidates, beliefs, posterior_key(state.key, state.updates), draw_number(draw), chosen)
    return int(chosen[0])


@jit
def _distribution(
    state: State, candidates: Candidates, user_id: int, user: FloatArray, available: BoolArray, out: FloatArray
) -> None:
    beliefs = _believe(state, candidates, user, available)
    chosen = np.empty(DRAWS, np.int64)
    _draw_best(state, candidates, beliefs, posterior_key(state.key, state.updates), 0, chosen)
    for k in chosen:
        out[k] += 1.0 / DRAWS


@jit
def _decided(state: State, candidates: Candidates, user_id: int, user: FloatArray, action: int) -> None:
    s = _segment_of(state, user)
    g = _category_of(state, candidates, action)
    state.segments.decided[s] += 1.0
    state.cells.shown[s, g] = state.segments.decided[s]


@jit
def move_clocks(state: State, candidates: Candidates, user: FloatArray, action: int) -> None:
    """Move the clocks that a decision moves: those of what is new stand for the segment's other new categories."""
    renew_slots(state.categories, candidates.keys, candidates.numbers, candidates.version)
    s = find(state.segments, user, _room(state))
    if s >= 0:
        state.segments.decided[s] += 1.0
        state.cells.shown[s, candidates.numbers[candidates.group_of[action]]] = state.segments.decided[s]


@jit
def _learn(state: State, candidates: Candidates, user_id: int, user: FloatArray, action: int, reward: float) -> None:
    paid = abs(reward) >= LEAST_REWARD
    s = _segment_of(state, user)
    g = _category_of(state, candidates, action)
    state.updates[0] += 1
    state.paid[0] += paid
    see_row(state.scales, user, state.segments.binary)
    see_row(state.product_scales, candidates.products[action], state.columns.binary)
    kept = MEMORY ** _information(state)
    for part in range(PARTS):
        state.losses[part] *= kept
    state.losses[CELLS] += _learn_cell(state, candidates, s, g, paid)
    _see_landmark(state, user)
    row = _row(state, candidates, user, action)
    clock = float(state.updates[0])
    for part in range(1, PARTS):
        if part == CURVES:
            curved = Row(with_curves(state, row.user), row.numbers, row.columns, row.product)
            chance = learn_chance(state.curves, 0, clock, curved, paid)
        else:
            chance = learn_chance(state.effects, part - 1, clock, row, paid)
        state.losses[part] += _log_loss(chance, paid)
    learn_priors(state.effects, PRIORS, state.updates[0])
    if paid:
        learn_size(state.sizes, state.effects, CHANCES, clock, row, reward)


@jit
def _log_loss(chance: float, paid: bool) -> float:
    return float(-np.log(max(chance if paid else 1.0 - chance, 1e-3)))


@jit
def _learn_cell(state: State, candidates: Candidates, s: int, g: int, paid: bool) -> float:
    """Let the cell of a segment and a category learn; return the loss of what it had predicted."""
    cells = state.cells
    reward = 1.0 if paid else 0.0
    state.segments.clock[s] += 1.0
    clock = state.segments.clock[s]
    prior, tried, cell = expected_click(cells.tally), cells.learned[s, g] > 0.0, cells.filters[s, g]
    visits = _prior_visits(prior)
    yes, no = visits * prior, visits * (1.0 - prior)
    if not tried:
        cell[0, change_filter.A] = yes
        cell[0, change_filter.B] = no
    before = change_filter.mean(cell)
    kept = (1.0 - _per_category(state, candidates, state.hazard)) ** (clock - cells.learned[s, g]) if tried else 1.0
    loss = _log_loss(kept * before + (1.0 - kept) * prior, paid)
    change_filter.loosen(cell, yes, no, kept)
    if change_filter.observe(cell, reward):
        _suspect_others(cells, s, g, state.categories.counts[IN_USE], yes, no, state.together)
    cells.learned[s, g] = clock
    cells.tally[MEANS] += change_filter.mean(cell) - (before if tried else 0.0)
    cells.tally[TRIED] += 0.0 if tried else 1.0
    return loss


@jit
def _row(state: State, candidates: Candidates, user: FloatArray, action: int) -> Row:
    """Return what the effects learn from."""
    numbers = _numbers_of(state, candidates.products[action : action + 1])[0]
    columns, count = np.empty(candidates.starts[action + 1] - candidates.starts[action], np.int64), 0
    for i in range(candidates.starts[action], candidates.starts[action + 1]):
        block = state.columns.block_of[candidates.columns[candidates.active[i]]]
        if block != UNKNOWN:
            columns[count] = block
            count += 1
    product, is_new = claim_slot(state.products, candidates.ids[action])
    if is_new:
        forget_product(state.effects, product)
        forget_product(state.curves, product)
    unit = unit_row(state.scales, user, state.segments.binary)
    return Row(unit, numbers, columns[:count], product)


@jit
def _suspect_others(cells: Cells, s: int, g: int, categories: int, yes: float, no: float, chance: float) -> None:
    """Where one cell of a segment has jumped, others may have: shocks come to several at once."""
    for other in range(1, categories):
        if other != g and cells.learned[s, other] > 0.0:
            cell = cells.filters[s, other]
            before = change_filter.mean(cell)
            change_filter.loosen(cell, yes, no, 1.0 - chance)
            cells.tally[MEANS] += change_filter.mean(cell) - before


@jit
def _segment_of(state: State, user: FloatArray) -> int:
    """Return the segment of a visitor, with its cells cleared if it is new."""
    cells = state.cells
    if shed(state.segments, user):
        cells.tally[:] = 0.0
        cells.learned[:] = 0.0
    s, is_new = enter(state.segments, user, _room(state))
    if is_new:
        cells.shown[s] = 0.0
        cells.learned[s] = 0.0
        for g in range(cells.shown.shape[1]):
            change_filter.clear(cells.filters[s, g])
    return s


@jit
def _category_of(state: State, candidates: Candidates, action: int) -> int:
    """Return the number of a product's category, with cells that know nothing if it is new."""
    number, is_new = claim_slot(state.categories, candidates.keys[candidates.group_of[action]])
    if is_new:
        clear_cells(state.cells, number)
    return number


KERNEL = Kernel("adaptive", _choose, _distribution, _learn, _decided)
