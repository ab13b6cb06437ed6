"""Forecasts of a model come into the log with it, and are scored by what its decisions earn."""

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import pytest
from typer.testing import CliRunner

import zoosim
from tests.core.test_forecasts import forecast
from tests.serving.mock_time import MockTime
from tests.serving.shop import PRODUCTS, make_model, running
from zoosim.cli import app
from zoosim.core.errors import ConfigError, DataError
from zoosim.core.forecasts import decisions_to_score, write_forecasts
from zoosim.policies.model import model_digest
from zoosim.serving.application import Application
from zoosim.serving.bodies import DecideBody, DeploymentBody, FeedbackBody
from zoosim.serving.events import Start
from zoosim.serving.forecasts import (
    EARLY,
    HELD,
    MISSED,
    MOST,
    UNKNOWN,
    Decided,
    forecasts_in,
    forecasts_of_file,
    score,
    scores_in,
    with_forecasts,
)
from zoosim.serving.store.address import Address

LONG_AGO = "1970-01-01T00:00:00+00:00"
DIGEST = "a" * 32


def decided(rewards: Any, visitors: Any = None) -> Decided:
    """Decisions an hour apart."""
    n = len(rewards)
    who = np.arange(n) if visitors is None else np.asarray(visitors)
    return Decided({"click": np.asarray(rewards, float)}, np.arange(n) * 3_600_000_000, who)


def test_a_forecast_is_scored_by_its_first_decisions_within_both_intervals() -> None:
    rewards = np.r_[np.tile([1.0, 0.0, 0.0, 0.0], 25), np.ones(100)]  # .25 in the first 100, whatever follows
    # Standard error sqrt(.25 x .75 / 100) = .0433, so 95% reach .0849 to each side.
    said = forecast(value=0.35, low=0.29, high=0.41, horizon=100)
    scored = score(said, decided(rewards))
    assert (scored.outcome, scored.decisions, scored.came) == (HELD, 100, 0.25)
    assert scored.error == pytest.approx(0.0433, abs=1e-4)
    # .36 less the root of .06^2 + .0849^2 is .2560: above what came.
    assert score(forecast(value=0.36, low=0.3, high=0.42, horizon=100), decided(rewards)).outcome == MISSED
    assert score(forecast(value=0.14, low=0.08, high=0.2, horizon=100), decided(rewards)).outcome == MISSED
    assert "held" in scored.sentence
    assert json.loads(json.dumps(scored.as_dict()))["came"] == 0.25


def test_forecasts_hold_as_often_as_they_say() -> None:
    """Of click rates by 2,000 rows of a log, 95% hold at the horizon, and at ten times that."""
    rng = np.random.default_rng(0)
    n = 1_000
    for more in (1, 10):
        held = 0
        for _ in range(n):
            rate = rng.binomial(2_000, 0.1) / 2_000
            half = 1.96 * np.sqrt(rate * (1.0 - rate) / 2_000)
            horizon = more * decisions_to_score(np.sqrt(rate * (1.0 - rate)), half, 1.96)
            said = forecast(value=rate, low=rate - half, high=rate + half, horizon=horizon)
            held += score(said, decided(rng.random(horizon) < 0.1)).outcome == HELD
        assert abs(held / n - 0.95) < 4.0 * np.sqrt(0.95 * 0.05 / n), more


def test_a_visitor_who_decides_often_counts_as_one() -> None:
    rewards = np.repeat([1.0, 0.0, 0.0, 0.0], 25)
    said = forecast(horizon=100)
    assert score(said, decided(rewards, np.repeat(np.arange(4), 25))).error == pytest.approx(0.2165, abs=1e-4)


def test_it_is_too_early_before_the_horizon() -> None:
    early = score(forecast(horizon=100), decided(np.ones(52)))
    assert (early.outcome, early.decisions, early.came) == (EARLY, 52, 1.0)
    assert early.reason == "needs 48 more decisions, about 2.0 days"
    nobody = score(forecast(horizon=100), Decided({}, np.zeros(0, np.int64), np.zeros(0, np.int64)))
    assert (nobody.outcome, nobody.reason) == (EARLY, "needs 100 more decisions")
    before = decided(np.ones(200)).since("1970-01-02T00:00:00+00:00")
    assert len(before) == 176


def test_what_the_log_does_not_tell_cannot_be_scored() -> None:
    other = score(forecast(reward="margin"), decided(np.ones(100)))
    assert (other.outcome, other.reason) == (UNKNOWN, "the log has no reward of this name, but click")
    assert score(forecast(quantity="reward per visitor"), decided(np.ones(100))).outcome == UNKNOWN


def test_the_log_keeps_the_newest_forecasts_and_passes_over_what_it_does_not_know() -> None:
    start = Start("a", b"{}", changes=json.dumps({"forecasts": [{"moons": 2}, forecast().plain]}).encode())
    assert forecasts_in(start) == [forecast()]
    assert with_forecasts(start, []) is start
    newer = forecasts_of(MOST + 10)
    assert forecasts_in(with_forecasts(start, newer)) == newer[-MOST:]
    assert len(with_forecasts(start, newer).changes) < 40_000
    assert forecasts_in(Start("a", b"{}")) == []


def forecasts_of(count: int) -> list[Any]:
    return [forecast(reward=f"reward {number}", model=DIGEST) for number in range(count)]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model beside which stand forecasts of it, and one of the model that was there before."""
    path = make_model(tmp_path_factory.mktemp("shop"))
    digest = model_digest(path)
    said = {"policy": "adaptive", "model": digest, "made": LONG_AGO, "horizon": 100}
    forecasts = [
        forecast(**{**said, "value": 0.5, "low": 0.4, "high": 0.6}),
        forecast(**{**said, "value": 0.9, "low": 0.88, "high": 0.92, "by": "zoosim recommend"}),
        forecast(**{**said, "horizon": 10**6, "by": "zoosim evaluate"}),
        forecast(model=DIGEST),
    ]
    write_forecasts(path.with_suffix(".forecasts.jsonl"), forecasts)
    return path


@pytest.fixture(scope="module")
def served(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a service whose visitors click every other time, and in it what it answered of forecasts."""
    folder = tmp_path_factory.mktemp("service")

    async def run() -> None:
        time = MockTime()
        async with running(folder, model, time.clock(), wait=1.0) as service:
            for number in range(120):
                answer = await service.decide(DecideBody({"country": "de"}, [*PRODUCTS[:4]], visitor_id=f"v{number}"))
                if number % 2:
                    await service.give_feedback(answer.decision_id, FeedbackBody({"click": 1.0}))
                time.pass_by(1.0)
            time.pass_by(10.0)
            await service.tick()
            transport = httpx2.ASGITransport(app=Application(service).starlette())
            async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
                (folder / "answers.json").write_text((await client.get("/v1/forecasts")).text)

    asyncio.run(run())
    return folder


def test_a_service_scores_what_was_forecast_of_the_model_that_it_was_started_with(served: Path) -> None:
    scores = scores_in(Address(served))
    assert [(each.forecast.by, each.outcome) for each in scores] == [
        ("zoosim train", HELD),
        ("zoosim recommend", MISSED),
        ("zoosim evaluate", EARLY),
    ]
    assert {each.came for each in scores} == {0.5}
    assert json.loads((served / "answers.json").read_text())["forecasts"] == zoosim.forecasts(served)


def test_the_command_prints_what_came(served: Path, model: Path) -> None:
    printed = CliRunner().invoke(app, ["forecasts", str(served)])
    assert printed.exit_code == 0, printed.output
    assert "0.9 (0.88 to 0.92)" in printed.output
    assert "3 forecasts: 1 held, 1 missed, 1 too early." in " ".join(printed.output.split())
    of_file = CliRunner().invoke(app, ["forecasts", str(model)])
    assert "3 forecasts: 3 too early." in " ".join(of_file.output.split())
    for_code = CliRunner().invoke(app, ["forecasts", str(served), "--json"])
    assert json.loads(for_code.output) == zoosim.forecasts(served)
    with pytest.raises(DataError, match="forecasts: got 'nowhere', expected the folder of a service"):
        zoosim.forecasts("nowhere")


def test_a_launch_brings_its_forecasts_or_is_refused(tmp_path: Path, model: Path) -> None:
    async def run() -> None:
        async with running(tmp_path, model, MockTime().clock(), wait=1.0) as service:
            digest = service.keep_model(model)
            before = forecasts_in(service.start)
            launch = DeploymentBody("launch", "new", digest, share=0.1)
            for wrong, message in [
                ([{"value": 1}], "forecasts 1.quantity: missing"),
                ([forecast(model=DIGEST).plain], "model: got 'a{32}', expected the launched one"),
                ([forecast(model=digest).plain] * 51, "expected a list of at most 50"),
            ]:
                refused = DeploymentBody("launch", "new", digest, share=0.1, forecasts=wrong)
                with pytest.raises(ConfigError, match=message):
                    await service.deploy(refused)
            assert not service.start.arms
            new = forecast(model=digest, reward="margin")
            launch.forecasts = [new.plain]
            told = await service.deploy(launch)
            assert forecasts_in(service.start) == [*before, new]
            assert told["forecasts"] == len(before) + 1

    asyncio.run(run())


def test_a_file_beside_the_model_that_holds_something_else_is_refused(tmp_path: Path, model: Path) -> None:
    copied = tmp_path / "m.zoosim"
    copied.write_bytes(model.read_bytes())
    (tmp_path / "m.forecasts.jsonl").write_text("{}")
    with pytest.raises(DataError, match=r"m.forecasts.jsonl: line 1.quantity: missing"):
        forecasts_of_file(copied, model_digest(copied))
