"""What each slot may show: held against all ways to fill the slots below it, and fast for as many as there can be."""

import itertools
import time
from collections.abc import Sequence

import numpy as np
import pytest

from zoosim.core.errors import PolicyError
from zoosim.serving.catalogue import RequestCandidates
from zoosim.serving.ranker import Drawn, Slot, Units, draw


def candidates(count: int) -> RequestCandidates:
    names = tuple(f"p{number}" for number in range(count))
    return RequestCandidates(np.arange(count), names, np.arange(count), np.zeros((count, 0)))


def slots_with(exclusions: Sequence[tuple[int, ...]]) -> list[Slot]:
    return [Slot(np.zeros(0), None, excluded) for excluded in exclusions]


def drawn(slots: Sequence[Slot], count: int, name: str) -> Drawn:
    """Draw without a policy, with a share of an even draw, so that all that may be shown has a chance."""
    return draw(None, slots, candidates(count), 0.5, Units(b"secret", name))


def ways(slots: Sequence[Slot], count: int) -> list[tuple[int, ...]]:
    """Return all ways to fill the slots."""
    return [
        places
        for places in itertools.permutations(range(count), len(slots))
        if all(place not in slot.excluded for place, slot in zip(places, slots, strict=True))
    ]


def test_a_slot_may_show_exactly_what_leaves_something_for_each_below_it() -> None:
    rng = np.random.default_rng(0)
    refusals = 0
    for number in range(400):
        count = int(rng.integers(1, 6))
        exclusions = [
            tuple(rng.integers(count, size=rng.integers(2 * count)).tolist()) for _ in range(rng.integers(1, count + 1))
        ]
        slots = slots_with(exclusions)
        possible = ways(slots, count)
        if not possible:
            refusals += 1
            with pytest.raises(PolicyError, match="leave a slot without a candidate"):
                drawn(slots, count, str(number))
            continue
        result = drawn(slots, count, str(number))
        for slot, chance in enumerate(result.chances):
            above = tuple(result.shown[:slot])
            open_places = {places[slot] for places in possible if places[:slot] == above}
            is_first = result.shown[slot] == min(open_places)
            assert chance == pytest.approx(0.5 / len(open_places) + 0.5 * is_first)
        tops = {places[0] for places in possible}
        assert set(np.flatnonzero(result.propensities).tolist()) == tops
        assert result.excluded == sorted(set(range(count)) - tops)
        assert result.baseline == min(tops)
    assert 20 < refusals < 380


@pytest.mark.parametrize("repeats", [1, 1_000])
def test_as_many_slots_as_there_can_be_are_filled_in_milliseconds(repeats: int) -> None:
    """50 slots of 50 candidates, of which each slot excludes those far from its own, time and again."""
    exclusions = [tuple(place for place in range(50) if abs(place - slot) > 2) * repeats for slot in range(50)]
    slots = slots_with(exclusions)
    began = time.process_time()
    result = drawn(slots, 50, "wide")
    assert time.process_time() - began < 0.05 + 1e-3 * repeats
    assert sorted(result.shown) == list(range(50))


def test_a_long_chain_of_slots_that_need_what_the_next_one_wants_is_filled() -> None:
    exclusions = [tuple(place for place in range(200) if place not in (slot, slot + 1)) for slot in range(200)]
    assert drawn(slots_with(exclusions), 200, "chain").shown == list(range(200))
