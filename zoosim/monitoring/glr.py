"""The Bernoulli generalised likelihood ratio test (Besson & Kaufmann 2019).

A change is found after n observations when, at some split s,

    s kl(mean of 1..s, mean of all) + (n - s) kl(mean of s+1..n, mean of all) >= beta(n, delta) = ln(3 n^(3/2) / delta)

where kl is the relative entropy of two Bernoulli variables. The paper proves that P(ever a false alarm) <= delta for
2 T(ln(3 n^(3/2) / delta) / 2) + 6 ln(1 + ln n). This beta is its leading term: the full one is near three times as
large, and so are its delays. That the leading term keeps to delta as well is measured, in the tests, not proven.

The splits are thinned: ring r keeps the sums of the first k 2^r observations for the last 32 such k. So a change l
observations ago has a split within l / 16, and memory and time are bounded. 18 rings reach back 4 million observations;
what came before is still part of the first mean.
"""

import math
from collections.abc import Iterator
from typing import Annotated, NamedTuple

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.limits import COUNTS, NOT_NEGATIVE
from zoosim.core.parameters import parameter
from zoosim.core.types import FloatArray
from zoosim.monitoring.detector import Detector

COUNT, SUM = range(2)


class GLRState(NamedTuple):
    """Of n detectors `prefixes (n, rings, size)`, sums up to the splits, `totals (n, 2)`, count and sum; `delta`."""

    prefixes: Annotated[FloatArray, NOT_NEGATIVE]
    totals: Annotated[FloatArray, COUNTS]
    delta: float

    def flaws(self) -> Iterator[str]:
        """Yield what does not fit together."""
        if (self.totals[:, SUM] > self.totals[:, COUNT]).any():
            yield "totals holds sums above their counts"


def new_glr(n: int, delta: float = 0.01, rings: int = 18, size: int = 32) -> GLRState:
    """Return detectors that have seen nothing.

    Args:
        n: Number of detectors.
        delta: Probability of ever raising a false alarm.
        rings: Rings of splits; each reaches back twice as far as the one before.
        size: Splits that each ring holds.
    """
    return GLRState(np.zeros((n, rings, size)), np.zeros((n, 2)), delta)


@jit
def observe(state: GLRState, i: int, x: float) -> bool:
    """Add a number to a detector.

    Args:
        state: The detectors; changed in place.
        i: Number of the detector.
        x: The observation, in [0, 1].

    Returns:
        True when a change is found; the detector then starts anew.
    """
    prefixes = state.prefixes[i]
    totals = state.totals[i]
    totals[COUNT] += 1.0
    totals[SUM] += x
    count = int(totals[COUNT])
    total = totals[SUM]
    if _changed(prefixes, count, total, state.delta):
        reset(state, i)
        return True
    # After the test: behind the newest observation there is nothing that a split could be compared with yet.
    rings, size = prefixes.shape
    for ring in range(rings):
        # Ring r takes every 2^r-th sum; a count that is no multiple of 2^r is none of 2^(r + 1) either.
        if count & ((1 << ring) - 1):
            break
        prefixes[ring, (count >> ring) % size] = total
    return False


@jit
def reset(state: GLRState, i: int) -> None:
    """Make a detector forget all it has seen.

    Args:
        state: The detectors; changed in place.
        i: Number of the detector.
    """
    state.prefixes[i] = 0.0
    state.totals[i] = 0.0


@jit
def _changed(prefixes: FloatArray, count: int, total: float, delta: float) -> bool:
    """Return whether the ratio reaches beta at any split that the rings hold.

    kl(p, q) <= (p - q)^2 / (q (1 - q)), so the ratio is at most (s0 n - s n0)^2 / (n0 n1 n q (1 - q)): where that
    stays below beta no logarithm is needed, and that is nearly everywhere.
    """
    rings, size = prefixes.shape
    n = float(count)
    mean = total / count
    beta = math.log(3.0 * n * math.sqrt(n) / delta)
    bound = beta * n * mean * (1.0 - mean)
    if bound <= 0.0:  # nothing but zeros, or ones, up to rounding
        return False
    newest = count - 1
    for ring in range(rings):
        oldest = max(((count - 1) >> ring) - size + 1, 1)
        for k in range(newest, oldest - 1, -1):
            n0 = float(k << ring)
            s0 = prefixes[ring, k % size]
            # n0 n1 (mean of the first - mean of the rest) = s0 n - s n0: no
            # division for splits that are nowhere near beta.
            gap = s0 * n - total * n0
            if gap * gap > bound * n0 * (n - n0) and ratio(n0, s0, n, total) >= beta:
                return True
        newest = (oldest - 1) >> 1  # the next ring's first split that this one does not hold
        if newest < 1:
            break
    return False


@jit
def ratio(n0: float, s0: float, n: float, total: float) -> float:
    """Return the log-likelihood ratio of a change after n0 of n observations.

    Args:
        n0, s0: Number of observations before the change, above 0 and below n, and their sum.
        n, total: Number of all observations, and their sum; the mean lies inside (0, 1).
    """
    mean = total / n
    return n0 * kl(s0 / n0, mean) + (n - n0) * kl((total - s0) / (n - n0), mean)


@jit
def kl(p: float, q: float) -> float:
    """Return the relative entropy of two Bernoulli distributions, p ln(p/q) + (1-p) ln((1-p)/(1-q)).

    Args:
        p: Probability of the first one, cut to [0, 1], as rounding may bring it just outside.
        q: Probability of the second one, inside (0, 1).
    """
    p = min(max(p, 0.0), 1.0)
    first = p * math.log(p / q) if p > 0.0 else 0.0
    return first + (1.0 - p) * math.log((1.0 - p) / (1.0 - q)) if p < 1.0 else first


class GLR(Detector):
    """Find a change of the mean of numbers in [0, 1], and start anew after it; no size of change need be guessed."""

    delta: float = parameter(0.01, low=1e-12, high=1, help="the probability of ever raising a false alarm")
    _observe = staticmethod(observe)

    def _new_state(self) -> GLRState:
        return new_glr(1, self.delta)

    def _held(self) -> tuple[int, float]:
        count, total = self._state.totals[0]
        return int(count), float(total / max(count, 1.0))
