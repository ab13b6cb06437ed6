"""What visits earn in a shop that a log allows, by today's choices and by a new model."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from zoosim.core.types import FloatArray, IntArray
from zoosim.worlds.fitted.shop import FittedShop, ShopDraw

CELLS = 4_000_000
"""Visits times products that are computed at once."""


@dataclass(frozen=True, eq=False)
class RehearsedShop:
    """A fitted shop whose visits come by two policies, as it is at the end of the log: after all of its changes.

    Attributes:
        shop: The fitted shop.
        rows: Visits of it that may come `(n,)`.
        today: The product that today's choices show at each `(n,)`.
        chances: How likely the new model shows each product at each `(n, K)`.
    """

    shop: FittedShop
    rows: IntArray
    today: IntArray
    chances: FloatArray

    @cached_property
    def now(self) -> FittedShop:
        """The shop with all of its changes at every visit."""
        return replace(self.shop, changes=tuple(change._replace(row=0) for change in self.shop.changes))

    def earnings(self, number: int) -> "ShopEarnings":
        """Return what visits earn in a shop that the log allows."""
        draw = self.now.draw(number)
        responses = np.empty(len(self.rows))
        new = np.empty(len(self.rows))
        for part in self._parts():
            likely = self.now.chances(draw, self.rows[part])
            responses[part] = (likely * self.chances[part]).sum(axis=1)
            sizes = self.now.expected_sizes(draw, self.rows[part])
            new[part] = responses[part] if sizes is None else (likely * sizes * self.chances[part]).sum(axis=1)
        today = self.now.expected_rewards_of(draw, self.rows, self.today)
        return ShopEarnings(self, draw, today, new, self.now.chances_of(draw, self.rows, self.today), responses)

    def exploring(self, number: int, available: FloatArray) -> float:
        """Return what a visit earns on average where one of its candidates is shown by chance."""
        draw = self.now.draw(number)
        earned = 0.0
        for part in self._parts():
            earned += float((self.now.expected_rewards(draw, self.rows[part]) * available[part]).sum())
        return earned / len(self.rows)

    def _parts(self) -> Iterator[slice]:
        step = max(1, CELLS // self.shop.n_products)
        for start in range(0, len(self.rows), step):
            yield slice(start, min(start + step, len(self.rows)))


@dataclass(frozen=True, eq=False)
class ShopEarnings:
    """What visits earn in one shop that the log allows; see `Earnings`.

    Attributes:
        of: The shop.
        drawn: The draw of it.
        today: What each visit is expected to earn by today's choices `(n,)`.
        new: The same by the new model `(n,)`.
        today_responds: How likely each visit responds to today's choices `(n,)`.
        new_responds: The same of the new model's `(n,)`.
    """

    of: RehearsedShop
    drawn: ShopDraw
    today: FloatArray
    new: FloatArray
    today_responds: FloatArray
    new_responds: FloatArray

    def draw(self, rows: IntArray, is_new: bool, rng: np.random.Generator) -> FloatArray:
        """Draw what visits earn, each a row of the log, `(m,)`, by the new model or by today's choices."""
        likely = self.new_responds if is_new else self.today_responds
        responds = rng.random(len(rows)) < likely[rows]
        shop = self.of.now
        if shop.sizes is None:
            return responds.astype(float)
        earned = np.zeros(len(rows))
        responding = rows[responds]
        actions = self._shown(responding, rng) if is_new else self.of.today[responding]
        earned[responds] = self._amounts(self.of.rows[responding], actions, rng)
        return earned

    def _shown(self, rows: IntArray, rng: np.random.Generator) -> IntArray:
        """Draw which product of the new model each visit responded to."""
        actions = np.empty(len(rows), np.int64)
        step = max(1, CELLS // self.of.shop.n_products)
        for start in range(0, len(rows), step):
            some = rows[start : start + step]
            weights = self.of.now.chances(self.drawn, self.of.rows[some]) * self.of.chances[some]
            sums = np.cumsum(weights, axis=1)
            actions[start : start + step] = (sums < rng.random(len(some))[:, None] * sums[:, -1:]).sum(axis=1)
        return actions

    def _amounts(self, rows: IntArray, actions: IntArray, rng: np.random.Generator) -> FloatArray:
        sizes = self.of.now.sizes
        assert sizes is not None
        assert self.drawn.sizes is not None
        typical = (self.of.now.represent(rows) * self.drawn.sizes[actions]).sum(axis=1)
        residuals = sizes.residuals[rng.integers(0, len(sizes.residuals), len(rows))]
        return np.asarray(np.exp(typical + residuals) if sizes.are_logs else typical + residuals)
