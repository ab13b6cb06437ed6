"""One position of a log of rankings, seen as a log of products."""

from dataclasses import replace

import numpy as np

from zoosim.core.action_space import PRODUCTS
from zoosim.core.types import IntArray
from zoosim.logs.log import Log


def at_position(log: Log, position: int, above: IntArray | None = None) -> Log:
    """Return the choices of one position as a log of products, those above it no longer candidates.

    `above (n, m)` stands there instead of what the log shows, where it is given.
    """
    shown_above = log.actions[:, :position] if above is None else above
    # Sorted, since the same products above leave the same candidates, in whichever order they stand.
    set_and_above = np.column_stack([log.candidate_set, np.sort(shown_above, axis=1)])
    distinct, candidate_set = np.unique(set_and_above, axis=0, return_inverse=True)
    return replace(
        log,
        action_space=PRODUCTS,
        actions=np.ascontiguousarray(log.actions[:, position]),
        propensities=np.ascontiguousarray(log.propensities[:, position]),
        rewards=np.ascontiguousarray(log.rewards[:, position]),
        candidates=log.candidates.without(distinct[:, 0], distinct[:, 1:]),
        candidate_set=candidate_set.reshape(-1),
        marginals=None,
        columns={name: np.ascontiguousarray(values[:, position]) for name, values in log.columns.items()},
    )
