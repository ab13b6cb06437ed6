"""Test for a policy that prefers what earned most in these rows more closely than one that knows the truth."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from zoosim.core.arrays import codes_of, evenly_spread
from zoosim.core.types import BoolArray, FloatArray, IntArray
from zoosim.off_policy.checks.probe import LEAST_ROWS, Probe

DRAWS = 400
"""Posterior draws of the true effects, given the rows."""

MOST_CONTEXTS = 4_000
"""Rows for which linear effects are drawn."""

MOST_ACTIONS, ROWS_PER_EFFECT = 100, 5
"""Actions up to which linear effects are drawn, and rows that each effect must have on average."""

LEAST_SIGNAL = 0.02
"""Least sum of squares that effects explain, as a share of what noise does, so that they have an order."""

ROUNDING = 1e-12


class ActionEffects(NamedTuple):
    """Effects of actions on rewards in some contexts, and which actions the log shows there.

    `fitted (m, K)` is what fits the rows best. `draw` draws the truth `(m, K)` from what the rows say of it, effects
    being normal (empirical Bayes, Morris 1983). `shown (m, K)` counts rows.
    """

    fitted: FloatArray
    draw: Callable[[np.random.Generator], FloatArray]
    shown: FloatArray

    def are_followed(self, shares: FloatArray, likely: float) -> bool:
        """Return whether a policy comes closer to what fits the rows best than one that knows the truth.

        The latter gives the same shares to other actions, the largest to the truly best. A policy is closer the less it
        earns below the best by the fit, in the rows that show what it prefers.

        Args:
            shares: What the policy gives each action in each context `(m, K)`, or 1 where it prefers one, else 0.
            likely: How likely the other one, which knows the truth, comes as close.
        """
        regrets = np.where(self.shown > 0.0, self.fitted.max(axis=1, keepdims=True) - self.fitted, 0.0)
        own = _mean(regrets, self.shown * shares)
        in_order = -np.sort(-shares, axis=1)
        prefers_one = not (in_order[:, 1:] > 0.0).any()
        contexts = np.arange(len(self.fitted))
        rng = np.random.default_rng(0)
        closer = 0
        for _ in range(DRAWS):
            truth = self.draw(rng)
            if prefers_one:
                best = truth.argmax(axis=1)
                regret = _mean(regrets[contexts, best], self.shown[contexts, best])
            else:
                order = np.argsort(-truth, axis=1)
                weights = in_order * np.take_along_axis(self.shown, order, axis=1)
                regret = _mean(np.take_along_axis(regrets, order, axis=1), weights)
            closer += regret <= own + ROUNDING
            if closer >= likely * DRAWS:
                return False
        return True

    def agreement(self, shares: FloatArray) -> float:
        """Return the share of contexts, of those that show what a policy prefers, in which that fits the rows best."""
        is_known = ((self.shown > 0.0) & (shares > 0.0)).any(axis=1)
        return float((shares.argmax(axis=1) == self.fitted.argmax(axis=1))[is_known].mean())


def cell_effects(probe: Probe, cells: IntArray) -> ActionEffects:
    """Return effects in cells of visitors, by the number of each row's cell `(n,)`, of the actions that are shown.

    What a cell was never shown is not the best there: the rows say nothing of it.
    """
    actions = codes_of(probe.log.actions)
    rewards = probe.log.rewards
    shape = (int(cells.max()) + 1, int(actions.max()) + 1)
    pair = cells * shape[1] + actions
    shown = np.bincount(pair, minlength=shape[0] * shape[1]).reshape(shape).astype(np.float64)
    sums = np.bincount(pair, rewards, shape[0] * shape[1]).reshape(shape)
    cell_means = sums.sum(axis=1) / shown.sum(axis=1)
    fitted = np.where(shown > 0.0, sums / np.maximum(shown, 1.0) - cell_means[:, None], 0.0)
    residuals = rewards - cell_means[cells] - fitted[cells, actions]
    noise = _noise(residuals, int((shown > 0.0).sum()))
    explained = float((shown * fitted**2).sum())
    # The expected sum of n effect^2 is signal times all rows, and noise once per effect: solved for the signal.
    signal = _signal(explained, noise, int((shown > 0.0).sum())) / len(rewards)
    # Effects are N(0, signal), and a mean of n rewards has the variance noise / n.
    precision = shown / noise + 1.0 / signal
    means = shown * fitted / noise / precision

    def draw(rng: np.random.Generator) -> FloatArray:
        drawn = means + rng.normal(size=shape) / np.sqrt(precision)
        return np.where(shown > 0.0, drawn, -np.inf)

    return ActionEffects(fitted, draw, shown)


def linear_effects(probe: Probe, prefers: BoolArray) -> tuple[ActionEffects, FloatArray] | None:
    """Return effects by a linear model per action, in rows spread evenly, and 1 for their actions a policy prefers.

    Rare actions are left out, and the last features where there are too many. None where there are too many actions.

    Args:
        probe: The log.
        prefers: Whether the policy prefers the logged action of each row `(n,)`.
    """
    counts = np.bincount(probe.log.actions, minlength=probe.log.n_actions)
    common = np.flatnonzero(counts >= LEAST_ROWS)
    if not 1 < len(common) <= MOST_ACTIONS:
        return None
    rows = np.flatnonzero(counts[probe.log.actions] >= LEAST_ROWS)
    k = len(common)
    n = len(rows)
    actions = np.searchsorted(common, probe.log.actions[rows])
    inputs = np.column_stack([np.ones(n), probe.inputs[rows, : n // (ROWS_PER_EFFECT * k) - 1]])
    slopes = _fit_slopes(inputs, actions, probe.log.rewards[rows], k)
    few = evenly_spread(n, MOST_CONTEXTS)
    contexts = inputs[few]
    is_possible = probe.log.candidates.hold(probe.log.candidate_set[rows[few]], common)
    excluded = np.where(is_possible, 0.0, -np.inf)
    is_shown = actions[few][:, None] == np.arange(k)
    effects = ActionEffects(
        fitted=contexts @ slopes.fitted.T + excluded,
        draw=lambda rng: np.asarray(contexts @ slopes.draw(rng).T + excluded),
        shown=is_shown.astype(np.float64),
    )
    return effects, (is_shown & prefers[rows[few]][:, None]).astype(np.float64)


class _Slopes(NamedTuple):
    """The effect of each input on each action's reward: the best fit `(K, d)`, and what is known of the truth.

    That is normal by action, with `means (K, d)` and covariances whose Cholesky factors are `roots (K, d, d)`.
    """

    fitted: FloatArray
    means: FloatArray
    roots: FloatArray

    def draw(self, rng: np.random.Generator) -> FloatArray:
        """Draw the truth `(K, d)`."""
        normals = rng.normal(size=(*self.means.shape, 1))
        return np.asarray(self.means + (self.roots @ normals)[:, :, 0])


def _fit_slopes(inputs: FloatArray, actions: IntArray, rewards: FloatArray, k: int) -> _Slopes:
    """Fit a linear model to each of k actions: of rewards `(n,)`, less what inputs `(n, d)` say whatever was shown."""
    n, d = inputs.shape
    # Least squares also of normal equations, which are singular where features depend on one another.
    rewards = rewards - inputs @ np.linalg.lstsq(inputs.T @ inputs, inputs.T @ rewards, rcond=None)[0]
    own_inputs = [inputs[actions == action] for action in range(k)]
    moments = np.stack([own.T @ own for own in own_inputs])
    products = np.stack([own.T @ rewards[actions == action] for action, own in enumerate(own_inputs)])
    ridge = 1e-6 * n / k * np.eye(d)  # for features that do not vary among an action's rows
    slopes = np.linalg.solve(moments + ridge, products[:, :, None])[:, :, 0]
    noise = _noise(rewards - (inputs * slopes[actions]).sum(axis=1), k * d)
    # Likewise: b'X'Xb = b'X'y of fitted slopes is on average signal tr(X'X), and noise once per slope.
    signal = _signal(float((slopes * products).sum()), noise, k * d) / float(np.trace(moments.sum(axis=0)))
    covariances = np.linalg.inv(moments / noise + np.eye(d) / signal)
    means = (covariances @ products[:, :, None])[:, :, 0] / noise
    roots = np.asarray(np.linalg.cholesky((covariances + covariances.transpose(0, 2, 1)) / 2.0), np.float64)
    return _Slopes(slopes, means, roots)


def _noise(residuals: FloatArray, n_effects: int) -> float:
    return max(1e-300, float((residuals**2).sum()) / max(1, len(residuals) - n_effects))


def _signal(explained: float, noise: float, n_effects: int) -> float:
    """Return the sum of squares that effects explain beyond what as many do by chance."""
    return max(explained - noise * n_effects, LEAST_SIGNAL * noise * n_effects)


def _mean(values: FloatArray, weights: FloatArray) -> float:
    """Return a weighted mean; infinite where all weights are 0."""
    total = float(weights.sum())
    return float((values * weights).sum()) / total if total else np.inf
