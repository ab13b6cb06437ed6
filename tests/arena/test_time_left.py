"""The time left of a run, by cells whose times are given by hand."""

import pytest

from zoosim.arena.store import TrialKey
from zoosim.arena.time_left import TimeLeft, TrialEvent

FAST = [TrialKey("fast", seed) for seed in range(3)]
SLOW = [TrialKey("slow", seed) for seed in range(3)]
STEPS = 4_000


def run_trial(left: TimeLeft, key: TrialKey, start: float, preparation: float, block: float, blocks: int = 4) -> None:
    """Report a trial that begins at `start`, in blocks of 1,000 visits; the first one takes `preparation` seconds."""
    left.record(key, 0, TrialEvent.STARTED, start)
    for number in range(blocks):
        left.record(key, 1_000, "", start + preparation + number * block)


def test_nothing_is_known_before_every_policy_has_shown_its_pace() -> None:
    left = TimeLeft([*FAST, *SLOW], STEPS, jobs=1)
    assert left.seconds() is None
    run_trial(left, FAST[0], 0.0, preparation=5.0, block=1.0)
    assert left.seconds() is None
    run_trial(left, SLOW[0], 10.0, preparation=20.0, block=10.0, blocks=1)
    assert left.seconds() is None  # the first block was preparation
    left.record(SLOW[0], 1_000, "", 40.0)
    # fast: 2 trials of 5 + 3 x 1 s; slow: 2 blocks of 10 s, and 2 trials of 20 + 3 x 10 s.
    assert left.seconds() == pytest.approx(2 * 8.0 + 20.0 + 2 * 50.0)
    assert left.share_done == pytest.approx(6 / 24)


def test_time_is_shared_by_the_processes_that_have_a_cell_left() -> None:
    seconds = {}
    for jobs in (1, 2, 8):
        left = TimeLeft(FAST, STEPS, jobs)
        run_trial(left, FAST[0], 0.0, preparation=5.0, block=1.0)
        seconds[jobs] = left.seconds()
    assert seconds == {1: 16.0, 2: 8.0, 8: 8.0}  # two trials are left


def test_blocks_that_compile_count_for_nothing() -> None:
    left = TimeLeft(FAST, STEPS, jobs=1)
    left.record(FAST[0], 0, TrialEvent.STARTED, 0.0)
    left.record(FAST[0], 0, TrialEvent.COMPILING, 1.0)
    left.record(FAST[0], 1_000, "", 61.0)
    left.record(FAST[0], 1_000, "", 62.0)
    left.record(FAST[0], 0, TrialEvent.COMPILING, 62.0)
    left.record(FAST[0], 1_000, "", 90.0)
    left.record(FAST[0], 1_000, "", 91.0)
    assert left.seconds() is None  # no trial yet began without compiling
    left.record(FAST[1], 0, TrialEvent.STARTED, 91.0)
    left.record(FAST[1], 0, "epoch 1 of 2", 92.0)
    left.record(FAST[1], 1_000, "", 94.0)
    assert left.seconds() == pytest.approx(3 * 1.0 + 3.0 + 3 * 1.0)


def test_the_median_preparation_and_saving_count() -> None:
    """The first trials of a process also load kernels from disk."""
    keys = [TrialKey("fast", seed) for seed in range(4)]
    left = TimeLeft(keys, STEPS, jobs=1)
    start = 0.0
    for key, preparation, saving in zip(keys[:3], (9.0, 2.0, 3.0), (0.5, 0.7, 6.0), strict=True):
        run_trial(left, key, start, preparation=preparation, block=1.0)
        start += preparation + 3.0 + saving
        left.record(key, 0, TrialEvent.SAVED, start)
    assert left.seconds() == pytest.approx(3.0 + 3 * 1.0 + 0.7)


def test_a_cell_that_fails_has_nothing_left() -> None:
    left = TimeLeft([FAST[0], SLOW[0]], STEPS, jobs=1)
    left.record(SLOW[0], 0, TrialEvent.STARTED, 0.0)
    left.record(SLOW[0], 0, TrialEvent.FAILED, 1.0)
    run_trial(left, FAST[0], 1.0, preparation=5.0, block=1.0, blocks=3)
    assert left.seconds() == pytest.approx(1.0)
    assert left.share_done == pytest.approx(7 / 8)


def test_a_cell_that_starts_again_is_counted_once() -> None:
    left = TimeLeft(FAST[:1], STEPS, jobs=1)
    run_trial(left, FAST[0], 0.0, preparation=5.0, block=1.0, blocks=2)
    run_trial(left, FAST[0], 9.0, preparation=5.0, block=1.0)
    assert left.share_done == 1.0
    assert left.seconds() == 0.0


def test_runs_of_one_block_need_no_pace() -> None:
    left = TimeLeft(FAST, 1_000, jobs=1)
    run_trial(left, FAST[0], 0.0, preparation=5.0, block=1.0, blocks=1)
    assert left.seconds() == pytest.approx(10.0)
