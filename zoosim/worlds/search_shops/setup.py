"""Search shops drawn at random, as a run is told of them: one of its own for each seed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from zoosim.core.action_space import BOOSTS, TEMPLATES
from zoosim.core.config import build
from zoosim.core.search_config import Floors
from zoosim.core.sources import source_digest
from zoosim.core.types import FloatArray
from zoosim.worlds.base import World
from zoosim.worlds.search.boosts import AMOUNTS
from zoosim.worlds.search.setup import measures_of
from zoosim.worlds.search.template_arms import search_world
from zoosim.worlds.search_shops.config import SearchShopsConfig
from zoosim.worlds.search_shops.draw import draw_search_shop
from zoosim.worlds.setup import WorldSetup


@dataclass(frozen=True)
class SearchShopsSetup(WorldSetup):
    """Search shops of all kinds; `config` says what they are drawn from."""

    config: SearchShopsConfig

    reward_key = reward_word = "reward"
    slow_start = True

    @property
    def action_spaces(self) -> tuple[str, ...]:
        """Templates first, as in the search shop of a user's own."""
        return (TEMPLATES, BOOSTS)

    @property
    def reward_range(self) -> tuple[float, float]:
        """Amounts in EUR, without bounds."""
        return AMOUNTS

    @classmethod
    def defaults(cls) -> dict[str, Any]:
        """Return what search shops are drawn from by default."""
        return SearchShopsConfig().model_dump()

    @classmethod
    def read(
        cls, kind: str, values: dict[str, Any], shocks: Sequence[Any], steps: int, *, finished: bool
    ) -> "SearchShopsSetup":
        """Check the settings of a run; see `WorldSetup.read`."""
        return cls(kind, build(SearchShopsConfig, values, "env"), steps)

    def world(self, seed: int, action_space: str, params: Mapping[str, Any]) -> World:
        """Return the shop of a seed; a policy's `context` may be less than the shop tells, or the true tastes."""
        shop = draw_search_shop(self.config, seed=seed, steps=self.steps)
        if params.get("context") in ("simple", "rich-oracle"):
            shop = shop.model_copy(update={"context": params["context"]})
        return search_world(shop, seed=seed, steps=self.steps, action_space=action_space)

    def code(self, action_space: str) -> str:
        """Hash the code that builds the world."""
        return source_digest(search_world.__module__, draw_search_shop.__module__)

    def measures(self, parts: Mapping[str, FloatArray], chosen: Any) -> dict[str, float]:
        """Return what visits came to, as in a search shop with the usual floors."""
        return measures_of(parts, chosen, Floors())
