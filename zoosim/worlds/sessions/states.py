"""Visitors' states as what policies observe of them, and policies that observe them as tables.

States are numbered as in `SessionTruth`: those of a persona as an array `(C + 1, S, M + 1)` stands in memory, by the
category clicked last, the level of satisfaction and the clicks of the visit.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from zoosim.core.errors import ActionError
from zoosim.core.types import FloatArray
from zoosim.worlds.sessions.laws import Laws


def all_observations(laws: Laws) -> FloatArray:
    """Return what is observed of each state under `observe: state`, `(P, states, features)`.

    Features are 0 or 1: one-hot persona, category clicked last or none, level of satisfaction, clicks of the visit.
    """
    *starts, width = np.cumsum([0, len(laws.shares), *laws.shape])
    states = np.indices((len(laws.shares), *laws.shape)).reshape(4, -1)
    features = np.zeros((states.shape[1], width))
    for start, part in zip(starts, states, strict=True):
        features[np.arange(len(features)), start + part] = 1.0
    return features.reshape(len(laws.shares), -1, width)


def policy_table(laws: Laws, choose: Callable[[FloatArray], Any]) -> FloatArray:
    """Return a policy over `observe: state` as the table whose exact worth `SessionTruth.value` tells.

    Args:
        laws: The laws of the shop, such as `SessionTruth.laws`.
        choose: Takes observations `(n, features)`, those of all states at once. Returns an action for each, `(n,)`
            whole numbers, or the probability of each action, `(n, actions)`. Actions are kinds or products; product j
            is of kind j modulo the number of kinds.

    Returns:
        Probability of each kind in each state, `(P, states, kinds)`.

    Raises:
        ActionError: `choose` returns no actions and no probabilities.
    """
    observations = all_observations(laws)
    n_personas, n_states, width = observations.shape
    chosen = np.asarray(choose(observations.reshape(-1, width)))
    n = n_personas * n_states
    if chosen.ndim == 1:
        probabilities = _certain_kinds(chosen, n, laws.kinds)
    else:
        probabilities = _probabilities_of_kinds(chosen, n, laws.kinds)
    return probabilities.reshape(n_personas, n_states, laws.kinds)


def _certain_kinds(actions: np.ndarray, n: int, kinds: int) -> FloatArray:
    if actions.shape != (n,) or actions.dtype.kind not in "iu" or actions.min() < 0:
        raise ActionError(f"choose: got {actions.dtype} of shape {actions.shape}, expected {n} whole numbers from 0 on")
    table: FloatArray = np.eye(kinds)[actions % kinds]
    return table


def _probabilities_of_kinds(probabilities: np.ndarray, n: int, kinds: int) -> FloatArray:
    shape = probabilities.shape
    if len(shape) != 2 or shape[0] != n or shape[1] == 0 or shape[1] % kinds:
        raise ActionError(f"choose: got shape {shape}, expected ({n},) or ({n}, {kinds}), or products for kinds")
    if (probabilities < 0.0).any() or not np.allclose(probabilities.sum(axis=1), 1.0, atol=1e-6):
        raise ActionError("choose: got probabilities that are negative or do not add up to 1 in each row")
    # Product j is of kind j modulo the kinds, so that each row folds into one of kinds.
    table: FloatArray = probabilities.reshape(n, -1, kinds).sum(axis=1)
    return table
