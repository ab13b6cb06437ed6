"""The policies that are evaluated on a log of products: what gives probabilities of each row's products."""

import copy
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from zoosim.action_spaces import find_action_space
from zoosim.core.action_space import TEMPLATES as TEMPLATE_SPACE
from zoosim.core.blame import blamed
from zoosim.core.countdown import Countdown
from zoosim.core.errors import ConfigError, DataError, PolicyError
from zoosim.core.search_config import TEMPLATES
from zoosim.core.threads import in_threads, n_threads
from zoosim.core.types import BoolArray, Context, FloatArray, IntArray, PolicySpec, Progress
from zoosim.logs.log import Log
from zoosim.off_policy.targets.base import as_numbers, column_name, state_of
from zoosim.policies.base import Policy, logged_context
from zoosim.policies.kernel import KernelPolicy
from zoosim.policies.model import Model
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
    """A policy to be evaluated on a log."""

    whole = True
    """Whether the probabilities of all products are known, as reward models need them, or of the logged ones alone."""

    @abstractmethod
    def probabilities(self, log: Log, start: int, stop: int) -> FloatArray:
        """Return those of rows `start` to `stop - 1`: `(stop - start, K)`; `(stop - start,)` if not `whole`."""


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
    """A policy object, of which a frozen copy is asked for propensities."""

    def __init__(self, policy: Policy, log: Log, progress: Progress = lambda line: None) -> None:
        check_class(type(policy), log)
        with blamed("cannot be copied, and a copy is what is judged: "):
            self.policy = copy.deepcopy(policy)
        _check_spec(self.policy, log)
        self._countdown = Countdown(progress, "judged", len(log), "rows")
        self._askable: list[tuple[Any, Any]] = []
        self._runs_compiled = _runs_compiled(self.policy)
        if isinstance(self.policy, KernelPolicy):
            check_finite("user", np.ascontiguousarray(log.features))
            # What the policy finds in the products is part of its state, and room is made as before each decision.
            candidates = self.policy.attach_block(log.product_ids, log.products, 1)
            # One state and candidates for each thread, since kernels may write in them what they only remember.
            first = (self.policy.state, candidates)
            self._askable = [first, *(copy.deepcopy(first) for _ in range(n_threads() - 1))]
        self._before = state_of(self.policy)
        self._known: dict[Any, FloatArray] = {}

    def probabilities(self, log: Log, start: int, stop: int) -> FloatArray:
        """Ask the policy about each distinct context of the rows once, in chunks that take a fraction of a second."""
        with_users = not self._runs_compiled or self.policy.needs_user_ids
        rows, place = _distinct_contexts(log, start, stop, with_users)
        answers = np.zeros((len(rows), log.n_actions))
        ask = self._ask_kernel if self._runs_compiled else self._ask_policy
        for first, end in timed_chunks(len(rows)):
            ask(log, rows[first:end], answers[first:end])
            judged = start + (stop - start) * end // len(rows)
            self._countdown.report(judged)
        return answers if len(rows) == stop - start else np.asarray(answers[place])

    def _ask_kernel(self, log: Log, rows: IntArray, out: FloatArray) -> None:
        policy: Any = self.policy
        ids = np.zeros(len(rows), np.int64) if log.user_ids is None else log.user_ids[rows]
        users = np.asarray(log.features[rows], np.float64)
        masks, mask_of = log.candidates.distinct_masks(log.candidate_set[rows])
        ends = np.linspace(0, len(rows), len(self._askable) + 1).astype(np.int64)

        def ask_some(number: int) -> None:
            part = slice(ends[number], ends[number + 1])
            state, candidates = self._askable[number]
            policy.tabulate(state, candidates, ids[part], users[part], masks, mask_of[part], out[part])

        in_threads(ask_some, len(self._askable))

    def _ask_policy(self, log: Log, rows: IntArray, out: FloatArray) -> None:
        read_only = _read_only(log)
        masks, mask_of = log.candidates.distinct_masks(log.candidate_set[rows])
        for place, row in enumerate(rows):
            context = logged_context(read_only, row, masks[mask_of[place]])
            key = (context.user_id, context.available.tobytes(), context.user.tobytes())
            if key not in self._known:
                if len(self._known) >= MOST_REMEMBERED:
                    self._known.clear()
                self._known[key] = self._propensities(context, int(row))
            out[place] = self._known[key]

    def _propensities(self, context: Context, row: int) -> FloatArray:
        with blamed(f"row {row}: "):
            chances = np.array(self.policy.propensities(context), np.float64)
        expected = context.available.shape
        if chances.shape != expected:
            raise PolicyError(f"row {row}: gives propensities of shape {chances.shape}, expected {expected}")
        return chances

    def finish(self) -> None:
        """Raise `PolicyError` if asking has changed the policy's state."""
        if state_of(self.policy) != self._before:
            raise PolicyError("changed its state while it was judged; propensities must only read")


class ModelTarget(PolicyTarget):
    """The policy of a model, which knows no visitor by an id: so it is when the model decides."""

    def __init__(self, model: Model, log: Log, progress: Progress = lambda line: None) -> None:
        super().__init__(model.policy, log, progress)

    def probabilities(self, log: Log, start: int, stop: int) -> FloatArray:
        """Ask the policy, without saying who the visitors are."""
        return super().probabilities(replace(log, user_ids=None), start, stop)


def _read_only(log: Log) -> Log:
    """Return a log whose arrays that policies see cannot be written to."""
    views = {name: getattr(log, name).view() for name in ("features", "products")}
    for view in views.values():
        view.flags.writeable = False
    return replace(log, **views)


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
    spec = spec_of(log)
    for name in ("user_dim", "product_dim"):
        if getattr(policy.spec, name) != getattr(spec, name):
            got = f"is made for {name} {getattr(policy.spec, name)}, the log has {getattr(spec, name)}"
            raise PolicyError(f"{got}; make it for zoosim.off_policy.spec_of(log)")
    if policy.needs_user_ids:
        if log.user_ids is None:
            raise PolicyError("knows visitors by their id, and the log has no user_id")
        check_ids(log.user_ids, policy.spec.n_users)


def _runs_compiled(policy: Policy) -> bool:
    """Whether a policy leaves its propensities to a kernel."""
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


def check_ids(user_ids: IntArray, n_users: int) -> None:
    """Refuse visitors that a policy does not know: compiled code would look for them outside of its arrays."""
    unknown = (user_ids < 0) | (user_ids >= n_users)
    if unknown.any():
        row = int(unknown.argmax())
        raise PolicyError(f"row {row}: user {user_ids[row]} is not one of 0 to {n_users - 1}, whom the policy knows")


def check_class(policy_class: type[Policy], log: Log) -> None:
    """Raise `PolicyError` for a class whose policies do not choose among the actions of a log."""
    if find_action_space(log.action_space).accepts(policy_class):
        return
    if not find_action_space(TEMPLATE_SPACE).accepts(policy_class):
        raise PolicyError("sets boosts, and the log is of single actions, by which it cannot be judged")
    if log.n_actions != len(TEMPLATES):
        raise PolicyError(
            f"chooses among {len(TEMPLATES)} templates of a search shop, the log has {log.n_actions} actions"
        )


def spec_of(log: Log) -> PolicySpec:
    """Return the task that a policy for a log is made for."""
    n_users = 0
    if log.user_ids is not None and log.user_ids.min() >= 0:
        n_users = int(log.user_ids.max()) + 1
    user_dim, product_dim = log.features.shape[1], log.products.shape[1]
    return PolicySpec(user_dim=user_dim, product_dim=product_dim, n_users=n_users, steps=len(log))


def visible_spec(log: Log) -> PolicySpec:
    """Return `spec_of` a log, or raise `DataError` where a policy would see no features at all."""
    if not log.features.shape[1] + log.products.shape[1]:
        advice = "which policies decide by; name features in a schema, or judge column:NAME or an array"
        raise DataError(f"the log holds no features of visitors or products, {advice}")
    return spec_of(log)


def make_target(given: Any, log: Log, progress: Progress = lambda line: None) -> Target:
    """Return the policy to evaluate: a `Policy`, a `Model`, a function, an array `(K,)` or `(n, K)`, or a column."""
    if isinstance(given, Target):
        return given
    if isinstance(given, Model):
        return ModelTarget(given, log, progress)
    if isinstance(given, Policy):
        return PolicyTarget(given, log, progress)
    if isinstance(given, str):
        return LoggedColumn(log.columns[column_name(log, given)])
    if callable(given):
        return Table(given)
    array = as_numbers(given, "a policy, a function, an array of probabilities or column:NAME")
    if array.shape not in ((log.n_actions,), (len(log), log.n_actions)):
        expected = f"{(log.n_actions,)} or {(len(log), log.n_actions)}"
        advice = "for the logged actions alone, name a column"
        raise ConfigError(f"got probabilities of shape {array.shape}, expected {expected}; {advice}")
    return Table(array)


def check_probabilities(asked: FloatArray, available: BoolArray, start: int) -> None:
    """Raise `PolicyError` for a row of `asked (m, K)` that is no distribution over its candidates `available (m, K)`.

    Rows count from `start`. A single column holds the probabilities of the logged products alone.
    """
    outside = ~((asked >= 0.0) & (asked <= 1.0 + TOLERANCE))
    if outside.any():
        row, action = np.argwhere(outside)[0]
        got = f"gives a probability of {asked[row, action]:g}"
        raise PolicyError(f"row {start + row}: {got}, expected 0 to 1 (none may be missing)")
    if asked.shape[1] == 1:
        return
    sums = asked.sum(axis=1)
    wrong = np.abs(sums - 1.0) > TOLERANCE
    if wrong.any():
        row = int(wrong.argmax())
        raise PolicyError(f"row {start + row}: probabilities add up to {sums[row]:.9g}, expected 1")
    gone = (asked > 0.0) & ~available
    if gone.any():
        row, action = np.argwhere(gone)[0]
        raise PolicyError(f"row {start + row}: gives action {action} a probability, which is not among the candidates")
