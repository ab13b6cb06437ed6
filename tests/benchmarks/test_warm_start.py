"""The benchmark of warm starts runs, and all policies meet the same visitors."""

import numpy as np
import pytest

from benchmarks.quality import warm_start
from benchmarks.quality.retail_shops import draw_shop


@pytest.mark.slow
def test_rewards_are_true_rates_of_the_shop() -> None:
    """Seed 0, 1,000 rows: every reward is a rate of the shop, and trained policies earn more than a cold one."""
    earned = warm_start.rewards_by_visit(0, 1_000, 60)
    rates = draw_shop(0, 1_000).click_rates
    assert set(earned) == {"mixed-effects", *warm_start.CONTESTANTS}
    for rewards in earned.values():
        assert rewards.shape == (60,)
        assert np.isin(rewards, rates).all()
    assert earned["warm adaptive"].mean() > earned["cold adaptive"].mean()


def test_it_prints_ratios_to_the_model(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Two shops in which both begin at half of the model: .5, without any spread."""
    half = {"mixed-effects": np.full(30, 0.04), **{name: np.full(30, 0.02) for name in warm_start.CONTESTANTS}}
    monkeypatch.setenv("ZOOSIM_SHOPS", "2")
    monkeypatch.setattr(warm_start, "FIRST", 0)
    monkeypatch.setattr(warm_start, "HORIZONS", (10, 30))
    monkeypatch.setattr(warm_start, "rewards_by_visit", lambda seed, rows, visits: half)
    warm_start.main()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Q20 warm start: mixed-effects earns 0.0400 clicks a visit over 2 shops"
    assert "warm adaptive over the first 10 visits: 0.500 of mixed-effects (0.500 to 0.500), worst shop" in lines[1]
    assert len(lines) == 5
