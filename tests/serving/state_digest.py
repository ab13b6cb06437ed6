"""A digest of what a service has learned."""

import json

import numpy as np

from zoosim.core.digests import content_digest
from zoosim.policies.persistence import packed_state
from zoosim.serving.replica import Replica


def state_digest(replica: Replica) -> str:
    """Return a digest of all that was learned: equal ones mean states that are equal to the bit."""
    state, arrays = packed_state(replica.model.policy)
    day, visitor_arrays = replica.visitors.state()
    arrays |= visitor_arrays
    of_arrays = (part for name in sorted(arrays) for part in (name, np.ascontiguousarray(arrays[name]).tobytes()))
    of_others = (f"{name} {state_digest(other)}" for name, other in sorted(replica.others.items()))
    return content_digest(json.dumps([state, replica.join.state(), day], sort_keys=True), *of_arrays, *of_others)
