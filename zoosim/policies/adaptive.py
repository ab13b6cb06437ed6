"""The policy to take when one name is asked for: it needs no tuning, and keeps up with a market that jumps.

It tells visitors apart by segment and products by category, which it finds by itself: the distinct patterns in the
columns that hold nothing but 0 and 1. Each (segment, category) cell has a Bayes filter of its click probability
(`zoosim.models.change_filter`). A decision is Thompson sampling over a segment's cells; but a category that was not
shown to it for long is shown as soon as what may have changed meanwhile is worth a visit. Beside the cells run linear
models over the visitor's features and the product's numbers (`zoosim.linear.rivals`), one for each category. They
choose within a category whose products have different numbers, and decide altogether where they predict clicks better
than the cells: features may hold what segments and categories do not.
"""

from typing import Any, ClassVar, NamedTuple

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.parameters import parameter
from zoosim.core.rng import beta, draw_key
from zoosim.core.types import BoolArray, FloatArray, IntArray
from zoosim.linear.joint import joint
from zoosim.linear.rivals import MARGIN, MEMORY, Rivals, bound, learn, log_loss, new_rivals
from zoosim.models import change_filter
from zoosim.policies.categories import Categories, new_categories, number
from zoosim.policies.kernel import DRAWS, Kernel, KernelPolicy, asked_key, first_of_each, with_one
from zoosim.policies.segments import Segments, enter, find, new_segments, shed

HYPOTHESES = 8
MAX_SEGMENTS, MAX_CELLS, MAX_ENTRIES = 256, 200_000, 16_000_000
"""Room for segments, for (segment, category) cells, and for the entries of all linear models' matrices."""

LEAST_CATEGORIES = 64
"""Room for categories that a visit's products do not have, but those of later ones may."""

PRIOR = 2.0
"""Weight, in visits, of what all cells have in common when a cell begins anew."""

MAX_JOINT = 100
"""Most features of a linear model over all products of a visitor's feature and a product's; else it adds them."""

HORIZON = 2_000.0
"""Visits after which an observation weighs 1/e in linear models that fade."""

MEANS, TRIED = 0, 1


class Cells(NamedTuple):
    """What is known of segments and categories; cell c = segment * categories + category, of C.

    `filters (C, H, 3)`; `shown (C,)` the segment's visit at which the category was shown last, 0 for never;
    `tally (2,)`: sum of the means of the cells that were tried, number of those.
    """

    filters: FloatArray
    shown: FloatArray
    tally: FloatArray


class Assortment(NamedTuple):
    """What there is to choose from: each product's category `group_of (K,)` for cells, `model_of (K,)` linear model.

    `numbers (K, 1 + d_p)`: 1, and what columns hold that are not binary; `mixed (G,)` whether a category's products
    differ in them; `interacts` tells how linear models join them with the visitor; `linear` whether there is room for
    such models.
    """

    group_of: IntArray
    model_of: IntArray
    numbers: FloatArray
    mixed: BoolArray
    interacts: bool
    linear: bool


class State(NamedTuple):
    """Segments, categories, cells, linear models, the recent `loss (1,)` of cells, and what there is to choose from.

    `seen (C,)` the visit at which each category was shown last, to anybody; `key (1,)` and `draws (1,)` number the
    random draws; `room` is that for segments; `hazard` and `due` are per category.
    """

    segments: Segments
    categories: Categories
    cells: Cells
    rivals: Rivals
    loss: FloatArray
    seen: IntArray
    assortment: Assortment
    key: np.ndarray
    draws: IntArray
    room: int
    hazard: float
    due: float
    sharpness: float
    alpha: float
    together: float


@jit
def _prior(tally: FloatArray) -> float:
    """Return the click probability that an untried cell is expected to have: the mean of the tried ones."""
    expected: float = (1.0 + tally[MEANS]) / (2.0 + tally[TRIED])
    return expected


@jit
def _due_group(cells: Cells, clock: FloatArray, s: int, firsts: IntArray, due: float) -> int:
    """Return the category that is most overdue for segment `s`, or -1."""
    groups = firsts.shape[0]
    means, unseen = np.empty(groups), np.zeros(groups)
    if s < 0:
        return -1
    for g in range(groups):
        c = s * groups + g
        means[g] = change_filter.mean(cells.filters[c]) if cells.shown[c] > 0.0 else _prior(cells.tally)
        unseen[g] = clock[s] + 1.0 - cells.shown[c]
    return _overdue(means, unseen, firsts, due)


@jit
def _overdue(means: FloatArray, unseen: FloatArray, firsts: IntArray, due: float) -> int:
    """Return the most overdue of G categories, or -1: `means (G,)`, `unseen (G,)` visits, `firsts (G,)` or -1.

    Unseen for v visits, it may have become better than the best one by chance due v; what that would be worth until it
    is found grows with v again, and must make up for one visit spent on it.
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
def _sampled_group(cells: Cells, s: int, firsts: IntArray, sharpness: float, key: np.uint64, i: int) -> int:
    """Return the category with the highest draw from its filter, each draw at least the mean.

    Thompson sampling, made optimistic (May, Korda, Lee & Leslie 2012): a good category is never drawn low.
    """
    chosen, top, j, prior = -1, -1.0, 0, PRIOR * _prior(cells.tally)
    for g in range(firsts.shape[0]):
        if firsts[g] >= 0:
            c = s * firsts.shape[0] + g
            if s >= 0 and cells.shown[c] > 0.0:
                draw, j = change_filter.sample(cells.filters[c], sharpness, key, i, j)
                draw = max(draw, change_filter.mean(cells.filters[c]))
            else:
                draw, j = beta(key, i, j, prior, PRIOR - prior)
            if draw > top:
                chosen, top = g, draw
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
def _best_product(state: State, user: FloatArray, available: BoolArray, firsts: IntArray, group: int) -> int:
    """Return the product of `group`, or of all with -1, with the highest bound of its linear model.

    Of products that do not differ in their numbers, the first of their category stands for all.
    """
    shop, rivals, best, top = state.assortment, state.rivals, -1, -np.inf
    for k in range(available.shape[0]):
        g = shop.group_of[k]
        asked = available[k] and (group < 0 or g == group) and (shop.mixed[g] or k == firsts[g])
        if asked:
            x = features_of(user, shop.numbers[k], shop.interacts)
            score = bound(rivals, shop.model_of[k], x, state.alpha)
            if score > top:
                best, top = k, score
    return best


@jit
def _product_of(state: State, user: FloatArray, available: BoolArray, firsts: IntArray, group: int) -> int:
    """Return the product that stands for a category: the first, or where they differ that of the highest bound."""
    shop = state.assortment
    if shop.linear and shop.mixed[group]:
        return _best_product(state, user, available, firsts, group)
    first: int = firsts[group]
    return first


@jit
def _linear_product(state: State, user: FloatArray, available: BoolArray, firsts: IntArray) -> int:
    """Return the product that the linear models choose; of a category that is overdue, if there is one."""
    shop, groups = state.assortment, firsts.shape[0]
    means, unseen = np.zeros(groups), np.zeros(groups)
    for g in range(groups):
        if firsts[g] >= 0:
            x = features_of(user, shop.numbers[firsts[g]], shop.interacts)
            means[g] = min(max(bound(state.rivals, shop.model_of[firsts[g]], x, 0.0), 0.0), 1.0)
            unseen[g] = state.rivals.visits[0] + 1 - state.seen[g]
    due = _overdue(means, unseen, firsts, state.due)
    return _best_product(state, user, available, firsts, due)


@jit
def _sure_product(state: State, s: int, user: FloatArray, available: BoolArray, firsts: IntArray) -> int:
    """Return the product that is chosen without chance, or -1 when a category is to be drawn."""
    alike = state.segments.found[0] <= 1 and not state.segments.binary.all()
    if state.assortment.linear and (alike or state.loss[0] > state.rivals.losses.min() + MARGIN):
        return _linear_product(state, user, available, firsts)
    group = _due_group(state.cells, state.segments.clock, s, firsts, state.due)
    return group if group < 0 else _product_of(state, user, available, firsts, group)


@jit
def _firsts(state: State, available: BoolArray) -> IntArray:
    return first_of_each(state.assortment.group_of, available, state.assortment.mixed.shape[0])


@jit
def _choose(state: State, user_id: int, user: FloatArray, available: BoolArray) -> int:
    firsts, s = _firsts(state, available), find(state.segments, user, state.room)
    action = _sure_product(state, s, user, available, firsts)
    if action < 0:
        state.draws[0] += 1
        group = _sampled_group(state.cells, s, firsts, state.sharpness, state.key[0], state.draws[0])
        action = _product_of(state, user, available, firsts, group)
    return action


@jit
def _probability(state: State, user_id: int, user: FloatArray, available: BoolArray, action: int) -> float:
    firsts, s = _firsts(state, available), find(state.segments, user, state.room)
    sure, group = _sure_product(state, s, user, available, firsts), state.assortment.group_of[action]
    if sure >= 0:
        return 1.0 if sure == action else 0.0
    if not available[action] or _product_of(state, user, available, firsts, group) != action:
        return 0.0
    key, hits = asked_key(state.key, state.draws), 1.0 / np.sum(firsts >= 0)
    for i in range(DRAWS):
        hits += _sampled_group(state.cells, s, firsts, state.sharpness, key, i) == group
    chance: float = hits / (DRAWS + 1)
    return chance


@jit
def _learn(state: State, user_id: int, user: FloatArray, action: int, reward: float) -> None:
    cells, shop, g = state.cells, state.assortment, state.assortment.group_of[action]
    s, groups = _enter(state, user), shop.mixed.shape[0]
    c, clock = s * groups + g, state.segments.clock[s]
    prior, tried, cell = _prior(cells.tally), cells.shown[c] > 0.0, cells.filters[c]
    if not tried:
        cell[0, change_filter.A], cell[0, change_filter.B] = PRIOR * prior, PRIOR * (1.0 - prior)
    before = change_filter.mean(cell)
    kept = (1.0 - state.hazard) ** (clock - cells.shown[c]) if tried else 1.0
    state.loss[0] = MEMORY * state.loss[0] + log_loss(kept * before + (1.0 - kept) * prior, reward)
    if shop.linear:
        x = features_of(user, shop.numbers[action], shop.interacts)
        learn(state.rivals, shop.model_of[action], x, np.flatnonzero(x), reward)
        state.seen[g] = state.rivals.visits[0]
    change_filter.loosen(cell, PRIOR * prior, PRIOR * (1.0 - prior), kept)
    if change_filter.observe(cell, reward):
        _suspect_others(cells, c, groups, prior, state.together)
    cells.shown[c] = clock
    cells.tally[MEANS] += change_filter.mean(cell) - (before if tried else 0.0)
    cells.tally[TRIED] += 0.0 if tried else 1.0


@jit
def _suspect_others(cells: Cells, c: int, groups: int, prior: float, chance: float) -> None:
    """Where one cell of a segment has jumped, others may have: shocks come to several at once."""
    first = c - c % groups
    for other in range(first, first + groups):
        if other != c and cells.shown[other] > 0.0:
            before = change_filter.mean(cells.filters[other])
            change_filter.loosen(cells.filters[other], PRIOR * prior, PRIOR * (1.0 - prior), 1.0 - chance)
            cells.tally[MEANS] += change_filter.mean(cells.filters[other]) - before


@jit
def _enter(state: State, user: FloatArray) -> int:
    """Return the segment of a visitor with its cells cleared if it is new; count the visit."""
    cells, groups = state.cells, state.assortment.mixed.shape[0]
    if shed(state.segments, user):
        cells.tally[:] = 0.0
    s = enter(state.segments, user, state.room)
    if state.segments.clock[s] == 1.0:
        for c in range(s * groups, (s + 1) * groups):
            cells.shown[c] = 0.0
            change_filter.clear(cells.filters[c])
    return s


class Adaptive(KernelPolicy):
    """Find segments and categories by itself, follow each cell through jumps, explore where it may pay (recommended).

    Rewards lie between 0 and 1. Propensities come from 255 posterior draws.
    """

    name = "adaptive"
    kernel = Kernel("adaptive", _choose, _learn, _probability)
    learned = ("segments", "categories", "cells", "rivals", "loss", "seen", "key", "draws")
    rewards: ClassVar[tuple[float, float]] = (0.0, 1.0)
    hazard: float = parameter(5e-4, low=0, high=0.1, help="chance a visit that one of a segment's cells jumps")
    due: float = parameter(1.5e-4, low=0, high=0.1, help="how soon what was not shown for long is shown again")
    sharpness: float = parameter(2.0, low=0.1, high=100, help="how much narrower than the posterior it samples")
    together: float = parameter(0.1, low=0, high=1, help="chance that a jump in one cell comes with one in another")
    alpha: float = parameter(1.2, low=0, high=100, help="width of the linear models' bound, in standard deviations")

    def _new_state(self) -> State:
        k, users, numbers = self.spec.n_products, self.spec.user_dim, self.spec.product_dim
        groups = max(k, LEAST_CATEGORIES)
        room = min(MAX_SEGMENTS * groups, max(MAX_CELLS, groups))
        interacts = (1 + users) * (1 + numbers) <= MAX_JOINT
        dim = (1 + users) * (1 + numbers) if interacts else 1 + users + numbers
        none, nothing = np.zeros(k, np.int64), np.zeros((k, 1 + numbers))
        return State(
            segments=new_segments(MAX_SEGMENTS, users),
            categories=new_categories(groups, numbers),
            cells=Cells(change_filter.new_cells(room, HYPOTHESES), np.zeros(room), np.zeros(2)),
            rivals=new_rivals(min(groups, max(1, MAX_ENTRIES // (8 * dim**2))), dim, HORIZON),
            loss=np.zeros(1),
            seen=np.zeros(groups, np.int64),
            assortment=Assortment(none, none, nothing, np.zeros(1, np.bool_), interacts, False),
            key=np.array([draw_key(self.rng)]),
            draws=np.zeros(1, np.int64),
            room=1,
            hazard=self.hazard,
            due=self.due,
            sharpness=self.sharpness,
            alpha=self.alpha,
            together=self.together,
        )

    def _with_products(self, products: FloatArray) -> Any:
        state, before = self.state, int(self.state.categories.found[0])
        group_of, anew = number(state.categories, products)
        group_of[group_of < 0] = len(state.categories.patterns) - 1
        groups = int(state.categories.found[0])
        room = min(MAX_SEGMENTS, len(state.cells.shown) // groups)
        if anew or before != groups:
            self._lay_out(0 if anew else before, groups, room)
        state.segments.found[0] = min(int(state.segments.found[0]), room)
        return state._replace(
            assortment=self._assort(products, group_of, groups),
            room=room,
            hazard=self.hazard / groups,
            due=self.due / groups,
        )

    def _ridge(self) -> Any:
        return self.state.rivals.steady

    def _assort(self, products: FloatArray, group_of: IntArray, groups: int) -> Assortment:
        """Return what there is to choose from; without binary columns one linear model serves all products."""
        state, binary = self.state, self.state.categories.binary
        model_of = group_of if binary.any() else np.zeros_like(group_of)
        numbers = np.hstack([np.ones((len(products), 1)), np.where(binary, 0.0, products)])
        mixed = np.zeros(groups, np.bool_)
        for g in np.unique(group_of):
            own = numbers[group_of == g]
            mixed[g] = (own != own[0]).any()
        linear = bool(model_of.max() < len(state.rivals.steady.b))
        return Assortment(group_of, model_of, numbers, mixed, state.assortment.interacts, linear)

    def _lay_out(self, before: int, groups: int, room: int) -> None:
        """Move the cells of `before` categories to where they belong among `groups`; of none, all is forgotten."""
        segments, cells, found = self.state.segments, self.state.cells, int(self.state.segments.found[0])
        kept = min(found, room) if before else 0
        segments.found[0] = kept
        filters, shown = cells.filters[: kept * before].copy(), cells.shown[: kept * before].copy()
        cells.filters[:], cells.shown[:] = change_filter.new_cells(*cells.filters.shape[:2]), 0.0
        if kept:
            size = kept * groups
            cells.filters[:size].reshape(kept, groups, *filters.shape[1:])[:, :before] = filters.reshape(
                kept, before, *filters.shape[1:]
            )
            cells.shown[:size].reshape(kept, groups)[:, :before] = shown.reshape(kept, before)
        else:
            segments.clock[:], cells.tally[:] = 0.0, 0.0
            if before:
                self.state.loss[:] = 0.0
