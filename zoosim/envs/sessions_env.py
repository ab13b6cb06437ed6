"""Visitors who come back as a Gymnasium environment: an episode is a visitor's whole life, a step one decision.

env = gymnasium.make("zoosim/Sessions-v0", config={"observe": "state"})
features, info = env.reset(seed=7)
features, reward, terminated, truncated, info = env.step(3)  # reward: 1.0 for a click; terminated: gone for good
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from gymnasium import spaces

from zoosim.core.checks import check_whole
from zoosim.core.config import build
from zoosim.core.errors import ConfigError
from zoosim.core.types import IntArray
from zoosim.envs.recommendation_env import check_action
from zoosim.envs.world_env import WorldEnv
from zoosim.worlds.base import Outcome
from zoosim.worlds.episodes import MOST_STEPS
from zoosim.worlds.sessions.config import SessionConfig
from zoosim.worlds.sessions.visitors import STEP, VISIT, VISITOR
from zoosim.worlds.sessions.world import Sessions

MAX_STEPS = 1_000
"""Decisions after which a visitor is cut off, where it is not said."""

UNENDING = 2**62
"""Visitors of a world that no run bounds, so that no shock lies beyond its end."""


class SessionsEnv(WorldEnv):
    """Show a visitor one product at each decision of all visits until the visitor has gone for good.

    An action is an index into the products. Products of a kind (a category, sound or teaser) are alike for visitors, so
    that by default there is one of each, and action 2 c + 1 is the teaser of category c; `config={"per_kind": 5}` has
    five of each, as a run of the world has. The reward is what a click is worth, 1.0 by default, and 0.0 without one.

    `terminated` says that the visitor has gone for good. The end of a visit is no end of the episode:
    `info["visit_ended"]` says that this decision was the last of a visit, and the observation is of the next visit, if
    there is one. `truncated` cuts off visitors after `max_steps` decisions alone; they might have gone on, so that
    learners bootstrap from the last observation. `reset()` brings the next visitor; visitors never run out.

    An observation is what `observe` of the shop says, a vector of float32; with `flat=False` it is the whole
    `zoosim.Context`. `info` holds of what is observed the numbers of the `visitor`, of the `visit`, and of the `step`
    since the visitor came first, all from 0, and the `action_mask (K,)` of products that may be shown.
    """

    def __init__(
        self,
        config: SessionConfig | Mapping[str, Any] | None = None,
        max_steps: int | None = None,
        *,
        flat: bool = True,
    ) -> None:
        """Prepare the shop.

        Args:
            config: The shop, or its fields by name, where `per_kind` is 1 if not given.
            max_steps: Decisions after which a visitor is cut off, from 1 to 100,000; None for those that the shop's
                `followed` says, 1,000 if none.
            flat: Whether an observation is the visitor's features alone.

        Raises:
            ConfigError: an argument is invalid.
        """
        self.config = read_session_config(config)
        most = self.config.followed or MAX_STEPS if max_steps is None else max_steps
        self.max_steps = check_whole("max_steps", most, 1, MOST_STEPS)
        context_space, action_space = make_session_spaces(self.config)
        super().__init__(context_space, action_space, "user", flat)

    def build(self, seed: int) -> Sessions:
        """Return the world of a seed."""
        return build_sessions(self.config, seed)

    def before(self, world: Sessions, visit: IntArray) -> dict[str, Any]:
        """Return the `info` of a visitor at a decision."""
        return self._info(world, visit, ended=False)

    def serve(self, world: Sessions, visit: IntArray, action: Any) -> tuple[Outcome, dict[str, Any]]:
        """Show the waiting visitor product `action`."""
        outcome = world.serve(visit, check_action(action, world.available(visit)))
        if outcome.next is None:
            return outcome, self._info(world, visit, ended=True)
        following = outcome.next
        is_cut = int(following.visit[STEP]) >= self.max_steps
        outcome = replace(outcome, next=replace(following, cut_off=is_cut))
        return outcome, self._info(world, following.visit, ended=not following.same_visit)

    def _info(self, world: Sessions, visit: IntArray, *, ended: bool) -> dict[str, Any]:
        return {
            "visitor": int(visit[VISITOR]),
            "visit": int(visit[VISIT]),
            "step": int(visit[STEP]),
            "visit_ended": ended,
            "action_mask": world.available(visit).astype(np.int8),
        }

    def action_masks(self) -> Any:
        """Return which actions may be taken now, `(K,)` of 0 and 1; raises `OrderError` where nobody waits."""
        return self.world.available(self.visit).astype(np.int8)


def read_session_config(config: SessionConfig | Mapping[str, Any] | None) -> SessionConfig:
    """Check a configuration.

    Args:
        config: A configuration, its fields by name, with `per_kind` 1 if not given, or None for the default one.

    Raises:
        ConfigError: it is invalid.
    """
    if isinstance(config, SessionConfig):
        return config
    if config is not None and not isinstance(config, Mapping):
        raise ConfigError(f"config: got {config!r}, expected a SessionConfig or a mapping such as {{'go_on': 0.8}}")
    checked: SessionConfig = build(SessionConfig, {"per_kind": 1, **(config or {})}, "env")
    return checked


def build_sessions(config: SessionConfig, seed: int) -> Sessions:
    """Return the world of a seed, whose visitors never run out."""
    return Sessions(seed, UNENDING, **config.model_dump())


def make_session_spaces(config: SessionConfig) -> tuple[spaces.Dict, spaces.Discrete]:
    """Return the observation and the action space of a shop."""
    world = build_sessions(config, 0)
    products = world.all_products().features
    count, width = products.shape
    fields: dict[str, spaces.Space[Any]] = {
        "user_id": spaces.Discrete(UNENDING),
        "user": spaces.Box(0.0, 1.0, (len(world.user_columns),), np.float64),
        "product_ids": spaces.Box(0, max(count - 1, 1), (count,), np.int64),
        "products": spaces.Box(0.0, 1.0, (count, width), np.float64),
        "available": spaces.Box(0, 1, (count,), np.bool_),
    }
    return spaces.Dict(fields), spaces.Discrete(count)
