"""The study of bounds and draws: what it measures is what a run reaches, and its page compares the same visitors."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zoosim
from studies.rows import values_where
from studies.ucb_or_thompson import build_page, measure
from studies.ucb_or_thompson.measuring import DELAYS, SETTINGS, Reached
from studies.ucb_or_thompson.page import differences
from studies.ucb_or_thompson.pairs import PAIRS, named_pairs, plan_of, width_of
from studies.ucb_or_thompson.timing import Timed
from zoosim.core.errors import ConfigError


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compute all anew, rather than by a cache of the test's own, in which kernels would compile again."""
    monkeypatch.setattr("studies.ucb_or_thompson.measuring.kept_array", lambda study, key, make: make())


@pytest.mark.slow
def test_it_measures_what_runs_reach_and_times_both_of_a_pair(tmp_path: Path) -> None:
    rows = measure(seeds="3:5", jobs=1, pairs="shared-linucb", steps=300)
    reached = [row for row in rows if isinstance(row, Reached)]
    assert len(reached) == 2 * 2 * len(SETTINGS)
    settings = {"run.delay=100": (100, 1.0), "policies.shared-lin-ts.alpha=0.7": (0, 2.0)}
    for setting, (delay, factor) in settings.items():
        options: dict[str, Any] = {
            "policies": ["shared-lin-ts"],
            "seeds": [3],
            "steps": 300,
            "jobs": 1,
            "settings": [setting],
        }
        run = zoosim.run("showdown", **options, out=tmp_path / setting.partition("=")[0])
        expected = 100 * run.rows["true_probability"].to_numpy().sum() / run.rows["best_probability"].to_numpy().sum()
        same = {"policy": "shared-lin-ts", "seed": 3, "delay": delay, "factor": factor}
        assert values_where(reached, "percent", **same) == pytest.approx([expected])
    bound, draws = (row for row in rows if isinstance(row, Timed))
    assert (bound.policy, bound.chances) == ("shared-linucb", 1.0)
    assert 1.0 <= draws.chances <= draws.candidates == 50
    assert min(bound.decision, bound.update, draws.with_propensities) > 0.0
    page = build_page(rows)
    assert [row[2] for row in page.tables[0].rows] == [f"{delay:,}" for delay in DELAYS]
    assert [row[0] for row in page.tables[2].rows] == ["shared-linucb", "shared-lin-ts"]


def made_up(lead: float) -> list[Reached]:
    """Return rows of the first pair: draws are ahead by `lead`, but behind by as much at the longest delay."""
    rng = np.random.default_rng(0)
    rows = []
    for seed in range(8):
        for delay, factor in SETTINGS:
            bound = 90.0 + rng.normal()
            ahead = (-lead if delay == DELAYS[-1] else lead) + 0.1 * rng.normal()
            rows.append(Reached(PAIRS[0].ucb, seed, delay, factor, bound))
            rows.append(Reached(PAIRS[0].thompson, seed, delay, factor, bound + ahead))
    return rows


def test_differences_are_of_the_same_seeds_and_who_leads_is_counted() -> None:
    rows = made_up(2.0)
    assert np.std(differences(rows, PAIRS[0], 0)) < 0.3
    assert build_page(rows).answer == (
        "Of 1 pairs the bound leads in 0 and draws in 1 with rewards at once, in 1 and 0 with rewards "
        "1,000 visits late."
    )
    assert "leads in 0 and draws in 0 with rewards at once" in build_page(made_up(0.0)).answer


def test_pairs_are_found_by_their_bounds_and_planned_at_their_widths() -> None:
    with pytest.raises(ConfigError, match="did you mean neural-ucb"):
        named_pairs("neural-ubc")
    [pair] = named_pairs("template-linucb")
    plan = plan_of(pair, (0.5, 1.0), [0], 10)
    widths = {entry.name: entry.params["alpha"] for entry in plan.entries}
    assert widths["template-linucb-x0.5"] == 0.5 * width_of(pair, "template-linucb") == 2.0
    assert all(entry.params["context"] == "simple" for entry in plan.entries)
