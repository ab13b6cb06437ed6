"""Places on a page, and the candidates that each of them may show so that all can be filled."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from zoosim.core.errors import PolicyError
from zoosim.core.types import NOBODY, BoolArray, FloatArray
from zoosim.ranking.caps import CapCounts, GroupCap

NOTHING_LEFT = "slots: got exclusions that leave a slot without a candidate, expected one for each"


class Slot(NamedTuple):
    """A place on a page that is to be filled.

    Attributes:
        visitor: The visitor's features `(d_u,)`, with what is known of the slot.
        baseline: The place of the candidate that the shop would show there; None for the first that is left.
        excluded: Places of candidates that it must not show.
        user_id: The number by which policies know the visitor.
        pin: The place of the candidate that it shows whatever the policy says; None where there is none.
        known: What is known beforehand of how likely the policy shows each candidate in it `(K,)`, where those that it
            would show are available; None for nothing.
        explores: Whether it may show any candidate; else exploration is that of the source of candidates.
    """

    visitor: FloatArray
    baseline: int | None = None
    excluded: tuple[int, ...] = ()
    user_id: int = NOBODY
    pin: int | None = None
    known: FloatArray | None = None
    explores: bool = True


class Page(Protocol):
    """A page that is filled from the top."""

    def open_to(self, slot: int) -> BoolArray:
        """Return what the highest slot that is not filled may show; raises `PolicyError` where that is nothing."""
        ...

    def fill(self, slot: int, place: int) -> None:
        """Show a candidate in the slot that `open_to` was asked for last."""
        ...


def page_for(slots: Sequence[Slot], available: BoolArray, caps: Sequence[GroupCap]) -> Page:
    """Return an empty page of candidates that are available `(K,)`."""
    pins = {number: slot.pin for number, slot in enumerate(slots) if slot.pin is not None}
    if pins or caps:
        return CappedPage(slots, available, pins, caps)
    if any(slot.excluded for slot in slots):
        return _Places(slots, available)
    return _FreePlaces(available)


class CappedPage:
    """Candidates that each slot of a page may show: pinned ones stand at their places alone, and caps count them."""

    def __init__(
        self, slots: Sequence[Slot], available: BoolArray, pins: Mapping[int, int], caps: Sequence[GroupCap]
    ) -> None:
        """Begin with an empty page.

        Args:
            slots: What to fill, from the top.
            available: What may be shown `(K,)`.
            pins: Places of pinned candidates by the number of the slot.
            caps: Caps on the page.
        """
        self._pins = pins
        self._counts = CapCounts(caps, len(available))
        left = available.copy()
        left[list(pins.values())] = False
        for pin in pins.values():
            self._counts.add(pin)
        free = [number for number in range(len(slots)) if number not in pins]
        self._number_of = dict(zip(free, range(len(free)), strict=True))
        self._places = _Places([slots[number] for number in free], left)

    def open_to(self, slot: int) -> BoolArray:
        """Return what the highest slot that is not filled may show; nothing where caps leave nothing."""
        if slot in self._pins:
            return _mask([self._pins[slot]], self._places.count)
        return self._places.open_to(self._number_of[slot]) & ~self._counts.closed

    def closed(self) -> list[int]:
        """Return the places of the candidates that caps close by what was filled so far."""
        return np.flatnonzero(self._counts.closed).tolist()

    def fill(self, slot: int, place: int) -> None:
        """Show a candidate in the slot that `open_to` was asked for last."""
        if slot in self._pins:
            return
        self._places.fill(self._number_of[slot], place)
        self._counts.add(place)


def check_slots(slots: Sequence[Slot], count: int) -> None:
    """Refuse slots that `count` candidates, which may all be shown, cannot fill: `PolicyError`."""
    _Places(slots, np.ones(count, bool)).open_to(0)


def can_fill(slots: Sequence[Slot], available: BoolArray) -> bool:
    """Return whether the candidates that are available `(K,)` fill all slots."""
    try:
        _Places(slots, available).open_to(0)
    except PolicyError:
        return False
    return True


class _FreePlaces:
    """Candidates of slots that exclude none of them: each slot may show all that are left."""

    def __init__(self, left: BoolArray) -> None:
        self._left = left

    def open_to(self, slot: int) -> BoolArray:
        """Return what the highest slot that is not filled may show; raises `PolicyError` where that is nothing."""
        if not self._left.any():
            raise PolicyError(NOTHING_LEFT)
        return self._left

    def fill(self, slot: int, place: int) -> None:
        """Show a candidate in the slot that `open_to` was asked for last."""
        self._left = self._left.copy()  # what was open to the slots above stays as it is
        self._left[place] = False


class _Places:
    """Candidates that each slot may show so that one is left for each of those below it.

    The slots that are not filled yet keep a candidate each, by augmenting paths (Kuhn 1955); sets of places are the
    bits of whole numbers.
    """

    def __init__(self, slots: Sequence[Slot], left: BoolArray) -> None:
        self.count = len(left)
        self._left = _bits_of(left)
        self._allowed = [self._left & ~_bits_of(_mask(slot.excluded, self.count)) for slot in slots]
        # Where no lower slot excludes anything, any candidate that is left fills it, and nothing need be kept.
        self._is_kept = any(slot.excluded for slot in slots[1:])
        self._kept: dict[int, int] = {}
        self._moves: dict[int, int] = {}
        if self._is_kept:
            for slot in range(len(slots)):
                self._take(slot, _lowest(self._spare(slot)))

    def open_to(self, slot: int) -> BoolArray:
        """Return what the highest slot that is not filled may show; raises `PolicyError` where that is nothing."""
        self._kept.pop(slot, None)
        mask_bytes = self._spare(slot).to_bytes((self.count + 7) // 8, "little")
        return np.unpackbits(np.frombuffer(mask_bytes, np.uint8), count=self.count, bitorder="little").astype(bool)

    def fill(self, slot: int, place: int) -> None:
        """Show a candidate in the slot that `open_to` was asked for last."""
        if self._is_kept:
            self._take(slot, place)
            del self._kept[slot]
        self._left &= ~(1 << place)

    def _spare(self, slot: int) -> int:
        """Return what a slot may take so that each that keeps a candidate can keep one, and note where it would go."""
        frontier = reachable = self._left & ~_together(self._kept.values())
        waiting_slots = list(self._kept)
        self._moves = {}
        # Breadth first, from the places that are free: a slot that may move to a place reached so far could leave the
        # one that it keeps, which is thus reached, too. Who took a place that is never reached would leave some slot
        # without any.
        while frontier and waiting_slots:
            moves = {each: _lowest(free) for each in waiting_slots if (free := self._allowed[each] & frontier)}
            frontier = _together(self._kept[each] for each in moves)
            reachable |= frontier
            waiting_slots = [each for each in waiting_slots if each not in moves]
            self._moves |= moves
        spare = reachable & self._allowed[slot]
        if not spare:
            raise PolicyError(NOTHING_LEFT)
        return spare

    def _take(self, slot: int, place: int) -> None:
        """Give a spare place to a slot; whoever kept it moves on, and so do those whom that displaces."""
        keeper_of = {kept: keeper for keeper, kept in self._kept.items()}
        self._kept[slot] = place
        while place in keeper_of:
            keeper = keeper_of[place]
            place = self._moves[keeper]
            self._kept[keeper] = place


def _mask(places: Sequence[int], count: int) -> BoolArray:
    mask = np.zeros(count, bool)
    mask[list(places)] = True
    return mask


def _bits_of(mask: BoolArray) -> int:
    return int.from_bytes(np.packbits(mask, bitorder="little").tobytes(), "little")


def _together(places: Iterable[int]) -> int:
    """Return places as the bits of a whole number."""
    bits = 0
    for place in places:
        bits |= 1 << place
    return bits


def _lowest(bits: int) -> int:
    """Return the lowest place among bits."""
    return (bits & -bits).bit_length() - 1
