"""The policies that are judged: what gives probabilities of a log's actions, and stays as it is meanwhile."""

import copy
import pickle
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np

from zoosim.core.errors import ConfigError, DataError, PolicyError, PolicyFailure, ZoosimError
from zoosim.core.jit import bind
from zoosim.core.parameters import shown
from zoosim.core.search_config import TEMPLATES
from zoosim.core.types import BoolArray, Context, FloatArray, IntArray, PolicySpec, Progress
from zoosim.logs.log import Log
from zoosim.policies.base import Policy
from zoosim.policies.kernel import Kernel, KernelPolicy, floored_distribution
from zoosim.policies.requests import check_finite

TOLERANCE = 1e-6
MOST_REMEMBERED = 100_000
"""Contexts whose probabilities are kept, so that a policy is asked about each once."""

FIRST_ROWS = 16
CHUNK_SECONDS = 0.2
"""How long a policy is asked without a line of progress, or a chance to interrupt it."""

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

    def __init__(self, policy: Policy, log: Log, progress: Progress = lambda line: None) -> None:
        check_kind(type(policy), log)
        with blamed("cannot be copied, and a copy is what is judged: "):
            self.policy = copy.deepcopy(policy)
        _check_spec(self.policy, log)
        self._progress = progress
        self._candidates: Any = None
        self._runs_compiled = _runs_compiled(self.policy)
        if isinstance(self.policy, KernelPolicy):
            check_finite("user", np.ascontiguousarray(log.features))
            # What the policy finds in the products is part of its state.
            self._candidates = self.policy.attach(Context(product_ids=log.product_ids, products=log.products))
        self._before = state_of(self.policy)
        self._known: dict[Any, FloatArray] = {}

    def probabilities(self, log: Log, start: int, stop: int) -> FloatArray:
        """Ask the policy about each distinct context of the rows once, in chunks that take a fraction of a second."""
        with_users = not self._runs_compiled or self.policy.needs_user_ids
        rows, place = _distinct_contexts(log, start, stop, with_users)
        found = np.zeros((len(rows), log.n_actions))
        ask = self._ask_kernel if self._runs_compiled else self._ask_policy
        for first, behind in timed_chunks(len(rows)):
            ask(log, rows[first:behind], found[first:behind])
            judged = start + (stop - start) * behind // len(rows)
            self._progress(f"judged {judged:,} of {len(log):,} rows")
        return np.asarray(found[place])

    def _ask_kernel(self, log: Log, rows: IntArray, out: FloatArray) -> None:
        policy: Any = self.policy
        ids = np.zeros(len(rows), np.int64) if log.user_ids is None else log.user_ids[rows]
        users, candidates = np.ascontiguousarray(log.features[rows], np.float64), log.candidates.view()
        users.flags.writeable = candidates.flags.writeable = False  # as in a single request, for which it is compiled
        ask = compiled_distributions(policy.kernel)
        ask(policy.state, self._candidates, ids, users, candidates, log.candidate_set[rows], policy.floor, out)

    def _ask_policy(self, log: Log, rows: IntArray, out: FloatArray) -> None:
        for place, (row, context) in enumerate(zip(rows, _contexts(log, rows), strict=True)):
            key = (context.user_id, context.available.tobytes(), context.user.tobytes())
            if key not in self._known:
                if len(self._known) >= MOST_REMEMBERED:
                    self._known.clear()
                self._known[key] = self._propensities(context, int(row))
            out[place] = self._known[key]

    def _propensities(self, context: Context, row: int) -> FloatArray:
        with blamed(f"row {row}: "):
            found = np.array(self.policy.propensities(context), np.float64)
        if found.shape != context.available.shape:
            raise PolicyError(
                f"row {row}: gives propensities of shape {found.shape}, expected {context.available.shape}"
            )
        return found

    def finish(self) -> None:
        """Compare the state with what it was."""
        if state_of(self.policy) != self._before:
            raise PolicyError("changed its state while it was judged; propensities must only read")


def timed_chunks(rows: int) -> Iterator[tuple[int, int]]:
    """Yield (start, stop) up to `rows`, each so long that whoever uses it takes about `CHUNK_SECONDS`."""
    start, size = 0, FIRST_ROWS
    while start < rows:
        stop = min(start + size, rows)
        began = time.perf_counter()
        yield start, stop
        seconds = max(time.perf_counter() - began, 1e-9)
        size = max(1, min(4 * size, int((stop - start) * CHUNK_SECONDS / seconds)))
        start = stop


def _check_spec(policy: Policy, log: Log) -> None:
    """Refuse a policy that is made for another task than the log's."""
    asked = spec_of(log)
    for name in ("user_dim", "product_dim"):
        if getattr(policy.spec, name) != getattr(asked, name):
            got = f"is made for {name} {getattr(policy.spec, name)}, the log has {getattr(asked, name)}"
            raise PolicyError(f"{got}; make it for zoosim.off_policy.spec_of(log)")
    if policy.needs_user_ids and log.user_ids is None:
        raise PolicyError("knows visitors by their id, and the log has no user_id")
    if policy.needs_user_ids and log.user_ids is not None:
        check_ids(log.user_ids, policy.spec.n_users)


def _runs_compiled(policy: Policy) -> bool:
    """Tell whether a policy leaves its propensities to a kernel."""
    return isinstance(policy, KernelPolicy) and type(policy).propensities is KernelPolicy.propensities


def _distinct_contexts(log: Log, start: int, stop: int, with_users: bool) -> tuple[IntArray, IntArray]:
    """Return rows that stand for all from `start` to `stop - 1`, and for each of these which one stands for it.

    Rows are alike that have the same features, candidates and, `with_users`, user.
    """
    features = np.ascontiguousarray(log.features[start:stop], np.float64).view(np.int64)
    columns = [features, log.candidate_set[start:stop]]
    if with_users and log.user_ids is not None:
        columns.append(log.user_ids[start:stop])
    keys = np.ascontiguousarray(np.column_stack(columns))
    packed = keys.view(np.dtype((np.void, keys.itemsize * keys.shape[1])))[:, 0]
    _, first, place = np.unique(packed, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return start + first[order], rank[place]


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
    if "products" in cls.chooses:
        return
    if "templates" not in cls.chooses:
        raise PolicyError("sets boosts, and the log is of single actions, by which it cannot be judged")
    if log.n_actions != len(TEMPLATES):
        raise PolicyError(
            f"chooses among {len(TEMPLATES)} templates of a search shop, the log has {log.n_actions} actions"
        )


def spec_of(log: Log) -> PolicySpec:
    """Return the task that a policy for a log is made for."""
    known = log.user_ids is not None and log.user_ids.min() >= 0
    n_users = int(log.user_ids.max()) + 1 if known and log.user_ids is not None else 0
    user_dim, product_dim = log.features.shape[1], log.products.shape[1]
    return PolicySpec(user_dim=user_dim, product_dim=product_dim, n_users=n_users, steps=len(log))


def make_target(given: Any, log: Log, progress: Progress = lambda line: None) -> Target:
    """Return what is judged: a `Policy`, a function, an array `(K,)` or `(n, K)`, or a column of the log by name."""
    if isinstance(given, Target):
        return given
    if isinstance(given, Policy):
        return PolicyTarget(given, log, progress)
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


def _contexts(log: Log, rows: IntArray) -> Iterator[Context]:
    arrays = (log.features, log.product_ids, log.products, log.candidates)
    features, product_ids, products, candidates = (values.view() for values in arrays)
    for values in (features, product_ids, products, candidates):
        values.flags.writeable = False
    for row in rows:
        yield Context(
            user_id=0 if log.user_ids is None else int(log.user_ids[row]),
            user=features[row],
            product_ids=product_ids,
            products=products,
            available=candidates[log.candidate_set[row]],
        )


distribution: Any = None  # `compiled_distributions` puts each kernel's own in its place


@cache
def compiled_distributions(kernel: Kernel) -> Callable[..., None]:
    """Compile the loop that asks a kernel for the probabilities of many requests with the same products."""
    return bind(_distributions, f"distributions_{kernel.name}", distribution=floored_distribution(kernel))


def _distributions(
    state: Any,
    candidates: Any,
    user_ids: IntArray,
    users: FloatArray,
    masks: BoolArray,
    mask_of: IntArray,
    floor: float,
    out: FloatArray,
) -> None:
    for i in range(users.shape[0]):
        distribution(state, candidates, user_ids[i], users[i], masks[mask_of[i]], floor, out[i])
