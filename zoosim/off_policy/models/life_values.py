"""Models of what visitors bring from a decision on, fitted to a log of lives by fixed points of linear systems."""

from typing import NamedTuple

import numpy as np
from scipy import linalg, sparse
from scipy.sparse.linalg import splu

from zoosim.core.types import FloatArray, IntArray
from zoosim.off_policy.estimators.lives import LifeRows
from zoosim.off_policy.estimators.terms import Terms

RIDGE = 0.1
"""Decisions that say 0 of each feature, beside the log's own."""

LEAST_ENDED = 1e-3
"""Decisions, beside the log's own, after which a visitor in a state has gone: so no state is without end."""

BLOCK = 4_096


class Choices(NamedTuple):
    """Features of n decisions: of the visitors, of what was shown, and of what a policy would show.

    `users (n, d_u)` are features of the visitors, `shown (n, d_p)` those of the product shown, and `meant (n, d_p)`
    their mean over the products that the policy would show.
    """

    users: FloatArray
    shown: FloatArray
    meant: FloatArray


class Predictions(NamedTuple):
    """What visitors bring from each decision on: with the logged action `(n,)`, and under the policy `(n,)`."""

    predicted: FloatArray
    expected: FloatArray


class LinearValues:
    """Values from a decision on that are linear in all products of a visitor's and a product's features.

    LSTD-Q (Lagoudakis & Parr 2003) without discount: theta solves sum phi (phi - gamma phi')^T theta = sum phi r over
    the decisions, phi' being the mean of the next decision's features under the policy. It is the limit of fitted Q
    evaluation by linear regression (Le, Voloshin & Yue 2019).

    Args:
        rows: The decisions.
        choices: What was known and shown at them.
        halves: In which half, 0 or 1, each decision's visitor is `(n,)`.
    """

    def __init__(self, rows: LifeRows, choices: Choices, halves: IntArray) -> None:
        self.rows = rows
        self.choices = choices
        self.halves = halves
        self._systems = [self._system(np.flatnonzero((halves == half) & rows.tells_next)) for half in range(2)]

    def held_out(self, rewards: FloatArray) -> Predictions:
        """Return predictions of the visitors of each half by a model of the other half."""
        halves = [self._predictions(self._solve([self._systems[1 - half]], rewards)) for half in range(2)]
        is_later = self.halves == 1
        predicted = np.where(is_later, halves[1].predicted, halves[0].predicted)
        return Predictions(predicted, np.where(is_later, halves[1].expected, halves[0].expected))

    def terms(self, rewards: FloatArray) -> Terms:
        """Return the terms of the model's value, with the influence of each visitor on theta."""
        values = self._predictions(self._solve(self._systems, rewards))
        rows = self.rows
        first = rows.starts[:-1]
        start = np.einsum("nu,np->up", self.choices.users[first], self.choices.meant[first]).ravel() / len(first)
        # d value = start^T A^-1 sum phi delta: each decision counts by phi^T A^-T start.
        pull = linalg.solve(_ridged(self._systems).T, start, check_finite=False)
        own = np.where(rows.tells_next, self._dot(pull, self.choices.shown), 0.0)
        delta = rewards - values.predicted + rows.onward(values.expected)
        influence = rows.n_visitors * rows.by_visitor(own * delta)
        return Terms(values.expected[first] + influence - influence.mean())

    def held_out_influence(self, rewards: FloatArray, predicted: FloatArray, expected: FloatArray) -> FloatArray:
        """Return how each visitor moves sums of held-out predictions through the model that it takes part in `(m, V)`.

        Args:
            rewards: What decisions earned `(n,)`.
            predicted: What the prediction of each logged action counts for in each sum `(m, n)`.
            expected: What the prediction under the policy counts for `(m, n)`.
        """
        users, shown, meant = self.choices
        out = np.zeros((len(predicted), self.rows.n_visitors))
        for half in range(2):
            system = [self._systems[1 - half]]
            factors = linalg.lu_factor(_ridged(system).T, check_finite=False)
            values = self._predictions(self._solve(system, rewards))
            delta = rewards - values.predicted + self.rows.onward(values.expected)
            asked = self.halves == half
            taught = np.where(~asked & self.rows.tells_next, delta, 0.0)
            for number, (own, following) in enumerate(zip(predicted[:, asked], expected[:, asked], strict=True)):
                weighted = own[:, np.newaxis] * shown[asked] + following[:, np.newaxis] * meant[asked]
                slope = np.einsum("nu,np->up", users[asked], weighted, optimize=True).ravel()
                pull = linalg.lu_solve(factors, slope, check_finite=False)
                out[number] += self.rows.by_visitor(self._dot(pull, shown) * taught)
        return self.rows.n_visitors * out

    def _system(self, chosen: IntArray) -> tuple[FloatArray, IntArray]:
        """Return sum phi (phi - phi')^T over the chosen decisions, and these."""
        users, shown, meant = self.choices
        width = users.shape[1] * shown.shape[1]
        matrix = np.zeros((width, width))
        next_row = np.minimum(np.arange(len(users)) + 1, len(users) - 1)
        onward = self.rows.onward(np.ones(len(users)))
        for start in range(0, len(chosen), BLOCK):
            block = chosen[start : start + BLOCK]
            after = next_row[block]
            features = _products(users[block], shown[block])
            following = onward[block, np.newaxis] * _products(users[after], meant[after])
            matrix += features.T @ (features - following)
        return matrix, chosen

    def _solve(self, systems: list[tuple[FloatArray, IntArray]], rewards: FloatArray) -> FloatArray:
        chosen = np.concatenate([own for _, own in systems])
        weighted = rewards[chosen, np.newaxis] * self.choices.users[chosen]
        right = np.einsum("nu,np->up", weighted, self.choices.shown[chosen], optimize=True).ravel()
        solution: FloatArray = linalg.solve(_ridged(systems), right, check_finite=False)
        return solution

    def _predictions(self, theta: FloatArray) -> Predictions:
        return Predictions(self._dot(theta, self.choices.shown), self._dot(theta, self.choices.meant))

    def _dot(self, theta: FloatArray, products: FloatArray) -> FloatArray:
        users = self.choices.users
        weights = users @ theta.reshape(users.shape[1], products.shape[1])
        return np.asarray((weights * products).sum(axis=1))


def _products(users: FloatArray, products: FloatArray) -> FloatArray:
    """Return all products of a visitor's and a product's features, `(n, d_u d_p)`."""
    return np.asarray((users[:, :, np.newaxis] * products[:, np.newaxis, :]).reshape(len(users), -1))


def _ridged(systems: list[tuple[FloatArray, IntArray]]) -> FloatArray:
    total = np.sum([matrix for matrix, _ in systems], axis=0)
    total.flat[:: len(total) + 1] += RIDGE
    return np.asarray(total)


def marginalised(rows: LifeRows, states: IntArray, ratios: FloatArray, rewards: FloatArray) -> Terms:
    """Weight decisions by how often the target is in their state, over the log (after Xie, Ma & Wang 2019).

    The target's moves from state to state and its rewards are estimated in a table, each decision weighted by the ratio
    of its own action alone, self-normalised; how often the target is in each state follows. States must recur, and hold
    all that what follows depends on: then moves are the same at every decision, and those of all decisions are pooled.

    Args:
        rows: The decisions.
        states: The number of each decision's state, from 0 `(n,)`.
        ratios: Target over logging probability of its action `(n,)`.
        rewards: What it earned `(n,)`.
    """
    count = int(states.max()) + 1
    ratios = np.where(rows.tells_next, ratios, 0.0)
    onward = rows.onward(np.ones(len(states)))
    has_next = np.flatnonzero(onward)
    moves = sparse.csc_matrix(
        (ratios[has_next] * onward[has_next], (states[has_next], states[has_next + 1])), shape=(count, count)
    )
    visits = np.bincount(states, ratios, count) + LEAST_ENDED
    system = splu((sparse.diags(visits, format="csc") - moves).tocsc())
    values = system.solve(np.bincount(states, ratios * rewards, count))
    first = states[rows.starts[:-1]]
    # How often the target is in a state, per weight of the log's decisions there.
    density = system.solve(np.bincount(first, minlength=count) / len(first), trans="T")
    delta = rewards - values[states] + rows.onward(values[states])
    influence = rows.n_visitors * rows.by_visitor(density[states] * ratios * delta)
    return Terms(values[first] + influence - influence.mean())
