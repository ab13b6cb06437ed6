"""Forecasts of a model come into the log with it, and are scored by what its decisions earn."""

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx2
import pytest
from typer.testing import CliRunner

import zoosim
from tests.core.test_forecasts import forecast
from tests.serving.mock_time import MockTime
from tests.serving.shop import PRODUCTS, make_boost_model, make_model, running
from zoosim.cli import app
from zoosim.core.errors import ConfigError, DataError
from zoosim.core.forecasts import write_forecasts
from zoosim.policies.boost_model import BoostModel
from zoosim.policies.model import load_model, model_digest
from zoosim.serving.application import Application
from zoosim.serving.bodies import DecideBody, DeploymentBody, FeedbackBody, SearchBody, SearchVisitor
from zoosim.serving.events import Start
from zoosim.serving.forecasts.kept import MOST, forecasts_in, forecasts_of_file, with_forecasts
from zoosim.serving.forecasts.report import scores_in
from zoosim.serving.forecasts.scores import EARLY, HELD, MISSED
from zoosim.serving.store.address import Address

LONG_AGO = "1970-01-01T00:00:00+00:00"
DIGEST = "a" * 32


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
    assert [(each.forecast["by"], each.outcome) for each in scores] == [
        ("zoosim train", HELD),
        ("zoosim recommend", MISSED),
        ("zoosim evaluate", EARLY),
    ]
    # Exploration is taken off: which decisions explored follows from their ids, and moves the figure by .011 (1 sd).
    assert [each.came for each in scores] == pytest.approx([0.5] * 3, abs=0.05)
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


def test_searches_are_scored_by_what_was_clicked_and_bought(tmp_path: Path) -> None:
    path = make_boost_model(tmp_path)
    model = load_model(path)
    assert isinstance(model, BoostModel)
    said = {"reward": "reward", "model": model_digest(path), "made": LONG_AGO, "horizon": 100}
    write_forecasts(path.with_suffix(".forecasts.jsonl"), [forecast(**{**said, "action_space": "boosts"})])
    scores = dict.fromkeys(model.requests.names[:15], 0.0)
    came = []

    async def run() -> None:
        time = MockTime()
        async with running(tmp_path / "service", path, time.clock(), wait=1.0) as service:
            for number in range(20):
                answer = await service.decide(SearchBody(SearchVisitor("savers", "browse"), scores))
                clicked, bought = answer.ranking[0], answer.ranking[1]
                if number % 2:
                    await service.give_feedback(answer.decision_id, FeedbackBody({"click": 1.0}, product=clicked))
                    # What was bought was clicked, too.
                    await service.give_feedback(answer.decision_id, FeedbackBody({"purchase": 1.0}, product=bought))
                    worth = model.requests.worth[model.requests.row_of[bought]]
                    came.append(worth + 2.0 * model.requests.schema.reward.clicks)
            time.pass_by(10.0)
            await service.tick()

    (tmp_path / "service").mkdir()
    asyncio.run(run())
    (score,) = scores_in(Address(tmp_path / "service"))
    assert (score.outcome, score.decisions) == (EARLY, 20)
    assert score.came == pytest.approx(sum(came) / 20)
    assert sum(came) > 0.0
