"""Policies that learned from the rows that judge them: they go by what is chance in these."""

import numpy as np
from scipy import stats

from zoosim.core.arrays import codes_of
from zoosim.core.types import FloatArray, IntArray
from zoosim.off_policy.checks.cells import find_cells
from zoosim.off_policy.checks.choices import ChoiceTerms, orthonormal
from zoosim.off_policy.checks.leaks import LEAST_CHANCE
from zoosim.off_policy.checks.preferences import cell_effects, linear_effects
from zoosim.off_policy.checks.probe import CHANCE, Probe, of_unit_size
from zoosim.off_policy.checks.unexplained import unexplained_agreement
from zoosim.off_policy.verdict import VerdictReasons

MOST_MOMENTS = 1e9
MOST_TERMS = 400
"""Rows times squared terms that are computed, and terms in all."""

ROWS_PER_MEAN = 5
"""Fewest rows on average per mean of a cell and an action, and per term."""

LIKELY, LIKELY_IN_FEW_CELLS, FEW_CELLS = 0.005, 0.05, 24
"""Least probability that a policy which knows the truth comes as close to the best fit; few policies are that good.

Up to so few cells tell no more surely.
"""

PREFERRED = 0.5
"""Probability above which an action is the one that a policy prefers."""

PREFERRING, FEWEST_PREFERRED = 0.8, 100
"""Share of the visits in which it must prefer one, as it may know most of some visits alone, and rows that show one."""

ADVICE = "judge it by rows that it has not seen"

SAME = 1e-9
"""Difference of scores that is none."""


def check_seen_rows(findings: VerdictReasons, probe: Probe, choices: ChoiceTerms, chances: FloatArray) -> None:
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
    if not scores.std() or not np.ptp(probe.log.rewards):
        return
    known = np.column_stack([scores, chances])
    observation = _linear_observation(probe, choices, known) or _cell_observation(probe, known)
    if observation:
        findings.add(
            f"{observation}: it was made from the rows that judge it; {ADVICE}{probe.every_row}", useless=False
        )
        return
    correlation = unexplained_agreement(probe, known)
    if correlation:
        observation = "the policy's probabilities go with rewards beyond what features and actions tell"
        reason = f"it was made from the rows that judge it, or by what is not logged; log that, and {ADVICE}"
        findings.add(f"{observation} (correlation {correlation:.2f}): {reason}{probe.every_row}", useless=False)


def _linear_observation(probe: Probe, choices: ChoiceTerms, known: FloatArray) -> str:
    """Return what linear models of rewards say against a policy of which so much is `known (n, 2)`, if anything."""
    if _leaves_too_little(choices, known):
        return "the policy's probabilities follow these rows' rewards closer than chance allows"
    prefers = known[:, 1] > PREFERRED
    # On average this is the share of visits in which the policy prefers an action, be it the logged one or not.
    preferring = float((prefers / probe.log.propensities).mean())
    if int(prefers.sum()) < FEWEST_PREFERRED or preferring < PREFERRING:
        return ""
    found = linear_effects(probe, prefers)
    if found is None:
        return ""
    effects, preferred = found
    if not preferred.any() or not effects.are_followed(preferred, LIKELY):
        return ""
    share = f"{100 * effects.agreement(preferred):.0f}% of the rows that show it"
    return (
        f"the policy prefers what a linear model of these rows does in {share}, more often than the best policy would"
    )


def _cell_observation(probe: Probe, known: FloatArray) -> str:
    """Return what means of cells of visitors say against a policy, if anything."""
    most_cells = _most_cells(probe)
    cells = find_cells(probe.inputs, probe.log.actions, known[:, 0], most_cells) if most_cells else None
    if cells is None:
        return ""
    n_cells = int(cells.max()) + 1
    if _means_leave_too_little(probe, cells, known):
        return f"the policy's probabilities follow the mean rewards of {n_cells} cells closer than chance allows"
    effects = cell_effects(probe, cells)
    shares = _shares(cells, codes_of(probe.log.actions), known[:, 1], effects.shown)
    likely = LIKELY_IN_FEW_CELLS if n_cells <= FEW_CELLS else LIKELY
    if not effects.are_followed(shares, likely):
        return ""
    return (
        f"the policy prefers what earned most in these rows in {n_cells} cells of visitors, "
        "more often than a policy would that knows the truth"
    )


def most_terms(n: int) -> int:
    """Return how many terms may tell the choices of `n` rows apart."""
    return int(min(MOST_TERMS, n / ROWS_PER_MEAN, np.sqrt(MOST_MOMENTS / n)))


def _most_cells(probe: Probe) -> int:
    return len(probe) // (ROWS_PER_MEAN * len(np.unique(probe.log.actions)))


def _leaves_too_little(choices: ChoiceTerms, known: FloatArray) -> bool:
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
    # residual^2 / (1 - leverage) estimates a row's own noise, whatever that of others is (HC2; MacKinnon & White 1985).
    noise = float((beyond_leverage * residuals**2 / np.maximum(1.0 - leverage, 0.2)).sum())
    return _is_too_small(float((beyond**2).sum()), noise, degrees)


def _is_too_small(explained: float, noise: float, degrees: int) -> bool:
    """Return whether a sum of squares that is `noise` in expectation is smaller than chance makes it."""
    return noise > 0.0 and float(stats.chi2.cdf(explained / noise * degrees, degrees)) < CHANCE


def _scaled(values: FloatArray) -> FloatArray:
    return np.asarray(values / np.maximum(np.sqrt((values**2).sum(axis=0)), 1e-300))


def _means_leave_too_little(probe: Probe, cells: IntArray, known: FloatArray) -> bool:
    """Return whether mean rewards per cell and action lie closer to what is known of a policy than chance lets them."""
    rewards = of_unit_size(probe.log.rewards)
    pairs, group = np.unique(cells * probe.log.n_actions + probe.log.actions, return_inverse=True)
    cell = pairs // probe.log.n_actions
    action = codes_of(pairs % probe.log.n_actions)
    rows = np.bincount(group).astype(np.float64)
    means = np.bincount(group, rewards) / rows
    squares = np.bincount(group, (rewards - means[group]) ** 2)
    overall = float(squares.sum()) / max(1.0, len(rewards) - len(pairs))
    # Variances of few rows are uncertain: as if each had ten further rows of the common variance.
    variance = (squares + 10.0 * overall) / (np.maximum(rows - 1.0, 1.0) + 10.0)
    # So weighted, the noise of each mean has variance 1, and chance leaves 1 per degree of freedom.
    weights = np.sqrt(rows / np.maximum(variance, 1e-300))
    mean_known = np.stack([np.bincount(group, column) / rows for column in known.T], axis=1)
    values = weights * means
    left, n_known = _interactions(cell, action, weights, mean_known, values)
    degrees = len(values) - n_known
    return degrees > 0 and _is_too_small(float((left**2).sum()), float(degrees), degrees)


def _interactions(
    cells: IntArray, actions: IntArray, weights: FloatArray, known: FloatArray, values: FloatArray
) -> tuple[FloatArray, int]:
    """Return what is left of means `values (m,)` beside what is known, and how many directions that spans.

    What cells and actions earn as such may be known to any policy: only interactions count against one.

    Args:
        cells, actions: The numbers of the cell and the action of each mean, each from 0 `(m,)`.
        weights: By which means are weighed `(m,)`.
        known: What is known of the policy `(m, c)`.
        values: Means times weights `(m,)`.
    """
    # Indicators of the more numerous kind are orthogonal to one another, so they are projected out one by one, and
    # only as many columns as there are of the rarer kind are left: no matrix of actions by actions.
    many, few = (cells, actions) if cells.max() > actions.max() else (actions, cells)
    rare = np.eye(int(few.max()) + 1)[few]
    columns = weights[:, None] * np.column_stack([rare, known])
    squares = np.bincount(many, weights**2)

    def without_many(column: FloatArray) -> FloatArray:
        return np.asarray(column - weights * (np.bincount(many, weights * column) / squares)[many])

    basis = orthonormal(np.stack([without_many(column) for column in columns.T], axis=1))
    left = without_many(values)
    return left - basis @ (basis.T @ left), len(squares) + basis.shape[1]


def _shares(cells: IntArray, actions: IntArray, chances: FloatArray, shown: FloatArray) -> FloatArray:
    """Return what a policy gives to each action in each cell beyond what it gives to all, of those `shown (C, K)`."""
    sums = np.bincount(cells * shown.shape[1] + actions, chances, shown.size).reshape(shown.shape)
    shares = sums / np.maximum(shown, 1.0)
    for_all = np.where(shown > 0.0, shares, np.inf).min(axis=1, keepdims=True)
    return np.where(shares > for_all * (1.0 + SAME), shares - for_all, 0.0)
