"""Compiled visits of many visitors, one after another, under a policy that is a table, or that guesses who comes."""

from typing import NamedTuple

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.rng import stream_key, uniform
from zoosim.core.types import BoolArray, FloatArray, IntArray
from zoosim.worlds.compiled import GONE, STAYED
from zoosim.worlds.episodes import MOST_STEPS
from zoosim.worlds.sessions.laws import Laws
from zoosim.worlds.sessions.visitors import (
    PERSONA,
    PLACE_SIZE,
    STEP,
    VISIT,
    VisitorArrays,
    arrive,
    offer,
    one_period,
    serve,
    state_of,
)


class Lives(NamedTuple):
    """The `clicks`, by what they are worth, `visits` and `steps` of visitors, each `(n,)`."""

    clicks: FloatArray
    visits: IntArray
    steps: IntArray


class BeliefPolicy(NamedTuple):
    """A policy that does not see a visitor's type, and shows what is worth the most by its belief of it.

    With T types, R states that it can tell apart and K kinds of products: the belief of a new visitor `prior (T,)`,
    what a kind is worth to each type in each state, `values (T, R, K)`, and how likely it is clicked, `chances
    (T, R, K)`, by which each decision moves the belief (Bayes' rule). A visitor begins in the state `start`, is after a
    click in that of `after_click (R, K)`, and at the start of the next visit in that of `after_visit (R,)`. Where
    `values` are those of the best policy for each type, this is QMDP (Littman, Cassandra & Kaelbling 1995).
    """

    prior: FloatArray
    values: FloatArray
    chances: FloatArray
    after_click: IntArray
    after_visit: IntArray
    start: int


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


def simulate_beliefs(laws: Laws, policy: BeliefPolicy, visitors: int, *, seed: int) -> Lives:
    """Return the lives of new visitors under a policy that guesses who they are; they are those of `simulate`.

    Args:
        laws: The laws of the shop. All clicks count 1, whether they are paid or not.
        policy: What it knows.
        visitors: How many.
        seed: Seed of all draws.
    """
    lives = Lives(np.zeros(visitors), np.zeros(visitors, np.int64), np.zeros(visitors, np.int64))
    _live_by_belief(one_period(laws, seed)._replace(paid=1.0), policy, *lives)
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


@jit
def _live_by_belief(
    arrays: VisitorArrays, policy: BeliefPolicy, clicks: FloatArray, visits: IntArray, steps: IntArray
) -> None:
    place = np.zeros(PLACE_SIZE, np.int64)
    available = np.ones(policy.values.shape[2], np.bool_)
    for visitor in range(clicks.shape[0]):
        arrive(arrays, visitor, place)
        belief = policy.prior.copy()
        state = policy.start
        for _ in range(MOST_STEPS):
            offer(arrays, place, available)
            kind = _best_by_belief(policy, belief, state, available)
            reward, follows = serve(arrays, place, kind)
            clicks[visitor] += reward
            chances = policy.chances[:, state, kind]
            if reward > 0.0:
                belief *= chances
                state = policy.after_click[state, kind]
            else:
                belief *= 1.0 - chances
            belief /= belief.sum()
            if follows == GONE:
                break
            if follows != STAYED:
                state = policy.after_visit[state]
        visits[visitor] = place[VISIT] + 1
        steps[visitor] = place[STEP]


@jit
def _best_by_belief(policy: BeliefPolicy, belief: FloatArray, state: int, available: BoolArray) -> int:
    best = 0
    most = -np.inf
    for kind in range(available.shape[0]):
        value = 0.0
        for t in range(belief.shape[0]):
            value += belief[t] * policy.values[t, state, kind]
        if available[kind] and value > most:
            best = kind
            most = value
    return best
