"""The verdict on estimates of what visitors bring in all: by the weights of lives, decision by decision."""

from typing import NamedTuple

import numpy as np

from zoosim.core.number_format import counted, with_interval
from zoosim.core.statistics import Interval
from zoosim.core.types import FloatArray
from zoosim.off_policy.diagnostics import ErrorFigures
from zoosim.off_policy.estimators.lives import LifeRows, final_weights, sums_by_step
from zoosim.off_policy.verdict import (
    EFFECTIVE_GROUPS,
    MAX_SHARE,
    TRUST,
    Verdict,
    VerdictLimits,
    VerdictReasons,
    check_error,
)

LIFE_ESS = VerdictLimits(100.0, 20.0)
FINAL_DISTANCE = VerdictLimits(0.1, 0.2)
CENSORED_SHARE = VerdictLimits(0.1, 0.5)
FAMILY_ERRORS = 1.96
"""From so many standard errors on, weights and model do not agree."""

ADVICE = "ask for an A/B test by visitor"


class LifeFigures(NamedTuple):
    """Figures of visitors' weights, of which the mean is 1 at each decision where the log overlaps with the target.

    `final_mean` is the mean weight of whole lives; `least_ess` the smallest effective number of visitors at any
    decision, and `least_step` that decision's number; `largest_share` is the largest share of all weight that one
    visitor has at any decision. `horizon` counts the first decisions up to which no figure is weak, of `n_steps`.
    `censored` is the share of the visitors who were cut off.
    """

    final_mean: float
    least_ess: float
    least_step: int
    largest_share: float
    horizon: int
    n_steps: int
    censored: float

    def horizon_sentence(self, first: tuple[float, float]) -> str:
        """Say up to which decision an estimate holds, and what is earned there (a value, and half its interval)."""
        if self.horizon == 0:
            return f"the log tells of no decision of a visitor: {ADVICE}"
        value = with_interval(first[0], first[0] - first[1], first[0] + first[1])
        if self.horizon == self.n_steps:
            return f"the log tells of all decisions of visitors, {self.n_steps} at most"
        decisions = "first decision" if self.horizon == 1 else f"first {self.horizon} decisions"
        return f"the log tells of a visitor's {decisions}, worth {value.value} ({value.interval})"


def life_figures(rows: LifeRows, weights: FloatArray) -> LifeFigures:
    """Compute the figures of each decision's `weights (n,)`; who has gone keeps the last one."""
    each = weights * rows.scale
    sums = sums_by_step(rows, each)
    squares = sums_by_step(rows, each**2)
    ess = np.divide(sums**2, squares, out=np.zeros(rows.n_steps), where=squares > 0.0)
    largest = np.zeros(rows.n_steps + 1)
    np.maximum.at(largest, rows.step, each)
    gone = rows.last[rows.has_ended]
    kept = np.zeros(rows.n_steps + 1)
    np.maximum.at(kept, rows.step[gone] + 1, each[gone])
    largest = np.maximum(largest, np.maximum.accumulate(kept))[:-1]
    share = np.divide(largest, sums, out=np.ones(rows.n_steps), where=sums > 0.0)
    distance = np.abs(sums / rows.n_visitors - 1.0)
    is_weak = (ess < LIFE_ESS.weak) | (share > MAX_SHARE.weak) | (distance > FINAL_DISTANCE.weak)
    return LifeFigures(
        final_mean=float(final_weights(rows, weights).mean()),
        least_ess=float(ess.min()),
        least_step=int(ess.argmin()),
        largest_share=float(share.max()),
        horizon=int(is_weak.argmax()) if is_weak.any() else rows.n_steps,
        n_steps=rows.n_steps,
        censored=1.0 - float(rows.has_ended.mean()),
    )


def judge_life(
    figures: LifeFigures,
    errors: ErrorFigures,
    interval: Interval,
    n_clusters: int,
    apart: float | None,
    min_groups: VerdictLimits = EFFECTIVE_GROUPS,
) -> Verdict:
    """Judge an estimate of what a new visitor brings.

    Args:
        figures: Figures of visitors' weights.
        errors: Figures of the estimate's error.
        interval: The estimate and its interval.
        n_clusters: How many independent users the log holds.
        apart: How many standard errors lie between this estimate and one of the other family, weights or model; None
            where there is no model.
        min_groups: How few effective groups its kind of interval bears.
    """
    findings = VerdictReasons()
    mean = f"the mean weight of whole lives is {figures.final_mean:.2g}, expected 1"
    findings.above(abs(figures.final_mean - 1.0), FINAL_DISTANCE, mean)
    visitors = f"{counted(figures.least_ess, 'visitor')} in effect at decision {figures.least_step}"
    findings.below(figures.least_ess, LIFE_ESS, f"the log has {visitors}, counted from 0")
    largest = f"one visitor has {100.0 * figures.largest_share:.0f}% of all weight"
    findings.above(figures.largest_share, MAX_SHARE, f"{largest} at some decision")
    cut_off = f"the log ends before {100.0 * figures.censored:.0f}% of the visitors do; the others stand for them"
    findings.above(figures.censored, CENSORED_SHARE, cut_off)
    if apart is None:
        findings.add("no model checks the weights, as the policy's other probabilities are unknown", useless=False)
    elif apart > FAMILY_ERRORS:
        findings.add(f"weights and a model lie {apart:.1f} standard errors apart", useless=False)
    check_error(findings, errors, interval, n_clusters, min_groups)
    verdict = findings.verdict()
    return verdict if verdict.word == TRUST else Verdict(verdict.word, (*verdict.reasons, ADVICE))
