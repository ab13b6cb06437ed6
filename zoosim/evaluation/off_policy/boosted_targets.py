"""The policies that are judged by a log of continuous boosts: where they would go, or with what density."""

import copy
import pickle
from typing import Any, NamedTuple

import numpy as np

from zoosim.core.errors import ConfigError, DataError, PolicyError
from zoosim.core.types import Context, FloatArray
from zoosim.evaluation.off_policy.boosted_log import BoostLog
from zoosim.policies.base import Policy
from zoosim.policies.boosts import BoostPolicy, BoostSpec, ProductTable


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
        return _spread(log.columns[name])
    if isinstance(given, BoostPolicy):
        return _asked(given, log)
    if isinstance(given, Policy):
        raise PolicyError("chooses among actions, and the log holds boosts; give the boosts as an array or a function")
    array = np.asarray(given(log, 0, len(log)) if callable(given) else given, float)
    if array.shape not in (log.actions.shape[1:], log.actions.shape):
        raise ConfigError(f"got boosts of shape {array.shape}, expected {log.actions.shape[1:]} or {log.actions.shape}")
    return _aimed(np.broadcast_to(array, log.actions.shape), log)


def boost_spec_of(log: BoostLog) -> BoostSpec:
    """Return what a policy of boosts is told that is judged by a log: of the shop's products nothing, but one."""
    one: dict[str, Any] = {name: np.zeros(1) for name in ProductTable._fields}
    whole = {name: np.zeros(1, np.int64) for name in ("ids", "category")}
    products = ProductTable(**{**one, **whole, "strategic": np.zeros(1, bool)})
    size: dict[str, Any] = {"user_dim": log.features.shape[1], "product_dim": log.actions.shape[1], "steps": len(log)}
    return BoostSpec(n_products=1, **size, a_max=log.a_max, products=products)


def _aimed(actions: FloatArray, log: BoostLog) -> Aimed:
    outside = ~(np.abs(actions) <= log.a_max).all(axis=1)
    if outside.any():
        row = int(outside.argmax())
        expected = f"boosts from {-log.a_max:g} to {log.a_max:g} (a_max)"
        raise PolicyError(f"row {row}: gives {actions[row].tolist()}, expected {expected}")
    return Aimed(np.ascontiguousarray(actions))


def _spread(densities: FloatArray) -> Spread:
    bad = ~((densities >= 0.0) & np.isfinite(densities))
    if bad.any():
        row = int(bad.argmax())
        raise PolicyError(f"row {row}: gives a density of {densities[row]:g}, expected a finite number of 0 or more")
    return Spread(densities)


def _asked(policy: BoostPolicy, log: BoostLog) -> Aimed | Spread:
    """Ask a copy of a policy, which knows the visitors' features and not what the shop could have shown."""
    asked, before = copy.deepcopy(policy), pickle.dumps(policy.state_dict())
    if (asked.spec.user_dim, asked.spec.product_dim) != (log.features.shape[1], log.actions.shape[1]):
        got = f"is made for {asked.spec.user_dim} features and {asked.spec.product_dim} boosts"
        raise PolicyError(f"{got}, the log has {log.features.shape[1]} and {log.actions.shape[1]}")
    draws = type(asked).propensity is not BoostPolicy.propensity
    answers = []
    for row, (features, action) in enumerate(zip(log.features, log.actions, strict=True)):
        context = Context(user_id=0 if log.user_ids is None else int(log.user_ids[row]), features=features)
        try:
            answers.append(asked.propensity(context, action) if draws else asked.recommend(context))
        except AttributeError as error:
            advice = "give its boosts as an array or a function"
            raise PolicyError(f"decides by more than the log holds ({error}); {advice}") from error
    if pickle.dumps(asked.state_dict()) != before:
        raise PolicyError("changed its state while it was judged; recommend and propensity must only read")
    return _spread(np.array(answers, float)) if draws else _aimed(np.array(answers, float), log)
