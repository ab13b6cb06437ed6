"""A digest of what a service has learned."""

import json

import numpy as np

from zoosim.core.digests import content_digest
from zoosim.policies.persistence import packed_state
from zoosim.serving.arm_replica import ArmReplica
from zoosim.serving.replica import Replica


def state_digest(replica: Replica) -> str:
    """Return a digest of all that was learned: equal ones mean states that are equal to the bit."""
    return content_digest(*(f"{name} {arm_digest(arm)}" for name, arm in sorted(replica.arms.items())))


def arm_digest(arm: ArmReplica) -> str:
    """Return a digest of what one arm has learned."""
    state, arrays = packed_state(arm.model.policy)
    day, visitor_arrays = arm.visitors.state()
    arrays |= visitor_arrays
    of_arrays = (part for name in sorted(arrays) for part in (name, np.ascontiguousarray(arrays[name]).tobytes()))
    return content_digest(json.dumps([state, arm.join.state(), day], sort_keys=True), *of_arrays)
