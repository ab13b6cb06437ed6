"""Worlds by name: the built-in ones, those of installed packages, and those that a program registers.

A package adds one of its own by an entry point of the group `zoosim.worlds`, whose name is the world's and whose value
is the place of its class, `module:Class`. Two more names are those of files: FILE.world and FILE.py:Class.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pkgutil import resolve_name
from typing import Any

import numpy as np

from zoosim.action_spaces import action_space_names, find_action_space
from zoosim.core.blame import reason_of
from zoosim.core.errors import WorldError, ZoosimError
from zoosim.core.files import resolved
from zoosim.core.parameters import shown
from zoosim.core.registry import Registry
from zoosim.core.types import PolicySpec
from zoosim.core.user_code import class_in_file, is_file_source
from zoosim.policies.base import policy_name
from zoosim.worlds.base import WORLD_FILE, World
from zoosim.worlds.built import BuiltWorld
from zoosim.worlds.facts import RewardScale


def _flaw(cls: object) -> str:
    """Return what keeps an object from being the class of a world."""
    if not isinstance(cls, type) or not issubclass(cls, World):
        return "is no zoosim.World; derive the class from it"
    missing = sorted(getattr(cls, "__abstractmethods__", ()))
    if missing:
        return f"lacks {' and '.join(missing)}; see docs/own-world.md"
    if not _is_played(cls.action_space):
        return f"has the action_space {cls.action_space!r}, expected {', '.join(_played_spaces())}"
    if not _is_range(cls.reward_range):
        return f"has the reward_range {cls.reward_range!r}, expected (low, high), set on the class"
    if not isinstance(cls.reward_scale, RewardScale) and not _is_computed(cls.reward_scale):
        return f"has the reward_scale {shown(cls.reward_scale)}, expected a RewardScale"
    for name in ("reported_shocks", "reported_measures", "reported_segments"):
        value = getattr(cls, name)
        if not isinstance(value, Iterable) and not _is_computed(value):
            return f"has the {name} {shown(value)}, expected a list, or a property that returns one"
    return ""


def _is_computed(attribute: object) -> bool:
    """Return whether an attribute of a class is computed for each object, as a property is, cached or not."""
    return hasattr(attribute, "__get__")


def _is_played(name: str) -> bool:
    """Return whether worlds can take an action space's actions; of those of packages, only this one is imported."""
    return name in action_space_names() and find_action_space(name).is_played


def _played_spaces() -> tuple[str, ...]:
    """Return the names of the action spaces whose actions worlds can take."""
    return tuple(name for name in action_space_names() if _is_played(name))


def _is_range(value: Any) -> bool:
    """Return whether a value is a pair of numbers, the lower one first."""
    if not isinstance(value, tuple | list) or len(value) != 2:
        return False
    return all(isinstance(bound, int | float) for bound in value) and value[0] < value[1]


_PLACES = {
    "recommendation": "zoosim.worlds.recommendation.world:Recommendation",
    "labelled": "zoosim.worlds.labelled:Labelled",
    "search": "zoosim.worlds.search.simulated:Search",
    "shops": "zoosim.worlds.shops.world:Shops",
    "search-shops": "zoosim.worlds.search_shops.world:SearchShops",
    "sessions": "zoosim.worlds.sessions.world:Sessions",
    "lure": "zoosim.worlds.lure.world:Lure",
    "catalogue": "zoosim.worlds.catalogue.world:Catalogue",
}
REGISTRY = Registry[type[World]]("world", "zoosim.worlds", _PLACES, _flaw, policy_name)

world_names = REGISTRY.names
register_world = REGISTRY.register


def find_world(source: str, *, finished: bool = False) -> type[World]:
    """Return the class of a world: of a name, a fitted world's FILE.world, or FILE.py:Class.

    Args:
        source: Which world.
        finished: Whether it is that of a finished run, of which no file is read again.

    Raises:
        ConfigError: there is no world of that name.
        WorldError: there is no such class in the file, or it is no world.
        DataError: the file of a fitted world is broken.
    """
    if source.endswith(WORLD_FILE):
        fitted: type[World] = resolve_name("zoosim.worlds.fitted.world:world_of_file")(source, finished=finished)
        return fitted
    if not is_file_source(source):
        return REGISTRY.find(source)
    if finished:
        return AbsentWorld
    cls = class_in_file(source, "world", WorldError)
    flaw = _flaw(cls)
    if flaw:
        raise WorldError(f"world {source}: {flaw}")
    return cls


def is_world_file(source: str) -> bool:
    """Return whether a name stands for a world in a file."""
    return source.endswith(WORLD_FILE) or is_file_source(source)


def world_source(source: str) -> str:
    """Return the name of a world with a file's whole path, so that it is found from everywhere."""
    if not is_world_file(source):
        return source
    file, colon, name = source.rpartition(":") if is_file_source(source) else (source, "", "")
    return f"{resolved(file)}{colon}{name}"


def make_world(cls: type[World], seed: int, steps: int, params: Mapping[str, Any]) -> World:
    """Return the world of a seed.

    Args:
        cls: Class of the world.
        seed: Seed of all its draws.
        steps: Length of the run, in visits.
        params: Parameters by name.

    Raises:
        WorldError: the world cannot be made.
    """
    with _making(cls, seed):
        world = cls(seed, steps, **params)
        if getattr(world, "seed", None) != seed:
            raise ValueError("it has no seed; call super().__init__(seed, steps, **params)")
    return world


def world_for_policy(world: World, action_space: str, params: Mapping[str, Any]) -> World:
    """Return a world as a policy sees it.

    Args:
        world: The world of a seed.
        action_space: Name of the action space that the policy chooses from.
        params: The policy's parameters by name.

    Raises:
        WorldError: the world cannot be made.
    """
    with _making(type(world), world.seed):
        seen = world.for_policy(action_space, params)
        spec = seen.spec(world.steps)
        if not isinstance(spec, PolicySpec):
            raise TypeError(f"spec returned {spec!r}, expected a zoosim.PolicySpec")
    return seen


@contextmanager
def _making(cls: type[World], seed: int) -> Iterator[None]:
    """Turn what a world raises as it is made into an error of one line."""
    try:
        yield
    except ZoosimError:
        raise
    # A user's class must not end the program, so SystemExit is caught as well.
    except (Exception, SystemExit) as error:
        reason = f"cannot be made for seed {seed}: {reason_of(error)}"
        raise WorldError(f"world {policy_name(cls)}: {reason}") from error


class AbsentWorld(BuiltWorld):
    """The world of a finished run whose class is a user's: its rows are all that is asked, and the file may be gone."""

    reward_range = (-np.inf, np.inf)

    @classmethod
    def checked_parameters(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters as they were."""
        return dict(values)

    @property
    def action_spaces(self) -> tuple[str, ...]:
        """All that there are."""
        return _played_spaces()

    def for_policy(self, action_space: str, params: Mapping[str, Any]) -> World:
        """Raise `WorldError`, as no visitor comes any more."""
        raise WorldError("the run is over; run it again to meet its visitors")
