"""Decide: the distribution over candidates that a request is drawn from, and the draw that its id settles."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from zoosim.core.digests import short_hash
from zoosim.core.errors import PolicyError
from zoosim.core.types import BoolArray, FloatArray, frozen
from zoosim.policies.base import Policy
from zoosim.policies.requests import SUM_TOLERANCE, dense_propensities
from zoosim.ranking.caps import GroupCap
from zoosim.serving.catalogue import RequestCandidates
from zoosim.serving.places import CappedPage, Slot, page_for
from zoosim.serving.recorded import context_of


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


def draw(
    policy: Policy | None,
    slots: Sequence[Slot],
    candidates: RequestCandidates,
    exploration: float,
    unit: Callable[[int], float],
    caps: Sequence[GroupCap] = (),
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
    caps: Sequence[GroupCap] = (),
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
    caps: Sequence[GroupCap],
    pick: Callable[[int, FloatArray], int],
) -> Drawn:
    """Fill slots from the top by what `pick` returns for a slot and its distribution, up to what is never shown."""
    # One loop both draws and says afterwards how likely a draw was: computed in another way, probabilities could differ
    # in their last bits from those that were drawn from.
    page = page_for(slots, candidates.available, caps)
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
            distribution = _explored(own_distribution, available, exploration if slot.explores else 0.0)
        tops = tops or [(available, distribution)]
        place = pick(number, distribution)
        if place < 0 or distribution[place] == 0.0:
            break
        shown.append(place)
        chances.append(float(distribution[place]))
        if caps and isinstance(page, CappedPage):
            closed.append(page.closed())
        page.fill(number, place)
    ((available, propensities),) = tops
    excluded = [] if available.all() else np.flatnonzero(~available).tolist()
    return Drawn(shown, chances, propensities, excluded, _baseline(slots[0], available), closed)


def _distribution(policy: Policy | None, slot: Slot, candidates: RequestCandidates, available: BoolArray) -> FloatArray:
    """Return how likely a policy shows each candidate `(K,)` in a slot, of those that are available."""
    if slot.known is not None and not slot.known[~available].any():
        return slot.known
    if policy is None:
        return _certain(_baseline(slot, available), available)
    return dense_propensities(policy, context_of(slot.user_id, slot.visitor, candidates, frozen(available)))


def _baseline(slot: Slot, available: BoolArray) -> int:
    """Return the place of what the shop would show in a slot: what comes first where its own choice is gone."""
    if slot.baseline is not None and available[slot.baseline]:
        return slot.baseline
    return int(available.argmax())


def _certain(place: int, available: BoolArray) -> FloatArray:
    """Return the distribution that shows one candidate for sure."""
    certain = np.zeros(len(available))
    certain[place] = 1.0
    return certain


def pick_place(distribution: FloatArray, unit: float) -> int:
    """Return the place at which the cumulative distribution passes a number in [0, 1); never one of probability 0."""
    totals = distribution.cumsum()
    # By the sum as it was computed, which rounding may leave below 1: the unit could lie behind it.
    place = int(totals.searchsorted(unit * totals[-1], side="right"))
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
    total = float(np.add.reduce(distribution))
    n_available = int(np.count_nonzero(available))
    is_within = n_available == len(available) or not distribution[~available].any()
    sound = bool(np.minimum.reduce(distribution) >= 0.0) and abs(total - 1.0) <= SUM_TOLERANCE and is_within
    if not sound:
        raise PolicyError(f"propensities: got numbers that add up to {total:g}, expected probabilities of candidates")
    # Scaled before it is drawn from, so that the log holds probabilities that add up to 1.
    mixture = (1.0 - exploration) * (distribution / total)
    if n_available == len(available):
        mixture += exploration / n_available
    else:
        mixture[available] += exploration / n_available
    return mixture
