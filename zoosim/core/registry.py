"""Registries of what a program finds by name: built in, from installed packages by entry points, or registered."""

from collections.abc import Callable, Mapping
from functools import cached_property
from importlib.metadata import entry_points
from pkgutil import resolve_name
from typing import Any, Generic, TypeVar

from zoosim.core.blame import reason_of
from zoosim.core.errors import ConfigError
from zoosim.core.parameters import shown, unknown

T = TypeVar("T")


class Registry(Generic[T]):
    """The things of one kind, each imported when it is asked for.

    Args:
        kind: What one is called in messages, such as "action_space".
        group: The group of entry points; the name of each is a thing's, and its value the place, `module:NAME`.
        places: The places of the built-in ones, by name.
        flaw: Returns what keeps an object from being such a thing; empty for one.
        name_of: Returns the name of a thing.
    """

    def __init__(
        self,
        kind: str,
        group: str,
        places: Mapping[str, str],
        flaw: Callable[[Any], str],
        name_of: Callable[[T], Any] = lambda thing: getattr(thing, "name", None),
    ) -> None:
        self._kind = kind
        self._group = group
        self._places = places
        self._flaw = flaw
        self._name_of = name_of
        self._registered: dict[str, T] = {}

    @cached_property
    def _installed(self) -> dict[str, str]:
        """The places of what installed packages bring."""
        return {point.name: point.value for point in entry_points(group=self._group)}

    def names(self) -> tuple[str, ...]:
        """Return all names, the built-in ones first."""
        return tuple(dict.fromkeys([*self._places, *self._installed, *self._registered]))

    def find(self, name: str) -> T:
        """Return the thing of a name.

        Raises:
            ConfigError: there is none of that name, or what is installed under it is broken.
        """
        if not isinstance(name, str):
            raise ConfigError(f"{self._kind}: got {shown(name)}, expected the name of one")
        if name in self._registered:
            return self._registered[name]
        place = self._places.get(name) or self._installed.get(name)
        if place is None:
            raise ConfigError(unknown(f"{self._kind}: unknown", f"{name}", list(self.names())))
        try:
            thing: T = resolve_name(place)
        except (Exception, SystemExit) as error:  # whatever an installed package raises as it is imported
            reason = f"{place} cannot be imported: {reason_of(error)}; mend or remove it"
            raise ConfigError(f"{self._kind}: {reason}") from error
        flaw = self._flaw(thing)
        if flaw:
            raise ConfigError(f"{self._kind}: {place} {flaw}")
        own_name = self._name_of(thing)
        if own_name != name:
            expected = f"expected that of its entry point, {name!r}"
            raise ConfigError(f"{self._kind}: {place} has the name {shown(own_name)}, {expected}")
        self._registered[name] = thing
        return thing

    def register(self, thing: T) -> None:
        """Add a thing of this program's own to those that `find` returns.

        One that was registered before under its name is replaced. The worker processes of a run know it where the file
        of a world or of a policy registers it as it is imported, or where a package brings it by an entry point.

        Raises:
            ConfigError: it is none, or its name is no word, or that of a built-in one or of an installed package's.
        """
        flaw = self._flaw(thing)
        if flaw:
            raise ConfigError(f"{self._kind}: {shown(thing)} {flaw}")
        name = self._name_of(thing)
        if not isinstance(name, str) or not name.isprintable() or not name.strip():
            raise ConfigError(f"{self._kind}: the name of {type(thing).__name__} is {shown(name)}, expected a word")
        comes_with_a_package = name in self._places or name in self._installed
        if comes_with_a_package and self.find(name) is not thing:
            raise ConfigError(f"{self._kind}: {name!r} is there already; give yours another name")
        self._registered[name] = thing
