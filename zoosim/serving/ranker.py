"""Decide: the distribution over candidates that a request is drawn from, and the draw that its id settles."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from zoosim.core.digests import short_hash
from zoosim.core.errors import PolicyError
from zoosim.core.types import NOBODY, BoolArray, FloatArray, IntArray, frozen
from zoosim.policies.base import Policy
from zoosim.policies.requests import dense_propensities
from zoosim.serving.catalogue import RequestCandidates
from zoosim.serving.recorded import context_of

TOLERANCE = 1e-6
"""By how much a policy's probabilities may miss the sum of 1, to which they are scaled."""

NOTHING_LEFT = "slots: got exclusions that leave a slot without a candidate, expected one for each"


class Drawn(NamedTuple):
    """Result of a draw: places of candidates from the top, and how likely each was.

    Attributes:
        shown: Places among the candidates.
        chances: The probability of each, given those above it.
        propensities: The probability of each candidate `(K,)` to stand at the top.
        excluded: Places of candidates that could not stand at the top.
        baseline: The place of the candidate that the shop would have shown at the top.
        closed: Places of candidates that caps kept from each slot, given those above it; empty without caps.
    """

    shown: list[int]
    chances: list[float]
    propensities: FloatArray
    excluded: list[int]
    baseline: int
    closed: list[list[int]]


class Slot(NamedTuple):
    """A place on a page that is to be filled.

    Attributes:
        visitor: The visitor's features `(d_u,)`, with what is known of the slot.
        baseline: The place of the candidate that the shop would show there; None for the first that is left.
        excluded: Places of candidates that it must not show.
        user_id: The number by which policies know the visitor.
        pin: The place of the candidate that it shows whatever the policy says; None where there is none.
    """

    visitor: FloatArray
    baseline: int | None = None
    excluded: tuple[int, ...] = ()
    user_id: int = NOBODY
    pin: int | None = None


class PageCap(NamedTuple):
    """A cap on how many candidates of one group, such as a brand, stand on a page.

    Attributes:
        groups: The group of each candidate `(K,)`, counted from 0; -1 for one of none.
        most: How many of a group at most.
    """

    groups: IntArray
    most: int


def draw(
    policy: Policy | None,
    slots: Sequence[Slot],
    candidates: RequestCandidates,
    exploration: float,
    unit: Callable[[int], float],
    caps: Sequence[PageCap] = (),
) -> Drawn:
    """Draw what to show in each slot, from what the slots above leave; the same state and units give the same.

    The page ends above a slot for which caps leave nothing.

    Args:
        policy: Whose probabilities count; None to show what the shop would have shown without the service.
        slots: What to fill, from the top: one at least.
        candidates: K products.
        exploration: The share of draws that is spread evenly over the candidates.
        unit: Returns the number in [0, 1) that settles the draw of a slot, as `Units` do.
        caps: Caps on the page; they leave something for the top, and slots below it exclude nothing then.

    Raises:
        PolicyError: the slots cannot be filled, or the policy's probabilities are none.
    """
    return _fill(
        policy, slots, candidates, exploration, caps, lambda slot, distribution: pick_place(distribution, unit(slot))
    )


def chances_of(
    shown: Sequence[int],
    policy: Policy | None,
    slots: Sequence[Slot],
    candidates: RequestCandidates,
    exploration: float,
    caps: Sequence[PageCap] = (),
) -> list[float]:
    """Return how likely `draw` is to show these places, each given those above it; 0 from the first it never shows.

    Args:
        shown: Places among the candidates, as many as slots, or as many as there were up to the end of the page; -1 for
            what is none of them.
        policy, slots, candidates, exploration, caps: As in `draw`.

    Raises:
        PolicyError: as `draw`.
    """

    def pick(slot: int, distribution: FloatArray) -> int:
        return shown[slot] if slot < len(shown) else -1

    chances = _fill(policy, slots, candidates, exploration, caps, pick).chances
    return chances + [0.0] * (len(shown) - len(chances))


def _fill(
    policy: Policy | None,
    slots: Sequence[Slot],
    candidates: RequestCandidates,
    exploration: float,
    caps: Sequence[PageCap],
    pick: Callable[[int, FloatArray], int],
) -> Drawn:
    """Fill slots from the top by what `pick` returns for a slot and its distribution, up to what is never shown."""
    # One loop both draws and says afterwards how likely a draw was: computed in another way, probabilities could differ
    # in their last bits from those that were drawn from.
    pins = {number: slot.pin for number, slot in enumerate(slots) if slot.pin is not None}
    page: _Page | _Places | _FreePlaces
    if pins or caps:
        page = _Page(slots, candidates.available, pins, caps)
    elif any(slot.excluded for slot in slots):
        page = _Places(slots, candidates.available)
    else:
        page = _FreePlaces(candidates.available)
    shown: list[int] = []
    chances: list[float] = []
    closed: list[list[int]] = []
    tops: list[tuple[BoolArray, FloatArray]] = []
    for number, slot in enumerate(slots):
        available = page.open_to(number)
        if caps and not available.any():
            break
        if slot.pin is not None:
            distribution = _certain(slot.pin, available)
        else:
            own_distribution = _distribution(policy, slot, candidates, available)
            distribution = _explored(own_distribution, available, exploration)
        tops = tops or [(available, distribution)]
        place = pick(number, distribution)
        if place < 0 or distribution[place] == 0.0:
            break
        shown.append(place)
        chances.append(float(distribution[place]))
        if caps and isinstance(page, _Page):
            closed.append(page.closed())
        page.fill(number, place)
    ((available, propensities),) = tops
    excluded = np.flatnonzero(~available).tolist()
    return Drawn(shown, chances, propensities, excluded, _baseline(slots[0], available), closed)


def _distribution(policy: Policy | None, slot: Slot, candidates: RequestCandidates, available: BoolArray) -> FloatArray:
    """Return how likely a policy shows each candidate `(K,)` in a slot, of those that are available."""
    if policy is None:
        return _certain(_baseline(slot, available), available)
    return dense_propensities(policy, context_of(slot.user_id, slot.visitor, candidates, frozen(available)))


class _Page:
    """Candidates that each slot of a page may show: pinned ones stand at their places alone, and caps count them."""

    def __init__(
        self, slots: Sequence[Slot], available: BoolArray, pins: Mapping[int, int], caps: Sequence[PageCap]
    ) -> None:
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


class CapCounts:
    """Counts by group what stands on a page.

    Attributes:
        closed: Candidates `(K,)` of whose groups the page has as many as it may.
    """

    def __init__(self, caps: Sequence[PageCap], count: int) -> None:
        """Begin with an empty page, and `count` candidates."""
        self.closed = np.zeros(count, bool)
        self._caps = [(cap, Counter[int]()) for cap in caps]

    def add(self, place: int) -> None:
        """Count a candidate that stands on the page."""
        for cap, counts in self._caps:
            group = int(cap.groups[place])
            counts[group] += 1
            if group >= 0 and counts[group] >= cap.most:
                self.closed |= cap.groups == group


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


def _baseline(slot: Slot, available: BoolArray) -> int:
    """Return the place of what the shop would show in a slot: what comes first where its own choice is gone."""
    if slot.baseline is not None and available[slot.baseline]:
        return slot.baseline
    return int(np.argmax(available))


def _certain(place: int, available: BoolArray) -> FloatArray:
    """Return the distribution that shows one candidate for sure."""
    certain = np.zeros(len(available))
    certain[place] = 1.0
    return certain


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


def pick_place(distribution: FloatArray, unit: float) -> int:
    """Return the place at which the cumulative distribution passes a number in [0, 1); never one of probability 0."""
    totals = np.cumsum(distribution)
    # By the sum as it was computed, which rounding may leave below 1: the unit could lie behind it.
    place = int(np.searchsorted(totals, unit * totals[-1], side="right"))
    while place >= len(distribution) or distribution[place] == 0.0:
        place -= 1
    return place


class Units:
    """Numbers in [0, 1) that follow from a secret and the id of a decision, one per slot: nobody can steer them."""

    def __init__(self, secret: bytes, decision_id: str) -> None:
        self._secret = secret
        self._id = decision_id.encode()

    def __call__(self, slot: int) -> float:
        """Return the number of a slot, with 53 random bits."""
        return (self._whole(b"/%d" % slot) >> 11) * 2.0**-53

    def generator(self) -> np.random.Generator:
        """Return a generator that begins at the decision's own number, for draws that take more than one."""
        return np.random.default_rng(self._whole(b"/generator"))

    def _whole(self, purpose: bytes) -> int:
        return int.from_bytes(short_hash(self._id + purpose, key=self._secret), "big")


def _explored(distribution: FloatArray, available: BoolArray, exploration: float) -> FloatArray:
    """Return a policy's distribution with a share spread over what is available; raises `PolicyError` for none."""
    total = float(distribution.sum())
    n_available = int(np.count_nonzero(available))
    is_within = n_available == len(available) or not distribution[~available].any()
    sound = bool(distribution.min() >= 0.0) and abs(total - 1.0) <= TOLERANCE and is_within
    if not sound:
        raise PolicyError(f"propensities: got numbers that add up to {total:g}, expected probabilities of candidates")
    # Scaled before it is drawn from, so that the log holds probabilities that add up to 1.
    mixture = (1.0 - exploration) * (distribution / total)
    if n_available == len(available):
        mixture += exploration / n_available
    else:
        mixture[available] += exploration / n_available
    return mixture
