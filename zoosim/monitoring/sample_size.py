"""The number of events that a sequential test needs to show an effect, said before it begins and while it runs.

If the effect is the one that a test is set to find, the log wealth of an account that stakes c times the best is
c X - c^2 t / 2: t is the information so far, s (1 - s) d^2 / v per event, and X a Brownian motion with drift 1. So the
test ends when X meets the boundary at which the wealth of all accounts is 1 / level, and when that happens in
information depends on nothing else. Events that are rare, or shares far from even, make the motion jump.
"""

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import ndtr, ndtri

from zoosim.core.errors import ConfigError
from zoosim.core.types import FloatArray
from zoosim.monitoring.wealth import MULTIPLES, PRIOR, STAKED

STEPS = 400
"""Times at which the boundary is looked at."""


def events_needed(
    distance: float, variance: float, share: float, level: float = 0.01, *, power: float = 0.5, tests: int = 1
) -> float:
    """Return after how many events of both arms a test shows an effect, with a probability of `power`.

    Args:
        distance: How far the true difference lies from the hypothesis, in units of the reward, above 0: for harm, the
            drop less the margin.
        variance: Variance of the reward less what was guessed of it; p (1 - p) for clicks at a rate of p, unguessed.
        share: Chance that an event is the new policy's, inside (0, 1).
        level: Probability of ever wrongly showing it.
        power: Probability that it is shown by then: 0.5 for the median.
        tests: Number of tests that must all succeed; each gets a power of 1 - (1 - power) / tests.

    Raises:
        ConfigError: a number is out of range.
    """
    rules = {
        "distance": (distance, distance > 0.0, "above 0"),
        "variance": (variance, variance > 0.0, "above 0"),
        "share": (share, 0.0 < share < 1.0, "inside (0, 1)"),
        "level": (level, 0.0 < level < 1.0, "inside (0, 1)"),
        "power": (power, 0.0 < power < 1.0, "inside (0, 1)"),
        "tests": (tests, tests >= 1, "at least 1"),
    }
    for name, (value, is_right, expected) in rules.items():
        if not is_right:
            raise ConfigError(f"events needed: {name}: got {value:g}, expected {expected}")
    needed = information_needed(1.0 / level, power=1.0 - (1.0 - power) / tests)
    return needed / information(distance, variance, share)


def information(distance: float, variance: float, share: float) -> float:
    """Return what an event tells of an effect: s (1 - s) d^2 / v."""
    return share * (1.0 - share) * distance * distance / variance


def fixed_test_events(
    distance: float, variance: float, share: float, level: float = 0.01, *, power: float = 0.5
) -> float:
    """Return the events that a one-sided test with a fixed end needs; one that is looked at once, when they are there.

    Args:
        distance, variance, share, level, power: As those of `events_needed`.
    """
    quantiles = float(ndtri(1.0 - level) + ndtri(power))
    return quantiles * quantiles / information(distance, variance, share)


def information_needed(
    threshold: float,
    accounts: Sequence[float] | FloatArray | None = None,
    held_back: float = 1.0 - STAKED,
    *,
    power: float = 0.5,
) -> float:
    """Return the information after which a test shows the effect that it is set to find, with a probability of `power`.

    Args:
        threshold: Wealth at which it is shown.
        accounts: The wealth in each account; at the start by default.
        held_back: The reserve.
        power: Probability that it is shown by then.
    """
    wealth = STAKED * np.array(PRIOR) if accounts is None else np.asarray(accounts, np.float64)
    if wealth.sum() + held_back >= threshold:
        return 0.0
    # What it takes to see an effect with the least of these accounts: far beyond the quantile that is asked for.
    gap = math.log(threshold) - math.log(max(float(wealth[1]), 1e-30))
    end = 4.0 * gap + 8.0 * float(ndtri(power)) ** 2 + 8.0
    times = np.linspace(0.0, end, STEPS + 1)[1:]
    passed = _passed_by(times, _boundary(times, wealth, threshold - held_back))
    return float(np.interp(power, passed, times, right=math.inf))


def _boundary(times: FloatArray, accounts: FloatArray, threshold: float) -> FloatArray:
    """Return the X at which the accounts hold the threshold, at each time; by bisection."""
    multiples = np.array(MULTIPLES)[:, None]
    starts = np.log(np.maximum(accounts, 1e-300))[:, None] - multiples**2 * times / 2.0
    low = np.full(len(times), -1e3)
    high = times + 4.0 * math.log(threshold) + 200.0
    for _ in range(60):
        middle = (low + high) / 2.0
        exponents = starts + multiples * middle
        is_above = np.logaddexp.reduce(exponents, axis=0) >= math.log(threshold)
        low = np.where(is_above, low, middle)
        high = np.where(is_above, middle, high)
    return high


def _passed_by(times: FloatArray, boundary: FloatArray) -> FloatArray:
    """Return the probability that X, of drift 1, has met a boundary by each time.

    To be above it at t, X must have met it at some s <= t: P(X_t >= b_t) is the integral of P(X_t >= b_t | X_s = b_s)
    over the distribution of s (Peskir 2002), solved step by step with s in the middle of each.
    """
    above = ndtr((times - boundary) / np.sqrt(times))
    middles = times - (times[1] - times[0]) / 2.0
    at_middles = np.interp(middles, times, boundary)
    passed = np.zeros(len(times))
    for i, time in enumerate(times):
        spans = time - middles[: i + 1]
        chances = ndtr((spans - (boundary[i] - at_middles[: i + 1])) / np.sqrt(spans))
        passed[i] = max((above[i] - chances[:i] @ passed[:i]) / chances[i], 0.0)
    return np.minimum(np.cumsum(passed), 1.0)
