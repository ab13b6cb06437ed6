"""Checks by the order of rows: rewards that are late or drift, and rewards that stand in the wrong row."""

import math
from typing import NamedTuple

import numpy as np

from zoosim.core.statistics import Interval
from zoosim.core.types import FloatArray, IntArray
from zoosim.off_policy.checks.probe import LEAST_ROWS, Probe, fit_residuals, of_unit_size, runs_of_rows, sure_errors
from zoosim.off_policy.estimators.terms import Terms
from zoosim.off_policy.intervals.clusters import group_sums, standard_error
from zoosim.off_policy.verdict import VerdictReasons, matters

LAST_SHARES = (0.5, 0.25, 0.125, 0.0625)
LATE_SHARE = 0.25
"""Shares of the rows, at the log's end, whose rewards are compared with those before; and those that may be late."""

CHANGE_ERRORS = 3.7
"""By how many standard errors rewards must change: one of the comparisons does so by chance in one log of 1,000."""

ACTION_SHARES = (0.5, 0.25)
"""Shares of the rows, at the log's end, in which each action's rewards are compared with those before."""

TESTS = 5
"""For how many tests that of each action counts, as its rewards are few and weighted."""

ROUNDING = 1e-9
"""Rewards that changed by less than this did not."""

SHIFT_ERRORS = 3.0
BLOCKS, BLOCK = 10, 1_000
"""Runs of neighbouring rows that show whether rewards stand in the wrong row."""


class RewardDrift(NamedTuple):
    """Change of rewards over the log, relative to their mean.

    `change` is that of the last `share` of the rows against those before; with a share of 0 that from the log's
    beginning to its end, along a line. `errors` is its size in standard errors.
    """

    share: float
    change: float
    errors: float

    @property
    def of_mean(self) -> float:
        """By what part of it the log's mean and the value at the log's end differ."""
        return abs(self.change) * (1.0 - self.share if self.share else 0.5)

    @property
    def description(self) -> str:
        """The change in words."""
        percent = f"{100 * abs(self.change):.0f}%"
        errors = f"({self.errors:.1f} standard errors)"
        if not self.share:
            return f"over the log rewards {'fall' if self.change < 0.0 else 'rise'} by {percent} {errors}"
        than_before = f"{percent} {'lower' if self.change < 0.0 else 'higher'} than before"
        return f"in the last {100 * self.share:.3g}% of the rows rewards are {than_before} {errors}"


class ActionChanges(NamedTuple):
    """Change of each action's rewards: `differences (K,)` in the last `shares (K,)` of the rows, 0 without one."""

    differences: FloatArray
    shares: FloatArray


def largest_change(probe: Probe, values: FloatArray, mean: float) -> RewardDrift | None:
    """Return the clearest change of `values (n,)` over the log, as a part of a mean; None without one."""
    order = probe.order
    residuals = probe.without_cycles(values)
    mean = abs(mean)
    n = len(probe)
    if order is None or not mean:
        return None
    age = np.empty(n)
    age[order] = (np.arange(n) + 0.5) / n
    # The slope on age, whose variance is 1 / 12, and the difference of two means.
    contrasts = {0.0: 12.0 * (age - 0.5)}
    for share in LAST_SHARES:
        contrasts[share] = np.where(age > 1.0 - share, 1.0 / share, -1.0 / (1.0 - share))
    largest = None
    for share, contrast in contrasts.items():
        difference = group_sums(probe.clusters, Terms(residuals * contrast))
        error = standard_error(difference)
        errors = abs(difference.value) / error if error else 0.0
        if errors > CHANGE_ERRORS and (largest is None or errors > largest.errors):
            largest = RewardDrift(share, difference.value / mean, errors)
    return largest


def reward_change(probe: Probe, weights: FloatArray | None = None) -> RewardDrift | None:
    """Return how rewards changed, choices and visitors being alike; with `weights (n,)` those of a policy."""
    rewards = probe.log.rewards
    residuals = probe.unselected_residuals
    if weights is not None:
        rewards = weights * rewards
        residuals = weights * probe.residuals
    return largest_change(probe, residuals, float(rewards.mean()))


def visitor_change(probe: Probe, weights: FloatArray) -> RewardDrift | None:
    """Return how a policy's rewards changed with the visitors, by how they go by these."""
    rewards = weights * probe.log.rewards
    return largest_change(probe, probe.by_visitors(rewards), float(rewards.mean()))


def check_visitor_change(
    findings: VerdictReasons, change: RewardDrift, probe: Probe, influence: FloatArray, interval: Interval
) -> None:
    """Say that other visitors came in time, of whom a policy earns more or less."""
    if matters(change.of_mean, interval):
        meaning = f"{_at_the_end(probe, influence, interval)}; if rows are missing, such as those of a host, add them"
        findings.add(f"other visitors came: by their features, {change.description}; {meaning}", useless=False)


def check_change(
    findings: VerdictReasons, change: RewardDrift, probe: Probe, influence: FloatArray, interval: Interval
) -> None:
    """Say that rewards changed over the log, and what the value is at its end.

    The estimate is the mean over the log's time; `influence (n,)` is that of its rows.
    """
    assert probe.order is not None
    if not matters(change.of_mean, interval):
        return
    if change.change < 0.0 and 0.0 < change.share <= LATE_SHARE:
        advice = "they may not have arrived yet: leave those rows out, or wait"
        is_last = np.zeros(len(probe), bool)
        is_last[probe.order[round((1.0 - change.share) * len(probe)) :]] = True
        findings.add(f"{change.description}; {advice}{probe.rows_in_words(is_last)}", useless=False)
        return
    findings.add(f"drift: {change.description}; {_at_the_end(probe, influence, interval)}", useless=False)


def _at_the_end(probe: Probe, influence: FloatArray, interval: Interval) -> str:
    """Say what an estimate is in the log's last quarter, and which rows these are."""
    assert probe.order is not None
    is_late = np.zeros(len(probe), bool)
    is_late[probe.order[3 * len(probe) // 4 :]] = True
    latest = group_sums(probe.clusters, Terms(np.where(is_late, influence / is_late.mean(), 0.0)))
    value = interval.mean + latest.value
    half = 1.96 * standard_error(latest)
    rows = probe.rows_in_words(is_late)
    return f"the value is the mean over the log; in its last quarter it is {value:.3g} ± {half:.2g}{rows}"


def action_changes(probe: Probe) -> ActionChanges:
    """Return how each action's rewards changed at the log's end, in its second half or, more clearly, its last quarter.

    Changes that chance may have brought are 0.
    """
    k = probe.log.n_actions
    changes = ActionChanges(np.zeros(k), np.zeros(k))
    if probe.order is None:
        return changes
    clearest = np.full(k, sure_errors(len(ACTION_SHARES) * TESTS * k))
    for share in ACTION_SHARES:
        n_early = round((1.0 - share) * len(probe))
        differences, errors = _action_differences(probe, probe.order[:n_early], probe.order[n_early:])
        is_clear = (np.abs(differences) > ROUNDING) & (np.abs(differences) > clearest * errors)
        changes.differences[is_clear] = differences[is_clear]
        changes.shares[is_clear] = share
        clearest[is_clear] = np.abs(differences[is_clear]) / np.maximum(errors[is_clear], ROUNDING)
    return changes


def _action_differences(probe: Probe, early: IntArray, late: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return how much more each action earns in the late rows than in the early ones, and standard errors `(K,)`.

    The errors are infinite for actions of too few rows.
    """
    k = probe.log.n_actions
    means = []
    variances = []
    is_enough = np.ones(k, bool)
    for rows in (early, late):
        # Weighted by 1 / p, so that what writes the log may learn to whom it shows an action.
        actions = probe.log.actions[rows]
        weights = 1.0 / probe.log.propensities[rows]
        total = np.maximum(np.bincount(actions, weights, k), 1.0)
        mean = np.bincount(actions, weights * probe.residuals[rows], k) / total
        shares = weights / total[actions]
        deviations = shares * (probe.residuals[rows] - mean[actions])
        means.append(mean)
        variances.append(np.bincount(actions, deviations**2, k))
        is_enough &= np.bincount(actions, minlength=k) >= LEAST_ROWS
        is_enough &= np.bincount(actions, shares**2, k) * LEAST_ROWS <= 1.0  # as many effective rows
    errors = np.where(is_enough, np.sqrt(variances[0] + variances[1]), np.inf)
    return means[1] - means[0], errors


def check_action_changes(
    findings: VerdictReasons, probe: Probe, changes: ActionChanges, weights: FloatArray, interval: Interval
) -> None:
    """Say which action's rewards changed most, of those by which a policy's value moved."""
    if not changes.shares.any() or not interval.mean:
        return
    mass = np.bincount(probe.log.actions, weights, probe.log.n_actions) / len(weights)
    # The value is the mean over the log: it differs from that at the end by the share of the rows before.
    errors_of_value = np.abs(changes.differences * mass * (1.0 - changes.shares))
    worst = int(errors_of_value.argmax())
    if matters(float(errors_of_value[worst] / abs(interval.mean)), interval):
        part = f"in the last {100 * changes.shares[worst]:.3g}% of the rows"
        observation = (
            f"the rewards of {probe.log.action_name(worst)} changed by {changes.differences[worst]:+.3g} {part}"
        )
        advice = "they may be late, its number may mean another product now, or tastes moved"
        rows = probe.rows_in_words(probe.log.actions == worst)
        findings.add(f"{observation}: {advice}{rows}", useless=False)


def check_shift(findings: VerdictReasons, probe: Probe) -> None:
    """Compare how well an action and its visitor predict the reward of their row with that of the rows beside it."""
    rewards_of_rows = of_unit_size(probe.log.rewards)  # squares are squared
    for order in _orders(probe):
        rows = runs_of_rows(len(order) - 2, BLOCKS, BLOCKS * BLOCK) + 1  # all but the first and the last
        here = order[rows]
        neighbours = [order[rows + step] for step in (0, 1, -1)]
        rewards = np.stack([rewards_of_rows[each] for each in neighbours], axis=1)
        everything = np.arange(len(here))
        residuals = fit_residuals(
            [probe.inputs[here]], probe.log.actions[here], rewards, probe.log.n_actions, everything
        )
        # Less what the mean alone leaves, so that it falls out how large the rewards of those rows happen to be.
        own_error, *neighbour_errors = (residuals**2 - (rewards - rewards.mean(axis=0)) ** 2).T
        for neighbour_error, name in zip(neighbour_errors, ("after", "before"), strict=True):
            gain = own_error - neighbour_error
            error = float(gain.std()) / math.sqrt(len(gain))
            if error and float(gain.mean()) > SHIFT_ERRORS * error:
                observation = f"rewards go by the choice in the row {'before' if name == 'after' else 'after'}"
                meaning = f"not by that of their own: they stand in the wrong row{probe.every_row}"
                findings.add(f"{observation}, {meaning}", useless=True)
                return


def _orders(probe: Probe) -> list[IntArray]:
    """Return the orders of rows in which a reward may have slipped: that of the log, and that of time."""
    as_logged = np.arange(len(probe))
    if probe.order is None or np.array_equal(probe.order, as_logged):
        return [as_logged]
    return [as_logged, probe.order]
