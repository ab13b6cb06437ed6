"""The policies that are judged: what gives probabilities of a log's actions, and stays as it is meanwhile."""

import copy
import pickle
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np

from zoosim.core.errors import ConfigError, DataError, PolicyError, PolicyFailure, ZoosimError
from zoosim.core.jit import bind
from zoosim.core.parameters import shown
from zoosim.core.types import BoolArray, Context, FloatArray, IntArray, PolicySpec
from zoosim.evaluation.off_policy.log import Log
from zoosim.policies.base import Policy
from zoosim.policies.kernel import Kernel, KernelPolicy
from zoosim.policies.requests import check_finite, checked_action
from zoosim.policies.random import Random
from zoosim.ranking.templates import TEMPLATES

TOLERANCE = 1e-6
CACHED = 100_000
Probabilities = Callable[[Log, int, int], FloatArray]
"""A function (log, start, stop) that gives the probabilities of rows start to stop - 1: `(stop - start, K)`."""


class Target(ABC):
    """A policy to be judged on a log."""

    whole = True
    """Whether probabilities of all actions are known, as `dm` and `dr` need them, or those of the logged alone."""

    @abstractmethod
    def probabilities(self, log: Log, start: int, stop: int) -> FloatArray:
        """Return those of rows `start` to `stop - 1`: `(stop - start, K)`; `(stop - start,)` of the logged alone."""


class LoggedColumn(Target):
    """Target probabilities of the logged actions `(n,)`, NaN where they are missing."""

    whole = False

    def __init__(self, values: FloatArray) -> None:
        self.values = values

    def probabilities(self, log: Log, start: int, stop: int) -> FloatArray:
        """Return the column's rows."""
        return self.values[start:stop]


class Table(Target):
    """A function of the log's rows, or an array of probabilities: `(K,)` for any row, or `(n, K)`."""

    def __init__(self, given: FloatArray | Probabilities) -> None:
        self.given = given

    def probabilities(self, log: Log, start: int, stop: int) -> FloatArray:
        """Ask the function, or cut the table."""
        if callable(self.given):
            with blamed(f"rows {start} to {stop - 1}: "):
                return np.asarray(self.given(log, start, stop), float)
        if self.given.ndim == 1:
            return np.broadcast_to(self.given, (stop - start, len(self.given)))
        return self.given[start:stop]


class PolicyTarget(Target):
    """A policy object, of which a copy is judged; it decides alone, and learns nothing."""

    def __init__(self, policy: Policy, log: Log) -> None:
        check_kind(type(policy), log)
        with blamed("cannot be copied, and a copy is what is judged: "):
            self.policy, own, asked = copy.deepcopy(policy), policy.spec, spec_of(log)
        for name in ("n_products", "user_dim", "product_dim"):
            if getattr(own, name) != getattr(asked, name):
                got = f"is made for {name} {getattr(own, name)}, the log has {getattr(asked, name)}"
                raise PolicyError(f"{got}; make it for zoosim.evaluation.off_policy.spec_of(log)")
        if self.policy.needs_user_ids and log.user_ids is None:
            raise PolicyError("knows visitors by their id, and the log has no user_id")
        if self.policy.needs_user_ids and log.user_ids is not None:
            check_ids(log.user_ids, own.n_users)
        if isinstance(self.policy, KernelPolicy):
            check_finite("user", log.features)
            self.policy.attach(log.products)  # what it finds in the products is part of its state
        self._before = state_of(self.policy)
        self._known: dict[Any, FloatArray] = {}

    def probabilities(self, log: Log, start: int, stop: int) -> FloatArray:
        """Ask the kernel where the policy has one, else `propensity`, or what it would choose if it never draws."""
        policy = self.policy
        out = np.zeros((stop - start, log.n_actions))
        if isinstance(policy, KernelPolicy) and type(policy).propensity is KernelPolicy.propensity:
            ids = _ids(log, start, stop)
            parts = (log.features[start:stop], log.candidates, log.candidate_set[start:stop])
            _compiled(policy.kernel)(policy.state, ids, *parts, out)
            return out
        for row, context in enumerate(_contexts(log, start, stop)):
            key = (context.user_id, context.available.tobytes(), context.user.tobytes())
            if key not in self._known:
                if len(self._known) >= CACHED:
                    self._known.clear()
                self._known[key] = self._ask(context, start + row)
            out[row] = self._known[key]
        return out

    def _ask(self, context: Context, row: int) -> FloatArray:
        out, policy = np.zeros(len(context.available)), self.policy
        with blamed(f"row {row}: "):
            if type(policy).propensity is Policy.propensity:
                out[checked_action(copy.deepcopy(policy).select_action(context), policy.spec)] = 1.0
            else:
                for action in np.flatnonzero(context.available):
                    out[action] = policy.propensity(context, int(action))
        return out

    def finish(self) -> None:
        """Compare the state with what it was."""
        if state_of(self.policy) != self._before:
            raise PolicyError("changed its state while it was judged; propensity must only read")


@contextmanager
def blamed(where: str) -> Iterator[None]:
    """Turn whatever a user's own code raises into a `PolicyError` of one line, which says `where`."""
    try:
        yield
    except (Exception, SystemExit) as error:
        kind = "" if isinstance(error, ZoosimError) else f"{type(error).__name__}: "
        raise PolicyError(f"{where}{kind}{' '.join(str(error).split())}") from error


def state_of(policy: Policy) -> bytes:
    """Return what a policy has learned, and where its generator stands, as bytes; raises `PolicyError`."""
    rng = getattr(policy, "rng", None)
    with blamed("its state cannot be read: "):
        drawn = rng.bit_generator.state if isinstance(rng, np.random.Generator) else None
        return pickle.dumps((policy.state_dict(), drawn))


def check_ids(user_ids: IntArray, n_users: int) -> None:
    """Refuse visitors that a policy does not know: compiled code would look for them outside of its arrays."""
    strange = (user_ids < 0) | (user_ids >= n_users)
    if strange.any():
        row = int(strange.argmax())
        raise PolicyError(f"row {row}: user {user_ids[row]} is not one of 0 to {n_users - 1}, whom the policy knows")


def check_kind(cls: type[Policy], log: Log) -> None:
    """Refuse policies that a log cannot judge: its actions are single ones, and others than theirs."""
    if cls.only_for == "search" and log.n_actions != len(TEMPLATES):
        raise PolicyError(
            f"chooses among {len(TEMPLATES)} templates of a search shop, the log has {log.n_actions} actions"
        )
    if cls.only_for == "boosts":
        raise PolicyError("sets boosts, and the log is of single actions, by which it cannot be judged")


def spec_of(log: Log) -> PolicySpec:
    """Return the task that a policy for a log is made for."""
    known = log.user_ids is not None and log.user_ids.min() >= 0
    n_users = int(log.user_ids.max()) + 1 if known and log.user_ids is not None else 0
    return PolicySpec(log.n_actions, log.features.shape[1], log.products.shape[1], n_users, len(log))


def make_target(given: Any, log: Log) -> Target:
    """Return what is judged: a `Policy`, a function, an array `(K,)` or `(n, K)`, or a column of the log by name."""
    if isinstance(given, Target):
        return given
    if isinstance(given, Policy):
        return PolicyTarget(given, log)
    if isinstance(given, str):
        name = given.removeprefix("column:")
        if name not in log.columns:
            raise DataError(f"the log has no column {name}; it has {', '.join(log.columns) or 'none read'}")
        return LoggedColumn(log.columns[name])
    if callable(given):
        return Table(given)
    array = as_numbers(given, "a policy, a function, an array of probabilities or column:NAME")
    if array.shape not in ((log.n_actions,), (len(log), log.n_actions)):
        wanted = f"{(log.n_actions,)} or {(len(log), log.n_actions)}"
        advice = "for the logged actions alone, name a column"
        raise ConfigError(f"got probabilities of shape {array.shape}, expected {wanted}; {advice}")
    return Table(array)


def as_numbers(given: Any, wanted: str) -> FloatArray:
    """Return an array of numbers, or raise `ConfigError` that says what is `wanted`."""
    try:
        return np.asarray(given, float)
    except (TypeError, ValueError):
        raise ConfigError(f"got {shown(given)}, expected {wanted}") from None


def check_probabilities(found: FloatArray, available: BoolArray, start: int) -> None:
    """Say in which row `found (m, K)` are no probabilities over the candidates `available (m, K)`: `PolicyError`.

    A single column holds those of logged actions alone.
    """
    outside = ~((found >= 0.0) & (found <= 1.0 + TOLERANCE))
    if outside.any():
        row, action = (int(index) for index in np.argwhere(outside)[0])
        got = f"gives a probability of {found[row, action]:g}"
        raise PolicyError(f"row {start + row}: {got}, expected 0 to 1 (none may be missing)")
    sums = found.sum(axis=1)
    wrong = np.abs(sums - 1.0) > TOLERANCE
    if found.shape[1] > 1 and wrong.any():
        row = int(wrong.argmax())
        raise PolicyError(f"row {start + row}: probabilities add up to {sums[row]:.9g}, expected 1")
    if found.shape[1] > 1 and (found[~available] > 0.0).any():
        row, action = (int(index) for index in np.argwhere((found > 0.0) & ~available)[0])
        raise PolicyError(f"row {start + row}: gives action {action} a probability, which is not among the candidates")


def named(name: str, error: Exception) -> PolicyFailure | PolicyError | DataError | ConfigError:
    """Return the same error with the policy's name."""
    kind = type(error) if isinstance(error, PolicyError | DataError | ConfigError) else PolicyError
    return kind(f"policy {name}: {error}")


def _ids(log: Log, start: int, stop: int) -> IntArray:
    return np.arange(start, stop) if log.user_ids is None else log.user_ids[start:stop]


def _contexts(log: Log, start: int, stop: int) -> Iterator[Context]:
    ids, product_ids = _ids(log, start, stop), np.arange(log.n_actions)
    features, products, candidates = (values.view() for values in (log.features, log.products, log.candidates))
    for values in (features, products, candidates):
        values.flags.writeable = False
    for row in range(start, stop):
        yield Context(
            user_id=int(ids[row - start]) if log.user_ids is not None else 0,
            user=features[row],
            product_ids=product_ids,
            products=products,
            available=candidates[log.candidate_set[row]],
        )


# `_compiled` puts each kernel's own in the place of this.
probability: Any = None


@cache
def _compiled(kernel: Kernel) -> Callable[..., None]:
    return bind(_ask_kernel, f"probabilities_{kernel.name}", probability=kernel.probability)


def _ask_kernel(
    state: Any,
    user_ids: IntArray,
    users: FloatArray,
    candidates: BoolArray,
    candidate_set: IntArray,
    out: FloatArray,
) -> None:
    for i in range(users.shape[0]):
        available = candidates[candidate_set[i]]
        for a in range(out.shape[1]):
            if available[a]:
                out[i, a] = probability(state, user_ids[i], users[i], available, a)
