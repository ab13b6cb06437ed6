"""Search shops drawn at random as a world: another shop for each seed."""

from collections.abc import Mapping
from typing import Any

from zoosim.worlds.base import World
from zoosim.worlds.search.simulated import SimulatedSearch
from zoosim.worlds.search.template_arms import search_world
from zoosim.worlds.search_shops.config import SearchShopsConfig
from zoosim.worlds.search_shops.draw import draw_search_shop


class SearchShops(SimulatedSearch):
    """Search shops of all kinds, one for each seed; the parameters say what they are drawn from."""

    parameter_record = SearchShopsConfig

    def for_policy(self, action_space: str, params: Mapping[str, Any]) -> World:
        """Return the shop; a policy's `context` may be less than the shop tells, or the true tastes."""
        shop = draw_search_shop(self.config, seed=self.seed, steps=self.steps)
        if params.get("context") in ("simple", "rich-oracle"):
            shop = shop.model_copy(update={"context": params["context"]})
        return search_world(shop, seed=self.seed, steps=self.steps, action_space=action_space, params=params)
