"""Worker processes: how they start and end, and plain functions done side by side."""

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any, TypeVar

from threadpoolctl import threadpool_limits

from zoosim.core.errors import PolicyError

T = TypeVar("T")
R = TypeVar("R")


def default_jobs() -> int:
    """Return how many processes this machine runs at once."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def without_main() -> Iterator[None]:
    """Keep workers that start meanwhile from running the user's script again, which may have no main guard."""
    main = vars(sys.modules["__main__"])
    hidden = {name: main.get(name) for name in ("__file__", "__spec__")}
    main.pop("__file__", None)
    main["__spec__"] = None
    try:
        yield
    finally:
        main.update({name: value for name, value in hidden.items() if value is not None or name == "__spec__"})


def set_up() -> None:
    """Set a worker up: the parent alone answers Ctrl-C, what policies print goes to standard error, no worker stays."""
    os.dup2(2, 1)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def side_by_side(
    work: Callable[[T], R], tasks: Sequence[T], *, jobs: int, done: Callable[[T, R], None] = lambda task, result: None
) -> list[R]:
    """Return `work(task)` of each of the `tasks`, in their order, on so many processes, one thread each.

    `work` is a function of a module, and `done` is called here as each is finished. An error in one ends all;
    `PolicyError` when a process died.
    """
    if jobs == 1 or len(tasks) < 2:
        return [_alone(work, task, done) for task in tasks]
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(min(jobs, len(tasks)), mp_context=context, initializer=set_up)
    try:
        with without_main():
            futures = {pool.submit(_work, work, task): task for task in tasks}
            _tell(futures, done)
    except BrokenProcessPool:
        raise PolicyError("a process died: it exited, crashed, or was killed for its memory; try fewer jobs") from None
    except BaseException:
        for child in multiprocessing.active_children():
            child.terminate()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
    return [future.result() for future in futures]


def _alone(work: Callable[[T], R], task: T, done: Callable[[T, R], None]) -> R:
    result = _work(work, task)
    done(task, result)
    return result


def _work(work: Callable[[T], R], task: T) -> R:
    with threadpool_limits(1):
        return work(task)


def _tell(futures: dict[Future[R], T], done: Callable[[T, R], None]) -> None:
    left: set[Future[Any]] = set(futures)
    while left:
        ready, left = wait(left, return_when=FIRST_COMPLETED)
        for future in ready:
            done(futures[future], future.result())
