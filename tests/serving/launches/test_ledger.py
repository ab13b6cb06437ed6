"""What came of a launch, by the log of its service: who counted, its moves, effects by reward and segment, the page."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import zoosim
from tests.serving.shop import PRODUCTS, make_model
from tests.serving.test_launch import Shop, launch, with_shop
from zoosim.cli import app
from zoosim.core.errors import DataError
from zoosim.serving.bodies import DecideBody, DeploymentBody, FeedbackBody
from zoosim.serving.events import CHAMPION

RATES = {("de", CHAMPION): 0.2, ("de", "new"): 0.8, ("fr", CHAMPION): 0.7, ("fr", "new"): 0.1}
"""How likely visitors of a country click, by the arm that decides."""

VISITORS = 600


async def visit(shop: Shop, number: int, rng: np.random.Generator) -> None:
    """Let a visitor come who clicks by country and arm."""
    country = "de" if number % 3 else "fr"
    answer = await shop.service.decide(DecideBody({"country": country}, [*PRODUCTS[:4]], visitor_id=f"w{number}"))
    if rng.random() < RATES[country, answer.arm]:
        await shop.service.give_feedback(answer.decision_id, FeedbackBody({"click": 1.0}))
    shop.time.pass_by(1.0)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log of a service with a launch that helps visitors of one country, harms others, and is taken back."""
    folder = tmp_path_factory.mktemp("launched") / "service"
    model = make_model(tmp_path_factory.mktemp("shop"))

    async def use(shop: Shop) -> None:
        rng = np.random.default_rng(0)
        await launch(shop, model, steps=[0.5], hours=100.0)
        for number in range(VISITORS):
            await visit(shop, number, rng)
        shop.time.pass_by(5.0)
        await shop.service.tick()
        await shop.service.deploy(DeploymentBody("rollback", "new", who="bob", why="the call center is full"))
        assert await shop.service.upkeep.check_writing() == ""

    with_shop(folder, model, use)
    return folder


@pytest.fixture(scope="module")
def report(served: Path, tmp_path_factory: pytest.TempPathFactory) -> zoosim.LaunchResult:
    return zoosim.launch_report(served, out=tmp_path_factory.mktemp("report") / "out")


def test_each_visitor_counts_once(report: zoosim.LaunchResult) -> None:
    visitors = report.entry.visitors
    assert len(visitors) == VISITORS
    assert {visitor.share for visitor in visitors} == {0.5}
    assert sum(visitor.is_new for visitor in visitors) == pytest.approx(VISITORS / 2, abs=4 * np.sqrt(VISITORS / 4))


def test_effects_differ_by_segment(report: zoosim.LaunchResult) -> None:
    """600 visitors: +.6 in two thirds of them, -.6 in the others."""
    effects = {effect.segment: effect for effect in report.effects}
    whole = effects.pop("")
    assert whole.estimate.low < 0.6 / 3 < whole.estimate.high
    german, french = sorted(effects.values(), key=lambda effect: -effect.estimate.difference)
    assert "de" in german.segment
    assert "fr" in french.segment
    assert (german.sign, french.sign) == (1, -1)
    assert german.estimate.difference == pytest.approx(0.6, abs=0.2)
    assert german.visitors + french.visitors == VISITORS


def test_its_history_has_reasons(report: zoosim.LaunchResult) -> None:
    begun, ended = report.history[0], report.history[-1]
    assert (begun["state"], begun["share"], begun["who"]) == ("running", 0.5, "ann")
    assert (ended["state"], ended["share"], ended["who"]) == ("rolled back", 0.0, "bob")
    assert ended["why"] == "the call center is full"


def test_it_says_what_to_do_and_what_speaks_against_it(report: zoosim.LaunchResult) -> None:
    assert report.sentences[0] == "Leave new as it is, taken back: the call center is full."
    assert any("country is de is shown to earn more by it" in sentence for sentence in report.sentences)
    page = (report.path / "report.html").read_text()
    assert "the call center is full" in page
    summary = json.loads((report.path / "summary.json").read_text())
    assert len(summary["effects"]) == 3


def test_a_log_without_that_launch_is_refused_in_one_line(served: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="launch: got 99, expected one of"):
        zoosim.launch_report(served, launch=99, out=tmp_path / "out")
    with pytest.raises(DataError, match="expected the folder of a service"):
        zoosim.launch_report(tmp_path / "nothing", out=tmp_path / "out")
    refused = CliRunner().invoke(app, ["launch-report", str(tmp_path / "nothing")])
    assert isinstance(refused.exception, DataError)


def test_the_command_prints_it(served: Path, tmp_path: Path) -> None:
    printed = CliRunner().invoke(app, ["launch-report", str(served), "--out", str(tmp_path / "out")])
    assert printed.exit_code == 0, printed.output
    assert "Leave new as it is" in printed.output
    assert "History" in printed.output
    as_json = CliRunner().invoke(app, ["launch-report", str(served), "--out", str(tmp_path / "out"), "--json"])
    assert json.loads(as_json.output)["state"] == "rolled back"
