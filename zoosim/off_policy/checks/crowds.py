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

REGULARS = 0.5
"""Share of the rows in crowds from which on they are of users who come at other times, too."""

CHANCE = 1e-4
"""How likely a sound log fails by chance."""

LEAST_EFFECT = 0.05
"""By which part of the mean reward crowds must move rewards, products taken one by one."""


def check_crowds(findings: Findings, probe: Probe) -> None:
    """Compare what products earn in crowds with what they earn otherwise.

    Customers who come in crowds earn as others do; or if there is a reason, such as an offer, the log holds one case
    of it, and the interval speaks of such hours as the log has. Where most of those in crowds come at other times, too,
    they are customers.
    """
    is_crowded = _crowded(probe)
    if is_crowded is None or _are_regulars(probe, is_crowded):
        return
    log = probe.log
    values = probe.residuals / max(1e-300, float(np.abs(probe.residuals).max()))
    values = values - values[~is_crowded].mean()
    own_user, pair = np.unique(probe.users * log.n_actions + log.actions, return_inverse=True)
    action = own_user % log.n_actions
    rows = np.bincount(log.actions, is_crowded, log.n_actions)
    is_common = rows >= LEAST_ROWS / 3
    sums = np.bincount(log.actions, values * is_crowded, log.n_actions)
    # Each user's sum counts once; what is earned elsewhere says how much it varies.
    elsewhere = np.bincount(pair, values * ~is_crowded) ** 2
    rows_elsewhere = np.bincount(log.actions, ~is_crowded, log.n_actions)
    variance = np.bincount(action, elsewhere, log.n_actions) / np.maximum(rows_elsewhere, 1.0)
    is_common &= variance > 0.0
    if not is_common.any():
        return
    chi2 = float((sums[is_common] ** 2 / (rows * variance)[is_common]).sum())
    effect = float(np.abs(sums[is_common]).sum()) / len(log) * float(np.abs(probe.residuals).max())
    is_large = effect > LEAST_EFFECT * abs(float(log.rewards.mean()))
    if is_large and stats.chi2.sf(chi2, int(is_common.sum())) < CHANCE:
        share = f"{100 * float(is_crowded.mean()):.0f}% of the rows"
        observation = f"{share} came in hours with over {CROWD:.0f} times as many as on other days, and earn otherwise"
        advice = "leave them out if these are no customers, or if there was an offer that does not come again"
        findings.add(f"{observation}: {advice}{probe.rows_in_words(is_crowded)}", useless=False)


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
    typical = np.ones(len(hours))
    for hour in range(24):
        is_then = hours % 24 == hour
        above = days // 2 - (days - int(is_then.sum()))  # place of the median among the days with rows, if it is one
        if above >= 0:
            typical[is_then] = np.sort(counts[is_then])[above]
    is_crowded = np.asarray((counts > CROWD * typical + CROWD_ERRORS * np.sqrt(typical))[place])
    if is_crowded.sum() < LEAST_ROWS or is_crowded.mean() > MOST_SHARE:
        return None
    return is_crowded
