"""A model of visitors who come back, learned from their decisions, and the values that follow from it by planning.

States are tuples of parts: groups of features of which exactly one is 1, such as a persona, the category clicked last,
or a level. Three logistic regressions say how likely a click is in a state on each kind of product, with variances that
the data choose (`zoosim.models.glm`), from the decisions since it changed (`zoosim.models.changes`), how likely a visit
ends where a decision leaves a visitor, and how likely the visitor then comes back; each has an effect per value of a
part, and a trend over the part's values, so that what grows with a level is learned from a few of them. How a click
moves each part is counted. Values are those of the best policy in this model, by value iteration (Bellman 1957), or in
one that is drawn from the posterior (Osband, Russo & Van Roy 2013): to plan by that explores over visits what single
random decisions never reach.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy import special

from zoosim.core.types import BoolArray, FloatArray, IntArray
from zoosim.linear.logistic import Logistic, draw_weights, new_logistic, newton_step
from zoosim.models.changes import seen_before_change
from zoosim.models.glm import FittedGLM, Response, fit_glm
from zoosim.models.hierarchy import make_design

STAYS, RETURNS, GOES = range(3)
"""What follows a decision: another one in the same visit, or in the next one, or none ever."""

ROUNDS = 8
"""Passes over the rows of a regression."""


class Prior(NamedTuple):
    """Prior standard deviations of effects, in logits: of the level, of the trend of a part, of each of its values."""

    level: float
    trend: float
    value: float


ENDS, COMES = Prior(3.0, 0.3, 0.05), Prior(3.0, 1.0, 0.1)
"""Of whether a visit ends, and whether the visitor then comes back. Few leave for good: too few to choose these by."""

MOST_CHANGES = 4
"""How often a model is fitted anew, at most, without the decisions of chances that have changed since."""

MOST_SWEEPS = 3_000
SAME_POLICY = 20
"""Sweeps of the best policy so far between two that look for a better one."""

SETTLED = 1e-4
"""Change of values, in clicks, at which they are settled."""

MOST_ALIVE = 0.998
"""The most likely that a visitor's life goes on after a decision, so that values are finite."""

MOST_STATES = 100_000
"""The most states that are planned over; of more, visitors are taken to be all alike."""


class Decisions(NamedTuple):
    """Decisions of visitors, the oldest first: features `before (n, d)` and `after (n, d)`, and what came of them.

    The `kinds (n,)` that were shown, whether they were `clicked (n,)`, and what `follows (n,)`: STAYS, RETURNS or GOES.
    `after` means nothing where a visitor GOES.
    """

    before: FloatArray
    after: FloatArray
    kinds: IntArray
    clicked: BoolArray
    follows: IntArray


def find_parts(rows: FloatArray) -> IntArray:
    """Return where the groups of features `(n, d)` begin of which exactly one is 1 in each row, and d: `(B + 1,)`.

    A feature that was never 1 belongs to the group before it. Features of another kind, and too many states, make one
    group: no feature is told apart then, and the result is empty.
    """
    none = np.zeros(0, np.int64)
    counts = (rows == 1.0).sum(axis=1)
    if not len(rows) or counts[0] == 0 or (counts != counts[0]).any() or ((rows != 0.0) & (rows != 1.0)).any():
        return none
    # Column b is where each row has its b-th 1.
    places = np.nonzero(rows)[1].reshape(len(rows), -1)
    first = places.min(axis=0)
    if (places.max(axis=0)[:-1] >= first[1:]).any():
        return none
    starts = np.concatenate([[0], first[1:], [rows.shape[1]]])
    return starts if np.prod(np.diff(starts).astype(float)) <= MOST_STATES else none


def sizes_of(starts: IntArray) -> tuple[int, ...]:
    """Return how many values each part has; one part of one value where no feature is told apart."""
    return tuple(int(size) for size in np.diff(starts)) or (1,)


def values_of_parts(rows: FloatArray, starts: IntArray) -> IntArray:
    """Return the value of each part `(n, B)`; -1 in rows where a part has no 1, or more than one."""
    if not len(starts):
        return np.zeros((len(rows), 1), np.int64)
    values = []
    for start, stop in pairwise(starts):
        part = rows[:, start:stop]
        is_one = (part == 1.0).sum(axis=1) == 1
        values.append(np.where(is_one, part.argmax(axis=1), -1))
    return np.stack(values, axis=1)


class Plan(NamedTuple):
    """The clicks of a visitor from each state on, `(states, K)`, by the kind that is shown, if the best follows.

    `expected` is by the most likely model; `drawn` by one in which whether visitors end their visits and come back is
    drawn from the posterior. `kept (n,)` are the decisions that they are made of: those of chances of a click that have
    not changed since.
    """

    expected: FloatArray
    drawn: FloatArray
    kept: BoolArray


def make_plan(decisions: Decisions, starts: IntArray, products: FloatArray, *, rng: np.random.Generator) -> Plan:
    """Return the values of the best policies in two models.

    Args:
        decisions: What was seen.
        starts: Where the parts begin.
        products: Features of each kind `(K, d_p)`.
        rng: Draws the second model.
    """
    sizes = sizes_of(starts)
    states = all_states(sizes)
    clicks, kept = _clicks_since_changes(decisions, starts, states, products)
    decisions = _some(decisions, kept)
    moves = learn_moves(decisions, starts, len(products))
    stays = decisions.follows == STAYS
    returns = decisions.follows == RETURNS
    ends = _chances_of(moves.left, ~stays, states, sizes, ENDS, rng=rng)
    comes = _chances_of(moves.left[~stays], returns[~stays], states, sizes, COMES, rng=rng)
    expected, drawn = (
        iterate_values(clicks, moves.next_states, ends[n], comes[n], moves.next_visits) for n in range(2)
    )
    return Plan(expected, drawn, kept)


def all_states(sizes: tuple[int, ...]) -> IntArray:
    """Return the value of each part in each state `(S, B)`, in the order of their numbers."""
    return np.stack(np.unravel_index(np.arange(int(np.prod(sizes))), sizes), axis=1)


class Moves(NamedTuple):
    """Where decisions leave visitors, and where next visits begin, as numbers of states.

    `left (n, B)` are the values of parts after each decision, which are not seen if the visit ends there;
    `next_states (S, K, 2)` where a decision leaves a visitor without and with a click, and `next_visits (S,)` where the
    next visit begins of who is left in a state.
    """

    left: IntArray
    next_states: IntArray
    next_visits: IntArray


def learn_moves(decisions: Decisions, starts: IntArray, n_kinds: int) -> Moves:
    """Learn what most often follows in each part of the states, after a kind with or without a click."""
    sizes = sizes_of(starts)
    states = all_states(sizes)
    before = values_of_parts(decisions.before, starts)
    after = values_of_parts(decisions.after, starts)
    stays = decisions.follows == STAYS
    returns = decisions.follows == RETURNS
    outcomes = 2 * decisions.kinds + decisions.clicked
    moves = _moves(before[stays], after[stays], outcomes[stays], sizes, 2 * n_kinds)
    left = np.stack([move[value, outcomes] for move, value in zip(moves, before.T, strict=True)], axis=1)
    again = _moves(left[returns], after[returns], np.zeros(returns.sum(), np.int64), sizes, 1)
    next_states = number_states([move[value] for move, value in zip(moves, states.T, strict=True)], sizes)
    next_visits = number_states([move[value, 0] for move, value in zip(again, states.T, strict=True)], sizes)
    return Moves(left, next_states.reshape(len(states), n_kinds, 2), next_visits)


def _some(decisions: Decisions, chosen: BoolArray) -> Decisions:
    return Decisions._make(column[chosen] for column in decisions)


def _clicks_since_changes(
    decisions: Decisions, starts: IntArray, states: IntArray, products: FloatArray
) -> tuple[FloatArray, BoolArray]:
    """Return how likely a click is in each of the `states` on each kind `(states, K)`, and which decisions say so."""
    sizes = sizes_of(starts)
    kept = np.ones(len(decisions.kinds), bool)
    for change in range(MOST_CHANGES + 1):
        held = _some(decisions, kept)
        before = values_of_parts(held.before, starts)
        clicks = _click_chances(before, held, states, sizes, products)
        if change == MOST_CHANGES:
            break
        seen = clicks[number_states(list(before.T), sizes), held.kinds]
        changed = seen_before_change(before, held.kinds, held.clicked, seen, sizes, len(products))
        if not changed.any():
            break
        kept[np.flatnonzero(kept)[changed]] = False
    return clicks, kept


def number_states(values: Sequence[IntArray], sizes: tuple[int, ...]) -> IntArray:
    """Return the numbers of states by the values of their parts."""
    return np.asarray(np.ravel_multi_index(tuple(values), sizes))


def value_features(values: IntArray, sizes: tuple[int, ...]) -> FloatArray:
    """Return for each row of values `(n, B)` a 1, an indicator of each value of each part, and a trend of each."""
    indicators = [np.eye(size)[column] for column, size in zip(values.T, sizes, strict=True)]
    # From -1.5 to 1.5, nearly: about as wide as a standard normal.
    middles = (np.array(sizes) - 1) / 2
    trends = 3.0 * (values - middles) / np.array(sizes)
    return np.hstack([np.ones((len(values), 1)), *indicators, trends])


def _click_chances(
    before: IntArray, decisions: Decisions, states: IntArray, sizes: tuple[int, ...], products: FloatArray
) -> FloatArray:
    """Return how likely a click is in each of the `states` on each kind `(states, K)`."""
    fitted = fit_clicks(before, decisions, sizes, products)
    chances: FloatArray = special.expit(value_features(states, sizes) @ fitted.mean.T)
    return chances


def fit_clicks(before: IntArray, decisions: Decisions, sizes: tuple[int, ...], products: FloatArray) -> FittedGLM:
    """Fit how likely a click is, by the values of parts `before (n, B)` and the features of each kind `(K, d_p)`."""
    # Indicators of a part share a variance, and its trend has one of its own.
    blocks = np.concatenate([np.repeat(np.arange(len(sizes)), sizes), len(sizes) + np.arange(len(sizes))])
    design = make_design(products, blocks, np.zeros(products.shape[1], np.int64))
    clicked = decisions.clicked.astype(float)
    return fit_glm(Response.CLICKS, value_features(before, sizes), decisions.kinds, clicked, design, rounds=ROUNDS)


def _chances_of(
    values: IntArray,
    happened: BoolArray,
    states: IntArray,
    sizes: tuple[int, ...],
    prior: Prior,
    *,
    rng: np.random.Generator,
) -> FloatArray:
    """Return how likely it is in each of the `states (S, B)` that happened or not in rows of values `(n, B)`.

    The first row of `(2, S)` is by the most likely weights, the second by weights drawn from the posterior.
    """
    model = fit_chance(values, happened, sizes, prior)
    drawn = draw_weights(model, rng.standard_normal(len(model.mean)), 1.0)
    chances: FloatArray = special.expit(np.stack([model.mean, drawn]) @ value_features(states, sizes).T)
    return chances


def fit_chance(values: IntArray, happened: BoolArray, sizes: tuple[int, ...], prior: Prior) -> Logistic:
    """Fit how likely it is by `value_features` that happened or not in rows of values `(n, B)`."""
    deviations = np.concatenate([[prior.level], np.full(sum(sizes), prior.value), np.full(len(sizes), prior.trend)])
    model = new_logistic(np.zeros(len(deviations)), deviations)
    # Rows that are alike count together.
    cells, counts = np.unique(np.column_stack([values, happened]), axis=0, return_counts=True)
    features = value_features(cells[:, :-1], sizes)
    for _ in range(ROUNDS):
        newton_step(model, features, cells[:, -1].astype(float), counts.astype(float))
    return model


def _moves(
    before: IntArray, after: IntArray, outcomes: IntArray, sizes: tuple[int, ...], n_outcomes: int
) -> list[IntArray]:
    """Return for each part what most often follows a value after an outcome, `(size, outcomes)`.

    What was never seen goes where other values went after the outcome, or moves as far as they did, whichever says
    more of what was seen.
    """
    return [_move(before[:, part], after[:, part], outcomes, size, n_outcomes) for part, size in enumerate(sizes)]


def _move(before: IntArray, after: IntArray, outcomes: IntArray, size: int, n_outcomes: int) -> IntArray:
    counts = np.zeros((size, n_outcomes, size))
    np.add.at(counts, (before, outcomes, after), 1.0)
    places = counts.sum(axis=0)
    values = np.arange(size)
    # The shortest first, so that nothing moves where nothing was seen.
    steps = np.array(sorted(range(1 - size, size), key=abs))
    # A step stops at the first and the last value: from there it is seen as a shorter one.
    ends = np.clip(values + steps[:, np.newaxis], 0, size - 1)
    kept = np.stack([counts[values, :, end].sum(axis=0) for end in ends])
    moved = ends[kept.argmax(axis=0)].T
    by_step = np.zeros(n_outcomes, bool)
    for same in (slice(0, None, 2), slice(1, None, 2)):
        # Of all kinds together: after one click on a kind, both say as much.
        by_step[same] = kept[:, same].max(axis=0).sum() >= places[same].max(axis=1).sum()
    unseen = np.where(by_step, moved, places.argmax(axis=1))
    following: IntArray = np.where(counts.sum(axis=2) > 0.0, counts.argmax(axis=2), unseen)
    return following


def iterate_values(
    clicks: FloatArray, next_states: IntArray, ends: FloatArray, comes: FloatArray, next_visits: IntArray
) -> FloatArray:
    """Return the action values `(states, K)` of the best policy.

    Args:
        clicks: Chances of a click `(states, K)`.
        next_states: Where a decision leaves a visitor `(states, K, 2)`, without and with a click.
        ends: How likely the visit ends there `(states,)`.
        comes: How likely the visitor then comes back `(states,)`.
        next_visits: In which state `(states,)`.
    """
    comes = np.minimum(comes, MOST_ALIVE)
    ends = np.maximum(ends, 1.0 - MOST_ALIVE)
    worth = np.zeros(len(clicks))
    values = clicks
    rows = np.arange(len(clicks))
    for _ in range(MOST_SWEEPS):
        left = (1.0 - ends) * worth + ends * comes * worth[next_visits]
        values = clicks * (1.0 + left[next_states[:, :, 1]]) + (1.0 - clicks) * left[next_states[:, :, 0]]
        best = values.max(axis=1)
        if np.abs(best - worth).max() < SETTLED:
            break
        worth = best
        # Sweeps of what is best for now cost a tenth (modified policy iteration, Puterman & Shin 1978).
        chosen = values.argmax(axis=1)
        chance = clicks[rows, chosen]
        following = next_states[rows, chosen]
        for _ in range(SAME_POLICY):
            left = (1.0 - ends) * worth + ends * comes * worth[next_visits]
            worth = chance * (1.0 + left[following[:, 1]]) + (1.0 - chance) * left[following[:, 0]]
    return values
