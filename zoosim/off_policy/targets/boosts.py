"""The policies that are judged by a log of continuous boosts: where they would go, or with what density."""

import copy
from typing import Any, NamedTuple

import numpy as np

from zoosim.core.errors import ConfigError, DataError, PolicyError
from zoosim.core.parameters import shown
from zoosim.core.types import Context, FloatArray
from zoosim.logs.boost_log import EDGE, BoostLog
from zoosim.off_policy.targets.products import as_numbers, blamed, state_of
from zoosim.policies.base import Policy
from zoosim.policies.boosts.base import BoostPolicy, BoostSpec

LARGEST_WEIGHT = 1e60
"""Beyond it, sums of fourth powers overflow."""


class Aimed(NamedTuple):
    """A policy without chance: the boosts that it would take, `actions (n, d)`."""

    actions: FloatArray


class Spread(NamedTuple):
    """A policy that draws: its `densities (n,)` of the logged boosts."""

    densities: FloatArray


def make_boost_target(given: Any, log: BoostLog) -> Aimed | Spread:
    """Return what is judged: an array `(d,)` or `(n, d)`, a function, a boost policy, or a column of densities by name.

    A function (log, start, stop) gives the boosts `(stop - start, d)`. A `BoostPolicy` that has a density of its own is
    taken to draw by it; another one goes where it recommends.
    """
    if isinstance(given, str):
        name = given.removeprefix("column:")
        if name not in log.columns:
            raise DataError(f"the log has no column {name}; it has {', '.join(log.columns) or 'none read'}")
        return _spread(log.columns[name], log)
    if isinstance(given, BoostPolicy):
        return _asked(given, log)
    if isinstance(given, Policy):
        raise PolicyError("chooses among actions, and the log holds boosts; give the boosts as an array or a function")
    array = _told(given, log)
    if array.shape not in (log.actions.shape[1:], log.actions.shape):
        raise ConfigError(f"got boosts of shape {array.shape}, expected {log.actions.shape[1:]} or {log.actions.shape}")
    return _aimed(np.broadcast_to(array, log.actions.shape), log)


def boost_spec_of(log: BoostLog) -> BoostSpec:
    """Return what a policy of boosts is told that is judged by a log."""
    user_dim, product_dim = log.features.shape[1], log.actions.shape[1]
    return BoostSpec(user_dim=user_dim, product_dim=product_dim, steps=len(log), a_max=log.a_max)


def _told(given: Any, log: BoostLog) -> FloatArray:
    if not callable(given):
        return as_numbers(given, "a policy of boosts, a function, an array of boosts or column:NAME")
    with blamed(f"rows 0 to {len(log) - 1}: "):
        return np.asarray(given(log, 0, len(log)), float)


def _aimed(actions: FloatArray, log: BoostLog) -> Aimed:
    outside = ~(np.abs(actions) <= EDGE * log.a_max).all(axis=1)
    if outside.any():
        row = int(outside.argmax())
        expected = f"boosts from {-log.a_max:g} to {log.a_max:g} (a_max)"
        raise PolicyError(f"row {row}: gives {actions[row].tolist()}, expected {expected}")
    return Aimed(np.clip(actions, -log.a_max, log.a_max))


def _spread(densities: FloatArray, log: BoostLog) -> Spread:
    bad = ~((densities >= 0.0) & np.isfinite(densities))
    if bad.any():
        row = int(bad.argmax())
        raise PolicyError(f"row {row}: gives a density of {densities[row]:g}, expected a finite number of 0 or more")
    huge = densities > LARGEST_WEIGHT * log.densities
    if huge.any():
        row = int(huge.argmax())
        expected = f"{LARGEST_WEIGHT:g} times the log's, {log.densities[row]:g}, at most"
        raise PolicyError(f"row {row}: gives a density of {densities[row]:g}, expected {expected}")
    return Spread(densities)


def _asked(policy: BoostPolicy, log: BoostLog) -> Aimed | Spread:
    """Ask a copy of a policy, which knows the visitors' features and not what the shop could have shown."""
    with blamed("cannot be copied, and a copy is what is judged: "):
        asked = copy.deepcopy(policy)
    before = state_of(asked)
    if (asked.spec.user_dim, asked.spec.product_dim) != (log.features.shape[1], log.actions.shape[1]):
        got = f"is made for {asked.spec.user_dim} features and {asked.spec.product_dim} boosts"
        raise PolicyError(f"{got}, the log has {log.features.shape[1]} and {log.actions.shape[1]}")
    draws = type(asked).density is not BoostPolicy.density
    answers = np.empty(len(log) if draws else log.actions.shape)
    for row in range(len(log)):
        with blamed(f"row {row}: "):
            answers[row] = _answer(asked, log, row, draws)
    if state_of(asked) != before:
        raise PolicyError("changed its state while it was judged; recommend and density must only read")
    return _spread(answers, log) if draws else _aimed(answers, log)


def _answer(asked: BoostPolicy, log: BoostLog, row: int, draws: bool) -> FloatArray:
    """Return a density `()` of the logged boosts, or boosts `(d,)`."""
    context = Context(user_id=0 if log.user_ids is None else int(log.user_ids[row]), features=log.features[row])
    try:
        given = asked.density(context, log.actions[row]) if draws else asked.recommend(context)
    except AttributeError as error:
        advice = "give its boosts as an array or a function"
        raise PolicyError(f"decides by more than the log holds ({error}); {advice}") from error
    found, expected = np.asarray(given, float), () if draws else log.actions.shape[1:]
    if found.shape != expected:
        what = "one density" if draws else f"{expected[0]} boosts"
        raise PolicyError(f"gives {shown(given)}, expected {what}")
    return found
