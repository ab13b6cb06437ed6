"""Make a policy for a world, and let it learn from the past where it asks for one."""

from typing import TYPE_CHECKING, Any

import numpy as np

from zoosim.core.errors import PolicyFailure, ZoosimError
from zoosim.core.rng import stream
from zoosim.core.types import Progress
from zoosim.evaluation.loop import failure, play
from zoosim.policies.base import Policy
from zoosim.policies.random import Random
from zoosim.world.recommendation import past
from zoosim.world.world import World

if TYPE_CHECKING:  # what one entry does is not up to the list of all
    from zoosim.policies.registry import PolicyEntry


def fit_policy(entry: "PolicyEntry", world: World, steps: int, progress: Progress) -> tuple[Policy, Any]:
    """Make the policy and let it learn from the past where it asks for one."""
    try:
        policy = entry.make(world.spec(steps), stream(world.seed, "policy", entry.name))
        return policy, policy.fit(uniform_log(world, policy.past_visits), progress) if policy.past_visits else {}
    except PolicyFailure:
        raise
    except (Exception, SystemExit) as error:
        if entry.built_in and isinstance(error, ZoosimError):
            raise
        raise failure(world.seed, 0, error, entry.cls) from error


def uniform_log(world: World, visits: int) -> dict[str, np.ndarray]:
    """Return a past log of `visits` uniformly random choices: user_id, action, reward, propensity, each (n,)."""
    before = past(world)
    blocks = list(play(before, Random(before.spec(visits), stream(world.seed, "past policy")), visits, logged=True))
    return {
        "user_id": np.concatenate([block.user_ids for block in blocks]),
        "action": np.concatenate([block.actions for block in blocks]),
        "reward": np.concatenate([block.rewards for block in blocks]),
        "propensity": np.concatenate([block.propensities for block in blocks]),
    }
