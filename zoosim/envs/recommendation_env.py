"""The shop as a Gymnasium environment: a visitor comes, one product is shown, a click or none.

env = gymnasium.make("zoosim/Recommendation-v0", config={"n_products": 100})
context, info = env.reset(seed=7)
context, reward, terminated, truncated, info = env.step(policy.select_action(context))
context, info = env.reset()  # the next visitor
"""

import operator
from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

from zoosim.core.config import EnvConfig, build
from zoosim.core.errors import ActionError, ConfigError
from zoosim.core.types import BoolArray
from zoosim.envs.world_env import WorldEnv
from zoosim.worlds.base import Outcome
from zoosim.worlds.recommendation.world import NOISE_SD, build_world, resolve_shocks
from zoosim.worlds.table import TableVisit, TableWorld

NOISE_BOUND = 20 * NOISE_SD
"""No draw of a normal in double precision lies 20 standard deviations out."""


class RecommendationEnv(WorldEnv):
    """Show each visitor of a shop one of K products; the reward is 1.0 for a click, else 0.0.

    One visit is one episode: `reset()` brings the next visitor, and `step` ends the visit with its own context. Visits
    never run out; shocks count them from 0. An observation is a `zoosim.Context`, read-only and a copy of its own:
    `user_id`, `user (d_u,)`, `product_ids (K,)`, `products (K, d_p)`, `available (K,)`; with `flat` it is the visitor's
    features alone, `(d_u,)` of float32. An action is an index into `product_ids` where `available` is true;
    `action_space.sample(mask=env.action_masks())` draws one. After a step `info["feedback"]` holds what a shop would
    log: `shown (1,)` product ids and `clicks (1,)`.
    """

    def __init__(
        self, config: EnvConfig | Mapping[str, Any] | None = None, steps: int = 40_000, *, flat: bool = False
    ) -> None:
        """Prepare the shop.

        Args:
            config: The shop; by default 50 products without shocks.
            steps: Visits over which `random_shocks` are spread; nothing else depends on it.
            flat: Whether an observation is the visitor's features alone.

        Raises:
            ConfigError: `config` or `steps` is invalid.
        """
        self._config = read_config(config, steps)
        super().__init__(*make_spaces(self._config), "user", flat)

    def build(self, seed: int) -> TableWorld:
        """Return the world of a seed."""
        return build_world(self._config, seed=seed)

    def serve(self, world: TableWorld, visit: TableVisit, action: Any) -> tuple[Outcome, dict[str, Any]]:
        """Show the waiting visitor product `action`."""
        outcome = world.serve(visit, check_action(action, visit.visits.available))
        return outcome, {"step": visit.step, "feedback": outcome.feedback}

    def action_masks(self) -> Any:
        """Return which actions may be taken now, `(K,)` of 0 and 1."""
        return self.visit.visits.available.astype(np.int8)


def read_config(config: EnvConfig | Mapping[str, Any] | None, steps: int) -> EnvConfig:
    """Check a configuration and settle its random shocks.

    Args:
        config: A configuration, its fields by name, or None for the default one.
        steps: Visits over which random shocks are spread, at least 1.

    Raises:
        ConfigError: an argument is invalid.
    """
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:
        raise ConfigError(f"steps: got {steps!r}, expected a whole number of at least 1")
    if config is None or isinstance(config, Mapping):
        config = build(EnvConfig, config or {}, "env")
    if not isinstance(config, EnvConfig):
        raise ConfigError(f"config: got {config!r}, expected an EnvConfig or a mapping such as {{'n_products': 9}}")
    return resolve_shocks(config, steps)


def make_spaces(config: EnvConfig) -> tuple[spaces.Dict, spaces.Discrete]:
    """Return the observation and the action space of every world that `config` describes; raises `ConfigError`."""
    # Made once, so that a shop that cannot be is refused here and not at the first reset; one user is enough for that.
    example = build_world(config.model_copy(update={"n_users": 1}), seed=0)
    count = config.n_products
    fields: dict[str, spaces.Space[Any]] = {
        "user_id": spaces.Discrete(config.n_users),
        "user": _features((), len(config.personas), config.noise_features.user),
        "product_ids": spaces.Box(0, max(count - 1, 1), (count,), np.int64),
        "products": _features((count,), len(config.categories), config.noise_features.product),
        "available": spaces.Box(0, 1, (count,), np.bool_),
    }
    assert fields["products"].shape == example.products.shape
    return spaces.Dict(fields), spaces.Discrete(count)


def _features(rows: tuple[int, ...], labels: int, noise: int) -> spaces.Box:
    """Return the space of feature rows: a one-hot label, then noise."""
    low = np.repeat([0, -NOISE_BOUND], [labels, noise])
    high = np.repeat([1, NOISE_BOUND], [labels, noise])
    shape = (*rows, labels + noise)
    return spaces.Box(np.broadcast_to(low, shape), np.broadcast_to(high, shape), dtype=np.float64)


def check_action(action: Any, available: BoolArray) -> int:
    """Return an action as the index of a product.

    Args:
        action: A whole number.
        available: Which products may be shown, `(K,)`.

    Raises:
        ActionError: it is no index, or that of a product that is not available.
    """
    last = len(available) - 1
    try:
        index = -1 if isinstance(action, bool | np.bool_) else operator.index(action)
    except TypeError:
        index = -1
    if not 0 <= index <= last:
        raise ActionError(f"step: got action {action!r}, expected a whole number from 0 to {last}")
    if not available[index]:
        raise ActionError(f"step: product {index} is not available; choose one where context.available is true")
    return index
