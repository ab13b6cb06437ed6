"""The policy to take when one name is asked for: it needs no tuning, and keeps up with a market that jumps.

It tells visitors apart by segment and products by category, which it finds by itself: the distinct patterns in the
columns that hold nothing but 0 and 1. Each (segment, category) cell has a Bayes filter of its click probability
(`zoosim.models.change_filter`). A decision is Thompson sampling over a segment's cells; but a category that was not
shown to it for long is shown as soon as what may have changed meanwhile is worth a visit. Beside the cells runs a
LinUCB on the visitor's features for each category, and decides where it predicts clicks better: features may hold what
segments do not.
"""

from typing import Any, ClassVar, NamedTuple

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.parameters import parameter
from zoosim.core.rng import beta, draw_key
from zoosim.core.types import BoolArray, FloatArray, IntArray
from zoosim.linear.dense import dot, nonzeros
from zoosim.linear.ridge import Ridge, new_ridge, observe, variance
from zoosim.models import change_filter
from zoosim.policies.categories import Categories, new_categories, number
from zoosim.policies.kernel import DRAWS, Kernel, KernelPolicy, asked_key, first_of_each, with_one
from zoosim.policies.segments import Segments, enter, find, new_segments, shed

HYPOTHESES = 8
MAX_SEGMENTS, MAX_CELLS, MAX_ENTRIES = 256, 200_000, 4_000_000
"""Room for segments, for (segment, category) cells, and for the entries of all linear models' matrices."""

LEAST_CATEGORIES = 64
"""Room for categories that a visit's products do not have, but those of later ones may."""

PRIOR = 2.0
"""Weight, in visits, of what all cells have in common when a cell begins anew."""

MARGIN, MEMORY = 5.0, 0.999
"""How much better, in nats over about 1,000 visits, the linear models must predict to decide."""

MEANS, TRIED = 0, 1


class Cells(NamedTuple):
    """What is known of segments and categories; cell c = segment * categories + category, of C.

    `filters (C, H, 3)`; `shown (C,)` the segment's visit at which the category was shown last, 0 for never;
    `tally (2,)`: sum of the means of the cells that were tried, number of those.
    """

    filters: FloatArray
    shown: FloatArray
    tally: FloatArray


class State(NamedTuple):
    """Segments, categories, cells; a ridge model a category over [1, user]; `losses (2,)` of both; `group_of (K,)`.

    `key (1,)` and `draws (1,)` number the random draws; `room` is that for segments, `groups` counts the categories;
    `linear` tells whether each category has its model; `hazard` and `due` are per category.
    """

    segments: Segments
    categories: Categories
    cells: Cells
    ridge: Ridge
    losses: FloatArray
    group_of: IntArray
    key: np.ndarray
    draws: IntArray
    room: int
    groups: int
    linear: bool
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
    """Return the category that is most overdue for segment `s`, or -1.

    Unseen for v visits, it may have become better than the best one by chance due v; what that would be worth until it
    is found grows with v again, and must make up for one visit spent on it.
    """
    groups = firsts.shape[0]
    means, best = np.empty(groups), 0.0
    for g in range(groups):
        c = s * groups + g
        tried = s >= 0 and cells.shown[c] > 0.0
        means[g] = change_filter.mean(cells.filters[c]) if tried else _prior(cells.tally)
        if firsts[g] >= 0:
            best = max(best, means[g])
    chosen, top = -1, 0.0
    for g in range(groups):
        if s >= 0 and firsts[g] >= 0 and means[g] < best:
            unseen = clock[s] + 1.0 - cells.shown[s * groups + g]
            over = 0.25 * due * ((1.0 - best) * unseen) ** 2 - (best - means[g])
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
def _linear_group(ridge: Ridge, user: FloatArray, firsts: IntArray, alpha: float) -> int:
    """Return the category with the highest upper confidence bound of its linear model."""
    x = with_one(user)
    nonzero, chosen, top = nonzeros(x), -1, -np.inf
    for g in range(firsts.shape[0]):
        if firsts[g] >= 0:
            score = dot(x, ridge.theta[g]) + alpha * np.sqrt(variance(ridge, g, x, nonzero))
            if score > top:
                chosen, top = g, score
    return chosen


@jit
def _sure_group(state: State, s: int, user: FloatArray, firsts: IntArray) -> int:
    """Return the category that is chosen without chance, or -1 when it is to be drawn."""
    losses, cells = state.losses, state.cells
    alike = state.segments.found[0] <= 1 and not state.segments.binary.all()
    if state.linear and (alike or losses[0] > losses[1] + MARGIN):
        return _linear_group(state.ridge, user, firsts, state.alpha)
    return _due_group(cells, state.segments.clock, s, firsts, state.due)


@jit
def _choose(state: State, user_id: int, user: FloatArray, available: BoolArray) -> int:
    firsts, s = first_of_each(state.group_of, available, state.groups), find(state.segments, user, state.room)
    group = _sure_group(state, s, user, firsts)
    if group < 0:
        state.draws[0] += 1
        group = _sampled_group(state.cells, s, firsts, state.sharpness, state.key[0], state.draws[0])
    action: int = firsts[group]
    return action


@jit
def _probability(state: State, user_id: int, user: FloatArray, available: BoolArray, action: int) -> float:
    firsts, s = first_of_each(state.group_of, available, state.groups), find(state.segments, user, state.room)
    group = _sure_group(state, s, user, firsts)
    if group >= 0:
        return 1.0 if firsts[group] == action else 0.0
    if firsts[state.group_of[action]] != action:
        return 0.0
    key, hits = asked_key(state.key, state.draws), 1.0 / np.sum(firsts >= 0)
    for i in range(DRAWS):
        hits += firsts[_sampled_group(state.cells, s, firsts, state.sharpness, key, i)] == action
    chance: float = hits / (DRAWS + 1)
    return chance


@jit
def _learn(state: State, user_id: int, user: FloatArray, action: int, reward: float) -> None:
    cells, losses, g = state.cells, state.losses, state.group_of[action]
    s, x = _enter(state, user), with_one(user)
    c, clock = s * state.groups + g, state.segments.clock[s]
    prior, tried, cell = _prior(cells.tally), cells.shown[c] > 0.0, cells.filters[c]
    if not tried:
        cell[0, change_filter.A], cell[0, change_filter.B] = PRIOR * prior, PRIOR * (1.0 - prior)
    before = change_filter.mean(cell)
    kept = (1.0 - state.hazard) ** (clock - cells.shown[c]) if tried else 1.0
    losses *= MEMORY
    losses[0] += _log_loss(kept * before + (1.0 - kept) * prior, reward)
    if state.linear:
        losses[1] += _log_loss(dot(x, state.ridge.theta[g]), reward)
        observe(state.ridge, g, x, nonzeros(x), reward)
    change_filter.loosen(cell, PRIOR * prior, PRIOR * (1.0 - prior), kept)
    if change_filter.observe(cell, reward):
        _suspect_others(cells, c, state.groups, prior, state.together)
    cells.shown[c] = clock
    cells.tally[MEANS] += change_filter.mean(cell) - (before if tried else 0.0)
    cells.tally[TRIED] += 0.0 if tried else 1.0


@jit
def _suspect_others(cells: Cells, c: int, groups: int, prior: float, chance: float) -> None:
    """Where one cell of a segment has jumped, others may have: shocks come to several at once."""
    first = c - c % groups
    for other in range(first, first + groups):
        if other != c and cells.shown[other] > 0.0:
            change_filter.loosen(cells.filters[other], PRIOR * prior, PRIOR * (1.0 - prior), 1.0 - chance)


@jit
def _log_loss(chance: float, reward: float) -> float:
    chance = min(max(chance, 0.01), 0.99)
    loss: float = -reward * np.log(chance) - (1.0 - reward) * np.log(1.0 - chance)
    return loss


@jit
def _enter(state: State, user: FloatArray) -> int:
    """Return the segment of a visitor with its cells cleared if it is new; count the visit."""
    cells, groups = state.cells, state.groups
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
    learned = ("segments", "categories", "cells", "ridge", "losses", "key", "draws")
    rewards: ClassVar[tuple[float, float]] = (0.0, 1.0)
    hazard: float = parameter(5e-4, low=0, high=0.1, help="chance a visit that one of a segment's cells jumps")
    due: float = parameter(1.5e-4, low=0, high=0.1, help="how soon what was not shown for long is shown again")
    sharpness: float = parameter(2.0, low=0.1, high=100, help="how much narrower than the posterior it samples")
    together: float = parameter(0.1, low=0, high=1, help="chance that a jump in one cell comes with one in another")
    alpha: float = parameter(0.3, low=0, high=100, help="width of the linear models' confidence bound")

    def _new_state(self) -> State:
        k, dim = self.spec.n_products, self.spec.user_dim
        groups = max(k, LEAST_CATEGORIES)
        room = min(MAX_SEGMENTS * groups, max(MAX_CELLS, groups))
        cells = Cells(
            filters=change_filter.new_cells(room, HYPOTHESES),
            shown=np.zeros(room),
            tally=np.zeros(2),
        )
        return State(
            segments=new_segments(MAX_SEGMENTS, dim),
            categories=new_categories(groups, self.spec.product_dim),
            cells=cells,
            ridge=new_ridge(min(groups, max(1, MAX_ENTRIES // (dim + 1) ** 2)), dim + 1),
            losses=np.zeros(2),
            group_of=np.zeros(k, np.int64),
            key=np.array([draw_key(self.rng)]),
            draws=np.zeros(1, np.int64),
            room=1,
            groups=1,
            linear=False,
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
        return state._replace(
            group_of=group_of,
            room=room,
            groups=groups,
            linear=groups <= len(state.ridge.b),
            hazard=self.hazard / groups,
            due=self.due / groups,
        )

    def _lay_out(self, before: int, groups: int, room: int) -> None:
        """Move the cells of `before` categories to where they belong among `groups`; of none, all is forgotten."""
        segments, cells, found = self.state.segments, self.state.cells, int(self.state.segments.found[0])
        segments.found[0] = min(found, room) if before else 0
        kept = int(segments.found[0])
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
                self.state.losses[:] = 0.0
