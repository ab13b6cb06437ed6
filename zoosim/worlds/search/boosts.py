"""The search shop as a world whose actions are boosts: ten numbers per visit that move the base ranker's scores.

`SearchView` is what all kinds of actions share; `zoosim.worlds.search.template_arms` has the world of templates.
"""

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from zoosim.core.action_space import BOOSTS
from zoosim.core.search_config import SearchConfig
from zoosim.core.search_names import FEATURES
from zoosim.core.types import Context, IntArray, Later, LazyContext, frozen
from zoosim.logs.searches import write_shop
from zoosim.policies.boosts.base import BoostSpec
from zoosim.ranking.product_table import ProductTable
from zoosim.worlds.base import Outcome, Truth, World
from zoosim.worlds.boost_box import check_boosts
from zoosim.worlds.search.search_log import SearchRecorder, recorder_of
from zoosim.worlds.search.shop import FinishedVisit, SearchShop, SearchVisit
from zoosim.worlds.search.truth import SearchTruth

AMOUNTS = (-np.inf, np.inf)
"""The range of rewards in EUR."""

REPLICATES = 8
"""Replicates of a visit from which the expected reward of a ranking is estimated."""


class SearchView(World):
    """A search shop with one kind of action; `rank` says which ranking an action makes.

    Args:
        shop: The shop, whose visits are the same for every kind of action.
        best_reward: Gives the expected reward of the best template at a visit, in EUR: what 100% of the oracle is.
    """

    def __init__(
        self, shop: SearchShop, best_reward: Callable[[SearchVisit], float] = lambda visit: float("nan")
    ) -> None:
        """View a shop."""
        self.shop = shop
        self.seed = shop.world.seed
        self.reward_range = AMOUNTS
        self._best_reward = best_reward

    def rank(self, visit: SearchVisit, action: Any) -> IntArray:
        """Return the ranking `(k,)` of products that an action makes; raises `ActionError` for an invalid one."""
        raise NotImplementedError

    def arrive(self, step: int) -> SearchVisit:
        """Return visit number `step`."""
        return self.shop.arrive(step)

    def serve(self, visit: SearchVisit, action: Any) -> Outcome:
        """Serve the ranking of an action; returns the reward in EUR and the log's feedback."""
        return self.outcome(visit, self.shop.serve(visit, self.rank(visit, action)))

    def outcome(self, visit: SearchVisit, result: FinishedVisit) -> Outcome:
        """Return the outcome of a visit that is over."""
        strategic = self.shop.arrays(visit.market).catalogue.strategic[result.shown]
        parts = {
            **{name: float(value) for name, value in result.parts._asdict().items()},
            "purchases": float(result.outcome.purchases.sum()),
            "exposure": float(np.mean(strategic)),
        }
        return Outcome(result.reward, feedback_of(self.shop, visit, result), parts, cell_of(self.shop, visit))

    def truth(self, visit: SearchVisit) -> Truth:
        """Return the expected reward of actions, a mean over replicates; the best action is not known."""

        def expected_reward(action: Any) -> float:
            # Without bias from any number of replicates, and sums over many visits average out what few of them leave.
            return float(SearchTruth(self.shop).rewards(visit, self.rank(visit, action), REPLICATES).mean())

        return Truth(expected_reward, self._best_reward(visit))


class BoostWorld(SearchView):
    """A search shop whose policies choose a boost in [-a_max, a_max] for each of the ten boost features."""

    action_space = BOOSTS

    def spec(self, steps: int) -> BoostSpec:
        """Return the dimensions of the shop that a boost policy is made for."""
        config = self.shop.world.config
        return BoostSpec(
            user_dim=self.shop.n_features,
            product_dim=len(FEATURES),
            steps=steps,
            a_max=config.a_max,
            reward=config.reward,
            k=self.shop.k,
            n_categories=len(config.categories),
            n_segments=len(config.segments),
            n_kinds=len(config.query_types),
            n_tastes=0 if config.context == "simple" else 2,
        )

    def schema(self) -> None:
        """Return no schema: logs of searches say themselves what their features are."""
        return None

    def context(self, visit: SearchVisit) -> Context:
        """Return the context of a visit: features, base scores, boost features and the product table."""
        return context_of(self.shop, visit)

    def rank(self, visit: SearchVisit, action: Any) -> IntArray:
        """Return the ranking `(k,)` by base scores + boost features @ boosts."""
        config = self.shop.world.config
        return self.shop.rank(visit, check_boosts(action, len(FEATURES), config.a_max, clip=config.clip))

    @cached_property
    def _recorder(self) -> SearchRecorder | None:
        return recorder_of(self.shop)

    def log_columns(self, start: int, actions: Any) -> dict[str, Any]:
        """Return the requests of a shop with scores of its own, what was shown and what came of it."""
        if self._recorder is None:
            return {}
        # Made again rather than kept: a visit and what comes of it follow from its number and the ranking.
        visits = [self.arrive(start + number) for number in range(len(actions))]
        return self._recorder.columns(visits, [self.rank(*pair) for pair in zip(visits, actions, strict=True)])

    def write_log_tables(self, folder: Path) -> dict[str, Any]:
        """Write the catalogue of such a shop."""
        if self._recorder is None:
            return {}
        return write_shop(self._recorder.requests, folder)


def cell_names(config: SearchConfig) -> tuple[str, ...]:
    """Return the names of the cells, pairs of segment and query type, by number."""
    return tuple(f"{segment}, {query_type}" for segment in config.segments for query_type in config.query_types)


def cell_of(shop: SearchShop, visit: SearchVisit) -> int:
    """Return the number of a visit's cell, its pair of segment and query type.

    Args:
        shop: The shop.
        visit: The visit.
    """
    return visit.segment * len(shop.world.config.query_types) + visit.query_type


def context_of(shop: SearchShop, visit: SearchVisit, *, shared: bool = True) -> LazyContext:
    """Return the context of a visit for a boost policy, in read-only arrays.

    Args:
        shop: The shop.
        visit: The visit.
        shared: Whether all visits of a market share one product table, which saves policies work; else the context has
            arrays of its own, as Gymnasium asks of observations.
    """
    table = table_of(shop, visit)
    candidates = shop.candidates(visit)
    if candidates is not None:
        return LazyContext(
            user_id=visit.user,
            features=shop.features(visit),
            product_ids=Later(lambda: frozen(product_ids(shop, visit, candidates))),
            product_table=Later(lambda: _copied(table.rows(candidates))),
            base_scores=Later(lambda: frozen(visit.base[candidates])),
            boost_features=Later(lambda: shop.boost_features(visit, candidates)),
        )
    return LazyContext(
        user_id=visit.user,
        features=shop.features(visit),
        product_ids=Later(lambda: frozen(shop.world.markets[visit.market].catalogue.ids.copy())),
        product_table=table if shared else Later(lambda: _copied(table)),
        base_scores=Later(lambda: frozen(visit.base.copy())),
        boost_features=Later(lambda: shop.boost_features(visit)),
    )


def table_of(shop: SearchShop, visit: SearchVisit) -> ProductTable:
    """Return the product table at a visit: the same read-only arrays at all visits of a market.

    Args:
        shop: The shop.
        visit: The visit.
    """
    catalogue = shop.world.markets[visit.market].catalogue
    columns = {name: getattr(catalogue, name) for name in ProductTable._fields}
    return ProductTable(**columns)


def _copied(table: ProductTable) -> ProductTable:
    columns: list[Any] = [frozen(column.copy()) for column in table]
    return ProductTable(*columns)


def feedback_of(shop: SearchShop, visit: SearchVisit, result: FinishedVisit) -> dict[str, Any]:
    """Return the feedback that a shop would log.

    Args:
        shop: The shop.
        visit: The visit.
        result: What came of it.

    Returns:
        By position of the k products shown: `shown (k,)` ids, their `products` (one column per property) and
        `boost_features (k, 10)`, `base_scores (k,)`, `clicks (k,)`, `purchases (k,)`; and `reward_parts`.
    """
    return {
        "shown": product_ids(shop, visit, result.shown),
        "products": table_of(shop, visit).rows(result.shown)._asdict(),
        "boost_features": shop.boost_features(visit, result.shown),
        "base_scores": visit.base[result.shown],
        "clicks": result.outcome.clicks,
        "purchases": result.outcome.purchases,
        "reward_parts": result.parts._asdict(),
    }


def product_ids(shop: SearchShop, visit: SearchVisit, products: IntArray) -> IntArray:
    """Return the ids of products at a visit, `(n,)`.

    Args:
        shop: The shop.
        visit: The visit, which says which catalogue is on sale.
        products: Indices of the products, `(n,)`.
    """
    return shop.world.markets[visit.market].catalogue.ids[products]
