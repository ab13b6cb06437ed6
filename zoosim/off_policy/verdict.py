"""The verdict on an estimate: trust, weak or do not use, and why; the limits on weights and errors stand here."""

import math
from typing import NamedTuple

from zoosim.core import number_format
from zoosim.core.statistics import Interval
from zoosim.off_policy.diagnostics import ErrorFigures, ModelFigures, RewardCount, WeightFigures
from zoosim.off_policy.evidence import FEW_REWARDS, rewards_in_words

WORDS = TRUST, WEAK, DO_NOT_USE = ("trust", "weak", "do not use")


class Verdict(NamedTuple):
    """A word, `trust`, `weak` or `do not use`, and the reasons against a better one."""

    word: str
    reasons: tuple[str, ...]


class VerdictLimits(NamedTuple):
    """From where on a figure makes an estimate weak, and from where on useless."""

    weak: float
    useless: float


ESS = VerdictLimits(100.0, 15.0)
EFFECTIVE_GROUPS = VerdictLimits(40.0, 1.0)
"""Few effective groups make the studentised bootstrap's interval wide, not wrong; below 1 there is no error bar."""
EFFECTIVE_GROUPS_ASYMPTOTIC = VerdictLimits(40.0, 5.0)
CLUSTERS = VerdictLimits(40.0, 10.0)
MAX_SHARE = VerdictLimits(0.05, 0.2)
EFFECTIVE_REWARDS = VerdictLimits(FEW_REWARDS, 5.0)
"""Numbers of rewards: if the heaviest rows hold none the interval is far too low, and no figure of weights shows it."""
MEAN_ERRORS = VerdictLimits(3.0, 4.5)
BLAME_ERRORS = 3.5
"""From where on a mean weight that can tell is blamed on the propensities, which sound logs reach in under 1%."""
MEAN_DISTANCE = VerdictLimits(0.25, 0.5)
LEAST_DISTANCE = 1e-3
"""A mean weight as near to 1 as this is none of a fault: logs round their propensities."""
UNSUPPORTED_MASS = VerdictLimits(0.01, 0.1)
CLIP_SHIFT = VerdictLimits(1.5, 3.0)
CALIBRATION_REWARDS = VerdictLimits(40.0, 10.0)
UNSUPPORTED_PREDICTIONS = VerdictLimits(0.1, 0.5)
UNSEEN_PRODUCTS = VerdictLimits(0.05, 0.25)
GAP_ERRORS = VerdictLimits(2.5, 4.0)
BIAS_ERRORS = VerdictLimits(0.5, 1.5)
DISCREPANCY_ERRORS = VerdictLimits(2.0, 3.0)
DRIFT_ERRORS = VerdictLimits(3.0, math.inf)
"""An interval holds for the log's time, however the value moved; what comes next is another matter."""
KERNEL_ERRORS = VerdictLimits(0.75, 2.0)
HALF_ESS = VerdictLimits(40.0, 5.0)
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


class VerdictReasons:
    """Collects reasons against an estimate; the gravest one sets the verdict."""

    def __init__(self) -> None:
        self._useless: list[str] = []
        self._weak: list[str] = []

    def add(self, reason: str, *, useless: bool) -> None:
        """Take in a reason that makes the estimate `useless`, or weak."""
        (self._useless if useless else self._weak).append(reason)

    def above(self, value: float, limits: VerdictLimits, reason: str) -> None:
        """Take in a reason where a value lies above its limits, or is NaN."""
        if not value <= limits.weak:
            self.add(reason, useless=not value <= limits.useless)

    def below(self, value: float, limits: VerdictLimits, reason: str) -> None:
        """Take in a reason where a value lies below its limits, or is NaN."""
        if not value >= limits.weak:
            self.add(reason, useless=not value >= limits.useless)

    def verdict(self) -> Verdict:
        """Return the word, and the reasons, the gravest first."""
        word = TRUST
        if self._weak:
            word = WEAK
        if self._useless:
            word = DO_NOT_USE
        return Verdict(word, (*self._useless, *self._weak))


def judge_weighted(
    weights: WeightFigures,
    errors: ErrorFigures,
    interval: Interval,
    n_clusters: int,
    rewards: RewardCount,
    bias: float = 0.0,
    min_groups: VerdictLimits = EFFECTIVE_GROUPS,
    kernel: KernelFigures | None = None,
) -> Verdict:
    """Judge an estimate that rests on weights.

    Args:
        weights: Figures of its weights.
        errors: Figures of its error.
        interval: The estimate and its interval.
        n_clusters: How many independent users or rows the log holds.
        rewards: How many rewards the estimate rests on.
        bias: By how many standard errors limits on its weights move its value.
        min_groups: How few effective groups its kind of interval bears.
        kernel: Figures of its kernel, if it has one.
    """
    findings = VerdictReasons()
    _check_mean_weight(findings, weights, interval)
    _check_support(findings, weights, interval)
    rows = f"the effective sample size is {weights.ess:,.0f} rows"
    findings.below(weights.ess, ESS, rows)
    few = f"it rests on {rewards_in_words(rewards.effective)}, where it takes {FEW_REWARDS:.0f} to tell more from less"
    findings.below(rewards.evidence, EFFECTIVE_REWARDS, few)
    largest = f"the largest weight, {number_format.weight(weights.max_weight)}"
    findings.above(weights.max_share, MAX_SHARE, f"{largest}, is {100 * weights.max_share:.0f}% of all weight")
    check_error(findings, errors, interval, n_clusters, min_groups)
    if errors.clip_shift is not None:
        shift = f"cutting the largest weights moves the value by {errors.clip_shift:.1f} standard errors"
        findings.above(errors.clip_shift, CLIP_SHIFT, shift)
    limited = f"its cut or shrunken weights move the value by {bias:.1f} standard errors, which is bias"
    findings.above(bias, BIAS_ERRORS, limited)
    if kernel is not None:
        _check_kernel(findings, kernel)
    return findings.verdict()


def judge_direct(
    model: ModelFigures,
    errors: ErrorFigures,
    interval: Interval,
    n_clusters: int,
    ess: float,
    min_groups: VerdictLimits = EFFECTIVE_GROUPS,
) -> Verdict:
    """Judge the direct method by what rows that its model has not seen say of its predictions.

    Args:
        model: Figures of the reward model on these rows.
        errors: Figures of the estimate's error.
        interval: The estimate and its interval.
        n_clusters: How many independent users or rows the log holds.
        ess: Effective sample size of the policy's weights: whether the log can check the model where the policy acts.
        min_groups: How few effective groups its kind of interval bears.
    """
    findings = VerdictReasons()
    check_error(findings, errors, interval, n_clusters, min_groups)
    rewards = f"calibration rests on {model.rewards.effective:,.0f} rewards with predictions like the policy's"
    findings.below(model.rewards.evidence, CALIBRATION_REWARDS, rewards)
    unsupported = f"no held-out rows have predictions as high as {100 * model.unsupported:.0f}% of its choices"
    findings.above(model.unsupported, UNSUPPORTED_PREDICTIONS, unsupported)
    unseen = f"no row that the model learned from shows {100 * model.unseen:.0f}% of its choices"
    findings.above(model.unseen, UNSEEN_PRODUCTS, unseen)
    gap = f"rewards are {model.gap:.1f} standard errors off the calibrated predictions for rows like its choices"
    findings.above(model.gap, GAP_ERRORS, gap)
    if ess >= ESS.useless and model.correction_error > 0.0:
        off = abs(model.correction) / model.correction_error
        observation = f"weighted residuals find the reward model off by {off:.1f} errors"
        if model.is_bias_in_error:
            allowing = f"{observation}; the interval is as much wider"
            findings.above(off, DISCREPANCY_ERRORS._replace(useless=math.inf), allowing)
        else:
            findings.above(off, DISCREPANCY_ERRORS, observation)
    if not ess >= ESS.weak:
        rows = f"only {ess:,.0f} effective rows show the policy's own choices"
        findings.add(f"{rows}, too few to check the reward model by them", useless=False)
    return findings.verdict()


def _check_kernel(findings: VerdictReasons, kernel: KernelFigures) -> None:
    shift = f"halving the bandwidth to {kernel.bandwidth:.3g} moved the value by {kernel.moved:.1f} standard errors"
    findings.above(kernel.moved, KERNEL_ERRORS, f"{shift}, which is bias")
    remaining = f"halving the bandwidth again would leave {kernel.half_ess:,.0f} effective rows"
    findings.below(kernel.half_ess, HALF_ESS, f"{remaining}, too few to tell how much bias is left")


def _check_mean_weight(findings: VerdictReasons, weights: WeightFigures, interval: Interval) -> None:
    distance = abs(weights.mean_weight - 1.0)
    if distance <= LEAST_DISTANCE:
        errors = 0.0
    elif weights.mean_weight_error > 0.0:
        errors = distance / weights.mean_weight_error
    else:
        errors = math.inf
    mean = f"{weights.mean_weight:.{3 if distance > 0.01 else 10}g}"
    cause = "too few rows overlap with the policy's choices to estimate it"
    if weights.mean_is_telling and errors > BLAME_ERRORS:
        cause = "the propensities are wrong, or rows are missing"
    elif weights.mean_is_telling and math.isfinite(errors):
        cause = f"this may be chance ({errors:.1f} standard errors)"
    reason = f"the mean weight is {mean}, expected 1: {cause}"
    if distance > MEAN_DISTANCE.useless or errors > MEAN_ERRORS.weak:
        useless = distance > MEAN_DISTANCE.useless or errors > MEAN_ERRORS.useless
        findings.add(reason, useless=useless and matters(distance, interval))
    else:
        findings.above(distance, MEAN_DISTANCE, reason)


def _check_support(findings: VerdictReasons, weights: WeightFigures, interval: Interval) -> None:
    mass = weights.unsupported_mass
    if mass is None or mass <= UNSUPPORTED_MASS.weak:
        return
    where = ""
    if weights.unsupported_action is not None:
        where = f", {weights.unsupported_action} most of all"
    reason = f"the log has no support for {100 * mass:.1f}% of its choices{where}"
    findings.add(reason, useless=not mass <= UNSUPPORTED_MASS.useless and matters(mass, interval))


def matters(share: float, interval: Interval) -> bool:
    """Return whether an error in this `share` of the weight could shift the value by a quarter of the interval."""
    if share > GROSS or interval.low is None or interval.high is None:
        return True
    return not share * abs(interval.mean) <= FAULT * (interval.high - interval.low) / 2.0


def check_error(
    findings: VerdictReasons, errors: ErrorFigures, interval: Interval, n_clusters: int, min_groups: VerdictLimits
) -> None:
    """Take in how few groups an estimate's error rests on, open ends of its interval, and drift."""
    findings.below(
        n_clusters,
        CLUSTERS,
        f"the log holds {number_format.counted(n_clusters, 'independent user or row', 'independent users or rows')}",
    )
    groups = f"{errors.effective_groups:,.0f} users or rows" if errors.effective_groups >= 1.5 else "one user or row"
    effective = f"{groups} alone make{'s' * (errors.effective_groups < 1.5)} up the standard error"
    if errors.error == 0.0:
        effective = "all users or rows say the same, so nothing tells how large its error is"
    findings.below(errors.effective_groups, min_groups, effective)
    ends = {"lower": interval.low, "upper": interval.high}
    missing = [name for name, end in ends.items() if end is None or not math.isfinite(end)]
    if len(missing) == 1:
        findings.add(f"too few rewards: the interval has no {missing[0]} end", useless=False)
    elif missing:
        findings.add("too few rewards: there is no interval", useless=True)
    if errors.drift is not None:
        earlier, later, apart = errors.drift
        halves = f"{earlier:.3g} in the first half of the log, {later:.3g} in the second"
        findings.above(apart, DRIFT_ERRORS, f"drift: {halves} ({apart:.1f} standard errors apart)")
