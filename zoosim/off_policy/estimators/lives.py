"""Estimators of what a new visitor brings from the first decision to the last: pure functions of arrays.

A visitor's weight at a decision is the product of target over logging probability of all actions up to there. Who has
gone keeps the weight of the last decision: whoever normalises by the weights of those who are still there alone takes
the visitors who stay for all visitors.

Where the log ends before a visitor does (censored), nobody knows what followed. The visitors who were followed stand
for those who were not: what is seen at a decision counts by 1 over the share of visitors who were still followed there
(Kaplan & Meier 1958; Robins & Rotnitzky 1992), which is right where the end of the log does not depend on the visitor.

Each estimator returns `Terms` with one row per visitor, whose mean is the estimate. Of self-normalised ones these are
linearised: an estimate and the influence of each visitor on it (Hampel 1974).
"""

from typing import NamedTuple

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.types import BoolArray, FloatArray, IntArray
from zoosim.logs.lives import Lives
from zoosim.off_policy.estimators.terms import Terms

LEAST_WEIGHT, LARGEST_WEIGHT = 1e-140, 1e140
"""Beyond, squares of weights and inverses of their sums would overflow: in lives of hundreds of decisions."""


class LifeRows(NamedTuple):
    """n decisions of V visitors, one visitor after another, each in order.

    Args:
        order: Which row of the log each decision is `(n,)`.
        starts: Where each visitor's decisions begin, and n `(V + 1,)`.
        step: The number of the decision in its visitor's life, from 0, below T `(n,)`.
        has_ended: Which visitors are known to have gone for good `(V,)`; the others were cut off.
        followed: The share of the visitors, those who have gone among them, whose fate was still followed at each
            decision `(T + 1,)`.
        gamma: What the reward of the next decision counts for, in (0, 1].
    """

    order: IntArray
    starts: IntArray
    step: IntArray
    has_ended: BoolArray
    followed: FloatArray
    gamma: float

    @property
    def n_visitors(self) -> int:
        """Return the number of visitors, V."""
        return len(self.has_ended)

    @property
    def n_steps(self) -> int:
        """Return the number of decisions of the longest life, T."""
        return len(self.followed) - 1

    @property
    def last(self) -> IntArray:
        """Return the last decision of each visitor `(V,)`."""
        return self.starts[1:] - 1

    @property
    def scale(self) -> FloatArray:
        """Return what each decision counts for, since visitors were cut off before it `(n,)`."""
        return np.asarray(1.0 / self.followed[self.step])

    @property
    def discount(self) -> FloatArray:
        """Return what the reward of each decision counts for `(n,)`."""
        return np.asarray(self.gamma**self.step)

    @property
    def tells_next(self) -> BoolArray:
        """Return which decisions tell what comes next `(n,)`: not those after which nobody was followed who stayed."""
        return np.asarray(self.followed[self.step + 1] > 0.0)

    def of(self, visitors: BoolArray) -> "LifeRows":
        """Return the decisions of some of the `visitors (V,)`, among whom as many are still followed as among all."""
        lengths = np.diff(self.starts)
        chosen = np.repeat(visitors, lengths)
        starts = np.append(0, np.cumsum(lengths[visitors]))
        order, step = self.order[chosen], self.step[chosen]
        return self._replace(order=order, starts=starts, step=step, has_ended=self.has_ended[visitors])

    def by_visitor(self, values: FloatArray) -> FloatArray:
        """Add `values (n,)` up by visitor `(V,)`."""
        sums: FloatArray = np.add.reduceat(values, self.starts[:-1])
        return sums

    def onward(self, values: FloatArray) -> FloatArray:
        """Return gamma times the `values (n,)` at each next decision, 0 after the last one `(n,)`.

        After a decision at which some were cut off, the others' next values stand for theirs, too.
        """
        after = np.zeros(len(values))
        after[:-1] = values[1:]
        after[self.last] = 0.0
        has_next = np.ones(len(values), bool)
        has_next[self.last] = False
        share = np.ones(len(values))
        share[has_next] = (self.followed[self.step] / np.maximum(self.followed[self.step + 1], 1e-300))[has_next]
        return np.asarray(self.gamma * share * after)


def life_rows(lives: Lives, gamma: float = 1.0) -> LifeRows:
    """Put the decisions of a log in the order of visitors' lives."""
    order = np.lexsort((lives.step, lives.visit, lives.visitor))
    visitor = lives.visitor[order]
    is_first = np.append(True, visitor[1:] != visitor[:-1])
    starts = np.append(np.flatnonzero(is_first), len(order))
    step = np.arange(len(order)) - np.repeat(starts[:-1], np.diff(starts))
    last = starts[1:] - 1
    has_ended = lives.ended[order][last]
    n_steps = int(step.max()) + 1
    there = np.append(np.bincount(step, minlength=n_steps), 0)
    stayed = there[:-1] - np.bincount(step[last][has_ended], minlength=n_steps)
    seen = np.divide(there[1:], stayed, out=np.ones(n_steps), where=stayed > 0)
    return LifeRows(order, starts, step, has_ended, np.append(1.0, np.cumprod(seen)), gamma)


def life_weights(rows: LifeRows, ratios: FloatArray) -> FloatArray:
    """Return each decision's weight `(n,)`: the product of the `ratios (n,)` of its visitor up to there.

    It is `LARGEST_WEIGHT` at most, and 0 below `LEAST_WEIGHT`.
    """
    weights = np.empty(len(ratios))
    _multiply_up(rows.starts, ratios, weights)
    return weights


@jit
def _multiply_up(starts: IntArray, ratios: FloatArray, out: FloatArray) -> None:
    for visitor in range(starts.shape[0] - 1):
        weight = 1.0
        for row in range(starts[visitor], starts[visitor + 1]):
            weight = min(weight * ratios[row], LARGEST_WEIGHT)
            if weight < LEAST_WEIGHT:
                weight = 0.0
            out[row] = weight


def final_weights(rows: LifeRows, weights: FloatArray) -> FloatArray:
    """Return each visitor's weight over the whole life `(V,)`, whose mean is 1; 0 where a visitor was cut off."""
    return np.asarray(np.where(rows.has_ended, (weights * rows.scale)[rows.last], 0.0))


def sums_by_step(rows: LifeRows, values: FloatArray) -> FloatArray:
    """Add `values (n,)` up by decision, 0 to T - 1; a visitor who has gone keeps the last value `(T,)`."""
    sums = np.bincount(rows.step, values, rows.n_steps)
    gone = rows.last[rows.has_ended]
    kept = np.bincount(rows.step[gone] + 1, values[gone], rows.n_steps + 1)
    return np.asarray(sums + np.cumsum(kept)[:-1])


def trajectory_is(rows: LifeRows, weights: FloatArray, rewards: FloatArray) -> Terms:
    """Weight a visitor's whole return by the weight of the whole life (Precup, Sutton & Singh 2000)."""
    return Terms(final_weights(rows, weights) * rows.by_visitor(rows.discount * rewards))


def per_decision(rows: LifeRows, weights: FloatArray, rewards: FloatArray) -> Terms:
    """Weight each reward by the weight up to its decision (Precup, Sutton & Singh 2000, per-decision IS)."""
    return Terms(rows.by_visitor(rows.discount * rows.scale * weights * rewards))


def weighted_per_decision(rows: LifeRows, weights: FloatArray, rewards: FloatArray) -> Terms:
    """Weight each reward, and divide by the mean weight of all visitors at that decision, those who have gone too.

    Biased for few visitors, and less noisy (Precup, Sutton & Singh 2000, consistent weighted per-decision IS).
    """
    counted = weights * rows.scale
    per_weight = per_mean_weight(rows, weights)
    means = np.bincount(rows.step, counted * rows.discount * rewards, rows.n_steps) * per_weight / rows.n_visitors
    influence = rows.by_visitor(counted * (rows.discount * rewards - means[rows.step]) * per_weight[rows.step])
    # Who has gone earns 0 at all later decisions, and takes part in their mean weights.
    later = np.append(np.cumsum((means * per_weight)[::-1])[::-1], 0.0)
    influence -= final_weights(rows, weights) * later[rows.step[rows.last] + 1]
    return Terms(means.sum() + influence)


def per_mean_weight(rows: LifeRows, weights: FloatArray) -> FloatArray:
    """Return 1 over the mean weight of all visitors at each decision `(T,)`; 0 where nobody has any."""
    totals = sums_by_step(rows, weights * rows.scale)
    inverse: FloatArray = np.divide(rows.n_visitors, totals, out=np.zeros(rows.n_steps), where=totals > 0.0)
    return inverse


def doubly_robust(
    rows: LifeRows, weights: FloatArray, rewards: FloatArray, predicted: FloatArray, expected: FloatArray
) -> Terms:
    """Weight what rewards and next values differ from predictions (Jiang & Li 2016, eq. 10).

    Args:
        rows: The decisions.
        weights: Their weights `(n,)`.
        rewards: What they earned `(n,)`.
        predicted: What a model predicts of each logged action, from here on `(n,)`.
        expected: The mean of that under the target `(n,)`.
    """
    corrections = rewards - predicted + rows.onward(expected)
    return Terms(expected[rows.starts[:-1]] + per_decision(rows, weights, corrections).base)


def weighted_doubly_robust(
    rows: LifeRows, weights: FloatArray, rewards: FloatArray, predicted: FloatArray, expected: FloatArray
) -> Terms:
    """Divide the corrections of `doubly_robust` by mean weights (Thomas & Brunskill 2016, section 5)."""
    corrections = rewards - predicted + rows.onward(expected)
    return Terms(expected[rows.starts[:-1]] + weighted_per_decision(rows, weights, corrections).base)
