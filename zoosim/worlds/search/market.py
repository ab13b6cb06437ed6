"""The market of a search world: who comes and what is for sale, from one market shift to the next."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from zoosim.core.market_shift import MarketShift, in_force
from zoosim.core.rng import uniforms
from zoosim.core.search_config import SearchConfig
from zoosim.core.types import FloatArray, frozen
from zoosim.worlds.search.catalogue import SearchCatalogue, per_row
from zoosim.worlds.search.users import Users


class Shares(NamedTuple):
    """Cumulative shares of `segments (S,)` and query `types (T,)`, the last ones 1."""

    segments: FloatArray
    types: FloatArray


class Market(NamedTuple):
    """Catalogue, users and shares from visit `start` on; what a shift leaves alone is the same object as before it."""

    start: int
    catalogue: SearchCatalogue
    users: Users
    shares: Shares


def markets_of(
    config: SearchConfig,
    catalogue: SearchCatalogue,
    successors: SearchCatalogue | None,
    users: Users,
    keys: tuple[np.uint64, np.uint64],
) -> tuple[Market, ...]:
    """Return the opening market of a world, and that after each shift.

    Args:
        config: The shop.
        catalogue: The opening catalogue.
        successors: The products that take the places of others when shifts renew it; None where none does.
        users: The opening population.
        keys: They draw the products on promotion, and those whose places `successors` take.
    """
    types = _cumulative([query_type.share for query_type in config.query_types.values()])
    shares = [Shares(_cumulative(list(mix.values())), types) for mix in config.mixes]
    markets = [Market(0, catalogue, users, shares[0])]
    tastes: Mapping[str, Any] = {}
    offers: tuple[Any, ...] = ({}, {}, None)
    for shift, shares_after in zip(in_force(config.shifts), shares[1:], strict=True):
        before = markets[-1]
        shifted_catalogue = before.catalogue
        shifted_users = before.users
        # Else the catalogue stays the same object, and all that was computed from it can be used again.
        if offers != _offers(shift):
            # From the opening catalogue rather than the last one: shifts do not add up.
            on_sale = catalogue
            if successors is not None and shift.renewal:
                on_sale = catalogue.renewed(successors, _drawn(keys[1], len(catalogue.ids)) < shift.renewal)
            shifted_catalogue = _shifted_catalogue(config, on_sale, shift, keys[0])
        if tastes != shift.tastes:
            shifted_users = _shifted_users(config, users, shift)
        offers = _offers(shift)
        tastes = shift.tastes
        markets.append(Market(shift.step, shifted_catalogue, shifted_users, shares_after))
    return tuple(markets)


def only_segment(market: Market, segment: int) -> Market:
    """Return a market to which one segment comes.

    Args:
        market: The market.
        segment: Number of the segment.
    """
    # From 0 to 1 at this segment, so that every draw from [0, 1) falls on it.
    cumulative = np.where(np.arange(len(market.shares.segments)) >= segment, 1.0, 0.0)
    return market._replace(shares=market.shares._replace(segments=cumulative))


def _offers(shift: MarketShift) -> tuple[Any, ...]:
    """Return what a shift changes about products."""
    return (shift.prices, shift.promotions, shift.renewal)


def _drawn(key: np.uint64, count: int) -> FloatArray:
    """Return a draw from U[0, 1) for each of `count` products."""
    products = np.arange(count)
    return uniforms(key, products, np.zeros_like(products))


def _shifted_catalogue(
    config: SearchConfig, catalogue: SearchCatalogue, shift: MarketShift, key: np.uint64
) -> SearchCatalogue:
    slope = per_row(config.categories, "cm2_slope", catalogue.category)
    price = catalogue.price * _by_name(config.categories, shift.prices, 1.0)[catalogue.category]
    promotions = {name: (promotion.share, promotion.discount) for name, promotion in shift.promotions.items()}
    share, discount = _by_name(config.categories, promotions, (0.0, 0.0))[catalogue.category].T
    # By the same draws at every shift: a larger share promotes the same products, and more.
    promoted = _drawn(key, len(price)) < share
    return catalogue._replace(
        price=frozen(price),
        # A margin follows the price by its category's slope, and keeps what is the product's own.
        cm2=frozen(catalogue.cm2 + slope * (price - catalogue.price)),
        discount=frozen(np.where(promoted, np.maximum(catalogue.discount, discount), catalogue.discount)),
    )


def _shifted_users(config: SearchConfig, users: Users, shift: MarketShift) -> Users:
    changes = {name: (tastes.price, tastes.label) for name, tastes in shift.tastes.items()}
    price, label = _by_name(config.segments, changes, (0.0, 0.0))[users.segment].T
    factors_of = {name: _by_name(config.categories, tastes.categories, 1.0) for name, tastes in shift.tastes.items()}
    factors = _by_name(config.segments, factors_of, np.ones(len(config.categories)))[users.segment]
    category_tastes = users.category_tastes * factors
    return users._replace(
        price_taste=frozen(users.price_taste + price),
        label_taste=frozen(users.label_taste + label),
        category_tastes=frozen(category_tastes / category_tastes.sum(axis=1, keepdims=True)),
    )


def _by_name(names: Iterable[str], values: Mapping[str, Any], default: Any) -> FloatArray:
    """Return the value of each name, in order, the `default` where there is none."""
    return np.array([values.get(name, default) for name in names], float)


def _cumulative(shares: list[float]) -> FloatArray:
    total: FloatArray = np.cumsum(shares) / np.sum(shares)
    total[-1] = 1.0  # exactly, so that no draw lies behind it
    return total
