"""One visit to a search shop step by step, and how boosts move its ranking."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from zoosim.core.search_config import FEATURES, TEMPLATES, SearchConfig
from zoosim.core.statistics import Interval, mean_interval
from zoosim.core.types import FloatArray, IntArray
from zoosim.worlds.search.shop import Result, SearchShop, Visit
from zoosim.worlds.search.truth import SearchTruth

BOOSTED = "price"
"""The boost feature whose weight is raised step by step."""

LADDER = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
"""Weights on it, in units of `a_max`."""

MOODS = 2_000
"""Draws of a visit that its expected rewards are estimated from."""

OBSERVED = (
    "price taste",
    "private-label taste",
    "top of the base ranker: mean price",
    "top of the base ranker: sd of price",
    "top of the base ranker: mean CM2",
    "top of the base ranker: mean discount",
    "top of the base ranker: mean bestseller score",
    "top of the base ranker: mean relevance",
    "top of the base ranker: share of private labels",
    "top of the base ranker: share of strategic goods",
)
"""What a rich context holds after segment and query type, in its order."""


class Shown(NamedTuple):
    """A product in a ranking.

    What the shop knows: id, what it is, `base` score, what boosts `added`, its `place` without boosts, from 1; whether
    it was `clicked` and `bought`. What the simulator knows: whether it was `examined`, `utility`, the chances of a
    look, a click and a purchase, and the `satisfaction` left behind, None where it did not come to that.
    """

    product: int
    category: str
    price: float
    cm2: float
    label: bool
    strategic: bool
    base: float
    added: float
    place: int
    clicked: bool
    bought: bool
    examined: bool
    utility: float
    look: float | None
    click: float | None
    purchase: float | None
    satisfaction: float | None


class Ranking(NamedTuple):
    """The top k of a visit under one set of boosts, called `name`.

    `reward` and `gain`, over the ranking without boosts, in EUR are expected, with 95% intervals from common draws;
    `left` counts the products of the base ranker's top that are gone; means over what is `shown`.
    """

    name: str
    shown: tuple[Shown, ...]
    reward: Interval
    gain: Interval
    left: int
    earned: float
    price: float
    cm2: float
    label_share: float
    strategic_share: float


class VisitStory(NamedTuple):
    """A visit: number `step`, who came with which tastes, what was asked for, and `observed`, what a policy sees.

    `ladder` are rankings by growing weight on a feature, the first without boosts; `templates` those of the templates.
    """

    step: int
    user: int
    segment: str
    intent: str
    kind: str
    price_taste: float
    label_taste: float
    category_tastes: Mapping[str, float]
    observed: Mapping[str, float]
    ladder: tuple[Ranking, ...]
    templates: tuple[Ranking, ...]

    @property
    def best(self) -> Ranking:
        """Return the boosted ranking that earns most in expectation."""
        return max([*self.ladder[1:], *self.templates[1:]], key=lambda ranking: ranking.reward.mean)


def tell_visit(shop: SearchShop, step: int) -> VisitStory:
    """Tell visit number `step` of a shop."""
    visit = shop.arrive(step)
    config = shop.world.config
    users = shop.world.markets[visit.market].users
    tastes = users.category_tastes[visit.user]
    return VisitStory(
        step=step,
        user=visit.user,
        segment=list(config.segments)[visit.segment],
        intent=list(config.categories)[visit.intent],
        kind=list(config.query_types)[visit.kind],
        price_taste=float(users.price_taste[visit.user]),
        label_taste=float(users.label_taste[visit.user]),
        category_tastes=dict(zip(config.categories, tastes.tolist(), strict=True)),
        observed=_observed(config, shop.features(visit)),
        ladder=_ladder(shop, visit),
        templates=_by_template(shop, visit),
    )


def _observed(config: SearchConfig, features: FloatArray) -> dict[str, float]:
    """Name the features that a policy observes; of segments and query types, the visit's own alone."""
    source = "true " if config.context == "rich-oracle" else "estimated "
    kinds = [f"segment: {name}" for name in config.segments] + [f"query type: {name}" for name in config.query_types]
    rich = [f"{source if n < 2 else ''}{name}" for n, name in enumerate(OBSERVED)]
    named = zip([*kinds, *rich][: len(features)], features.tolist(), strict=True)
    return {name: value for n, (name, value) in enumerate(named) if n >= len(kinds) or value > 0}


def _ladder(shop: SearchShop, visit: Visit) -> tuple[Ranking, ...]:
    action = np.zeros(len(FEATURES))
    found = []
    feature = FEATURES.index(BOOSTED)
    for share in LADDER:
        action[feature] = share * shop.world.config.a_max
        name = f"{BOOSTED} x {action[feature]:g}" if share else "no boosts"
        shown = shop.rank(visit, action) if share else visit.baseline
        found.append(_ranking(shop, visit, name, shown, shop.boost_features(visit, shown) @ action))
    return tuple(found)


def _by_template(shop: SearchShop, visit: Visit) -> tuple[Ranking, ...]:
    found = []
    for number, name in enumerate(TEMPLATES):
        shown = shop.rank_by_template(visit, number)
        added = shop.world.config.a_max * shop.templates(visit.market)[number, shown]
        found.append(_ranking(shop, visit, name, shown, added))
    return tuple(found)


def _ranking(shop: SearchShop, visit: Visit, name: str, shown: IntArray, added: FloatArray) -> Ranking:
    truth = SearchTruth(shop)
    result = shop.serve(visit, shown)
    c = shop.world.markets[visit.market].catalogue
    rewards = truth.rewards(visit, shown, MOODS)
    gains = rewards - truth.rewards(visit, visit.baseline, MOODS)
    means = (c.price[shown].mean(), c.cm2[shown].mean(), c.label[shown].mean(), c.strategic[shown].mean())
    expected = (mean_interval(rewards), mean_interval(gains))
    items = tuple(_item(shop, visit, result, added, n) for n in range(len(shown)))
    return Ranking(name, items, *expected, result.parts.rank_change, result.reward, *map(float, means))


def _item(shop: SearchShop, visit: Visit, result: Result, added: FloatArray, n: int) -> Shown:
    c = shop.world.markets[visit.market].catalogue
    outcome = result.outcome
    p = int(result.shown[n])
    return Shown(
        product=int(c.ids[p]),
        category=list(shop.world.config.categories)[c.category[p]],
        price=float(c.price[p]),
        cm2=float(c.cm2[p]),
        label=bool(c.label[p]),
        strategic=bool(c.strategic[p]),
        base=float(visit.base[p]),
        added=float(added[n]),
        place=int((visit.base > visit.base[p]).sum() + (visit.base[:p] == visit.base[p]).sum()) + 1,
        clicked=bool(outcome.clicks[n]),
        bought=bool(outcome.purchases[n]),
        examined=bool(outcome.examined[n]),
        utility=float(outcome.utilities[n]),
        look=_known(outcome.examine[n]),
        click=_known(outcome.click[n]),
        purchase=_known(outcome.purchase[n]),
        satisfaction=float(outcome.satisfaction[n]) if outcome.examined[n] else None,
    )


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
