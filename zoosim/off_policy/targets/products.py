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
from zoosim.core.blocks import extremes, row_blocks
from zoosim.core.countdown import Countdown
from zoosim.core.distributions import Distributions
from zoosim.core.errors import ConfigError, DataError, PolicyError
from zoosim.core.search_names import MOST_TEMPLATES, TEMPLATES
from zoosim.core.threads import in_threads, n_threads
from zoosim.core.types import NOBODY, Context, FloatArray, IntArray, PolicySpec, Progress
from zoosim.logs.log import Log
from zoosim.logs.schema import CANDIDATE_PROPENSITIES
from zoosim.off_policy.targets.base import as_numbers, column_name, state_of
from zoosim.policies.base import Policy, logged_context
from zoosim.policies.model import Model
from zoosim.policies.requests import SUM_TOLERANCE, check_finite, dense_propensities
from zoosim.policies.retrieving import RetrievingPolicy
from zoosim.policies.tabulating import TabulatingPolicy, tabulates

MOST_REMEMBERED, MOST_CONTEXTS = 2**23, 100_000
"""Probabilities, and contexts, that are kept, so that a policy is asked about each context once."""

MOST_READERS = 8
"""Threads that ask a policy side by side at most: each may have a copy of its state."""

FIRST_ROWS = 16
CHUNK_SECONDS = 0.2
"""Seconds that a policy is asked without a line of progress, or a chance to interrupt it."""

IN_MEMORY = "which goes with a log in memory alone; name a column or a saved model, or leave out --stream"
"""Advice on what cannot be asked about rows that are read in blocks."""

Probabilities = Callable[[Log, int, int], FloatArray]
"""A function (log, start, stop) that gives the probabilities of rows start to stop - 1: `(stop - start, K)`, or those
of `log.candidate_lists(start, stop)`, one row after another `(c,)`."""


class Target(ABC):
    """A policy to be evaluated on a log."""

    whole = True
    """True if the probabilities of all products are known, as reward models need; else those of the logged ones are."""

    counts: FloatArray = np.zeros(0)
    """What it counts in the rows that it is asked about; those of blocks of rows are added up."""

    @property
    def answers_any(self) -> bool:
        """True if it can be asked about other visitors than the log's, of whom nothing but features is known."""
        return False

    @property
    def missed(self) -> float | None:
        """The share of its choices that could not be shown in the rows asked about; None where weights tell."""
        return None

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks on what was asked, once it was."""
        return ()

    def logged(self, log: Log) -> FloatArray:
        """Return the log's probabilities of its actions that the target's are weighed by `(n,)`."""
        return log.propensities

    @abstractmethod
    def distributions(self, log: Log, start: int, stop: int) -> Distributions:
        """Return those of rows `start` to `stop - 1`."""

    def widths(self, log: Log, rows: slice) -> IntArray:
        """Return how many probabilities each of m rows takes `(m,)`: those of its candidates, or of all products."""
        if log.candidates.are_listed:
            return log.candidate_lists(rows.start, rows.stop).lengths
        return np.full(rows.stop - rows.start, log.n_actions)


class LoggedColumn(Target):
    """Target probabilities of the logged actions, NaN where they are missing.

    Args:
        values_in: Returns those of a log's rows `(n,)`.
    """

    whole = False

    def __init__(self, values_in: Callable[[Log], FloatArray]) -> None:
        self.values_in = values_in

    def distributions(self, log: Log, start: int, stop: int) -> Distributions:
        """Return the column's rows."""
        m = stop - start
        values = self.values_in(log)[start:stop]
        return Distributions.over(log.actions[start:stop], np.arange(m), np.ones(m, np.int64), values)


class LoggedDistributions(Target):
    """Probabilities of all candidates as the log holds them, scaled to add up to 1: logs may round."""

    def __init__(self, log: Log) -> None:
        self.starts = np.append(0, np.cumsum(log.candidate_lists(0, len(log)).lengths))

    def distributions(self, log: Log, start: int, stop: int) -> Distributions:
        """Return the log's rows."""
        assert log.candidate_propensities is not None
        starts = self.starts[start : stop + 1]
        answer = np.asarray(log.candidate_propensities[starts[0] : starts[-1]], float)
        sums = np.add.reduceat(answer, starts[:-1] - starts[0])
        return _as_distributions(answer / np.repeat(sums, np.diff(starts)), log, start, stop)


class TabulatedTarget(Target):
    """Distributions that are known for each row of a log."""

    def __init__(self, given: Distributions) -> None:
        self.given = given

    def distributions(self, log: Log, start: int, stop: int) -> Distributions:
        """Return the table's rows."""
        return self.given.rows(slice(start, stop))


class FunctionTarget(Target):
    """A function of the log's rows."""

    def __init__(self, given: Probabilities) -> None:
        self.given = given

    @property
    def answers_any(self) -> bool:
        """True: it is given the log."""
        return True

    def distributions(self, log: Log, start: int, stop: int) -> Distributions:
        """Ask the function."""
        with blamed(f"rows {start} to {stop - 1}: "):
            answer = np.asarray(self.given(log, start, stop), float)
        return _as_distributions(answer, log, start, stop)

    def widths(self, log: Log, rows: slice) -> IntArray:
        """Ask for the first row whether the function answers for all products of a large catalogue."""
        is_dense = log.candidates.are_listed and np.ndim(self.given(log, 0, 1)) > 1
        return np.full(rows.stop - rows.start, log.n_actions) if is_dense else super().widths(log, rows)


class PolicyTarget(Target):
    """A policy object, of which a frozen copy is asked for propensities."""

    def __init__(self, policy: Policy, log: Log, progress: Progress = lambda line: None) -> None:
        check_class(type(policy), log)
        with blamed("cannot be copied, and a copy is what is judged: "):
            self.policy = copy.deepcopy(policy)
        _check_spec(self.policy, log)
        self._countdown = Countdown(progress, "judged", len(log), "rows")
        self._n_judged = 0
        self._askable: list[tuple[Any, Any]] = []
        self._tabulates = tabulates(self.policy)
        if isinstance(self.policy, TabulatingPolicy):
            for rows in row_blocks(len(log)):
                check_finite("user", np.ascontiguousarray(log.features[rows]))
            # What the policy finds in the products is part of its state, and room is made as before each decision.
            candidates = self.policy.attach_block(log.product_ids, log.products, 1)
            self._askable = self.policy.readers(candidates, min(n_threads(), MOST_READERS))
        self._before = state_of(self.policy)
        self._known: dict[Any, FloatArray] = {}

    @property
    def answers_any(self) -> bool:
        """True unless it knows visitors by their ids."""
        return not (self.policy.needs_user_ids or self.policy.reads_user_ids)

    def distributions(self, log: Log, start: int, stop: int) -> Distributions:
        """Ask the policy about each distinct context of the rows once, in chunks that take a fraction of a second."""
        with_users = not self._tabulates or self.policy.needs_user_ids or self.policy.reads_user_ids
        rows, place = distinct_contexts(log, start, stop, with_users)
        answers = _zeros(log, rows)
        ask = self._ask_at_once if self._tabulates and answers.are_dense else self._ask_policy
        for first, end in timed_chunks(len(rows)):
            ask(log, rows[first:end], answers.rows(slice(first, end)))
            self._countdown.report(self._n_judged + (stop - start) * end // len(rows))
        self._n_judged += stop - start
        return answers.rows(place)

    def _ask_at_once(self, log: Log, rows: IntArray, answers: Distributions) -> None:
        policy: Any = self.policy
        # Chunks of answers share one array; this one's rows begin where its first row starts.
        out = answers.probabilities.reshape(-1, log.n_actions)[answers.starts[0] // log.n_actions :]
        ids = np.full(len(rows), NOBODY) if log.user_ids is None else log.user_ids[rows]
        users = np.asarray(log.features[rows], np.float64)
        masks, mask_of = log.candidates.distinct_masks(log.candidate_set[rows])
        ends = np.linspace(0, len(rows), len(self._askable) + 1).astype(np.int64)

        def ask_some(number: int) -> None:
            part = slice(ends[number], ends[number + 1])
            state, candidates = self._askable[number]
            if ends[number] < ends[number + 1]:
                policy.tabulate(state, candidates, ids[part], users[part], masks, mask_of[part], out[part])

        in_threads(ask_some, len(self._askable))

    def _ask_policy(self, log: Log, rows: IntArray, answers: Distributions) -> None:
        for row, context, start in zip(rows, _contexts(log, rows), answers.starts, strict=True):
            key = (context.user_id, context.product_ids.tobytes(), context.available.tobytes(), context.user.tobytes())
            if key not in self._known:
                n_known = len(self._known) + 1
                if n_known > MOST_CONTEXTS or n_known * len(context.available) > MOST_REMEMBERED:
                    self._known.clear()
                self._known[key] = self._propensities(context, row_number(log, int(row)))
            answers.probabilities[start : start + len(context.available)] = self._known[key]

    def _propensities(self, context: Context, row: int) -> FloatArray:
        with blamed(f"row {row}: "):
            chances = np.array(dense_propensities(self.policy, context), np.float64)
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

    def distributions(self, log: Log, start: int, stop: int) -> Distributions:
        """Ask the policy, without saying who the visitors are."""
        return super().distributions(replace(log, user_ids=None), start, stop)


def _contexts(log: Log, rows: IntArray) -> Iterator[Context]:
    """Yield the request of each of `rows (m,)`, read-only; of a large catalogue, with the listed candidates alone."""
    views = {name: getattr(log, name).view() for name in ("features", "products")}
    for view in views.values():
        view.flags.writeable = False
    log = replace(log, **views)
    if log.candidates.are_listed:
        lists = log.candidates.lists(log.candidate_set[rows])
        for place, row in enumerate(rows):
            candidates = lists.of(place)
            available = np.ones(len(candidates), bool)
            available.flags.writeable = False
            yield logged_context(log, row, available, candidates)
    else:
        masks, mask_of = log.candidates.distinct_masks(log.candidate_set[rows])
        for place, row in enumerate(rows):
            yield logged_context(log, row, masks[mask_of[place]])


def _zeros(log: Log, rows: IntArray) -> Distributions:
    """Return zeros for `rows (m,)`, to be filled in: over the candidates that a large catalogue's list, or dense."""
    if not log.candidates.are_listed:
        return Distributions.dense(np.zeros((len(rows), log.n_actions)))
    lists = log.candidates.lists(log.candidate_set[rows])
    return Distributions.over(*lists, np.zeros(lists.lengths.sum()))


def _as_distributions(answer: FloatArray, log: Log, start: int, stop: int) -> Distributions:
    """Return probabilities `(m, K)`, or of the candidates that rows `start` to `stop - 1` list `(c,)`, as these rows.

    Raises `PolicyError` for another shape, and for a probability beside the lists of a large catalogue.
    """
    lists = log.candidate_lists(start, stop)
    if answer.shape == (lists.lengths.sum(),) and not log.candidates.are_lacking:
        rows = Distributions.over(*lists, answer)
        return rows if log.candidates.are_listed else Distributions.dense(rows.matrix(log.n_actions))
    if answer.shape != (stop - start, log.n_actions):
        raise PolicyError(f"gives probabilities of shape {answer.shape}, expected {(stop - start, log.n_actions)}")
    if not log.candidates.are_listed:
        return Distributions.dense(answer)
    # One row for all of them, as an array (K,) comes here, is not to be gone through for each.
    counts = np.count_nonzero(answer[:1] if answer.strides[0] == 0 else answer, axis=1)
    owner, products = lists.flat()
    within = answer[owner, products]
    is_outside = np.bincount(owner, within != 0.0, len(answer)) < counts
    if is_outside.any():
        row = int(is_outside.argmax())
        raise PolicyError(_outside(start + row, np.setdiff1d(np.flatnonzero(answer[row]), lists.of(row))[0]))
    return Distributions.over(*lists, within)


def timed_chunks(rows: int) -> Iterator[tuple[int, int]]:
    """Yield (start, stop) up to `rows`, each so long that whoever uses it takes about `CHUNK_SECONDS`."""
    start = 0
    size = FIRST_ROWS
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
    if policy.spec.templates and spec.templates and policy.spec.templates != spec.templates:
        raise PolicyError(
            f"was made for the templates {', '.join(policy.spec.templates)}, the log is of "
            f"{', '.join(spec.templates)}; judge it by a log of its own shop"
        )
    if policy.needs_user_ids:
        if log.user_ids is None:
            raise PolicyError("knows visitors by their id, and the log has no user_id")
        check_ids(log.user_ids, policy.spec.n_users)


def distinct_contexts(log: Log, start: int, stop: int, with_users: bool) -> tuple[IntArray, IntArray]:
    """Return rows that stand for all from `start` to `stop - 1`, and for each of these which one stands for it.

    Rows are alike that have the same features, candidates and, `with_users`, user.
    """
    # As bits, beside whole numbers in one array; 0.0 and -0.0 are then two
    # contexts, which costs no more than one answer.
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


def check_ids(user_ids: Any, n_users: int) -> None:
    """Refuse visitors that a policy does not know: compiled code would look for them outside of its arrays."""
    for rows in row_blocks(len(user_ids)):
        ids = user_ids[rows]
        unknown = (ids < 0) | (ids >= n_users)
        if unknown.any():
            row = int(unknown.argmax())
            expected = f"one of 0 to {n_users - 1}, whom the policy knows"
            raise PolicyError(f"row {rows.start + row}: user {ids[row]} is not {expected}")


def check_class(policy_class: type[Policy], log: Log) -> None:
    """Raise `PolicyError` for a class whose policies do not choose among the actions of a log."""
    if find_action_space(log.action_space).accepts(policy_class):
        return
    if not find_action_space(TEMPLATE_SPACE).accepts(policy_class):
        raise PolicyError("sets boosts, and the log is of single actions, by which it cannot be judged")
    if not _templates_of(log) and log.n_actions != len(TEMPLATES):
        raise PolicyError(
            "chooses among the templates of a search shop, one in each category of the log's catalogue, and the log "
            f"has {log.n_actions} actions in {len(set(log.categories))} categories"
        )


def _templates_of(log: Log) -> tuple[str, ...]:
    """Return the names of the templates that a log of a search shop is of, () where it may be of anything else."""
    names = log.categories
    return names if log.n_actions <= MOST_TEMPLATES and len(set(names)) == log.n_actions else ()


def spec_of(log: Log) -> PolicySpec:
    """Return the task that a policy for a log is made for."""
    n_users = 0
    if log.user_ids is not None:
        first, last = (int(user) for user in extremes(log.user_ids))
        n_users = last + 1 if first >= 0 else 0
    user_dim = log.features.shape[1]
    product_dim = log.products.shape[1]
    return PolicySpec(
        user_dim=user_dim, product_dim=product_dim, n_users=n_users, steps=len(log), templates=_templates_of(log)
    )


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
    policy = given.policy if isinstance(given, Model) else given
    if isinstance(policy, RetrievingPolicy) and (log.candidate_sources or log.candidates.are_listed):
        from zoosim.off_policy.targets.retrieving import RetrievingTarget

        return RetrievingTarget(policy, log, progress)
    if isinstance(given, Model):
        return ModelTarget(given, log, progress)
    if isinstance(given, Policy):
        return PolicyTarget(given, log, progress)
    if isinstance(given, str):
        if given == f"column:{CANDIDATE_PROPENSITIES}" and log.candidate_propensities is not None:
            return LoggedDistributions(log)
        name = column_name(log, given)
        return LoggedColumn(lambda rows: rows.columns[name])
    if callable(given):
        if log.is_streamed:
            raise ConfigError(f"got a function, {IN_MEMORY}")
        return FunctionTarget(given)
    array = as_numbers(given, "a policy, a function, an array of probabilities or column:NAME")
    shape = (len(log), log.n_actions)
    if array.shape not in (shape[1:], shape):
        advice = "for the logged actions alone, name a column"
        raise ConfigError(f"got probabilities of shape {array.shape}, expected {shape[1:]} or {shape}; {advice}")
    if array.ndim > 1 and log.is_streamed:
        raise ConfigError(f"got probabilities for each row, {IN_MEMORY}")
    if array.ndim > 1 and not log.candidates.are_listed:
        return TabulatedTarget(Distributions.dense(array))
    array = np.broadcast_to(array, shape)
    if log.candidates.are_listed or log.is_streamed:
        return FunctionTarget(lambda log, start, stop: array[start:stop])
    return TabulatedTarget(Distributions.dense(array[:1]).rows(np.zeros(len(log), np.int64)))


def check_probabilities(asked: Distributions, log: Log, start: int, *, whole: bool) -> None:
    """Raise `PolicyError` for a row that is no distribution over its candidates.

    Args:
        asked: The distributions of rows from `start` on.
        log: The log.
        start: The number of the first row.
        whole: Whether they are over all candidates, so that they add up to 1, or of logged products alone.
    """
    for i, length in enumerate(asked.lengths.tolist()):
        row = asked.probabilities[asked.starts[i] : asked.starts[i] + length]
        # Negated, so that NaN, which compares false, is outside as well.
        outside = row[~((row >= 0.0) & (row <= 1.0 + SUM_TOLERANCE))]
        if len(outside):
            got = f"gives a probability of {outside[0]:g}"
            raise PolicyError(f"row {row_number(log, start + i)}: {got}, expected 0 to 1 (none may be missing)")
        if whole and abs(row.sum() - 1.0) > SUM_TOLERANCE:
            raise PolicyError(f"row {row_number(log, start + i)}: probabilities add up to {row.sum():.9g}, expected 1")
        if whole and asked.are_dense:
            gone = (row > 0.0) & ~log.available(start + i, start + i + 1)[0]
            if gone.any():
                raise PolicyError(_outside(row_number(log, start + i), int(gone.argmax())))


def row_number(log: Log, row: int) -> int:
    """Return the number of a row in the source."""
    return row if log.numbers is None else int(log.numbers[row])


def _outside(row: int, action: int) -> str:
    return f"row {row}: gives action {action} a probability, which is not among the candidates"
