"""Findings beside the verdict: hypotheses and overtaking, by hand; and who was shown what a shock made popular."""

from pathlib import Path

import numpy as np
import pytest

import zoosim
from zoosim.arena.findings import HOLDS, OPEN, REFUTED, judged, median_visits, overtaken_after, sentences
from zoosim.arena.targets import target_curves
from zoosim.core.config import EnvConfig
from zoosim.worlds.facts import CLICKS, Target
from zoosim.worlds.recommendation.world import Recommendation, build_world


def test_a_hypothesis_holds_where_the_whole_interval_is_on_its_side() -> None:
    worse = {1: 0.40, 2: 0.41, 3: 0.39, 9: 0.0}
    higher = judged({1: 0.50, 2: 0.52, 3: 0.49, 7: 1.0}, worse)
    assert (higher["verdict"], higher["seeds"]) == (HOLDS, 3)  # by the seeds that both have
    assert higher["difference"] == pytest.approx(0.31 / 3)
    assert higher["lift"] == pytest.approx(0.31 / 1.20)
    assert judged(worse, {1: 0.50, 2: 0.52, 3: 0.49})["verdict"] == REFUTED
    assert judged({1: 0.50, 2: 0.30, 3: 0.41}, worse)["verdict"] == OPEN
    assert judged({1: 0.50}, worse)["verdict"] == OPEN  # one seed has no interval
    assert judged({5: 0.5}, worse)["difference"] is None


def test_a_policy_overtakes_for_good_after_it_was_behind_last() -> None:
    at = [10, 20, 30, 40]
    assert overtaken_after(at, np.array([-1.0, 2.0, -1.0, 3.0])) == 40
    assert overtaken_after(at, np.array([-1.0, 2.0, 1.0, 3.0])) == 20
    assert overtaken_after(at, np.array([1.0, 2.0, 1.0, 3.0])) == 10
    assert overtaken_after(at, np.array([1.0, 2.0, 1.0, 0.0])) is None


def test_the_median_of_visits_has_the_interval_of_order_statistics() -> None:
    """Of ten values the second from either end: outside lies the median with a chance of 2 x 11 / 1024 = 2.1%."""
    found = median_visits([100, 900, 300, 200, 500, 400, 700, 600, 800, None])
    assert found == {"median": 550, "low": 200, "high": 900, "reached": 9, "of": 10}
    assert median_visits([1, 2, 3, 4, 5]) == {"median": 3, "low": None, "high": None, "reached": 5, "of": 5}
    assert median_visits([1, 2, 3, 4, 5, None])["low"] == 1
    assert median_visits([1, 2, 3, 4, 5, None])["high"] is None
    assert median_visits([1, None, None])["median"] is None
    assert median_visits([])["of"] == 0


def test_findings_are_sentences() -> None:
    hypothesis = {"text": "b is better", "better": "b", "worse": "a", "phase": 1, "from": 1_000, "to": 3_000}
    found = {
        "hypotheses": [{**hypothesis, **judged({1: 0.50, 2: 0.52, 3: 0.49}, {1: 0.40, 2: 0.41, 3: 0.39})}],
        "overtaking": [
            {"policy": "b", "over": "a", **median_visits([1_000, 9_000, 3_000, 2_000, 5_000, 4_000])},
            {"policy": "c", "over": "a", **median_visits([None, None, 7])},
            {"policy": "d", "over": "a", **median_visits([None, None])},
        ],
    }
    assert sentences(found, CLICKS) == [
        "Hypothesis: b is better: holds. In visits 1,000 to 2,999 b earns 10.3 points of CTR more than a (+25.8%), "
        "95% interval +8.9 to +11.8, 3 seeds.",
        "b overtakes a, which does not learn, for good after 3,500 visits (median, 95% interval 1,000 to 9,000; 6 of 6 "
        "seeds), by what both earn in expectation.",
        "c overtakes a, which does not learn, for good on 1 of 3 seeds.",
        "d overtakes a, which does not learn, on none of 2 seeds.",
    ]
    assert sentences({}, CLICKS) == []


def test_targets_count_the_segment_s_visits_and_the_products_tried() -> None:
    world = build_world(EnvConfig(n_users=40), seed=0)
    fish = np.flatnonzero(world.groups == world.group_names.index("Fish Supplies"))
    others = np.flatnonzero(world.groups != world.group_names.index("Fish Supplies"))
    segments = world.segments[world.visitors(0, 400)]
    budget = segments == world.segment_names.index("budget_shopper")
    actions = np.full(400, others[0])
    actions[200:300] = fish[0]
    actions[300:] = np.where(np.arange(100) % 2 == 0, fish[1], fish[2])
    curves = target_curves(world, [Target(250, "budget_shopper", "Fish Supplies")], actions, [100, 250, 400], 100)
    assert curves["shown 0"].tolist() == [0.0, budget[200:250].sum() / budget[150:250].sum(), 1.0]
    assert curves["tried 0"].tolist() == [0.0, 0.0, 3.0]  # what was shown before the shock does not count


def test_targets_are_what_a_shock_raises() -> None:
    """The second shock lowers fish from .80 to .30, though that is more than the .20 at first; dog food never rises."""
    shocks = [
        {"step": 60, "name": "third", "set": {"budget_shopper": {"Fish Supplies": 0.4}}},
        {"step": 20, "name": "first", "set": {"budget_shopper": {"Fish Supplies": 0.8, "Dog Food": 0.1}}},
        {"step": 40, "name": "second", "set": {"budget_shopper": {"Fish Supplies": 0.3}}},
    ]
    world = Recommendation(seed=0, steps=100, shocks=shocks)
    fish = ("budget_shopper", "Fish Supplies")
    assert world.reported_targets == (Target(20, *fish), Target(60, *fish))


def test_no_overtaking_is_told_where_each_seed_has_shocks_of_its_own(tmp_path: Path) -> None:
    result = zoosim.run("robustness", policies=["random", "greedy"], seeds=1, steps=60, jobs=1, out=tmp_path)
    assert "overtaking" not in result.summary


@pytest.mark.slow
def test_a_run_tells_its_findings_in_its_summary_and_on_its_page(tmp_path: Path) -> None:
    result = zoosim.run(
        "showdown",
        policies=["linucb", "greedy", "neural-linear-online"],
        seeds=2,
        steps=600,
        config={"env": {"n_products": 5, "shocks": [{"step": 300, "name": "fish", "set": SHOCK}]}},
        settings=["run.window=100"],
        out=tmp_path / "run",
        jobs=1,
    )
    phases = {finding["phase"]: finding for finding in result.summary["hypotheses"]}
    assert (phases[0]["better"], phases[1]["better"]) == ("linucb", "neural-linear-online")
    assert (phases[1]["from"], phases[1]["to"]) == (300, 600)
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "after the shock a shared representation earns more" in page
    assert "Who was shown what the shock made popular" in page
    assert "last 100 visits" in page
    assert set(result.figures) >= {"targets", "ctr"}
    again = zoosim.read_run(tmp_path / "run")
    assert again.plan.window == 100
    assert again.comparison.findings() == result.comparison.findings()


SHOCK = {"budget_shopper": {"Fish Supplies": 0.9}}
