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

from zoosim.core.id_table import use_slot
from zoosim.core.jit import jit
from zoosim.core.parameters import parameter
from zoosim.core.rng import beta, draw_key
from zoosim.core.types import BoolArray, FloatArray, IntArray
from zoosim.linear.joint import joint
from zoosim.linear.rivals import MARGIN, MEMORY, Rivals, bound, clear_rivals, grown_rivals, learn, log_loss, new_rivals
from zoosim.models import change_filter
from zoosim.policies.choice import DRAWS, draw_number, first_of_each, posterior_key, with_one
from zoosim.policies.kernel import Kernel, KernelPolicy, saved_length
from zoosim.policies.products.categories import FIRST_CATEGORIES, Categories, count, new_categories, number
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

    `shown (G,)` the decision that showed each category last, to anybody, of `decisions (1,)` so far; `key (1,)` of the
    posterior draws, and `updates (1,)`, the rewards learned from. Linear models join the visitor's features with the
    product's numbers where `interacts`. Parameters follow; `sampling` is False where cells go by their means.
    """

    segments: Segments
    categories: Categories
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
    """Each product's category `group_of (K,)` for cells, and its linear model `model_of (K,)`.

    `numbers (K, 1 + d_p)`: 1, and what columns hold that are not binary; `mixed (G,)` whether a category's products
    differ in them; `linear` whether there is room for their linear models.
    """

    group_of: IntArray
    model_of: IntArray
    numbers: FloatArray
    mixed: BoolArray
    linear: bool


@jit
def _per_category(state: State, chance: float) -> float:
    """Return the share of one category in a chance that is given for all of a segment's."""
    share: float = chance / max(state.categories.table.counts[0] - 1, 1)
    return share


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
def _overdue_category(state: State, s: int, firsts: IntArray) -> int:
    """Return the category that is most overdue for segment `s`, or -1."""
    cells, groups = state.cells, firsts.shape[0]
    means, unseen = np.empty(groups), np.zeros(groups)
    if s < 0:
        return -1
    for g in range(groups):
        tried = cells.learned[s, g] > 0.0
        means[g] = change_filter.mean(cells.filters[s, g]) if tried else _prior(cells.tally)
        unseen[g] = state.segments.decided[s] + 1.0 - cells.shown[s, g]
    return _most_overdue(means, unseen, firsts, _per_category(state, state.due))


@jit
def _most_overdue(means: FloatArray, unseen: FloatArray, firsts: IntArray, due: float) -> int:
    """Return the most overdue of G categories, or -1: `means (G,)`, `unseen (G,)` visits, `firsts (G,)` or -1.

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
def _sampled_category(state: State, s: int, firsts: IntArray, key: np.uint64, i: int) -> int:
    """Return the category with the highest draw number i from its filter, each draw at least the mean.

    Thompson sampling, made optimistic (May, Korda, Lee & Leslie 2012): a good category is never drawn low. Without
    sampling, the category of the highest mean.
    """
    cells = state.cells
    expected = _prior(cells.tally)
    prior = PRIOR * expected
    chosen, top, j = -1, -1.0, 0
    for g in range(firsts.shape[0]):
        if firsts[g] >= 0:
            tried = s >= 0 and cells.learned[s, g] > 0.0
            score = change_filter.mean(cells.filters[s, g]) if tried else expected
            if state.sampling and tried:
                draw, j = change_filter.sample(cells.filters[s, g], state.sharpness, key, i, j)
                score = max(draw, score)
            elif state.sampling:
                score, j = beta(key, i, j, prior, PRIOR - prior)
            if score > top:
                chosen, top = g, score
    return chosen


@jit
def features_of(user: FloatArray, numbers: FloatArray, interacts: bool) -> FloatArray:
    """Return [1, user] (x) [1, numbers], or where they do not interact [1, user, numbers]: `numbers (1 + d_p,)`."""
    if not interacts:
        return np.concatenate((np.ones(1), user, numbers[1:]))
    x = joint(with_one(user), numbers)
    x[0] = 1.0
    return x


@jit
def _best_product(
    state: State, candidates: Candidates, user: FloatArray, available: BoolArray, firsts: IntArray, group: int
) -> int:
    """Return the product of `group`, or of all with -1, with the highest bound of its linear model.

    Of products that do not differ in their numbers, the first of their category stands for all.
    """
    best, top = -1, -np.inf
    for k in range(available.shape[0]):
        g = candidates.group_of[k]
        asked = available[k] and (group < 0 or g == group) and (candidates.mixed[g] or k == firsts[g])
        if asked:
            x = features_of(user, candidates.numbers[k], state.interacts)
            score = bound(state.rivals, candidates.model_of[k], x, state.alpha)
            if score > top:
                best, top = k, score
    return best


@jit
def _product_of(
    state: State, candidates: Candidates, user: FloatArray, available: BoolArray, firsts: IntArray, group: int
) -> int:
    """Return the product that stands for a category: the first, or where they differ that of the highest bound."""
    if candidates.linear and candidates.mixed[group]:
        return _best_product(state, candidates, user, available, firsts, group)
    first: int = firsts[group]
    return first


@jit
def _linear_product(
    state: State, candidates: Candidates, user: FloatArray, available: BoolArray, firsts: IntArray
) -> int:
    """Return the product that the linear models choose; of a category that is overdue, if there is one."""
    groups = firsts.shape[0]
    means, unseen = np.zeros(groups), np.zeros(groups)
    for g in range(groups):
        if firsts[g] >= 0:
            first = firsts[g]
            x = features_of(user, candidates.numbers[first], state.interacts)
            means[g] = min(max(bound(state.rivals, candidates.model_of[first], x, 0.0), 0.0), 1.0)
            unseen[g] = state.decisions[0] + 1 - state.shown[g]
    overdue = _most_overdue(means, unseen, firsts, _per_category(state, state.due))
    return _best_product(state, candidates, user, available, firsts, overdue)


@jit
def _sure_product(
    state: State, candidates: Candidates, s: int, user: FloatArray, available: BoolArray, firsts: IntArray
) -> int:
    """Return the product that is chosen without chance, or -1 when a category is to be drawn."""
    alike = state.segments.found[0] <= 1 and not state.segments.binary.all()
    if candidates.linear and (alike or state.loss[0] > state.rivals.losses.min() + MARGIN):
        return _linear_product(state, candidates, user, available, firsts)
    group = _overdue_category(state, s, firsts)
    return group if group < 0 else _product_of(state, candidates, user, available, firsts, group)


@jit
def _firsts(candidates: Candidates, available: BoolArray) -> IntArray:
    return first_of_each(candidates.group_of, available, candidates.mixed.shape[0])


@jit
def _choose(
    state: State, candidates: Candidates, user_id: int, user: FloatArray, available: BoolArray, draw: float
) -> int:
    firsts = _firsts(candidates, available)
    s = find(state.segments, user, _room(state))
    action = _sure_product(state, candidates, s, user, available, firsts)
    if action < 0:
        key = posterior_key(state.key, state.updates)
        group = _sampled_category(state, s, firsts, key, draw_number(draw))
        action = _product_of(state, candidates, user, available, firsts, group)
    return action


@jit
def _distribution(
    state: State, candidates: Candidates, user_id: int, user: FloatArray, available: BoolArray, out: FloatArray
) -> None:
    firsts = _firsts(candidates, available)
    s = find(state.segments, user, _room(state))
    sure = _sure_product(state, candidates, s, user, available, firsts)
    if sure >= 0:
        out[sure] = 1.0
        return
    key = posterior_key(state.key, state.updates)
    wins = np.zeros(firsts.shape[0])
    for i in range(DRAWS):
        wins[_sampled_category(state, s, firsts, key, i)] += 1.0 / DRAWS
    for group in range(wins.shape[0]):
        if wins[group] > 0.0:
            out[_product_of(state, candidates, user, available, firsts, group)] += wins[group]


@jit
def _decided(state: State, candidates: Candidates, user_id: int, user: FloatArray, action: int) -> None:
    s, g = _segment_of(state, user), candidates.group_of[action]
    state.segments.decided[s] += 1.0
    state.cells.shown[s, g] = state.segments.decided[s]
    state.decisions[0] += 1
    state.shown[g] = state.decisions[0]
    use_slot(state.categories.table, g)


@jit
def _learn(state: State, candidates: Candidates, user_id: int, user: FloatArray, action: int, reward: float) -> None:
    cells, g = state.cells, candidates.group_of[action]
    s = _segment_of(state, user)
    state.segments.clock[s] += 1.0
    clock = state.segments.clock[s]
    prior, tried, cell = _prior(cells.tally), cells.learned[s, g] > 0.0, cells.filters[s, g]
    if not tried:
        cell[0, change_filter.A] = PRIOR * prior
        cell[0, change_filter.B] = PRIOR * (1.0 - prior)
    before = change_filter.mean(cell)
    kept = (1.0 - _per_category(state, state.hazard)) ** (clock - cells.learned[s, g]) if tried else 1.0
    state.loss[0] = MEMORY * state.loss[0] + log_loss(kept * before + (1.0 - kept) * prior, reward)
    if candidates.linear:
        x = features_of(user, candidates.numbers[action], state.interacts)
        learn(state.rivals, candidates.model_of[action], x, np.flatnonzero(x), reward)
    change_filter.loosen(cell, PRIOR * prior, PRIOR * (1.0 - prior), kept)
    if change_filter.observe(cell, reward):
        _suspect_others(cells, s, g, prior, state.together)
    cells.learned[s, g] = clock
    cells.tally[MEANS] += change_filter.mean(cell) - (before if tried else 0.0)
    cells.tally[TRIED] += 0.0 if tried else 1.0
    state.updates[0] += 1


@jit
def _suspect_others(cells: Cells, s: int, g: int, prior: float, chance: float) -> None:
    """Where one cell of a segment has jumped, others may have: shocks come to several at once."""
    for other in range(cells.shown.shape[1]):
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


class Adaptive(KernelPolicy):
    """Find segments and categories by itself, follow each cell through jumps, explore where it may pay (recommended).

    Rewards lie between 0 and 1. There are at most 256 segments, of which the last takes all further visitors, and 2,048
    categories, of which the one that was shown longest ago makes room for a new one.
    """

    name = "adaptive"
    kernel = Kernel("adaptive", _choose, _distribution, _learn, _decided)
    learned = ("segments", "categories", "cells", "rivals", "loss", "shown", "decisions", "key", "updates")
    rewards: ClassVar[tuple[float, float]] = (0.0, 1.0)
    enters_candidates = True
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
            categories=new_categories(categories, numbers),
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
        before = count(self.state.categories)
        categories, group_of, new, anew = number(self.state.categories, products, MAX_CATEGORIES)
        if len(categories.table.ids) > len(self.state.shown):
            self._grow(len(categories.table.ids))
        self.state = self.state._replace(categories=categories)
        self._clear_categories(np.arange(len(self.state.shown)) if anew else new, anew)
        if anew or count(categories) != before or len(new):
            self._forget_candidates()
        return self._describe(products, group_of)

    def _describe(self, products: FloatArray, group_of: IntArray) -> Candidates:
        """Return what there is to choose from; without binary columns one linear model serves all products."""
        binary = self.state.categories.binary
        model_of = group_of if binary.any() else np.zeros_like(group_of)
        numbers = np.hstack([np.ones((len(products), 1)), np.where(binary, 0.0, products)])
        mixed = np.zeros(count(self.state.categories), np.bool_)
        _find_mixed(group_of, numbers, mixed)
        linear = bool(model_of.max() < len(self.state.rivals.steady.b))
        return Candidates(group_of, model_of, numbers, mixed, linear)

    def _clear_categories(self, numbers: IntArray, anew: bool) -> None:
        """Forget categories that lost their numbers, or with `anew` all that was learned of any."""
        cells = self.state.cells
        if anew:
            self.state.segments.found[0] = 0
            self.state.segments.decided[:] = 0.0
            self.state.segments.clock[:] = 0.0
            cells.tally[:] = 0.0
            return
        _clear_cells(cells, self.state.shown, numbers)
        if self.state.categories.binary.any():
            for g in numbers[numbers < len(self.state.rivals.steady.b)]:
                clear_rivals(self.state.rivals, int(g))

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
        self.state = state._replace(segments=segments_kept, cells=cells, rivals=rivals, shown=shown)

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
def _clear_cells(cells: Cells, shown: IntArray, numbers: IntArray) -> None:
    """Let the cells of categories forget what they have seen; those that were never tried hold nothing."""
    for g in numbers:
        shown[g] = 0
        for s in range(cells.shown.shape[0]):
            cells.shown[s, g] = 0.0
            if cells.learned[s, g] > 0.0:
                cells.tally[MEANS] -= change_filter.mean(cells.filters[s, g])
                cells.tally[TRIED] -= 1.0
                cells.learned[s, g] = 0.0
                change_filter.clear(cells.filters[s, g])


@jit
def _find_mixed(group_of: IntArray, numbers: FloatArray, mixed: BoolArray) -> None:
    """Mark in `mixed (G,)` the categories whose products differ in their `numbers (K, m)`."""
    first = np.full(mixed.shape[0], -1)
    for k in range(group_of.shape[0]):
        g = group_of[k]
        if first[g] < 0:
            first[g] = k
        elif not mixed[g]:
            for i in range(numbers.shape[1]):
                mixed[g] |= numbers[k, i] != numbers[first[g], i]
