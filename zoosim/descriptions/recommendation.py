"""Describe a recommendation world: who comes, what is for sale, who clicks what, and when that changes."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from zoosim.action_spaces.base import Part
from zoosim.core.tables import Column, Table
from zoosim.core.types import FloatArray, Progress
from zoosim.worlds.base import World
from zoosim.worlds.table import Period, TableWorld

WORTH_LEARNING = 1.02
"""Least ratio of the clicks of the best choices to those of one product for all, for learning to be worth it."""


class PeriodFacts(NamedTuple):
    """A period of visits in which nothing changes, from `start` on; `name` says which shocks begin it.

    Click chances `table (personas, categories)`, NaN where nothing of a category is for sale; `on_sale (categories,)`
    counts its products. Expected click rates: of whoever shows each visitor the best product, of the best single
    product for all, and of products drawn at random.
    """

    start: int
    name: str
    table: FloatArray
    on_sale: tuple[int, ...]
    oracle: float
    single: float
    random: float


class ShockEffect(NamedTuple):
    """A click chance that changes at visit `start`, by the shock `name`."""

    start: int
    name: str
    persona: str
    category: str
    before: float
    after: float


@dataclass(frozen=True)
class RecommendationDescription:
    """A recommendation world of one seed over `steps` visits, in plain figures.

    `personas` maps each to its number of users, `categories` each to its number of products.
    """

    seed: int
    steps: int
    personas: dict[str, int]
    categories: dict[str, int]
    periods: tuple[PeriodFacts, ...]
    changes: tuple[ShockEffect, ...]

    draw = Part("zoosim.report.recommendation:recommendation_figures")
    render = Part("zoosim.report.recommendation:render_recommendation")

    @property
    def answer(self) -> str:
        """Whether personalising pays in this world, in one sentence."""
        # Periods count by their visits.
        visits = np.diff([*(period.start for period in self.periods), self.steps])
        best, single, chance = (
            float(np.average([getattr(period, key) for period in self.periods], weights=visits))
            for key in ("oracle", "single", "random")
        )
        if best < WORTH_LEARNING * single:
            return (
                f"Show everybody the same product: {single:.1%} click it, and no choice by visitor gets above "
                f"{best:.1%}."
            )
        return (
            f"Test policies that learn who likes what: up to {best:.1%} clicks, against {single:.1%} with one product "
            f"for all and {chance:.1%} by chance."
        )

    def table(self) -> Table:
        """Tabulate what visits earn in each period: at best, by the best single product, and at random."""
        periods = self.periods
        columns = (
            Column("from visit", [f"{period.start:,}" for period in periods], is_essential=True),
            Column("period", [period.name for period in periods], is_text=True, is_essential=True),
            Column("products\non sale", [f"{sum(period.on_sale):,}" for period in periods], is_essential=True),
            Column("best choice,\n% clicks", _in_percent(period.oracle for period in periods), is_essential=True),
            Column("best product,\n% clicks", _in_percent(period.single for period in periods), is_essential=True),
            Column("random,\n% clicks", _in_percent(period.random for period in periods), is_essential=True),
        )
        users = sum(self.personas.values())
        products = sum(self.categories.values())
        return Table(f"{users:,} users of {len(self.personas)} personas, {products:,} products", columns)


def _in_percent(shares: Iterable[float]) -> list[str]:
    return [f"{100.0 * share:.1f}" for share in shares]


def describe(world: World, visits: int, progress: Progress) -> RecommendationDescription:
    """Return what a world is like over the visits of its run; see `World.description`."""
    table = world.as_table()
    assert table is not None
    return describe_recommendation(table, steps=world.steps)


def describe_recommendation(world: TableWorld, *, steps: int) -> RecommendationDescription:
    """Return what a world is like over `steps` visits."""
    users = np.bincount(world.segments, minlength=len(world.segment_names))
    products = np.bincount(world.groups, minlength=len(world.group_names))
    periods = tuple(_period(world, period, users / users.sum()) for period in world.periods if period.start < steps)
    return RecommendationDescription(
        seed=world.seed,
        steps=steps,
        personas=dict(zip(world.segment_names, users.tolist(), strict=True)),
        categories=dict(zip(world.group_names, products.tolist(), strict=True)),
        periods=periods,
        changes=_changes(world, steps),
    )


def _period(world: TableWorld, period: Period, shares: FloatArray) -> PeriodFacts:
    on_sale = np.bincount(world.offered(period.start).groups[period.available], minlength=len(world.group_names))
    sold = period.table[:, on_sale > 0]
    return PeriodFacts(
        start=period.start,
        name=_shocks_at(world, period.start),
        table=np.where(on_sale > 0, period.table, np.nan),
        on_sale=tuple(on_sale.tolist()),
        oracle=float(shares @ sold.max(axis=1)),
        # Products of a category are alike, so that one of the best category is the best product.
        single=float((shares @ sold).max()),
        # Products are drawn evenly, categories hence by how many of their products are on sale.
        random=float(shares @ period.table @ on_sale / on_sale.sum()),
    )


def _shocks_at(world: TableWorld, start: int) -> str:
    """Name the shocks that begin at a visit."""
    return " + ".join(name for step, name in world.shocks if step == start)


def _changes(world: TableWorld, steps: int) -> tuple[ShockEffect, ...]:
    changes = []
    for earlier, period in pairwise(period for period in world.periods if period.start < steps):
        name = _shocks_at(world, period.start)
        for s, g in np.argwhere(period.table != earlier.table).tolist():
            before = float(earlier.table[s, g])
            after = float(period.table[s, g])
            changes.append(ShockEffect(period.start, name, world.segment_names[s], world.group_names[g], before, after))
    return tuple(changes)
