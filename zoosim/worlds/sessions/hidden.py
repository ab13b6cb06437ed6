"""What visitors bring in at most where a shop does not know which of two personas they have: bounds by a grid.

Who does not see the persona decides by the state and a belief: the probability of the second persona, which
each click and each decision without one moves by Bayes' rule. The best worth is a convex function of it (Smallwood &
Sondik 1973). So values on a grid of beliefs, with straight lines in between, bound it from above (Lovejoy 1991), and
any policy bounds it from below: here the one that is best by these values and takes the nearest belief of the grid.
"""

from typing import NamedTuple

import numpy as np
from scipy import special

from zoosim.core.errors import ConfigError
from zoosim.core.types import FloatArray, IntArray
from zoosim.worlds.sessions.truth import SessionTruth

POINTS = 61
"""Beliefs of a grid, at even steps of their logits, beside certainty and what is believed of a new visitor."""

WIDEST = 7.0
"""The largest logit of a belief of the grid."""

SETTLED = 1e-5
"""Change of values, in clicks, at which they are settled."""

MOST_ROUNDS = 5_000


class Bounds(NamedTuple):
    """Clicks of a new visitor of unknown persona: the best policy brings no less than `lower`, no more than `upper`.

    `myopic` is what it brings to show what is most likely to be clicked now, by the belief, to the nearest of the grid.
    """

    lower: float
    upper: float
    myopic: float


class _Grid(NamedTuple):
    """Beliefs `(G,)`, and for each state, kind and belief `(N, K, G)` the chance of a click and what is believed then.

    The beliefs after a click, and after none, are `below + share` places of the grid, `(N, K, G)` each.
    """

    beliefs: FloatArray
    chance: FloatArray
    below: tuple[IntArray, IntArray]
    share: tuple[FloatArray, FloatArray]


def belief_bounds(truth: SessionTruth, *, points: int = POINTS) -> Bounds:
    """Return bounds of what the best policy brings that sees all of a visitor's state but the persona.

    Args:
        truth: What is true of a shop with two personas, in which nothing sells out.
        points: Beliefs of the grid; more make the bounds narrower.

    Raises:
        ConfigError: there are not two personas, or products sell out.
    """
    if truth.n_personas != 2 or truth.laws.missing:
        raise ConfigError(
            f"hidden persona: got {truth.n_personas} personas, expected 2, and products that never sell out"
        )
    new = float(truth.laws.shares[1])
    grid = _make_grid(truth, new, points)
    place = int(np.searchsorted(grid.beliefs, new))
    values = _upper_values(truth, grid)
    kinds = _action_values(truth, grid, values).argmax(axis=1)
    return Bounds(
        lower=_worth(truth, grid, kinds, place),
        upper=float(values[truth.start, place]),
        myopic=_worth(truth, grid, grid.chance.argmax(axis=1), place),
    )


def _make_grid(truth: SessionTruth, new: float, points: int) -> _Grid:
    even = special.expit(np.linspace(-WIDEST, WIDEST, points))
    beliefs = np.unique(np.concatenate([even, [0.0, new, 1.0]]))
    first, second = (clicks[:, :, np.newaxis] for clicks in truth.clicks)
    chance = (1.0 - beliefs) * first + beliefs * second
    # Bayes' rule; a click on what is never clicked, or none on what always is, does not happen.
    clicked = np.divide(beliefs * second, chance, out=np.zeros_like(chance), where=chance > 0.0)
    rest = 1.0 - chance
    missed = np.divide(beliefs * (1.0 - second), rest, out=np.zeros_like(chance), where=rest > 0.0)
    places = [_places(beliefs, after) for after in (clicked, missed)]
    return _Grid(beliefs, chance, (places[0][0], places[1][0]), (places[0][1], places[1][1]))


def _places(beliefs: FloatArray, wanted: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return between which beliefs of a grid those that are `wanted` lie: the number below, and the share beyond it."""
    below = np.clip(np.searchsorted(beliefs, wanted, side="right") - 1, 0, len(beliefs) - 2)
    share = (wanted - beliefs[below]) / (beliefs[below + 1] - beliefs[below])
    return below, np.clip(share, 0.0, 1.0)


def _upper_values(truth: SessionTruth, grid: _Grid) -> FloatArray:
    """Return an upper bound of the clicks from each state on by belief, `(N, G)`.

    It starts from the worth if the persona were told, which is no less than the best, and falls from there on.
    """
    told = np.stack([values.max(axis=1) for values in truth.optimal_values], axis=1)
    values: FloatArray = told @ np.stack([1.0 - grid.beliefs, grid.beliefs])
    for _ in range(MOST_ROUNDS):
        lower: FloatArray = _action_values(truth, grid, values).max(axis=1)
        change = np.abs(values - lower).max()
        values = np.minimum(values, lower)
        if change < SETTLED:
            break
    return values


def _action_values(truth: SessionTruth, grid: _Grid, values: FloatArray) -> FloatArray:
    """Return the clicks from here on by kind and belief, `(N, K, G)`, where `values (N, G)` follow."""
    onward = truth.onward @ values
    states = np.arange(len(onward))[:, np.newaxis, np.newaxis]
    clicked = _between(onward, truth.after_click[:, :, np.newaxis], grid.below[0], grid.share[0])
    missed = _between(onward, states, grid.below[1], grid.share[1])
    result: FloatArray = grid.chance * (1.0 + clicked) + (1.0 - grid.chance) * missed
    return result


def _between(values: FloatArray, states: IntArray, below: IntArray, share: FloatArray) -> FloatArray:
    found: FloatArray = (1.0 - share) * values[states, below] + share * values[states, below + 1]
    return found


def _worth(truth: SessionTruth, grid: _Grid, kinds: IntArray, place: int) -> float:
    """Return what a policy brings that shows `kinds (N, G)` by state and the nearest belief, from belief `place` on.

    Values rise from 0 to those of the policy, so that they never are above what it brings.
    """
    states = np.arange(len(kinds))[:, np.newaxis]
    beliefs = np.arange(kinds.shape[1])
    after = truth.after_click[states, kinds]
    near = [
        below[states, kinds, beliefs] + (share[states, kinds, beliefs] > 0.5)
        for below, share in zip(grid.below, grid.share, strict=True)
    ]
    worth = 0.0
    for persona, share in enumerate(truth.laws.shares):
        chance = truth.clicks[persona][states, kinds]
        values = np.zeros(kinds.shape)
        for _ in range(MOST_ROUNDS):
            onward = truth.onward @ values
            risen = chance * (1.0 + onward[after, near[0]]) + (1.0 - chance) * onward[states, near[1]]
            change = np.abs(risen - values).max()
            values = risen
            if change < SETTLED:
                break
        worth += float(share * values[truth.start, place])
    return worth
