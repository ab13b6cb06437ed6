"""Which policies are worth trying in a shop: from its log to a page, from Python and from the command line."""

import html
import json
import re
import shlex
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import zoosim
from tests.api.test_models import imported
from tests.fitting.shops import shop_log
from tests.logs.own_searches import write_searches
from zoosim.api import runs
from zoosim.api.recommend import Recommendation, _keep_forecasts, _rehearse
from zoosim.cli import app
from zoosim.core.errors import ConfigError, PolicyError
from zoosim.core.forecasts import read_forecasts
from zoosim.logs.log import Log
from zoosim.policies.model import model_digest
from zoosim.rehearsal.advice import FIRST, TEST
from zoosim.rehearsal.shop import RewardDelay

SMALL: dict[str, Any] = {"policies": ["random", "linucb", "linear"], "seeds": 3, "visits": 600, "jobs": 1}


def made_log(n: int = 3_000) -> Log:
    """A shop whose segments like products of different categories, and which shows these a little more often."""
    return shop_log(np.random.default_rng(0), n, rows_a_user=2)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("recommended") / "out"


@pytest.fixture(scope="module")
def recommended(folder: Path) -> Recommendation:
    return zoosim.recommend(made_log(), out=folder, **SMALL)


def named(advice: Any) -> list[str]:
    return [each.policy for each in advice if each.place in (FIRST, TEST)]


def test_policies_are_rehearsed_as_they_would_be_deployed(recommended: Recommendation) -> None:
    """Trained on the log, both double what the log's choices earn: 3 seeds x 600 visits."""
    assert set(named(recommended.advice)) <= {"linear-trained", "linucb-trained"}, "they are not told apart"
    assert recommended.rehearsal is not None
    rows = {row.policy: row for row in recommended.rehearsal.policies}
    assert set(rows) == {"random", "linucb-trained", "linear-trained"}
    assert rows["linear-trained"].gain.low is not None
    assert rows["linear-trained"].gain.low > 0.0
    assert rows["linear-trained"].worth_after is not None
    assert rows["linear-trained"].worth_after < 50
    assert rows["random"].worth_after is None
    assert rows["random"].gain.mean < 0.0
    assert 0.0 < rows["linucb-trained"].seconds < 1.0
    assert recommended.evaluation is not None
    assert {row.policy for row in recommended.evaluation.results} == {"linear-trained", "linucb-trained"}


def test_a_month_is_planned_for_where_the_log_knows_times(recommended: Recommendation) -> None:
    assert recommended.horizon == 3_000, "as many as the log has rows"
    assert recommended.rehearsal is not None
    assert recommended.rehearsal.steps == 600
    more = {row.policy: row.more.mean for row in recommended.rehearsal.policies}
    today = recommended.rehearsal.today.mean
    for row in recommended.rehearsal.policies:
        assert more[row.policy] == pytest.approx(3_000 * today * row.gain.mean)
    assert "over the next 3,000 visits" in recommended.verdict


def test_todays_choices_earn_in_the_rehearsal_what_the_log_earned(recommended: Recommendation) -> None:
    assert recommended.rehearsal is not None
    assert recommended.rehearsal.today.mean == pytest.approx(made_log().rewards.mean(), rel=0.1)


def test_the_shop_is_described_with_what_cannot_be_known(recommended: Recommendation) -> None:
    facts = {fact.name: fact for fact in recommended.facts}
    assert facts["visits"].found == "3,000, times unknown"
    assert facts["products"].found == "20, all of them shown"
    assert facts["returning visitors"].found.startswith("1,500 visitors; 50% of the visits")
    assert facts["columns of visitors that tell"].found.startswith("column ")
    assert not facts["delay of rewards"].is_known
    assert "no change" in facts["drift"].found


def test_the_folder_holds_the_page_and_each_part(recommended: Recommendation, folder: Path) -> None:
    for part in ("world/shop.world", "world/report.html", "rehearsal/report.html", "judged/report.html"):
        assert (folder / part).is_file()
    page = (folder / "report.html").read_text(encoding="utf-8")
    for words in ("Ahead of today", "What to do", "The shop", "Which columns tell", "over the next 3,000 visits"):
        assert words in page
    summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    assert summary["advice"][0]["place"] == FIRST
    assert summary["believe_rehearsal"]["word"] == "trust"


def test_what_the_rehearsal_forecasts_stands_beside_each_trained_model(
    recommended: Recommendation, tmp_path: Path
) -> None:
    log = imported(tmp_path, n=300)
    zoosim.train(log, ["random"], tmp_path / "m.zoosim")
    models = {"linear-trained": tmp_path / "m.zoosim"}
    _keep_forecasts(replace(recommended, models=models), made_log())
    rehearsal = recommended.rehearsal
    assert rehearsal is not None
    forecast = read_forecasts(tmp_path / "m.forecasts.jsonl")[-1]
    assert (forecast.by, forecast.model) == ("zoosim recommend", model_digest(tmp_path / "m.zoosim"))
    assert forecast.value == rehearsal.values["linear-trained"].mean()
    assert (forecast.horizon, forecast.rows) == (recommended.horizon, 3_000)


def test_a_repeated_call_finds_its_trials(recommended: Recommendation, folder: Path) -> None:
    trials = {path: path.stat().st_mtime_ns for path in (folder / "rehearsal" / "cells").glob("*/*")}
    lines: list[str] = []
    again = zoosim.recommend(made_log(), out=folder, progress=lines.append, **SMALL)
    assert {path: path.stat().st_mtime_ns for path in (folder / "rehearsal" / "cells").glob("*/*")} == trials
    assert not any(line.startswith("rehearsing") for line in lines)
    assert without_seconds(again.summary) == without_seconds(recommended.summary)


def without_seconds(summary: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in summary.items() if key != "seconds"}


def test_late_rewards_are_rehearsed_late(recommended: Recommendation, folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "world", tmp_path / "world")
    delay = RewardDelay(5.0, 40, 10)
    result = _rehearse(tmp_path, ["linucb"], (0,), 50, delay, 1, lambda line: None)
    assert result.plan.feedback.delay == 40


def test_a_folder_of_another_log_is_refused(recommended: Recommendation, folder: Path) -> None:
    before = (folder / "world" / "shop.world").read_bytes()
    with pytest.raises(ConfigError, match="is about another log, or about log before it grew; name another folder"):
        zoosim.recommend(made_log(2_000), out=folder, **SMALL)
    assert (folder / "world" / "shop.world").read_bytes() == before


@pytest.mark.parametrize(("n", "reason"), [(60, "expected at least"), (400, "too few to judge its predictions by")])
def test_a_small_log_names_no_policy_and_rehearses_none(n: int, reason: str, tmp_path: Path) -> None:
    few = made_log(n)
    result = zoosim.recommend(
        replace(few, rewards=few.rewards * (np.arange(n) % 3 == 0)), out=tmp_path / "out", **SMALL
    )
    assert result.rehearsal is None
    assert named(result.advice) == []
    assert result.verdict.startswith("Keep what is shown today")
    assert reason in result.verdict
    assert not (tmp_path / "out" / "rehearsal").exists()


def test_rewards_that_nothing_tells_name_no_policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    log = made_log()
    shuffled = replace(log, rewards=np.random.default_rng(1).permutation(log.rewards))
    result = zoosim.recommend(shuffled, **SMALL)
    assert named(result.advice) == []
    assert "do not use" in result.verdict
    assert result.path == Path("runs/recommend-log")


class Blind(zoosim.Policy):
    """Fails at its tenth decision."""

    decided = 0

    def select_action(self, context: zoosim.Context) -> int:
        self.decided += 1
        return 1 // int(self.decided < 10)

    def update(self, *visit: Any, **more: Any) -> None:
        """Learn nothing."""


def test_a_policy_that_fails_is_said_to(tmp_path: Path) -> None:
    options = {**SMALL, "policies": ["linucb", Blind], "seeds": 2, "visits": 100}
    result = zoosim.recommend(made_log(), out=tmp_path / "out", **options)
    told = {each.policy: each.reason for each in result.advice}
    assert told["blind-trained"].startswith("failed in the rehearsal: ZeroDivisionError")
    assert result.evaluation is not None, "what fails in a rehearsal can be judged by the log"


def test_what_is_no_policy_over_products_is_refused_before_any_work() -> None:
    for policies, told in (
        (["item-critic"], "policy item-critic: chooses no products; leave it out of --policies"),
        (["nosuch"], "unknown policy 'nosuch'"),
        ([], "policies: got none"),
    ):
        with pytest.raises((ConfigError, PolicyError), match=told):
            zoosim.recommend(made_log(), policies=policies)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("log") / "Ann's $(touch x) log.parquet"
    log = made_log(1_500)
    columns = {"action": log.actions, "propensity": log.propensities, "reward": log.rewards}
    user = pl.Series("user", log.features.tolist())
    ids = [f"d{i}" for i in range(len(log))]
    pl.DataFrame({"decision_id": ids, "user": user, **columns}).write_parquet(path)
    return path


def ask(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["recommend", *arguments])


def test_an_interrupted_call_goes_on(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "Ann's `touch x`; out"
    small = ("--policies", "random,linear", "--seeds", "2", "--visits", "200", "--jobs", "1", "--out", str(out))
    with monkeypatch.context() as patched:
        patched.setattr(runs, "finish_run", interrupted)  # once the trials are there
        stopped = ask(str(file), *small)
    assert stopped.exit_code == 130
    trials = sorted(path.stat().st_mtime_ns for path in (out / "rehearsal" / "cells").glob("*/*"))
    assert len(trials) == 4, "random and linear-trained, 2 seeds each"
    done = ask(str(file), *small)
    assert done.exit_code == 0, done.output
    assert sorted(path.stat().st_mtime_ns for path in (out / "rehearsal" / "cells").glob("*/*")) == trials
    for words in ("The shop", "The rehearsal", "linear", "Time taken: fitting the shop", "Page: file://"):
        assert words in done.output
    printed = ask(str(file), *small, "--json")
    assert json.loads(printed.stdout)["log"] == str(file)
    commands = [shlex.split(command) for page in out.rglob("*.html") for command in commands_on(page)]
    assert [command[1] for command in commands].count("recommend") == 1
    for command in commands:
        named = {
            "run": [str(out / "world" / "shop.world"), str(out / "rehearsal" / "config.yaml")],
            "serve": [str(out / "models" / "linear-trained.zoosim")],
        }
        assert set(command) & set(named.get(command[1], [str(file)])), command


def commands_on(page: Path) -> list[str]:
    """Return the command lines on a page, as a reader copies them."""
    cells = re.findall(r"<(?:code|td)[^>]*>([^<]*)</(?:code|td)>", page.read_text(encoding="utf-8"))
    return [html.unescape(cell).strip() for cell in cells if cell.strip().startswith("zoosim ")]


def interrupted(*_: Any, **__: Any) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("{file}", "--seeds", "x"), "seeds: got 'x', expected a count"),
        (("{file}", "--visits", "0"), "visits: got 0, expected a whole number"),
        (("{file}", "--horizon", "0"), "horizon: got 0, expected a whole number"),
        (("{file}", "--policies", "nosuch"), "unknown policy 'nosuch'"),
        (("{file}", "--policies", ","), "policies: got none, expected at least one"),
        (("{file}", "--data", "nowhere"), "data: goes with a log open-bandit:"),
        (("{missing}",), "no such file"),
    ],
)
def test_bad_input_is_refused(arguments: tuple[str, ...], told: str, file: Path, tmp_path: Path) -> None:
    texts = [part.format(file=file, missing=tmp_path / "none.parquet") for part in arguments]
    done = ask(*texts, "--out", str(tmp_path / "out"))
    assert isinstance(done.exception, zoosim.ZoosimError), done.output
    assert told in str(done.exception)
    assert not (tmp_path / "out").exists()


def test_a_log_of_searches_is_sent_elsewhere(tmp_path: Path) -> None:
    log = write_searches(tmp_path, 50)
    with pytest.raises(ConfigError, match="is a log of searches, expected one of products; zoosim fit-world makes"):
        zoosim.recommend(log, out=tmp_path / "out")
