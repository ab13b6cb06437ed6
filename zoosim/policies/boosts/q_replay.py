"""A replay memory for critics of boosts, with rewards brought to a common scale.

Which boosts are best for a visitor does not change when the rewards of all visitors like that are shifted or scaled.
Segments differ in both by far: one earns EUR 70 a visit and scatters by 60, another next to nothing. So the mean of a
segment is taken off, and what is left is divided by the geometric mean of the segment's deviation and that of all: no
segment's noise drowns what is to be learned of another, and those that earn most still count most.

Where a policy has floors or a ceiling, their quantities are held beside the reward, and priced when a visit is drawn:
so all visits are learned under the multipliers in force.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, NamedTuple

import numpy as np

from zoosim.core.checks import LARGEST
from zoosim.core.limits import Limits
from zoosim.core.state import Stateful
from zoosim.core.types import FloatArray, IntArray

PRIOR = 2.0
"""Visits that the average of all segments counts for in the mean and the deviation of each."""

Held = Annotated[FloatArray, Limits(-LARGEST, LARGEST)]
"""Arrays of visits, up to `LARGEST` in size; the moments of rewards may be larger."""

NO_PRICES = np.zeros(0)

ROUNDING = 1e-6
"""Largest relative error that rounding may leave in a sum of squares."""

LEAST = 0.1
"""The least deviation of a segment, in units of that of all rewards."""


class Batch(NamedTuple):
    """Drawn visits: `numbers (n,)`, `states (n, d_s)`, `actions (n, d_a)`, `targets (n,)` as they are learned."""

    numbers: IntArray
    states: FloatArray
    actions: FloatArray
    targets: FloatArray


class Replay(Stateful):
    """The last visits, each with the number of its segment.

    Args:
        capacity: Most visits that are held.
        state_dim, action_dim: Lengths of the states and actions that are held.
        segments: Number of segments.
        n_quantities: Quantities that are held beside rewards.
    """

    learned = ("_states", "_actions", "_rewards", "_segments", "_count", "_moments")
    _states: Held
    _actions: Held
    _rewards: Held
    _quantities: Held

    def __init__(self, capacity: int, state_dim: int, action_dim: int, segments: int, n_quantities: int = 0) -> None:
        self._states = np.zeros((capacity, state_dim))
        self._actions = np.zeros((capacity, action_dim))
        self._rewards = np.zeros(capacity)
        self._segments = np.zeros(capacity, np.int64)
        self._count = np.zeros(1, np.int64)
        self._moments = np.zeros((3, segments))  # how many, mean, sum of squares around it
        self._quantities = np.zeros((capacity, n_quantities))

    def _learned_attributes(self) -> Mapping[str, str]:
        # Of those that have some alone, so that states which others have saved are read as before.
        more = {"quantities": "_quantities"} if self._quantities.shape[1] else {}
        return {**super()._learned_attributes(), **more}

    @property
    def seen(self) -> int:
        """The number of visits that were added."""
        return int(self._count[0])

    def seen_of(self, segment: int) -> int:
        """Return how many visits of a segment were added."""
        return int(self._moments[0, segment])

    def add(
        self,
        state: FloatArray,
        action: FloatArray,
        reward: float,
        segment: int,
        quantities: FloatArray = NO_PRICES,
    ) -> None:
        """Take in a visit, in the place of the oldest where there is no room."""
        place = self.seen % len(self._rewards)
        self._states[place] = state
        self._actions[place] = action
        self._rewards[place] = reward
        self._quantities[place] = quantities
        self._segments[place] = segment
        self._count += 1
        n, mean, _ = self._moments[:, segment]
        gap = reward - mean
        # Of all visits, also of those that the memory has dropped: scales settle instead of following it.
        self._moments[:, segment] += 1.0, gap / (n + 1.0), gap * gap * n / (n + 1.0)  # Welford 1962

    def scales(self, prices: FloatArray = NO_PRICES) -> tuple[FloatArray, FloatArray]:
        """Return mean and unit of the rewards of each segment `(S,)`, both shrunk to those of all visits.

        Args:
            prices: What a unit of each quantity adds to a reward.
        """
        n, means, squares = self._priced_moments(prices) if len(prices) else self._moments
        total = n.sum()
        mean = (n * means).sum() / total
        # Variance within segments, and between their means.
        variance = (squares + n * (means - mean) ** 2).sum() / total
        shrunk = (n * means + PRIOR * mean) / (n + PRIOR)
        # The sum of squares around another point than the mean: n times its squared distance more.
        around = squares + n * (means - shrunk) ** 2
        deviation = np.sqrt((around + PRIOR * variance) / (n + PRIOR))
        lowest = max(LEAST * np.sqrt(variance), 1e-9)
        return shrunk, np.sqrt(np.maximum(deviation, lowest) * max(np.sqrt(variance), 1e-9))

    def _priced_moments(self, prices: FloatArray) -> FloatArray:
        """Return the moments of the priced rewards of the visits held, as prices move with every visit."""
        held = slice(min(self.seen, len(self._rewards)))
        segments = self._segments[held]
        rewards = self._rewards[held] + self._quantities[held] @ prices
        size = self._moments.shape[1]
        n = np.bincount(segments, minlength=size).astype(float)
        means = np.bincount(segments, rewards, size) / np.maximum(n, 1.0)
        squares = np.bincount(segments, (rewards - means[segments]) ** 2, size)
        return np.stack([n, means, squares])

    def draw(self, n: int, *, scaled: bool = True, prices: FloatArray = NO_PRICES, rng: np.random.Generator) -> Batch:
        """Draw n visits with replacement; targets are rewards on the common scale if `scaled`, else as they came.

        Args:
            n: Number of visits.
            scaled: Whether targets are on the common scale.
            prices: What a unit of each quantity adds to a reward.
            rng: The source of the draws.
        """
        count = min(self.seen, len(self._rewards))
        places = rng.integers(count, size=n)
        targets = self._rewards[places]
        if len(prices):
            targets = targets + self._quantities[places] @ prices
        if scaled:
            mean, unit = self.scales(prices)
            segments = self._segments[places]
            targets = (targets - mean[segments]) / unit[segments]
        # Visit v stands at v modulo the capacity: a place holds the last such v.
        laps = (self.seen - 1 - places) // len(self._rewards)
        numbers = places + laps * len(self._rewards)
        return Batch(numbers, self._states[places], self._actions[places], targets)

    def _state_flaws(self, values: Mapping[str, Any]) -> Iterator[str]:
        """Yield whether segments are not there, or a visit is not counted in the moments of one of them."""
        visits, means, squares = values["moments"]
        count = int(values["count"][0])
        if values["segments"].max(initial=0) >= len(visits) or min(visits.min(), squares.min()) < 0.0:
            yield f"segments or moments are not those of {len(visits):,} segments"
            return
        held = slice(min(count, len(values["rewards"])))
        segments = values["segments"][held]
        gaps = (values["rewards"][held] - means[segments]) ** 2
        if visits.sum() != count or (gaps > (1.0 + ROUNDING) * squares[segments] + ROUNDING).any():
            yield "moments are not those of the visits held"
