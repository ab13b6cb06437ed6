"""A world of visitors and products: arrays, built once, then read-only.

A visitor of segment s clicks a product of group g with probability `table[s, g]`. The table, and which products may be
shown, are constant over a stretch of visits; shocks and availability events start new stretches. Who comes at step t,
and whether that visitor would click product p, are counter-based draws: they do not depend on what was shown before.
Where a world has `rewards`, they settle what each product earns at each visit, and the table what it earns on average.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.rng import uniform
from zoosim.core.types import BoolArray, Context, FloatArray, IntArray, PolicySpec, frozen


@dataclass(frozen=True, eq=False)
class Stretch:
    """From visit `start` on: click probabilities `table (S, G)`, and the mask `available (K,)` of the candidates.

    `offered (K,)` are the rows of the world's products that are candidates; None for all of them.
    """

    start: int
    table: FloatArray
    available: BoolArray
    offered: IntArray | None = None


class Visits(NamedTuple):
    """The visits `start` to `start + n - 1`, all in one stretch, in the form that compiled loops take.

    `visitors (n,)` rows of `users (U, d_u)`, `user_ids (n,)` by which policies know them, `segments (U,)`,
    `offered (K,)` rows of the products that are candidates, `groups (K,)` of these, `table (S, G)`, `available (K,)`;
    `rewards (U, K)`, or `(0, 0)` where clicks are drawn.
    """

    start: int
    visitors: IntArray
    user_ids: IntArray
    users: FloatArray
    segments: IntArray
    offered: IntArray
    groups: IntArray
    table: FloatArray
    available: BoolArray
    click_key: np.uint64
    rewards: FloatArray


@jit
def earn(visits: Visits, i: int, action: int) -> float:
    """Settle what `action` earns at visit `i` of these: a click, 1.0 or 0.0, by common random numbers, or a reward."""
    if visits.rewards.shape[0] > 0:
        reward: float = visits.rewards[visits.visitors[i], action]
        return reward
    chance = visits.table[visits.segments[visits.visitors[i]], visits.groups[action]]
    return 1.0 if uniform(visits.click_key, visits.start + i, visits.offered[action]) < chance else 0.0


@jit
def draw_visitors(key: np.uint64, start: int, stop: int, n_users: int) -> IntArray:
    """Draw the users of visits `start` to `stop - 1`, uniform over the users."""
    out = np.empty(stop - start, np.int64)
    for i in range(stop - start):
        out[i] = int(uniform(key, start + i, 0) * n_users)
    return out


class Offer(NamedTuple):
    """The candidates of some visits: `rows (K,)` of the world's products, their ids, features `(K, d_p)` and groups."""

    rows: IntArray
    ids: IntArray
    products: FloatArray
    groups: IntArray


@dataclass(frozen=True)
class World:
    """Who may come, what is for sale, who clicks what and when that changes.

    `users (U, d_u)`, `segments (U,)`, `products (K, d_p)`, `groups (K,)`; `stretches` in order of their start, the
    first at 0. `shocks` are the (step, name) that divide a run into phases. `schedule`, where given, fixes who comes
    (cyclically); otherwise visitors are drawn uniformly. `anonymous` visitors are never recognised: their id is the
    number of the visit. `rewards (U, K)` settles what each product earns from each user, and `parts` what that is made
    of, each `(U, K)`; without, rewards are clicks.
    """

    seed: int
    users: FloatArray
    segments: IntArray
    products: FloatArray
    groups: IntArray
    stretches: tuple[Stretch, ...]
    segment_names: tuple[str, ...]
    group_names: tuple[str, ...]
    visit_key: np.uint64
    click_key: np.uint64
    shocks: tuple[tuple[int, str], ...] = ()
    schedule: IntArray | None = None
    anonymous: bool = False
    rewards: FloatArray = field(default_factory=lambda: frozen(np.zeros((0, 0))))
    parts: Mapping[str, FloatArray] = field(default_factory=dict)

    @property
    def n_products(self) -> int:
        """Count the products."""
        return len(self.groups)

    @property
    def n_users(self) -> int:
        """Count the users."""
        return len(self.segments)

    @cached_property
    def product_ids(self) -> IntArray:
        """Give the ids of the products, 0 to K - 1."""
        return frozen(np.arange(self.n_products))

    @cached_property
    def _offers(self) -> dict[int, Offer]:
        """Return the candidates of each stretch, by its start; those that are the same share their arrays."""
        everything = Offer(frozen(np.arange(self.n_products)), self.product_ids, self.products, self.groups)
        offers = {}
        for stretch in self.stretches:
            rows = stretch.offered
            if rows is None:
                offers[stretch.start] = everything
            else:
                ids, products, groups = self.product_ids[rows], self.products[rows], self.groups[rows]
                offers[stretch.start] = Offer(rows, frozen(ids), frozen(products), frozen(groups))
        return offers

    def offered(self, step: int) -> Offer:
        """Return the candidates of visit `step`."""
        return self._offers[self.stretch(step).start]

    def spec(self, steps: int) -> PolicySpec:
        """Say what a policy may know of this world when it is made."""
        known = 0 if self.anonymous else self.n_users
        return PolicySpec(user_dim=self.users.shape[1], product_dim=self.products.shape[1], n_users=known, steps=steps)

    def visitors(self, start: int, stop: int) -> IntArray:
        """Return the rows of `users` that come at visits `start` to `stop - 1`."""
        if self.schedule is None:
            return draw_visitors(self.visit_key, start, stop, self.n_users)
        return self.schedule[np.arange(start, stop) % len(self.schedule)]

    def stretch(self, step: int) -> Stretch:
        """Return the stretch that visit `step` falls in."""
        index = np.searchsorted([s.start for s in self.stretches], step, side="right") - 1
        return self.stretches[index]

    def visits(self, start: int, stop: int) -> Visits:
        """Return visits `start` to `stop - 1`, which must lie in one stretch."""
        stretch = self.stretch(start)
        visitors = self.visitors(start, stop)
        user_ids = np.arange(start, stop) if self.anonymous else visitors
        offered = self._offers[stretch.start]
        candidates = (offered.rows, offered.groups, stretch.table, stretch.available)
        return Visits(start, visitors, user_ids, self.users, self.segments, *candidates, self.click_key, self.rewards)

    def blocks(self, steps: int, size: int) -> Iterator[Visits]:
        """Cut visits 0 to `steps - 1` into blocks of at most `size`, none of which spans two stretches."""
        starts = [s.start for s in self.stretches if s.start < steps]
        for begin, end in zip(starts, [*starts[1:], steps], strict=True):
            for start in range(begin, end, size):
                yield self.visits(start, min(start + size, end))

    def context(self, visitor: int, step: int, user_id: int | None = None) -> Context:
        """Return what the shop knows when `visitor` (a row) comes at visit `step`."""
        offer = self.offered(step)
        return Context(
            user_id=visitor if user_id is None else user_id,
            user=self.users[visitor],
            product_ids=offer.ids,
            products=offer.products,
            available=self.stretch(step).available,
        )
