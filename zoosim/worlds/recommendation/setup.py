"""The recommendation world as a run is told of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from zoosim.core.config import EnvConfig, Shock, build
from zoosim.core.errors import ConfigError
from zoosim.core.parameters import unknown
from zoosim.core.sources import source_digest
from zoosim.worlds.recommendation.world import build_world, drawn, resolve_shocks
from zoosim.worlds.setup import WorldSetup, fitting_shocks, named_settings, refuse_late
from zoosim.worlds.table import TableWorld

if TYPE_CHECKING:  # search worlds alone have them
    from zoosim.core.market_shift import MarketShift


@dataclass(frozen=True)
class RecommendationSetup(WorldSetup):
    """A shop whose visitors see one product each; `config` as it was asked for."""

    config: EnvConfig

    knows_users = True
    has_past = True

    @classmethod
    def defaults(cls) -> dict[str, Any]:
        """Return the default shop."""
        return EnvConfig().model_dump()

    @classmethod
    def check_setting(cls, values: Mapping[str, Any], path: Sequence[str]) -> None:
        """Refuse a click probability of a persona or a category that is not there: it would be a slip of the pen."""
        if path[0] != "personas" or len(path) != 3:
            return
        personas = values.get("personas", cls.defaults()["personas"])
        rows = personas if isinstance(personas, Mapping) else {}
        if path[1] not in rows:
            raise ConfigError(unknown("--set env.personas: unknown persona", path[1], rows))
        known = {category: 0 for row in rows.values() if isinstance(row, Mapping) for category in row}
        if path[2] not in known:
            raise ConfigError(unknown("--set env.personas: unknown category", path[2], known))

    @classmethod
    def read(
        cls, kind: str, values: dict[str, Any], shocks: Sequence[Any], steps: int, *, finished: bool
    ) -> "RecommendationSetup":
        """Check the settings of a run; see `WorldSetup.read`."""
        config: EnvConfig = build(EnvConfig, values, "env")
        over = config.random_shocks.over if config.random_shocks else None
        if over is not None and over > steps:
            expected = f"expected at most {steps}, the length of the run"
            advice = "leave it out, or give the run more steps"
            raise ConfigError(f"env.random_shocks.over: got {over}, {expected}; {advice}")
        env = resolve_shocks(config, steps)
        notes: tuple[str, ...] = ()
        if "shocks" not in values and "random_shocks" not in values:
            built_in, notes = fitting_shocks(shocks, steps, lambda shock: _cells_known(shock, env))
            env = env.model_copy(update={"shocks": built_in})
        late = [f"shocks: {shock.name!r} is at step {shock.step}" for shock in env.shocks if shock.step >= steps]
        late += [f"availability: {e.change} is at step {e.step}" for e in env.availability if e.step >= steps]
        refuse_late(late, steps)
        return cls(kind, env if env.random_shocks is None else config, steps, notes)

    @cached_property
    def _shop(self) -> EnvConfig:
        """The shop with what follows from the length of the run."""
        return resolve_shocks(self.config, self.steps)

    def world(self, seed: int, action_space: str, params: Mapping[str, Any]) -> TableWorld:
        """Return the world of a seed."""
        return build_world(self._shop, seed=seed)

    def code(self, action_space: str) -> str:
        """Hash the code that builds the world."""
        return source_digest(build_world.__module__)

    def settings(self) -> dict[str, Any]:
        """Return the settings as they are written to config.yaml."""
        values = super().settings()
        if "random_personas" in values:
            del values["personas"]  # they follow from it
        return values

    def identity(self) -> dict[str, Any]:
        """Return the settings, and the orders by which the world numbers personas and categories."""
        orders = {"personas": self._shop.personas, "categories": self._shop.categories}
        return named_settings(self._shop.model_dump(), orders)

    def check(self, seeds: Sequence[int]) -> None:
        """Refuse a shop with nothing for sale at some time; which products a category has depends on the seed."""
        if self.config.availability:
            small = self.config.model_copy(update={"n_users": 1, "random_shocks": None})
            for seed in seeds:
                build_world(small, seed=seed)

    @property
    def shocks(self) -> "tuple[Shock | MarketShift, ...]":
        """List the shocks that all worlds share, in order."""
        return tuple(sorted(self.config.shocks, key=lambda shock: shock.step))

    @property
    def shock_names(self) -> tuple[str, ...]:
        """Name the shocks of every world; those that each world draws for itself are numbered."""
        drawing = self.config.random_shocks
        if drawing is not None:
            return tuple(f"shock {number}" for number in range(1, drawing.count + 1))
        return super().shock_names

    def shock_steps(self, seed: int) -> list[int]:
        """Return at which visits the shocks of a seed's world are, in order."""
        return sorted(shock.step for shock in drawn(self._shop, seed).shocks)


def _cells_known(shock: Shock, env: EnvConfig) -> bool:
    return all(persona in env.personas and set(row) <= set(env.categories) for persona, row in shock.set.items())
