"""Describe one visit to a search shop step by step, and how boosts move its ranking."""

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

REPLICATES = 2_000
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
    """A product in a ranking, and what the visitor did with it.

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


class VisitFacts(NamedTuple):
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
        """The boosted ranking that earns most in expectation."""
        return max([*self.ladder[1:], *self.templates[1:]], key=lambda ranking: ranking.reward.mean)


def describe_visit(shop: SearchShop, step: int) -> VisitFacts:
    """Return what happens in visit number `step` of a shop, and how boosts and templates would rank it."""
    visit = shop.arrive(step)
    config = shop.world.config
    users = shop.world.markets[visit.market].users
    tastes = users.category_tastes[visit.user]
    return VisitFacts(
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
    rankings = []
    feature = FEATURES.index(BOOSTED)
    for share in LADDER:
        action[feature] = share * shop.world.config.a_max
        name = f"{BOOSTED} x {action[feature]:g}" if share else "no boosts"
        shown = shop.rank(visit, action) if share else visit.baseline
        rankings.append(_ranking(shop, visit, name, shown, shop.boost_features(visit, shown) @ action))
    return tuple(rankings)


def _by_template(shop: SearchShop, visit: Visit) -> tuple[Ranking, ...]:
    rankings = []
    for number, name in enumerate(TEMPLATES):
        shown = shop.rank_by_template(visit, number)
        added = shop.world.config.a_max * shop.templates(visit.market)[number, shown]
        rankings.append(_ranking(shop, visit, name, shown, added))
    return tuple(rankings)


def _ranking(shop: SearchShop, visit: Visit, name: str, shown: IntArray, added: FloatArray) -> Ranking:
    truth = SearchTruth(shop)
    result = shop.serve(visit, shown)
    catalogue = shop.world.markets[visit.market].catalogue
    rewards = truth.rewards(visit, shown, REPLICATES)
    rewards_without_boosts = truth.rewards(visit, visit.baseline, REPLICATES)
    return Ranking(
        name=name,
        shown=tuple(_item(shop, visit, result, added, n) for n in range(len(shown))),
        reward=mean_interval(rewards),
        gain=mean_interval(rewards - rewards_without_boosts),
        left=result.parts.rank_change,
        earned=result.reward,
        price=float(catalogue.price[shown].mean()),
        cm2=float(catalogue.cm2[shown].mean()),
        label_share=float(catalogue.label[shown].mean()),
        strategic_share=float(catalogue.strategic[shown].mean()),
    )


def _item(shop: SearchShop, visit: Visit, result: Result, added: FloatArray, n: int) -> Shown:
    catalogue = shop.world.markets[visit.market].catalogue
    outcome = result.outcome
    product = int(result.shown[n])
    return Shown(
        product=int(catalogue.ids[product]),
        category=list(shop.world.config.categories)[catalogue.category[product]],
        price=float(catalogue.price[product]),
        cm2=float(catalogue.cm2[product]),
        label=bool(catalogue.label[product]),
        strategic=bool(catalogue.strategic[product]),
        base=float(visit.base[product]),
        added=float(added[n]),
        place=int((visit.base > visit.base[product]).sum() + (visit.base[:product] == visit.base[product]).sum()) + 1,
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
