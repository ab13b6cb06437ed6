"""Simulated time: processes share it, it never goes back, and a service's rows go by it while durations do not."""

import time
from pathlib import Path

from zoosim.core.durations import MICROSECONDS
from zoosim.playground.clock import SharedTime, SimulatedClock

DAY = 86_400 * MICROSECONDS


def test_a_time_is_that_of_all_who_open_its_file(tmp_path: Path) -> None:
    here = SharedTime(tmp_path / "time")
    assert abs(here.now() / MICROSECONDS - time.time()) < 60.0
    there = SharedTime(tmp_path / "time")
    begin = there.now()
    here.move_to(begin + DAY)
    here.move_to(begin)
    assert there.now() == begin + DAY


def test_a_clock_goes_by_the_shared_time_and_measures_durations_by_the_machine(tmp_path: Path) -> None:
    shared = SharedTime(tmp_path / "time")
    clock = SimulatedClock(shared)
    begin = clock.now()
    passed = clock.passed()
    clock.look()
    assert clock.now() == begin, "nothing has moved it"
    shared.move_to(begin + DAY)
    clock.look()
    assert clock.now() == begin + DAY
    assert clock.passed() - passed < 3_600.0
    again = SimulatedClock(shared)
    again.begin(newest=begin + DAY, common=None)
    assert (again.now(), again.gaps) == (begin + DAY, [])
