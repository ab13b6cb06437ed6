"""A world given by a table of click probabilities: read-only arrays, which compiled loops run through.

A visitor of segment s clicks a product of group g with probability `table[s, g]`. The table, and which products may be
shown, are constant over a period of visits; shocks and availability events start new periods. Who comes at step t,
and whether that visitor would click product p, are counter-based draws: they do not depend on what was shown before.
Where a world has `rewards`, they settle what each product earns at each visit, and the table what it earns on average.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from zoosim.core.action_space import PRODUCTS
from zoosim.core.jit import jit
from zoosim.core.rng import stream_key, uniform
from zoosim.core.types import CLICK, REWARD, BoolArray, Context, FloatArray, IntArray, PolicySpec, frozen, frozen_parts
from zoosim.worlds.base import Outcome, ProductList, Truth, World, numbered, truth_of_candidates
from zoosim.worlds.facts import Change

if TYPE_CHECKING:
    from zoosim.schema.schema import FittedSchema

CHUNK = 1_000
"""Visits that are drawn together."""

NO_REWARDS = frozen(np.zeros((0, 0)))
"""The settled rewards where clicks are drawn: none."""


@dataclass(frozen=True, eq=False)
class Period:
    """From visit `start` on: click probabilities `table (S, G)`, and the mask `available (K,)` of the candidates.

    `offered (K,)` are the rows of the world's products that are candidates; None for all of them. `best (S,)` is the
    reward of the oracle by segment; None for that of the best candidate.
    """

    start: int
    table: FloatArray
    available: BoolArray
    offered: IntArray | None = None
    best: FloatArray | None = None


class VisitBatch(NamedTuple):
    """The visits `start` to `start + n - 1`, all in one period, in the form that compiled loops take.

    `visitors (n,)` rows of `users (U, d_u)` and `segments (U,)`, `user_ids (n,)` by which policies know them,
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
def earn(visits: VisitBatch, i: int, action: int) -> float:
    """Settle what an action earns: a click, 1.0 or 0.0, by common random numbers, or a reward.

    Args:
        visits: The visits.
        i: Place of the visit among them.
        action: The candidate that is shown.
    """
    if visits.rewards.shape[0] > 0:
        reward: float = visits.rewards[visits.visitors[i], action]
        return reward
    chance = visits.table[visits.segments[visits.visitors[i]], visits.groups[action]]
    # By the product's row, not by its place: it meets the same luck wherever it stands, and among whichever others.
    return 1.0 if uniform(visits.click_key, visits.start + i, visits.offered[action]) < chance else 0.0


@jit
def draw_visitors(key: np.uint64, start: int, stop: int, n_users: int) -> IntArray:
    """Draw the users of visits, uniformly.

    Args:
        key: Key of the draws, by the number of the visit.
        start, stop: The visits are `start` to `stop - 1`.
        n_users: Number of users.
    """
    out = np.empty(stop - start, np.int64)
    for i in range(stop - start):
        out[i] = int(uniform(key, start + i, 0) * n_users)
    return out


def best_by_segment(table: FloatArray, groups: IntArray, available: BoolArray) -> FloatArray:
    """Return the highest expected reward of each segment over what may be shown, `(S,)`.

    Args:
        table: Expected reward by segment and group of products, `(S, G)`.
        groups: Group of each candidate, `(K,)`.
        available: Candidates that may be shown, `(K,)`.
    """
    # Products of a group earn the same, so each group is looked at once, however many products it has.
    best: FloatArray = table[:, np.unique(groups[available])].max(axis=1)
    return best


class VisitCandidates(NamedTuple):
    """The candidates of some visits: `rows (K,)` of the world's products, their ids, features `(K, d_p)` and groups."""

    rows: IntArray
    ids: IntArray
    products: FloatArray
    groups: IntArray


class TableVisit(NamedTuple):
    """Visit number `place` of some `visits`, at which the products of an `offer` are candidates."""

    visits: VisitBatch
    offer: VisitCandidates
    place: int

    @property
    def step(self) -> int:
        """The number of the visit."""
        return self.visits.start + self.place

    @property
    def visitor(self) -> int:
        """The visitor, as a row of the users of these visits."""
        return int(self.visits.visitors[self.place])


@dataclass(frozen=True, kw_only=True)
class TableWorld(World):
    """A world as a table: visitors, products, click rates, and when these change.

    `users (U, d_u)`, `segments (U,)`, `products (K, d_p)`, `groups (K,)`; `periods` in order of their start, the
    first at 0. `shocks` divide a run into phases. `schedule`, where given, fixes who comes
    (cyclically); otherwise visitors are drawn uniformly. `anonymous` visitors are never recognised: their id is the
    number of the visit. `rewards (U, K)` settles what each product earns from each user, and `parts` what that is made
    of, each `(U, K)`; without, rewards are clicks. `ids` are those of the products, by default 0 to K - 1.
    `user_columns` and `product_columns` name the features, by default by number; `templates` names the products where
    these are ranking templates. `catalogue_version` tells worlds apart whose products have the same features.
    """

    seed: int
    users: FloatArray
    segments: IntArray
    products: FloatArray
    groups: IntArray
    periods: tuple[Period, ...]
    segment_names: tuple[str, ...]
    group_names: tuple[str, ...]
    visit_key: np.uint64
    click_key: np.uint64
    shocks: tuple[Change, ...] = ()
    action_space: str = PRODUCTS
    reward_range: tuple[float, float] = (0.0, 1.0)
    schedule: IntArray | None = None
    anonymous: bool = False
    rewards: FloatArray = field(default_factory=lambda: NO_REWARDS)
    parts: Mapping[str, FloatArray] = field(default_factory=dict)
    ids: IntArray | None = None
    templates: tuple[str, ...] = ()
    catalogue_version: str = ""
    user_columns: tuple[str, ...] = ()
    product_columns: tuple[str, ...] = ()

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
        """Give the ids of the products."""
        return frozen(np.arange(self.n_products)) if self.ids is None else self.ids

    @cached_property
    def _offers(self) -> dict[int, VisitCandidates]:
        """Return the candidates of each period, by its start; those that are the same share their arrays."""
        columns: tuple[Any, ...] = (self.product_ids, self.products, self.groups)
        everything = VisitCandidates(frozen(np.arange(self.n_products)), *columns)
        offers = {}
        for period in self.periods:
            rows = period.offered
            chosen = (
                everything if rows is None else VisitCandidates(rows, *(frozen(column[rows]) for column in columns))
            )
            offers[period.start] = chosen
        return offers

    def offered(self, step: int) -> VisitCandidates:
        """Return the candidates of visit `step`."""
        return self._offers[self.period(step).start]

    def spec(self, steps: int) -> PolicySpec:
        """Say what a policy may know of this world when it is made."""
        known = 0 if self.anonymous else self.n_users
        return PolicySpec(
            user_dim=self.users.shape[1],
            product_dim=self.products.shape[1],
            n_users=known,
            steps=steps,
            templates=self.templates,
        )

    def visitors(self, start: int, stop: int) -> IntArray:
        """Return the rows of `users` that come at visits `start` to `stop - 1`."""
        if self.schedule is None:
            return draw_visitors(self.visit_key, start, stop, self.n_users)
        return self.schedule[np.arange(start, stop) % len(self.schedule)]

    def period(self, step: int) -> Period:
        """Return the period that visit `step` falls in."""
        index = np.searchsorted([s.start for s in self.periods], step, side="right") - 1
        return self.periods[index]

    def visits(self, start: int, stop: int) -> VisitBatch:
        """Return visits `start` to `stop - 1`, which must lie in one period."""
        period = self.period(start)
        visitors = self.visitors(start, stop)
        user_ids = np.arange(start, stop) if self.anonymous else visitors
        offered = self._offers[period.start]
        candidates = (offered.rows, offered.groups, period.table, period.available)
        return frozen_parts(
            VisitBatch(start, visitors, user_ids, self.users, self.segments, *candidates, self.click_key, self.rewards)
        )

    def visits_apart(
        self, start: int, rows: IntArray, user_ids: IntArray, table: FloatArray, rewards: FloatArray
    ) -> VisitBatch:
        """Return visits from `start` on that have tables of their own: a row per visit, and a column per candidate.

        `rows (n,)` of the users come, known as `user_ids (n,)`; `table` and `rewards` are `(n, K)`.
        """
        # Each visit is a segment of its own, and each candidate a group, so
        # that `table` is read as those of segments are.
        places = np.arange(len(rows))
        offered = self.offered(start).rows
        visits = VisitBatch(
            start=start,
            visitors=places,
            user_ids=user_ids,
            users=frozen(self.users[rows]),
            segments=places,
            offered=offered,
            groups=np.arange(len(offered)),
            table=table,
            available=self.period(start).available,
            click_key=self.click_key,
            rewards=rewards,
        )
        return frozen_parts(visits)

    def chosen_and_best(self, visits: VisitBatch, actions: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return the expected rewards of the chosen candidate and of the oracle, each `(n,)`.

        Args:
            visits: The n visits.
            actions: The candidate shown at each, `(n,)`.
        """
        segments = visits.segments[visits.visitors]
        best = self.period(visits.start).best
        if best is None:
            best = best_by_segment(visits.table, visits.groups, visits.available)
        return visits.table[segments, visits.groups[actions]], best[segments]

    @cached_property
    def _chunk(self) -> list[tuple[VisitBatch, VisitCandidates]]:
        """Hold the visits that were asked for last, and what is offered at them."""
        return []

    def arrive(self, step: int) -> TableVisit:
        """Return visit number `step`."""
        if not self._chunk or not 0 <= step - self._chunk[0][0].start < len(self._chunk[0][0].visitors):
            later = [period.start for period in self.periods if period.start > step]
            start = max(self.period(step).start, step - step % CHUNK)  # the same, whichever visit is asked for first
            self._chunk[:] = [(self.visits(start, min([start - start % CHUNK + CHUNK, *later])), self.offered(start))]
        visits, offer = self._chunk[0]
        return TableVisit(visits, offer, step - visits.start)

    def context(self, visit: TableVisit) -> Context:
        """Return what the shop knows of a visit."""
        return Context(
            user_id=int(visit.visits.user_ids[visit.place]),
            user=visit.visits.users[visit.visitor],
            product_ids=visit.offer.ids,
            products=visit.offer.products,
            available=visit.visits.available,
        )

    def serve(self, visit: TableVisit, action: int) -> Outcome:
        """Return what a product earns at a visit, a click or what `rewards` say."""
        reward = earn(visit.visits, visit.place, action)
        if not self.parts:
            return Outcome(reward, {"shown": visit.offer.ids[[action]], "clicks": np.array([reward > 0])})
        parts = {name: float(part[visit.visitor, action]) for name, part in self.parts.items()}
        return Outcome(reward, {"reward_parts": parts}, parts, int(visit.visits.segments[visit.visitor]))

    def truth(self, visit: TableVisit) -> Truth:
        """Return the expected reward of each product at a visit."""
        segment = visit.visits.segments[visit.visitor]
        truth = truth_of_candidates(visit.visits.table[segment, visit.visits.groups], visit.visits.available)
        best = self.period(visit.step).best
        return truth if best is None else replace(truth, best_reward=float(best[segment]), best_action=None)

    def as_table(self) -> "TableWorld":
        """Return the world itself."""
        return self

    def before(self) -> "TableWorld | None":
        """Return the world as it stood before visit 0, with visitors and clicks of its own: where old logs come from.

        None where rewards are settled beforehand, so that there are no visits but those of the run.
        """
        if self.parts:
            return None
        return replace(
            self,
            periods=self.periods[:1],
            shocks=(),
            schedule=None,
            visit_key=stream_key(self.seed, "past visits"),
            click_key=stream_key(self.seed, "past clicks"),
        )

    def schema(self) -> "FittedSchema | None":
        """Return a schema with the names of the features."""
        from zoosim.schema.schema import plain_schema

        users = self.user_columns or numbered("visitor", self.users.shape[1])
        products = self.product_columns or numbered("product", self.products.shape[1])
        pays_clicks = not self.rewards.size and self.reward_range == (0.0, 1.0)
        return plain_schema(users, products, CLICK if pays_clicks else REWARD)

    def all_products(self) -> ProductList:
        """Return all products there ever are, with the names of their groups."""
        groups = tuple(self.group_names[group] for group in self.groups)
        return ProductList(self.product_ids, self.products, groups, version=self.catalogue_version)
