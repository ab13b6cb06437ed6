"""Facts about one visit to a search shop: what happened at each position, and how boosts and templates rank it."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from zoosim.core.search_config import SearchConfig
from zoosim.core.search_names import FEATURES
from zoosim.core.statistics import Interval, mean_interval
from zoosim.core.types import FloatArray, IntArray
from zoosim.worlds.search.shop import FinishedVisit, SearchShop, SearchVisit
from zoosim.worlds.search.truth import SearchTruth

BOOSTED = "price"
"""The boost feature whose weight grows along the ladder of rankings."""

LADDER = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
"""Weights of that feature, in units of `a_max`."""

REPLICATES = 2_000
"""Replicates of the visit from which expected rewards are estimated."""

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
"""The features of a rich context after segment and query type, in order."""


class ShownProduct(NamedTuple):
    """A product in a ranking, and what the visitor did with it.

    The shop knows its id and properties, the `base` score and the score that boosts `added`, its `place` without
    boosts, from 1, and whether it was `clicked` and `bought`. Only the simulator knows whether it was `examined`, its
    `utility`, the chances of examination (`look`), click and purchase, and the `satisfaction` after it, None where the
    visitor did not get that far.
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


class VisitRanking(NamedTuple):
    """The top k of a visit under one set of boosts, called `name`.

    `reward` is expected, in EUR, and `gain` its difference to the ranking without boosts, with 95% intervals from
    common draws; `earned` is the reward of the visit as it happened. `left` counts the products that left the base
    ranker's top; the others are means over the products `shown`.
    """

    name: str
    shown: tuple[ShownProduct, ...]
    reward: Interval
    gain: Interval
    left: int
    earned: float
    price: float
    cm2: float
    label_share: float
    strategic_share: float


class VisitFacts(NamedTuple):
    """A visit: number `step`, the user with true tastes, the query, and the features that a policy has `observed`.

    `ladder` are rankings by growing weight on a feature, the first without boosts; `templates` those of the templates.
    """

    step: int
    user: int
    segment: str
    intent: str
    query_type: str
    price_taste: float
    label_taste: float
    category_tastes: Mapping[str, float]
    observed: Mapping[str, float]
    ladder: tuple[VisitRanking, ...]
    templates: tuple[VisitRanking, ...]

    @property
    def best(self) -> VisitRanking:
        """The boosted ranking that earns most in expectation."""
        return max([*self.ladder[1:], *self.templates[1:]], key=lambda ranking: ranking.reward.mean)


def describe_visit(shop: SearchShop, step: int) -> VisitFacts:
    """Describe visit number `step` of a shop, with its rankings by boosts and templates."""
    visit = shop.arrive(step)
    config = shop.world.config
    users = shop.world.markets[visit.market].users
    tastes = users.category_tastes[visit.user]
    return VisitFacts(
        step=step,
        user=visit.user,
        segment=list(config.segments)[visit.segment],
        intent=list(config.categories)[visit.intent],
        query_type=list(config.query_types)[visit.query_type],
        price_taste=float(users.price_taste[visit.user]),
        label_taste=float(users.label_taste[visit.user]),
        category_tastes=dict(zip(config.categories, tastes.tolist(), strict=True)),
        observed=_observed(config, shop.features(visit)),
        ladder=_ladder(shop, visit),
        templates=_by_template(shop, visit),
    )


def _observed(config: SearchConfig, features: FloatArray) -> dict[str, float]:
    """Name the features that a policy observes; of the one-hot segments and query types, those that are 1."""
    source = "true" if config.context == "rich-oracle" else "estimated"
    one_hot = [f"segment: {name}" for name in config.segments] + [f"query type: {name}" for name in config.query_types]
    tastes = [f"{source} {name}" for name in OBSERVED[:2]]
    names = [*one_hot, *tastes, *OBSERVED[2:]][: len(features)]
    named = enumerate(zip(names, features.tolist(), strict=True))
    return {name: value for n, (name, value) in named if n >= len(one_hot) or value > 0}


def _ladder(shop: SearchShop, visit: SearchVisit) -> tuple[VisitRanking, ...]:
    action = np.zeros(len(FEATURES))
    rankings = []
    feature = FEATURES.index(BOOSTED)
    for share in LADDER:
        action[feature] = share * shop.world.config.a_max
        name = f"{BOOSTED} x {action[feature]:g}" if share else "no boosts"
        shown = shop.rank(visit, action) if share else visit.baseline
        rankings.append(_ranking(shop, visit, name, shown, shop.boost_features(visit, shown) @ action))
    return tuple(rankings)


def _by_template(shop: SearchShop, visit: SearchVisit) -> tuple[VisitRanking, ...]:
    rankings = []
    for number, name in enumerate(shop.world.config.templates):
        shown = shop.rank_by_template(visit, number)
        added = shop.added_by_template(visit, number, shown)
        rankings.append(_ranking(shop, visit, name, shown, added))
    return tuple(rankings)


def _ranking(shop: SearchShop, visit: SearchVisit, name: str, shown: IntArray, added: FloatArray) -> VisitRanking:
    truth = SearchTruth(shop)
    result = shop.serve(visit, shown)
    catalogue = shop.world.markets[visit.market].catalogue
    rewards = truth.rewards(visit, shown, REPLICATES)
    rewards_without_boosts = truth.rewards(visit, visit.baseline, REPLICATES)
    return VisitRanking(
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


def _item(shop: SearchShop, visit: SearchVisit, result: FinishedVisit, added: FloatArray, n: int) -> ShownProduct:
    catalogue = shop.world.markets[visit.market].catalogue
    outcome = result.outcome
    product = int(result.shown[n])
    # As `top` ranks: of equal scores that of the lower index comes first.
    ahead = (visit.base > visit.base[product]).sum() + (visit.base[:product] == visit.base[product]).sum()
    return ShownProduct(
        product=int(catalogue.ids[product]),
        category=list(shop.world.config.categories)[catalogue.category[product]],
        price=float(catalogue.price[product]),
        cm2=float(catalogue.cm2[product]),
        label=bool(catalogue.label[product]),
        strategic=bool(catalogue.strategic[product]),
        base=float(visit.base[product]),
        added=float(added[n]),
        place=1 + int(ahead),
        clicked=bool(outcome.clicks[n]),
        bought=bool(outcome.purchases[n]),
        examined=bool(outcome.examined[n]),
        utility=float(outcome.utilities[n]),
        look=_none_if_nan(outcome.examine[n]),
        click=_none_if_nan(outcome.click[n]),
        purchase=_none_if_nan(outcome.purchase[n]),
        satisfaction=float(outcome.satisfaction[n]) if outcome.examined[n] else None,
    )


def _none_if_nan(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
