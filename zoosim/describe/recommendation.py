"""Describe a recommendation world: who comes, what is for sale, who clicks what, and when that changes."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from zoosim.core.types import FloatArray
from zoosim.worlds.world import Stretch, World


class Period(NamedTuple):
    """A period of visits in which nothing changes, from visit `start` on; `name` lists the shocks that begin it.

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


class Change(NamedTuple):
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
    periods: tuple[Period, ...]
    changes: tuple[Change, ...]


def describe_recommendation(world: World, *, steps: int) -> RecommendationDescription:
    """Describe a recommendation world over `steps` visits."""
    users = np.bincount(world.segments, minlength=len(world.segment_names))
    products = np.bincount(world.groups, minlength=len(world.group_names))
    periods = tuple(
        _period(world, stretch, users / users.sum()) for stretch in world.stretches if stretch.start < steps
    )
    return RecommendationDescription(
        seed=world.seed,
        steps=steps,
        personas=dict(zip(world.segment_names, users.tolist(), strict=True)),
        categories=dict(zip(world.group_names, products.tolist(), strict=True)),
        periods=periods,
        changes=_changes(world, steps),
    )


def _period(world: World, stretch: Stretch, shares: FloatArray) -> Period:
    on_sale = np.bincount(world.offered(stretch.start).groups[stretch.available], minlength=len(world.group_names))
    sold = stretch.table[:, on_sale > 0]
    rates = (shares @ sold.max(axis=1), (shares @ sold).max(), shares @ stretch.table @ on_sale / on_sale.sum())
    name = " + ".join(name for step, name in world.shocks if step == stretch.start)
    table = np.where(on_sale > 0, stretch.table, np.nan)
    return Period(stretch.start, name, table, tuple(on_sale.tolist()), *map(float, rates))


def _changes(world: World, steps: int) -> tuple[Change, ...]:
    changes = []
    before = world.stretches[0].table
    for stretch in (stretch for stretch in world.stretches if stretch.start < steps):
        name = " + ".join(name for step, name in world.shocks if step == stretch.start)
        for s, g in np.argwhere(stretch.table != before).tolist():
            cell = (world.segment_names[s], world.group_names[g])
            changes.append(Change(stretch.start, name, *cell, float(before[s, g]), float(stretch.table[s, g])))
        before = stretch.table
    return tuple(changes)
