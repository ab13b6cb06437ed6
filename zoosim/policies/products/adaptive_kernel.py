"""Decisions and learning of `Adaptive`, compiled."""

import numpy as np

from zoosim.core.id_table import IN_USE, UNKNOWN, IdTable, claim_slot, renew_slots
from zoosim.core.jit import jit
from zoosim.core.types import BoolArray, FloatArray, IntArray
from zoosim.linear.dense import copy_vector
from zoosim.models import change_filter
from zoosim.models.shrunk_effects import FeatureRow, forget_product, learn_chance, learn_priors
from zoosim.models.standard_scores import see_row, unit_row
from zoosim.policies.choice import DRAWS, draw_number
from zoosim.policies.kernel import Kernel, raise_to_floor
from zoosim.policies.products.adaptive_beliefs import Beliefs, believe, per_category
from zoosim.policies.products.adaptive_draws import best_in_draw, draw_best, prior_visits
from zoosim.policies.products.adaptive_from_log import learn_weight, predict_for_many, predict_rewards
from zoosim.policies.products.adaptive_parts import (
    CELLS,
    CHANCES,
    CURVES,
    PARTS,
    fill_numbers,
    nearness,
    part_weights,
    with_curves,
)
from zoosim.policies.products.adaptive_sizes import LEAST_REWARD, learn_size
from zoosim.policies.products.adaptive_state import (
    MEANS,
    NUMBERS,
    PRIORS,
    TRIED,
    AdaptiveCandidates,
    AdaptiveState,
    Cells,
    clear_cells,
    derive_candidates,
    expected_click,
)
from zoosim.policies.products.segments import Segments, enter, find, shed

MEMORY = 0.998
"""Weight that a prediction keeps from one visit to the next where half of the visits pay, when parts are weighed by how
well they predict. Where few pay, predictions tell less, and are kept for longer."""

LEAST_INFORMATION = 0.02
"""Least that a visit tells, as a share of what it tells where half of the visits pay."""

VISITORS_AT_ONCE = 16
"""Visitors for whom the model of a log predicts at once."""

NEAR = 0.7
"""Nearness from which on a visitor is as good as a landmark."""


@jit
def _information(state: AdaptiveState) -> float:
    """Return how much whether a visit pays tells, as a share of what it tells where half of the visits pay."""
    chance = expected_click(state.cells.tally)
    return max(4.0 * chance * (1.0 - chance), LEAST_INFORMATION)


@jit
def _see_landmark(state: AdaptiveState, user: FloatArray) -> None:
    """Make a visitor a landmark who is far from all others, while there is room."""
    found = state.landmarks_found[0]
    if found < state.landmarks.shape[0]:
        unit = unit_row(state.scales, user, state.segments.binary)
        if found == 0 or nearness(state, unit).max() < NEAR:
            copy_vector(user, state.landmarks[found])
            state.landmarks_found[0] += 1


@jit
def _choose(
    state: AdaptiveState,
    candidates: AdaptiveCandidates,
    user_id: int,
    user: FloatArray,
    available: BoolArray,
    draw: float,
) -> int:
    return best_in_draw(state, candidates, user, available, draw_number(draw))


@jit
def _distribution(
    state: AdaptiveState,
    candidates: AdaptiveCandidates,
    user_id: int,
    user: FloatArray,
    available: BoolArray,
    out: FloatArray,
) -> None:
    with_sizes = state.sizes.several[0] > 0
    from_log = predict_rewards(state.model, candidates.weights, candidates.size_weights, user, with_sizes)
    _add_draws(state, believe(state, candidates, user, available, from_log), out)


@jit
def _add_draws(state: AdaptiveState, beliefs: Beliefs, out: FloatArray) -> None:
    chosen = np.empty(DRAWS, np.int64)
    draw_best(state, beliefs, chosen)
    for k in chosen:
        out[k] += 1.0 / DRAWS


@jit
def distribution_of_new(
    state: AdaptiveState,
    ids: IntArray,
    products: FloatArray,
    in_common: FloatArray,
    size_in_common: FloatArray,
    user: FloatArray,
    available: BoolArray,
    floor: float,
    out: FloatArray,
) -> bool:
    """Add the probability of each candidate to zeros, nothing of which is kept: in one call, as calls take longer.

    Args:
        state: What was learned.
        ids, products: The candidates `(K,)`, and their features `(K, d_p)`.
        in_common, size_in_common: What `weights_in_common` says of them.
        user, available, floor: The request, and the share of decisions that is spread evenly.
        out: The probabilities `(K,)`.

    Returns:
        False where a decision among them would make room first, for columns or categories: nothing is added then.
    """
    candidates = derive_candidates(ids, products, state.columns.binary, state.model, in_common, size_in_common)
    categories = state.categories
    fit = categories.counts[IN_USE] + candidates.keys.shape[0] <= categories.ids.shape[0]
    for column in range(candidates.binary.shape[0]):
        fit &= candidates.binary[column] == state.columns.binary[column]
    if fit:
        _distribution(state, candidates, 0, user, available, out)
        raise_to_floor(available, floor, out)
    return bool(fit)


@jit
def distributions(
    state: AdaptiveState,
    candidates: AdaptiveCandidates,
    users: FloatArray,
    masks: BoolArray,
    mask_of: IntArray,
    floor: float,
    out: FloatArray,
) -> None:
    """Add the probabilities of many requests to zeros, the same ones as those of single requests; see `tabulate`.

    The weights of a log's model, which are most of what a decision reads, are read once for several visitors.
    """
    with_sizes = state.sizes.several[0] > 0
    from_log = np.empty((VISITORS_AT_ONCE, candidates.weights.shape[1]))
    for start in range(0, users.shape[0], VISITORS_AT_ONCE):
        stop = min(start + VISITORS_AT_ONCE, users.shape[0])
        some = users[start:stop]
        predict_for_many(state.model, candidates.weights, candidates.size_weights, some, with_sizes, from_log)
        for i in range(start, stop):
            available = masks[mask_of[i]]
            beliefs = believe(state, candidates, users[i], available, from_log[i - start])
            _add_draws(state, beliefs, out[i])
            raise_to_floor(available, floor, out[i])


@jit
def _decided(
    state: AdaptiveState,
    candidates: AdaptiveCandidates,
    user_id: int,
    user: FloatArray,
    available: BoolArray,
    action: int,
) -> None:
    note_shown(state.segments, state.categories, state.cells, candidates.keys[candidates.group_of[action]], user)


@jit
def note_shown(segments: Segments, categories: IdTable, cells: Cells, key: int, user: FloatArray) -> None:
    """Note that a visitor was shown a category, which is what a decision moves.

    Args:
        segments, categories, cells: Those of the state: these few, since handing all of it over takes longer than the
            rest.
        key: The hashed pattern of the category that was shown.
        user: The visitor's features `(d_u,)`.
    """
    s = _segment_of(segments, cells, user)
    g = _category_of(categories, cells, key)
    segments.decided[s] += 1.0
    cells.shown[s, g] = segments.decided[s]


@jit
def move_clocks(
    segments: Segments,
    categories: IdTable,
    shown: FloatArray,
    keys: IntArray,
    numbers: IntArray,
    version: IntArray,
    group: int,
    user: FloatArray,
) -> None:
    """Move the clocks that a decision moves: those of what is new stand for the segment's other new categories.

    Args:
        segments, categories, shown: Those of the state, as `note_shown` takes them.
        keys, numbers, version: Those of the candidates.
        group: The category of what was shown, as the candidates count them.
        user: The visitor's features `(d_u,)`.
    """
    renew_slots(categories, keys, numbers, version)
    s = find(segments, user, shown.shape[0])
    if s >= 0:
        segments.decided[s] += 1.0
        shown[s, numbers[group]] = segments.decided[s]


@jit
def _learn(
    state: AdaptiveState, candidates: AdaptiveCandidates, user_id: int, user: FloatArray, action: int, reward: float
) -> None:
    paid = abs(reward) >= LEAST_REWARD
    s = _segment_of(state.segments, state.cells, user)
    g = _category_of(state.categories, state.cells, candidates.keys[candidates.group_of[action]])
    state.updates[0] += 1
    state.paid[0] += paid
    see_row(state.scales, user, state.segments.binary)
    see_row(state.product_scales, candidates.products[action], state.columns.binary)
    kept = MEMORY ** _information(state)
    # Before any loss moves: `likelihood` is that of the mixture which would have predicted this reward.
    weights = part_weights(state)
    for part in range(PARTS):
        state.losses[part] *= kept
    loss_of_cell = _learn_cell(state, candidates, s, g, paid)
    state.losses[CELLS] += loss_of_cell
    likelihood = weights[CELLS] * np.exp(-loss_of_cell)
    _see_landmark(state, user)
    row = _row(state, candidates, user, action)
    clock = float(state.updates[0])
    for part in range(1, PARTS):
        if part == CURVES:
            curved = FeatureRow(with_curves(state, row.user), row.numbers, row.columns, row.product)
            chance = learn_chance(state.curves, 0, clock, curved, paid)
        else:
            chance = learn_chance(state.effects, part - 1, clock, row, paid)
        loss = _log_loss(chance, paid)
        state.losses[part] += loss
        likelihood += weights[part] * np.exp(-loss)
    learn_weight(state.model, candidates.weights, user, action, paid, likelihood, kept)
    learn_priors(state.effects, PRIORS, state.updates[0])
    if paid:
        learn_size(state.sizes, state.effects, CHANCES, clock, row, reward)


@jit
def _log_loss(chance: float, paid: bool) -> float:
    # Cut at ln 1000, so that one surprise does not settle for long which part is believed.
    return float(-np.log(max(chance if paid else 1.0 - chance, 1e-3)))


@jit
def _learn_cell(state: AdaptiveState, candidates: AdaptiveCandidates, s: int, g: int, paid: bool) -> float:
    """Update the cell of a segment and a category; return the loss of what it had predicted."""
    cells = state.cells
    reward = 1.0 if paid else 0.0
    state.segments.clock[s] += 1.0
    clock = state.segments.clock[s]
    prior = expected_click(cells.tally)
    tried = cells.learned[s, g] > 0.0
    cell = cells.filters[s, g]
    visits = prior_visits(prior)
    yes = visits * prior
    no = visits * (1.0 - prior)
    if not tried:
        cell[0, change_filter.A] = yes
        cell[0, change_filter.B] = no
    before = change_filter.mean(cell)
    # The chance that the cell has not jumped at any of the segment's visits since.
    kept = (1.0 - per_category(state, candidates, state.hazard)) ** (clock - cells.learned[s, g]) if tried else 1.0
    loss = _log_loss(kept * before + (1.0 - kept) * prior, paid)
    change_filter.loosen(cell, yes, no, kept)
    if change_filter.observe(cell, reward):
        _suspect_others(cells, s, g, state.categories.counts[IN_USE], yes, no, state.together)
    cells.learned[s, g] = clock
    # By its change alone: to add up all cells at each reward would cost segments times categories.
    cells.tally[MEANS] += change_filter.mean(cell) - (before if tried else 0.0)
    cells.tally[TRIED] += 0.0 if tried else 1.0
    return loss


@jit
def _row(state: AdaptiveState, candidates: AdaptiveCandidates, user: FloatArray, action: int) -> FeatureRow:
    """Return what the effects learn from."""
    numbers = np.empty((state.columns.counts[NUMBERS], 1))
    fill_numbers(state, candidates.products[action : action + 1], numbers)
    columns = np.empty(candidates.starts[action + 1] - candidates.starts[action], np.int64)
    count = 0
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
    return FeatureRow(unit, numbers.reshape(numbers.shape[0]), columns[:count], product)


@jit
def _suspect_others(cells: Cells, s: int, g: int, categories: int, yes: float, no: float, chance: float) -> None:
    """Loosen the other cells of a segment, one of which has jumped: shocks come to several at once."""
    for other in range(1, categories):
        if other != g and cells.learned[s, other] > 0.0:
            cell = cells.filters[s, other]
            before = change_filter.mean(cell)
            change_filter.loosen(cell, yes, no, 1.0 - chance)
            cells.tally[MEANS] += change_filter.mean(cell) - before


@jit
def _segment_of(segments: Segments, cells: Cells, user: FloatArray) -> int:
    """Return the segment of a visitor, with its cells cleared if it is new."""
    if shed(segments, user):
        # The segments are found anew, so what cells hold belongs to none of them.
        cells.tally[:] = 0.0
        cells.learned[:] = 0.0
    s, is_new = enter(segments, user, cells.shown.shape[0])
    if is_new:
        cells.shown[s] = 0.0
        cells.learned[s] = 0.0
        # Whatever the place held before, such as when segments began anew, is not this segment's.
        for g in range(cells.shown.shape[1]):
            change_filter.clear(cells.filters[s, g])
    return s


@jit
def _category_of(categories: IdTable, cells: Cells, key: int) -> int:
    """Return the number of a category, with cells that know nothing if it is new."""
    number, is_new = claim_slot(categories, key)
    if is_new:
        clear_cells(cells, number)
    return number


KERNEL = Kernel("adaptive", _choose, _distribution, _learn, _decided)
