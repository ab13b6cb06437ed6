"""The ledger: forecasts of a log and what came, in bounded memory."""

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
from zoosim.policies.model import Model
from zoosim.schema.schema import FittedSchema
from zoosim.serving.events import Row, pack_whole
from zoosim.serving.forecasts import ledger as module
from zoosim.serving.forecasts.ledger import GROUPS, LATE, Ledger, LedgerProjection, load_ledger
from zoosim.serving.forecasts.scores import EARLY, HELD, MISSED, UNKNOWN, Score
from zoosim.serving.launches.state import Launch

DIGEST = "d" * 32
LONG_AGO = "2020-01-01T00:00:00+00:00"


class ClickModel(Model):
    """A model of which nothing is asked but what it is rewarded for."""

    def __init__(self, action_space: str = "products") -> None:
        self.fitted = FittedSchema(weights={"click": 1.0})
        self.action_space = action_space  # type: ignore[misc]


def models(digest: str) -> Model | None:
    return ClickModel()


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
    projection = LedgerProjection(models, ledger)
    for row in rows:
        projection.apply(row)
    return projection


def outcomes(projection: LedgerProjection) -> list[str]:
    return [each.outcome for each in projection.scores()]


def test_it_scores_the_first_decisions_alone() -> None:
    rewards = np.r_[np.tile([1.0, 0.0, 0.0, 0.0], 25), np.ones(50)]  # .25 in the first 100, whatever follows
    log = log_of(
        predicted(value=0.35, low=0.29, high=0.41),
        predicted(value=0.5, low=0.49, high=0.51),
        predicted(value=0.3, low=0.2, high=0.4, horizon=200),
        predicted(quantity="reward per visitor"),
        predicted(reward="margin"),
    )
    decide(log, rewards.tolist())
    scores = read(log.rows).scores()
    assert [each.outcome for each in scores] == [HELD, MISSED, EARLY, UNKNOWN, UNKNOWN]
    assert [each.decisions for each in scores] == [100, 100, 150, 0, 0]
    assert [each.came for each in scores[:3]] == pytest.approx([0.25, 0.25, 0.5])
    # sqrt(.25 x .75 / 100) = .0433; by groups, so up to chance.
    assert scores[0].error == pytest.approx(0.0433, rel=0.2)
    assert scores[4].reason == "the log has no reward of this name, but click"


def test_exploration_is_taken_off() -> None:
    """A policy shows one product for sure, which earns .8, and the others .1; a fifth of decisions is even over four.

    It shows its own with .8 + .2 / 4 = .85, so that decisions earn .85 x .8 + .15 x .1 = .695, and the policy .8.
    """
    rng = np.random.default_rng(0)
    n = 4_000
    said = predicted(value=0.8, low=0.78, high=0.82, horizon=n)
    log = Log(exploration=0.2)
    log.start(json.dumps({"forecasts": [said.plain]}).encode())
    versions = pack_whole(np.arange(4))
    for number, is_own in enumerate(rng.random(n) < 0.85):
        log.decide(f"{number}", model=DIGEST, versions=versions, chance=0.85 if is_own else 0.05)
        if rng.random() < (0.8 if is_own else 0.1):
            log.earn(f"{number}", 1.0)
    log.wait(WAIT)
    log.tick()
    (entry,) = read(log.rows).scores()
    assert entry.outcome == HELD
    assert entry.came is not None
    assert entry.came == pytest.approx(0.8, abs=4.0 * entry.error)
    assert entry.came - 0.695 > 8.0 * entry.error


def test_what_a_shop_shows_itself_does_not_count() -> None:
    log = Log(mode="apprentice")
    log.start(json.dumps({"forecasts": [predicted().plain]}).encode())
    decide(log, [1.0] * 10)
    assert [each.decisions for each in read(log.rows).scores()] == [0]


def test_a_forecast_of_lists_counts_all_that_is_shown() -> None:
    lists: dict[str, Any] = {"chances": [0.5, 0.5], "products": ["a", "b"], "versions": pack_whole(np.arange(3))}
    log = log_of(predicted(horizon=2, action_space="rankings"), predicted(horizon=2))
    for number in range(2):
        log.decide(f"{number}", model=DIGEST, **lists)
        log.earn(f"{number}", 1.0, slot=0)
        log.earn(f"{number}", 1.0, slot=1)
    log.wait(WAIT)
    log.tick()
    of_lists, of_tops = read(log.rows).scores()
    assert (of_lists.decisions, of_lists.came) == (2, 2.0)
    assert (of_tops.decisions, of_tops.came) == (2, 1.0)


def test_decisions_on_other_things_are_said_not_to_be_scored() -> None:
    log = log_of(predicted())
    projection = LedgerProjection(lambda digest: ClickModel("templates"))
    projection.apply(log.rows[0])
    (entry,) = projection.scores()
    assert (entry.outcome, entry.reason) == (
        UNKNOWN,
        "decisions on templates are not scored",
    )


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
    projection = LedgerProjection(models)
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


@pytest.mark.parametrize("content", [b"", b"[]", b'{"position": 9}', b'{"tallies": {"a": [0, 0, 0, 0, [], []]}}'])
def test_a_broken_file_is_no_ledger(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"truncated|Expected `object`|of another log"):
        load_ledger(content, position=3)
    entry = Score(predicted().plain, EARLY)
    ledger = Ledger(entries={"a": entry}, tallies={"a": module.Tally(sums=[0.0] * (GROUPS + 1))})
    with pytest.raises(ValueError, match="of another log"):
        load_ledger(msgspec.json.encode(ledger), position=3)
