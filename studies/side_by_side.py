"""Plain functions done side by side, in processes of this machine."""

import multiprocessing
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

from threadpoolctl import threadpool_limits

from zoosim.arena.backends.local import start_pool, without_main
from zoosim.core.errors import PolicyError

T = TypeVar("T")
R = TypeVar("R")


def side_by_side(
    work: Callable[[T], R], tasks: Sequence[T], *, jobs: int, done: Callable[[T, R], None] = lambda task, result: None
) -> list[R]:
    """Return `work(task)` of each of the `tasks`, in their order, on so many processes, one thread each.

    `work` is a function of a module, and `done` is called here as each is finished. An error in one ends all;
    `PolicyError` when a process died.
    """
    if jobs == 1 or len(tasks) < 2:
        return [_alone(work, task, done) for task in tasks]
    pool = start_pool(min(jobs, len(tasks)))
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
