"""Worker processes of this machine: how they start, report and end, and what becomes of tasks whose process died."""

import multiprocessing
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from functools import cache, partial
from multiprocessing import forkserver, resource_tracker
from typing import Any

import numpy as np

from zoosim.arena.backends import R, Report, T, Work
from zoosim.core.errors import ConfigError
from zoosim.watched import end_quickly

MOST_STARTS = 10
SECONDS_BETWEEN_STARTS = 0.2
DIED = "its process died: it exited, crashed, or was killed for its memory"


def default_jobs() -> int:
    """Return how many processes this machine runs at once."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


_starting = threading.RLock()
"""Held while processes start: what a thread hides or sets meanwhile it undoes after that, for those of others too."""


@contextmanager
def without_main() -> Iterator[None]:
    """Keep workers that start meanwhile from running the user's script again, which may have no main guard."""
    with _starting:
        main = vars(sys.modules["__main__"])
        hidden = {name: main.get(name) for name in ("__file__", "__spec__")}
        main.pop("__file__", None)
        main["__spec__"] = None
        try:
            yield
        finally:
            main.update({name: value for name, value in hidden.items() if value is not None or name == "__spec__"})


@contextmanager
def _same_imports() -> Iterator[None]:
    """Make Python processes that start meanwhile import from where this one does, and not from the working directory.

    The process that workers are forked from may not take over `sys.path`, as a worker that is spawned does: it would
    import another zoosim than this program, or a file of the user's that is called as a library is.
    """
    variables = {"PYTHONPATH": os.pathsep.join(os.path.abspath(path) for path in sys.path), "PYTHONSAFEPATH": "1"}
    earlier = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in earlier.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@cache
def worker_context() -> Any:
    """Return what starts workers: on Linux, forks of one process that imports what they need, and has started.

    A worker that imports it all itself takes 2 seconds to start, and as much memory as the first. Elsewhere libraries
    of the system may not survive a fork.
    """
    if sys.platform != "linux" or sys.flags.ignore_environment:  # without it that process cannot be told of `sys.path`
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["zoosim.arena.backends.preloaded"])
    # Ctrl-C in a terminal reaches that process, too, which would print a traceback while it imports. The tracker of
    # resources comes first, since its start lets signals through again.
    resource_tracker.ensure_running()
    earlier = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        with _starting, _same_imports():
            forkserver.ensure_running()
    except OSError:
        # This process was forked from one that has started it, and cannot watch over it; or the folder for temporary
        # files, where its socket lies, has too long a path.
        return multiprocessing.get_context("spawn")
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, earlier)
    # Who is interrupted while that process imports leaves nothing behind that a worker would look for in vain.
    try:
        with without_main():
            first = context.Process(target=_do_nothing)
            first.start()
    except (OSError, EOFError):  # it was killed while it imported
        return multiprocessing.get_context("spawn")
    first.join()
    return context


def _forget_parent() -> None:
    """Prepare a process that the user's program has forked for workers of its own, whatever a thread did meanwhile."""
    global _starting
    _starting = threading.RLock()
    worker_context.cache_clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_parent)


def _do_nothing() -> None:
    return


def start_pool(jobs: int, begin: Callable[[], None] | None = None) -> ProcessPoolExecutor:
    """Return a pool of workers, each of which calls `begin` first, if it is given."""
    arguments = (dict(os.environ), begin)
    return ProcessPoolExecutor(jobs, mp_context=worker_context(), initializer=_set_up, initargs=arguments)


def _set_up(environment: dict[str, str], begin: Callable[[], None] | None) -> None:
    """Set a worker up: the parent alone answers Ctrl-C, what policies print goes to standard error, no worker stays."""
    os.environ.clear()  # the process that it is forked from may have started before a variable was set
    os.environ.update(environment)
    os.dup2(2, 1)
    end_quickly()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    # Ignored before it is let through: the process that this is forked from holds it back.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    np.random.seed()  # noqa: NPY002  (of policies that draw from it: forked workers would all draw the same)
    if begin is not None:
        begin()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


_channel: Any = None


class Local:
    """Processes of this machine; with one job, this process."""

    def __init__(self, jobs: int, *, isolate: bool = False) -> None:
        """Use at most so many processes at once; to `isolate` is to keep tasks that are not trusted out of this one."""
        self.jobs = jobs
        self.isolate = isolate

    def run(self, work: Work[T, R], tasks: Sequence[T], report: Report) -> Generator[R, Any, None]:
        """Yield the result of each task; see `Backend.run`.

        Raises:
            ConfigError: tasks are to be isolated, and this process may start no others.
        """
        apart = [task for task in tasks if self.isolate and not work.trusted(task) and not work.stays(task)]
        shared = [task for task in tasks if not work.stays(task)] if self.jobs > 1 else apart
        # A single task needs no process of its own, unless it is to be kept apart.
        if len(shared) < 2:
            shared = apart
        if shared and multiprocessing.current_process().daemon:
            if apart:
                raise ConfigError("isolate: a daemon of multiprocessing may start no other processes; leave it out")
            shared = []
        here = [task for task in tasks if task not in shared]
        if shared:
            yield from self._run_processes(work, shared, report)
        for task in here:
            yield work.compute(task, report)

    def _run_processes(self, work: Work[T, R], tasks: list[T], report: Report) -> Generator[R, Any, None]:
        """Run tasks side by side; when a process dies, the rest again, those that are not trusted each on its own."""
        # When a process dies the whole pool breaks, and nobody says which task it was at. So what is left is tried
        # again: together if it cannot be to blame, and the rest one by one, so that the one that kills its process
        # takes no other along.
        unfinished = yield from _run_pool(work, tasks, min(self.jobs, len(tasks)), report)
        innocent = [task for task in unfinished if work.trusted(task)]
        if innocent and len(innocent) < len(tasks):
            still_unfinished = yield from _run_pool(work, innocent, min(self.jobs, len(innocent)), report)
            unfinished = still_unfinished + [task for task in unfinished if task not in innocent]
        for task in unfinished:
            if (yield from _run_pool(work, [task], 1, report)):
                yield work.lost(task, DIED)


def _run_pool(work: Work[T, R], tasks: list[T], jobs: int, report: Report) -> Generator[R, Any, list[T]]:
    """Run tasks in a pool of processes; yield their results, and return the tasks left over when a process died."""
    for _ in range(MOST_STARTS):
        with suppress(_ServerLostError):  # which comes before the first result
            return (yield from _run_new_pool(work, tasks, jobs, report))
        # A process that was killed is there for a moment longer, on a busy machine for some.
        time.sleep(SECONDS_BETWEEN_STARTS)
    return tasks


def _run_new_pool(work: Work[T, R], tasks: list[T], jobs: int, report: Report) -> Generator[R, Any, list[T]]:
    """Run tasks as `_run_pool`; raises `_ServerLostError` where workers cannot start."""
    channel = worker_context().Queue()
    pool = start_pool(jobs, partial(_take_channel, channel))
    futures: dict[Future[R], T] = {}
    submitted = 0
    try:
        with without_main(), _lost_with_their_server(pool):
            for task in tasks:
                futures[pool.submit(_compute, work, task)] = task
                submitted += 1
        yield from _results(futures, channel, report)
    except BrokenProcessPool:  # what is done counts; the caller runs the rest again
        _terminate(pool)  # a worker that started while the pool broke would be waited for without end
    except BaseException:
        _terminate(pool)
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
        channel.close()
        channel.cancel_join_thread()
    done = [future for future in futures if future.done() and not future.cancelled() and not future.exception()]
    for future in done:
        del futures[future]
        yield future.result()
    return [*futures.values(), *tasks[submitted:]]


class _ServerLostError(Exception):
    """The process that workers are forked from was killed, so that not all of them started."""


@contextmanager
def _lost_with_their_server(pool: ProcessPoolExecutor) -> Iterator[None]:
    """End workers where the process that they are forked from was killed; the next to start revives it."""
    try:
        yield
    except (EOFError, ConnectionError) as error:
        _terminate(pool)
        raise _ServerLostError from error


def _terminate(pool: ProcessPoolExecutor) -> None:
    """End the workers of a pool, none of another one's, nor other processes of the user's program."""
    for process in list((pool._processes or {}).values()):
        process.terminate()


def _take_channel(channel: Any) -> None:
    global _channel
    _channel = channel


def _compute(work: Work[T, R], task: T) -> R:
    return work.compute(task, lambda *line: _channel.put(line))


def _results(futures: dict[Future[R], T], channel: Any, report: Report) -> Generator[R, Any, None]:
    """Yield results, which leave `futures`, and pass on what workers report; the first unexpected error is raised."""
    while futures:
        # Looked at ten times a second, so that lines of trials that still run move the bar.
        done, _ = wait(futures, timeout=0.1, return_when=FIRST_COMPLETED)
        # Before results, since an error among these ends the loop.
        for line in _drain(channel.get_nowait):
            report(*line)
        for future in done:
            result = future.result()
            del futures[future]
            yield result


def _drain(get: Callable[[], Any]) -> Iterator[Any]:
    while True:
        try:
            yield get()
        except queue.Empty:
            return
