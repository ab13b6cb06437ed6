"""Decisions whose rewards have not come yet, counted by what they were: equal decisions need no ids to be told apart.

The count serves policies whose confidence widths shrink when something is shown, not when its reward comes. At most
`ROOM` different decisions are counted; then the one that was made longest ago is given up. A reward that never comes
leaves its decision open: tell the policy the default reward of what was not clicked in time.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from zoosim.core.id_table import IN_USE, UNKNOWN, IdTable, claim_slot, find_slot, forget_ids, new_id_table, release_slot
from zoosim.core.jit import jit
from zoosim.core.rng import mix
from zoosim.core.types import FloatArray, IntArray
from zoosim.policies.choice import hash_row

ROOM = 8_192


class OpenDecisions(NamedTuple):
    """Counts of open decisions: `table` of hashed decisions, `counts (ROOM,)` by slot, `total (1,)`.

    `given_up (1,)` counts the decisions that were open when they made room for others.
    """

    table: IdTable
    counts: IntArray
    total: IntArray
    given_up: IntArray

    def flaws(self) -> Iterator[str]:
        """Yield what does not fit together."""
        is_open = np.zeros(len(self.counts), bool)
        is_open[1 : self.table.counts[IN_USE]] = True
        if not np.array_equal(self.counts > 0, is_open) or self.counts.sum() != self.total[0]:
            yield "counts does not fit the decisions in its table, or their total"


def no_open_decisions() -> OpenDecisions:
    """Return a count with nothing open."""
    return OpenDecisions(new_id_table(ROOM), np.zeros(ROOM, np.int64), np.zeros(1, np.int64), np.zeros(1, np.int64))


@jit
def hash_decision(model: int, x: FloatArray) -> int:
    """Return the hash of a decision.

    Args:
        model: Number of the model that it was made by.
        x: Its features, `(d,)`.
    """
    # The model is mixed before it is joined: small numbers would change a few low bits alone.
    return np.int64(mix(np.uint64(hash_row(x)) ^ mix(np.uint64(model))))  # type: ignore[return-value]


@jit
def open_decision(decisions: OpenDecisions, key: int) -> None:
    """Count a decision that was made now.

    Args:
        decisions: The open decisions; changed in place.
        key: The decision's hash.
    """
    slot, is_new = claim_slot(decisions.table, key)
    if is_new:
        decisions.total[0] -= decisions.counts[slot]  # of the decision that made room, if any
        decisions.given_up[0] += decisions.counts[slot]
        decisions.counts[slot] = 0
    decisions.counts[slot] += 1
    decisions.total[0] += 1


@jit
def settle_decision(decisions: OpenDecisions, key: int) -> bool:
    """Take back a decision whose reward has come.

    Args:
        decisions: The open decisions; changed in place.
        key: The decision's hash.

    Returns:
        False when it was not open: another policy made it.
    """
    slot = find_slot(decisions.table, key)
    if slot == UNKNOWN and decisions.given_up[0] > 0:
        decisions.given_up[0] -= 1  # most likely one that made room: what it showed has been counted
        return True
    if slot == UNKNOWN:
        return False
    decisions.counts[slot] -= 1
    decisions.total[0] -= 1
    if decisions.counts[slot] == 0:
        # The table moves its last decision to the free slot; the count follows it.
        last = release_slot(decisions.table, slot)
        decisions.counts[slot] = decisions.counts[last]
        decisions.counts[last] = 0
    return True


@jit
def give_up_decisions(decisions: OpenDecisions) -> None:
    """Forget all open decisions."""
    forget_ids(decisions.table)
    decisions.counts[:] = 0
    decisions.total[0] = 0
    decisions.given_up[0] = 0
