"""Tuning: the best setting wins, is judged on seeds that tuning never saw, and goes on where it was interrupted."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import zoosim
from zoosim import Context, Policy, parameter
from zoosim.api.tune import TuneResult
from zoosim.core.errors import ConfigError, PolicyFailure

SHOP = ["env.n_users=20", "env.n_products=8"]


class Sure(Policy):
    """Takes the best product that the shop knows nothing of with probability `skill`, else the first; fails at 0.3."""

    skill: float = parameter(0.0, low=0.0, high=1.0)

    def select_action(self, context: Context) -> int:
        if self.skill == 0.3:
            raise ValueError("no idea")
        allowed = np.flatnonzero(context.available)
        scores = context.products[allowed] @ np.resize(context.user, context.products.shape[1])
        return int(allowed[scores.argmax()] if self.rng.random() < self.skill else allowed[0])

    def update(self, context: Context, action: int, reward: float) -> None:  # type: ignore[override]
        pass


def tune(out: Path | None = None, over: Any = "linucb.alpha=0.2,100,0.1", **others: Any) -> TuneResult:
    asked = {"seeds": 4, "judge": "1000:1003", "steps": 300, "jobs": 1, "settings": SHOP, "progress": None, "out": out}
    return zoosim.tune("gauntlet", over, **{**asked, **others})


def test_a_tuning_goes_on_where_it_was_interrupted(tmp_path: Path) -> None:
    """alpha 100 explores only: it leaves first. The second call computes nothing, and says the same."""
    lines: list[str] = []

    def interrupt(line: str) -> None:
        lines.append(line)
        if line.startswith("round 2"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tune(tmp_path, progress=interrupt)
    assert lines[0].startswith("round 1 of 2, 3 settings on 2 seeds, ")
    first = tune(tmp_path)
    kept = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("cells/*/*.parquet")}
    assert len(kept) == 3 * 2 + 2 * 2 + 3 * len(first.judged.summary["policies"])
    again = tune(tmp_path)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("cells/*/*.parquet")} == kept
    assert again.summary == first.summary == json.loads((tmp_path / "tune.json").read_text())
    assert first.summary["trials"] == 10
    assert first.tried["alpha"].to_list()[-1] == 100
    assert first.tried["left"].to_list() == [None, 2, 1]
    assert first.tried["seeds"].to_list() == [4, 4, 2]
    assert pl.read_csv(tmp_path / "tried.csv")["name"].to_list() == first.tried["name"].to_list()
    assert first.judged.summary["seeds"] == [1000, 1001, 1002]
    assert (tmp_path / "judged" / "report.html").exists()
    assert "On 3 seeds that tuning never saw" in first.verdict
    assert "are the highest of 3 means, and too high by that" in first.verdict
    with pytest.raises(ConfigError, match="holds a judgement on seed 1000"):  # its trials would count among the others
        tune(tmp_path, seeds="1000:1004", judge="0:3")
    assert repr(first).splitlines()[0] == first.verdict
    assert "3 settings tried in 10 trials" in first._repr_html_()


def test_the_figures_are_those_of_a_run_and_differences_those_of_the_winner(tmp_path: Path) -> None:
    """The policy as it was is called as in a run, so that it draws as there; the winner's lead is paired by seed."""
    result = tune(tmp_path / "tuned", over="linucb.alpha=0.2,100", settings=[*SHOP, "policies.linucb.alpha=100"])
    assert result.winner["tuned"] == {"alpha": 0.2}
    plain = zoosim.run(
        *("gauntlet",),
        policies=["linucb"],
        seeds="1000:1003",
        steps=300,
        jobs=1,
        settings=[*SHOP, "policies.linucb.alpha=100"],
        progress=False,
        out=tmp_path / "plain",
    )
    judged = result.summary["judged"]
    assert judged["unchanged"] == plain.summary["policies"]["linucb"]["oracle_fraction"]
    lead = judged["winner"]["mean"] - judged["unchanged"]["mean"]
    assert judged["difference"]["difference"] == pytest.approx(lead)
    assert judged["difference"]["low"] < lead < judged["difference"]["high"]
    behind = result.summary["tried"][1]
    assert behind["as_it_was"]
    assert behind["difference"] == pytest.approx(
        behind["oracle_fraction"] - result.summary["tried"][0]["oracle_fraction"]
    )


def test_a_policy_that_is_best_as_it_is_stays(tmp_path: Path) -> None:
    result = tune(tmp_path, over=["linucb.alpha=100"])
    assert result.winner["name"] == "linucb"
    assert result.summary["judged"]["difference"] is None
    assert "linucb alpha=0.2 (as it was) won of 2 settings" in result.verdict
    assert "no other setting did better while tuning" in result.verdict


def test_a_setting_that_fails_is_out_and_all_that_fail_are_an_error(tmp_path: Path) -> None:
    result = tune(tmp_path / "one", over=["sure.skill=0.3,1.0"], extra=[Sure])
    last = result.summary["tried"][-1]
    assert (last["tuned"], last["seeds"], last["oracle_fraction"]) == ({"skill": 0.3}, 0, None)
    assert "ValueError: no idea" in last["failure"]
    with pytest.raises(PolicyFailure, match="no idea"):
        tune(tmp_path / "all", over=["sure.skill=0.3"], extra=[Sure], settings=[*SHOP, "policies.sure.skill=0.3"])


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        ({"judge": "3:9"}, "judge: seed 3 is tuned on, too; name seeds that tuning never sees, such as 1000:1032"),
        ({"over": "nobody.alpha=1"}, "unknown policy 'nobody'"),
        ({"candidates": 0}, "candidates: got 0, expected a whole number, 1 to 10,000"),
        ({"executor": "slurm:x", "jobs": None}, "executor: got 'slurm:x', expected dask:ADDRESS or ray:ADDRESS"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(others: dict[str, Any], expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        tune(**others)
    assert expected in str(caught.value)


def test_a_folder_of_other_things_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("")
    with pytest.raises(ConfigError, match=r"holds notes\.txt, not a tuning; name an empty or a new folder"):
        tune(tmp_path)
