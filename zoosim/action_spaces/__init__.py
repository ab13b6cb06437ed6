"""Action spaces: what one decision chooses, an object for each, which holds all that depends on it.

A package adds one of its own by an entry point of the group `zoosim.action_spaces`, whose name is the action space's
and whose value is the place of its object, `module:NAME`.
"""

from zoosim.action_spaces.base import ActionSpace, Part
from zoosim.action_spaces.registry import action_space_names, find_action_space, register_action_space

__all__ = ["ActionSpace", "Part", "action_space_names", "find_action_space", "register_action_space"]
