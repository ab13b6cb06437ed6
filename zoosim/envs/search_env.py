"""The search shop as a Gymnasium environment: a visitor types a query, a policy boosts, clicks and purchases follow.

env = gymnasium.make("zoosim/Search-v0", config={"n_products": 1_000, "a_max": 0.5})
context, info = env.reset(seed=7)
context, reward, terminated, truncated, info = env.step(np.zeros(10))
context, info = env.reset()  # the next visitor
"""

import operator
from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from zoosim.core.config import build
from zoosim.core.errors import ActionError, ConfigError, OrderError
from zoosim.core.parameters import shown
from zoosim.core.search_config import FEATURES, TEMPLATES, SearchConfig
from zoosim.core.types import FloatArray, IntArray, Later, LazyContext, frozen
from zoosim.ranking.product_table import ProductTable
from zoosim.worlds.search.shop import Result, SearchShop, Visit
from zoosim.worlds.search.tables import settled
from zoosim.worlds.search.truth import SearchTruth
from zoosim.worlds.search.world import SearchWorld, build_search_world

BOUND = 1e15
"""No price, score or feature is larger."""


class SearchEnv(gymnasium.Env[dict[str, Any], Any]):
    """Boost the base ranker's scores for each visitor of a search shop; the reward weighs GMV, CM2, goals and clicks.

    One visit is one episode: `reset()` brings the next visitor, and `step` ends the visit with its own context. An
    observation is a `zoosim.Context`: `user_id`, `features (7 or 17,)`, `product_ids (K,)`, `base_scores (K,)`,
    `product_table`, what the shop knows of its products, and `boost_features (K, 10)`, which is made
    when it is asked for. An action is a vector of ten boosts in [-a_max, a_max]: products are shown by
    base_scores + boost_features @ action.
    """

    def __init__(self, config: SearchConfig | Mapping[str, Any] | None = None) -> None:
        """Prepare the shop that `config` describes, by default 10,000 products; raises `ConfigError`."""
        self._config = read_config(config)
        self.observation_space = observation_space(self._config)
        self.action_space: spaces.Space[Any] = boost_space(self._config)
        self._shop: SearchShop | None = None
        self._visit: Visit | None = None
        self._step = -1

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[LazyContext, dict[str, Any]]:
        """Bring the next visitor; with a `seed`, the first visitor of that seed's world.

        The very first call without a seed draws one, which `np_random_seed` then tells. `info` holds `step`, the number
        of the visit, and the base ranker's own ranking `baseline (k,)`; `options` are not used.
        """
        if seed is None and self._shop is None:
            seed = int(np.random.SeedSequence().generate_state(1)[0])
        super().reset(seed=seed)
        if seed is not None:
            self._shop, self._step = SearchShop(build_search_world(self._config, seed=seed)), -1
        shop = self._started()
        self._step += 1
        self._visit = shop.arrive(self._step)
        info = {"step": self._step, "baseline": product_ids(shop, self._visit.baseline)}
        return context_of(shop, self._visit, shared=False), info

    def step(self, action: Any) -> tuple[LazyContext, float, bool, bool, dict[str, Any]]:
        """Rank with an `action` for the waiting visitor; raises `OrderError` or `ActionError`, which change nothing.

        See `info_of` for what `info` holds.
        """
        shop = self._started()
        if self._visit is None:
            raise OrderError("step: this visitor has had a ranking already; call reset() for the next one")
        shown_products = self._rank(shop, self._visit, action)
        visit, self._visit = self._visit, None
        result = shop.serve(visit, shown_products)
        context = context_of(shop, visit, shared=False)
        return context, result.reward, True, False, info_of(shop, visit, result)

    def _rank(self, shop: SearchShop, visit: Visit, action: Any) -> IntArray:
        return shop.rank(visit, check_boosts(action, self._config))

    @property
    def ground_truth(self) -> SearchTruth:
        """Return the truth about rankings of this shop, for regret and tests; raises `OrderError` before a reset."""
        return SearchTruth(self._started())

    @property
    def visit(self) -> Visit:
        """Return the waiting visit behind the scenes, for analysis; raises `OrderError` where nobody waits."""
        if self._visit is None:
            raise OrderError("visit: nobody is waiting; call reset() first")
        return self._visit

    @property
    def world(self) -> SearchWorld:
        """Return the world behind the scenes, for analysis; raises `OrderError` before the first reset."""
        return self._started().world

    def _started(self) -> SearchShop:
        if self._shop is None:
            raise OrderError("the shop is not open yet; call reset() first")
        return self._shop


class SearchTemplatesEnv(SearchEnv):
    """The same shop with an action from 0 to 7, one of the `TEMPLATES`, which boosts by `a_max` times its value."""

    def __init__(self, config: SearchConfig | Mapping[str, Any] | None = None) -> None:
        """Prepare the shop; see `SearchEnv`."""
        super().__init__(config)
        self.action_space = spaces.Discrete(len(TEMPLATES))

    def _rank(self, shop: SearchShop, visit: Visit, action: Any) -> IntArray:
        return shop.rank_by_template(visit, check_template(action))


def read_config(config: SearchConfig | Mapping[str, Any] | None) -> SearchConfig:
    """Check a configuration, and read the files that it names; raises `ConfigError` or `DataError`."""
    if config is None or isinstance(config, Mapping):
        config = build(SearchConfig, config or {}, "search")
    if not isinstance(config, SearchConfig):
        raise ConfigError(f"config: got {config!r}, expected a SearchConfig or a mapping such as {{'n_products': 99}}")
    return settled(config)


def observation_space(config: SearchConfig) -> spaces.Dict:
    """Return the space of the contexts of every world that `config` describes."""
    late = sum(not config.shares_of(name)[0] for name in config.segments)  # segments with users beside the others
    count, users = config.n_products, (1 + late) * config.n_users + len(config.segments)
    length = len(config.segments) + len(config.query_types) + (0 if config.context == "simple" else 10)
    return spaces.Dict(
        user_id=spaces.Discrete(users),
        features=spaces.Box(-BOUND, BOUND, (length,), np.float64),
        product_ids=spaces.Box(0, 2**62, (count,), np.int64),
        product_table=table_space(config),
        base_scores=spaces.Box(-BOUND, BOUND, (count,), np.float64),
        boost_features=spaces.Box(-BOUND, BOUND, (count, len(FEATURES)), np.float64),
    )


def table_space(config: SearchConfig) -> spaces.Space[Any]:
    """Return the space of a `ProductTable`, column by column."""
    number = spaces.Box(-BOUND, BOUND, (config.n_products,), np.float64)
    columns: dict[str, Any] = dict.fromkeys(ProductTable._fields, number)
    columns["category"] = spaces.Box(0, len(config.categories) - 1, (config.n_products,), np.int64)
    columns["strategic"] = spaces.MultiBinary(config.n_products)
    return spaces.Tuple([columns[name] for name in ProductTable._fields])


def boost_space(config: SearchConfig) -> spaces.Box:
    """Return the box of boosts."""
    return spaces.Box(-config.a_max, config.a_max, (len(FEATURES),), np.float64)


def context_of(shop: SearchShop, visit: Visit, *, shared: bool = True) -> LazyContext:
    """Return what the shop knows of a visit, in read-only arrays.

    The product table is `shared` by all visits of a market, which saves policies work; Gymnasium asks that all arrays
    of an observation are its own.
    """
    table = table_of(shop, visit)
    return LazyContext(
        user_id=visit.user,
        features=shop.features(visit),
        product_ids=Later(lambda: frozen(shop.world.catalogue.ids.copy())),
        product_table=table if shared else Later(lambda: _copied(table)),
        base_scores=Later(lambda: frozen(visit.base.copy())),
        boost_features=Later(lambda: shop.boost_features(visit)),
    )


def table_of(shop: SearchShop, visit: Visit) -> ProductTable:
    """Return what the shop knows of its products at a visit: the same read-only arrays at all visits of a market."""
    catalogue = shop.world.markets[visit.market].catalogue
    columns = {name: getattr(catalogue, name) for name in ProductTable._fields}
    return ProductTable(**columns)


def _copied(table: ProductTable) -> ProductTable:
    columns: list[Any] = [frozen(column.copy()) for column in table]
    return ProductTable(*columns)


def info_of(shop: SearchShop, visit: Visit, result: Result) -> dict[str, Any]:
    """Return what there is to say of a visit that is over.

    `step`; `feedback`, what a shop would log: `shown (k,)` ids in order, their `products` (a column a property) and
    `boost_features (k, 10)`, `base_scores (k,)`, `clicks (k,)`, `purchases (k,)`, `reward_parts`; `baseline (k,)` ids;
    `rank_change`: products that `left` the top, and the `symmetric_difference` of both tops; and apart from it
    `simulator`, what only a simulator knows: `examined (k,)`, `utilities (k,)`, `satisfaction (k,)`.
    """
    shown_products, outcome = result.shown, result.outcome
    feedback = {
        "shown": product_ids(shop, shown_products),
        "products": table_of(shop, visit).rows(shown_products)._asdict(),
        "boost_features": shop.boost_features(visit, shown_products),
        "base_scores": visit.base[shown_products],
        "clicks": outcome.clicks,
        "purchases": outcome.purchases,
        "reward_parts": result.parts._asdict(),
    }
    left = result.parts.rank_change
    hidden = {name: getattr(outcome, name) for name in ("examined", "utilities", "satisfaction")}
    return {
        "step": visit.step,
        "feedback": feedback,
        "baseline": product_ids(shop, visit.baseline),
        "rank_change": {"left": left, "symmetric_difference": 2 * left},
        "simulator": hidden,
    }


def product_ids(shop: SearchShop, products: IntArray) -> IntArray:
    """Return the ids of products given by index."""
    return shop.world.catalogue.ids[products]


def check_boosts(action: Any, config: SearchConfig) -> FloatArray:
    """Return an action as boosts `(10,)` inside the box, or raise `ActionError`."""
    try:
        boosts = np.array(action, np.float64)
    except (TypeError, ValueError):
        boosts = np.zeros(0)
    if boosts.shape != (len(FEATURES),):
        raise ActionError(f"step: got action {shown(action)}, expected {len(FEATURES)} numbers")
    if np.isnan(boosts).any():
        raise ActionError("step: got NaN in the action, expected numbers")
    if config.clip:
        return np.clip(boosts, -config.a_max, config.a_max)
    outside = np.abs(boosts).max()
    if outside > config.a_max:
        raise ActionError(
            f"step: got a boost of size {outside:g}, expected at most a_max = {config.a_max:g}; "
            "set clip to true to have actions brought into the box"
        )
    return boosts


def check_template(action: Any) -> int:
    """Return an action as the number of a template, or raise `ActionError`."""
    try:
        index = -1 if isinstance(action, bool | np.bool_) else operator.index(action)
    except TypeError:
        index = -1
    if not 0 <= index < len(TEMPLATES):
        raise ActionError(f"step: got action {shown(action)}, expected a whole number from 0 to {len(TEMPLATES) - 1}")
    return index
