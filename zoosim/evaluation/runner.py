"""Run what a plan still lacks, on one or several processes, and let every finished cell stand."""

import multiprocessing
import os
import queue
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from zoosim.core.errors import ConfigError, PolicyFailure
from zoosim.evaluation.cell import CellResult, Report, run_cell
from zoosim.evaluation.store import CellKey, RunFolder, read_meta
from zoosim.experiments.plan import Plan
from zoosim.policies.registry import PolicyEntry

Task = tuple[PolicyEntry, int]

_channel: Any = None


@dataclass(frozen=True)
class Outcome:
    """What a call did: how long it took, which cells failed, and lines that the user should read."""

    seconds: float
    failures: tuple[PolicyFailure, ...]
    notes: tuple[str, ...]


def default_jobs() -> int:
    """Return how many processes this machine runs at once."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_plan(plan: Plan, path: Path, *, jobs: int, keep_log: bool, report: Report) -> Outcome:
    """Run the cells of `plan` that the folder `path` lacks; raises before anything is written if the two do not fit."""
    folder, started = RunFolder(path), time.perf_counter()
    folder.check(plan.config_hash)
    stale = _stale(plan, folder)
    folder.write_config(_merged_config(plan, folder))
    for name in stale:
        folder.drop_cells(name)
    tasks = [task for task in _tasks(plan) if not _done(folder, CellKey(task[0].name, task[1]), keep_log)]
    results = _run(plan, tasks, path, keep_log, jobs, report)
    failures = tuple(result.failure for result in results if result.failure is not None)
    notes = tuple(f"{name}: its file has changed, so it ran again" for name in stale)
    return Outcome(time.perf_counter() - started, failures, (*plan.notes, *notes))


def missing_visits(plan: Plan, path: Path, keep_log: bool) -> int:
    """Count the visits that a run of `plan` in `path` would compute."""
    folder = RunFolder(path)
    left = [task for task in _tasks(plan) if not _done(folder, CellKey(task[0].name, task[1]), keep_log)]
    return plan.steps * len(left)


def _tasks(plan: Plan) -> Iterator[Task]:
    """Yield the cells seed by seed; within a seed, the policies that first train on a log come first."""
    slow = {entry.name: bool(entry.params.get("past_visits")) or not entry.built_in for entry in plan.entries}
    for seed in plan.seeds:
        yield from ((entry, seed) for entry in sorted(plan.entries, key=lambda e: not slow[e.name]))


def _done(folder: RunFolder, key: CellKey, keep_log: bool) -> bool:
    return folder.cell_path(key).exists() and (not keep_log or folder.log_path(key).exists())


def _stale(plan: Plan, folder: RunFolder) -> list[str]:
    """List the user's policies whose code has changed; refuse an entry that was saved with other parameters."""
    stale = []
    old = {item["name"]: item for item in folder.read_config()["policies"]} if folder.cells() else {}
    for entry in plan.entries:
        saved = [key for key in folder.cells() if key.policy == entry.name]
        prints = {read_meta(folder.cell_path(key)).get("fingerprint") for key in saved}
        if prints <= {entry.fingerprint}:
            continue
        if entry.built_in or any(old.get(entry.name, {}).get(k, v) != v for k, v in entry.params.items()):
            raise ConfigError(f"--out: {folder.path} holds {entry.name} with other parameters; name another folder")
        stale.append(entry.name)
    return stale


def _merged_config(plan: Plan, folder: RunFolder) -> dict[str, Any]:
    """Return the plan's configuration with the seeds and policies that the folder already holds."""
    config = plan.as_dict()
    if not (folder.path / "config.yaml").exists():
        return config
    old = folder.read_config()
    names = {entry["name"] for entry in config["policies"]}
    config["policies"] += [entry for entry in old.get("policies", []) if entry.get("name") not in names]
    config["run"]["seeds"] = sorted({*config["run"]["seeds"], *old.get("run", {}).get("seeds", [])})
    return config


def _run(plan: Plan, tasks: list[Task], path: Path, keep_log: bool, jobs: int, report: Report) -> Iterable[CellResult]:
    local = [task for task in tasks if _is_local(task[0])] if jobs > 1 else tasks
    shared = [task for task in tasks if task not in local]
    if len(shared) < 2:
        local, shared = tasks, []
    results = _run_processes(plan, shared, path, keep_log, min(jobs, len(shared)), report) if shared else []
    return results + [run_cell(plan, entry, seed, path, keep_log, report) for entry, seed in local]


def _is_local(entry: PolicyEntry) -> bool:
    """Tell whether a policy's class lives in this process alone, as one typed into a notebook does."""
    return isinstance(entry.source, type) and entry.source.__module__ == "__main__"


def _run_processes(
    plan: Plan, tasks: list[Task], path: Path, keep_log: bool, jobs: int, report: Report
) -> list[CellResult]:
    context = multiprocessing.get_context("spawn")
    channel = context.Queue()
    pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_start_worker, initargs=(channel,))
    try:
        with _without_main():
            futures = [
                pool.submit(_work, replace(plan, entries=(entry,)), entry, seed, path, keep_log)
                for entry, seed in tasks
            ]
        _watch(futures, channel, report)
        return [future.result() for future in futures]
    except BaseException:
        for child in multiprocessing.active_children():
            child.terminate()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
        channel.close()
        channel.cancel_join_thread()


@contextmanager
def _without_main() -> Iterator[None]:
    """Keep workers that start meanwhile from running the user's script again, which may have no main guard."""
    main = vars(sys.modules["__main__"])
    hidden = {name: main.get(name) for name in ("__file__", "__spec__")}
    main.pop("__file__", None)
    main["__spec__"] = None
    try:
        yield
    finally:
        main.update({name: value for name, value in hidden.items() if value is not None or name == "__spec__"})


def _start_worker(channel: Any) -> None:
    """Set a worker up: the parent alone answers Ctrl-C."""
    global _channel
    _channel = channel
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _work(plan: Plan, entry: PolicyEntry, seed: int, path: Path, keep_log: bool) -> CellResult:
    return run_cell(plan, entry, seed, path, keep_log, lambda *line: _channel.put(line))


def _watch(futures: list["Future[CellResult]"], channel: Any, report: Report) -> None:
    """Pass on what the workers report until all are done; the first unexpected error stops the run."""
    left = set(futures)
    while left:
        done, left = wait(left, timeout=0.1, return_when=FIRST_COMPLETED)
        for line in _drain(channel.get_nowait):
            report(*line)
        for future in done:
            future.result()


def _drain(get: Callable[[], Any]) -> Iterator[Any]:
    while True:
        try:
            yield get()
        except queue.Empty:
            return
