"""Experiments in worlds of the user's own: a world FILE.py:World takes the place of an experiment's name."""

from zoosim.core.action_space import ActionSpace
from zoosim.core.user_code import is_file_source
from zoosim.experiments import EXPERIMENTS, Experiment
from zoosim.policies.base import policy_name
from zoosim.worlds.own import world_class, world_source

POLICIES: dict[str, tuple[str, ...]] = {
    ActionSpace.PRODUCTS: ("random", "linucb", "shared-linucb", "d-linucb", "shared-lin-ts", "adaptive"),
    ActionSpace.TEMPLATES: ("random", "template-linucb", "template-ts", "template-greedy"),
    ActionSpace.BOOSTS: ("random-boosts", "normal-boosts", "item-critic"),
}
"""Who competes in a user's world where nobody is named, by what is chosen."""


def find_experiment(name: str, *, finished: bool = False) -> Experiment | None:
    """Return the experiment of a name, or that of a user's world FILE.py:World; None where there is no such name.

    The file of a `finished` run need not be there any more. Raises `WorldError` for a file without such a world.
    """
    if name in EXPERIMENTS or not is_file_source(name):
        return EXPERIMENTS.get(name)
    if finished:
        return Experiment(name=name, summary="", question="", steps=1, policies={}, kind=name, reward_name="reward")
    world = world_class(name)
    about = (world.__doc__ or "").strip().splitlines()[0] if world.__doc__ else policy_name(world)
    return Experiment(
        name=world_source(name),
        summary=about,
        question=about,
        steps=world.default_steps,
        policies={policy: {} for policy in POLICIES[world.action_space]},
        kind=world_source(name),
        reward_name="reward",
    )
