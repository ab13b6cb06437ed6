"""Estimators of one value that disagree on the same rows."""

from collections.abc import Mapping
from itertools import product

from zoosim.off_policy.diagnostics import ROUNDING
from zoosim.off_policy.intervals.clusters import ClusterSums, difference, standard_error
from zoosim.off_policy.verdict import Verdict, VerdictReasons

BY_WEIGHTS, BY_MODEL = ("ips", "snips"), ("dr", "sndr")
"""Estimators that agree but for chance, without and with a reward model; others are biased by design.

Two without a model differ by the mean weight, which has a finding of its own.
"""

ERRORS = 3.5
MOST_OF_ERROR = 0.25
"""By how many standard errors of their difference two may differ, or by what part of the smaller of their own."""


def compare_estimators(estimates: Mapping[str, ClusterSums]) -> Verdict:
    """Return `weak` where two estimators differ on the same rows by more than chance brings, else `trust`."""
    findings = VerdictReasons()
    for one, other in product(BY_WEIGHTS, BY_MODEL):
        if one not in estimates or other not in estimates:
            continue
        gap = difference(estimates[one], estimates[other])
        error = standard_error(gap)
        own_error = min(standard_error(estimates[one]), standard_error(estimates[other]))
        if abs(gap.value) <= ROUNDING * max(abs(estimates[name].value) for name in (one, other)):
            continue
        if abs(gap.value) > ERRORS * error and abs(gap.value) > MOST_OF_ERROR * own_error:
            observation = (
                f"{one} says {estimates[one].value:.3g} and {other} {estimates[other].value:.3g} of the same rows"
            )
            apart = f"{abs(gap.value) / error:.1f} standard errors of their difference apart" if error else "apart"
            advice = "a feature knows the reward, or propensities are wrong"
            findings.add(f"{observation}, {apart}: {advice}", useless=False)
            break
    return findings.verdict()
