"""The options of an evaluation, checked once."""

from collections.abc import Collection
from typing import Any, NamedTuple

import numpy as np

from zoosim.core.checks import check_whole
from zoosim.core.errors import ConfigError
from zoosim.core.parameters import shown, unknown
from zoosim.core.types import BoolArray
from zoosim.logs.log import Log
from zoosim.off_policy.actions.base import ActionSpaceEvaluator
from zoosim.off_policy.diagnostics import later_half
from zoosim.off_policy.intervals.intervals import check_samples, checked_level, checked_range

BOUNDS = ("bernstein", "sequence")
"""Intervals that hold for any size, for rewards of a known range."""

INTERVALS = ("bootstrap", "asymptotic", *BOUNDS)


class Options(NamedTuple):
    """How to estimate, how sure to be, and what follows from the log.

    `guessed_range` says that an interval rests on a range of rewards that was taken from the log; `later (n,)` marks
    its later half, where it knows times.
    """

    estimators: tuple[str, ...]
    interval: str
    level: float
    samples: int
    seed: int
    reward_range: tuple[float, float]
    guessed_range: bool
    later: BoolArray | None

    def for_log(self, log: Log) -> "Options":
        """Return the options for another reward of the log, whose range is the one in the log."""
        guessed_range = self.interval in BOUNDS and not _clicks(log)
        return self._replace(reward_range=_range_of(log), guessed_range=guessed_range)


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
) -> Options:
    """Check the options of `evaluate` against a log; raises `ConfigError` or `DataError`."""
    level = checked_level(level)
    if interval not in INTERVALS:
        raise ConfigError(unknown("unknown interval", f"{interval}", list(INTERVALS)))
    check_whole("seed", seed, 0, 2**63 - 1)
    check_samples(samples, level)
    names = _checked_estimators(evaluator, estimators)
    if reward_range is None:
        bounds = _range_of(log)
    else:
        bounds = checked_range(log.visit_rewards, reward_range, evaluator.unit.removesuffix("s"))
    guessed_range = interval in BOUNDS and reward_range is None and not _clicks(log)
    return Options(names, interval, level, samples, seed, bounds, guessed_range, later_half(log.times))


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
    """Whether a visit earns one click or none; one of several positions may earn more than the log shows."""
    return log.rewards.size == len(log) and bool(np.isin(log.rewards, (0.0, 1.0)).all())


def _range_of(log: Log) -> tuple[float, float]:
    """Return the smallest and largest reward of a visit, wider where all are the same."""
    rewards = log.visit_rewards
    low, high = float(rewards.min()), float(rewards.max())
    return (min(low, 0.0), max(high, 1.0)) if low == high else (low, high)
