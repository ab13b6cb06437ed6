"""Many visitors at once, a row each, one decision after another in compiled code: what the vector environment steps."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from zoosim.core.jit import inlined, jit
from zoosim.core.types import BoolArray, FloatArray, IntArray
from zoosim.worlds.compiled import GONE, RETURNED
from zoosim.worlds.sessions.visitors import (
    PLACE_SIZE,
    STEP,
    VISITOR,
    VisitorArrays,
    arrive,
    observe,
    offer,
    serve,
    visitor_keys,
)


class Rows(NamedTuple):
    """Visitors at a decision: the `places (N, PLACE_SIZE)` of each, and the `keys (N, 6)` of their draws."""

    places: IntArray
    keys: np.ndarray


class Decisions(NamedTuple):
    """What came of a decision in each row, `(N,)` each but observations.

    `rewards`, and whether the decision `ended` the visit of the visitor who stays, and whether the visitor has gone
    (`terminated`) or was cut off (`truncated`). Of visitors who were either, and undefined for others: what is
    `last_observed (N, d)` of them, their `last_places (N, PLACE_SIZE)`, and whether that visit had `last_ended`.
    """

    rewards: FloatArray
    ended: BoolArray
    terminated: BoolArray
    truncated: BoolArray
    last_observed: np.ndarray
    last_places: IntArray
    last_ended: BoolArray


def first_rows(arrays: VisitorArrays, seeds: Sequence[int], visitors: Sequence[int]) -> Rows:
    """Return visitors at their first decision.

    Args:
        arrays: The shop.
        seeds: Seed of each row's draws.
        visitors: Number of each row's visitor.
    """
    rows = Rows(np.zeros((len(seeds), PLACE_SIZE), np.int64), np.stack([visitor_keys(seed) for seed in seeds]))
    _all_arrive(arrays, rows, np.asarray(visitors, dtype=np.int64))
    return rows


def decide(
    arrays: VisitorArrays, rows: Rows, actions: IntArray, most_steps: int, observations: np.ndarray
) -> Decisions:
    """Show each row's visitor a product; where visitors have gone, bring those with the next numbers.

    Args:
        arrays: The shop.
        rows: Who is waiting; changed in place.
        actions: What is shown, `(N,)`.
        most_steps: Decisions after which a visitor is cut off.
        observations: Takes what is observed of those who wait afterwards, `(N, d)` of floats.
    """
    count = len(actions)
    decisions = Decisions(
        rewards=np.empty(count),
        ended=np.empty(count, bool),
        terminated=np.empty(count, bool),
        truncated=np.empty(count, bool),
        last_observed=np.empty_like(observations),
        last_places=np.zeros_like(rows.places),
        last_ended=np.empty(count, bool),
    )
    _decide(arrays, rows, actions, most_steps, observations, decisions)
    return decisions


@jit
def observe_rows(arrays: VisitorArrays, rows: Rows, observations: np.ndarray) -> None:
    """Write what is observed of each row's visitor, `(N, d)` of floats; see `SessionConfig.observe`."""
    for n in range(observations.shape[0]):
        observe(arrays, rows.places[n], observations[n])


@jit
def offer_rows(arrays: VisitorArrays, rows: Rows, available: BoolArray) -> None:
    """Write which products are there for each row's visitor, `(N, K)`, which is true before."""
    for n in range(available.shape[0]):
        offer(_with_keys(arrays, rows.keys[n]), rows.places[n], available[n])


@jit
def _decide(
    arrays: VisitorArrays, rows: Rows, actions: IntArray, most_steps: int, observations: np.ndarray, out: Decisions
) -> None:
    before = np.empty(PLACE_SIZE, np.int64)
    for n in range(actions.shape[0]):
        place = rows.places[n]
        before[:] = place
        own = _with_keys(arrays, rows.keys[n])
        out.rewards[n], follows = serve(own, place, actions[n])
        is_gone = follows == GONE
        is_cut = not is_gone and place[STEP] >= most_steps
        out.terminated[n] = is_gone
        out.truncated[n] = is_cut
        out.ended[n] = follows == RETURNED and not is_cut
        if is_gone or is_cut:
            # Who has gone is last seen at the decision that was the last one.
            last = before if is_gone else place
            observe(arrays, last, out.last_observed[n])
            out.last_places[n] = last
            out.last_ended[n] = is_gone or follows == RETURNED
            arrive(own, place[VISITOR] + 1, place)
        observe(arrays, place, observations[n])


@jit
def _all_arrive(arrays: VisitorArrays, rows: Rows, visitors: IntArray) -> None:
    for n in range(visitors.shape[0]):
        arrive(_with_keys(arrays, rows.keys[n]), visitors[n], rows.places[n])


@inlined
def _with_keys(arrays: VisitorArrays, keys: np.ndarray) -> VisitorArrays:
    """Return the same shop with draws of another seed."""
    return VisitorArrays(
        arrays.starts,
        arrays.clicks,
        arrays.values,
        arrays.returns,
        arrays.goes_on,
        arrays.paid,
        arrays.first,
        arrays.levels,
        arrays.shares,
        arrays.kind_of,
        arrays.sold_out,
        keys,
        arrays.observed,
    )
