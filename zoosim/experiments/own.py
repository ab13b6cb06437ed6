"""Experiments in worlds of the user's own: FILE.py:World or FILE.world takes the place of an experiment's name."""

from zoosim.action_spaces import find_action_space
from zoosim.arena.experiment import Experiment
from zoosim.core.action_space import PRODUCTS
from zoosim.core.files import resolved
from zoosim.core.user_code import is_file_source
from zoosim.policies.base import policy_name
from zoosim.worlds.fitted.file import load_world
from zoosim.worlds.own import world_class, world_source
from zoosim.worlds.setup import WORLD_FILE

CLICKS = (0.0, 1.0)
"""Rewards within these bounds can be learned from by every policy."""


def own_experiment(name: str, *, finished: bool = False) -> Experiment | None:
    """Return the experiment in a world FILE.py:World or FILE.world; None for what names no file.

    The file of a `finished` run need not be there any more. Raises `WorldError` for a file without such a world,
    `DataError` for a broken one.
    """
    is_fitted = name.endswith(WORLD_FILE)
    if not (is_fitted or is_file_source(name)):
        return None
    if finished:
        return Experiment(name=name, summary="", question="", steps=1, policies={}, kind=name, reward_name="reward")
    if is_fitted:
        return _in_fitted_world(name)
    world = world_class(name)
    low, high = world.reward_range
    are_clicks = low >= CLICKS[0] and high <= CLICKS[1]
    about = (world.__doc__ or policy_name(world)).strip().splitlines()[0]
    source = world_source(name)
    return Experiment(
        name=source,
        summary=about,
        question=about,
        steps=world.default_steps,
        policies={policy: {} for policy in _contenders(world.action_space, are_clicks=are_clicks)},
        kind=source,
        reward_name="reward",
    )


def _in_fitted_world(file: str) -> Experiment:
    """Return the experiment in a world that `fit-world` wrote."""
    shop = load_world(file)
    is_clicks = shop.sizes is None
    source = str(resolved(file))
    return Experiment(
        name=source,
        summary=f"a shop fitted to {shop.facts['log']}",
        question=f"Which policy does best in the shop that wrote {shop.facts['log']}?",
        steps=int(shop.facts["steps"]),
        policies={policy: {} for policy in _contenders(PRODUCTS, are_clicks=is_clicks)},
        kind=source,
        reward_name="CTR" if is_clicks else "reward",
    )


def _contenders(action_space: str, *, are_clicks: bool) -> tuple[str, ...]:
    """Return the policies that compete where none are named."""
    space = find_action_space(action_space)
    if are_clicks and space.contenders_for_clicks:
        return space.contenders_for_clicks
    return space.contenders
