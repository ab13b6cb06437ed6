"""The market of a search world: who comes and what is for sale, from one shift to the next."""

from typing import Any, NamedTuple

import numpy as np

from zoosim.core.market_shift import MarketShift, in_force
from zoosim.core.rng import uniforms
from zoosim.core.search_config import SearchConfig
from zoosim.core.types import FloatArray, frozen
from zoosim.worlds.search.catalogue import Catalogue
from zoosim.worlds.search.users import Users


class Shares(NamedTuple):
    """Cumulative shares of `segments (S,)` and query `types (T,)`, the last ones 1."""

    segments: FloatArray
    types: FloatArray


class Market(NamedTuple):
    """What holds from visit `start` on; what a shift leaves alone is the same object as before it."""

    start: int
    catalogue: Catalogue
    users: Users
    shares: Shares


def markets_of(config: SearchConfig, catalogue: Catalogue, users: Users, key: np.uint64) -> tuple[Market, ...]:
    """Return the market that a world opens with, and that after each shift; `key` draws what promotions hit."""
    types = [kind.share for kind in config.query_types.values()]
    shares = [Shares(_cumulative(list(mix.values())), _cumulative(types)) for mix in config.mixes]
    found = [Market(0, catalogue, users, shares[0])]
    prices: tuple[Any, Any] = ({}, {})
    tastes: Any = {}
    for shift, mix in zip(in_force(config.shifts), shares[1:], strict=True):
        _, goods, people, _ = found[-1]
        if prices != (shift.prices, shift.promotions):
            goods = _shifted_catalogue(config, catalogue, shift, key)
        if tastes != shift.tastes:
            people = _shifted_users(config, users, shift)
        prices, tastes = (shift.prices, shift.promotions), shift.tastes
        found.append(Market(shift.step, goods, people, mix))
    return tuple(found)


def only(market: Market, segment: int) -> Market:
    """Return a market to which one segment comes."""
    whole = np.where(np.arange(len(market.shares.segments)) >= segment, 1.0, 0.0)
    return market._replace(shares=market.shares._replace(segments=whole))


def _shifted_catalogue(config: SearchConfig, catalogue: Catalogue, shift: MarketShift, key: np.uint64) -> Catalogue:
    slope = np.array([kind.cm2_slope for kind in config.categories.values()])[catalogue.category]
    price = catalogue.price * _of_each(config.categories, shift.prices, 1.0)[catalogue.category]
    promotions = {name: (given.share, given.discount) for name, given in shift.promotions.items()}
    share, reduced = _of_each(config.categories, promotions, (0.0, 0.0))[catalogue.category].T
    products = np.arange(len(price))
    hit = uniforms(key, products, np.zeros_like(products)) < share
    return catalogue._replace(
        price=frozen(price),
        cm2=frozen(catalogue.cm2 + slope * (price - catalogue.price)),
        discount=frozen(np.where(hit, np.maximum(catalogue.discount, reduced), catalogue.discount)),
    )


def _shifted_users(config: SearchConfig, users: Users, shift: MarketShift) -> Users:
    changes = {name: (given.price, given.label) for name, given in shift.tastes.items()}
    price, label = _of_each(config.segments, changes, (0.0, 0.0))[users.segment].T
    rows = {name: _of_each(config.categories, given.categories, 1.0) for name, given in shift.tastes.items()}
    factors = _of_each(config.segments, rows, np.ones(len(config.categories)))[users.segment]
    tastes = users.category_tastes * factors
    return users._replace(
        price_taste=frozen(users.price_taste + price),
        label_taste=frozen(users.label_taste + label),
        category_tastes=frozen(tastes / tastes.sum(axis=1, keepdims=True)),
    )


def _of_each(names: Any, given: Any, other: Any) -> FloatArray:
    """Return what is `given` for each name, in order, `other` where nothing is."""
    return np.array([given.get(name, other) for name in names], float)


def _cumulative(shares: list[float]) -> FloatArray:
    total: FloatArray = np.cumsum(shares) / np.sum(shares)
    total[-1] = 1.0
    return total
