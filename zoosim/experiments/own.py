"""Experiments in worlds of the user's own: FILE.py:World or FILE.world takes the place of an experiment's name."""

from zoosim.arena.experiment import Experiment
from zoosim.core.action_space import ActionSpace
from zoosim.core.files import resolved
from zoosim.core.user_code import is_file_source
from zoosim.policies.base import policy_name
from zoosim.worlds.base import World
from zoosim.worlds.fitted.file import load_world
from zoosim.worlds.own import world_class, world_source
from zoosim.worlds.setup import WORLD_FILE

CLICKS = (0.0, 1.0)
"""Rewards within these bounds can be learned from by every policy."""

FOR_CLICKS = ("random", "linucb", "shared-linucb", "d-linucb", "shared-lin-ts", "adaptive")
FOR_AMOUNTS = ("random", "greedy", "linucb", "d-linucb", "adaptive")
"""Who competes over products where nobody is named, by what rewards are."""

OTHERS: dict[str, tuple[str, ...]] = {
    ActionSpace.TEMPLATES: ("random", "template-linucb", "template-ts", "template-greedy"),
    ActionSpace.BOOSTS: ("random-boosts", "normal-boosts", "constant-boosts"),
}
"""Who competes over templates and over boosts; those that learn from feedback have to be named."""


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
    about = (world.__doc__ or policy_name(world)).strip().splitlines()[0]
    source = world_source(name)
    return Experiment(
        name=source,
        summary=about,
        question=about,
        steps=world.default_steps,
        policies={policy: {} for policy in _policies_for(world)},
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
        policies={policy: {} for policy in (FOR_CLICKS if is_clicks else FOR_AMOUNTS)},
        kind=source,
        reward_name="CTR" if is_clicks else "reward",
    )


def _policies_for(world: type[World]) -> tuple[str, ...]:
    """Return who competes in a world where nobody is named."""
    if world.action_space != ActionSpace.PRODUCTS:
        return OTHERS[world.action_space]
    low, high = world.reward_range
    return FOR_CLICKS if low >= CLICKS[0] and high <= CLICKS[1] else FOR_AMOUNTS
