"""Choose how far boosts may lie from a target and stand for it, and tell what that does to the estimate."""

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


class Tried(NamedTuple):
    """An estimate by one `bandwidth`, with its standard `error` and effective sample size `ess`."""

    bandwidth: float
    value: float
    error: float
    ess: float


Attempt = Callable[[float], Tried]


def choose_bandwidth(a_max: float, attempt: Attempt) -> float:
    """Return a bandwidth for the box [-a_max, a_max]^d, by what the log itself says.

    SLOPE (Su, Srinath & Krishnamurthy 2020, after Lepski 1991): the widest whose estimate agrees with those of all
    narrower ones, to one standard error of each; then a quarter of that, or the narrowest that is usable.
    """
    tried = _usable(a_max, attempt)
    low, high, widest = float("-inf"), float("inf"), len(tried) - 1
    for index in reversed(range(len(tried))):
        value, error = tried[index].value, tried[index].error
        low, high = max(low, value - error), min(high, value + error)
        if low > high:
            break
        widest = index
    return tried[min(widest + BACK, len(tried) - 1)].bandwidth


def _usable(a_max: float, attempt: Attempt) -> Sequence[Tried]:
    tried = [attempt(SHARES[0] * a_max)]
    for share in SHARES[1:]:
        each = attempt(share * a_max)
        if each.ess < LEAST_ROWS:
            break
        tried.append(each)
    return tried


def kernel_figures(bandwidth: float, attempt: Attempt) -> KernelFigures:
    """Tell how far the last halving moved the value, 0 where nothing is weighed, and how many rows the next leaves."""
    at, wider, narrower = attempt(bandwidth), attempt(2.0 * bandwidth), attempt(bandwidth / 2.0)
    moved = abs(wider.value - at.value) if at.ess else 0.0
    return KernelFigures(
        bandwidth, moved / at.error if at.error > 0.0 else float("inf") if moved else 0.0, narrower.ess
    )
