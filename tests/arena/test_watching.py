"""Figures of a run while it goes on: sums by part of the run, and how far it is."""

import pickle
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from zoosim.arena.metrics import TrialRows
from zoosim.arena.plan import Plan
from zoosim.arena.store import RunFolder, Trial, TrialKey
from zoosim.arena.time_left import TrialEvent
from zoosim.arena.trial import run_trial
from zoosim.arena.watching import (
    DONE,
    FAILED,
    MOST_ACTIONS,
    POINTS,
    RUNNING,
    WAITING,
    BlockLine,
    BlockSums,
    RunFigures,
    part_length,
    sums_of,
)
from zoosim.core.types import IntArray
from zoosim.experiments.plan import make_plan
from zoosim.experiments.request import RunRequest

STEPS = 600
"""Visits of a run: ten per part."""

A, B = TrialKey("random", 0), TrialKey("random", 1)


@pytest.fixture(scope="module")
def plan() -> Plan:
    return make_plan(RunRequest("gauntlet", 2, STEPS, ["random", "greedy"], (), None, ()))


def block(visitors: IntArray, earned: float = 1.0, expected: float = 0.5, actions: Any = None) -> BlockSums:
    n = len(visitors)
    chosen = np.zeros(n, np.int64) if actions is None else actions
    return sums_of(visitors, np.full(n, earned), np.full(n, expected), np.ones(n), chosen, STEPS)


def line(visitors: IntArray, earned: float = 1.0, expected: float = 0.5) -> BlockLine:
    return BlockLine("CTR 50.0%", block(visitors, earned, expected))


def test_sums_are_by_part_of_the_run() -> None:
    sums = block(np.arange(15, 35))
    assert part_length(STEPS) == 10
    assert sums.first == 1
    # Visitors, rewards, expected ones and the best: five visits of part 1, ten of part 2, five of part 3.
    assert sums.sums.tolist() == [[5, 5, 2.5, 5], [10, 10, 5, 10], [5, 5, 2.5, 5]]
    assert (sums.decisions, sums.actions) == (20, {0: 20})


def test_visitors_with_several_decisions_are_one_return_each() -> None:
    sums = block(np.repeat(np.arange(8, 12), 3))
    # Of a return of 1 at best the first decision gives away .5, and two later ones .5 each.
    assert sums.sums.tolist() == [[2, 6, -1, 2], [2, 6, -1, 2]]
    assert sums.decisions == 12


def test_a_run_that_goes_on_shows_what_its_file_shows(tmp_path: Path) -> None:
    plan = make_plan(RunRequest("long-term", 1, 40, ["random"], (), None, ()))
    key = TrialKey("random", 0)
    live = RunFigures(plan, {}, [key], 1)
    result = run_trial(plan, plan.entries[0], 0, False, lambda key, visits, line: live.report(key, visits, line, 0.0))
    folder = RunFolder(tmp_path)
    folder.save_trial(key, result.files)
    read = RunFigures(plan, {key: folder.read_whole_trial(key)}, [], 1)
    (before,), (after,) = live.progress().policies, read.progress().policies
    assert before.reward_so_far[0] == pytest.approx(after.reward_so_far[0])
    assert before.fraction_so_far[0] == pytest.approx(after.fraction_so_far[0])
    assert before.actions == after.actions


def test_actions_that_are_vectors_are_not_counted_and_of_many_the_most_chosen() -> None:
    assert block(np.arange(4), actions=np.zeros((4, 10))).actions == {}
    many = block(np.arange(300), actions=np.r_[np.arange(200), np.zeros(100, np.int64)])
    assert len(many.actions) == MOST_ACTIONS
    assert many.actions[0] == 101


@pytest.mark.parametrize("steps", [1, 59, 60, 61, 100_000])
def test_a_run_has_no_more_parts_than_points(steps: int) -> None:
    assert 0 < -(-steps // part_length(steps)) <= POINTS


def test_a_line_keeps_its_sums_in_another_process() -> None:
    copied = pickle.loads(pickle.dumps(line(np.arange(10))))
    assert copied == "CTR 50.0%"
    assert copied.block.sums.tolist() == line(np.arange(10)).block.sums.tolist()


def test_a_run_is_followed_by_reports(plan: Plan) -> None:
    figures = RunFigures(plan, {}, [A, B], 1)
    assert figures.progress().policies[0].states == Counter({WAITING: 2})
    figures.report(A, 0, TrialEvent.STARTED, 0.0)
    figures.report(A, 300, line(np.arange(300)), 1.0)
    half = figures.progress()
    assert (half.done, half.total, half.share_done) == (0, 2, 0.25)
    random, greedy = half.policies
    assert random.states == Counter({RUNNING: 1, WAITING: 1})
    assert random.fraction_so_far == (0.5, None, None)
    assert random.fraction.mean[:30].tolist() == [0.5] * 30
    assert np.isnan(random.fraction.mean[30:]).all()
    assert greedy.fraction_so_far == (None, None, None)
    figures.report(A, 300, line(np.arange(300, 600)), 2.0)
    figures.report(A, 0, TrialEvent.SAVED, 2.1)
    figures.report(B, 0, TrialEvent.STARTED, 2.2)
    figures.report(B, 300, line(np.arange(300), expected=0.7), 3.0)
    figures.report(B, 0, TrialEvent.FAILED, 3.1)
    end = figures.progress()
    assert (end.done, end.share_done) == (2, 1.0)
    assert end.policies[0].states == Counter({DONE: 1, FAILED: 1})
    # Two seeds at .5 and .7: Student's t with one degree of freedom is 12.706, times a standard error of .1.
    mean, low, high = (curve[0] for curve in end.policies[0].fraction)
    assert (mean, low, high) == pytest.approx((0.6, 0.6 - 1.2706, 0.6 + 1.2706), abs=1e-3)
    assert end.policies[0].actions == {0: 1.0}


def test_a_trial_that_starts_again_is_counted_once(plan: Plan) -> None:
    figures = RunFigures(plan, {}, [A], 1)
    for _ in range(2):
        figures.report(A, 0, TrialEvent.STARTED, 0.0)
        figures.report(A, 600, line(np.arange(600)), 1.0)
    assert figures.progress().policies[0].reward_so_far[0] == 1.0
    assert figures.progress().policies[0].actions == {0: 1.0}
    assert figures.progress().share_done == 1.0


def test_trials_that_were_there_before_are_shown(plan: Plan) -> None:
    rows = TrialRows(np.ones(STEPS), np.full(STEPS, 0.4), np.full(STEPS, 0.8))
    before = Trial(rows, {}, np.full(STEPS, 3), frozenset())
    figures = RunFigures(plan, {A: before}, [B], 1)
    progress = figures.progress()
    assert (progress.done, progress.total) == (1, 2)
    assert progress.policies[0].fraction_so_far[0] == pytest.approx(0.5)
    assert progress.policies[0].actions == {3: 1.0}
