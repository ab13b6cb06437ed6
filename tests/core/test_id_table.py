"""The table of ids beside a dictionary that keeps the order of use, and orders that it refuses."""

import numpy as np
import pytest

from zoosim.core.id_table import (
    IN_USE,
    UNKNOWN,
    IdTable,
    claim_slot,
    find_slot,
    forget_ids,
    grown,
    index_ids,
    new_id_table,
    release_slot,
    use_slot,
    with_lists_of_use,
)


def by_use(table: IdTable) -> list[int]:
    """Return the ids, those used longest ago first."""
    ids = []
    slot = table.newer[0]
    while slot != 0:
        ids.append(int(table.ids[slot]))
        slot = table.newer[slot]
    return ids


def test_ids_keep_the_order_of_their_use() -> None:
    """A dictionary keeps the order in which keys were put into it, here that of use."""
    rng = np.random.default_rng(0)
    table = new_id_table(6)
    plain: dict[int, int] = {}  # id -> slot
    dropped = 0
    for step in range(4_000):
        if step == 2_000:
            table = grown(table, 11)
        key = int(rng.integers(-20, 20))
        slot = int(find_slot(table, key))
        assert slot == plain.get(key, UNKNOWN)
        kind = rng.random()
        if kind < 0.6:
            if slot == UNKNOWN and len(plain) == len(table.ids) - 1:
                del plain[next(iter(plain))]
                dropped += 1
            plain.pop(key, None)
            plain[key], is_new = claim_slot(table, key)
            assert is_new == (slot == UNKNOWN)
        elif slot != UNKNOWN and kind < 0.8:
            use_slot(table, slot)
            plain[key] = plain.pop(key)
        elif slot != UNKNOWN:
            last = release_slot(table, slot)
            del plain[key]
            plain.update({other: slot for other, place in plain.items() if place == last})
        assert by_use(table) == list(plain)
        assert table.counts[IN_USE] == 1 + len(plain)
    assert list(table.flaws()) == []
    assert dropped > 100
    # Places are derived from the ids, so a table without them is whole again.
    table.places[:] = UNKNOWN
    index_ids(table)
    assert {key: int(find_slot(table, key)) for key in plain} == plain
    forget_ids(table)
    assert (by_use(table), list(table.flaws())) == ([], [])


@pytest.mark.parametrize(
    ("newer", "older"),
    [
        ([1, 2, 0, 0], [2, 0, 0, 0]),  # one direction differs
        ([0, 2, 1, 0], [0, 2, 1, 0]),  # a ring of its own
        ([1, 0, 0, 0], [1, 0, 0, 0]),  # one is left out
        ([1, 2, 3, 0], [3, 0, 1, 2]),  # one that is free takes part
        ([1, -3, 0, 0], [2, 0, 1, 0]),
    ],
)
def test_an_order_that_is_none_is_told(newer: list[int], older: list[int]) -> None:
    table = new_id_table(4)
    for key in (7, 8):
        claim_slot(table, key)
    assert (table.newer.tolist(), table.older.tolist()) == ([1, 2, 0, 0], [2, 0, 1, 0])
    damaged = table._replace(newer=np.array(newer), older=np.array(older))
    assert list(damaged.flaws()) == ["older and newer do not put the slots in use in one order"]


def test_tables_of_earlier_releases_which_hold_times_of_use_are_read() -> None:
    saved = {"t.ids": [0, 7, 8, 9, 0], "t.used": [0, 5, 2, 9, 0], "t.counts": [4, 9, 3], "other": 1}
    read = with_lists_of_use(saved)
    assert sorted(read) == ["other", "t.counts", "t.ids", "t.newer", "t.older"]
    table = new_id_table(5)
    for key in (7, 8, 9):
        claim_slot(table, key)
    for slot in (2, 1, 3):  # by their times of use
        use_slot(table, slot)
    np.testing.assert_array_equal(read["t.older"], table.older)
    np.testing.assert_array_equal(read["t.newer"], table.newer)
    np.testing.assert_array_equal(read["t.counts"], [4, 3])
    for broken in ({**saved, "t.counts": [6, 9, 3]}, {**saved, "t.used": [[1]]}, {**saved, "t.counts": [4, 9]}):
        assert with_lists_of_use(broken) == broken
