"""The compiled laws of a visitor: who comes, what the shop sees, what is clicked, and who comes back.

Draws follow from the seed, the visitor, the decision or visit and the kind that is shown, so that all policies meet the
same visitors.
"""

from typing import NamedTuple

import numpy as np

from zoosim.core.jit import inlined, jit
from zoosim.core.rng import stream_key, uniform
from zoosim.core.types import BoolArray, FloatArray, IntArray
from zoosim.worlds.compiled import GONE, RETURNED, STAYED, VisitorKernel
from zoosim.worlds.sessions.laws import Laws

REMEMBERED = 5
"""Clicks that a shop that does not know the persona remembers of a visitor, the last ones."""

LARGEST_SUM = 3
"""The shop counts clicks on sound products less those on teasers between this and as much below 0.

It is the shop's own choice, and stays where visitors have more levels of satisfaction, or fewer."""

VISITOR, PERSONA, LAST, LEVEL, CLICKS, VISIT, STEP, SUM, REMEMBERS, HISTORY = range(10)
"""Places of a visitor's numbers: who it is and of which persona; the category clicked last (their number if none),
satisfaction, numbered as in `Laws`, and the clicks of this visit, which with the persona make the state; the visit, and
the decision since the visitor came first; the clicks on sound products less those on teasers, kept within
`LARGEST_SUM`; and how many kinds are remembered, the newest first, from `HISTORY` on."""

PLACE_SIZE = HISTORY + REMEMBERED

PERSONA_DRAWS, CLICK_DRAWS, STAY_DRAWS, RETURN_DRAWS, PAID_DRAWS, STOCK_DRAWS = range(6)

STATE, SHOP, ANONYMOUS, BEHAVIOUR = range(4)
"""What the shop sees of a visitor."""


class VisitorArrays(NamedTuple):
    """The laws of a shop, and who comes.

    With L periods of the same laws: the first visitor `starts (L,)` of each, `clicks (L, P, C + 1, 2 C)`, and
    `values (L, P, states, 2 C)`, the clicks from a state on by kind if the best follows. `returns (S, M + 1)`,
    `goes_on`, `paid`, `first` and `levels` are those of `Laws`; `shares (P,)` those of personas, added up;
    `kind_of (K,)` the kind of each product; `sold_out` the chance that a product is not there; `keys (6,)` number the
    draws; `observed` is STATE, SHOP, ANONYMOUS or BEHAVIOUR.
    """

    starts: IntArray
    clicks: FloatArray
    values: FloatArray
    returns: FloatArray
    goes_on: float
    paid: float
    first: int
    levels: int
    shares: FloatArray
    kind_of: IntArray
    sold_out: float
    keys: np.ndarray
    observed: int


def visitor_keys(seed: int) -> np.ndarray:
    """Return the keys `(6,)` of the draws of a seed."""
    return np.array([stream_key(seed, name) for name in ("personas", "clicks", "goes on", "returns", "paid", "stock")])


def one_period(laws: Laws, seed: int) -> VisitorArrays:
    """Return the arrays of a shop whose laws never change, and whose products are the kinds; without values."""
    return VisitorArrays(
        starts=np.zeros(1, np.int64),
        clicks=laws.clicks[np.newaxis],
        values=np.zeros((1, 1, 1, 1)),
        returns=laws.returns,
        goes_on=laws.goes_on,
        paid=laws.paid,
        first=laws.first,
        levels=laws.levels,
        shares=np.cumsum(laws.shares),
        kind_of=np.arange(laws.kinds),
        sold_out=laws.missing,
        keys=visitor_keys(seed),
        observed=STATE,
    )


@jit
def arrive(arrays: VisitorArrays, visitor: int, place: IntArray) -> None:
    """Write the place `(PLACE_SIZE,)` of a visitor who is new."""
    draw = uniform(arrays.keys[PERSONA_DRAWS], visitor, 0)
    persona = 0
    while persona < arrays.shares.shape[0] - 1 and draw >= arrays.shares[persona]:
        persona += 1
    place[:] = 0
    place[VISITOR] = visitor
    place[PERSONA] = persona
    place[LAST] = arrays.clicks.shape[2] - 1
    place[LEVEL] = arrays.first


@inlined
def state_of(arrays: VisitorArrays, place: IntArray) -> int:
    """Return the number of a visitor's state among those of the persona."""
    levels, counts = arrays.returns.shape
    return int((place[LAST] * levels + place[LEVEL]) * counts + place[CLICKS])


@jit
def offer(arrays: VisitorArrays, place: IntArray, available: BoolArray) -> None:
    """Write which products are there at a decision, `available (K,)`; where none ever sells out, it stays as it is."""
    if arrays.sold_out == 0.0:
        return
    count = available.shape[0]
    there = 0
    for product in range(count):
        draw = uniform(arrays.keys[STOCK_DRAWS], place[VISITOR], place[STEP] * count + product)
        available[product] = draw >= arrays.sold_out
        there += available[product]
    if there == 0:
        available[:] = True


@inlined
def serve(arrays: VisitorArrays, place: IntArray, action: int) -> tuple[float, int]:
    """Return the reward of showing a product, and what follows; move the visitor there."""
    # Inlined: to pass all arrays to it takes as long as it does.
    kinds = arrays.clicks.shape[3]
    kind = arrays.kind_of[action]
    # By the kind, so that products of one kind are clicked alike, and policies that show one meet the same visitor.
    draw = uniform(arrays.keys[CLICK_DRAWS], place[VISITOR], place[STEP] * kinds + kind)
    chance = arrays.clicks[_period(arrays, place), place[PERSONA], place[LAST], kind]
    reward = 0.0
    if draw < chance:
        _click(arrays, place, kind)
        # Where all are paid, the draw would cost a tenth of the time of a decision.
        if arrays.paid == 1.0 or uniform(arrays.keys[PAID_DRAWS], place[VISITOR], place[STEP]) < arrays.paid:
            reward = 1.0 / arrays.paid
    stays = uniform(arrays.keys[STAY_DRAWS], place[VISITOR], place[STEP]) < arrays.goes_on
    place[STEP] += 1
    if stays:
        return reward, STAYED
    returns = arrays.returns[place[LEVEL], place[CLICKS]]
    if uniform(arrays.keys[RETURN_DRAWS], place[VISITOR], place[VISIT]) >= returns:
        return reward, GONE
    place[VISIT] += 1
    place[LEVEL] = _carried(arrays, place[LEVEL])
    place[LAST] = arrays.clicks.shape[2] - 1
    place[CLICKS] = 0
    return reward, RETURNED


@inlined
def _period(arrays: VisitorArrays, place: IntArray) -> int:
    """Return the number of the visitor's laws, which stay for life those of the first visit."""
    period = arrays.starts.shape[0] - 1
    while arrays.starts[period] > place[VISITOR]:
        period -= 1
    return int(period)


@inlined
def _carried(arrays: VisitorArrays, satisfaction: int) -> int:
    """Return the satisfaction at the start of the next visit: what is felt later is by now that of the visit before."""
    if arrays.returns.shape[0] == arrays.levels:
        return satisfaction
    level = satisfaction % arrays.levels
    return level * arrays.levels + level


@inlined
def _click(arrays: VisitorArrays, place: IntArray, kind: int) -> None:
    counts = arrays.returns.shape[1]
    is_teaser = kind % 2
    place[LAST] = kind // 2
    level = place[LEVEL] % arrays.levels
    place[LEVEL] += -min(1, level) if is_teaser else min(1, arrays.levels - 1 - level)
    place[CLICKS] = min(place[CLICKS] + 1, counts - 1)
    place[SUM] = max(place[SUM] - 1, -LARGEST_SUM) if is_teaser else min(place[SUM] + 1, LARGEST_SUM)
    for i in range(PLACE_SIZE - 1, HISTORY, -1):
        place[i] = place[i - 1]
    place[HISTORY] = kind
    place[REMEMBERS] = min(place[REMEMBERS] + 1, REMEMBERED)


@jit
def observe(arrays: VisitorArrays, place: IntArray, user: np.ndarray) -> None:
    """Write what the shop sees of a visitor to `user (d_u,)`; `Sessions.user_columns` names the features."""
    user[:] = 0.0
    _, personas, lasts, kinds = arrays.clicks.shape
    start = 0
    if arrays.observed in (STATE, SHOP):
        user[place[PERSONA]] = 1.0
        start = personas
    if arrays.observed in (STATE, BEHAVIOUR):
        user[start + place[LAST]] = 1.0
        start += lasts
        user[start + place[LEVEL] % arrays.levels] = 1.0
        start += arrays.levels
        if arrays.returns.shape[0] > arrays.levels:
            user[start + place[LEVEL] // arrays.levels] = 1.0
            start += arrays.levels
        user[start + place[CLICKS]] = 1.0
        return
    user[start + (place[HISTORY] if place[LAST] < lasts - 1 else kinds)] = 1.0
    start += kinds + 1
    user[start + LARGEST_SUM + place[SUM]] = 1.0
    start += 2 * LARGEST_SUM + 1
    user[start + place[CLICKS]] = 1.0
    if arrays.observed == ANONYMOUS:
        start += arrays.returns.shape[1]
        for i in range(REMEMBERED):
            user[start + (place[HISTORY + i] if i < place[REMEMBERS] else kinds)] = 1.0
            start += kinds + 1


@jit
def worth(arrays: VisitorArrays, place: IntArray, available: BoolArray, action: int) -> tuple[float, float]:
    """Return the clicks that an action and the best one that is there bring from here on, if the best follows."""
    values = arrays.values[_period(arrays, place), place[PERSONA], state_of(arrays, place)]
    best = -np.inf
    for product in range(available.shape[0]):
        if available[product]:
            best = max(best, values[arrays.kind_of[product]])
    return values[arrays.kind_of[action]], best


KERNEL = VisitorKernel("sessions", arrive, observe, offer, serve, worth)
