"""Segments: patterns of binary columns, found as visitors come."""

import numpy as np
import pytest

from zoosim.policies.products.segments import Segments, enter, find, new_segments, shed


def meet(segments: Segments, user: list[float], room: int = 4) -> int:
    """Let a visitor in, as policies do; return the segment."""
    anew = shed(segments, np.array(user))
    before = segments.found[0]
    s, is_new = enter(segments, np.array(user), room)
    assert is_new == (segments.found[0] == before + 1)
    assert not anew or (s, is_new) == (0, True)
    return int(s)


def test_patterns_are_numbered_as_they_come() -> None:
    segments = new_segments(4, 3)
    users = [[1.0, 0.0, 0.3], [0.0, 1.0, 0.3], [1.0, 0.0, 0.9], [1.0, 0.0, 0.3]]
    assert [meet(segments, user) for user in users] == [0, 1, 0, 0]
    assert segments.binary.tolist() == [True, True, False]
    assert segments.patterns[:2].tolist() == [users[0], users[1]]
    assert segments.found.tolist() == [2]


def test_one_who_is_new_has_no_segment_and_is_not_entered_by_looking() -> None:
    segments = new_segments(4, 2)
    meet(segments, [1.0, 0.0])
    assert find(segments, np.array([0.0, 1.0]), 4) == -1
    assert find(segments, np.array([1.0, 0.0]), 4) == 0
    assert segments.found[0] == 1
    assert segments.patterns[1:].sum() == 0


def test_the_last_segment_takes_all_that_there_is_no_room_for() -> None:
    segments = new_segments(4, 3)
    places = [meet(segments, [float(bit) for bit in f"{n:03b}"], room=2) for n in range(8)]
    assert places == [0, 1, 1, 1, 1, 1, 1, 1]
    assert segments.found[0] == 2


@pytest.mark.parametrize("value", [0.5, -1.0, 2.0])
def test_they_begin_anew_when_a_column_is_not_binary_after_all(value: float) -> None:
    segments = new_segments(4, 2)
    for user in ([0.0, 1.0], [1.0, 1.0], [0.0, 0.0]):
        meet(segments, user)
    assert segments.found[0] == 3
    segments.clock[:3], segments.decided[:3] = 2.0, 3.0
    assert shed(segments, np.array([0.0, value]))
    assert not shed(segments, np.array([0.0, value]))
    assert (segments.clock.sum(), segments.decided.sum()) == (0, 0)
    assert meet(segments, [0.0, value]) == 0
    assert segments.found[0] == 1
    assert meet(segments, [0.0, 1.0]) == 0


def test_without_binary_columns_all_are_one_segment() -> None:
    segments = new_segments(4, 2)
    assert {meet(segments, list(user)) for user in np.random.default_rng(0).normal(size=(20, 2))} == {0}
