"""Crowds: hours with many times the rows that the same hour of other days has, as bots make them."""

import numpy as np
from scipy import stats

from zoosim.core.arrays import codes_of
from zoosim.core.durations import DAY, HOUR
from zoosim.core.types import BoolArray, FloatArray, IntArray
from zoosim.off_policy.checks.probe import DAYS_FOR_HOURS, DAYS_FOR_WEEKDAYS, LEAST_ROWS, Probe, of_unit_size
from zoosim.off_policy.verdict import VerdictReasons

CROWD, CROWD_ERRORS = 3.0, 5.0
"""Multiple of the median day's rows in an hour beyond which it is a crowd, and standard errors of these on top."""

FEW_WEEKS = 5
"""Nearly all weeks have a crowd at its hour that comes each week: all but one of so many."""

MOST_SHARE = 0.5
"""Share of the rows in crowds from which on they are the rule."""

REGULARS = 0.5
"""Share of the rows in crowds from which on they are of users who come at other times, too."""

CHANCE = 1e-4
"""Probability that a sound log fails by chance."""

LEAST_REWARDS, POOLED_ROWS = 5.0, 50.0
"""Expected rewards in crowds from which on a product counts by itself, and for how many rows of it all products do."""

LEAST_EFFECT = 0.05
"""By which part of the mean reward crowds must move rewards, products taken one by one."""


def check_crowds(findings: VerdictReasons, probe: Probe) -> None:
    """Compare what products earn in crowds with what they earn otherwise.

    Customers who come in crowds earn as others do; or if there is a reason, such as an offer, the log holds one case
    of it, and the interval speaks of such hours as the log has. Where most of those in crowds come at other times, too,
    they are customers.
    """
    is_crowded = _crowded(probe)
    if is_crowded is None or _are_regulars(probe, is_crowded):
        return
    likelihood, effect = _difference(probe, is_crowded)
    if effect > LEAST_EFFECT * abs(float(probe.log.rewards.mean())) and likelihood < CHANCE:
        share = f"{100 * float(is_crowded.mean()):.0f}% of the rows"
        observation = f"{share} came in hours with over {CROWD:.0f} times as many as on other days, and earn otherwise"
        advice = "leave them out if these are no customers, or if there was an offer that does not come again"
        findings.add(f"{observation}: {advice}{probe.rows_in_words(is_crowded)}", useless=False)


def _difference(probe: Probe, is_crowded: BoolArray) -> tuple[float, float]:
    """Return how likely chance makes crowds earn so much otherwise, and how much it is per row of the log."""
    log = probe.log
    values = of_unit_size(probe.residuals)
    values = values - _typical_rewards(probe, values, is_crowded)
    # Rare products, which say little one by one, count as one.
    expected = float((log.rewards[~is_crowded] != 0.0).mean()) * np.bincount(log.actions, is_crowded, log.n_actions)
    group = codes_of(np.where(expected >= LEAST_REWARDS, np.arange(log.n_actions), log.n_actions)[log.actions])
    n_groups = int(group.max()) + 1
    rows = np.bincount(group, is_crowded, n_groups)
    sums = np.bincount(group, values * is_crowded, n_groups)
    # What users earn elsewhere says how much rows vary, those of a user together.
    own_user, pair = np.unique(probe.users * n_groups + group, return_inverse=True)
    elsewhere = np.bincount(own_user % n_groups, np.bincount(pair, values * ~is_crowded) ** 2, n_groups)
    rows_elsewhere = np.bincount(group, ~is_crowded, n_groups)
    pooled = float(elsewhere.sum()) / float(rows_elsewhere.sum())
    variance = (elsewhere + POOLED_ROWS * pooled) / (rows_elsewhere + POOLED_ROWS)
    if pooled <= 0.0:
        return 1.0, 0.0
    # The mean elsewhere has an error of its own.
    chi2 = float((sums**2 / (np.maximum(rows, 1.0) * variance * (1.0 + rows / np.maximum(rows_elsewhere, 1.0)))).sum())
    effect = float(np.abs(sums).sum()) / len(log) * float(np.abs(probe.residuals).max())
    return float(stats.chi2.sf(chi2, n_groups)), effect


def _typical_rewards(probe: Probe, values: FloatArray, is_crowded: BoolArray) -> FloatArray:
    """Return for each row the mean of `values (n,)` outside of crowds at its hour of the day, shrunk to that of all."""
    assert probe.log.times is not None
    hours = probe.log.times // HOUR % 24
    overall = float(values[~is_crowded].mean())
    rows = np.bincount(hours, ~is_crowded, 24) + LEAST_ROWS
    return np.asarray(((np.bincount(hours, values * ~is_crowded, 24) + LEAST_ROWS * overall) / rows)[hours])


def _typical_counts(slot: IntArray, counts: IntArray, repeats: int, fewer: int) -> FloatArray:
    """Return the smallest but so many of the `counts (m,)` in the same `slot (m,)` of a day or week.

    It came so often in all, at times without a row.
    """
    typical = np.zeros(len(counts))
    for number in np.unique(slot):
        is_in = slot == number
        place = fewer - (repeats - int(is_in.sum()))  # among the hours with rows, if it is one
        if place >= 0:
            typical[is_in] = np.sort(counts[is_in])[min(place, int(is_in.sum()) - 1)]
    return typical


def _are_regulars(probe: Probe, is_crowded: BoolArray) -> bool:
    """Return whether most rows in crowds `(n,)` are of users who also come at other times."""
    if not probe.names_users:
        return False
    comes_otherwise = np.bincount(probe.users, ~is_crowded) > 0.0
    return bool(comes_otherwise[probe.users[is_crowded]].mean() > REGULARS)


def _crowded(probe: Probe) -> BoolArray | None:
    """Return which rows came in crowds `(n,)`; None where few did, most did, or the log does not tell."""
    times = probe.log.times
    if times is None:
        return None
    days = int(times.max()) // DAY - int(times.min()) // DAY + 1
    if (int(times.max()) - int(times.min())) // DAY < DAYS_FOR_HOURS:
        return None
    hours, place, counts = np.unique(times // HOUR, return_inverse=True, return_counts=True)
    typical = np.maximum(_typical_counts(hours % 24, counts, days, days // 2), 1.0)
    if days >= DAYS_FOR_WEEKDAYS:
        weeks = days // 7
        typical = np.maximum(typical, _typical_counts(hours % (7 * 24), counts, weeks, weeks // FEW_WEEKS))
    is_crowded = np.asarray((counts > CROWD * typical + CROWD_ERRORS * np.sqrt(typical))[place])
    if is_crowded.sum() < LEAST_ROWS or is_crowded.mean() > MOST_SHARE:
        return None
    return is_crowded
