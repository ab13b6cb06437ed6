"""Action spaces by name: the built-in ones, those of installed packages, and those that a program registers."""

from collections.abc import Iterator
from typing import Any

from zoosim.action_spaces.base import ActionSpace
from zoosim.core.action_space import BOOSTS, PRODUCTS, RANKINGS, TEMPLATES
from zoosim.core.registry import Registry


def _flaw(space: Any) -> str:
    """Return what keeps an object from being an action space."""
    if isinstance(space, ActionSpace):
        return ""
    return f"is a {type(space).__name__}, expected an object of a zoosim.action_spaces.ActionSpace class"


_PLACES = {
    PRODUCTS: "zoosim.action_spaces.products:SPACE",
    RANKINGS: "zoosim.action_spaces.rankings:SPACE",
    TEMPLATES: "zoosim.action_spaces.templates:SPACE",
    BOOSTS: "zoosim.action_spaces.boosts:SPACE",
}
REGISTRY = Registry[ActionSpace]("action_space", "zoosim.action_spaces", _PLACES, _flaw)

action_space_names = REGISTRY.names
find_action_space = REGISTRY.find
register_action_space = REGISTRY.register


def spaces_with(part: str) -> Iterator[ActionSpace]:
    """Yield the action spaces that have a part, such as `records`, products first."""
    # The order of names decides where several would do: a log whose columns do not tell is one of products.
    for name in action_space_names():
        space = find_action_space(name)
        if getattr(space, part) is not None:
            yield space
