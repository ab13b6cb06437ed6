"""A fitted world as a run is told of it: the file that `fit-world` wrote."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import Field

from zoosim.core.config import Strict, build
from zoosim.core.errors import ConfigError
from zoosim.core.sources import source_digest
from zoosim.worlds.fitted.file import load_world, world_digest
from zoosim.worlds.fitted.shop import FittedShop
from zoosim.worlds.fitted.world import FittedWorld, build_fitted_world, change_steps, reward_range
from zoosim.worlds.setup import ShopChange, WorldSetup


class FittedConfig(Strict):
    """What a fitted world pays, and at which visits it changes; all else is in its file."""

    pays: Literal["clicks", "amounts"] = "clicks"
    changes: list[int] = Field(default_factory=list)


@dataclass(frozen=True)
class FittedSetup(WorldSetup):
    """A shop fitted to a log; `kind` is its file, `config` what pages of a run say of it without the file."""

    config: FittedConfig

    knows_users = True
    has_past = True

    @classmethod
    def read(
        cls, kind: str, values: dict[str, Any], shocks: Sequence[Any], steps: int, *, finished: bool
    ) -> "FittedSetup":
        """Check the settings of a run; see `WorldSetup.read`."""
        config: FittedConfig = build(FittedConfig, values, "env")
        if finished:
            return cls(kind, config, steps)
        shop = load_world(kind)
        facts = FittedConfig(pays="clicks" if shop.sizes is None else "amounts", changes=change_steps(shop, steps))
        if values and config != facts:
            raise ConfigError(f"env: {kind} is another world, or the run has another length; leave env out")
        return cls(kind, facts, steps)

    @property
    def shop(self) -> FittedShop:
        """What the file holds; read once in each process."""
        return load_world(self.kind)

    @property
    def reward_range(self) -> tuple[float, float]:
        """The least and the largest reward of a visit."""
        return reward_range(self.shop)

    @property
    def reward_key(self) -> str:
        """How summary.json calls the mean reward of a visit."""
        return "ctr" if self.config.pays == "clicks" else "reward"

    @property
    def reward_word(self) -> str:
        """What rewards are called in sentences."""
        return "clicks" if self.config.pays == "clicks" else "reward"

    def world(self, seed: int, action_space: str, params: Mapping[str, Any]) -> FittedWorld:
        """Return the world of a seed."""
        return build_fitted_world(self.shop, seed=seed, steps=self.steps)

    def code(self, action_space: str) -> str:
        """Hash the code that builds the world."""
        return source_digest(build_fitted_world.__module__)

    def files_digest(self) -> str:
        """Hash the content of the file."""
        return world_digest(self.kind)[:16]

    @property
    def shocks(self) -> tuple[ShopChange, ...]:
        """List the changes of the shop."""
        changes = enumerate(self.config.changes, start=1)
        return tuple(ShopChange(step, f"change {number}") for number, step in changes)
