"""Facts about a search world from simulated visits: catalogue, users, behaviour by position, rewards of templates."""

import time
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from zoosim.action_spaces.base import Part
from zoosim.core.search_config import SearchConfig
from zoosim.core.statistics import Interval, mean_interval
from zoosim.core.tables import Column, Table
from zoosim.core.types import BoolArray, FloatArray, IntArray, Progress
from zoosim.descriptions.shifts import ShiftFacts, shift_facts
from zoosim.descriptions.spread import Spread, spread_of
from zoosim.descriptions.visit import VisitFacts, describe_visit
from zoosim.worlds.search.shop import SearchShop
from zoosim.worlds.search.simulated import Search
from zoosim.worlds.search.world import build_search_world

PROGRESS_SECONDS = 2.0
"""Seconds between lines of progress while visits are simulated."""

SKIPPED = 1
CLICKED = 2
BOUGHT = 4
"""Points of `most_eventful_visit` for what visitors do with products that they look at."""


class CategoryFacts(NamedTuple):
    """A category that has products: how many, EUR of `price` and `cm2`, and shares of its products."""

    name: str
    products: int
    price: Spread
    cm2: Spread
    label_share: float
    discounted_share: float
    strategic_share: float


class SegmentFacts(NamedTuple):
    """A segment that has users: how many, their true tastes, and their visits to the base ranker's ranking.

    `categories` are mean tastes by category; `clicks`, `purchases` and `gmv` in EUR are means per visit, over the
    segment's `visits` among those simulated.
    """

    name: str
    users: int
    price: Spread
    label: Spread
    categories: tuple[float, ...]
    visits: int
    clicks: float
    purchases: float
    gmv: float


class PositionFacts(NamedTuple):
    """Counts of `visits` in which positions of the base ranker's ranking were examined, clicked, bought, each `(k,)`.

    All of them have the same query type.
    """

    query_type: str
    visits: int
    examined: IntArray
    clicked: IntArray
    bought: IntArray


@dataclass(frozen=True)
class SearchDescription:
    """A search world of one seed, in plain figures; `visits` were simulated.

    `plain` is the mean reward with interval of all visits without boosts; `templates` maps each template to that of all
    visits, and of each segment's, None where it had none. `shifts` are the later changes of the market; all else is the
    opening market.
    """

    config: SearchConfig
    seed: int
    k: int
    visits: int
    categories: tuple[CategoryFacts, ...]
    segments: tuple[SegmentFacts, ...]
    positions: tuple[PositionFacts, ...]
    plain: Interval
    templates: dict[str, tuple[Interval | None, ...]]
    example: VisitFacts
    shifts: tuple[ShiftFacts, ...] = ()

    draw = Part("zoosim.report.search:search_figures")
    render = Part("zoosim.report.search:render_search")

    @property
    def answer(self) -> str:
        """Which template to begin with, in one sentence."""
        values = {name: by_segment[0] for name, by_segment in self.templates.items() if by_segment[0] is not None}
        best = max(values, key=lambda name: values[name].mean)
        plain = self.plain
        low = values[best].low
        high = plain.high
        # Rather too careful: rewards are paired by visit, so that intervals may overlap where the difference is sure.
        if low is None or high is None or low <= high:
            return (
                "Begin without boosts: no template is shown to earn more than the "
                f"EUR {plain.mean:.2f} a visit of none."
            )
        return (
            f"Begin with the template {best}: it earns EUR {values[best].mean:.2f} a visit, against {plain.mean:.2f} "
            "without boosts."
        )

    def table(self) -> Table:
        """Tabulate what visits of each segment bring without boosts."""
        segments = self.segments
        columns = (
            Column("segment", [each.name for each in segments], is_text=True, is_essential=True),
            Column("users", [f"{each.users:,}" for each in segments], is_essential=True),
            Column("visits", [f"{each.visits:,}" for each in segments], is_essential=True),
            Column("clicks\nper visit", [f"{each.clicks:.2f}" for each in segments], is_essential=True),
            Column("purchases\nper visit", [f"{each.purchases:.3f}" for each in segments], is_essential=True),
            Column("GMV, EUR\nper visit", [f"{each.gmv:.2f}" for each in segments], is_essential=True),
        )
        n_products = sum(category.products for category in self.categories)
        return Table(f"{n_products:,} products, {self.visits:,} visits simulated", columns)


class SimulatedVisits(NamedTuple):
    """The outcomes of n visits on the base ranker's ranking, and their `rewards (n, T)` under each of T templates.

    `segments (n,)`, `query_types (n,)`; `examined (n, k)`, `clicks (n, k)`, `purchases (n, k)`; `gmv (n,)` and the
    reward `plain (n,)` without boosts.
    """

    segments: IntArray
    query_types: IntArray
    examined: BoolArray
    clicks: BoolArray
    purchases: BoolArray
    gmv: FloatArray
    plain: FloatArray
    rewards: FloatArray


def describe(world: Search, visits: int, progress: Progress) -> SearchDescription:
    """Return what a search shop is like, by simulated visits; see `World.description`."""
    return describe_search(world.config, seed=world.seed, visits=visits, progress=progress)


def describe_search(config: SearchConfig, *, seed: int, visits: int, progress: Progress) -> SearchDescription:
    """Build the world of a seed, simulate `visits` (1 or more), and describe it until its market shifts."""
    progress(f"building a shop of {config.n_products:,} products")
    shop = SearchShop(build_search_world(config, seed=seed))
    if len(shop.world.markets) > 1 and visits > shop.world.markets[1].start:
        visits = shop.world.markets[1].start
        progress(f"{visits:,} visits, until the market shifts")
    simulated = _simulate(shop, visits, progress)
    progress("ranking one visit with boosts")
    return SearchDescription(
        config=shop.world.config,
        seed=seed,
        k=shop.k,
        visits=visits,
        categories=_categories(shop),
        segments=_segments(shop, simulated),
        positions=_positions(shop, simulated),
        plain=mean_interval(simulated.plain),
        templates=_templates(shop, simulated),
        example=describe_visit(shop, most_eventful_visit(simulated)),
        shifts=shift_facts(shop.world.config),
    )


def _simulate(shop: SearchShop, visits: int, progress: Progress) -> SimulatedVisits:
    simulated = SimulatedVisits(
        segments=np.zeros(visits, np.int64),
        query_types=np.zeros(visits, np.int64),
        examined=np.zeros((visits, shop.k), np.bool_),
        clicks=np.zeros((visits, shop.k), np.bool_),
        purchases=np.zeros((visits, shop.k), np.bool_),
        gmv=np.zeros(visits),
        plain=np.zeros(visits),
        rewards=np.zeros((visits, len(shop.world.config.templates))),
    )
    last_line = time.monotonic()
    for step in range(visits):
        _simulate_one(shop, step, simulated)
        if time.monotonic() - last_line > PROGRESS_SECONDS:
            last_line = time.monotonic()
            progress(f"{step + 1:,} of {visits:,} visits")
    return simulated


def _simulate_one(shop: SearchShop, step: int, simulated: SimulatedVisits) -> None:
    visit = shop.arrive(step)
    simulated.segments[step] = visit.segment
    simulated.query_types[step] = visit.query_type
    result = shop.serve(visit, visit.baseline)
    simulated.gmv[step] = result.parts.gmv
    simulated.plain[step] = result.reward
    simulated.examined[step] = result.outcome.examined
    simulated.clicks[step] = result.outcome.clicks
    simulated.purchases[step] = result.outcome.purchases
    for template in range(simulated.rewards.shape[1]):
        simulated.rewards[step, template] = shop.serve(visit, shop.rank_by_template(visit, template)).reward


def most_eventful_visit(simulated: SimulatedVisits) -> int:
    """Return the first visit with the most different events: a product skipped, clicked only, bought."""
    skipped = (simulated.examined & ~simulated.clicks).any(axis=1)
    clicked = (simulated.clicks & ~simulated.purchases).any(axis=1)
    bought = simulated.purchases.any(axis=1)
    # Each event counts for more than all lesser ones together; argmax takes the first of equal visits.
    return int(np.argmax(SKIPPED * skipped + CLICKED * clicked + BOUGHT * bought))


def _categories(shop: SearchShop) -> tuple[CategoryFacts, ...]:
    catalogue = shop.world.catalogue
    categories = []
    for number, name in enumerate(shop.world.config.categories):
        in_category = catalogue.category == number
        if in_category.any():
            facts = CategoryFacts(
                name=name,
                products=int(in_category.sum()),
                price=spread_of(catalogue.price[in_category]),
                cm2=spread_of(catalogue.cm2[in_category]),
                label_share=float(np.mean(catalogue.label[in_category] > 0)),
                discounted_share=float(np.mean(catalogue.discount[in_category] > 0)),
                strategic_share=float(np.mean(catalogue.strategic[in_category])),
            )
            categories.append(facts)
    return tuple(categories)


def _segments(shop: SearchShop, simulated: SimulatedVisits) -> tuple[SegmentFacts, ...]:
    users = shop.world.users
    segments = []
    for number, name in enumerate(shop.world.config.segments):
        in_segment = users.segment == number
        visits = simulated.segments == number
        n_visits = int(visits.sum())
        if in_segment.any():
            facts = SegmentFacts(
                name=name,
                users=int(in_segment.sum()),
                price=spread_of(users.price_taste[in_segment]),
                label=spread_of(users.label_taste[in_segment]),
                categories=tuple(users.category_tastes[in_segment].mean(axis=0).tolist()),
                visits=n_visits,
                clicks=float(simulated.clicks[visits].sum() / max(n_visits, 1)),
                purchases=float(simulated.purchases[visits].sum() / max(n_visits, 1)),
                gmv=float(simulated.gmv[visits].sum() / max(n_visits, 1)),
            )
            segments.append(facts)
    return tuple(segments)


def _positions(shop: SearchShop, simulated: SimulatedVisits) -> tuple[PositionFacts, ...]:
    masks = [(name, simulated.query_types == number) for number, name in enumerate(shop.world.config.query_types)]
    counted = (simulated.examined, simulated.clicks, simulated.purchases)
    return tuple(
        PositionFacts(name, int(mask.sum()), *(part[mask].sum(axis=0) for part in counted))
        for name, mask in masks
        if mask.any()
    )


def _templates(shop: SearchShop, simulated: SimulatedVisits) -> dict[str, tuple[Interval | None, ...]]:
    masks = [np.ones(len(simulated.segments), np.bool_)]
    masks += [simulated.segments == number for number in range(len(shop.world.config.segments))]
    return {
        name: tuple(mean_interval(simulated.rewards[mask, number]) if mask.any() else None for mask in masks)
        for number, name in enumerate(shop.world.config.templates)
    }
