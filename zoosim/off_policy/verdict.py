"""The verdict on an estimate: trust, weak or do not use, and why. Its limits stand in one place, to be tuned."""

import math
from typing import NamedTuple

from zoosim.core.statistics import Interval
from zoosim.off_policy.diagnostics import ErrorFigures, ModelFigures, WeightFigures

WORDS = TRUST, WEAK, DO_NOT_USE = ("trust", "weak", "do not use")


class Verdict(NamedTuple):
    """A word, `trust`, `weak` or `do not use`, and the reasons against a better one."""

    word: str
    reasons: tuple[str, ...]


class Limits(NamedTuple):
    """From where on a figure makes an estimate weak, and from where on useless."""

    weak: float
    useless: float


ESS = Limits(100.0, 15.0)
CARRIERS = Limits(40.0, 1.0)
"""Few carriers make the studentised bootstrap's interval wide, not wrong; below 1 there is no error bar."""
CARRIERS_ASYMPTOTIC = Limits(40.0, 5.0)
CLUSTERS = Limits(40.0, 10.0)
MAX_SHARE = Limits(0.05, 0.2)
MEAN_ERRORS = Limits(3.0, 4.5)
MEAN_GAP = Limits(0.25, 0.5)
LEAST_GAP = 1e-3
"""A mean weight as near to 1 as this is none of a fault: logs round their propensities."""
LOST_MASS = Limits(0.01, 0.1)
CLIP_SHIFT = Limits(1.5, 3.0)
SLOPE = Limits(0.5, 0.0)
BIAS_ERRORS = Limits(0.5, 1.5)
GAP_ERRORS = Limits(2.0, 3.0)
MOVED_ERRORS = Limits(3.0, math.inf)
"""An interval holds for the log's time, however the value moved; what comes next is another matter."""
KERNEL_ERRORS = Limits(0.75, 2.0)
HALF_ESS = Limits(40.0, 5.0)
FAULT = 0.5
"""A fault of the log that moves the value by less than this share of half the interval makes no estimate useless."""
GROSS = 0.5
"""Unless the mean weight is as far from 1, or as many of the policy's choices are hardly in the log."""


class KernelFigures(NamedTuple):
    """A kernel's `bandwidth`: how far halving it to this `moved` the value, in standard errors, which tells of bias.

    `half_ess` is the effective sample size at half of it: where it is small, what bias remains cannot be told.
    """

    bandwidth: float
    moved: float
    half_ess: float


class Findings:
    """Collect reasons, each weak or useless."""

    def __init__(self) -> None:
        self.found: list[tuple[bool, str]] = []

    def above(self, value: float, limits: Limits, reason: str) -> None:
        """Take in a reason where a value lies above its limits."""
        if not value <= limits.weak:
            self.found.append((not value <= limits.useless, reason))

    def below(self, value: float, limits: Limits, reason: str) -> None:
        """Take in a reason where a value lies below its limits."""
        if not value >= limits.weak:
            self.found.append((not value >= limits.useless, reason))

    def verdict(self) -> Verdict:
        """Return the word, and the reasons, the gravest first."""
        ordered = sorted(self.found, key=lambda finding: not finding[0])
        word = TRUST if not ordered else DO_NOT_USE if ordered[0][0] else WEAK
        return Verdict(word, tuple(reason for _, reason in ordered))


def judge_weighted(
    weights: WeightFigures,
    errors: ErrorFigures,
    interval: Interval,
    n_clusters: int,
    bias: float = 0.0,
    carriers: Limits = CARRIERS,
    kernel: KernelFigures | None = None,
) -> Verdict:
    """Judge an estimate that leans on weights; `bias` is how many standard errors its cut weights move it.

    `carriers` are the limits that go with the kind of interval.
    """
    findings = Findings()
    _weigh_mean(findings, weights, interval)
    _weigh_overlap(findings, weights, interval)
    findings.below(
        weights.ess, ESS, f"the log counts for {weights.ess:,.0f} rows of this policy's own (effective sample size)"
    )
    largest = f"{weights.max_weight:,.0f}" if weights.max_weight >= 100.0 else f"{weights.max_weight:.3g}"
    share = f"the largest weight, {largest}, is {100 * weights.max_share:.0f}% of all weight"
    findings.above(weights.max_share, MAX_SHARE, share)
    _weigh_error(findings, errors, interval, n_clusters, carriers)
    if errors.clip_shift is not None:
        shift = f"cutting the largest weights moves the value by {errors.clip_shift:.1f} standard errors"
        findings.above(errors.clip_shift, CLIP_SHIFT, shift)
    moved = f"its cut or shrunken weights move the value by {bias:.1f} standard errors, which is bias"
    findings.above(bias, BIAS_ERRORS, moved)
    if kernel is not None:
        _weigh_kernel(findings, kernel)
    return findings.verdict()


def _weigh_kernel(findings: Findings, kernel: KernelFigures) -> None:
    moved = f"halving the bandwidth to {kernel.bandwidth:.3g} moved the value by {kernel.moved:.1f} standard errors"
    findings.above(kernel.moved, KERNEL_ERRORS, f"{moved}, which is bias")
    left = f"halving the bandwidth again would leave {kernel.half_ess:,.0f} effective rows"
    findings.below(kernel.half_ess, HALF_ESS, f"{left}, too few to tell how much bias is left")


def judge_model(
    model: ModelFigures,
    errors: ErrorFigures,
    interval: Interval,
    n_clusters: int,
    weighted: Verdict,
    carriers: Limits = CARRIERS,
) -> Verdict:
    """Judge the direct method by what weights say of its model; weak at best.

    Its interval knows how visitors vary and not how wrong the model is; the weights tell that, where they can.
    """
    findings = Findings()
    findings.found.append((False, "its interval leaves out the reward model's own error"))
    _weigh_error(findings, errors, interval, n_clusters, carriers)
    if weighted.word == DO_NOT_USE:
        findings.found.append((True, f"the log cannot check the reward model: {weighted.reasons[0]}"))
    elif model.gap_error > 0.0:
        off = abs(model.gap) / model.gap_error
        findings.above(off, GAP_ERRORS, f"weighted residuals find the reward model off by {off:.1f} standard errors")
    if model.slope is not None:
        slope = f"rewards rise by {model.slope:.2f} where the reward model says 1 (calibration)"
        findings.below(model.slope, SLOPE, slope)
    return findings.verdict()


def _weigh_mean(findings: Findings, weights: WeightFigures, interval: Interval) -> None:
    gap, error = abs(weights.mean_weight - 1.0), weights.mean_weight_error
    mean = f"{weights.mean_weight:.{3 if gap > 0.01 else 10}g}"
    reason = f"the mean weight is {mean}, expected 1: the propensities are wrong, or actions are missing"
    off = 0.0 if gap <= LEAST_GAP else gap / error if error > 0.0 else math.inf
    if gap > MEAN_GAP.useless or off > MEAN_ERRORS.weak:
        useless = gap > MEAN_GAP.useless or off > MEAN_ERRORS.useless
        findings.found.append((useless and _matters(gap, interval), reason))
    else:
        findings.above(gap, MEAN_GAP, reason)


def _weigh_overlap(findings: Findings, weights: WeightFigures, interval: Interval) -> None:
    if weights.lost_mass is not None and not weights.lost_mass <= LOST_MASS.weak:
        lost = f"{100 * weights.lost_mass:.1f}% of its choices are hardly in the log"
        where = f", action {weights.lost_action} most of all" if weights.lost_action is not None else ""
        useless = not weights.lost_mass <= LOST_MASS.useless and _matters(weights.lost_mass, interval)
        findings.found.append((useless, f"{lost}{where} (overlap)"))


def _matters(share: float, interval: Interval) -> bool:
    """Tell whether a fault in a `share` of the weight may move the value out of what the interval allows for."""
    if share > GROSS or interval.low is None or interval.high is None:
        return True
    return not share * abs(interval.mean) <= FAULT * (interval.high - interval.low) / 2.0


def _weigh_error(
    findings: Findings, errors: ErrorFigures, interval: Interval, n_clusters: int, carriers: Limits
) -> None:
    findings.below(n_clusters, CLUSTERS, f"the log holds {n_clusters:,} independent users or rows")
    carried = f"the error bar rests on {errors.carriers:,.0f} of the users or rows"
    findings.below(errors.carriers, carriers, carried)
    ends = {"lower": interval.low, "upper": interval.high}
    missing = [name for name, end in ends.items() if end is None or not math.isfinite(end)]
    if missing:
        what = f"the interval has no {missing[0]} end" if len(missing) == 1 else "there is no interval"
        findings.found.append((len(missing) == 2, f"too few rewards: {what}"))
    if errors.moved is not None:
        earlier, later, off = errors.moved
        drift = f"the value moved from {earlier:.3g} to {later:.3g} between the log's halves"
        findings.above(off, MOVED_ERRORS, f"{drift}, by {off:.1f} standard errors (drift)")
