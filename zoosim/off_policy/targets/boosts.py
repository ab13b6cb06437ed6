"""The policies that are evaluated on a log of boosts: which boosts they choose, or with which density."""

import copy
from typing import Any, NamedTuple

import numpy as np

from zoosim.core.blame import blamed
from zoosim.core.errors import ConfigError, PolicyError
from zoosim.core.parameters import shown
from zoosim.core.types import NOBODY, Context, FloatArray
from zoosim.logs.log import Log
from zoosim.logs.records import BOX_EDGE
from zoosim.off_policy.targets.base import as_numbers, column_name, state_of
from zoosim.policies.base import Policy
from zoosim.policies.boost_model import BoostModel, spec_fields
from zoosim.policies.boosts.base import BoostPolicy, BoostSpec

LARGEST_WEIGHT = 1e60
"""Beyond it, sums of fourth powers overflow."""


class DeterministicTarget(NamedTuple):
    """A policy that chooses without chance: the boosts that it would choose, `actions (n, d)`."""

    actions: FloatArray


class StochasticTarget(NamedTuple):
    """A policy that draws: its `densities (n,)` of the logged boosts."""

    densities: FloatArray


def make_boost_target(given: Any, log: Log) -> DeterministicTarget | StochasticTarget:
    """Return the policy to evaluate: an array `(d,)` or `(n, d)`, a function, a boost policy, or a column of densities.

    A function (log, start, stop) gives the boosts `(stop - start, d)`. A `BoostPolicy` that has a density of its own is
    taken to draw by it; another one goes where it recommends.
    """
    if isinstance(given, str):
        return _stochastic(log.columns[column_name(log, given)], log)
    if isinstance(given, BoostModel):
        return _asked(given.exploring(), log)
    if isinstance(given, BoostPolicy):
        return _asked(given, log)
    if isinstance(given, Policy):
        raise PolicyError("chooses among actions, and the log holds boosts; give the boosts as an array or a function")
    boosts = _boosts_of(given, log)
    if boosts.shape not in (log.actions.shape[1:], log.actions.shape):
        raise ConfigError(
            f"got boosts of shape {boosts.shape}, expected {log.actions.shape[1:]} or {log.actions.shape}"
        )
    return _deterministic(np.broadcast_to(boosts, log.actions.shape), log)


def check_class(policy_class: type[Policy]) -> None:
    """Raise `PolicyError` for a class whose policies choose no boosts."""
    if not issubclass(policy_class, BoostPolicy):
        raise PolicyError("chooses among actions, and the log holds boosts; name a policy of boosts")


def boost_spec_of(log: Log) -> BoostSpec:
    """Return what a policy of boosts is told that is judged by a log."""
    user_dim = log.features.shape[1]
    product_dim = log.actions.shape[1]
    shop = {} if log.searches is None else spec_fields(log.searches.requests.schema)
    return BoostSpec(
        **{**shop, "user_dim": user_dim, "product_dim": product_dim, "steps": len(log), "a_max": log.a_max}
    )


def _boosts_of(given: Any, log: Log) -> FloatArray:
    if not callable(given):
        return as_numbers(given, "a policy of boosts, a function, an array of boosts or column:NAME")
    with blamed(f"rows 0 to {len(log) - 1}: "):
        return np.asarray(given(log, 0, len(log)), float)


def _deterministic(actions: FloatArray, log: Log) -> DeterministicTarget:
    outside = ~(np.abs(actions) <= BOX_EDGE * log.a_max).all(axis=1)
    if outside.any():
        row = int(outside.argmax())
        expected = f"boosts from {-log.a_max:g} to {log.a_max:g} (a_max)"
        raise PolicyError(f"row {row}: gives {actions[row].tolist()}, expected {expected}")
    return DeterministicTarget(np.clip(actions, -log.a_max, log.a_max))


def _stochastic(densities: FloatArray, log: Log) -> StochasticTarget:
    bad = ~((densities >= 0.0) & np.isfinite(densities))
    if bad.any():
        row = int(bad.argmax())
        raise PolicyError(f"row {row}: gives a density of {densities[row]:g}, expected a finite number of 0 or more")
    huge = densities > LARGEST_WEIGHT * log.propensities
    if huge.any():
        row = int(huge.argmax())
        expected = f"{LARGEST_WEIGHT:g} times the log's, {log.propensities[row]:g}, at most"
        raise PolicyError(f"row {row}: gives a density of {densities[row]:g}, expected {expected}")
    return StochasticTarget(densities)


def _asked(policy: BoostPolicy, log: Log) -> DeterministicTarget | StochasticTarget:
    """Ask a copy of a policy, which sees visitors' features, and in a log of searches what could have been shown."""
    with blamed("cannot be copied, and a copy is what is judged: "):
        asked = copy.deepcopy(policy)
    before = state_of(asked)
    if (asked.spec.user_dim, asked.spec.product_dim) != (log.features.shape[1], log.actions.shape[1]):
        got = f"is made for {asked.spec.user_dim} features and {asked.spec.product_dim} boosts"
        raise PolicyError(f"{got}, the log has {log.features.shape[1]} and {log.actions.shape[1]}")
    has_density = type(asked).density is not Policy.density
    answers = np.empty(len(log) if has_density else log.actions.shape)
    for row in range(len(log)):
        with blamed(f"row {row}: "):
            answers[row] = _answer(asked, log, row, has_density)
    if state_of(asked) != before:
        raise PolicyError("changed its state while it was judged; recommend and density must only read")
    return _stochastic(answers, log) if has_density else _deterministic(answers, log)


def _answer(asked: BoostPolicy, log: Log, row: int, has_density: bool) -> FloatArray:
    """Return the density `()` of the logged boosts, or the policy's boosts `(d,)`."""
    if log.searches is not None:
        context = log.searches.context(row)
    else:
        context = Context(
            user_id=NOBODY if log.user_ids is None else int(log.user_ids[row]), features=log.features[row]
        )
    try:
        given = asked.density(context, log.actions[row]) if has_density else asked.recommend(context)
    except AttributeError as error:
        advice = "give its boosts as an array or a function"
        raise PolicyError(f"decides by more than the log holds ({error}); {advice}") from error
    answer = as_numbers(given, "a number for each boost")
    shape: tuple[int, ...] = () if has_density else log.actions.shape[1:]
    if answer.shape != shape:
        expected = "one density" if has_density else f"{shape[0]} boosts"
        raise PolicyError(f"gives {shown(given)}, expected {expected}")
    return answer
