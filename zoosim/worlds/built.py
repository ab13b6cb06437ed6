"""Worlds whose arrays are made when the first visitor comes: what a run must know of them costs nothing before."""

from abc import abstractmethod
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from zoosim.worlds.base import World


def _of_visited(name: str) -> Any:
    """Return a method of `World` that asks the world which is visited."""

    def method(self: "BuiltWorld", *arguments: Any) -> Any:
        return getattr(self._visited, name)(*arguments)

    return method


class BuiltWorld(World):
    """A world that `for_policy` builds; until then it knows its seed, length and parameters alone.

    It can be visited itself, as it is for a policy that chooses from the first of its action spaces.
    """

    lists_products = True

    @property
    def has_past(self) -> bool:
        """True where there are visits before the run; none, unless a world says so."""
        return False

    @property
    def config(self) -> Any:
        """The parameters: the `parameter_record`."""
        return self._checked

    @abstractmethod
    def for_policy(self, action_space: str, params: Mapping[str, Any]) -> World:
        """Return the world as a policy sees it that chooses from an action space; `params` are the policy's."""

    @cached_property
    def _visited(self) -> World:
        return self.for_policy(self.action_spaces[0], {})

    spec = _of_visited("spec")
    arrive = _of_visited("arrive")
    context = _of_visited("context")
    serve = _of_visited("serve")
    truth = _of_visited("truth")
    as_table = _of_visited("as_table")
    before = _of_visited("before")
    all_products = _of_visited("all_products")
    schema = _of_visited("schema")
    log_columns = _of_visited("log_columns")
    write_log_tables = _of_visited("write_log_tables")
