"""Rehearse a launch: from a log to a page, resumed where it was interrupted, from Python and the command line."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import zoosim
from tests.fitting.shops import shop_log
from zoosim.api import rehearse_launch as api
from zoosim.api import shops
from zoosim.cli import app
from zoosim.core.errors import ConfigError, DataError
from zoosim.logs.log import Log
from zoosim.monitoring.launch import State
from zoosim.off_policy.forecasts import digest_of
from zoosim.rehearsal.launches.store import LAUNCHES, PLAYED

SMALL: dict[str, Any] = {"policy": "linear", "days": 3, "launches": 12, "visits_a_day": 2_000}


def made_log() -> Log:
    return shop_log(np.random.default_rng(0), 2_000)


@pytest.fixture(scope="module", autouse=True)
def fits() -> Iterator[None]:
    """Fit the shop of a log once for all tests of this file: it comes out alike each time, and takes seconds."""
    made: dict[str, Any] = {}
    fit = shops.fit_world

    def fit_once(log: Log, out: Any, **options: Any) -> Any:
        key = digest_of(log)
        if key not in made:
            made[key] = fit(log, out, **options)
        return made[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shops, "fit_world", fit_once)
        yield


@pytest.fixture(scope="module")
def rehearsed(tmp_path_factory: pytest.TempPathFactory) -> zoosim.LaunchRehearsal:
    return zoosim.rehearse_launch(made_log(), out=tmp_path_factory.mktemp("launch") / "out", **SMALL)


def test_a_model_that_learned_from_the_log_ships_and_earns_more(rehearsed: zoosim.LaunchRehearsal) -> None:
    """It shows each segment what it clicks, which today's choices do only more often than other products."""
    assert rehearsed.verdict.startswith("Launch linear (trained): the chance that you regret it, as it costs over 1%")
    assert {outcome.state for outcome in rehearsed.outcomes} == {State.COMPLETED}
    assert rehearsed.figures.effect.low is not None
    assert rehearsed.figures.effect.low > 0.3
    assert rehearsed.figures.net.mean > 0.0
    assert rehearsed.exploring.mean > 0.0
    assert rehearsed.visits_a_day == pytest.approx(2_000)
    assert rehearsed.to_polars().height == 12


def test_all_is_in_the_folder(rehearsed: zoosim.LaunchRehearsal) -> None:
    summary = json.loads((rehearsed.path / "summary.json").read_text())
    assert summary["figures"]["n"] == 12
    assert summary["verdict"] == rehearsed.verdict
    page = (rehearsed.path / "report.html").read_text()
    assert page.count("The price of knowing") == 1
    assert "--visits-a-day 2000 " in page
    assert zoosim.core.config.read_yaml(rehearsed.path / "plan.yaml")["holdback"] == 0.05
    assert "you regret it" in repr(rehearsed)


def test_launches_are_gone_on_with_and_come_out_alike(
    rehearsed: zoosim.LaunchRehearsal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shares = []

    def interrupt(line: str) -> None:
        shares.append(line)
        if line.startswith("rehearsed 5 of"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        zoosim.rehearse_launch(made_log(), out=tmp_path, progress=interrupt, **SMALL)
    assert len((tmp_path / PLAYED).read_text().splitlines()) == 5
    assert "5 launches, each" in (tmp_path / "so-far.html").read_text(), "what was played can be read"
    lines: list[str] = []
    zoosim.rehearse_launch(made_log(), out=tmp_path, progress=lines.append, **SMALL)
    assert lines[-1].startswith("rehearsed 12 of 12")
    assert (tmp_path / LAUNCHES).read_bytes() == (rehearsed.path / LAUNCHES).read_bytes()
    assert not (tmp_path / PLAYED).exists()
    assert not (tmp_path / "so-far.html").exists()
    with pytest.raises(ConfigError, match="holds launches of another log"):
        zoosim.rehearse_launch(made_log(), out=tmp_path, **{**SMALL, "days": 4})


def test_a_worse_model_is_not_launched(tmp_path: Path) -> None:
    result = zoosim.rehearse_launch(made_log(), out=tmp_path, **{**SMALL, "policy": "random"})
    assert result.verdict.startswith("Do not launch random: it is expected to lose")
    assert result.model is None
    assert result.figures.taken_back.mean > 0.5


def test_a_log_that_tells_nothing_cannot_be_rehearsed(tmp_path: Path) -> None:
    log = made_log()
    few = np.flatnonzero(log.rewards)[:12]
    rewards = np.isin(np.arange(len(log)), few).astype(float)
    with pytest.raises(DataError, match=r"tells nothing .* cannot be rehearsed"):
        zoosim.rehearse_launch(replace(log, rewards=rewards), out=tmp_path, **SMALL)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"days": 0}, "days: got 0"),
        ({"launches": 0}, "launches: got 0"),
        ({"bearable": 2}, "bearable: got 2"),
        ({"visits_a_day": 0}, "visits_a_day: got 0"),
        ({"plan": {"step": 1}}, "plan"),
        ({"visits_a_day": None}, "--visits-a-day"),
    ],
)
def test_options_that_are_none_are_refused(option: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        zoosim.rehearse_launch(made_log(), out=tmp_path, **{**SMALL, **option})


def test_the_command_prints_what_to_expect(
    rehearsed: zoosim.LaunchRehearsal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api, "rehearse_launch", lambda *args, **options: rehearsed)
    printed = CliRunner().invoke(app, ["rehearse-launch", "log.parquet", "--wide"])
    assert printed.exit_code == 0
    assert printed.output.startswith("Launch linear (trained)")
    assert "To tell +10% takes" in printed.output
    assert "The price of knowing" in printed.output
    as_json = CliRunner().invoke(app, ["rehearse-launch", "log.parquet", "--json"])
    assert json.loads(as_json.output)["days"] == 3
