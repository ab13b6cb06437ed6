"""What each slot may show: held against all ways to fill the slots below it, and fast for as many as there can be."""

import itertools
import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from scipy import stats

from zoosim.core.errors import PolicyError
from zoosim.core.types import BoolArray
from zoosim.ranking.caps import GroupCap
from zoosim.serving.catalogue import RequestCandidates
from zoosim.serving.places import Slot
from zoosim.serving.ranker import Drawn, Units, chances_of, draw


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


def capped_page(rng: np.random.Generator) -> tuple[list[Slot], RequestCandidates, list[GroupCap]]:
    """Return a page of up to four slots, some pinned, among up to six candidates of a few brands, some unavailable."""
    count = int(rng.integers(4, 7))
    places = rng.permutation(count).tolist()
    slots = [Slot(np.zeros(0), pin=places.pop() if rng.random() < 0.3 else None) for _ in range(rng.integers(1, 5))]
    available = np.ones(count, bool)
    available[places[: rng.integers(2)]] = False
    cap = GroupCap(rng.integers(-1, 3, size=count), int(rng.integers(1, 3)))
    return slots[: available.sum()], candidates(count).among(available), [cap]


def open_by_definition(slots: Sequence[Slot], available: BoolArray, cap: GroupCap, shown: Sequence[int]) -> list[int]:
    """Return what the next slot of a page may show, by the words of the rules."""
    pins = [slot.pin for slot in slots if slot.pin is not None]
    slot = slots[len(shown)]
    if slot.pin is not None:
        return [slot.pin]
    on_page = {*shown, *pins}
    full = [group for group in range(3) if sum(cap.groups[place] == group for place in on_page) >= cap.most]
    return [
        place
        for place in range(len(available))
        if available[place] and place not in on_page and cap.groups[place] not in full
    ]


def test_a_page_with_caps_and_pins_has_the_probabilities_of_what_is_left() -> None:
    rng = np.random.default_rng(1)
    ended_early = 0
    for number in range(300):
        slots, offered, caps = capped_page(rng)
        if not open_by_definition(slots, offered.available, caps[0], []):
            continue  # a service lifts the caps then
        result = draw(None, slots, offered, 0.5, Units(b"secret", str(number)), caps)
        for place, chance in enumerate(result.chances):
            shown = result.shown[:place]
            possible = open_by_definition(slots, offered.available, caps[0], shown)
            assert result.shown[place] in possible
            assert chance == pytest.approx(0.5 / len(possible) + 0.5 * (result.shown[place] == min(possible)))
            closed = set(possible) & set(result.closed[place])
            assert slots[place].pin is not None or not closed
        if len(result.shown) < len(slots):
            ended_early += 1
            assert not open_by_definition(slots, offered.available, caps[0], result.shown)
        again = chances_of(result.shown, None, slots, offered, 0.5, caps)
        assert again == result.chances
    assert ended_early > 5


def test_draws_from_capped_pages_come_as_often_as_their_probabilities_say() -> None:
    """Pages of three of five products of two brands, one per brand and a pin below: seed 0, 6,000 draws."""
    slots = [Slot(np.zeros(0)), Slot(np.zeros(0)), Slot(np.zeros(0), pin=4)]
    caps = [GroupCap(np.array([0, 0, 1, 1, -1]), 1)]
    pages = [draw(None, slots, candidates(5), 0.5, Units(b"secret", f"0/{number}"), caps) for number in range(6_000)]
    counts = Counter(tuple(page.shown) for page in pages)
    chances = {tuple(page.shown): math.prod(page.chances) for page in pages}
    assert sum(chances.values()) == pytest.approx(1.0)
    assert stats.chisquare(*_counted(counts, chances)).pvalue > 0.001
    # Broken: chances of the same pages as if nothing were capped, scaled to add up to 1.
    blind = {shown: math.prod(chances_of(shown, None, slots, candidates(5), 0.5)) for shown in chances}
    total = sum(blind.values())
    broken = {shown: chance / total for shown, chance in blind.items()}
    assert stats.chisquare(*_counted(counts, broken)).pvalue < 1e-6


def _counted(
    counts: Counter[tuple[int, ...]], chances: Mapping[tuple[int, ...], float]
) -> tuple[list[int], list[float]]:
    return [counts[page] for page in chances], [counts.total() * chance for chance in chances.values()]
