"""Thompson sampling over segments and categories that it finds itself, with change detection: the default choice.

It tells visitors apart by segment and products by category: the distinct patterns in the columns that hold nothing but
0 and 1. Each (segment, category) cell has a Bayes filter of its click probability (`zoosim.models.change_filter`). A
decision is Thompson sampling over a segment's cells; but a category that was not shown to it for long is shown as soon
as what may have changed meanwhile is worth a visit. Beside the cells run linear models over the visitor's features and
the product's numbers (`zoosim.linear.rivals`), one for each category. They choose within a category whose products have
different numbers, and decide altogether where they predict clicks better than the cells: features may hold what
segments and categories do not.

What a decision moves (when a category was shown last) and what a reward moves (everything else) are kept apart, so that
rewards may come late: otherwise a category would stay overdue, and be shown to everybody, until its rewards are in.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np

from zoosim.core.id_table import IN_USE, UNKNOWN, IdTable, capacity_for, claim_slot, grown, new_id_table, renew_slots
from zoosim.core.jit import jit
from zoosim.core.parameters import parameter
from zoosim.core.rng import beta, draw_key
from zoosim.core.types import BoolArray, FloatArray, IntArray
from zoosim.linear.dense import joined, nonzeros
from zoosim.linear.joint import joint
from zoosim.linear.lens import Lens, new_lens
from zoosim.linear.rivals import MARGIN, MEMORY, Rivals, bounds, clear_rivals, grown_rivals, learn, log_loss, new_rivals
from zoosim.models import change_filter
from zoosim.policies.choice import DRAWS, draw_number, first_of_each, posterior_key, with_one
from zoosim.policies.kernel import Kernel, KernelPolicy, saved_length
from zoosim.policies.products.categories import FIRST_CATEGORIES, distinct_patterns, still_binary
from zoosim.policies.products.segments import Segments, enter, find, new_segments, shed

HYPOTHESES = 8
MAX_SEGMENTS, MAX_CATEGORIES, MAX_CELLS, MAX_ENTRIES = 256, 2_048, 200_000, 16_000_000
"""Most segments, categories, (segment, category) cells, and entries of all linear models' matrices."""

PRIOR = 2.0
"""Weight, in visits, of what all cells have in common when a cell begins anew."""

MAX_JOINT = 100
"""Most features of a linear model over all products of a visitor's feature and a product's; else it adds them."""

HORIZON = 2_000.0
"""Visits after which an observation weighs 1/e in linear models that fade."""

MEANS, TRIED = 0, 1


class Cells(NamedTuple):
    """What is known of S segments and G categories.

    `filters (S, G, H, 3)`; `shown (S, G)` the segment's decision that showed the category last, `learned (S, G)` the
    segment's reward that came from it last, both 0 for never; `tally (2,)`: sum of the means of the cells that were
    tried, number of those.
    """

    filters: FloatArray
    shown: FloatArray
    learned: FloatArray
    tally: FloatArray


class State(NamedTuple):
    """Segments, categories, cells, linear models, and the recent `loss (1,)` of cells.

    `categories` gives those that were shown a number, from their hashed patterns in the columns that are `binary
    (d_p,)`; number 0 stands for all others. `shown (G,)` the decision that showed each category last, to anybody, of
    `decisions (1,)` so far; `key (1,)` of the posterior draws, and `updates (1,)`, the rewards learned from. Linear
    models join the visitor's features with the product's numbers where `interacts`. Parameters follow; `sampling` is
    False where cells go by their means.
    """

    segments: Segments
    categories: IdTable
    binary: BoolArray
    cells: Cells
    rivals: Rivals
    loss: FloatArray
    shown: IntArray
    decisions: IntArray
    key: np.ndarray
    updates: IntArray
    interacts: bool
    hazard: float
    due: float
    sharpness: float
    alpha: float
    together: float
    sampling: bool


class Candidates(NamedTuple):
    """The K products of a request and the R categories among them.

    `products (K, d_p)`; `group_of (K,)` the category of each; `keys (R,)` their hashed patterns; `numbers (R,)` by
    which the state knows them, read at `version (1,)` of its table. `binary (d_p,)`: columns that held nothing but 0
    and 1 so far. `columns (1 + m,)`: 0 for the constant, and 1 + j for each other column j; `mixed (R,)` whether a
    category's products differ in those. `members (K,)`: products ordered by category, those of category r from
    `starts[r]` to `starts[r + 1]`, `starts (R + 1,)`. Where no column is binary, one linear model serves all: `alike`.
    """

    products: FloatArray
    group_of: IntArray
    keys: IntArray
    numbers: IntArray
    version: IntArray
    binary: BoolArray
    columns: IntArray
    mixed: BoolArray
    members: IntArray
    starts: IntArray
    alike: bool


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
def _prior(tally: FloatArray) -> float:
    """Return the click probability that an untried cell is expected to have: the mean of the tried ones."""
    expected: float = (1.0 + tally[MEANS]) / (2.0 + tally[TRIED])
    return expected


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
        means[r] = change_filter.mean(cells.filters[s, g]) if tried else _prior(cells.tally)
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
    expected = _prior(cells.tally)
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
    prior, tried, cell = _prior(cells.tally), cells.learned[s, g] > 0.0, cells.filters[s, g]
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
        _clear_cells(state.cells, state.shown, number)
        if not candidates.alike and number < state.rivals.steady.b.shape[0]:
            clear_rivals(state.rivals, number)
    return number


class Adaptive(KernelPolicy):
    """Find segments and categories by itself, follow each cell through jumps, explore where it may pay (recommended).

    Rewards lie between 0 and 1. There are at most 256 segments, of which the last takes all further visitors, and 2,048
    categories that were shown, of which the one that was shown or rewarded longest ago makes room for a new one.
    """

    name = "adaptive"
    kernel = Kernel("adaptive", _choose, _distribution, _learn, _decided)
    learned = ("segments", "categories", "binary", "cells", "rivals", "loss", "shown", "decisions", "key", "updates")
    rewards: ClassVar[tuple[float, float]] = (0.0, 1.0)
    hazard: float = parameter(5e-4, low=0, high=0.1, help="probability per visit that one of a segment's cells jumps")
    due: float = parameter(
        1.5e-4, low=0, high=0.1, help="rate at which long unseen categories are tried again; 0 never"
    )
    sharpness: float = parameter(2.0, low=0.1, high=100, help="how much narrower than the posterior it samples")
    together: float = parameter(
        0.1, low=0, high=1, help="probability that a jump in one cell comes with one in another"
    )
    alpha: float = parameter(1.2, low=0, high=100, help="width of the linear models' bound, in standard deviations")

    def _new_state(self) -> State:
        return self._state_of(FIRST_CATEGORIES, draw_key(self.rng))

    def _state_of(self, categories: int, key: np.uint64) -> State:
        users, numbers = self.spec.user_dim, self.spec.product_dim
        interacts = (1 + users) * (1 + numbers) <= MAX_JOINT
        dim = (1 + users) * (1 + numbers) if interacts else 1 + users + numbers
        segments = _segments_beside(categories)
        return State(
            segments=new_segments(segments, users),
            categories=new_id_table(categories),
            binary=np.ones(numbers, np.bool_),
            cells=_new_cells(segments, categories),
            rivals=new_rivals(_models_beside(categories, dim), dim, HORIZON),
            loss=np.zeros(1),
            shown=np.zeros(categories, np.int64),
            decisions=np.zeros(1, np.int64),
            key=np.array([key]),
            updates=np.zeros(1, np.int64),
            interacts=interacts,
            hazard=self.hazard,
            due=self.due,
            sharpness=self.sharpness,
            alpha=self.alpha,
            together=self.together,
            sampling=True,
        )

    def _exploiting(self) -> State:
        state: State = self.state._replace(due=0.0, alpha=0.0, sampling=False)
        return state

    def _ridge(self) -> Any:
        return self.state.rivals.steady

    def _candidates(self, ids: IntArray, products: FloatArray) -> Candidates:
        binary = still_binary(self.state.binary, products)
        alike = not binary.any()
        keys, group_of = distinct_patterns(products, binary)
        columns = np.append(0, 1 + np.flatnonzero(~binary))
        members, starts = _members(group_of, len(keys))
        return Candidates(
            products=products,
            group_of=group_of,
            keys=keys,
            numbers=np.zeros(len(keys), np.int64),
            version=np.full(1, -1),
            binary=binary,
            columns=columns,
            mixed=np.zeros(len(keys), np.bool_) if alike else _mixed(products, group_of, columns, len(keys)),
            members=members,
            starts=starts,
            alike=alike,
        )

    def _make_room(self, candidates: Candidates, decisions: int) -> None:
        # For all candidates at once, whoever asks: how many segments there is room for follows from the capacity, and
        # must be the same in compiled runs as for single requests.
        state = self.state
        if not np.array_equal(candidates.binary, state.binary):
            state.binary[:] = candidates.binary
            self._forget_candidates()
        capacity = capacity_for(state.categories, candidates.keys, len(candidates.keys), MAX_CATEGORIES)
        if capacity > len(state.shown):
            self._grow(capacity)

    def _grow(self, categories: int) -> None:
        """Make room for more categories; of the segments those found first stay."""
        state = self.state
        segments, before = _segments_beside(categories), state.cells
        kept = min(segments, len(before.shown))
        cells = _new_cells(segments, categories)
        for name in ("filters", "shown", "learned"):
            old = getattr(before, name)[:kept]
            getattr(cells, name)[:kept, : old.shape[1]] = old
        cells.tally[:] = before.tally
        segments_kept = new_segments(segments, self.spec.user_dim)
        for name in ("patterns", "decided", "clock"):
            getattr(segments_kept, name)[:kept] = getattr(state.segments, name)[:kept]
        segments_kept.binary[:] = state.segments.binary
        segments_kept.found[0] = min(int(state.segments.found[0]), segments)
        shown = np.zeros(categories, np.int64)
        shown[: len(state.shown)] = state.shown
        rivals = grown_rivals(state.rivals, _models_beside(categories, state.rivals.steady.b.shape[1]))
        self.state = state._replace(
            segments=segments_kept,
            categories=grown(state.categories, categories),
            cells=cells,
            rivals=rivals,
            shown=shown,
        )

    def _shaped_as(self, saved: Mapping[str, Any]) -> State:
        categories = saved_length(saved, "shown")
        fits = FIRST_CATEGORIES <= categories <= MAX_CATEGORIES
        return self._state_of(categories, self.state.key[0]) if fits else self.state


def _segments_beside(categories: int) -> int:
    """Return how many segments there is room for beside so many categories."""
    return min(MAX_SEGMENTS, MAX_CELLS // categories)


def _models_beside(categories: int, dim: int) -> int:
    """Return how many linear models of `dim` features there is room for, one per category at most."""
    return min(categories, max(1, MAX_ENTRIES // (4 * dim**2)))


def _new_cells(segments: int, categories: int) -> Cells:
    """Return cells that have seen nothing."""
    filters = change_filter.new_cells(segments * categories, HYPOTHESES).reshape(segments, categories, HYPOTHESES, 3)
    return Cells(filters, np.zeros((segments, categories)), np.zeros((segments, categories)), np.zeros(2))


@jit
def _clear_cells(cells: Cells, shown: IntArray, g: int) -> None:
    """Let the cells of a category forget what they have seen; those that were never tried hold nothing."""
    shown[g] = 0
    for s in range(cells.shown.shape[0]):
        cells.shown[s, g] = 0.0
        if cells.learned[s, g] > 0.0:
            cells.tally[MEANS] -= change_filter.mean(cells.filters[s, g])
            cells.tally[TRIED] -= 1.0
            cells.learned[s, g] = 0.0
            change_filter.clear(cells.filters[s, g])


@jit
def _members(group_of: IntArray, groups: int) -> tuple[IntArray, IntArray]:
    """Return the products `(K,)` ordered by category, and where each category begins `(R + 1,)`."""
    starts = np.zeros(groups + 1, np.int64)
    for k in range(group_of.shape[0]):
        starts[group_of[k] + 1] += 1
    for r in range(groups):
        starts[r + 1] += starts[r]
    filled = starts[:-1].copy()
    members = np.empty(group_of.shape[0], np.int64)
    for k in range(group_of.shape[0]):
        members[filled[group_of[k]]] = k
        filled[group_of[k]] += 1
    return members, starts


@jit
def _mixed(products: FloatArray, group_of: IntArray, columns: IntArray, groups: int) -> BoolArray:
    """Return which categories `(R,)` hold products that differ in the `columns (1 + m,)` of their numbers."""
    mixed = np.zeros(groups, np.bool_)
    first = np.full(groups, -1)
    for k in range(group_of.shape[0]):
        r = group_of[k]
        if first[r] < 0:
            first[r] = k
        for column in columns[1:]:
            mixed[r] |= products[k, column - 1] != products[first[r], column - 1]
    return mixed
