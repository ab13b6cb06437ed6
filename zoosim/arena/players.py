"""Who plays a search shop: policies over boosts or over templates, alike for whoever plays and scores them."""

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np

from zoosim.core.errors import ConfigError
from zoosim.core.search_config import TEMPLATES
from zoosim.core.types import Context, FloatArray, IntArray, PolicySpec, frozen
from zoosim.envs.search_env import check_boosts, check_template, context_of
from zoosim.policies.boosts.base import BoostPolicy
from zoosim.policies.templates.bandits import TemplateBandit
from zoosim.worlds.search.shop import SearchShop, Visit

TEMPLATE_ROWS = frozen(np.eye(len(TEMPLATES)))
"""The templates' features: which one it is."""


class Learner(Protocol):
    """A policy that can say what it thinks best, without exploring."""

    def select_action(self, context: Context) -> Any:
        """Return an action to learn and to earn from."""
        ...

    def recommend(self, context: Context) -> Any:
        """Return the action that seems best; moves no state."""
        ...

    def update(
        self,
        context: Context,
        action: Any,
        reward: float,
        feedback: Mapping[str, Any] | None = None,
        next_context: Context | None = None,
    ) -> None:
        """Learn what an action earned, in any order and any time after the decision."""
        ...


class Player(Protocol):
    """A policy in a shop: what it sees of a visit, and the ranking that its actions make."""

    @property
    def shop(self) -> SearchShop:
        """Return the shop."""
        ...

    @property
    def policy(self) -> Learner:
        """Return the policy."""
        ...

    def context(self, visit: Visit) -> Context:
        """Return what the policy sees of a visit."""
        ...

    def rank(self, visit: Visit, action: Any) -> IntArray:
        """Return the ranking `(k,)` that an action makes; raises `ActionError` for one that is none."""
        ...


class BoostPlayer(NamedTuple):
    """A policy that chooses boosts."""

    shop: SearchShop
    policy: BoostPolicy

    def context(self, visit: Visit) -> Context:
        """Return what `zoosim/Search-v0` shows of a visit."""
        return context_of(self.shop, visit)

    def rank(self, visit: Visit, action: Any) -> IntArray:
        """Rank by boosts `(10,)`."""
        return self.shop.rank(visit, check_boosts(action, self.shop.world.config))


class TemplatePlayer(NamedTuple):
    """A bandit that chooses one of the templates."""

    shop: SearchShop
    policy: TemplateBandit

    def context(self, visit: Visit) -> Context:
        """Return the visit as its user and the templates as its products, as the template experiments do."""
        features = seen_of(self.shop, self.shop.features(visit), self.policy.context)
        templates = {"product_ids": np.arange(len(TEMPLATES)), "products": TEMPLATE_ROWS}
        return Context(user_id=visit.step, user=features, available=np.ones(len(TEMPLATES), np.bool_), **templates)

    def rank(self, visit: Visit, action: Any) -> IntArray:
        """Rank by the template of a number."""
        return self.shop.rank_by_template(visit, check_template(action))


def player_of(shop: SearchShop, policy: Any) -> Player:
    """Let a policy play in a shop; raises `ConfigError` for one that chooses neither boosts nor templates."""
    if isinstance(policy, BoostPolicy):
        return BoostPlayer(shop, policy)
    if isinstance(policy, TemplateBandit):
        return TemplatePlayer(shop, policy)
    raise ConfigError(f"policy: got {type(policy).__name__}, expected a BoostPolicy or a bandit over templates")


def template_spec(shop: SearchShop, sees: str, steps: int) -> PolicySpec:
    """Return what a bandit over templates is told; raises `ConfigError` where it wants to see more than there is."""
    width = len(seen_of(shop, np.zeros(shop.n_features), sees))
    return PolicySpec(user_dim=width, product_dim=len(TEMPLATES), steps=steps)


def seen_of(shop: SearchShop, features: FloatArray, sees: str) -> FloatArray:
    """Return those of a visit's features that a policy with the context `sees` goes by."""
    config = shop.world.config
    if sees == "simple":
        return features[: len(config.segments) + len(config.query_types)]
    if sees != config.context:
        raise ConfigError(f"context: got a policy that sees {sees}, expected simple or the shop's {config.context}")
    return features
