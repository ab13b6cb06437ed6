"""Run side by side what releases the interpreter's lock: compiled kernels, polars, much of numpy."""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


_is_alone: ContextVar[bool] = ContextVar("_is_alone", default=False)


@contextmanager
def one_thread() -> Iterator[None]:
    """Let `n_threads` return 1 meanwhile: other processes use the machine's other cores."""
    before = _is_alone.set(True)
    try:
        yield
    finally:
        _is_alone.reset(before)


def n_threads() -> int:
    """Return how many threads this process may run at once."""
    if _is_alone.get():
        return 1
    # Not the machine's cores: a container, or `taskset`, may allow this process fewer.
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_threads(work: Callable[[int], None], pieces: int) -> None:
    """Call `work` with 0 to `pieces - 1`; it must write where no other piece does. Raises what it raises."""
    map_in_threads(work, range(pieces))


def map_in_threads(function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """Return what a function makes of each item, in their order. Raises what it raises first."""
    threads = min(len(items), n_threads())
    if threads < 2:
        return [function(item) for item in items]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(function, items))
