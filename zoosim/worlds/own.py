"""Worlds of the user's own: a class in a file, as a run is told of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from zoosim.action_spaces import action_space_names, find_action_space
from zoosim.core.blame import reason_of
from zoosim.core.errors import WorldError, ZoosimError
from zoosim.core.files import resolved
from zoosim.core.parameters import check_parameters
from zoosim.core.types import PolicySpec
from zoosim.core.user_code import class_in_file, code_digest
from zoosim.policies.base import policy_name
from zoosim.worlds.base import World
from zoosim.worlds.setup import WorldSetup


def world_class(source: str) -> type[World]:
    """Return the world class `FILE.py:Class`; raises `WorldError` for what is none."""
    cls = class_in_file(source, "world", WorldError)
    if not issubclass(cls, World):
        raise WorldError(f"world {source}: is no zoosim.World; derive the class from it")
    missing = sorted(getattr(cls, "__abstractmethods__", ()))
    if missing:
        raise WorldError(f"world {source}: lacks {' and '.join(missing)}; see docs/own-world.md")
    if not _is_played(cls.action_space):
        expected = ", ".join(_played_spaces())
        raise WorldError(f"world {source}: has the action_space {cls.action_space!r}, expected {expected}")
    if not _is_range(cls.reward_range):
        raise WorldError(
            f"world {source}: has the reward_range {cls.reward_range!r}, expected (low, high), set on the class"
        )
    return cls


def _is_played(name: str) -> bool:
    """Whether worlds can take the actions of an action space; of those of packages, only this one is imported."""
    return name in action_space_names() and find_action_space(name).is_played


def _played_spaces() -> tuple[str, ...]:
    """Return the names of the action spaces whose actions worlds can take."""
    return tuple(name for name in action_space_names() if _is_played(name))


def _is_range(value: Any) -> bool:
    """Whether a value is a pair of numbers, the lower one first."""
    if not isinstance(value, tuple | list) or len(value) != 2:
        return False
    return all(isinstance(bound, int | float) for bound in value) and value[0] < value[1]


def world_source(source: str) -> str:
    """Return FILE.py:Class with the file's whole path, so that it is found from everywhere."""
    file, _, name = source.rpartition(":")
    return f"{resolved(file)}:{name}"


@dataclass(frozen=True)
class OwnSetup(WorldSetup):
    """A world of the user's own; `config` holds its parameters."""

    config: Mapping[str, Any]
    finished: bool = False

    knows_users = True
    reward_key = "reward"
    reward_word = "reward"

    @property
    def lists_products(self) -> bool:
        """Whether the world has a method of its own for it."""
        return world_class(self.kind).all_products is not World.all_products

    @property
    def reward_range(self) -> tuple[float, float]:
        """The least and the largest reward, as the world says."""
        return world_class(self.kind).reward_range

    @classmethod
    def read(
        cls, kind: str, values: dict[str, Any], shocks: Sequence[Any], steps: int, *, finished: bool
    ) -> "OwnSetup":
        """Check the parameters of a world; see `WorldSetup.read`."""
        if finished:
            return cls(kind, values, steps, finished=True)
        world = world_class(kind)
        return cls(kind, check_parameters(policy_name(world), world, values), steps)

    @property
    def action_spaces(self) -> tuple[str, ...]:
        """What policies choose in this world; anything where the run is over and the file need not be there."""
        return _played_spaces() if self.finished else (world_class(self.kind).action_space,)

    def world(self, seed: int, action_space: str, params: Mapping[str, Any]) -> World:
        """Return the world of a seed."""
        cls = world_class(self.kind)
        label = f"world {policy_name(cls)}"
        try:
            world = cls(seed, self.steps, **self.config)
            spec = world.spec(self.steps)
        except ZoosimError:
            raise
        except (Exception, SystemExit) as error:
            raise WorldError(f"{label}: cannot be made for seed {seed}: {reason_of(error)}") from error
        if getattr(world, "seed", None) != seed:
            raise WorldError(f"{label}: has no seed; call super().__init__(seed, steps, **params)")
        if not isinstance(spec, PolicySpec):
            raise WorldError(f"{label}: spec returned {spec!r}, expected a zoosim.PolicySpec")
        return world

    def code(self, action_space: str) -> str:
        """Hash the code of the file, and what it uses of the package."""
        return code_digest(world_class(self.kind))

    def settings(self) -> dict[str, Any]:
        """Return the parameters."""
        return dict(self.config)

    def identity(self) -> dict[str, Any]:
        """Return the parameters."""
        return {f"env.{name}": value for name, value in self.config.items()}
