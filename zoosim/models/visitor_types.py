"""Hidden types of visitors who come back, learned from their lives, and what kinds of products bring to each type.

Who cannot see what type a visitor is of keeps a state of the visitor's own clicks: the kind clicked last in this
visit, the clicks of the visit, and a tally over all visits, which a click moves by one, down or up by a feature of the
product, between bounds. A click is as likely as the type, the kind and the kind clicked last say: a mixture, by
expectation maximisation over visitors (Dempster, Laird & Rubin 1977), whose steps are logistic regressions. Which
feature moves the tally, and how far, is what explains best who comes back. Values are those of the best policy for each
type, by value iteration.
"""

from typing import NamedTuple

import numpy as np
from scipy import special

from zoosim.core.jit import jit
from zoosim.core.types import BoolArray, FloatArray, IntArray
from zoosim.linear.logistic import draw_weights, new_logistic, newton_step
from zoosim.models.visitor_model import COMES, ENDS, RETURNS, STAYS, Prior, iterate_values, value_features

BOUNDS = (1, 2, 3, 4, 5)
"""Bounds of the tally that are tried."""

MOST_CLICKS = 10
"""Clicks of a visit that are told apart."""

CLICKED = Prior(level=2.0, trend=1.5, value=1.0)
"""Prior standard deviations of the logit of a click: of the level, of the effects of types, of those of last clicks."""

USUAL = -1.5
"""The logit of a click that is expected of a kind of which nothing is known."""

ROUNDS, FRESH_ROUNDS = 4, 25
"""Rounds of expectation maximisation: from the types so far, and from chance."""

FEW = 1_000
"""Visitors up to whom types are also sought anew from chance: those of a few visitors may be none of many."""

STEPS = 5
"""Steps of Newton's method of a regression."""

LEAST = 1e-6
"""The least probability of a click or of none that a type is taken to have."""


class Lives(NamedTuple):
    """Decisions of visitors from their first one on, each visitor's one after another.

    `visitors (n,)` numbered from 0, without gaps; the `kinds (n,)` that were shown; whether they were `clicked (n,)`;
    and what `follows (n,)`: see `zoosim.models.visitor_model`.
    """

    visitors: IntArray
    kinds: IntArray
    clicked: BoolArray
    follows: IntArray


class Tally(NamedTuple):
    """A sum of clicks between -`bound` and `bound`, which a click on each kind moves by `steps (K,)`."""

    steps: IntArray
    bound: int


class Types(NamedTuple):
    """The types: their `shares (T,)` among visitors, and `clicks (T, K + 1, K)`, how likely a click is.

    By the kind clicked last in the visit plus one, 0 for none, and the kind that is shown.
    """

    shares: FloatArray
    clicks: FloatArray


class TypedPlan(NamedTuple):
    """Values of each kind for each type in each state, `(T, R, K)`, by the most likely model, and by a drawn one.

    States are numbered as an array `(K + 1, 2 bound + 1, MOST_CLICKS + 1)` stands in memory: the kind clicked last plus
    one, the tally from its lower bound, the clicks of the visit.
    """

    expected: FloatArray
    drawn: FloatArray


def fit_types(lives: Lives, types: int, kinds: int, before: Types | None, *, rng: np.random.Generator) -> Types:
    """Return the types that explain the lives best, of those that come of the types `before` and of chance.

    Args:
        lives: What was seen.
        types: How many.
        kinds: How many kinds of products there are, K.
        before: Types from which to go on; none at first.
        rng: Draws where to begin.
    """
    last = walk(lives, Tally(np.zeros(kinds, np.int64), 0)).before[:, 0]
    n_visitors = int(lives.visitors[-1]) + 1
    goes_on = before is not None and before.clicks.shape[2] == kinds
    climbed = [_climbed(lives, last, before, ROUNDS)] if before is not None and goes_on else []
    if not goes_on or n_visitors < FEW:
        # Most of each visitor to one type: to spread visitors evenly would leave all types alike.
        first = 0.1 / types + 0.9 * np.eye(types)[rng.integers(types, size=n_visitors)]
        climbed.append(_climbed(lives, last, _most_likely(lives, last, first, kinds), FRESH_ROUNDS))
    return max(climbed, key=lambda result: result[1])[0]


def _climbed(lives: Lives, last: IntArray, types: Types, rounds: int) -> tuple[Types, float]:
    """Return types after some rounds of expectation maximisation, and the log likelihood before the last one."""
    likelihood = -np.inf
    for _ in range(rounds):
        logs = log_beliefs(lives, last, types)
        per_visitor = special.logsumexp(logs, axis=1, keepdims=True)
        likelihood = float(per_visitor.sum())
        types = _most_likely(lives, last, np.exp(logs - per_visitor), types.clicks.shape[2])
    return types, likelihood


def log_beliefs(lives: Lives, last: IntArray, types: Types) -> FloatArray:
    """Return the log of each type's share times the likelihood of what each visitor did, `(V, T)`.

    Args:
        lives: What they did.
        last: The kind clicked last plus one, `(n,)`.
        types: The types.
    """
    n_visitors = int(lives.visitors[-1]) + 1
    cells = (last * types.clicks.shape[2] + lives.kinds) * 2 + lives.clicked
    logs = np.empty((n_visitors, len(types.shares)))
    for number, clicks in enumerate(types.clicks):
        by_cell = np.log(np.stack([1.0 - clicks, clicks], axis=-1)).ravel()
        logs[:, number] = np.log(types.shares[number]) + np.bincount(lives.visitors, by_cell[cells], n_visitors)
    return logs


def _most_likely(lives: Lives, last: IntArray, beliefs: FloatArray, kinds: int) -> Types:
    """Return the types if visitors are of each with the probabilities `beliefs (V, T)`."""
    n_types = beliefs.shape[1]
    shape = (kinds + 1, kinds, 2)
    cells = (last * kinds + lives.kinds) * 2 + lives.clicked
    counts: FloatArray = np.empty((n_types, *shape))
    for number, weights in enumerate(beliefs.T):
        counts[number] = np.bincount(cells, weights[lives.visitors], counts[0].size).reshape(shape)
    # Rows of each regression: of each type and kind clicked last, whether or not what is shown is clicked.
    numbers = np.indices((n_types, kinds + 1)).reshape(2, -1)
    features = np.hstack([np.ones((numbers.shape[1], 1)), np.eye(n_types)[numbers[0]], np.eye(kinds + 1)[numbers[1]]])
    deviations = np.concatenate([[CLICKED.level], np.full(n_types, CLICKED.trend), np.full(kinds + 1, CLICKED.value)])
    means = np.zeros(len(deviations))
    means[0] = USUAL
    happened = np.repeat([0.0, 1.0], len(features))
    both = np.vstack([features, features])
    clicks = np.empty((n_types, kinds + 1, kinds))
    for kind in range(kinds):
        seen = counts[:, :, kind].reshape(-1, 2).T.ravel()
        kept = seen > 0.0
        # Effects of which nothing was seen stay as expected: with many kinds that is most of them.
        used = both[kept].any(axis=0)
        rows = np.ascontiguousarray(both[kept][:, used])
        effects = means.copy()
        if len(rows):
            model = new_logistic(means[used], deviations[used])
            for _ in range(STEPS):
                newton_step(model, rows, happened[kept], seen[kept])
            effects[used] = model.mean
        clicks[:, :, kind] = special.expit(features @ effects).reshape(n_types, kinds + 1)
    shares = (beliefs.sum(axis=0) + 1.0) / (len(beliefs) + n_types)
    return Types(shares, np.clip(clicks, LEAST, 1.0 - LEAST))


class Walked(NamedTuple):
    """States of visitors: the kind clicked last plus one, the tally from its lower bound, and the clicks of the visit.

    Each `(n, 3)`: `before` each decision, where it has `left` the visitor, and at the one that `follows`.
    """

    before: IntArray
    left: IntArray
    follows: IntArray


def walk(lives: Lives, tally: Tally) -> Walked:
    """Return the states of visitors on their way."""
    walked = Walked(*(np.empty((len(lives.kinds), 3), np.int64) for _ in range(3)))
    _walk(lives, tally.steps, tally.bound, walked)
    return walked


@jit
def _walk(lives: Lives, steps: IntArray, bound: int, out: Walked) -> None:
    state = np.zeros(3, np.int64)
    for i in range(lives.kinds.shape[0]):
        if i == 0 or lives.visitors[i] != lives.visitors[i - 1]:
            state[:] = 0
            state[1] = bound
        out.before[i] = state
        if lives.clicked[i]:
            kind = lives.kinds[i]
            state[0] = kind + 1
            state[1] = max(0, min(2 * bound, state[1] + steps[kind]))
            state[2] = min(state[2] + 1, MOST_CLICKS)
        out.left[i] = state
        if lives.follows[i] != STAYS:
            state[0] = 0
            state[2] = 0
        out.follows[i] = state


def find_tally(lives: Lives, products: FloatArray) -> Tally:
    """Return the tally that explains best which visitors come back.

    Args:
        lives: What was seen.
        products: Features of each kind `(K, d_p)`.
    """
    at_end = lives.follows != STAYS
    returns = lives.follows[at_end] == RETURNS
    best = Tally(np.zeros(len(products), np.int64), 0)
    most = -np.inf
    for feature in products.T:
        if feature.min() == feature.max():
            continue
        steps = np.where(feature > (feature.min() + feature.max()) / 2, -1, 1)
        for bound in BOUNDS:
            tally = Tally(steps, bound)
            left = walk(lives, tally).left[at_end, 1:]
            sizes = (2 * bound + 1, MOST_CLICKS + 1)
            _, likelihood = _chances(left, returns, sizes, COMES, rng=None)
            if likelihood > most + 1e-9:
                best, most = tally, likelihood
    return best


def _chances(
    values: IntArray, happened: BoolArray, sizes: tuple[int, int], prior: Prior, *, rng: np.random.Generator | None
) -> tuple[FloatArray, float]:
    """Return how likely it is at each tally and count of clicks that it happened, and the log likelihood.

    Args:
        values: Tally and clicks, `(n, 2)`.
        happened: Whether it did, `(n,)`.
        sizes: How many values both have.
        prior: Deviations of effects.
        rng: Draws the second row of the result `(2, tallies x clicks)` from the posterior; without, there is one row.
    """
    numbers = np.ravel_multi_index(tuple(values.T), sizes)
    counts = np.bincount(numbers * 2 + happened, minlength=2 * int(np.prod(sizes))).reshape(-1, 2).astype(float)
    states = np.stack(np.unravel_index(np.arange(len(counts)), sizes), axis=1)
    features = value_features(states, sizes)
    deviations = np.concatenate([[prior.level], np.full(sum(sizes), prior.value), np.full(len(sizes), prior.trend)])
    model = new_logistic(np.zeros(len(deviations)), deviations)
    seen = np.flatnonzero(counts.sum(axis=1))
    rows = np.vstack([features[seen], features[seen]])
    outcomes = np.repeat([0.0, 1.0], len(seen))
    for _ in range(STEPS):
        newton_step(model, rows, outcomes, counts[seen].T.ravel())
    weights = [model.mean]
    if rng is not None:
        weights.append(draw_weights(model, rng.standard_normal(len(deviations)), 1.0))
    chances: FloatArray = special.expit(np.stack(weights) @ features.T)
    in_bounds = np.clip(chances[0], LEAST, 1.0 - LEAST)
    return chances, float((counts * np.log(np.stack([1.0 - in_bounds, in_bounds], axis=1))).sum())


def state_numbers(states: IntArray, kinds: int, bound: int) -> IntArray:
    """Return the numbers of states `(..., 3)`: see `Walked` and `TypedPlan`."""
    shape = (kinds + 1, 2 * bound + 1, MOST_CLICKS + 1)
    return np.asarray(np.ravel_multi_index(tuple(np.moveaxis(states, -1, 0)), shape))


class Moves(NamedTuple):
    """Where visitors are after a click on each kind, `(R, K)`, and at the start of the next visit, `(R,)`."""

    after_click: IntArray
    after_visit: IntArray


def moves_of(tally: Tally) -> Moves:
    """Return how states follow each other."""
    kinds = len(tally.steps)
    shape = (kinds + 1, 2 * tally.bound + 1, MOST_CLICKS + 1)
    _, tallies, clicks = np.indices(shape).reshape(3, -1)
    moved = np.clip(tallies[:, np.newaxis] + tally.steps, 0, 2 * tally.bound)
    more = np.minimum(clicks + 1, MOST_CLICKS)[:, np.newaxis]
    after_click = np.ravel_multi_index(np.broadcast_arrays(np.arange(1, kinds + 1), moved, more), shape)
    after_visit = np.ravel_multi_index(np.broadcast_arrays(0, tallies, 0), shape)
    return Moves(np.asarray(after_click), np.asarray(after_visit))


def plan_for_types(lives: Lives, tally: Tally, types: Types, *, rng: np.random.Generator) -> TypedPlan:
    """Return the values of the best policy for each type in two models.

    Args:
        lives: What was seen.
        tally: What moves the tally.
        types: How likely clicks are.
        rng: Draws the second model: whether visits end and visitors come back, from the posterior.
    """
    kinds = len(tally.steps)
    sizes = (2 * tally.bound + 1, MOST_CLICKS + 1)
    left = walk(lives, tally).left[:, 1:]
    stays = lives.follows == STAYS
    ends, _ = _chances(left, ~stays, sizes, ENDS, rng=rng)
    comes, _ = _chances(left[~stays], lives.follows[~stays] == RETURNS, sizes, COMES, rng=rng)
    moves = moves_of(tally)
    states = len(moves.after_visit)
    next_states = np.stack([np.broadcast_to(np.arange(states)[:, np.newaxis], (states, kinds)), moves.after_click], 2)
    plans = []
    for number in range(2):
        ends_by_state, comes_by_state = (np.tile(chances[number], kinds + 1) for chances in (ends, comes))
        values = [
            iterate_values(
                np.repeat(clicks, sizes[0] * sizes[1], axis=0),
                next_states,
                ends_by_state,
                comes_by_state,
                moves.after_visit,
            )
            for clicks in types.clicks
        ]
        plans.append(np.stack(values))
    return TypedPlan(*plans)
