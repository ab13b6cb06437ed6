"""Choose the bandwidth of a kernel over boosts, and measure what it does to the estimate."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from zoosim.off_policy.verdict import KernelFigures

SHARES = tuple(2.0 ** (1.0 - step / 2.0) for step in range(17))
"""Bandwidths that are tried, in units of a_max: the whole box first, each narrower than the last by a root of 2."""

LEAST_ROWS = 30.0
"""A bandwidth at which the log counts for fewer rows of the target's own says nothing, and is not tried."""

BACK = 4
"""Steps from the chosen bandwidth to the narrower one that is taken, a quarter of it: SLOPE lets the bias be about as
large as the standard error, and intervals need one that is small beside it (undersmoothing; Hall 1992, section 4.4)."""


class Attempt(NamedTuple):
    """An estimate by one `bandwidth`, with its standard `error` and effective sample size `ess`."""

    bandwidth: float
    value: float
    error: float
    ess: float


Estimate = Callable[[float], Attempt]
"""A function of a bandwidth."""


def choose_bandwidth(a_max: float, estimate: Estimate) -> float:
    """Return a bandwidth for the box [-a_max, a_max]^d, by what the log itself says.

    SLOPE (Su, Srinath & Krishnamurthy 2020, after Lepski 1991): the widest whose estimate agrees with those of all
    narrower ones, to one standard error of each; then a quarter of that, or the narrowest that is usable.
    """
    attempts = _usable_attempts(a_max, estimate)
    low = float("-inf")
    high = float("inf")
    widest = len(attempts) - 1
    # From the narrowest, whose bias is least: a wider one joins as long as its interval meets all of those before.
    for index in reversed(range(len(attempts))):
        value = attempts[index].value
        error = attempts[index].error
        low = max(low, value - error)
        high = min(high, value + error)
        if low > high:
            break
        widest = index
    return attempts[min(widest + BACK, len(attempts) - 1)].bandwidth


def _usable_attempts(a_max: float, estimate: Estimate) -> Sequence[Attempt]:
    """Return estimates from the widest bandwidth down to the last that leaves `LEAST_ROWS`; the widest is always in."""
    attempts = [estimate(SHARES[0] * a_max)]
    for share in SHARES[1:]:
        attempt = estimate(share * a_max)
        if attempt.ess < LEAST_ROWS:
            break
        attempts.append(attempt)
    return attempts


def kernel_figures(bandwidth: float, estimate: Estimate) -> KernelFigures:
    """Return how far halving the bandwidth to this one moved the value, and how many rows the next halving leaves."""
    attempt = estimate(bandwidth)
    wider = estimate(2.0 * bandwidth)
    narrower = estimate(bandwidth / 2.0)
    shift = abs(wider.value - attempt.value) if attempt.ess else 0.0
    if attempt.error > 0.0:
        return KernelFigures(bandwidth, shift / attempt.error, narrower.ess)
    return KernelFigures(bandwidth, float("inf") if shift else 0.0, narrower.ess)
