"""The series: what each arm decided and earned over time, in a bounded number of periods."""

from pathlib import Path

import msgspec
import pytest

from tests.serving.console.rows import TIME, WAIT, Log
from zoosim.core.durations import MICROSECONDS
from zoosim.serving.console import series as module
from zoosim.serving.console.series import DELAYS, FILE, Series, SeriesProjection, load_series, save_series, totals
from zoosim.serving.events import CHAMPION


def read(log: Log) -> Series:
    projection = SeriesProjection()
    for row in log.rows:
        projection.apply(row)
    return projection.series


@pytest.fixture
def log() -> Log:
    log = Log()
    log.start(challenger=0.5)
    return log


def test_rewards_count_for_the_arm_and_the_period_of_their_decision(log: Log) -> None:
    log.decide("one")
    log.decide("two", "challenger")
    log.wait(25.0)
    log.earn("two", 3.0)
    log.decide("three", "challenger")
    series = read(log)
    assert [period.begin - TIME for period in series.periods] == [0, 20 * MICROSECONDS]
    first = series.periods[0].arms
    assert (first[CHAMPION].decisions, first[CHAMPION].rewards) == (1, {})
    assert (first["challenger"].decisions, first["challenger"].rewards) == (1, {"click": 3.0})
    assert totals(series.periods)["challenger"].decisions == 2


def test_what_comes_after_the_wait_or_for_nobody_does_not_count(log: Log) -> None:
    log.decide("one")
    log.wait(WAIT + 1.0)
    log.earn("one")
    log.earn("unknown")
    series = read(log)
    assert totals(series.periods)[CHAMPION].rewards == {}
    assert sum(series.delays) == 0


def test_delays_are_counted_up_to_each_bound(log: Log) -> None:
    for seconds in (0.0, 1.0, 1.5, 599.0):
        log.decide(f"after {seconds}")
        log.wait(seconds)
        log.earn(f"after {seconds}")
    expected = [0] * (len(DELAYS) + 1)
    expected[0] = 2
    expected[1] = 1
    expected[DELAYS.index(600)] = 1
    assert read(log).delays == expected


def test_periods_get_longer_and_hold_all_that_they_held(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_PERIODS", 4)
    for number in range(40):
        log.decide(f"{number}")
        log.earn(f"{number}")
        log.wait(10.0)
    series = read(log)
    assert len(series.periods) <= 4
    assert series.length == 160 * MICROSECONDS
    assert totals(series.periods)[CHAMPION] == module.ArmPeriod(40, 40, {"click": 40.0})
    assert [period.begin for period in series.periods] == sorted({period.begin for period in series.periods})


def test_further_products_are_counted_together(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_PRODUCTS", 2)
    for number, name in enumerate(["a", "b", "c", "a", "d"]):
        log.decide(f"{number}", shown=name)
    assert read(log).products == {"a": 2, "b": 1, "": 2}


def test_effective_decisions_are_all_where_candidates_are_shown_alike_and_fewer_else(log: Log) -> None:
    assert read(log).effective_decisions() == 0.0
    for number in range(10):
        log.decide(f"{number}", chance=0.5)
    assert read(log).effective_decisions() == pytest.approx(10.0)
    log.decide("rare", chance=0.01)  # a weight of 50 beside ten of 1: (10 + 50)^2 / (10 + 2,500)
    assert read(log).effective_decisions() == pytest.approx(3_600 / 2_510)


def test_changes_are_kept_with_their_reasons(log: Log) -> None:
    (change,) = read(log).changes
    assert (change.time, change.who, change.why, change.shares) == (TIME, "maya", "a start", {"challenger": 0.5})


def test_a_saved_series_goes_on_where_it_ended(log: Log, tmp_path: Path) -> None:
    log.decide("one")
    save_series(tmp_path, read(log))
    loaded = load_series(tmp_path, position=2)
    assert loaded == read(log)
    log.decide("two")
    projection = SeriesProjection(loaded)
    for row in log.rows:  # those that it knows are passed over
        projection.apply(row)
    assert projection.series == read(log)


@pytest.mark.parametrize("content", [b"", b"[", b"{}", b"[" * 10_000, msgspec.json.encode(Series(length=0))])
def test_a_broken_file_is_no_series(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE).write_bytes(content)
    assert load_series(tmp_path, position=100) == Series()


def test_a_series_of_another_log_is_none(log: Log, tmp_path: Path) -> None:
    log.decide("one")
    save_series(tmp_path, read(log))
    assert load_series(tmp_path, position=1) == Series()
