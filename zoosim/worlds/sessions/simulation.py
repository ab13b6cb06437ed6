"""Compiled visits of many visitors, one after another, under a policy that is a table of probabilities."""

from typing import NamedTuple

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.rng import stream_key, uniform
from zoosim.core.types import FloatArray, IntArray
from zoosim.worlds.compiled import GONE
from zoosim.worlds.episodes import MOST_STEPS
from zoosim.worlds.sessions.laws import Laws
from zoosim.worlds.sessions.visitors import (
    PERSONA,
    PLACE_SIZE,
    STEP,
    VISIT,
    VisitorArrays,
    arrive,
    one_period,
    serve,
    state_of,
)


class Lives(NamedTuple):
    """The `clicks`, by what they are worth, `visits` and `steps` of visitors, each `(n,)`."""

    clicks: FloatArray
    visits: IntArray
    steps: IntArray


def simulate(laws: Laws, policy: FloatArray, visitors: int, *, seed: int) -> Lives:
    """Return the lives of new visitors.

    Draws follow from the seed, the visitor, the decision and the kind that is shown, so that two policies meet the same
    visitors.

    Args:
        laws: The laws of the shop.
        policy: Probability of each kind in each state, `(P, states, kinds)`.
        visitors: How many.
        seed: Seed of all draws.
    """
    lives = Lives(np.zeros(visitors), np.zeros(visitors, np.int64), np.zeros(visitors, np.int64))
    _live(one_period(laws, seed), added_up(policy), stream_key(seed, "shown"), *lives)
    return lives


def added_up(policy: FloatArray) -> FloatArray:
    """Return for each kind the probability of it and those before it, from which `shown_kind` draws."""
    up_to = np.cumsum(policy, axis=2)
    # Down to rounding 1 at the last kind: a draw below 1 then always finds one.
    up_to[:, :, -1] = 1.0
    return up_to


@jit
def shown_kind(up_to: FloatArray, key: np.uint64, visitor: int, step: int) -> int:
    """Return the kind that is drawn for a visitor's decision by probabilities that are `added_up`, `(kinds,)`."""
    draw = uniform(key, visitor, step)
    kind = 0
    while draw >= up_to[kind]:
        kind += 1
    return kind


@jit
def _live(
    arrays: VisitorArrays,
    up_to: FloatArray,
    key: np.uint64,
    clicks: FloatArray,
    visits: IntArray,
    steps: IntArray,
) -> None:
    place = np.zeros(PLACE_SIZE, np.int64)
    for visitor in range(clicks.shape[0]):
        arrive(arrays, visitor, place)
        for step in range(MOST_STEPS):
            kind = shown_kind(up_to[place[PERSONA], state_of(arrays, place)], key, visitor, step)
            reward, follows = serve(arrays, place, kind)
            clicks[visitor] += reward
            if follows == GONE:
                break
        visits[visitor] = place[VISIT] + 1
        steps[visitor] = place[STEP]
