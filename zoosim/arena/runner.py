"""Run what a plan still lacks, on one or several processes, and let every finished trial stand."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from zoosim.arena.backends import Backend, Work
from zoosim.arena.older_runs import MALFORMED
from zoosim.arena.plan import Plan
from zoosim.arena.run_files import run_files
from zoosim.arena.store import DAMAGED, RunFolder, TrialKey
from zoosim.arena.time_left import TrialEvent
from zoosim.arena.trial import Report, TrialResult, run_trial, trial_version
from zoosim.core.errors import ConfigError, DataError, PolicyFailure
from zoosim.core.parameters import parameters_of
from zoosim.core.parquet import read_meta
from zoosim.policies.registry import PolicyEntry

Task = tuple[PolicyEntry, int]
"""A policy and a seed."""

Saved = Mapping[TrialKey, Mapping[str, Any]]
"""Metadata of each sound trial of a folder, as its file holds it."""


@dataclass(frozen=True)
class RunOutcome:
    """The outcome of a call: how long it took, which trials failed, and lines that the user should read."""

    seconds: float
    failures: tuple[PolicyFailure, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class TrialWork(Work[Task, TrialResult]):
    """Computes the trials of a plan, which names no policies: each comes with its task."""

    plan: Plan
    keep_log: bool

    def compute(self, task: Task, report: Report) -> TrialResult:
        """Return the end of a trial, with its files."""
        entry, seed = task
        return run_trial(self.plan, entry, seed, self.keep_log, report)

    def lost(self, task: Task, reason: str) -> TrialResult:
        """Return the failure of a trial whose process died."""
        return TrialResult(_key(task), 0.0, PolicyFailure(task[0].name, task[1], 0, reason))

    def trusted(self, task: Task) -> bool:
        """Return whether a policy's code comes with zoosim."""
        return task[0].built_in

    def stays(self, task: Task) -> bool:
        """Return whether a policy's class lives in this process alone: typed into a notebook, or made in a function."""
        return task[0].lives_here

    def files(self, tasks: Sequence[Task]) -> Mapping[str, Path]:
        """Return the files of the world and of the policies."""
        return run_files(self.plan, {entry.name: entry for entry, _ in tasks}.values())

    def fault(self, task: Task) -> str:
        """Return that a policy's class, which is found by its module, is another here; files come with the task."""
        return task[0].fault


def run_plan(
    plan: Plan, path: Path, *, backend: Backend, keep_log: bool, report: Report, held: Plan | None = None
) -> RunOutcome:
    """Run the trials of `plan` that the folder `path` lacks; raises before anything is written if the two do not fit.

    `held` is the plan of the run that the folder holds, None where it holds none.
    """
    started = time.perf_counter()
    folder = RunFolder(path)
    folder.check()
    check_same_run(plan, held, path)
    saved, faults = _saved_trials(folder)
    _check_same_world(plan, saved, path)
    stale = _stale(plan, saved, path)
    tasks = _missing(plan, folder, saved, stale, keep_log)
    # All that refuses a run comes before this line; from here on files are moved, written and removed.
    folder.remove_leftovers()
    repairs = _set_damaged_aside(plan, folder, faults, keep_log)
    earlier_notes = _also_held(plan, folder)
    # Before any trial, so that whatever a killed run leaves behind is a folder that says what it is of.
    folder.write_config(_merged_config(plan, folder))
    for name in stale:
        folder.drop_trials(name)
    ended: list[TrialResult] = []
    try:
        # Workers take one policy each, since the class of another may live in this process alone.
        with closing(backend.run(TrialWork(replace(plan, entries=()), keep_log), tasks, report)) as results:
            for result in results:
                # Saved as soon as it is there, so that a run that is killed keeps each trial that was done.
                if result.failure is None:
                    folder.save_trial(result.key, result.files)
                    report(result.key, 0, TrialEvent.SAVED)
                ended.append(replace(result, files=()))
    finally:
        folder.remove_leftovers()  # of processes that were stopped, or died
    failed = [result.failure for result in ended if result.failure is not None]
    failures = tuple(sorted(failed, key=lambda failure: failure.seed))  # whichever worker was done first
    stale_notes = (f"{name}: its code has changed, so it ran again" for name in stale)
    notes = (*plan.notes, *repairs, *stale_notes, *_warned(ended), *earlier_notes)
    return RunOutcome(time.perf_counter() - started, failures, notes)


def _saved_trials(folder: RunFolder) -> tuple[Saved, Mapping[TrialKey, str]]:
    """Return what made each sound trial of a folder, and what is wrong with each other one."""
    faults = {key: folder.fault(key) for key in folder.trials()}
    saved = {}
    for key in [key for key, fault in faults.items() if not fault]:
        try:
            saved[key] = read_meta(folder.trial_path(key))
        except MALFORMED:
            faults[key] = DAMAGED
    return saved, {key: fault for key, fault in faults.items() if fault}


def _set_damaged_aside(
    plan: Plan, folder: RunFolder, faults: Mapping[TrialKey, str], keep_log: bool
) -> tuple[str, ...]:
    """Move what is damaged out of the way, and return a note on each; what was asked for is computed again."""
    asked = {_key(task) for task in _tasks(plan)}
    notes = []
    for key, fault in faults.items():
        place = folder.set_aside(folder.trial_path(key))
        what_now = "it is computed again" if key in asked else f"name {key.policy} to have it computed again"
        notes.append(f"{folder.trial_path(key)} {fault}; moved to {place}, {what_now}")
    if keep_log:
        logs = [folder.log_path(key) for key in asked if folder.log_path(key).exists()]
        for path in filter(_is_unreadable, sorted(logs)):
            notes.append(f"{path} is damaged or truncated; moved to {folder.set_aside(path)}, it is written again")
    try:
        folder.old_summary()
    except ConfigError:
        place = folder.set_aside(folder.path / "summary.json")
        notes.append(f"{folder.path / 'summary.json'} is damaged or of another run; moved to {place}, it is made again")
    return tuple(notes)


def _is_unreadable(path: Path) -> bool:
    """Return whether a log is missing or cannot be opened."""
    try:
        read_meta(path)
    except DataError:
        return True
    return False


def check_same_run(plan: Plan, held: Plan | None, path: Path) -> None:
    """Refuse a folder that holds a run in another world, or of another length."""
    differences = () if held is None else plan.differences(held)
    if differences:
        raise ConfigError(
            f"--out: {path} holds another run, with another value of {', '.join(differences)}; "
            "name another folder, or give the same world and steps"
        )


def _check_same_world(plan: Plan, saved: Saved, path: Path) -> None:
    """Refuse a folder whose other policies met a world of other code: comparisons with them would not be paired."""
    asked = {entry.name for entry in plan.entries}
    others = {key.policy: meta.get("world") for key, meta in saved.items() if key.policy not in asked}
    strangers = sorted(name for name, world in others.items() if world not in {None, plan.world_code})
    if strangers:
        names = ", ".join(strangers)
        raise ConfigError(
            f"--out: {path} holds trials of {names} in a world whose code has changed since; name these "
            "policies, too, so that they run again, or name another folder"
        )


def _warned(results: Iterable[TrialResult]) -> tuple[str, ...]:
    """Return notes on warnings of policies, each place in the code once a policy, in the words of its lowest seed."""
    said = dict[tuple[str, str], str]()
    for result in sorted(results, key=lambda result: result.key):
        for place, text in result.warnings:
            said.setdefault((result.key.policy, place), text)
    return tuple(f"{name}: {text}" for (name, _), text in said.items())


def missing_trials(plan: Plan, path: Path, keep_log: bool) -> list[TrialKey]:
    """List the trials that a run of `plan` in `path` would compute."""
    folder = RunFolder(path)
    saved, _ = _saved_trials(folder)
    return [_key(task) for task in _missing(plan, folder, saved, _stale(plan, saved, path), keep_log)]


def _missing(plan: Plan, folder: RunFolder, saved: Saved, stale: Sequence[str], keep_log: bool) -> list[Task]:
    """List the trials to compute: those that, or whose logs, are not there, or that other code made."""
    done = {key for key in saved if key.policy not in stale}
    if keep_log:
        done = {key for key in done if not _is_unreadable(folder.log_path(key))}
    return [task for task in _tasks(plan) if _key(task) not in done]


def _key(task: Task) -> TrialKey:
    return TrialKey(task[0].name, task[1])


def _also_held(plan: Plan, folder: RunFolder) -> tuple[str, ...]:
    """Return notes on trials in the folder that were not asked for: the report covers them too."""
    asked = {_key(task) for task in _tasks(plan)}
    held = [key for key in folder.trials() if key not in asked]
    if not held:
        return ()
    names = ", ".join(sorted({key.policy for key in held}))
    return (f"{folder.path} also holds {len(held)} trials of earlier calls ({names}); the report covers all of them",)


def _tasks(plan: Plan) -> Iterator[Task]:
    """Yield the trials seed by seed; within a seed, the policies that first train on a log come first.

    In a search world the first policy goes through all seeds before the others, since each process that meets a seed
    first settles what its templates earn: two of them are not to do that for the same one.
    """
    slow = {entry.name: bool(entry.params.get("past_visits")) or not entry.built_in for entry in plan.entries}
    ordered = sorted(plan.entries, key=lambda e: not slow[e.name])
    ahead = ordered[:1] if plan.any_world.slow_start else []
    yield from ((entry, seed) for entry in ahead for seed in plan.seeds)
    for seed in plan.seeds:
        yield from ((entry, seed) for entry in ordered[len(ahead) :])


def _stale(plan: Plan, saved: Saved, path: Path) -> list[str]:
    """List the policies whose code, theirs or ours, has changed; refuse one that was saved with other parameters."""
    stale = []
    for entry in plan.entries:
        metas = [meta for key, meta in saved.items() if key.policy == entry.name]
        if any(_other_parameters(meta, entry) or _other_type(meta, entry) for meta in metas):
            raise ConfigError(f"--out: {path} holds {entry.name} with other parameters; name another folder")
        if any(meta.get("fingerprint") != trial_version(plan, entry) for meta in metas):
            stale.append(entry.name)
    return stale


def _other_parameters(meta: Mapping[str, Any], entry: PolicyEntry) -> bool:
    """Return whether a trial had other parameters; those that the policy has gained since had their defaults."""
    held = meta.get("params")
    if not isinstance(held, dict):
        return True
    defaults = {name: declared.default for name, declared in parameters_of(entry.cls).items()}
    return {**defaults, **held} != {**defaults, **entry.params}


def _other_type(meta: Mapping[str, Any], entry: PolicyEntry) -> bool:
    """Return whether a saved policy of the same name was another built-in one; a user's file may have moved."""
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
