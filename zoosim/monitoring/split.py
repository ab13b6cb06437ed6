"""A sequential test of counts by arm: do visitors, errors or slow answers fall to the arms as the shares say?

Under the hypothesis each event falls to an arm with the arm's share. Against it stands a mixture of all other shares, a
Dirichlet distribution around these; the ratio of both likelihoods is a martingale, so it ever reaches 1 / level with a
probability of at most `level` (Lindon & Malek 2022, "Anytime-valid inference for multinomial count data"). Of visitors
it finds a sample ratio mismatch. Of errors it compares the rates: whatever the rate is at that hour, an arm that makes
no more than others has its share of them.
"""

import math
from collections.abc import Sequence
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln

from zoosim.core.errors import ConfigError, DataError
from zoosim.core.limits import COUNTS, FLAGS
from zoosim.core.state import Stateful
from zoosim.core.types import FloatArray, IntArray


def log_evidence(counts: ArrayLike, shares: ArrayLike, concentration: float) -> float:
    """Return the log of the evidence that counts are not split by shares.

    Args:
        counts: Events by arm, `(m,)`.
        shares: Shares of the arms, above 0, sum 1, `(m,)`.
        concentration: How near other splits are expected to lie: as near as those of so many events.
    """
    seen = np.asarray(counts, np.float64)
    expected = np.asarray(shares, np.float64)
    prior = concentration * expected
    total = gammaln(concentration) - gammaln(concentration + seen.sum())
    return float(total + (gammaln(prior + seen) - gammaln(prior) - seen * np.log(expected)).sum())


class SplitState(NamedTuple):
    """`counts (m,)` and `shares (m,)` since the shares last changed; `past ()`, the log evidence of before."""

    counts: Annotated[IntArray, COUNTS]
    shares: Annotated[FloatArray, FLAGS]
    past: FloatArray


class SplitTest(Stateful):
    """Compare counts by arm with the shares of the arms, which may change at a ramp's steps."""

    learned = ("_state",)

    def __init__(self, arms: int, *, level: float = 0.001, concentration: float = 1_000.0) -> None:
        """Begin without events.

        Args:
            arms: Number of arms, at least 2.
            level: Probability of ever a false alarm.
            concentration: How near other splits are expected to lie; 1,000 for visitors, where a share is off by
                little, 100 for errors, which may double.

        Raises:
            ConfigError: a number is out of range.
        """
        if arms < 2 or not 0.0 < level < 1.0 or not concentration > 0.0:
            raise ConfigError(
                f"split: got {arms} arms, level {level:g}, concentration {concentration:g}; "
                "expected at least 2, inside (0, 1), above 0"
            )
        self.level = level
        self.concentration = concentration
        self._state = SplitState(np.zeros(arms, np.int64), np.full(arms, 1.0 / arms), np.zeros(()))

    def update(self, counts: ArrayLike, shares: Sequence[float] | FloatArray) -> None:
        """Take more events.

        Args:
            counts: How many fell to each arm, `(m,)`.
            shares: The shares by which they were drawn, above 0, sum 1, `(m,)`.

        Raises:
            DataError: they are no counts or no shares; nothing has changed then.
        """
        state = self._state
        new = np.asarray(counts)
        expected = np.asarray(shares, np.float64)
        if new.shape != state.counts.shape or new.dtype.kind not in "iu" or (new < 0).any():
            raise DataError(f"split: got the counts {counts!r}, expected {len(state.counts)} whole numbers from 0 on")
        if expected.shape != new.shape or not (expected > 0.0).all() or abs(expected.sum() - 1.0) > 1e-9:
            raise DataError(f"split: got the shares {shares!r}, expected {len(new)} above 0, sum 1")
        if not np.array_equal(expected, state.shares):
            state.past[()] += log_evidence(state.counts, state.shares, self.concentration)
            state.counts[...] = 0
            state.shares[...] = expected
        state.counts[...] += new

    @property
    def log_evidence(self) -> float:
        """The log of the evidence that events are split otherwise, now."""
        state = self._state
        return float(state.past) + log_evidence(state.counts, state.shares, self.concentration)

    @property
    def is_off(self) -> bool:
        """True if the evidence is 1 / level or more now."""
        return self.log_evidence >= -math.log(self.level)

    @property
    def counts(self) -> IntArray:
        """Events by arm since the shares last changed."""
        return self._state.counts.copy()

    @property
    def expected(self) -> FloatArray:
        """Expected number of these events by arm."""
        return np.asarray(self._state.counts.sum() * self._state.shares)
