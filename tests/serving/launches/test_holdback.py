"""The champion beside the holdback: visitors count once, new models begin anew, and restarts lose nothing."""

from collections.abc import Sequence

import msgspec
import numpy as np
import pytest

from tests.serving.console.rows import WAIT, Log
from zoosim.monitoring.launch import State
from zoosim.serving.arms import Assignment
from zoosim.serving.events import CHAMPION, HOLDBACK, Row, Start
from zoosim.serving.launches import holdback as module
from zoosim.serving.launches.holdback import HoldbackMonitor, HoldbackReport, SavedComparison, load_comparison
from zoosim.serving.launches.state import Launch, with_launch

CLICK_RATES = {CHAMPION: 0.6, HOLDBACK: 0.2}


def weights() -> dict[str, float]:
    return {"click": 1.0}


@pytest.fixture
def log() -> Log:
    return Log()


def begin(log: Log) -> Start:
    return log.start(role=HOLDBACK, holdback=0.5)


def visit(log: Log, start: Start, count: int, first: int = 0, prefix: str = "v") -> None:
    """Let visitors come twice each, who click at the first decision as their arm pleases them."""
    rng = np.random.default_rng(first)
    assignment = Assignment(start)
    for number in range(first, first + count):
        visitor = f"{prefix}{number}"
        arm = assignment.arm_for(visitor, "")
        for again in range(2):
            log.decide(f"{visitor} {again}", arm, visitor_id=visitor)
        if rng.random() < CLICK_RATES[arm]:
            log.earn(f"{visitor} 0")
        log.wait(5.0)
        if number % 20 == 0:
            log.tick()


def close(log: Log) -> None:
    log.wait(2 * WAIT)
    log.tick()


def read(rows: Sequence[Row], monitor: HoldbackMonitor | None = None) -> HoldbackMonitor:
    reading = monitor or HoldbackMonitor(weights)
    for row in rows:
        reading.apply(row)
    return reading


def report_of(log: Log) -> HoldbackReport:
    report = read(log.rows).report()
    assert report is not None
    return report


def test_it_says_who_earns_more_and_since_when(log: Log) -> None:
    visit(log, begin(log), 400)
    close(log)
    report = report_of(log)
    (compared,) = report.rewards
    assert (report.arm, report.visitors, report.since) == ("holdback", 400, log.rows[0].time)
    assert compared.low > 0.0
    assert compared.low < 0.4 < compared.high
    assert log.rows[0].time < compared.known_since < log.rows[-1].time
    assert report.share == 0.5


def test_without_a_holdback_there_is_nothing_to_say(log: Log) -> None:
    log.start(challenger=0.5)
    log.decide("one")
    assert read(log.rows).report() is None


def test_it_pauses_while_a_launch_splits_visitors(log: Log) -> None:
    start = begin(log)
    visit(log, start, 50)
    launch = Launch(1, "holdback", {}, State.RUNNING, 0, 0, model="digest")
    log.start(with_launch(start, launch).changes, HOLDBACK, holdback=0.5)
    visit(log, start, 50, first=50)
    close(log)
    report = report_of(log)
    assert (report.visitors, report.is_paused) == (50, True)


def test_another_champion_begins_anew(log: Log) -> None:
    start = begin(log)
    visit(log, start, 40)
    close(log)
    before = read(log.rows)
    changed = msgspec.structs.replace(start, model="other")
    before.begin(changed, 7)
    report = before.report()
    assert report is not None
    assert (report.visitors, report.since, report.rewards) == (0, 7, [])


@pytest.mark.parametrize("part", [0.0, 0.3, 0.7, 1.0])
def test_a_saved_comparison_goes_on_where_it_ended(log: Log, part: float) -> None:
    """Rows are read again from the first one of a visitor whose window is open."""
    start = begin(log)
    visit(log, start, 1_000)
    close(log)
    cut = max(round(part * len(log.rows)), 1)
    saved = load_comparison(read(log.rows[:cut]).saved(), position=cut)
    assert 0 <= saved.position <= cut
    monitor = HoldbackMonitor(weights, saved)
    monitor.begin(start)
    assert read(log.rows, monitor).report() == report_of(log)


def test_where_more_visitors_come_than_are_remembered_some_count(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_VISITORS", 50)
    start = begin(log)
    visit(log, start, 400)
    visit(log, start, 400)  # decisions of the same ids would be repetitions, yet nobody may count twice
    close(log)
    monitor = read(log.rows)
    report = monitor.report()
    assert report is not None
    assert 50 < report.visitors < 300
    saved = msgspec.json.decode(monitor.saved(), type=SavedComparison)
    assert len(saved.seen) <= 50


def test_a_comparison_of_another_log_is_none() -> None:
    saved = msgspec.json.encode(SavedComparison(9, [], 0, {}, [], [], 2**64))
    with pytest.raises(ValueError, match="of another log"):
        load_comparison(saved, position=8)
    with pytest.raises(ValueError, match="truncated"):
        load_comparison(b"", position=8)
