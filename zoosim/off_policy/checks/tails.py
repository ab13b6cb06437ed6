"""Rewards so heavy in their tail that no interval holds, and rewards that were cut."""

import math

import numpy as np

from zoosim.core.types import FloatArray, IntArray
from zoosim.off_policy.checks.probe import Probe
from zoosim.off_policy.checks.rows import rows_in_words
from zoosim.off_policy.verdict import VerdictReasons

TAIL_SHARE = 0.05
FEWEST, MOST = 20, 500
"""The share of the rewards that the tail is told by, and how many these are at least and at most."""

DISTINCT = 0.5
"""The share of the largest rewards that must differ: a few prices, however far apart, say nothing of a tail."""

FINITE_VARIANCE = 2.0
"""The tail index at and below which the variance is infinite, and no standard error exists."""

WEAK_ERRORS, USELESS_ERRORS = 1.5, 2.5

CUT_SHARE, CUT_ROWS = 0.01, 5
"""Share of the rewards, and how many at least, that are the largest one from which on they were cut there."""


def check_tail(findings: VerdictReasons, rewards: FloatArray, numbers: IntArray) -> None:
    """Estimate the tail index of `rewards (n,)` of rows with such `numbers` by the sizes of the largest (Hill 1975)."""
    sizes = np.abs(rewards[rewards != 0.0])
    k = min(MOST, max(FEWEST, int(TAIL_SHARE * len(sizes))))
    if len(sizes) <= 2 * k:
        return
    largest = np.partition(sizes, len(sizes) - k - 1)[len(sizes) - k - 1 :]
    if len(np.unique(largest)) < DISTINCT * len(largest):
        return
    excess = float(np.log(largest / largest.min()).sum()) / k
    if not excess:
        return
    index = 1.0 / excess
    # The asymptotic standard deviation of Hill's estimator.
    error = index / math.sqrt(k)
    if index + WEAK_ERRORS * error < FINITE_VARIANCE:
        observation = f"the largest rewards have a tail of index {index:.2f} ± {error:.2f} (Hill)"
        meaning = "at 2 and below a mean has no standard error; cap rewards, and judge the capped ones"
        rows = rows_in_words(numbers[np.abs(rewards) >= largest.min()])
        findings.add(f"{observation}: {meaning}{rows}", useless=index + USELESS_ERRORS * error < FINITE_VARIANCE)


def check_cut(findings: VerdictReasons, probe: Probe) -> None:
    """Look for amounts that differ from one another, but for many that are exactly the largest."""
    rewards = probe.log.rewards
    sizes = np.abs(rewards[rewards != 0.0])
    if not len(sizes):
        return
    largest = float(sizes.max())
    below = sizes[sizes < largest]
    count = len(sizes) - len(below)
    if count < max(CUT_ROWS, CUT_SHARE * len(sizes)) or len(np.unique(below)) < DISTINCT * len(below) or not len(below):
        return
    observation = f"{count:,} rewards are exactly {largest:.6g}, the largest one, and others hardly ever the same"
    advice = "larger ones were cut there, and the value is that of cut rewards"
    rows = probe.rows_in_words(np.abs(rewards) == largest)
    findings.add(f"{observation}: {advice}{rows}", useless=False)
