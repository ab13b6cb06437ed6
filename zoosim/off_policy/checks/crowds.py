"""Crowds: hours with many times the rows that the same hour of other days has, as bots make them."""

import numpy as np
from scipy import stats

from zoosim.core.durations import DAY, HOUR
from zoosim.core.types import BoolArray
from zoosim.off_policy.checks.probe import DAYS_FOR_HOURS, LEAST_ROWS, Probe
from zoosim.off_policy.verdict import Findings

CROWD, CROWD_ERRORS = 3.0, 5.0
"""How many times as many rows as the median day's make an hour a crowd, and how many of their standard errors more."""

MOST_SHARE = 0.5
"""Share of the rows in crowds from which on they are the rule."""

CHANCE = 1e-4
"""How likely a sound log fails by chance."""

LEAST_EFFECT = 0.05
"""By which part of the mean reward crowds must move rewards, products taken one by one."""


def check_crowds(findings: Findings, probe: Probe) -> None:
    """Compare what products earn in crowds with what they earn otherwise.

    Customers who come in crowds earn as others do; or if there is a reason, such as an offer, the log holds one case
    of it, and the interval speaks of such hours as the log has.
    """
    is_crowded = _crowded(probe)
    if is_crowded is None:
        return
    log = probe.log
    values = probe.residuals - probe.residuals[~is_crowded].mean()
    own_user, pair = np.unique(probe.users * log.n_actions + log.actions, return_inverse=True)
    action = own_user % log.n_actions
    rows = np.bincount(log.actions, is_crowded, log.n_actions)
    is_common = rows >= LEAST_ROWS / 3
    sums = np.bincount(log.actions, values * is_crowded, log.n_actions)
    # Each user's sum counts once; what is earned elsewhere says how much it varies.
    elsewhere = np.bincount(pair, values * ~is_crowded) ** 2
    variance = np.bincount(action, elsewhere, log.n_actions) / np.maximum(np.bincount(log.actions) - rows, 1.0)
    is_common &= variance > 0.0
    if not is_common.any():
        return
    chi2 = float((sums[is_common] ** 2 / (rows * variance)[is_common]).sum())
    effect = float(np.abs(sums[is_common]).sum()) / len(log)
    is_large = effect > LEAST_EFFECT * abs(float(log.rewards.mean()))
    if is_large and stats.chi2.sf(chi2, int(is_common.sum())) < CHANCE:
        share = f"{100 * float(is_crowded.mean()):.0f}% of the rows"
        observation = f"{share} came in hours with over {CROWD:.0f} times as many as on other days, and earn otherwise"
        advice = "leave them out if these are no customers, or if there was an offer that does not come again"
        findings.add(f"{observation}: {advice}{probe.rows_in_words(is_crowded)}", useless=False)


def _crowded(probe: Probe) -> BoolArray | None:
    """Return which rows came in crowds `(n,)`; None where few did, most did, or the log does not tell."""
    times = probe.log.times
    if times is None:
        return None
    hours = times // HOUR
    hours = hours - int(hours.min()) // 24 * 24
    if (int(times.max()) - int(times.min())) // DAY < DAYS_FOR_HOURS:
        return None
    n_days = int(hours.max()) // 24 + 1
    counts = np.bincount(hours, minlength=24 * n_days).reshape(n_days, 24)
    typical = np.maximum(np.median(counts, axis=0), 1.0)
    is_crowd = counts > CROWD * typical + CROWD_ERRORS * np.sqrt(typical)
    is_crowded = np.asarray(is_crowd.ravel()[hours])
    if is_crowded.sum() < LEAST_ROWS or is_crowded.mean() > MOST_SHARE:
        return None
    return is_crowded
