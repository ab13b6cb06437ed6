"""Weights that should leave visitors, times and products as they are, if the propensities are right."""

import math

import numpy as np

from zoosim.core.durations import DAY
from zoosim.core.statistics import Interval
from zoosim.core.types import FloatArray
from zoosim.logs.log import Log
from zoosim.off_policy.checks.probe import LEAST_ROWS, Probe, sure_errors
from zoosim.off_policy.estimators.terms import Terms
from zoosim.off_policy.intervals.clusters import group_sums, standard_error
from zoosim.off_policy.mean_weight import has_light_tail
from zoosim.off_policy.verdict import VerdictReasons, matters

LEAST_GAP = 0.005
"""A difference as small as this share is none of a fault: logs round their propensities."""

MOST_SHARE = 0.05
"""Share of the largest 1 / propensity in an action's sum from which on its propensities are not judged."""

SUPPORTED = 0.5
"""A part of what its propensities say below which an action is too rarely in the log for mere faults."""


def imbalances(probe: Probe, weights: FloatArray) -> list[tuple[str, float]]:
    """Return what `weights (n,)` shift beyond chance, and by how many standard deviations, the clearest first.

    The standard error is at least that of values that are independent of the weights: where few rows carry the weight,
    and none of them holds a rare value, their spread tells of no error at all.
    """
    columns = _columns(probe)
    limit = sure_errors(len(columns))
    least_error = math.sqrt(float((weights**2).sum())) / len(weights)
    clear = []
    for name, values in columns.items():
        spread = float(values.std())
        if not spread:
            continue
        # Weights have the mean 1 whatever the visitor, so the mean of this is 0 if propensities are right.
        shifted = weights * ((values - values.mean()) / spread)
        sums = group_sums(probe.clusters, Terms(shifted))
        error = max(standard_error(sums), least_error)
        errors = abs(sums.value) / error if error else 0.0
        if errors > limit and abs(sums.value) > LEAST_GAP:
            clear.append((errors, name, abs(sums.value)))
    return [(name, shift) for _, name, shift in sorted(clear, reverse=True)]


def check_balance(
    findings: VerdictReasons, probe: Probe, imbalances: list[tuple[str, float]], interval: Interval
) -> None:
    """Say what the weights shift, which no policy can: who comes, and when."""
    for name, shift in imbalances:
        if matters(shift, interval):
            observation = (
                f"the weights shift {name} by {shift:.2g} standard deviations, but no choice moves who comes, or when"
            )
            advice = "the propensities are wrong, rows are missing, or the column was made after the choice"
            findings.add(f"{observation}: {advice}{probe.every_row}", useless=False)
            return


def check_actions(findings: VerdictReasons, probe: Probe) -> None:
    """Compare how often each action is in the log with how often its propensities say."""
    log = probe.log
    k = log.n_actions
    inverse = 1.0 / log.propensities
    rows = np.bincount(log.actions, minlength=k)
    total = np.bincount(log.actions, inverse, k)
    squares = np.bincount(log.actions, inverse**2, k)
    largest = np.zeros(k)
    np.maximum.at(largest, log.actions, inverse)
    offered = _offered(log)
    can_tell = (rows >= LEAST_ROWS) & (largest < MOST_SHARE * total)
    gap = np.where(can_tell, total - offered, 0.0)
    # The variance of a sum over all rows that offer the action, those without it counting 0.
    variance = squares - total**2 / np.maximum(offered, 1.0)
    errors = np.abs(gap) / np.sqrt(np.maximum(variance, 1e-12))
    errors[np.abs(gap) < LEAST_GAP * offered] = 0.0
    is_clear = errors > sure_errors(k)
    for action in np.flatnonzero(is_clear):
        is_clear[action] = has_light_tail(inverse[log.actions == action])
    errors[~is_clear] = 0.0
    if (is_clear & (total < SUPPORTED * offered)).any():
        return  # some visitors can never see it, which says nothing of the propensities of what they see
    worst = int(errors.argmax())
    if is_clear[worst]:
        ratio = f"{total[worst] / offered[worst]:.3g} times as often as its propensities say"
        advice = "propensities are wrong, or rows are missing"
        shown = probe.rows_in_words(log.actions == worst)
        findings.add(f"{log.action_name(worst)} is in the log {ratio}: {advice}{shown}", useless=False)


def _columns(probe: Probe) -> dict[str, FloatArray]:
    """Return what is known of visits before the choice, by name."""
    columns = {probe.feature_name(column): probe.inputs[:, place] for place, column in enumerate(probe.columns)}
    if probe.order is not None:
        age = np.empty(len(probe))
        age[probe.order] = np.arange(len(probe)) / len(probe)
        columns["the place in the log's time"] = age
    if probe.log.times is not None:
        day = 2.0 * math.pi * ((probe.log.times / DAY) % 1.0)
        columns |= {"the hour of the day (sine)": np.sin(day), "the hour of the day (cosine)": np.cos(day)}
    return columns


def _offered(log: Log) -> FloatArray:
    """Return in how many rows each action could be chosen `(K,)`."""
    if log.candidates.are_everything:
        return np.full(log.n_actions, float(len(log)))
    offered = np.zeros(log.n_actions)
    for start in range(0, len(log), 10_000):
        lists = log.candidate_lists(start, start + 10_000)
        offered += np.bincount(lists.flat()[1], minlength=log.n_actions)
    return len(log) - offered if log.candidates.are_lacking else offered
