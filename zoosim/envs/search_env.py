"""The search shop as a Gymnasium environment: a visitor types a query, a policy boosts, clicks and purchases follow.

env = gymnasium.make("zoosim/Search-v0", config={"n_products": 1_000, "a_max": 0.5})
context, info = env.reset(seed=7)
context, reward, terminated, truncated, info = env.step(np.zeros(10))
context, info = env.reset()  # the next visitor
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

from zoosim.core.search_config import SearchConfig
from zoosim.core.search_names import FEATURES
from zoosim.core.types import Context
from zoosim.envs.world_env import WorldEnv
from zoosim.ranking.product_table import ProductTable
from zoosim.worlds.base import Outcome
from zoosim.worlds.search.boosts import BoostWorld, SearchView, context_of, feedback_of, product_ids
from zoosim.worlds.search.shop import FinishedVisit, SearchShop, SearchVisit
from zoosim.worlds.search.tables import read_search_config
from zoosim.worlds.search.template_arms import TemplateWorld, cell_oracle
from zoosim.worlds.search.world import build_search_world

BOUND = 1e15
"""No price, score or feature is larger."""


class SearchEnv(WorldEnv):
    """Boost the base ranker's scores for each visitor of a search shop; the reward weighs GMV, CM2, goals and clicks.

    One visit is one episode: `reset()` brings the next visitor, and `step` ends the visit with its own context. An
    observation is a `zoosim.Context`: `user_id`, `features (7 or 17,)`, `product_ids (K,)`, `base_scores (K,)`,
    `product_table`, what the shop knows of its products, and `boost_features (K, 10)`, which is made when it is asked
    for; with `flat` it is the features alone, as float32. An action is a vector of ten boosts in [-a_max, a_max]:
    products are shown by base_scores + boost_features @ action. `info` holds the base ranker's own ranking
    `baseline (k,)`, and after a step what `info_of` says.
    """

    def __init__(self, config: SearchConfig | Mapping[str, Any] | None = None, *, flat: bool = False) -> None:
        """Prepare the shop.

        Args:
            config: The shop; by default 10,000 products.
            flat: Whether an observation is the visit's features alone.

        Raises:
            ConfigError: `config` is invalid.
        """
        self._config = read_search_config(config)
        super().__init__(observation_space(self._config), boost_space(self._config), "features", flat)

    @property
    def n_products(self) -> int:
        """Number of products of the shop."""
        return self._config.n_products

    def build(self, seed: int) -> SearchView:
        """Return the world of a seed."""
        shop = SearchShop(build_search_world(self._config, seed=seed))
        return BoostWorld(shop, cell_oracle(self._config, seed=seed))

    def observe(self, world: SearchView, visit: SearchVisit) -> Context:
        """Return the context of a visit in arrays of its own."""
        return context_of(world.shop, visit, shared=False)

    def before(self, world: SearchView, visit: SearchVisit) -> dict[str, Any]:
        """Return the base ranker's own ranking."""
        return {**super().before(world, visit), "baseline": product_ids(world.shop, visit, visit.baseline)}

    def serve(self, world: SearchView, visit: SearchVisit, action: Any) -> tuple[Outcome, dict[str, Any]]:
        """Rank with an `action` for the waiting visitor."""
        result = world.shop.serve(visit, world.rank(visit, action))
        return Outcome(result.reward), info_of(world, visit, result)


class SearchTemplatesEnv(SearchEnv):
    """The same shop with an action from 0 to T - 1, the number of one of the shop's templates.

    An observation is what policies over templates see: `user (7 or 17,)`, the visit's features, and the templates as
    the products.
    """

    def __init__(self, config: SearchConfig | Mapping[str, Any] | None = None, *, flat: bool = False) -> None:
        """Prepare the shop.

        Args:
            config: The shop; by default 10,000 products.
            flat: Whether an observation is the visit's features alone.

        Raises:
            ConfigError: `config` is invalid.
        """
        self._config = read_search_config(config)
        WorldEnv.__init__(
            self, template_space(self._config), spaces.Discrete(len(self._config.templates)), "user", flat
        )

    def build(self, seed: int) -> SearchView:
        """Return the world of a seed."""
        shop = SearchShop(build_search_world(self._config, seed=seed))
        return TemplateWorld(shop, cell_oracle(self._config, seed=seed))

    def observe(self, world: SearchView, visit: SearchVisit) -> Context:
        """Return the context of a visit in arrays of its own."""
        return WorldEnv.observe(self, world, visit)


def info_of(world: SearchView, visit: SearchVisit, result: FinishedVisit) -> dict[str, Any]:
    """Return what there is to say of a visit that is over.

    Args:
        world: The world that it was in.
        visit: The visit.
        result: What came of its ranking.

    Returns:
        `step`, the number of the visit; `feedback`, what a shop would log (see `feedback_of`); `baseline (k,)`, ids of
        the base ranker's own ranking; `rank_change`, the number of products that `left` the top and the
        `symmetric_difference` of both tops; and apart from it `simulator`, what only a simulator knows:
        `examined (k,)`, `utilities (k,)`, `satisfaction (k,)`.
    """
    outcome = result.outcome
    left = result.parts.rank_change
    return {
        "step": visit.step,
        "feedback": feedback_of(world.shop, visit, result),
        "baseline": product_ids(world.shop, visit, visit.baseline),
        "rank_change": {"left": left, "symmetric_difference": 2 * left},
        "simulator": {name: getattr(outcome, name) for name in ("examined", "utilities", "satisfaction")},
    }


def _feature_space(config: SearchConfig) -> spaces.Box:
    """Return the space of a visit's features."""
    length = len(config.segments) + len(config.query_types) + (0 if config.context == "simple" else 10)
    return spaces.Box(-BOUND, BOUND, (length,), np.float64)


def template_space(config: SearchConfig) -> spaces.Dict:
    """Return the space of the contexts of policies over templates."""
    count = len(config.templates)
    return spaces.Dict(
        user_id=spaces.Discrete(2**62),
        user=_feature_space(config),
        product_ids=spaces.Box(0, count - 1, (count,), np.int64),
        products=spaces.Box(0.0, 1.0, (count, count), np.float64),
        available=spaces.Box(0, 1, (count,), np.bool_),
    )


def observation_space(config: SearchConfig) -> spaces.Dict:
    """Return the space of the contexts of every world that `config` describes."""
    late = sum(not config.shares_of(name)[0] for name in config.segments)  # segments with users beside the others
    count = config.n_products
    # An upper bound: segments that come late have users beside the others, and shares are rounded up to whole users.
    users = (1 + late) * config.n_users + len(config.segments)
    return spaces.Dict(
        user_id=spaces.Discrete(users),
        features=_feature_space(config),
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
