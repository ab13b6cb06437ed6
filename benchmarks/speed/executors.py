"""S37: runs on executors beside runs on this machine: the same rows, killed workers, and two workers beside one.

Each engine has workers of one thread on this machine: `ProcessPoolExecutor`, Dask and Ray, those that are installed
(`pip install 'zoosim[dask,ray]'`). Workers of Dask are killed at random moments while they compute. Two workers and one
compute the gauntlet of 16 seeds when both have compiled its kernels, and judge `popularity`, which answers one request
after another, by a log of random choices.
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

import numpy as np

import zoosim
from zoosim.core.blocks import BLOCK_ROWS
from zoosim.logs.parse import read_log
from zoosim.off_policy.targets.products import spec_of
from zoosim.policies.persistence import save_policy
from zoosim.policies.products.rules import Popularity

POLICIES = ["random", "linucb", "d-linucb", "neural-linear-stable"]
STEPS, SEEDS = 4_000, 4
"""Visits and seeds of the runs whose rows are compared."""

GAUNTLET_SEEDS = 16
KILLS = 6

LOGGED, LEARNED = 2 * BLOCK_ROWS, 2_000
"""Visits that a policy is judged by, and those of them that it learned from before."""

Engine = Callable[[int], AbstractContextManager[Executor]]


def main() -> None:
    """Print whether rows are equal, what kills cost, and how much faster two workers are than one."""
    local = _run(jobs=1)
    with tempfile.TemporaryDirectory() as folder:
        log, policy = _logged(Path(folder))
        judged = _evaluate(log, policy)
        for name, engine in ENGINES.items():
            try:
                _compare(name, engine, local)
                _compare_evaluations(name, engine, log, policy, judged)
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
        _warm(executor, workers)
        began = time.monotonic()
        _run(seeds=GAUNTLET_SEEDS, steps=None, executor=executor)
        return time.monotonic() - began


def _logged(folder: Path) -> tuple[Path, Path]:
    """Write a log of random choices, and a policy that has learned from a few of them; return both files."""
    visitors = [f"env.n_users={LOGGED}", "env.noise_features.user=4"]  # no two alike: policies are asked once for those
    _run(seeds=1, steps=LOGGED, policies=["random"], settings=visitors, log=True, out=folder / "run")
    path = folder / "run" / "log" / "random" / "0.parquet"
    log = read_log(path)
    policy = Popularity(spec_of(log), np.random.default_rng(0))
    policy.fit(log.rows(np.arange(LEARNED)))
    return path, save_policy(policy, folder / "popularity.npz")


def _evaluate(log: Path, policy: Path, **options: Any) -> dict[str, Any]:
    summary: dict[str, Any] = zoosim.evaluate(log, [policy], estimators=["ips"], progress=None, **options).summary
    return summary


def _compare_evaluations(name: str, engine: Engine, log: Path, policy: Path, judged: dict[str, Any]) -> None:
    took = {}
    for workers in (1, 2):
        with engine(workers) as executor:
            _warm(executor, workers)
            began = time.monotonic()
            summary = _evaluate(log, policy, executor=executor)
            took[workers] = time.monotonic() - began
        equal = "equal" if summary == judged else "DIFFERENT"
        print(f"S37 {name}, {LOGGED:,} rows judged by {workers}: figures {equal}", flush=True)
    print(
        f"S37 {name}, {LOGGED:,} rows judged: {took[1]:.1f} s with 1 worker, {took[2]:.1f} s with 2, "
        f"{took[1] / took[2]:.2f} times as fast",
        flush=True,
    )


def _warm(executor: Executor, workers: int) -> None:
    """Have workers start, import and compile."""
    for _ in range(2):
        _run(seeds=2 * workers, steps=200, executor=executor)


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
