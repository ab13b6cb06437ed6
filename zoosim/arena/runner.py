"""Run what a plan still lacks, on one or several processes, and let every finished cell stand."""

import multiprocessing
import queue
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from zoosim.arena.store import CellKey, RunFolder
from zoosim.arena.trial import CellResult, Report, run_cell, trial_version
from zoosim.arena.workers import set_up, without_main
from zoosim.core.errors import ConfigError, PolicyFailure
from zoosim.core.parameters import parameters_of
from zoosim.core.parquet import read_meta
from zoosim.experiments.plan import Plan
from zoosim.policies.registry import PolicyEntry

Task = tuple[PolicyEntry, int]

DIED = "its process died: it exited, crashed, or was killed for its memory"

_channel: Any = None


@dataclass(frozen=True)
class Outcome:
    """What a call did: how long it took, which cells failed, and lines that the user should read."""

    seconds: float
    failures: tuple[PolicyFailure, ...]
    notes: tuple[str, ...]


def run_plan(plan: Plan, path: Path, *, jobs: int, keep_log: bool, report: Report) -> Outcome:
    """Run the cells of `plan` that the folder `path` lacks; raises before anything is written if the two do not fit."""
    folder, started = RunFolder(path), time.perf_counter()
    folder.check()
    _check_same_run(plan, folder)
    stale, tasks = _stale(plan, folder), _missing(plan, folder, keep_log)
    extra = _also_held(plan, folder)
    folder.write_config(_merged_config(plan, folder))
    for name in stale:
        folder.drop_cells(name)
    results = _run(plan, tasks, path, keep_log, jobs, report)
    failures = tuple(result.failure for result in results if result.failure is not None)
    notes = tuple(f"{name}: its code has changed, so it ran again" for name in stale)
    return Outcome(time.perf_counter() - started, failures, (*plan.notes, *notes, *_warned(results), *extra))


def _check_same_run(plan: Plan, folder: RunFolder) -> None:
    """Refuse a folder that holds a run in another world, or of another length."""
    if not (folder.path / "config.yaml").exists():
        return
    differences = plan.differences(folder.read_config())
    if differences:
        raise ConfigError(
            f"--out: {folder.path} holds another run, with another value of {', '.join(differences)}; "
            "name another folder, or give the same world and steps"
        )


def _warned(results: Iterable[CellResult]) -> tuple[str, ...]:
    """Tell what policies warned of, each place in the code once a policy, in the words of its lowest seed."""
    said = dict[tuple[str, str], str]()
    for result in sorted(results, key=lambda result: result.key):
        for place, text in result.warnings:
            said.setdefault((result.key.policy, place), text)
    return tuple(f"{name}: {text}" for (name, _), text in said.items())


def missing_cells(plan: Plan, path: Path, keep_log: bool) -> list[CellKey]:
    """List the cells that a run of `plan` in `path` would compute."""
    return [_key(task) for task in _missing(plan, RunFolder(path), keep_log)]


def _missing(plan: Plan, folder: RunFolder, keep_log: bool) -> list[Task]:
    """List the cells to compute: those that are not there, or were made by other code."""
    stale = _stale(plan, folder)
    return [task for task in _tasks(plan) if task[0].name in stale or not _done(folder, _key(task), keep_log)]


def _key(task: Task) -> CellKey:
    return CellKey(task[0].name, task[1])


def _also_held(plan: Plan, folder: RunFolder) -> tuple[str, ...]:
    """Tell of cells in the folder that were not asked for: the report covers them too."""
    asked = {_key(task) for task in _tasks(plan)}
    held = [key for key in folder.cells() if key not in asked]
    if not held:
        return ()
    names = ", ".join(sorted({key.policy for key in held}))
    return (f"{folder.path} also holds {len(held)} cells of earlier calls ({names}); the report covers all of them",)


def _tasks(plan: Plan) -> Iterator[Task]:
    """Yield the cells seed by seed; within a seed, the policies that first train on a log come first.

    In a search world the first policy goes through all seeds before the others, since each process that meets a seed
    first settles what its templates earn: two of them are not to do that for the same one.
    """
    slow = {entry.name: bool(entry.params.get("past_visits")) or not entry.built_in for entry in plan.entries}
    ordered = sorted(plan.entries, key=lambda e: not slow[e.name])
    ahead = ordered[:1] if plan.setup.slow_start else []
    yield from ((entry, seed) for entry in ahead for seed in plan.seeds)
    for seed in plan.seeds:
        yield from ((entry, seed) for entry in ordered[len(ahead) :])


def _done(folder: RunFolder, key: CellKey, keep_log: bool) -> bool:
    return folder.cell_path(key).exists() and (not keep_log or folder.log_path(key).exists())


def _stale(plan: Plan, folder: RunFolder) -> list[str]:
    """List the policies whose code, theirs or ours, has changed; refuse one that was saved with other parameters."""
    stale = []
    for entry in plan.entries:
        saved = [read_meta(folder.cell_path(key)) for key in folder.cells() if key.policy == entry.name]
        if any(_other_parameters(meta, entry) or _other_type(meta, entry) for meta in saved):
            raise ConfigError(f"--out: {folder.path} holds {entry.name} with other parameters; name another folder")
        if any(meta.get("fingerprint") != trial_version(plan, entry) for meta in saved):
            stale.append(entry.name)
    return stale


def _other_parameters(meta: dict[str, Any], entry: PolicyEntry) -> bool:
    """Whether a trial was run with other parameters; those that the policy has gained since had their defaults."""
    held = meta.get("params")
    if not isinstance(held, dict):
        return True
    defaults = {name: declared.default for name, declared in parameters_of(entry.cls).items()}
    return {**defaults, **held} != {**defaults, **entry.params}


def _other_type(meta: dict[str, Any], entry: PolicyEntry) -> bool:
    """Tell whether a saved policy of the same name was another built-in one; a user's file may have moved."""
    return entry.built_in and meta.get("type") != entry.source


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
    """Tell whether a policy's class lives in this process alone: typed into a notebook, or made in a function."""
    cls = entry.source
    found = isinstance(cls, str) or getattr(sys.modules.get(cls.__module__), cls.__qualname__, None) is cls
    return not found or (isinstance(cls, type) and cls.__module__ == "__main__")


def _run_processes(
    plan: Plan, tasks: list[Task], path: Path, keep_log: bool, jobs: int, report: Report
) -> list[CellResult]:
    """Run tasks side by side; when a process dies, the rest again, those of the user's policies each on its own."""
    results, left = _run_pool(plan, tasks, path, keep_log, jobs, report)
    known = [task for task in left if task[0].built_in]
    if known and len(known) < len(tasks):
        more, unfinished = _run_pool(plan, known, path, keep_log, jobs, report)
        results, left = results + more, unfinished + [task for task in left if task not in known]
    for task in left:
        done, _ = _run_pool(plan, [task], path, keep_log, 1, report)
        results += done or [CellResult(_key(task), 0.0, PolicyFailure(task[0].name, task[1], 0, DIED))]
    return results


def _run_pool(
    plan: Plan, tasks: list[Task], path: Path, keep_log: bool, jobs: int, report: Report
) -> tuple[list[CellResult], list[Task]]:
    """Run tasks in a pool of processes; return their results, and the tasks left over when a process died."""
    context = multiprocessing.get_context("spawn")
    channel = context.Queue()
    pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_start_worker, initargs=(channel,))
    futures: dict[Future[CellResult], Task] = {}
    try:
        with without_main():
            for task in tasks:
                futures[pool.submit(_work, replace(plan, entries=(task[0],)), *task, path, keep_log)] = task
        _watch(list(futures), channel, report)
    except BrokenProcessPool:
        pass
    except BaseException:
        for child in multiprocessing.active_children():
            child.terminate()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
        channel.close()
        channel.cancel_join_thread()
    done = [future for future in futures if future.done() and not future.cancelled() and not future.exception()]
    finished = [futures[future] for future in done]
    return [future.result() for future in done], [task for task in tasks if task not in finished]


def _start_worker(channel: Any) -> None:
    global _channel
    _channel = channel
    set_up()


def _work(plan: Plan, entry: PolicyEntry, seed: int, path: Path, keep_log: bool) -> CellResult:
    return run_cell(plan, entry, seed, path, keep_log, lambda *line: _channel.put(line))


def _watch(futures: list["Future[CellResult]"], channel: Any, report: Report) -> None:
    """Pass on what the workers report until all are done; the first unexpected error is raised."""
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
