"""A table from ids to slots in arrays, as compiled code reads and extends it: what is kept for each id seen so far.

Open addressing with linear probing (Knuth 1998, section 6.4, algorithms L and R). Slot 0 belongs to no id: it holds
what is expected of an id that was never seen. When all slots are taken, the id used longest ago makes room. The order
of use is a doubly linked list (Knuth 1997, section 2.2.5), so that finding that id takes the same few steps whatever
the number of slots.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, NamedTuple

import numpy as np

from zoosim.core.jit import inlined, jit
from zoosim.core.limits import IDS
from zoosim.core.rng import mix
from zoosim.core.types import IntArray

UNKNOWN = 0
"""The slot of ids that have none, and what stands in an empty place."""


class IdTable(NamedTuple):
    """Slots 1 to C - 1 for ids, C the capacity.

    `places (P,)` slots by hashed place, P a power of two of at least 2 C, 0 where there is none; `ids (C,)` by slot;
    `older (C,)` and `newer (C,)` the slots that were used last before and first after each; `counts (2,)`: slots in
    use, and a version that changes whenever an id gets or loses a slot. Slot 0 stands between the ends of the list:
    `older[0]` was used last, `newer[0]` longest ago.
    """

    places: IntArray
    ids: Annotated[IntArray, IDS]
    older: IntArray
    newer: IntArray
    counts: IntArray

    def flaws(self) -> Iterator[str]:
        """Yield what does not fit together."""
        in_use = self.counts[IN_USE]
        if not 1 <= in_use <= len(self.ids):
            yield f"counts holds {in_use:,} slots in use, expected 1 to {len(self.ids):,}"
        elif len(np.unique(self.ids[1:in_use])) < in_use - 1:
            yield "ids holds one id twice"
        elif not _is_one_ring(self.older, self.newer, in_use):
            yield "older and newer do not put the slots in use in one order"
        if self.places.max() >= len(self.ids):
            yield f"places holds {self.places.max()}, expected slots below {len(self.ids):,}"


IN_USE, VERSION = range(2)


@jit
def _is_one_ring(older: IntArray, newer: IntArray, in_use: int) -> bool:
    """Return whether `newer` leads from slot 0 through each slot in use once and back, and `older` the other way."""
    slot = 0
    for step in range(in_use):
        following = newer[slot]
        # Back at slot 0 before all were seen, or not then: some are in a ring of their own, or none.
        if not 0 <= following < in_use or older[following] != slot or (following == 0) != (step == in_use - 1):
            return False
        slot = following
    return True


def new_id_table(capacity: int) -> IdTable:
    """Return a table with `capacity` slots, the one for unknown ids included, and no ids."""
    # At most half full, so that a search by linear probing looks at few places; a power of two, so that a mask replaces
    # the remainder.
    places = 1 << int(np.ceil(np.log2(2 * capacity)))
    ids, older, newer = (np.zeros(capacity, np.int64) for _ in range(3))
    return IdTable(np.zeros(places, np.int64), ids, older, newer, counts=np.array([1, 0]))


def grown(table: IdTable, capacity: int) -> IdTable:
    """Return the table with more slots; every id keeps its own."""
    larger = new_id_table(capacity)
    held = len(table.ids)
    larger.ids[:held] = table.ids
    larger.older[:held] = table.older
    larger.newer[:held] = table.newer
    larger.counts[:] = table.counts
    index_ids(larger)
    return larger


def with_lists_of_use(saved: Mapping[str, Any]) -> dict[str, Any]:
    """Return a saved state whose id tables hold lists of use, where an earlier release saved when each slot was used.

    Args:
        saved: A saved state, fields of a table under NAME.FIELD; what is malformed stays as it is.
    """
    read = dict(saved)
    for name in saved:
        if not isinstance(name, str):
            continue
        table = name.removesuffix(".used")
        counts = np.asarray(saved.get(f"{table}.counts", ()))
        if table == name or f"{table}.older" in saved or counts.shape != (3,):
            continue
        used = np.asarray(saved[name])
        in_use = int(counts[IN_USE])
        if used.ndim != 1 or not 1 <= in_use <= len(used):
            continue
        # From slot 0 to the one used longest ago, and on to the newest and back.
        ring = np.concatenate([[0], 1 + np.argsort(used[1:in_use], kind="stable"), [0]])
        older, newer = np.zeros((2, len(used)), np.int64)
        newer[ring[:-1]] = ring[1:]
        older[ring[1:]] = ring[:-1]
        del read[name]
        read |= {f"{table}.older": older, f"{table}.newer": newer, f"{table}.counts": counts[[0, 2]]}
    return read


def capacity_for(table: IdTable, ids: IntArray, claims: int, most: int) -> int:
    """Return the capacity, at most `most`, with which so many of `ids (K,)` as are new may claim slots.

    It at least doubles where it grows, so that a table that fills up slowly is copied a few times only.
    """
    capacity = len(table.ids)
    claims = min(claims, len(ids))
    if capacity == most or int(table.counts[IN_USE]) + claims <= capacity:
        return capacity
    return capacity_after(table, min(count_unknown(table, ids), claims), most)


def capacity_after(table: IdTable, newcomers: int, most: int) -> int:
    """Return the capacity, at most `most`, with which so many ids more may claim slots; it doubles where it grows."""
    capacity = len(table.ids)
    wanted = int(table.counts[IN_USE]) + newcomers
    return min(max(wanted, 2 * capacity), most) if wanted > capacity else capacity


@jit
def index_ids(table: IdTable) -> None:
    """Compute the places anew from the ids in the slots."""
    table.places[:] = UNKNOWN
    for slot in range(1, table.counts[IN_USE]):
        table.places[_place_of(table.places, table.ids, table.ids[slot])] = slot


@jit
def forget_ids(table: IdTable) -> None:
    """Take the slots of all ids."""
    table.counts[IN_USE] = 1
    table.counts[VERSION] += 1
    table.ids[:] = 0
    table.older[:] = 0
    table.newer[:] = 0
    table.places[:] = UNKNOWN


@jit
def _first_place(last: int, key: int) -> int:
    # int() would stay unsigned when compiled.
    return np.int64(mix(np.uint64(key)) & np.uint64(last))  # type: ignore[return-value]


@inlined
def _place_of(places: IntArray, ids: IntArray, key: int) -> int:
    """Return the place where an id stands, or the empty one where it would."""
    last = places.shape[0] - 1
    place = _first_place(last, key)
    while places[place] != UNKNOWN and ids[places[place]] != key:
        place = (place + 1) & last
    return place


@jit
def find_slot(table: IdTable, key: int) -> int:
    """Return the slot of an id, `UNKNOWN` when it has none."""
    slot: int = table.places[_place_of(table.places, table.ids, key)]
    return slot


@jit
def find_slots(table: IdTable, ids: IntArray, slots: IntArray) -> None:
    """Write the slot of each of `ids (K,)` to `slots (K,)`."""
    places = table.places
    known = table.ids
    for k in range(ids.shape[0]):
        slots[k] = places[_place_of(places, known, ids[k])]


@jit
def renew_slots(table: IdTable, ids: IntArray, slots: IntArray, version: IntArray) -> None:
    """Write the slot of each of `ids (K,)` to `slots (K,)`, unless none has changed since `version (1,)`."""
    if version[0] != table.counts[VERSION]:
        find_slots(table, ids, slots)
        version[0] = table.counts[VERSION]


@jit
def count_unknown(table: IdTable, ids: IntArray) -> int:
    """Return how many of `ids (K,)` have no slot."""
    unknown = 0
    places = table.places
    known = table.ids
    for k in range(ids.shape[0]):
        unknown += places[_place_of(places, known, ids[k])] == UNKNOWN
    return unknown


@jit
def use_slot(table: IdTable, slot: int) -> None:
    """Note that a slot in use is used now."""
    if table.older[0] != slot:
        _unlink(table, slot)
        _link_last(table, slot)


@jit
def _unlink(table: IdTable, slot: int) -> None:
    """Take a slot out of the order of use."""
    table.newer[table.older[slot]] = table.newer[slot]
    table.older[table.newer[slot]] = table.older[slot]


@jit
def _link_last(table: IdTable, slot: int) -> None:
    """Put a slot that is not in the order of use at its end: it is used now."""
    last = table.older[0]
    table.older[slot] = last
    table.newer[slot] = 0
    table.newer[last] = slot
    table.older[0] = slot


@jit
def claim_slot(table: IdTable, key: int) -> tuple[int, bool]:
    """Return the slot of an id, used now, and whether it is new: what it holds is then to be cleared.

    When no slot is free, the id that was used longest ago loses its own.
    """
    place = _place_of(table.places, table.ids, key)
    slot = table.places[place]
    is_new = slot == UNKNOWN
    if is_new:
        table.counts[VERSION] += 1
        if table.counts[IN_USE] < table.ids.shape[0]:
            slot = table.counts[IN_USE]
            table.counts[IN_USE] += 1
            _link_last(table, slot)
        else:
            slot = table.newer[0]
            _vacate(table, _place_of(table.places, table.ids, table.ids[slot]))
            # Looked up again: the ids that moved up may have freed a place nearer by.
            place = _place_of(table.places, table.ids, key)
        table.ids[slot] = key
        table.places[place] = slot
    use_slot(table, slot)
    return slot, is_new


@jit
def release_slot(table: IdTable, slot: int) -> int:
    """Take its slot from an id; the id of the last slot moves there. Returns that last slot, now free."""
    table.counts[VERSION] += 1
    table.counts[IN_USE] -= 1
    last = int(table.counts[IN_USE])
    # First, since it may move the place of the last slot's id, which is looked up after it.
    _vacate(table, _place_of(table.places, table.ids, table.ids[slot]))
    _unlink(table, slot)
    if slot != last:
        table.places[_place_of(table.places, table.ids, table.ids[last])] = slot
        table.ids[slot] = table.ids[last]
        # Its neighbours in the order of use, read after `_unlink`, since `slot` may have been one of them.
        older = table.older[last]
        newer = table.newer[last]
        table.older[slot] = older
        table.newer[slot] = newer
        table.newer[older] = slot
        table.older[newer] = slot
    table.ids[last] = 0
    table.older[last] = 0
    table.newer[last] = 0
    return last


@jit
def _vacate(table: IdTable, hole: int) -> None:
    """Empty a place, and move up the ids behind it that a search would no longer find (Knuth's algorithm R)."""
    last = table.places.shape[0] - 1
    table.places[hole] = UNKNOWN
    place = (hole + 1) & last
    while table.places[place] != UNKNOWN:
        first = _first_place(last, table.ids[table.places[place]])
        # Whether `first` lies cyclically in (hole, place]: then the id is found without the hole.
        if hole < place:
            stays = hole < first <= place
        else:
            stays = first > hole or first <= place
        if not stays:
            table.places[hole] = table.places[place]
            table.places[place] = UNKNOWN
            hole = place
        place = (place + 1) & last
