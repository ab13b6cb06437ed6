"""Decisions and learning of `Adaptive`, compiled."""

import numpy as np

from zoosim.core.id_table import IN_USE, UNKNOWN, claim_slot, renew_slots
from zoosim.core.jit import jit
from zoosim.core.rng import beta
from zoosim.core.types import BoolArray, FloatArray, IntArray
from zoosim.linear.dense import joined, nonzeros
from zoosim.linear.joint import joint
from zoosim.linear.lens import Lens, new_lens
from zoosim.linear.rivals import MARGIN, MEMORY, bounds, clear_rivals, learn, log_loss
from zoosim.models import change_filter
from zoosim.policies.choice import DRAWS, draw_number, first_of_each, posterior_key, with_one
from zoosim.policies.kernel import Kernel
from zoosim.policies.products.adaptive_state import (
    MEANS,
    TRIED,
    Candidates,
    Cells,
    State,
    clear_cells,
    expected_click,
)
from zoosim.policies.products.segments import enter, find, shed

PRIOR = 2.0
"""Weight, in visits, of what all cells have in common when a cell begins anew."""


@jit
def _per_category(state: State, candidates: Candidates, chance: float) -> float:
    """Return the share of one category in a chance that is given for all of a segment's."""
    known = state.categories.counts[IN_USE] - 1
    share: float = chance / max(known, candidates.keys.shape[0])
    return share


@jit
def _find_numbers(state: State, candidates: Candidates) -> None:
    renew_slots(state.categories, candidates.keys, candidates.numbers, candidates.version)


@jit
def _room(state: State) -> int:
    """Return how many segments there is room for."""
    return int(state.cells.shown.shape[0])


@jit
def _overdue_category(state: State, candidates: Candidates, s: int, firsts: IntArray) -> int:
    """Return the category that is most overdue for segment `s`, or -1."""
    cells = state.cells
    groups = firsts.shape[0]
    means = np.empty(groups)
    unseen = np.zeros(groups)
    if s < 0:
        return -1
    for r in range(groups):
        g = candidates.numbers[r]
        tried = cells.learned[s, g] > 0.0
        means[r] = change_filter.mean(cells.filters[s, g]) if tried else expected_click(cells.tally)
        unseen[r] = state.segments.decided[s] + 1.0 - cells.shown[s, g]
    return _most_overdue(means, unseen, firsts, _per_category(state, candidates, state.due))


@jit
def _most_overdue(means: FloatArray, unseen: FloatArray, firsts: IntArray, due: float) -> int:
    """Return the most overdue of R categories, or -1: `means (R,)`, `unseen (R,)` visits, `firsts (R,)` or -1.

    A category unseen for v visits has become the best with probability about due * v, and the expected loss grows with
    v again, hence v**2. It is overdue once that exceeds the cost of one look, best - mean.
    """
    best, chosen, top = 0.0, -1, 0.0
    for g in range(firsts.shape[0]):
        if firsts[g] >= 0:
            best = max(best, means[g])
    for g in range(firsts.shape[0]):
        if firsts[g] >= 0 and means[g] < best:
            over = 0.25 * due * (max(1.0 - best, 0.0) * unseen[g]) ** 2 - (best - means[g])
            if over >= top:
                chosen, top = g, over
    return chosen


@jit
def _sampled_category(state: State, candidates: Candidates, s: int, firsts: IntArray, key: np.uint64, i: int) -> int:
    """Return the category with the highest draw number i from its filter, each draw at least the mean.

    Thompson sampling, made optimistic (May, Korda, Lee & Leslie 2012): a good category is never drawn low. Without
    sampling, the category of the highest mean.
    """
    cells = state.cells
    expected = expected_click(cells.tally)
    prior = PRIOR * expected
    chosen, top, j = -1, -1.0, 0
    for r in range(firsts.shape[0]):
        if firsts[r] >= 0:
            g = candidates.numbers[r]
            tried = s >= 0 and cells.learned[s, g] > 0.0
            score = change_filter.mean(cells.filters[s, g]) if tried else expected
            if state.sampling and tried:
                draw, j = change_filter.sample(cells.filters[s, g], state.sharpness, key, i, j)
                score = max(draw, score)
            elif state.sampling:
                score, j = beta(key, i, j, prior, PRIOR - prior)
            if score > top:
                chosen, top = r, score
    return chosen


@jit
def _features_of(user: FloatArray, candidates: Candidates, action: int, interacts: bool) -> FloatArray:
    """Return [1, user] (x) [1, numbers], or [1, user, numbers]: `numbers (d_p,)`, 0 in the columns that are binary."""
    numbers = np.zeros(candidates.products.shape[1] + 1)
    numbers[0] = 1.0
    for column in candidates.columns[1:]:
        numbers[column] = candidates.products[action, column - 1]
    if not interacts:
        return joined(with_one(user), numbers[1:])
    x = joint(with_one(user), numbers)
    x[0] = 1.0
    return x


@jit
def _model_of(candidates: Candidates, number: int) -> int:
    """Return the linear model of a category."""
    return 0 if candidates.alike else number


@jit
def _has_models(state: State, candidates: Candidates) -> bool:
    """Return whether there is room for the linear models of all categories that are known or may be shown now."""
    models = state.rivals.steady.b.shape[0]
    room = state.categories.ids.shape[0]
    if candidates.alike or models >= room:
        return True
    wanted = state.categories.counts[IN_USE]
    for number in candidates.numbers:
        wanted += number == UNKNOWN
    return bool(min(wanted, room) <= models)


@jit
def _score(
    state: State, candidates: Candidates, lens: Lens, number: int, products: IntArray, alpha: float
) -> FloatArray:
    """Return the upper confidence bound `(n,)` of `products (n,)` of one category by its linear model."""
    columns = candidates.columns.shape[0]
    rows = np.empty((products.shape[0], columns))
    for n in range(products.shape[0]):
        rows[n, 0] = 1.0
        for i in range(1, columns):
            rows[n, i] = candidates.products[products[n], candidates.columns[i] - 1]
    return bounds(state.rivals, _model_of(candidates, number), lens, rows, alpha)


@jit
def _best_of_group(
    state: State, candidates: Candidates, lens: Lens, available: BoolArray, firsts: IntArray, r: int
) -> tuple[int, float]:
    """Return the product of category `r` with the highest bound, and that bound.

    Of products that do not differ in their numbers, the first of their category stands for all.
    """
    if not candidates.mixed[r]:
        only = firsts[r : r + 1]
        return firsts[r], _score(state, candidates, lens, candidates.numbers[r], only, state.alpha)[0]
    members = candidates.members[candidates.starts[r] : candidates.starts[r + 1]]
    return _best_scored(
        _score(state, candidates, lens, candidates.numbers[r], members, state.alpha), members, available
    )


@jit
def _best_scored(scores: FloatArray, products: IntArray, available: BoolArray) -> tuple[int, float]:
    """Return the available one of `products (n,)` with the highest of `scores (n,)`, and that score."""
    best, top = -1, -np.inf
    for n in range(products.shape[0]):
        if available[products[n]] and scores[n] > top:
            best, top = products[n], scores[n]
    return best, top


@jit
def _best_product(state: State, candidates: Candidates, lens: Lens, available: BoolArray, firsts: IntArray) -> int:
    """Return the product with the highest bound of its linear model, the lowest index on ties."""
    if candidates.alike:
        scores = _score(state, candidates, lens, UNKNOWN, candidates.members, state.alpha)
        best, _ = _best_scored(scores, candidates.members, available)
        return best
    best, top = -1, -np.inf
    for r in range(firsts.shape[0]):
        if firsts[r] >= 0:
            product, score = _best_of_group(state, candidates, lens, available, firsts, r)
            if score > top or (score == top and product < best):
                best, top = product, score
    return best


@jit
def _product_of(
    state: State, candidates: Candidates, user: FloatArray, available: BoolArray, firsts: IntArray, r: int
) -> int:
    """Return the product that stands for a category: the first, or where they differ that of the highest bound."""
    product: int = firsts[r]
    if candidates.mixed[r] and _has_models(state, candidates):
        lens = new_lens(user, candidates.columns, state.rivals.steady.b.shape[1], state.interacts)
        product, _ = _best_of_group(state, candidates, lens, available, firsts, r)
    return product


@jit
def _estimates(state: State, candidates: Candidates, lens: Lens, firsts: IntArray) -> FloatArray:
    """Return the estimated click probability `(R,)` of the first product of each category, by the linear models."""
    means = np.zeros(firsts.shape[0])
    if candidates.alike:
        products = np.maximum(firsts, 0)
        means = _score(state, candidates, lens, UNKNOWN, products, 0.0)
    else:
        for r in range(firsts.shape[0]):
            if firsts[r] >= 0:
                means[r] = _score(state, candidates, lens, candidates.numbers[r], firsts[r : r + 1], 0.0)[0]
    for r in range(firsts.shape[0]):
        means[r] = min(max(means[r], 0.0), 1.0)
    return means


@jit
def _linear_product(
    state: State, candidates: Candidates, user: FloatArray, available: BoolArray, firsts: IntArray
) -> int:
    """Return the product that the linear models choose; of a category that is overdue, if there is one."""
    lens = new_lens(user, candidates.columns, state.rivals.steady.b.shape[1], state.interacts)
    unseen = np.zeros(firsts.shape[0])
    for r in range(firsts.shape[0]):
        unseen[r] = state.decisions[0] + 1 - state.shown[candidates.numbers[r]]
    means = _estimates(state, candidates, lens, firsts)
    overdue = _most_overdue(means, unseen, firsts, _per_category(state, candidates, state.due))
    if overdue < 0:
        return _best_product(state, candidates, lens, available, firsts)
    product, _ = _best_of_group(state, candidates, lens, available, firsts, overdue)
    return product


@jit
def _sure_product(
    state: State, candidates: Candidates, s: int, user: FloatArray, available: BoolArray, firsts: IntArray
) -> int:
    """Return the product that is chosen without chance, or -1 when a category is to be drawn."""
    one_segment = state.segments.found[0] <= 1 and not state.segments.binary.all()
    linear_wins = state.loss[0] > state.rivals.losses.min() + MARGIN
    if (one_segment or linear_wins) and _has_models(state, candidates):
        return _linear_product(state, candidates, user, available, firsts)
    r = _overdue_category(state, candidates, s, firsts)
    return r if r < 0 else _product_of(state, candidates, user, available, firsts, r)


@jit
def _firsts(candidates: Candidates, available: BoolArray) -> IntArray:
    return first_of_each(candidates.group_of, available, candidates.mixed.shape[0])


@jit
def _choose(
    state: State, candidates: Candidates, user_id: int, user: FloatArray, available: BoolArray, draw: float
) -> int:
    _find_numbers(state, candidates)
    firsts = _firsts(candidates, available)
    s = find(state.segments, user, _room(state))
    action = _sure_product(state, candidates, s, user, available, firsts)
    if action < 0:
        key = posterior_key(state.key, state.updates)
        r = _sampled_category(state, candidates, s, firsts, key, draw_number(draw))
        action = _product_of(state, candidates, user, available, firsts, r)
    return action


@jit
def _distribution(
    state: State, candidates: Candidates, user_id: int, user: FloatArray, available: BoolArray, out: FloatArray
) -> None:
    _find_numbers(state, candidates)
    firsts = _firsts(candidates, available)
    s = find(state.segments, user, _room(state))
    sure = _sure_product(state, candidates, s, user, available, firsts)
    if sure >= 0:
        out[sure] = 1.0
        return
    key = posterior_key(state.key, state.updates)
    wins = np.zeros(firsts.shape[0])
    for i in range(DRAWS):
        wins[_sampled_category(state, candidates, s, firsts, key, i)] += 1.0 / DRAWS
    for r in range(wins.shape[0]):
        if wins[r] > 0.0:
            out[_product_of(state, candidates, user, available, firsts, r)] += wins[r]


@jit
def _decided(state: State, candidates: Candidates, user_id: int, user: FloatArray, action: int) -> None:
    s = _segment_of(state, user)
    g = _category_of(state, candidates, action)
    state.segments.decided[s] += 1.0
    state.cells.shown[s, g] = state.segments.decided[s]
    state.decisions[0] += 1
    state.shown[g] = state.decisions[0]


@jit
def _learn(state: State, candidates: Candidates, user_id: int, user: FloatArray, action: int, reward: float) -> None:
    cells = state.cells
    s = _segment_of(state, user)
    g = _category_of(state, candidates, action)
    state.segments.clock[s] += 1.0
    clock = state.segments.clock[s]
    prior, tried, cell = expected_click(cells.tally), cells.learned[s, g] > 0.0, cells.filters[s, g]
    if not tried:
        cell[0, change_filter.A] = PRIOR * prior
        cell[0, change_filter.B] = PRIOR * (1.0 - prior)
    before = change_filter.mean(cell)
    kept = (1.0 - _per_category(state, candidates, state.hazard)) ** (clock - cells.learned[s, g]) if tried else 1.0
    state.loss[0] = MEMORY * state.loss[0] + log_loss(kept * before + (1.0 - kept) * prior, reward)
    _find_numbers(state, candidates)
    if _has_models(state, candidates):
        x = _features_of(user, candidates, action, state.interacts)
        learn(state.rivals, _model_of(candidates, g), x, nonzeros(x), reward)
    change_filter.loosen(cell, PRIOR * prior, PRIOR * (1.0 - prior), kept)
    if change_filter.observe(cell, reward):
        _suspect_others(cells, s, g, state.categories.counts[IN_USE], prior, state.together)
    cells.learned[s, g] = clock
    cells.tally[MEANS] += change_filter.mean(cell) - (before if tried else 0.0)
    cells.tally[TRIED] += 0.0 if tried else 1.0
    state.updates[0] += 1


@jit
def _suspect_others(cells: Cells, s: int, g: int, categories: int, prior: float, chance: float) -> None:
    """Where one cell of a segment has jumped, others may have: shocks come to several at once."""
    for other in range(1, categories):
        if other != g and cells.learned[s, other] > 0.0:
            cell = cells.filters[s, other]
            before = change_filter.mean(cell)
            change_filter.loosen(cell, PRIOR * prior, PRIOR * (1.0 - prior), 1.0 - chance)
            cells.tally[MEANS] += change_filter.mean(cell) - before


@jit
def _segment_of(state: State, user: FloatArray) -> int:
    """Return the segment of a visitor, with its cells cleared if it is new."""
    cells = state.cells
    if shed(state.segments, user):
        cells.tally[:] = 0.0
    s, is_new = enter(state.segments, user, _room(state))
    if is_new:
        cells.shown[s] = 0.0
        cells.learned[s] = 0.0
        for g in range(cells.shown.shape[1]):
            change_filter.clear(cells.filters[s, g])
    return s


@jit
def _category_of(state: State, candidates: Candidates, action: int) -> int:
    """Return the number of a product's category, with cells and models that know nothing if it is new."""
    number, is_new = claim_slot(state.categories, candidates.keys[candidates.group_of[action]])
    if is_new:
        clear_cells(state.cells, state.shown, number)
        if not candidates.alike and number < state.rivals.steady.b.shape[0]:
            clear_rivals(state.rivals, number)
    return number


KERNEL = Kernel("adaptive", _choose, _distribution, _learn, _decided)
