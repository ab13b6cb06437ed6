"""Make a policy for a world, and let it learn from the past where it asks for one."""

from typing import TYPE_CHECKING, Any

import numpy as np

from zoosim.arena.loop import failure, play
from zoosim.core.errors import ConfigError, PolicyFailure, ZoosimError
from zoosim.core.rng import stream
from zoosim.core.types import Progress
from zoosim.logs.candidate_sets import CandidateSets
from zoosim.logs.log import Log
from zoosim.policies.base import Policy
from zoosim.policies.products.random import Random
from zoosim.worlds.base import World

if TYPE_CHECKING:  # what one entry does is not up to the list of all
    from zoosim.policies.registry import PolicyEntry


def fit_policy(entry: "PolicyEntry", world: World, steps: int, progress: Progress) -> tuple[Policy, Any]:
    """Make the policy and let it learn from the past where it asks for one; return it and what `fit` returned."""
    try:
        policy = entry.make(world.spec(steps), stream(world.seed, "policy", entry.name), world.schema())
        if not entry.past_visits:
            return policy, {}
        return policy, policy.fit(uniform_log(world, entry.past_visits), progress)
    except PolicyFailure:
        raise
    except (Exception, SystemExit) as error:
        # Our own refusals are about the run, such as its parameters, and end it; what a user's class raises fails that
        # policy alone.
        if entry.built_in and isinstance(error, ZoosimError):
            raise
        raise failure(world.seed, 0, error, entry.cls) from error


def uniform_log(world: World, visits: int) -> Log:
    """Return a log of `visits` uniformly random choices in the world as it stood before visit 0.

    Raises:
        ConfigError: the world has no past.
    """
    before = world.before()
    if before is None:
        raise ConfigError("past_visits: this world has no past to learn from; leave out policies that want one")
    policy = Random(before.spec(visits), stream(world.seed, "past policy"))
    blocks = list(play(before, policy, visits, logged=True, judged=False))
    offer = before.offered(0)
    return Log(
        actions=np.concatenate([block.actions for block in blocks]),
        propensities=np.concatenate([block.propensities for block in blocks]),
        rewards=np.concatenate([block.rewards for block in blocks]),
        candidates=CandidateSets.from_masks(before.period(0).available[np.newaxis]),
        candidate_set=np.zeros(visits, np.int64),
        features=before.users[before.visitors(0, visits)],
        positions=np.zeros(visits, np.int64),
        products=offer.products,
        user_ids=np.concatenate([block.user_ids for block in blocks]),
        source="past visits",
    )
