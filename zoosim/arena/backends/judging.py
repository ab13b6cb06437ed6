"""Blocks of a log's rows that workers of an executor weigh for an evaluation.

A worker is sent the policy, and of each block what policies are asked about: it needs neither the log nor a disk that
is shared. What only this process can ask, such as a function, is asked here.
"""

import io
import pickle
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from zoosim.arena.backends import Backend, Report, Work
from zoosim.arena.run_files import policy_files
from zoosim.core.blame import blamed
from zoosim.core.countdown import Countdown
from zoosim.core.errors import PolicyError
from zoosim.core.parameters import parameters_of
from zoosim.core.threads import one_thread
from zoosim.core.types import FloatArray, IntArray, Progress
from zoosim.core.user_code import class_in_file, file_source
from zoosim.logs.log import Log
from zoosim.models.linear_rewards import RewardModel
from zoosim.off_policy.actions.product_weights import (
    DrawnVisits,
    RowBlock,
    Spread,
    Weighed,
    WeighedBlock,
    Weighing,
    weigh_here,
)
from zoosim.off_policy.targets.products import ModelTarget, PolicyTarget
from zoosim.off_policy.targets.retrieving import RetrievingTarget
from zoosim.policies.base import Policy, policy_name
from zoosim.policies.registry import BUILT_IN, PolicyEntry, find_class, make_entry

ASKED = ("actions", "propensities", "marginals", "features", "user_ids")
"""Arrays of a log, a row per visit, that policies are asked about or their answers are weighed by."""

OWN_CLASS = "class of the policy"


@contextmanager
def spread_over(backend: Backend) -> Iterator[Spread]:
    """Yield what has blocks of rows weighed by a backend, for `zoosim.off_policy.evaluate`."""

    def spread(weighing: Weighing, blocks: Sequence[slice], progress: Progress) -> Weighed:
        work = _work(weighing)
        if work is None:
            yield from weigh_here(weighing, blocks, progress)
            return
        countdown = Countdown(progress, "judged", len(weighing.log), "rows")
        n_judged = 0
        tasks = [BlockTask(number, rows) for number, rows in enumerate(blocks)]
        with closing(backend.run(work, tasks, lambda *line: None)) as results:
            for number, block in results:
                n_judged += len(block.weights)
                countdown.report(n_judged)
                yield number, block

    yield spread


class BlockContent(NamedTuple):
    """Content of a block of m rows: `arrays` of the log by name, what reward models see, and visits counted in it."""

    arrays: Mapping[str, Any]
    inputs: FloatArray
    fold: IntArray
    visits: DrawnVisits


class BlockTask(NamedTuple):
    """A block of rows by its number; its content is there once it is sent."""

    number: int
    rows: slice
    content: BlockContent | None = None


class BlockWork(Work[BlockTask, tuple[int, WeighedBlock]]):
    """Weighs blocks of rows by one policy; it is sent without the log, and each task with the rows of its block.

    Args:
        weighing: What is asked about the log's rows.
        entry: The class of the policy.
    """

    def __init__(self, weighing: Weighing, entry: PolicyEntry) -> None:
        target = weighing.target
        assert isinstance(target, PolicyTarget)
        self._weighing: Weighing | None = weighing
        self._knows_users = not isinstance(target, ModelTarget)
        self._retrieves = isinstance(target, RetrievingTarget)
        self._entry = entry
        self._policy = pickled_policy(target.policy)
        self._log = _without_rows(weighing.log)
        self._models = [_without_inputs(model) for model in weighing.models]
        self._features = weighing.features
        self._target: PolicyTarget | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Return what is sent: all but the log."""
        return vars(self) | {"_weighing": None}

    def loaded(self, task: BlockTask) -> BlockTask:
        """Return a task with the content of its rows."""
        assert self._weighing is not None
        log = self._weighing.log
        rows: Any = task.rows
        arrays = {name: getattr(log, name)[rows] for name in ASKED if getattr(log, name) is not None}
        if not self._knows_users:
            arrays.pop("user_ids", None)
        if self._retrieves and log.candidate_sources is not None:
            arrays["candidate_sources"] = log.candidate_sources.taken(lambda values: values[rows])
        arrays["candidates"], arrays["candidate_set"] = log.candidates.only(log.candidate_set[rows])
        arrays["numbers"] = np.arange(rows.start, rows.stop) if log.numbers is None else log.numbers[rows]
        own = self._weighing.models_of(rows)
        inputs = own[0].inputs if own else np.zeros((0, 0))
        fold = own[0].fold if own else np.zeros(0, np.int64)
        return task._replace(content=BlockContent(arrays, inputs, fold, self._weighing.visits.inside(rows)))

    def compute(self, task: BlockTask, report: Report) -> tuple[int, WeighedBlock]:
        """Return the number of a block, and what comes of it."""
        assert task.content is not None
        arrays, inputs, fold, visits = task.content
        log = replace(self._log, **arrays)
        models = [model._replace(inputs=inputs, fold=fold) for model in self._models]
        # With more threads of BLAS the last digits depend on how many there are; other workers use the other cores.
        with threadpool_limits(1), one_thread():
            if self._target is None:
                with blamed("cannot be read by a worker: "):
                    policy = PolicyUnpickler(io.BytesIO(self._policy), self._entry).load()
                self._target = (RetrievingTarget if self._retrieves else PolicyTarget)(policy, log)
            block = RowBlock(log, slice(0, len(log)), models, visits).weigh(self._target, self._features)
            self._target.finish()
        return task.number, block

    def lost(self, task: BlockTask, reason: str) -> tuple[int, WeighedBlock]:
        """Raise `PolicyError`: without these rows there is no estimate."""
        raise PolicyError(f"rows {task.rows.start} to {task.rows.stop - 1}: {reason}; see that workers have the memory")

    def files(self, tasks: Sequence[BlockTask]) -> Mapping[str, Path]:
        """Return the file of the policy's class, and the modules beside it."""
        return policy_files([self._entry])

    def fault(self, task: BlockTask) -> str:
        """Return that the policy's class, which is found by its module, is another here; files come along."""
        return self._entry.fault


class PolicyPickler(pickle.Pickler):
    """Pickles a policy with all that it holds, declared or not; its class, and those of a user's file, by their names.

    Another machine finds these in other modules.
    """

    def __init__(self, file: IO[bytes], policy_class: type[Policy]) -> None:
        super().__init__(file)
        self._policy_class = policy_class

    def persistent_id(self, obj: Any) -> str | None:
        """Return `OWN_CLASS`, `FILE.py:Class` of another class in a user's file, or None for what is pickled whole."""
        if obj is self._policy_class:
            return OWN_CLASS
        return file_source(obj) if isinstance(obj, type) else None


class PolicyUnpickler(pickle.Unpickler):
    """Reads what `PolicyPickler` wrote."""

    def __init__(self, file: IO[bytes], entry: PolicyEntry) -> None:
        super().__init__(file)
        self._policy_class = entry.cls

    def persistent_load(self, pid: str) -> type:
        """Return a class by its name."""
        return self._policy_class if pid == OWN_CLASS else class_in_file(pid, "policy", PolicyError)


def pickled_policy(policy: Policy) -> bytes:
    """Return a policy as bytes; raises what pickling does where it holds what cannot be sent."""
    file = io.BytesIO()
    PolicyPickler(file, type(policy)).dump(policy)
    return file.getvalue()


def _work(weighing: Weighing) -> BlockWork | None:
    """Return the work of workers; None where they cannot be sent what is asked."""
    if not isinstance(weighing.target, PolicyTarget):
        return None
    entry = _entry_of(weighing.target.policy)
    if entry.lives_here:
        return None
    try:
        return BlockWork(weighing, entry)
    except (pickle.PicklingError, AttributeError, TypeError):  # it holds what cannot be pickled
        return None


def _entry_of(policy: Policy) -> PolicyEntry:
    """Return how a policy's class is found on another machine."""
    cls = type(policy)
    name = policy_name(cls)
    is_built_in = name in BUILT_IN and find_class(name) is cls
    params = {key: getattr(policy, key) for key in parameters_of(cls)}
    source = name if is_built_in else file_source(cls)
    return make_entry(cls, params=params) if source is None else PolicyEntry(name, source, params)


def _without_rows(log: Log) -> Log:
    """Return what policies see of a log beside its rows."""
    nothing = np.zeros(0)
    return Log(
        actions=nothing,
        propensities=nothing,
        rewards=nothing,
        candidates=log.candidates.only(np.zeros(0, np.int64))[0],
        candidate_set=np.zeros(0, np.int64),
        features=np.zeros((0, log.features.shape[1])),
        positions=np.zeros(0, np.int64),
        products=log.products,
        categories=log.categories,
        source=log.source,
        action_space=log.action_space,
        ids=log.ids,
    )


def _without_inputs(model: RewardModel) -> RewardModel:
    """Return a reward model without the rows that it was fitted to."""
    return model._replace(inputs=np.zeros((0, 0)), fold=np.zeros(0, np.int64))
