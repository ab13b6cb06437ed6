"""The study of late rewards: what it measures is what a run with the same delay says, and its page is whole."""

from pathlib import Path

import pytest

import zoosim
from studies.late_rewards import build_page, measure
from studies.late_rewards.runs import TIMINGS
from studies.rows import values_where
from tests.caches import use_cache


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_cache(monkeypatch, tmp_path / "cache")


def test_it_measures_what_runs_with_the_same_delay_reach(tmp_path: Path) -> None:
    rows = measure(seeds="3:5", jobs=1, policies="random,linucb", steps=300)
    assert len(rows) == 2 * 2 * len(TIMINGS)
    run = zoosim.run(
        "gauntlet", policies=["linucb"], seeds=[3], steps=300, jobs=1, settings=["run.delay=100"], out=tmp_path / "run"
    )
    expected = 100 * run.rows["true_probability"].to_numpy().sum() / run.rows["best_probability"].to_numpy().sum()
    assert values_where(rows, "percent", policy="linucb", seed=3, timing="100 late") == pytest.approx([expected])
    assert "rewards reach the policies 100 visits late" in run.notes


def test_the_page_names_every_policy_and_delay() -> None:
    rows = measure(seeds="3:5", jobs=1, policies="random,linucb", steps=300)
    page = build_page(rows)
    [table] = page.tables
    assert [row[0] for row in table.rows] in (["random", "linucb"], ["linucb", "random"])
    assert list(table.heads)[1:-1] == list(TIMINGS)
