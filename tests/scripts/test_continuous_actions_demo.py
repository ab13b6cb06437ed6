"""The loop over continuous boosts in one file: it learns, keeps to its trust region, and writes what it says."""

import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from scripts.ch07 import continuous_actions_demo as demo
from zoosim.core.search_names import FEATURES
from zoosim.core.types import FloatArray


def test_it_prints_a_table_and_writes_a_page_and_its_decisions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    demo.main(["--episodes", "45", "--products", "60", "--seed", "3", "--out", str(tmp_path)])
    printed = capsys.readouterr()
    assert "100%" in printed.err  # the bar of progress
    assert re.search(r"^45 +CEM on a Q-ensemble \(beta 0\.11\)", printed.out, re.MULTILINE)  # 2 exp(-3 x 44 / 45)
    assert max(map(len, printed.out.splitlines()[:12])) <= 80
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "Mean reward of the visits before" in page
    assert "--episodes 45" in page
    decisions = pl.read_csv(tmp_path / "decisions.csv")
    assert decisions["episode"].to_list() == list(range(45))
    told = decisions.filter(pl.col("episode") >= demo.WARM_UP).select("mean", "std", "reward").to_numpy()
    assert np.isfinite(told).all()


def test_the_agent_learns_what_boosts_earn() -> None:
    """Rewards are ten times the boost on the price, so after 200 visits it boosts the price by nearly all there is."""
    agent = demo.CemAgent(200, seed=0)
    chosen = _play(agent, 200)
    price = FEATURES.index("price")
    assert chosen[-20:, price].mean() > 0.4
    assert abs(chosen[: demo.WARM_UP, price].mean()) < 0.2  # drawn anywhere before it has learned


def test_a_trust_region_holds() -> None:
    agent = demo.CemAgent(60, seed=0, radius=0.1)
    chosen = _play(agent, 60)[demo.WARM_UP :]
    assert np.linalg.norm(chosen - demo.static_best(), axis=1).max() <= 0.1 + 1e-9


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--episodes", "1"], "--episodes: got 1, expected a whole number, 2 to"),
        (["--products", "0"], "--products: got 0, expected a whole number, 1 to"),
        (["--products", "99999999999"], "--products: got 99999999999, expected a whole number, 1 to"),
        (["--seed", "-1"], "--seed: got -1, expected a whole number, 0 to"),
        (["--radius", "nan"], "--radius: got nan, expected a number"),
        (["--radius", "0"], "--radius: got 0.0, expected a number"),
        (["--out", __file__], "cannot be written"),
    ],
)
def test_bad_arguments_are_refused(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with pytest.raises(SystemExit) as refused:
        demo.main(["--out", str(tmp_path), *arguments])
    assert refused.value.code == 2
    assert message in capsys.readouterr().err


def _play(agent: demo.CemAgent, episodes: int) -> FloatArray:
    """Let an agent meet one and the same visitor; returns its boosts `(n, 10)`."""
    state = np.ones(2)
    chosen = []
    for episode in range(episodes):
        boosts = agent.select_action(state, episode).boosts
        agent.learn(state, boosts, 10.0 * float(boosts[FEATURES.index("price")]))
        chosen.append(boosts)
    return np.array(chosen)
