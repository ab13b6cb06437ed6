"""Action spaces by name: the built-in ones, those of installed packages, and those that a program registers."""

from collections.abc import Iterator
from functools import cache
from importlib.metadata import entry_points
from pkgutil import resolve_name

from zoosim.action_spaces.base import ActionSpace
from zoosim.core.action_space import BOOSTS, PRODUCTS, RANKINGS, TEMPLATES
from zoosim.core.blame import reason_of
from zoosim.core.errors import ConfigError
from zoosim.core.parameters import shown, unknown

GROUP = "zoosim.action_spaces"
"""The group of entry points; each names an action space, and the place of its object."""

_PLACES = {
    PRODUCTS: "zoosim.action_spaces.products:SPACE",
    RANKINGS: "zoosim.action_spaces.rankings:SPACE",
    TEMPLATES: "zoosim.action_spaces.templates:SPACE",
    BOOSTS: "zoosim.action_spaces.boosts:SPACE",
}
_registered: dict[str, ActionSpace] = {}


def find_action_space(name: str) -> ActionSpace:
    """Return the action space of a name.

    Raises:
        ConfigError: there is none of that name.
    """
    if not isinstance(name, str):
        raise ConfigError(f"action_space: got {shown(name)}, expected the name of one")
    if name in _registered:
        return _registered[name]
    place = _PLACES.get(name) or _installed().get(name)
    if place is None:
        raise ConfigError(unknown("action_space: unknown", f"{name}", list(action_space_names())))
    try:
        space = resolve_name(place)
    except (Exception, SystemExit) as error:  # whatever an installed package raises as it is imported
        raise ConfigError(f"action_space: {place} cannot be imported: {reason_of(error)}; mend or remove it") from error
    if not isinstance(space, ActionSpace):
        raise ConfigError(
            f"action_space: {place} is a {type(space).__name__}, expected a zoosim.action_spaces.ActionSpace"
        )
    own_name = getattr(space, "name", None)
    if own_name != name:
        raise ConfigError(
            f"action_space: {place} has the name {shown(own_name)}, expected that of its entry point, {name!r}"
        )
    _registered[name] = space
    return space


def register_action_space(space: ActionSpace) -> None:
    """Add an action space of this program's own to those that `find_action_space` returns.

    Raises:
        ConfigError: it is none, or its name is no word or that of another one.
    """
    if not isinstance(space, ActionSpace):
        raise ConfigError(
            f"action_space: got {shown(space)}, expected an object of a zoosim.action_spaces.ActionSpace class"
        )
    name = getattr(space, "name", None)
    if not isinstance(name, str) or not name.isprintable() or not name.strip():
        raise ConfigError(f"action_space: the name of {type(space).__name__} is {shown(name)}, expected a word")
    if space.name in action_space_names() and _registered.get(space.name) is not space:
        raise ConfigError(f"action_space: {space.name!r} is there already; give yours another name")
    _registered[space.name] = space


def action_space_names() -> tuple[str, ...]:
    """Return the names of all action spaces, the built-in ones first."""
    return tuple(dict.fromkeys([*_PLACES, *_installed(), *_registered]))


def logged_spaces() -> Iterator[ActionSpace]:
    """Yield the action spaces whose decisions a log can hold, products first."""
    for name in action_space_names():
        space = find_action_space(name)
        if space.records is not None:
            yield space


@cache
def _installed() -> dict[str, str]:
    """Return the places of the action spaces of installed packages."""
    return {point.name: point.value for point in entry_points(group=GROUP)}
