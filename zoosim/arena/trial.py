"""Run one policy over one seed: the unit of work that is computed, saved and resumed."""

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import gettempdir

import numpy as np
from threadpoolctl import threadpool_limits

from zoosim.action_spaces import find_action_space
from zoosim.arena import past
from zoosim.arena.block import Block
from zoosim.arena.loop import play
from zoosim.arena.past import fit_policy
from zoosim.arena.plan import Plan, type_label
from zoosim.arena.recording import record_frames, write_records
from zoosim.arena.store import RunFolder, TrialKey
from zoosim.arena.time_left import TrialEvent
from zoosim.arena.watching import BlockLine, sums_of_block
from zoosim.core.digests import short_digest
from zoosim.core.errors import PolicyFailure
from zoosim.core.files import temporary_folder
from zoosim.core.jit import watch_compilation
from zoosim.core.number_format import percent
from zoosim.core.sources import source_digest
from zoosim.logs.schema import LIFE
from zoosim.policies.base import policy_name
from zoosim.policies.registry import PolicyEntry
from zoosim.worlds.base import World

Report = Callable[[TrialKey, int, str], None]
"""Called while a trial runs: the trial, how many visits were done since the last call, and a line when there is one.

A line on visits is a `zoosim.arena.watching.BlockLine`, which has sums over them.
"""


@dataclass(frozen=True)
class TrialResult:
    """The end of a trial: well, or with a failure; its files, and the warnings, (file and line, text).

    `files` are those of a run's folder, by name, the trial's own last; none where it failed.
    """

    key: TrialKey
    seconds: float
    failure: PolicyFailure | None = None
    warnings: tuple[tuple[str, str], ...] = ()
    files: tuple[tuple[str, bytes], ...] = field(default=(), repr=False)


def run_trial(plan: Plan, entry: PolicyEntry, seed: int, keep_log: bool, report: Report) -> TrialResult:
    """Run `entry` at the visitors of `seed`, and return the trial's files; a policy's failure is returned, not raised.

    Nothing is written to the run's folder: this may be a process of another machine.
    """
    key = TrialKey(entry.name, seed)
    started = time.perf_counter()
    report(key, 0, TrialEvent.STARTED)
    # Before the trial, so that a file that is edited meanwhile does not pass for the one that ran.
    version = trial_version(plan, entry)
    world_version = plan.world_code
    compiling = watch_compilation(lambda: report(key, 0, TrialEvent.COMPILING))
    try:
        # The policy may change the working directory: here it is put back, as later paths may be relative.
        with chdir("."), threadpool_limits(1), _runtime_warnings() as warned, compiling:
            world = plan.world(seed, entry)
            policy, notes = fit_policy(entry, world, plan.steps, lambda line: report(key, 0, line))
            blocks = []
            earned = 0.0
            decisions = 0
            feedback = replace(plan.feedback, delay=plan.feedback.delay or world.feedback.delay)
            for block in play(world, policy, plan.steps, feedback=feedback, logged=keep_log):
                blocks.append(block)
                earned += float(block.rewards.sum())
                decisions += len(block.rewards)
                line = _rate(plan.any_world, earned / decisions)
                report(key, block.n_visitors, BlockLine(line, sums_of_block(block, plan.steps)))
    except PolicyFailure as error:
        report(key, 0, TrialEvent.FAILED)
        return TrialResult(key, time.perf_counter() - started, error.named(entry.name))
    seconds = time.perf_counter() - started
    meta = {
        "config_hash": plan.config_hash,
        "type": type_label(entry),
        "params": entry.params,
        "fingerprint": version,
        "world": world_version,
        "seconds": seconds,
        "fit": notes,
    }
    with temporary_folder(Path(gettempdir()), "zoosim-trial") as path:
        folder = RunFolder(path)
        folder.write_trial(key, _columns(world, blocks), meta)
        if keep_log:
            frames = record_frames(world, blocks, entry.name, entry.fingerprint)
            write_records(folder.log_path(key), world, frames)
        files = folder.files_of(key)
    own_name = f"{policy_name(type(policy))}: "
    own_warnings = tuple((place, text.removeprefix(own_name)) for place, text in warned)
    return TrialResult(key, seconds, warnings=own_warnings, files=files)


def _rate(world: World, mean: float) -> str:
    """Return what visits have earned so far in words, such as `CTR 48.2%`."""
    scale = world.reward_scale
    return f"{scale.name} {percent(mean) if scale.is_share else f'{mean:.2f}'}"


def trial_version(plan: Plan, entry: PolicyEntry) -> str:
    """Hash the code that decides the rows of a trial: of the policy, of the world, and of how the two meet."""
    code = (source_digest(past.__name__), plan.world_code)
    return short_digest(f"{entry.fingerprint} {code}")


@contextmanager
def _runtime_warnings() -> Iterator[list[tuple[str, str]]]:
    """Collect `RuntimeWarning`s as (file and line, text), each place once; other warnings go their way."""
    places: list[tuple[str, str]] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default", RuntimeWarning)
        yield places
    for warning in caught:
        if issubclass(warning.category, RuntimeWarning):
            places.append((f"{warning.filename}:{warning.lineno}", " ".join(str(warning.message).split())))
        else:
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)


def _columns(world: World, blocks: list[Block]) -> dict[str, np.ndarray]:
    """Return the columns of a trial's rows."""
    actions = np.concatenate([block.actions for block in blocks])
    columns = {
        find_action_space(world.action_space).column: actions.astype(np.int32) if actions.ndim == 1 else actions,
        "reward": np.concatenate([block.rewards for block in blocks]),
        "true_probability": np.concatenate([block.expected_rewards for block in blocks]),
        "best_probability": np.concatenate([block.best_rewards for block in blocks]),
    }
    for name in dict.fromkeys(name for block in blocks for name in block.parts):
        parts = [block.parts.get(name, np.zeros(len(block.rewards))) for block in blocks]  # 0 where there was none
        columns[name] = np.concatenate(parts)
    if any(block.segments is not None for block in blocks):
        columns["segment"] = np.concatenate([_segments(block) for block in blocks]).astype(np.int32)
    if world.episodic:
        lives = [block.lives for block in blocks if block.lives is not None]
        for name in LIFE:
            column = np.concatenate([getattr(of_block, name) for of_block in lives])
            columns[name] = column if column.dtype == np.bool_ else column.astype(np.int32)
    return columns


def _segments(block: Block) -> np.ndarray:
    """Return the number of each visit's segment, -1 in blocks that tell of none."""
    return np.full(len(block.rewards), -1) if block.segments is None else block.segments
