"""Run compiled kernels, which release the interpreter's lock, side by side."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor


def n_threads() -> int:
    """Return how many threads this process may run at once."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_threads(work: Callable[[int], None], pieces: int) -> None:
    """Call `work` with 0 to `pieces - 1`; it must write where no other piece does. Raises what it raises."""
    if pieces == 1:
        return work(0)
    with ThreadPoolExecutor(min(pieces, n_threads())) as pool:
        list(pool.map(work, range(pieces)))
