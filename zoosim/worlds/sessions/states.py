"""Visitors' states as what policies observe of them, and policies that observe them as tables.

States are numbered as in `SessionTruth`: those of a persona as an array `(C + 1, S, M + 1)` stands in memory, by the
category clicked last, the level of satisfaction and the clicks of the visit.
"""

from collections.abc import Callable
from inspect import signature
from typing import Any

import numpy as np

from zoosim.core.errors import ActionError
from zoosim.core.types import FloatArray, IntArray
from zoosim.worlds.sessions.laws import Laws, first_there


def all_observations(laws: Laws) -> FloatArray:
    """Return what is observed of each state under `observe: state`, `(P, states, features)`.

    Features are 0 or 1: one-hot persona, category clicked last or none, level of satisfaction, where it is felt later
    that of the visit before, and clicks of the visit.
    """
    lasts, _, counts = laws.shape
    satisfaction = (laws.levels, laws.levels) if laws.is_felt_later else (laws.levels,)
    sizes = [len(laws.shares), lasts, *satisfaction, counts]
    *starts, width = np.cumsum([0, *sizes])
    states = np.indices(sizes).reshape(len(sizes), -1)
    if laws.is_felt_later:  # in states the level of the visit before comes first
        states[[2, 3]] = states[[3, 2]]
    features = np.zeros((states.shape[1], width))
    for start, part in zip(starts, states, strict=True):
        features[np.arange(len(features)), start + part] = 1.0
    return features.reshape(len(laws.shares), -1, width)


def policy_table(laws: Laws, choose: Callable[..., Any], *, sees_persona: bool = True) -> FloatArray:
    """Return a policy over `observe: state`, or `behaviour`, as the table whose exact worth `SessionTruth.value` tells.

    Where products sell out, a `choose` of two arguments also takes which kinds are there, `(n, kinds)`, true or false,
    and is asked again and again, each time without the kinds that it has named, for its order of kinds. Of one that
    takes observations alone the next kind that is there is shown in place of one that is not.

    Args:
        laws: The laws of the shop, such as `SessionTruth.laws`.
        choose: Takes observations `(n, features)`, those of all states at once. Returns an action for each, `(n,)`
            whole numbers, or the probability of each action, `(n, actions)`. Actions are kinds or products; product j
            is of kind j modulo the number of kinds.
        sees_persona: Whether it observes the persona; without, it is a policy over `observe: behaviour`.

    Returns:
        Probability of each kind in each state, `(P, states, kinds)`.

    Raises:
        ActionError: `choose` returns no actions and no probabilities.
    """
    observations = all_observations(laws)
    if not sees_persona:
        observations = observations[:, :, len(laws.shares) :]
    n_personas, n_states, width = observations.shape
    n = n_personas * n_states
    if laws.missing:
        asked = _orders if _takes_two(choose) else _orders_by_number
        orders = asked(observations.reshape(-1, width), choose, laws.kinds)
        return first_there(laws, orders).reshape(n_personas, n_states, laws.kinds)
    chosen = np.asarray(choose(observations.reshape(-1, width)))
    if chosen.ndim == 1:
        probabilities = _certain_kinds(chosen, n, laws.kinds)
    else:
        probabilities = _probabilities_of_kinds(chosen, n, laws.kinds)
    return probabilities.reshape(n_personas, n_states, laws.kinds)


def _takes_two(choose: Callable[..., Any]) -> bool:
    """Return whether `choose` takes which kinds are there, beside observations."""
    try:
        signature(choose).bind(None, None)
    except TypeError:
        return False
    return True


def _orders_by_number(observations: FloatArray, choose: Callable[..., Any], kinds: int) -> IntArray:
    """Return the orders `(n, kinds)` that begin with what `choose` takes and go on with the next number."""
    n = len(observations)
    first = _checked_kinds(np.asarray(choose(observations)), n, kinds)
    orders: IntArray = (first[:, np.newaxis] + np.arange(kinds)) % kinds
    return orders


def _orders(observations: FloatArray, choose: Callable[..., Any], kinds: int) -> IntArray:
    """Return the order in which `choose` takes the kinds at each of the `observations (n, features)`, `(n, kinds)`."""
    n = len(observations)
    orders = np.empty((n, kinds), np.int64)
    there = np.ones((n, kinds), bool)
    rows = np.arange(n)
    for place in range(kinds):
        chosen = _checked_kinds(np.asarray(choose(observations, there.copy())), n, kinds)
        if not there[rows, chosen].all():
            raise ActionError("choose: got a kind that is sold out, expected one of those that are there")
        orders[:, place] = chosen
        there[rows, chosen] = False
    return orders


def _certain_kinds(actions: np.ndarray, n: int, kinds: int) -> FloatArray:
    table: FloatArray = np.eye(kinds)[_checked_kinds(actions, n, kinds)]
    return table


def _checked_kinds(actions: np.ndarray, n: int, kinds: int) -> IntArray:
    if actions.shape != (n,) or actions.dtype.kind not in "iu" or actions.min() < 0:
        raise ActionError(f"choose: got {actions.dtype} of shape {actions.shape}, expected {n} whole numbers from 0 on")
    numbers: IntArray = actions % kinds
    return numbers


def _probabilities_of_kinds(probabilities: np.ndarray, n: int, kinds: int) -> FloatArray:
    shape = probabilities.shape
    if len(shape) != 2 or shape[0] != n or shape[1] == 0 or shape[1] % kinds:
        raise ActionError(f"choose: got shape {shape}, expected ({n},) or ({n}, {kinds}), or products for kinds")
    if (probabilities < 0.0).any() or not np.allclose(probabilities.sum(axis=1), 1.0, atol=1e-6):
        raise ActionError("choose: got probabilities that are negative or do not add up to 1 in each row")
    # Product j is of kind j modulo the kinds, so that each row folds into one of kinds.
    table: FloatArray = probabilities.reshape(n, -1, kinds).sum(axis=1)
    return table
