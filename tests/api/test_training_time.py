"""How long training takes is told before it begins, and grows with what there is to do."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import zoosim
from tests.api.test_models import imported
from zoosim.api.logs import new_policy
from zoosim.api.training_time import expected_seconds
from zoosim.core.countdown import Forecast
from zoosim.core.status_line import StatusLine
from zoosim.logs.candidate_sets import CandidateSets
from zoosim.logs.log import Log
from zoosim.logs.parse import read_log
from zoosim.off_policy.training import earlier_and_later


def drawn(n: int, k: int, features: int = 30) -> Log:
    rng = np.random.default_rng(0)
    zeros, x, products = np.zeros(n, np.int64), rng.normal(size=(n, features)), rng.normal(size=(k, 20))
    rewards, everything = np.zeros(n), CandidateSets.everything(k)
    return Log(rng.integers(k, size=n), np.full(n, 1 / k), rewards, everything, zeros, x, zeros, products)


def seconds_of(log: Log, *names: str, is_judged: bool = True) -> float:
    policies = {name: new_policy(name, name, log, 0) for name in names}
    return expected_seconds(policies, *earlier_and_later(log, 0.8), is_judged=is_judged)


def test_more_rows_products_features_and_policies_take_longer() -> None:
    seconds = seconds_of(drawn(20_000, 3_000), "adaptive")
    assert seconds_of(drawn(40_000, 3_000), "adaptive") > seconds
    assert seconds_of(drawn(20_000, 9_000), "adaptive") > 1.2 * seconds
    assert seconds_of(drawn(20_000, 3_000, features=5), "adaptive") < seconds
    assert seconds_of(drawn(20_000, 3_000), "adaptive", "mixed-effects") > seconds
    assert seconds_of(drawn(20_000, 3_000), "adaptive", is_judged=False) < seconds
    in_categories = replace(drawn(20_000, 3_000), products=np.eye(20)[np.arange(3_000) % 20])
    assert seconds_of(in_categories, "adaptive") < seconds


@pytest.mark.parametrize("expected", [4.9, 61.4])
def test_long_work_is_announced_before_it_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expected: float
) -> None:
    log = imported(tmp_path, n=300)
    monkeypatch.setattr("zoosim.api.training_time.expected_seconds", lambda *logs, is_judged: expected)
    lines: list[str] = []
    zoosim.train(log, ["linear"], progress=lines.append)
    forecasts = [line for line in lines if isinstance(line, Forecast)]
    text = "240 rows to learn from and 60 to judge by, of 12 products: about 61 s"
    assert forecasts == ([text] if expected > 5.0 else [])
    if forecasts:
        assert lines[0] == text


def test_a_forecast_is_shown_at_once_and_other_lines_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    with StatusLine() as status:
        status.show("pass 1 of 14")
        status.show(Forecast("about 61 s"))
    assert capsys.readouterr().err == "about 61 s\n"


def test_products_without_features_and_rows_without_rewards_have_a_forecast(tmp_path: Path) -> None:
    log = read_log(imported(tmp_path, n=300))
    bare = replace(log, products=np.zeros((log.n_actions, 0)), rewards=np.zeros(300))
    assert 0.0 < seconds_of(bare, "random") < 10.0
