"""The value of a policy in a learned model of visitors: how they click, end visits and come back."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy import sparse, special
from scipy.sparse.linalg import splu

from zoosim.core.blame import blamed
from zoosim.core.errors import DataError, PolicyError
from zoosim.core.types import BoolArray, FloatArray, IntArray
from zoosim.logs.log import Log
from zoosim.models.glm import expected_probability
from zoosim.models.hierarchy import joint_precision
from zoosim.models.visitor_model import (
    COMES,
    ENDS,
    GOES,
    MOST_ALIVE,
    RETURNS,
    STAYS,
    Decisions,
    Prior,
    all_states,
    find_parts,
    fit_chance,
    fit_clicks,
    learn_moves,
    number_states,
    sizes_of,
    value_features,
    values_of_parts,
)
from zoosim.off_policy.estimators.lives import LifeRows
from zoosim.off_policy.estimators.terms import Terms
from zoosim.off_policy.targets.products import PolicyTarget, Target, check_probabilities

UNKNOWN = GOES + 1
"""What follows a decision after which a visitor was cut off."""

MOST_CELLS = 2**22
"""Probabilities that are asked for at once."""

MOST_MODELLED = 20_000
"""The most states that are solved for."""

MOST_COEFFICIENTS = 3_000
"""The most coefficients of clicks: kinds of products times values of visitors' parts."""

LEAST_FORESEEN = 0.98
"""Share of the decisions after which visitors are where the model says, at least: moves count as certain."""


class Regression(NamedTuple):
    """A logistic regression on m decisions, and what it says of S states.

    Args:
        rows: Numbers of the decisions `(m,)`.
        states: The state that counts for each, `(m,)`.
        heads: Which of H sets of weights each has `(m,)`.
        residuals: What happened less what was expected `(m,)`.
        precision: Of all weights together `(H q, H q)`, prior included.
        of_states: Features of all states `(S, q)`.
        chances: What is expected in each `(S, H)`.
    """

    rows: IntArray
    states: IntArray
    heads: IntArray
    residuals: FloatArray
    precision: FloatArray
    of_states: FloatArray
    chances: FloatArray

    def influence(self, slopes: FloatArray) -> FloatArray:
        """Return how much each of its decisions moves a value that has `slopes (S, H)` in the chances `(m,)`."""
        in_logits = slopes * self.chances * (1.0 - self.chances)
        in_weights = in_logits.T @ self.of_states
        pull = np.linalg.solve(self.precision, in_weights.ravel()).reshape(in_weights.shape)
        return np.asarray((self.of_states @ pull.T)[self.states, self.heads] * self.residuals)


class VisitorValues:
    """Values of policies in a model of visitors, which is learned from the decisions of a log once for all policies.

    States are made of parts, groups of features of which exactly one is 1. The model is that of the policy `planner`
    (`zoosim.models.visitor_model`). Each value comes with the influence of each visitor on the coefficients of clicks,
    ends of visits and returns (the delta method on penalised maximum likelihood, whose variance is then the sandwich of
    Huber 1967); variances of the priors, and where decisions lead, count as known.

    Args:
        rows: The decisions.
        users: What was known of visitors at them `(n, d)`.
        kinds: What was shown `(n,)`, by the number of its kind of product.
        products: Features of the kinds `(K, d_p)`.
        clicked: Whether it was clicked `(n,)`.
        visits: The number of the visit in the visitor's life `(n,)`.

    Raises:
        DataError: such a model does not fit.
    """

    def __init__(
        self,
        rows: LifeRows,
        users: FloatArray,
        kinds: IntArray,
        products: FloatArray,
        clicked: BoolArray,
        visits: IntArray,
    ) -> None:
        self._rows = rows
        self._starts = find_parts(users)
        if not len(self._starts):
            raise DataError("visitors' features are no groups of which exactly one is 1")
        sizes = sizes_of(self._starts)
        n_coefficients = len(products) * (1 + sum(sizes) + len(sizes))
        if np.prod(sizes) > MOST_MODELLED or n_coefficients > MOST_COEFFICIENTS:
            raise DataError(
                f"{int(np.prod(sizes)):,} states of visitors and {len(products):,} kinds of products are too many"
            )
        after = np.zeros_like(users)
        after[:-1] = users[1:]
        follows = np.full(len(users), STAYS)
        follows[:-1][visits[1:] != visits[:-1]] = RETURNS
        follows[rows.last] = np.where(rows.has_ended, GOES, UNKNOWN)
        decisions = Decisions(users, after, kinds, clicked, follows)
        stays = follows == STAYS
        returns = follows == RETURNS

        before = values_of_parts(users, self._starts)
        self._states = number_states(list(before.T), sizes)
        self._moves = learn_moves(decisions, self._starts, len(products))
        left = self._moves.left
        numbers = number_states(list(left.T), sizes)
        following = np.append(self._states[1:], 0)
        stayed = following[stays] == numbers[stays]
        returned = following[returns] == self._moves.next_visits[numbers[returns]]
        if np.append(stayed, returned).mean() < LEAST_FORESEEN:
            raise DataError("visitors' features do not follow from those before, what was shown and the click")

        self._clicks = _clicks(decisions, before, products, sizes)
        knows_end = np.flatnonzero(follows != UNKNOWN)
        self._ends = _chance(knows_end, left[knows_end], ~stays[knows_end], sizes, ENDS)
        ended = knows_end[~stays[knows_end]]
        self._comes = _chance(ended, left[ended], returns[ended], sizes, COMES)

    @property
    def states(self) -> FloatArray:
        """The features of visitors in each of the states `(S, d)`."""
        sizes = sizes_of(self._starts)
        values = all_states(sizes)
        width = int(self._starts[-1])
        return np.hstack([np.eye(int(size))[column] for size, column in zip(sizes, values.T, strict=True)])[:, :width]

    @property
    def of_decisions(self) -> IntArray:
        """The number of each decision's state `(n,)`."""
        return self._states

    def terms(self, policy: FloatArray) -> Terms:
        """Return the terms of the clicks of a new visitor, by the policy's probabilities of each kind `(S, K)`."""
        rows = self._rows
        clicks = self._clicks.chances
        ends = self._ends.chances[:, 0]
        comes = self._comes.chances[:, 0]
        _, next_states, next_visits = self._moves
        to_left, onward = _moves_under(policy, clicks, next_states, ends, comes, next_visits)
        n_states = len(policy)
        system = splu((sparse.identity(n_states) - rows.gamma * (to_left @ onward)).tocsc())
        values = system.solve((policy * clicks).sum(axis=1))
        first = self._states[rows.starts[:-1]]
        occupied = system.solve(np.bincount(first, minlength=n_states) / len(first), trans="T")
        left = rows.gamma * (onward @ values)
        left_occupied = rows.gamma * (to_left.T @ occupied)
        of_click = 1.0 + left[next_states[:, :, 1]] - left[next_states[:, :, 0]]
        slopes = (
            (self._clicks, occupied[:, np.newaxis] * policy * of_click),
            (self._ends, (left_occupied * (comes * values[next_visits] - values))[:, np.newaxis]),
            (self._comes, (left_occupied * ends * values[next_visits])[:, np.newaxis]),
        )
        influence = np.zeros(len(self._states))
        for regression, slope in slopes:
            influence[regression.rows] += regression.influence(slope)
        by_visitor = rows.n_visitors * rows.by_visitor(influence)
        return Terms(values[first] + by_visitor - by_visitor.mean())


def learn_visitors(log: Log, rows: LifeRows) -> tuple[VisitorValues, IntArray]:
    """Learn the model of a log of lives; return it, and the kind of each product `(K,)`.

    Products with the same features are of one kind; without features each is its own.

    Raises:
        DataError: such a model does not fit.
    """
    if not np.isin(log.rewards, (0.0, 1.0)).all():
        raise DataError("rewards are not clicks, 0 or 1")
    if not log.candidates.are_everything:
        raise DataError("not every product could be shown at each decision")
    products = log.products if log.products.shape[1] else np.eye(log.n_actions)
    kinds, kind_of = np.unique(products, axis=0, return_inverse=True)
    assert log.lives is not None
    order = rows.order
    shown = kind_of[log.actions[order]]
    clicked = log.rewards[order] == 1.0
    values = VisitorValues(rows, log.features[order], shown, kinds, clicked, log.lives.visit[order])
    return values, kind_of


def ask_in_states(target: Target, log: Log, states: FloatArray, kind_of: IntArray) -> FloatArray:
    """Return a policy's probabilities of each kind `(S, kinds)` for visitors whose features are `states (S, d)`.

    Raises:
        PolicyError: it gives none.
    """
    if not target.answers_any:
        raise PolicyError("the policy's probabilities are known for the log's visitors alone")
    visitors = replace(log.rows(np.zeros(len(states), np.int64)), features=states, user_ids=None, lives=None)
    out = np.zeros((len(states), int(kind_of.max()) + 1))
    of_kinds = np.eye(out.shape[1])[kind_of]
    size = max(1, MOST_CELLS // log.n_actions)
    for start in range(0, len(states), size):
        stop = min(start + size, len(states))
        with blamed("asked about visitors in other states it "):
            asked = target.distributions(visitors, start, stop)
            check_probabilities(asked, visitors, start, whole=True)
        out[start:stop] = asked.matrix(log.n_actions) @ of_kinds
    if isinstance(target, PolicyTarget):
        target.finish()
    return out


def _moves_under(
    policy: FloatArray,
    clicks: FloatArray,
    next_states: IntArray,
    ends: FloatArray,
    comes: FloatArray,
    next_visits: IntArray,
) -> tuple[sparse.csr_matrix, sparse.csr_matrix]:
    """Return how likely decisions leave visitors in each state, and how likely the next decision is from there on.

    Args:
        policy: How likely each kind is shown `(S, K)`.
        clicks: Chances of a click `(S, K)`.
        next_states: Where a decision leaves a visitor `(S, K, 2)`, without and with a click.
        ends: How likely the visit ends there `(S,)`.
        comes: How likely the visitor then comes back `(S,)`.
        next_visits: In which state `(S,)`.

    Returns:
        From states to where a decision leaves a visitor, and from there to the state of the next decision, whose rows
        add up to less than 1 by those who go, each `(S, S)`. With gamma the values solve V = r + gamma A B V.
    """
    comes = np.minimum(comes, MOST_ALIVE)
    ends = np.maximum(ends, 1.0 - MOST_ALIVE)
    states = np.arange(len(policy))
    shape = (len(policy), len(policy))
    weights = np.stack([policy * (1.0 - clicks), policy * clicks], axis=2)
    from_states = np.broadcast_to(states[:, np.newaxis, np.newaxis], weights.shape)
    to_left = sparse.csr_matrix((weights.ravel(), (from_states.ravel(), next_states.ravel())), shape=shape)
    onward = sparse.diags(1.0 - ends) + sparse.csr_matrix((ends * comes, (states, next_visits)), shape=shape)
    return to_left, onward.tocsr()


def _clicks(decisions: Decisions, before: IntArray, products: FloatArray, sizes: tuple[int, ...]) -> Regression:
    fitted = fit_clicks(before, decisions, sizes, products)
    of_states = value_features(all_states(sizes), sizes)
    logits = of_states @ fitted.mean.T
    covariances = fitted.posterior.covariance[np.arange(len(products))]
    spread = np.stack([((of_states @ each) * of_states).sum(axis=1) for each in covariances], axis=1)
    # Not the chance at the mean of the weights: as many clicks are expected as came.
    chances = expected_probability(logits, spread)
    states = number_states(list(before.T), sizes)
    return Regression(
        rows=np.arange(len(states)),
        states=states,
        heads=decisions.kinds,
        residuals=decisions.clicked - chances[states, decisions.kinds],
        precision=joint_precision(fitted.design, fitted.sums, fitted.posterior.variances),
        of_states=of_states,
        chances=chances,
    )


def _chance(rows: IntArray, values: IntArray, happened: BoolArray, sizes: tuple[int, ...], prior: Prior) -> Regression:
    model = fit_chance(values, happened, sizes, prior)
    root = np.tril(model.root)
    of_states = value_features(all_states(sizes), sizes)
    chances = special.expit(of_states @ model.mean)
    states = number_states(list(values.T), sizes)
    return Regression(
        rows=rows,
        states=states,
        heads=np.zeros(len(rows), np.int64),
        residuals=happened - chances[states],
        precision=root @ root.T,
        of_states=of_states,
        chances=chances[:, np.newaxis],
    )
