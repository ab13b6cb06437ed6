"""The search shop: visitors who search, and policies that choose a template, or boosts, for each ranking."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from zoosim.action_spaces.base import Part
from zoosim.core.action_space import BOOSTS, TEMPLATES
from zoosim.core.errors import ConfigError
from zoosim.core.search_config import Floors, SearchConfig
from zoosim.core.types import FloatArray
from zoosim.worlds.base import World
from zoosim.worlds.built import BuiltWorld
from zoosim.worlds.facts import EUROS, Change, Measure, changes_of
from zoosim.worlds.search.boosts import AMOUNTS
from zoosim.worlds.search.economics import absurd_economics
from zoosim.worlds.search.tables import digest, resolve_files
from zoosim.worlds.search.template_arms import search_world

SHARE = (0.0, 1.0)
NOT_NEGATIVE = (0.0, np.inf)
RANK_CHANGE = "rank\nchange"
STRATEGIC_FLOOR = "visits below the strategic floor, a share of what is shown"


class SimulatedSearch(BuiltWorld):
    """The common part of search shops, whatever their parameters are."""

    action_space = TEMPLATES
    action_spaces = (TEMPLATES, BOOSTS)  # a policy over candidates takes the templates for its candidates
    reward_scale = EUROS
    reward_range = AMOUNTS
    knows_users = False
    slow_start = True
    oracle_note = (
        "100% of the oracle is what the best template of each segment and query type earns; boosts may earn more, and "
        "are credited by visit, templates by the mean of their kind of visit"
    )
    floors = Floors()

    @property
    def reported_measures(self) -> tuple[Measure, ...]:
        """GMV and CM2 in EUR, the strategic share of purchases, products that left the top, and visits below floors."""
        floors = self.floors
        return (
            Measure("gmv", "GMV, EUR", _mean("gmv"), NOT_NEGATIVE, column="GMV, EUR\nper visit"),
            Measure("cm2", "CM2, EUR", _mean("cm2"), column="CM2, EUR\nper visit"),
            _share("strategic_share", "strategic share of purchases", _strategic_share, "strategic\n% of shown"),
            Measure(
                "rank_change", "products that left the top", _mean("rank_change"), NOT_NEGATIVE, column=RANK_CHANGE
            ),
            _share("below_cm2_floor", "visits below the CM2 floor", lambda parts: (parts["cm2"] < floors.cm2).mean()),
            _share(
                "below_strategic_floor", STRATEGIC_FLOOR, lambda parts: (parts["exposure"] < floors.strategic).mean()
            ),
        )


def _mean(part: str) -> Callable[[Mapping[str, FloatArray]], float]:
    return lambda parts: float(parts[part].mean())


def _share(key: str, heading: str, value: Callable[[Mapping[str, FloatArray]], Any], column: str = "") -> Measure:
    return Measure(key, heading, lambda parts: float(value(parts)), SHARE, is_share=True, column=column)


def _strategic_share(parts: Mapping[str, FloatArray]) -> float:
    n_purchases = parts["purchases"].sum()
    return float(parts["strategic"].sum() / n_purchases) if n_purchases > 0 else 0.0


class Search(SimulatedSearch):
    """A shop whose visitors search, as its parameters say."""

    parameter_record = SearchConfig
    numbered_in_order = ("categories", "segments", "query_types", "templates")
    description = Part("zoosim.descriptions.search:describe")
    optimum = Part("zoosim.worlds.search.optimum:search_optimum")

    @property
    def floors(self) -> Floors:  # type: ignore[override]
        """Limits of a visit that measures count."""
        floors: Floors = self.config.floors
        return floors

    @classmethod
    def read_parameters(
        cls, values: Mapping[str, Any], changes: Sequence[Any], steps: int, *, finished: bool
    ) -> tuple[SearchConfig, tuple[str, ...]]:
        """Check the parameters of a run, and take the experiment's shifts where none are given."""
        notes: tuple[str, ...] = ()
        config: SearchConfig = cls.checked_parameters(values)
        late = [shift for shift in config.shifts if shift.step >= steps]
        if late:
            where = f"{late[0].name!r} is at step {late[0].step}, beyond the run of {steps} steps"
            raise ConfigError(f"env.shifts: {where}")
        if "shifts" not in values:
            with_shifts, notes = cls.with_changes(values, "shifts", changes, steps)
            config = cls.checked_parameters(with_shifts)
        if finished:
            return config, notes
        config = resolve_files(config)
        return config, (*notes, *(f"env: {line}" for line in absurd_economics(config)))

    def for_policy(self, action_space: str, params: Mapping[str, Any]) -> World:
        """Return the shop for templates or boosts; a policy with a parameter `context` sees what that names."""
        config = self.config
        if "context" in params:
            config = config.model_copy(update={"context": params["context"]})
        return search_world(config, seed=self.seed, steps=self.steps, action_space=action_space, params=params)

    def identity_of(self, config: Any) -> dict[str, Any]:
        """Return the parameters without paths of files, and the orders by which the world numbers things."""
        return super().identity_of(config) | {f"env.{field}": None for field in config.files}

    @property
    def files_digest(self) -> str:
        """A hash of the content of the shop's own tables."""
        return digest(self.config)

    @property
    def reported_shocks(self) -> tuple[Change, ...]:
        """The market shifts, in order."""
        return changes_of(self.config.shifts)

    @property
    def reported_segments(self) -> tuple[str, ...]:
        """The segments of users."""
        return tuple(self.config.segments)

    def segments_of(self, parts: Mapping[str, FloatArray]) -> FloatArray:
        """Return the number of each visit's segment of users; cells are kept, pairs of segment and query type."""
        # Cells are numbered segment by segment, see `cell_of`.
        segments: FloatArray = parts["segment"] // len(self.config.query_types)
        return segments
