"""Rewards that go by an earlier choice than that of their row: clocks of hosts that differ, or clicks joined late."""

import numpy as np
from scipy import stats

from zoosim.core.types import FloatArray, IntArray
from zoosim.off_policy.checks.choices import Choices
from zoosim.off_policy.checks.probe import LEAST_ROWS, Probe, runs_of_rows
from zoosim.off_policy.verdict import Findings

ROWS_LATE = (1, 2, 3, 4, 5, 6)
"""How many rows late rewards may be."""

SPACINGS, STEPS = 20.0, 80
"""How late in time they may be, in typical spacings of rows, and how many delays are tried up to that."""

SECOND = 1_000_000
CHANCE = 2e-3
"""How likely a sound log fails: few rows in thousands are enough to fool, and hard to see."""

RUNS, RUN = 10, 2_000
"""Runs of neighbouring rows that are looked at."""


def check_clocks(findings: Findings, probe: Probe, choices: Choices) -> None:
    """Look for rewards that go by what was shown before: in an earlier row, at an earlier time, or to the same user.

    What visitors were shown by chance says nothing of what is earned afterwards in other rows.
    """
    order = probe.order
    if order is None or not probe.residuals.any() or len(np.unique(probe.log.actions)) < 2:
        return
    order = order[runs_of_rows(len(order), RUNS, RUNS * RUN)]
    lags = [(f"{lag} row{'s' * (lag > 1)}", order[:-lag], order[lag:]) for lag in ROWS_LATE]
    user = probe.people
    if user is not None:
        by_user = order[np.argsort(user[order], kind="stable")]
        is_same = user[by_user[1:]] == user[by_user[:-1]]
        lags.append(("one row of the user", by_user[:-1][is_same], by_user[1:][is_same]))
    lags += _delays(probe, order)
    lags = [lag for lag in lags if len(lag[1]) >= LEAST_ROWS]
    if not lags:
        return
    likelihoods = _likelihoods(choices, [(shown, earned) for _, shown, earned in lags])
    worst = int(likelihoods.argmin())
    if likelihoods[worst] < CHANCE / len(lags):
        name, _, earned = lags[worst]
        is_named = np.zeros(len(probe), bool)
        is_named[earned[probe.log.rewards[earned] != 0.0]] = True
        observation = f"rewards go by what was shown {name} before their own"
        advice = "some stand in the wrong row, by clocks that differ or a late join"
        findings.add(f"{observation}: {advice}{probe.rows_in_words(is_named)}", useless=False)


def _delays(probe: Probe, order: IntArray) -> list[tuple[str, IntArray, IntArray]]:
    """Return rows beside those that were the last ones some time after them."""
    times = probe.log.times
    if times is None:
        return []
    times = times[order]
    spacing = float(np.median(np.diff(times)))
    if not spacing:
        return []
    delays = []
    for delay in np.linspace(SPACINGS / STEPS, SPACINGS, STEPS) * spacing:
        place = np.searchsorted(times, times + int(delay), side="right") - 1
        is_later = place > np.arange(len(order))
        delays.append((f"{delay / SECOND:.3g} s", order[is_later], order[place[is_later]]))
    return delays


def _likelihoods(choices: Choices, pairs: list[tuple[IntArray, IntArray]]) -> FloatArray:
    """Return how likely chance makes rewards of rows go by the choices of others as they do, for each pair of both.

    Either by some of all terms that tell choices apart, or as rewards go by the choices of their own rows.

    Args:
        choices: What tells choices apart.
        pairs: Rows that were shown, and those in which their rewards may be booked.
    """
    n = len(choices.rewards)
    rewards = choices.rewards - choices.own
    summed = np.stack([np.bincount(shown, rewards[earned], n) for shown, earned in pairs])
    products = summed @ choices.terms
    variances = np.array([float((rewards[earned] ** 2).mean()) for _, earned in pairs])
    variances = np.maximum(variances, 1e-300)
    in_any_way = stats.chi2.sf((products**2).sum(axis=1) / variances, products.shape[1])
    sizes = np.array([float((choices.own[shown] ** 2).sum()) for shown, _ in pairs])
    errors = (summed @ choices.own) / np.sqrt(np.maximum(sizes * variances, 1e-300))
    return np.asarray(2.0 * np.minimum(in_any_way, stats.norm.sf(errors)))
