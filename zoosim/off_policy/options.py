"""The options of an evaluation, checked once."""

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from zoosim.core.blocks import block_any, extremes
from zoosim.core.checks import check_whole
from zoosim.core.errors import ConfigError, DataError
from zoosim.core.parameters import shown, unknown
from zoosim.core.statistics import ANY, Limits
from zoosim.logs.log import Log
from zoosim.off_policy.actions.base import ActionSpaceEvaluator, evaluator_for
from zoosim.off_policy.diagnostics import later_half
from zoosim.off_policy.estimators.single import DIRECT_METHOD
from zoosim.off_policy.intervals.intervals import check_samples, checked_level, checked_range
from zoosim.off_policy.propensities.estimate import MULTINOMIAL, PROPENSITY_MODELS

BOUNDS = ("bernstein", "sequence")
"""Intervals that hold for any size, for rewards of a known range."""

CLICKS: Limits = (0.0, 1.0)
"""Between which values a rate of clicks lies."""

INTERVALS = ("bootstrap", "asymptotic", *BOUNDS)

WITH_ESTIMATED_PROPENSITIES = ("dm", "snips", "dr", "sndr")
"""Others are biased: an error of a propensity p makes 1 / p too large on average, which self-normalising cancels."""


class EvaluationOptions(NamedTuple):
    """Options of an evaluation: estimators, interval and level, and what follows from the log.

    `guessed_range` says that an interval rests on a range of rewards that was taken from the log; `later (n,)` marks
    its later half, where it knows times. `limits` are those between which every value lies. `propensity_model`
    estimates propensities, where the log has none; `is_deterministic` says that there is nothing to estimate.
    """

    estimators: tuple[str, ...]
    interval: str
    level: float
    samples: int
    seed: int
    reward_range: tuple[float, float]
    guessed_range: bool
    later: Any
    limits: Limits = ANY
    propensity_model: str | None = None
    is_deterministic: bool = False

    def for_log(self, log: Log) -> "EvaluationOptions":
        """Return the options for another reward of the log, whose range is the one in the log."""
        are_clicks = _clicks(log)
        limits = CLICKS if are_clicks else ANY
        guessed_range = self.interval in BOUNDS and not are_clicks
        return self._replace(reward_range=_range_of(log), guessed_range=guessed_range, limits=limits)


def read_options(
    log: Log,
    evaluator: type[ActionSpaceEvaluator],
    *,
    estimators: Any,
    interval: str,
    level: float,
    samples: int,
    seed: int,
    reward_range: tuple[float, float] | None,
    propensity_model: str | None = None,
) -> EvaluationOptions:
    """Check the options of `evaluate` against a log; raises `ConfigError` or `DataError`."""
    check_propensities(log, propensity_model, interval)
    level = checked_level(level)
    if interval not in INTERVALS:
        raise ConfigError(unknown("unknown interval", f"{interval}", list(INTERVALS)))
    check_whole("seed", seed, 0, 2**63 - 1)
    check_samples(samples, level)
    names = _checked_estimators(evaluator, estimators)
    if estimators is None and interval in BOUNDS:
        names = tuple(name for name in names if name != DIRECT_METHOD)  # whose value a bound on weights need not hold
    if propensity_model is not None:
        names = _for_estimated_propensities(names, is_default=estimators is None)
    if reward_range is None:
        bounds = _range_of(log)
        limits = CLICKS if _clicks(log) else ANY
    else:
        bounds = checked_range(log.visit_rewards, reward_range, evaluator.unit.removesuffix("s"))
        limits = bounds
    guessed_range = interval in BOUNDS and reward_range is None and not _clicks(log)
    later = later_half(log.times)
    return EvaluationOptions(
        names, interval, level, samples, seed, bounds, guessed_range, later, limits, propensity_model
    )


def check_propensities(log: Log, propensity_model: str | None, interval: str = "bootstrap") -> None:
    """Refuse a log without propensities, unless a model is to estimate them, and a model that is not needed."""
    if propensity_model is None:
        if log.has_propensities:
            return
        raise DataError(_without_propensities(log))
    if propensity_model not in PROPENSITY_MODELS:
        raise ConfigError(unknown("unknown propensity_model", f"{propensity_model}", list(PROPENSITY_MODELS)))
    if not evaluator_for(log).estimates_propensities:
        held = log.action_space if log.lives is None else "visitors who come back"
        raise ConfigError(
            f"propensity_model: {log.source} is a log of {held}, expected one of products for visitors of one "
            "decision, the only ones whose propensities can be estimated; leave it out"
        )
    if log.has_propensities:
        raise ConfigError(
            f"propensity_model: {log.source} has propensities, which are better than any estimate; leave it out"
        )
    if interval in BOUNDS:
        raise ConfigError(f"interval: {interval} needs the shop's own propensities, not estimates; take bootstrap")


def _without_propensities(log: Log) -> str:
    """Say what a log lacks, and what to do."""
    missing = f"{log.source}: got a log without propensities, expected a column propensity"
    advice = "let the shop log it from now on"
    if not evaluator_for(log).estimates_propensities:
        return f"{missing}, how likely each of its {log.action_space} was; {advice}"
    shown_with = "the probability with which each product was shown"
    return f"{missing}, {shown_with}; {advice}, or estimate it: --propensity-model {MULTINOMIAL}"


def _for_estimated_propensities(names: Sequence[str], is_default: bool) -> tuple[str, ...]:
    """Leave out estimators that errors of propensities bias; raises `ConfigError` for those that were asked for."""
    refused = [name for name in names if name not in WITH_ESTIMATED_PROPENSITIES]
    if refused and not is_default:
        known = ", ".join(WITH_ESTIMATED_PROPENSITIES)
        needs = "which needs the shop's own propensities, not estimates"
        raise ConfigError(f"estimators: got {refused[0]}, {needs}; take some of {known}")
    without_weights = [DIRECT_METHOD] if is_default else []  # a model of its own needs no estimated weights beside it
    return tuple(name for name in names if name not in (*refused, *without_weights))


def _checked_estimators(evaluator: type[ActionSpaceEvaluator], given: Any) -> tuple[str, ...]:
    if given is None:
        return evaluator.default
    known = evaluator.estimators
    if isinstance(given, str) or not isinstance(given, Collection) or not given:
        raise ConfigError(f"estimators: got {shown(given)}, expected a list of some of {', '.join(known)}")
    for name in given:
        if name not in known:
            raise ConfigError(unknown("unknown estimator", f"{name}", list(known)))
    return tuple(dict.fromkeys(given))


def _clicks(log: Log) -> bool:
    """Return whether a visit earns one click or none; one of several positions may earn more than the log shows."""
    one_each = log.rewards.ndim == 1 or log.rewards.shape[1] == 1
    return one_each and not block_any(lambda rewards: (rewards != 0.0) & (rewards != 1.0), log.rewards)


def _range_of(log: Log) -> tuple[float, float]:
    """Return the smallest and largest reward of a visit, wider where all are the same."""
    low, high = (float(end) for end in extremes(log.visit_rewards))
    return (min(low, 0.0), max(high, 1.0)) if low == high else (low, high)
