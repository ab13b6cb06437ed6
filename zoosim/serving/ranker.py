"""Decide: the distribution over candidates that a request is drawn from, and the draw that its id settles."""

import hashlib
from typing import NamedTuple

import numpy as np

from zoosim.core.errors import PolicyError
from zoosim.core.types import Context, FloatArray, frozen
from zoosim.policies.base import Policy
from zoosim.serving.catalogue import Candidates
from zoosim.serving.replica import context_of

TOLERANCE = 1e-6
"""By how much a policy's probabilities may miss the sum of 1, to which they are scaled."""


class Drawn(NamedTuple):
    """What to show: places of candidates from the top, and how likely each was.

    Attributes:
        shown: Places among the candidates.
        chances: The probability of each, given those above it.
        propensities: The probability of each candidate `(K,)` to stand at the top.
    """

    shown: list[int]
    chances: list[float]
    propensities: FloatArray


def draw(
    policy: Policy, visitor: FloatArray, candidates: Candidates, count: int, exploration: float, unit: "Units"
) -> Drawn:
    """Draw what to show; moves nothing, so the same state and units give the same.

    Args:
        policy: Whose probabilities count.
        visitor: The visitor's features `(d_u,)`.
        candidates: K products.
        count: How many to show, from 1 to K.
        exploration: The share of draws that is spread evenly over the candidates.
        unit: The numbers that settle the draws.

    Raises:
        PolicyError: the policy's probabilities are none.
    """
    context = context_of(visitor, candidates)
    available = candidates.available.copy()
    shown: list[int] = []
    chances: list[float] = []
    first: FloatArray | None = None
    for slot in range(count):
        distribution = _explored(policy.propensities(context), available, exploration)
        place = pick_place(distribution, unit(slot))
        shown.append(place)
        chances.append(float(distribution[place]))
        first = distribution if first is None else first
        available[place] = False
        context = Context({**context, "available": frozen(available.copy())})
    assert first is not None
    return Drawn(shown, chances, first)


def show_first(candidates: Candidates, count: int) -> Drawn:
    """Show the first candidates, for sure: what the shop would have shown without the service."""
    certain = np.zeros(len(candidates.names))
    certain[0] = 1.0
    return Drawn(list(range(count)), [1.0] * count, certain)


def pick_place(distribution: FloatArray, unit: float) -> int:
    """Return the place at which the cumulative distribution passes a number in [0, 1); never one of probability 0."""
    totals = np.cumsum(distribution)
    place = int(np.searchsorted(totals, unit * totals[-1], side="right"))
    while place >= len(distribution) or distribution[place] == 0.0:
        place -= 1
    return place


class Units:
    """Numbers in [0, 1) that follow from a secret and the id of a decision, one per slot: nobody can steer them."""

    def __init__(self, secret: bytes, decision_id: str) -> None:
        self._hash = hashlib.blake2b(decision_id.encode(), key=secret, digest_size=8)

    def __call__(self, slot: int) -> float:
        """Return the number of a slot, with 53 random bits."""
        hashed = self._hash.copy()
        hashed.update(b"/%d" % slot)
        return (int.from_bytes(hashed.digest(), "big") >> 11) * 2.0**-53

    def generator(self) -> np.random.Generator:
        """Return a generator that begins at the decision's own number, for draws that take more than one."""
        hashed = self._hash.copy()
        hashed.update(b"/generator")
        return np.random.default_rng(int.from_bytes(hashed.digest(), "big"))


def _explored(distribution: FloatArray, available: np.ndarray, exploration: float) -> FloatArray:
    """Return a policy's distribution with a share spread over what is available; raises `PolicyError` for none."""
    total = float(distribution.sum())
    sound = bool((distribution >= 0.0).all()) and abs(total - 1.0) <= TOLERANCE and not distribution[~available].any()
    if not sound:
        raise PolicyError(f"propensities: got numbers that add up to {total:g}, expected probabilities of candidates")
    explored = (1.0 - exploration) * (distribution / total)
    explored[available] += exploration / available.sum()
    return explored
