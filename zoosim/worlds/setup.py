"""What a run is told of its world: checked settings, and the worlds that they make, one per seed."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from zoosim.core.action_space import PRODUCTS
from zoosim.core.config import Shock
from zoosim.core.errors import ConfigError
from zoosim.core.types import FloatArray
from zoosim.worlds.base import World

if TYPE_CHECKING:  # search worlds alone have them
    from zoosim.core.market_shift import MarketShift

SETUPS = {
    "recommendation": "zoosim.worlds.recommendation.setup:RecommendationSetup",
    "labelled": "zoosim.worlds.labelled:LabelledSetup",
    "search": "zoosim.worlds.search.setup:SearchSetup",
    "shops": "zoosim.worlds.shops.setup:ShopsSetup",
    "search-shops": "zoosim.worlds.search_shops.setup:SearchShopsSetup",
}
"""The kinds of worlds, and where the class of each one's setup is. A kind of another name is a user's FILE.py:Class."""

OWN = "zoosim.worlds.own:OwnSetup"
FITTED = "zoosim.worlds.fitted.setup:FittedSetup"
WORLD_FILE = ".world"
"""How the files of fitted worlds end."""


class ShopChange(NamedTuple):
    """A change of a world from visit `step` on, of which a run need not know more than its name."""

    step: int
    name: str


class Trait(NamedTuple):
    """What one may know of a world: a trait's `name`, its `value` here, which is value number `place`.

    `asks` says what a world with that value asks of a policy.
    """

    name: str
    value: str
    place: int
    asks: str


@dataclass(frozen=True)
class WorldSetup(ABC):
    """The checked settings of a run's world; the base of one class per kind of world.

    Args:
        kind: The kind of the world.
        config: The settings as the user may write them.
        steps: The length of the run.
        notes: Lines on what had to give way to other settings.
    """

    kind: str
    config: Any
    steps: int
    notes: tuple[str, ...] = ()

    knows_users: ClassVar[bool] = False
    """Whether visitors come back and are recognised."""

    slow_start: ClassVar[bool] = False
    """Whether the first policy of a seed computes for long what the others then find on disk."""

    @property
    def has_past(self) -> bool:
        """Whether there are visits before the run, from which policies can learn."""
        return False

    @property
    def action_spaces(self) -> tuple[str, ...]:
        """What policies may choose, first what a policy chooses that can do more than one."""
        return (PRODUCTS,)

    @property
    def reward_key(self) -> str:
        """How summary.json calls the mean reward of a visit: "ctr", a share, or "reward", an amount."""
        return "ctr"

    @property
    def reward_word(self) -> str:
        """What rewards are called in sentences."""
        return "clicks"

    @property
    def lists_products(self) -> bool:
        """Whether the worlds can list all their products, so that logs can be written."""
        return True

    @property
    def reward_range(self) -> tuple[float, float]:
        """The least and the largest reward of a visit."""
        return (0.0, 1.0)

    @classmethod
    def defaults(cls) -> dict[str, Any]:
        """Return the default settings as plain data."""
        return {}

    @classmethod
    def check_setting(cls, values: Mapping[str, Any], path: Sequence[str]) -> None:
        """Refuse a setting `env.PATH=` that cannot be made; `values` are the settings so far."""
        return None

    @classmethod
    @abstractmethod
    def read(
        cls, kind: str, values: dict[str, Any], shocks: Sequence[Any], steps: int, *, finished: bool
    ) -> "WorldSetup":
        """Check the settings of a run of `steps` visits, and return them as a setup.

        Args:
            kind: The kind of the world.
            values: The settings, as plain data.
            shocks: The shocks that the experiment has where the settings name none.
            steps: The length of the run.
            finished: Whether the run is over, so that files are not read again.

        Raises:
            ConfigError: a setting is invalid.
            DataError: a file is.
        """

    def within_visits(self, *, asked: bool) -> "WorldSetup":
        """Return the setup of a run that is no longer than the visits that there are.

        Args:
            asked: Whether the user asked for this length; the default length gives way.

        Raises:
            ConfigError: a longer run was asked for.
        """
        return self

    @abstractmethod
    def world(self, seed: int, action_space: str, params: Mapping[str, Any]) -> World:
        """Return the world of a seed in which policies choose from an action space.

        `params` are those of the policy: it may see less of a visit than others.
        """

    @abstractmethod
    def code(self, action_space: str) -> str:
        """Hash the code that decides what happens in the world."""

    def settings(self) -> dict[str, Any]:
        """Return the settings as they are written to config.yaml."""
        return dict(self.config.model_dump(exclude_none=True))

    def identity(self) -> dict[str, Any]:
        """Return what makes this world another than others, by the names in config.yaml."""
        return {}

    def files_digest(self) -> str:
        """Hash the content of the files that the settings name; empty where there are none."""
        return ""

    def check(self, seeds: Sequence[int]) -> None:
        """Refuse settings that only a seed's world shows to be impossible."""
        return None

    @property
    def shocks(self) -> "tuple[Shock | MarketShift | ShopChange, ...]":
        """List the shocks, or the market shifts, that all worlds share, in order."""
        return ()

    @property
    def shock_names(self) -> tuple[str, ...]:
        """Name the shocks of every world; those that each world draws for itself are numbered."""
        return tuple(shock.name for shock in self.shocks)

    def shock_steps(self, seed: int) -> list[int]:
        """Return at which visits the shocks of a seed's world are, in order."""
        return sorted(shock.step for shock in self.shocks)

    def traits(self, seed: int, delay: int) -> Sequence[Trait]:
        """Return what kind of world a seed has, in a run that brings rewards so many visits late if not 0.

        Empty where all are of one kind.
        """
        return ()

    @property
    def segment_names(self) -> tuple[str, ...]:
        """Name the segments whose visits are reported apart; none for most worlds."""
        return ()

    def measures(self, parts: Mapping[str, FloatArray], chosen: Any) -> dict[str, float]:
        """Return what the visits that `chosen` picks came to beside their reward, of the parts of rewards."""
        return {}

    def segments(self, parts: Mapping[str, FloatArray]) -> FloatArray:
        """Return the number of each visit's segment among `segment_names`, `(n,)`."""
        return np.zeros(0)

    def reference(self) -> tuple[str, float] | None:
        """Return what learning from all answers would reach, with its name; None where there is no such thing."""
        return None


def setup_class(kind: str) -> type[WorldSetup]:
    """Return the class of the setup of a kind of world; any other name is a fitted world's file or FILE.py:Class."""
    module, _, name = SETUPS.get(kind, FITTED if kind.endswith(WORLD_FILE) else OWN).partition(":")
    cls: type[WorldSetup] = getattr(import_module(module), name)
    return cls


def named_settings(settings: Mapping[str, Any], orders: Mapping[str, Iterable[str]]) -> dict[str, Any]:
    """Return settings, and the `orders` by which a world numbers what some of them name, as `WorldSetup.identity`."""
    values = {f"env.{name}": value for name, value in settings.items()}
    return values | {f"the order of env.{name}": list(order) for name, order in orders.items()}


def refuse_late(late: Sequence[str], steps: int) -> None:
    """Refuse what the user asked for beyond the end of the run; `late` says what that is."""
    if late:
        raise ConfigError(f"env.{late[0]}, beyond the run of {steps} steps")


def fitting_shocks(shocks: Sequence[Any], steps: int, fits: Callable[[Any], bool]) -> tuple[list[Any], tuple[str, ...]]:
    """Return the shocks that fit the world and the run, and a note on each that does not."""
    kept = []
    notes = []
    for shock in shocks:
        if fits(shock) and shock.step < steps:
            kept.append(shock)
        else:
            reason = f"the run ends at {steps}" if fits(shock) else "it does not fit this world"
            notes.append(f"shock {shock.name!r} at step {shock.step} is dropped: {reason}")
    return kept, tuple(notes)
