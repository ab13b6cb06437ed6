"""Rows that go together beyond the users that the log names."""

import math

import numpy as np

from zoosim.core.types import FloatArray
from zoosim.off_policy.checks.groups import RowGroups, VarianceRatio
from zoosim.off_policy.checks.probe import REPEATED, Probe
from zoosim.off_policy.verdict import VerdictReasons

HARMLESS = 1.2
"""Factor by which the estimate's variance may grow with rows put together by features."""

GROUP_ERRORS = 4.5
GROUP_VARIANCE = 1.2
"""Standard errors and factor by which sums of rows that share something may vary more than independent users'."""


def check_dependence(findings: VerdictReasons, probe: Probe, influence: FloatArray, weights: FloatArray) -> None:
    """Compare how much an estimate varies with what it would vary if users, or rows without users, were independent.

    Args:
        findings: Receives the reasons against the log.
        probe: The log.
        influence: Each row's influence on the estimate `(n,)`.
        weights: The policy's importance weights `(n,)`.
    """
    largest = float(np.abs(influence).max())
    if not largest:
        return
    influence = influence / largest  # whose fourth powers are summed up, and vanish where rewards are tiny
    _check_repeated(findings, probe, influence)
    # Of as many rewards, weighted ones hold so much less of what groups share.
    shares = weights / max(float(weights.sum()), np.finfo(float).tiny)
    dilution = max(float((shares**2).sum()) * len(shares), 1.0)
    for group, growth in zip(probe.groups, probe.reward_growths, strict=True):
        is_large = 1.0 + (growth.factor - 1.0) / dilution > GROUP_VARIANCE
        if is_large and growth.errors > GROUP_ERRORS:
            _add_group(findings, probe, group, growth)
            return


def _add_group(findings: VerdictReasons, probe: Probe, group: RowGroups, growth: VarianceRatio) -> None:
    users = ", beyond their users" if probe.names_users else ""
    observation = f"{group.name} go together{users}: their sums vary {growth.factor:.2g} times as much as they should"
    wider = "the interval takes them for independent and may be too narrow"
    sums = np.abs(np.bincount(group.of_row, probe.residuals))
    is_named = group.of_row == int(sums.argmax())
    advice = f"log what these rows share, as their user{probe.rows_in_words(is_named, 'most of all')}"
    findings.add(f"{observation}; {wider}; {advice}", useless=False)


def _check_repeated(findings: VerdictReasons, probe: Probe, influence: FloatArray) -> None:
    """Put rows with the same measured numbers together, as visits of one user."""
    visitor = probe.visitor_of_row
    if visitor is None or probe.repeated <= REPEATED:
        return
    as_logged = np.bincount(probe.users, influence) ** 2
    squares = np.bincount(visitor, influence) ** 2
    total = float(squares.sum())
    expected = float(as_logged.sum())
    fourth_powers = float((squares**2).sum())
    if not fourth_powers or not expected:
        return
    growth = total / expected
    groups = total**2 / fourth_powers
    # By two standard errors: a sum of as many squared normal numbers varies by sqrt(2 / groups) of itself.
    most_growth = growth + 2.0 * math.sqrt(2.0 / groups)
    if most_growth < HARMLESS:
        return
    of_whom = "of another user" if probe.names_users else "of another"
    observation = f"{100 * probe.repeated:.0f}% of the rows repeat the features {of_whom}, as visits of a user do"
    wider = f"if they are, the interval may have to be {math.sqrt(most_growth):.2g} times as wide"
    largest = visitor == int(squares.argmax())
    rows = probe.rows_in_words(largest, "most of all")
    logged = "its ids may not be those of users" if probe.names_users else "the log names no users"
    findings.add(f"{observation}, and {logged}: {wider}; log user ids{rows}", useless=False)
