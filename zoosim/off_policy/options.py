"""The options of an evaluation, checked once."""

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import numpy as np

from zoosim.core.checks import check_whole
from zoosim.core.errors import ConfigError
from zoosim.core.parameters import shown, unknown
from zoosim.core.types import BoolArray, IntArray
from zoosim.off_policy.actions.base import Kind, Visits
from zoosim.off_policy.diagnostics import later_half
from zoosim.off_policy.intervals.intervals import check_samples, checked_level, checked_range

BOUNDS = ("bernstein", "sequence")
"""Intervals that hold for any size, for rewards of a known range."""
INTERVALS = ("bootstrap", "asymptotic", *BOUNDS)


class Options(NamedTuple):
    """How to estimate, how sure to be, and what estimates need to know of the log.

    `guessed` tells that an interval rests on a range of rewards that was taken from the log; `later (n,)` marks its
    later half, where it knows times.
    """

    estimators: tuple[str, ...]
    interval: str
    level: float
    samples: int
    seed: int
    reward_range: tuple[float, float]
    guessed: bool
    user_ids: IntArray | None
    times: IntArray | None
    later: BoolArray | None


def read_options(kind: type[Kind], log: Visits, given: Mapping[str, Any]) -> Options:
    """Check the options that a user gave, for a log and its kind; raises `ConfigError` or `DataError`."""
    interval, level, bounds = given["interval"], checked_level(given["level"]), given["reward_range"]
    if interval not in INTERVALS:
        raise ConfigError(unknown("unknown interval", f"{interval}", list(INTERVALS)))
    check_whole("seed", given["seed"], 0, 2**63 - 1)
    check_samples(given["samples"], level)
    told = {
        "estimators": _estimators(kind, given["estimators"]),
        "reward_range": _range_of(log)
        if bounds is None
        else checked_range(log.earned, bounds, kind.unit.removesuffix("s")),
        "guessed": interval in BOUNDS and bounds is None and not _clicks(log),
        "later": later_half(log.times),
    }
    return Options(**{**given, **told}, user_ids=log.user_ids, times=log.times)


def _estimators(kind: type[Kind], given: Any) -> tuple[str, ...]:
    if given is None:
        return kind.default
    if isinstance(given, str) or not isinstance(given, Collection) or not given:
        raise ConfigError(f"estimators: got {shown(given)}, expected a list of some of {', '.join(kind.estimators)}")
    for name in given:
        if name not in kind.estimators:
            raise ConfigError(unknown("unknown estimator", f"{name}", list(kind.estimators)))
    return tuple(dict.fromkeys(given))


def _clicks(log: Visits) -> bool:
    """Tell whether a visit earns a click or none; one of several positions may earn more than the log shows."""
    return log.rewards.size == len(log) and bool(np.isin(log.rewards, (0.0, 1.0)).all())


def _range_of(log: Visits) -> tuple[float, float]:
    """Return the smallest and largest reward of a visit, wider where all are the same."""
    low, high = float(log.earned.min()), float(log.earned.max())
    return (min(low, 0.0), max(high, 1.0)) if low == high else (low, high)
