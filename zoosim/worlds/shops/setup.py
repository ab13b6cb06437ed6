"""Shops drawn at random, as a run is told of them: one of its own for each seed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from zoosim.core.config import build
from zoosim.core.sources import source_digest
from zoosim.worlds.setup import Trait, WorldSetup
from zoosim.worlds.shops.config import ShopsConfig
from zoosim.worlds.shops.draw import draw_kind
from zoosim.worlds.shops.traits import traits_of
from zoosim.worlds.shops.world import ShopWorld, build_shop_world, reward_range


@dataclass(frozen=True)
class ShopsSetup(WorldSetup):
    """Shops of all kinds; `config` says what they are drawn from."""

    config: ShopsConfig

    reward_key = reward_word = "reward"
    knows_users = True
    has_past = True

    @classmethod
    def defaults(cls) -> dict[str, Any]:
        """Return what shops are drawn from by default."""
        return ShopsConfig().model_dump()

    @classmethod
    def read(
        cls, kind: str, values: dict[str, Any], shocks: Sequence[Any], steps: int, *, finished: bool
    ) -> "ShopsSetup":
        """Check the settings of a run; see `WorldSetup.read`."""
        return cls(kind, build(ShopsConfig, values, "env"), steps)

    @property
    def reward_range(self) -> tuple[float, float]:
        """The least and the largest reward of a visit."""
        return reward_range(way for way, share in self.config.pays.items() if share)

    def world(self, seed: int, action_space: str, params: Mapping[str, Any]) -> ShopWorld:
        """Return the shop of a seed."""
        return build_shop_world(self.config, seed=seed, steps=self.steps)

    def traits(self, seed: int, delay: int) -> Sequence[Trait]:
        """Return what kind of shop a seed has; a run's `delay` takes the place of its own."""
        kind = draw_kind(self.config, seed)
        return traits_of(replace(kind, delay=delay or kind.delay))

    def code(self, action_space: str) -> str:
        """Hash the code that builds the world."""
        return source_digest(build_shop_world.__module__)
