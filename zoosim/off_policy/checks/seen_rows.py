"""Policies that learned from the rows that judge them: they go by what is chance in these."""

import numpy as np
from scipy import stats

from zoosim.core.arrays import codes_of
from zoosim.core.types import FloatArray, IntArray
from zoosim.off_policy.checks.cells import find_cells
from zoosim.off_policy.checks.choices import Choices, orthonormal
from zoosim.off_policy.checks.leaks import LEAST_CHANCE
from zoosim.off_policy.checks.probe import CHANCE, Probe
from zoosim.off_policy.verdict import Findings

MOST_MOMENTS = 1e9
MOST_TERMS = 400
"""Rows times squared terms that are computed, and terms in all."""

ROWS_PER_MEAN = 5
FEWEST_CELLS = 4
"""How many rows each mean of a cell and an action must have on average, and how many cells there must be."""

LIKELY = 3e-3
"""How likely the best of all policies agrees with the best of the rows' means as often; few policies are that good."""

DRAWS = 2_000


def check_seen_rows(findings: Findings, probe: Probe, choices: Choices, chances: FloatArray) -> None:
    """Ask whether what a policy prefers explains more of the rewards than a policy can that has not seen them.

    The means of rewards, by action and features or by cells of visitors, err by chance. A policy made beforehand leaves
    that error whatever it knows; one that was fitted to the rows leaves less, or goes by the best mean too often.

    Args:
        findings: Receives the reasons against the policy.
        probe: The log.
        choices: What tells its choices apart.
        chances: The policy's probabilities of the logged actions `(n,)`.
    """
    scores = np.log(np.maximum(chances, LEAST_CHANCE))
    if not scores.std():
        return
    advice = "it was made from the rows that judge it; judge it by rows that it has not seen"
    if _leaves_too_little(choices, np.column_stack([scores, chances])):
        observation = "the policy's probabilities follow these rows' rewards closer than chance allows"
        findings.add(f"{observation}: {advice}{probe.every_row}", useless=False)
        return
    cells = find_cells(probe.inputs, probe.log.actions, scores, _most_cells(probe))
    if cells is None or cells.max() + 1 < FEWEST_CELLS:
        return
    means = _CellMeans(probe, cells, np.column_stack([scores, chances]))
    if means.leave_too_little():
        observation = f"the policy's probabilities follow the mean rewards of {means.n_cells} cells closer than"
        findings.add(f"{observation} chance allows: {advice}{probe.every_row}", useless=False)
        return
    agreeing, likelihood = means.agreement()
    if likelihood < LIKELY:
        observation = f"the policy prefers what earned most in these rows in {agreeing} of {means.n_cells} cells"
        findings.add(f"{observation}, more often than the best policy would: {advice}{probe.every_row}", useless=False)


def most_terms(n: int) -> int:
    """Return how many terms may tell the choices of `n` rows apart."""
    return int(min(MOST_TERMS, n / ROWS_PER_MEAN, np.sqrt(MOST_MOMENTS / n)))


def _most_cells(probe: Probe) -> int:
    return len(probe) // (ROWS_PER_MEAN * len(np.unique(probe.log.actions)))


def _leaves_too_little(choices: Choices, known: FloatArray) -> bool:
    """Return whether what is `known (n, m)` of the policy leaves less of the rewards to explain than chance does.

    What all terms explain beyond it is at least what they explain of noise, which may differ between rows.
    """
    terms = choices.terms
    known = _scaled(choices.without_features(known))
    along = orthonormal(terms.T @ known)
    degrees = terms.shape[1] - along.shape[1]
    if degrees < 1:
        return False
    products = terms.T @ choices.rewards
    beyond = products - along @ (along.T @ products)
    beside = orthonormal(known - terms @ (terms.T @ known))  # what no term says of the policy
    residuals = choices.rewards - choices.own - beside @ (beside.T @ choices.rewards)
    leverage = (terms**2).sum(axis=1)
    beyond_leverage = leverage - ((terms @ along) ** 2).sum(axis=1)
    noise = float((beyond_leverage * residuals**2 / np.maximum(1.0 - leverage, 0.2)).sum())
    return _is_too_small(float((beyond**2).sum()), noise, degrees)


def _is_too_small(explained: float, noise: float, degrees: int) -> bool:
    """Return whether a sum of squares that is `noise` in expectation is smaller than chance makes it."""
    return noise > 0.0 and float(stats.chi2.cdf(explained / noise * degrees, degrees)) < CHANCE


def _scaled(values: FloatArray) -> FloatArray:
    return np.asarray(values / np.maximum(np.sqrt((values**2).sum(axis=0)), 1e-300))


class _CellMeans:
    """Mean rewards and scores per cell and action, of those that have rows."""

    def __init__(self, probe: Probe, cells: IntArray, known: FloatArray) -> None:
        rewards = probe.log.rewards / max(1e-300, float(np.abs(probe.log.rewards).max()))
        k = probe.log.n_actions
        pairs, group = np.unique(cells * k + probe.log.actions, return_inverse=True)
        self.cell, self.action = pairs // k, codes_of(pairs % k)
        self.n_cells = int(cells.max()) + 1
        self.rows = np.bincount(group).astype(np.float64)
        self.means = np.bincount(group, rewards) / self.rows
        self.known = np.stack([np.bincount(group, column) / self.rows for column in known.T], axis=1)
        squares = np.bincount(group, (rewards - self.means[group]) ** 2)
        several = np.maximum(self.rows - 1.0, 1.0)
        overall = float(squares.sum()) / max(1.0, len(rewards) - len(pairs))
        # Variances of few rows are uncertain: as if each had ten further rows of the common variance.
        self.variance = (squares + 10.0 * overall) / (several + 10.0)

    @property
    def _main_effects(self) -> FloatArray:
        return np.column_stack([np.eye(self.n_cells)[self.cell], np.eye(int(self.action.max()) + 1)[self.action]])

    def leave_too_little(self) -> bool:
        """Return whether means lie closer to what is known of the policy than chance lets them."""
        weights = np.sqrt(self.rows / np.maximum(self.variance, 1e-300))[:, None]
        basis = orthonormal(weights * np.column_stack([self._main_effects, self.known]))
        values = weights[:, 0] * self.means
        left = values - basis @ (basis.T @ values)
        degrees = len(values) - basis.shape[1]
        return degrees > 0 and _is_too_small(float((left**2).sum()), float(degrees), degrees)

    def agreement(self) -> tuple[int, float]:
        """Return in how many cells the policy prefers the best mean, and how likely the best policy does as often.

        The truth is drawn from what the means say of it, a normal model of effects of cells, of actions and of both.
        """
        truth, spread = self._posterior()
        draws = truth + spread * np.random.default_rng(0).normal(size=(DRAWS, len(truth)))
        agreeing, certainty = 0, []
        for cell in range(self.n_cells):
            own = np.flatnonzero(self.cell == cell)
            scores = np.sort(self.known[own, 0])
            if len(own) < 2 or scores[-1] <= scores[-2] + 1e-9:
                continue
            best = int(self.means[own].argmax())
            agreeing += int(self.known[own, 0].argmax()) == best
            certainty.append(float((draws[:, own].argmax(axis=1) == best).mean()))
        # The number of agreeing cells is a sum of independent ones: its distribution by convolution.
        chances = np.ones(1)
        for share in certainty:
            chances = np.convolve(chances, [1.0 - share, share])
        return agreeing, float(chances[agreeing:].sum())

    def _posterior(self) -> tuple[FloatArray, FloatArray]:
        """Return means and standard deviations of the truth, given the means (empirical Bayes, Morris 1983)."""
        noise = self.variance / self.rows
        weights = np.sqrt(1.0 / np.maximum(noise, 1e-300))[:, None]
        basis = orthonormal(weights * self._main_effects)
        expected = basis @ (basis.T @ (weights[:, 0] * self.means)) / weights[:, 0]
        degrees = max(1, len(expected) - basis.shape[1])
        excess = float(((self.means - expected) ** 2 / noise).sum()) - degrees
        effects = max(0.0, excess / float((1.0 / noise).sum()) * len(expected) / degrees)
        share = effects / (effects + noise)
        return expected + share * (self.means - expected), np.sqrt(share * noise)
