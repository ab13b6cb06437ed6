"""The ledger: forecasts of a log and what came, as `zoosim forecasts` scores them, in bounded memory."""

import json
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import pytest

from tests.core.test_forecasts import forecast
from tests.serving.console.rows import WAIT, Log
from zoosim.core.forecasts import Forecast
from zoosim.monitoring.launch import State
from zoosim.serving.console import ledger as module
from zoosim.serving.console.ledger import GROUPS, LATE, Ledger, LedgerProjection, Scored, load_ledger
from zoosim.serving.events import Row
from zoosim.serving.forecasts import EARLY, HELD, MISSED, UNKNOWN, Decided, score
from zoosim.serving.launches.state import Launch

DIGEST = "d" * 32
LONG_AGO = "2020-01-01T00:00:00+00:00"


def weights() -> dict[str, float]:
    return {"click": 1.0}


def predicted(**changes: Any) -> Forecast:
    fields = {"value": 0.5, "low": 0.4, "high": 0.6, "horizon": 100, "made": LONG_AGO, "model": DIGEST, **changes}
    return forecast(**fields)


def log_of(*forecasts: Forecast, launch: Launch | None = None) -> Log:
    log = Log()
    changes: dict[str, Any] = {"forecasts": [each.plain for each in forecasts]}
    if launch is not None:
        changes["launch"] = msgspec.to_builtins(launch)
    log.start(json.dumps(changes).encode())
    return log


def decide(log: Log, rewards: Sequence[float], visitors: Sequence[int] | None = None) -> None:
    for number, reward in enumerate(rewards):
        visitor = number if visitors is None else visitors[number]
        log.decide(f"{number}", model=DIGEST, visitor_id=f"v{visitor}")
        if reward:
            log.earn(f"{number}", reward)
        log.wait(1.0)
    log.wait(WAIT)
    log.tick()


def read(rows: Sequence[Row], ledger: Ledger | None = None) -> LedgerProjection:
    projection = LedgerProjection(weights, ledger)
    for row in rows:
        projection.apply(row)
    return projection


def outcomes(projection: LedgerProjection) -> list[str]:
    return [each.outcome for each in projection.scores()]


def test_it_scores_as_the_whole_log_does() -> None:
    rewards = np.r_[np.tile([1.0, 0.0, 0.0, 0.0], 25), np.ones(50)]
    forecasts = [
        predicted(value=0.35, low=0.29, high=0.41),
        predicted(value=0.5, low=0.49, high=0.51),
        predicted(value=0.3, low=0.2, high=0.4, horizon=200),
        predicted(quantity="reward per visitor"),
        predicted(reward="margin"),
    ]
    log = log_of(*forecasts)
    decide(log, rewards.tolist())
    scores = read(log.rows).scores()
    assert [each.outcome for each in scores] == [HELD, MISSED, EARLY, UNKNOWN, UNKNOWN]
    decided = Decided({"click": rewards}, np.arange(len(rewards)) * 1_000_000, np.arange(len(rewards)))
    for each, said in zip(scores, forecasts, strict=True):
        expected = score(said, decided)
        assert (each.outcome, each.decisions, each.came) == (expected.outcome, expected.decisions, expected.came)
        assert each.reason == expected.reason
        assert each.error == pytest.approx(expected.error, rel=0.2)  # by groups, so up to chance


def test_decisions_of_others_and_from_before_the_forecast_do_not_count() -> None:
    log = log_of(predicted(horizon=2), predicted(horizon=2, made="2100-01-01T00:00:00+00:00"))
    log.decide("other", model="e" * 32)
    decide(log, [1.0, 0.0])
    first, later = read(log.rows).scores()
    assert (first.outcome, first.decisions, first.came) == (HELD, 2, 0.5)
    assert (later.outcome, later.decisions) == (EARLY, 0)


def test_the_standard_error_is_that_of_visitors() -> None:
    """Forty visitors earn alike ten times each: sqrt(.5 x .5 / 40) = .079, and by groups of visitors about that."""
    log = log_of(predicted(horizon=500))
    decide(log, [float(number % 2) for number in range(40)] * 10, [*range(40)] * 10)
    (entry,) = read(log.rows).scores()
    assert entry.error == pytest.approx(0.079, rel=0.3)


def test_what_nobody_activates_makes_room_for_others() -> None:
    log = log_of(predicted(horizon=2))
    log.decide("never", model=DIGEST, deferred=True)
    log.decide("activated", model=DIGEST, deferred=True)
    log.activate("activated")
    log.wait(2 * WAIT)
    log.tick()
    decide(log, [1.0])
    (entry,) = read(log.rows).scores()
    assert (entry.outcome, entry.decisions, entry.came) == (HELD, 2, 0.5)


def test_a_launch_is_scored_when_it_ends_though_others_follow() -> None:
    drop = predicted(quantity="visitors until found", value=500, low=100, high=900, about="a drop of 20%")
    launch = Launch(1, "new", {}, State.ROLLED_BACK, 0, 0, model=DIGEST, verdict="roll back", visitors=300)
    log = log_of(drop, launch=launch)
    (entry,) = read(log.rows).scores()
    assert (entry.outcome, entry.came, entry.time) == (HELD, 300.0, log.rows[0].time)
    after = log_of(drop, launch=launch)
    other = {"forecasts": [], "launch": msgspec.to_builtins(msgspec.structs.replace(launch, model="e" * 32))}
    after.start(json.dumps(other).encode())
    assert outcomes(read(after.rows)) == [HELD]


@pytest.mark.parametrize("cut", [1, 5, 30, 51, 53])
def test_a_saved_ledger_goes_on_where_it_ended(cut: int) -> None:
    log = log_of(predicted(horizon=30), predicted(horizon=60))
    decide(log, [1.0, 0.0] * 20)
    before = read(log.rows[:cut])
    loaded = load_ledger(before.saved(), position=cut)
    after = read(log.rows, loaded)  # those that it knows are passed over
    assert after.scores() == read(log.rows).scores()
    assert outcomes(after) == [HELD, EARLY]


def test_a_ledger_that_begins_late_says_so() -> None:
    log = log_of(predicted())
    start = log.start(json.dumps({"forecasts": [predicted().plain]}).encode())
    projection = LedgerProjection(weights)
    projection.begin(start, 2)
    assert [(each.outcome, each.reason) for each in projection.scores()] == [(UNKNOWN, LATE)]
    assert projection.position == 2


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_ENTRIES", 3)
    monkeypatch.setattr(module, "MOST_OPEN", 10)
    log = log_of(*(predicted(horizon=10**9, by=f"{number}") for number in range(5)))
    decide(log, [1.0] * 40)
    scores = read(log.rows).scores()
    assert [each.forecast["by"] for each in scores] == ["2", "3", "4"]
    assert {each.decisions for each in scores} == {10}


@pytest.mark.parametrize("content", [b"", b"[]", b'{"position": 9}', b'{"tallies": {"a": [0, 0, 0, [], []]}}'])
def test_a_broken_file_is_no_ledger(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"truncated|Expected `object`|of another log"):
        load_ledger(content, position=3)
    entry = Scored(predicted().plain, EARLY)
    ledger = Ledger(entries={"a": entry}, tallies={"a": module.Tally(counts=[0] * (GROUPS + 1))})
    with pytest.raises(ValueError, match="of another log"):
        load_ledger(msgspec.json.encode(ledger), position=3)
