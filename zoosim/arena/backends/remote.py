"""The workers of an executor, perhaps on other machines: what they are sent, and what becomes of tasks that are lost.

Any `concurrent.futures.Executor` will do. It is given one function of zoosim and bytes, and returns bytes: all that a
task needs goes along, and all that comes of it comes back. Nothing is shared but zoosim's own code, which is compared.
"""

import math
import pickle
import time
import warnings
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from typing import Any, Generic, NamedTuple

from zoosim.arena.backends import R, Report, T, Work
from zoosim.arena.backends.worker import Answer, Parcel, answer, versions
from zoosim.core.blame import reason_of
from zoosim.core.errors import ConfigError

TRIES = 5
"""How often a task is sent to a worker before it is given up."""

MOST_IN_FLIGHT = 1_000
BYTES_IN_FLIGHT = 500_000_000
LEAST_IN_FLIGHT = 16
"""Tasks that are with the executor at once: each brings its parcel, which a scheduler holds in memory.

What tasks bring of their own takes as many bytes at most.
"""

FIRST_ANSWER = 300.0
"""Seconds within which a worker has to answer: clusters that grow take minutes to start one."""

QUIET = 5.0
"""Seconds after which it is said that nobody has answered yet."""

UNFIT = (ImportError, AttributeError, TypeError, pickle.PickleError)
"""Errors of executors that cannot send a function, and of workers that lack it: another try brings the same."""


class _Sent(NamedTuple, Generic[T]):
    """A task that is with the executor, how often it was sent, and the bytes that it brings beside the parcel."""

    task: T
    tries: int
    size: int


class Remote:
    """The workers of an executor."""

    jobs = None

    def __init__(self, executor: Executor) -> None:
        """Take an executor, which stays open."""
        self._executor = executor

    def greet(self, say: Callable[[str], None], seconds: float = FIRST_ANSWER) -> None:
        """Wait until a worker answers, and compare its code with this machine's.

        Args:
            say: Takes a line where this lasts.
            seconds: How long to wait.

        Raises:
            ConfigError: nobody answers, the executor cannot take work, or the worker has other code.
        """
        deadline = time.monotonic() + seconds
        says_at = time.monotonic() + QUIET
        reason = ""
        future = self._submit()
        while time.monotonic() < deadline:
            done, _ = wait([future], timeout=0.2)
            if done:
                received = _received(future)
                if isinstance(received, Answer):
                    return
                reason = f" ({received})"
                time.sleep(0.2)
                future = self._submit()
            if time.monotonic() > says_at:
                says_at = math.inf
                say("waiting for a worker of the executor")
        future.cancel()
        raise ConfigError(
            f"executor: no worker has answered within {seconds:g} s{reason}; start workers, and repeat this"
        )

    def run(self, work: Work[T, R], tasks: Sequence[T], report: Report) -> Generator[R, Any, None]:
        """Yield the result of each task; see `Backend.run`. What a task tells of comes at once, when it is done.

        Raises:
            ConfigError: the executor cannot take work, a worker has other code, or a class cannot be sent.
        """
        here = [task for task in tasks if work.stays(task)]
        away = [task for task in tasks if task not in here]
        if away:
            yield from self._dispatch(work, away, report)
        for task in here:
            yield work.compute(task, report)

    def _dispatch(self, work: Work[T, R], tasks: list[T], report: Report) -> Generator[R, Any, None]:
        parcel = _parcel(work, tasks)
        most = min(MOST_IN_FLIGHT, max(LEAST_IN_FLIGHT, BYTES_IN_FLIGHT // len(parcel)))
        waiting = deque((task, 1) for task in tasks)
        running: dict[Future[bytes], _Sent[T]] = {}
        try:
            while waiting or running:
                while waiting and len(running) < most and _has_room(running):
                    task, tries = waiting.popleft()
                    content = _pickled(work.loaded(task))
                    running[self._submit(parcel, content)] = _Sent(task, tries, len(content))
                # A timeout, so that an interrupt is heard on all systems.
                done, _ = wait(running, timeout=1.0, return_when=FIRST_COMPLETED)
                # In the order in which they were sent: of several errors the first is raised.
                for future in [future for future in running if future in done]:
                    task, tries, _ = running.pop(future)
                    received = _received(future)
                    if isinstance(received, Answer):
                        for line in received.reports:
                            report(*line)
                        yield received.result
                    elif tries < TRIES:  # a task leaves nothing behind, so that it can be tried again
                        # Soon, as what comes of others may wait for it, but not at once: workers have to come back.
                        waiting.insert(LEAST_IN_FLIGHT, (task, tries + 1))
                    else:
                        yield work.lost(task, f"its worker was lost {tries} times ({received})")
        finally:
            for future in running:
                future.cancel()

    def _submit(self, *content: bytes) -> Future[bytes]:
        """Hand a task to the executor; raises `ConfigError` where it takes none."""
        try:
            with warnings.catch_warnings():
                # Dask's advice to load large data on its workers: they may share no disk with this machine.
                warnings.filterwarnings("ignore", "Sending large graph")
                return self._executor.submit(answer, versions(), *content)
        except Exception as error:
            kind = type(self._executor).__name__
            raise ConfigError(
                f"executor: {kind} takes no work ({reason_of(error)}); repeat this with one that does, of a run what "
                "is finished is kept"
            ) from error


def _has_room(running: Mapping[Future[bytes], _Sent[T]]) -> bool:
    """Return whether what tasks bring along leaves memory for one more; two are always with the executor."""
    return len(running) < 2 or sum(sent.size for sent in running.values()) < BYTES_IN_FLIGHT


def _parcel(work: Work[T, R], tasks: Sequence[T]) -> bytes:
    """Return what all tasks share; raises `ConfigError` where it cannot be sent."""
    files = work.files(tasks)
    return _pickled(Parcel(work, tuple((name, path.as_posix(), path.read_bytes()) for name, path in files.items())))


def _pickled(value: Any) -> bytes:
    try:
        return pickle.dumps(value)
    except Exception as error:
        raise ConfigError(
            f"executor: a part of the run cannot be sent ({reason_of(error)}); give your classes as FILE.py:Class"
        ) from error


def _received(future: Future[bytes]) -> Answer | str:
    """Return a worker's answer, or in words how it was lost; raises what ended the task, or why it was refused."""
    try:
        received: Answer = pickle.loads(future.result())
    except UNFIT as error:
        raise ConfigError(
            f"executor: its workers cannot take work ({reason_of(error)}); they need this zoosim, and the executor has "
            "to pickle functions and bytes"
        ) from error
    except Exception as error:
        return reason_of(error)
    if received.refusal:
        raise ConfigError(f"executor: a worker {received.refusal}")
    if received.error is not None:
        raise received.error
    return received
