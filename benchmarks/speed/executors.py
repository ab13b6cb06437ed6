"""S37: runs on executors beside runs on this machine: the same rows, killed workers, and two workers beside one.

Each engine has workers of one thread on this machine: `ProcessPoolExecutor`, Dask and Ray, those that are installed
(`pip install 'zoosim[dask,ray]'`). Workers of Dask are killed at random moments while they compute. Two workers and one
compute the gauntlet of 16 seeds when both have compiled its kernels.
"""

import logging
import multiprocessing
import os
import random
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

import zoosim

POLICIES = ["random", "linucb", "d-linucb", "neural-linear-stable"]
STEPS, SEEDS = 4_000, 4
"""Visits and seeds of the runs whose rows are compared."""

GAUNTLET_SEEDS = 16
KILLS = 6

Engine = Callable[[int], AbstractContextManager[Executor]]


def main() -> None:
    """Print whether rows are equal, what kills cost, and how much faster two workers are than one."""
    local = _run(jobs=1)
    for name, engine in ENGINES.items():
        try:
            _compare(name, engine, local)
        except ModuleNotFoundError as error:
            print(f"S37 {name}: {error.name} is not installed", flush=True)


def _compare(name: str, engine: Engine, local: zoosim.RunResult) -> None:
    with engine(2) as executor:
        equal = _words(_run(executor=executor), local)
        print(f"S37 {name}, 2 workers: rows of {len(local.rows):,} decisions {equal} those of this machine", flush=True)
        if name == "dask":
            runs = _run_with_kills(executor)
            equal = "equal" if all(_words(run, local) == "equal" for run in runs) else "DIFFER FROM"
            print(f"S37 {name}, {KILLS} kills of workers in {len(runs)} runs: rows {equal} those of this machine")
        resumed, kept = _run_in_two(executor)
        total = len(POLICIES) * SEEDS
        print(
            f"S37 {name}, interrupted at {kept} of {total} trials and resumed: rows {_words(resumed, local)} the others"
        )
    one, two = (_gauntlet_seconds(engine, workers) for workers in (1, 2))
    print(
        f"S37 {name}, gauntlet of {GAUNTLET_SEEDS} seeds on warm kernels: {one:.1f} s with 1 worker, {two:.1f} s with "
        f"2, {one / two:.2f} times as fast",
        flush=True,
    )


def _words(run: zoosim.RunResult, other: zoosim.RunResult) -> str:
    return "equal" if run.rows.equals(other.rows) and not run.failures else "DIFFER FROM"


def _run(**options: Any) -> zoosim.RunResult:
    asked: dict[str, Any] = {"policies": POLICIES, "seeds": SEEDS, "steps": STEPS, "progress": False}
    return zoosim.run("gauntlet", **{**asked, **options})


def _run_in_two(executor: Executor) -> tuple[zoosim.RunResult, int]:
    """Return a run that was interrupted at half of its visits and resumed, and how many trials were saved before."""
    left = [len(POLICIES) * SEEDS * STEPS // 2]

    def interrupt(key: Any, visits: int, line: str) -> None:
        left[0] -= visits
        if left[0] <= 0:
            raise KeyboardInterrupt

    with tempfile.TemporaryDirectory() as folder:
        with suppress(KeyboardInterrupt):
            _run(executor=executor, out=folder, report=interrupt)
        kept = len(list(Path(folder).glob("cells/*/*.parquet")))
        resumed = _run(executor=executor, out=folder)
        assert len(resumed.rows)  # which are read here, before the folder goes
        return resumed, kept


def _run_with_kills(executor: Any) -> list[zoosim.RunResult]:
    """Return runs while workers of Dask are killed at random moments; their nannies start others."""
    client = executor._client
    ended = threading.Event()
    rng = random.Random(0)

    def kill() -> None:
        for _ in range(KILLS):
            if ended.wait(rng.uniform(0.5, 3.0)):
                break
            with suppress(Exception):
                os.kill(rng.choice(list(client.run(os.getpid).values())), signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    runs = []
    try:
        while killer.is_alive():
            runs.append(_run(executor=executor))
    finally:
        ended.set()
        killer.join()
    return runs


def _gauntlet_seconds(engine: Engine, workers: int) -> float:
    """Return how long the gauntlet takes on so many workers, which have run a part of it before."""
    with engine(workers) as executor:
        for _ in range(2):
            _run(seeds=2 * workers, steps=200, executor=executor)
        began = time.monotonic()
        _run(seeds=GAUNTLET_SEEDS, steps=None, executor=executor)
        return time.monotonic() - began


@contextmanager
def _pool(workers: int) -> Iterator[Executor]:
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield pool


@contextmanager
def _dask(workers: int) -> Iterator[Executor]:
    import dask
    from distributed import Client, LocalCluster

    dask.config.set({"distributed.scheduler.allowed-failures": 0})  # so that zoosim, and not Dask, tries again
    cluster = LocalCluster(
        n_workers=workers, threads_per_worker=1, dashboard_address=None, silence_logs=logging.CRITICAL
    )
    with cluster, Client(cluster) as client:
        yield client.get_executor(pure=False)


@contextmanager
def _ray(workers: int) -> Iterator[Executor]:
    import ray

    from zoosim.arena.backends.ray_executor import RayExecutor

    ray.init(num_cpus=workers, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    try:
        yield RayExecutor()
    finally:
        ray.shutdown()


ENGINES: dict[str, Engine] = {"processes": _pool, "dask": _dask, "ray": _ray}
