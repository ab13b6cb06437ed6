"""Experiments that have no name: that of a world, FILE.py:World or FILE.world takes its place."""

from zoosim.action_spaces import find_action_space
from zoosim.arena.experiment import Experiment
from zoosim.policies.base import policy_name
from zoosim.worlds.registry import find_world, is_world_file, world_names, world_source

CLICKS = (0.0, 1.0)
"""Rewards within these bounds can be learned from by every policy."""


def own_experiment(name: str, *, finished: bool = False) -> Experiment | None:
    """Return the experiment in a world; None for what is the name of none.

    The file of a `finished` run need not be there any more. Raises `WorldError` for a file without such a world,
    `DataError` for a broken one.
    """
    if not is_world_file(name) and name not in world_names():
        return None
    if finished:
        return Experiment(name=name, summary="", question="", steps=1, policies={}, kind=name)
    world = find_world(name)
    low, high = world.reward_range
    space = find_action_space(world.action_space)
    contenders = space.contenders
    if low >= CLICKS[0] and high <= CLICKS[1] and space.contenders_for_clicks:
        contenders = space.contenders_for_clicks
    about = next(iter((world.__doc__ or "").strip().splitlines()), policy_name(world))
    return Experiment(
        name=world_source(name),
        summary=about,
        question=about,
        steps=world.default_steps,
        policies={policy: {} for policy in contenders},
        kind=world_source(name),
    )
