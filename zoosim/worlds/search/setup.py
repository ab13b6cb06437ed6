"""The settings of a run in the search shop: checks them, and makes its worlds and the measures of its reports."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from zoosim.core.action_space import BOOSTS, TEMPLATES
from zoosim.core.config import Shock, build
from zoosim.core.market_shift import MarketShift
from zoosim.core.search_config import Floors, SearchConfig
from zoosim.core.sources import source_digest
from zoosim.core.types import FloatArray
from zoosim.worlds.base import World
from zoosim.worlds.search.economics import absurd_economics
from zoosim.worlds.search.tables import digest, resolve_files
from zoosim.worlds.search.template_arms import search_world
from zoosim.worlds.setup import WorldSetup, fitting_shocks, named_settings, refuse_late


@dataclass(frozen=True)
class SearchSetup(WorldSetup):
    """A shop whose visitors search; policies choose a template, or boosts, for each ranking."""

    config: SearchConfig

    reward_key = "reward"
    reward_word = "reward"
    slow_start = True

    @property
    def action_spaces(self) -> tuple[str, ...]:
        """Templates first: a policy over candidates takes the templates for its candidates."""
        return (TEMPLATES, BOOSTS)

    @property
    def reward_range(self) -> tuple[float, float]:
        """Amounts in EUR, without bounds."""
        return (-np.inf, np.inf)

    @classmethod
    def defaults(cls) -> dict[str, Any]:
        """Return the default shop."""
        return SearchConfig().model_dump()

    @classmethod
    def read(
        cls, kind: str, values: dict[str, Any], shocks: Sequence[Any], steps: int, *, finished: bool
    ) -> "SearchSetup":
        """Check the settings of a run; see `WorldSetup.read`."""
        config: SearchConfig = build(SearchConfig, values, "env")
        refuse_late([f"shifts: {s.name!r} is at step {s.step}" for s in config.shifts if s.step >= steps], steps)
        notes: tuple[str, ...] = ()
        if "shifts" not in values:
            built_in, notes = fitting_shocks(shocks, steps, lambda shift: _fits(shift, config))
            config = config.model_copy(update={"shifts": built_in})
        if finished:
            return cls(kind, config, steps, notes)
        config = resolve_files(config)
        return cls(kind, config, steps, (*notes, *(f"env: {line}" for line in absurd_economics(config))))

    def world(self, seed: int, action_space: str, params: Mapping[str, Any]) -> World:
        """Return the world of a seed; a policy with a parameter `context` sees what that names of a visit."""
        config = self.config
        if "context" in params:
            config = config.model_copy(update={"context": params["context"]})
        return search_world(config, seed=seed, steps=self.steps, action_space=action_space)

    def code(self, action_space: str) -> str:
        """Hash the code that builds the world."""
        return source_digest(search_world.__module__)

    def identity(self) -> dict[str, Any]:
        """Return the settings without paths of files, and the orders by which the world numbers things."""
        values = self.config.model_dump() | dict.fromkeys(self.config.files)
        orders = {name: getattr(self.config, name) for name in ("categories", "segments", "query_types")}
        return named_settings(values, orders)

    def files_digest(self) -> str:
        """Hash the content of the shop's own tables."""
        return digest(self.config)

    @cached_property
    def shocks(self) -> tuple[Shock | MarketShift, ...]:
        """List the market shifts, in order."""
        return tuple(sorted(self.config.shifts, key=lambda shift: shift.step))

    @property
    def segment_names(self) -> tuple[str, ...]:
        """Name the segments of users."""
        return tuple(self.config.segments)

    def measures(self, parts: Mapping[str, FloatArray], chosen: Any) -> dict[str, float]:
        """Return means per visit of GMV and CM2 in EUR, and of the products that left the top, and some shares.

        The strategic share of purchases; the shares of visits below the floor of CM2, and below that of strategic goods
        among the products shown.
        """
        return measures_of(parts, chosen, self.config.floors)

    def segments(self, parts: Mapping[str, FloatArray]) -> FloatArray:
        """Return the number of each visit's segment of users; cells are kept, pairs of segment and query type."""
        segments: FloatArray = parts["segment"] // len(self.config.query_types)
        return segments


def measures_of(parts: Mapping[str, FloatArray], chosen: Any, floors: Floors) -> dict[str, float]:
    """Return what the visits that `chosen` picks came to; see `SearchSetup.measures`."""
    visits = {name: part[chosen] for name, part in parts.items()}
    n_purchases = visits["purchases"].sum()
    return {
        "gmv": float(visits["gmv"].mean()),
        "cm2": float(visits["cm2"].mean()),
        "strategic_share": float(visits["strategic"].sum() / n_purchases) if n_purchases > 0 else 0.0,
        "rank_change": float(visits["rank_change"].mean()),
        "below_cm2_floor": float((visits["cm2"] < floors.cm2).mean()),
        "below_strategic_floor": float((visits["exposure"] < floors.strategic).mean()),
    }


def _fits(shift: MarketShift, config: SearchConfig) -> bool:
    """Whether a world has the segments and categories that a shift names."""
    opening_shares = {name: segment.share for name, segment in config.segments.items()}
    try:
        shift.shares(opening_shares)
    except ValueError:  # the segments that it does not name have no shares to make up the rest
        return False
    return set(shift.segments) <= set(opening_shares) and set(shift.categories) <= set(config.categories)
