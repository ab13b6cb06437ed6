"""Several rewards of one log: what each earns, how much more than the logged choices, and what to say of it."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.off_policy.ranked import RANKINGS, TARGET, L, RankedWorld
from tests.off_policy.test_evaluate import drawn
from tests.off_policy.worlds import TableWorld
from zoosim.core.action_space import ActionSpace
from zoosim.core.types import FloatArray
from zoosim.logs.log import Log
from zoosim.logs.parse import to_log
from zoosim.off_policy.actions.products import ESTIMATORS
from zoosim.off_policy.compare import Lift
from zoosim.off_policy.estimators.single import DIRECT_METHOD
from zoosim.off_policy.evaluate import evaluate
from zoosim.off_policy.evidence import FEW_REWARDS
from zoosim.off_policy.results import Evaluation
from zoosim.off_policy.sentences import best_result, per_month, percent_more, sentences
from zoosim.report.evaluation import build_page
from zoosim.report.evaluation_tables import decisions_table
from zoosim.schema.columns import YesNoColumn
from zoosim.schema.encoder import Encoder
from zoosim.schema.schema import FittedSchema

BY_WEIGHTS = tuple(name for name in ESTIMATORS if name != DIRECT_METHOD)
"""The direct method learns of one reward from the other, so it is not that of a log with one alone."""


def shop_log(seed: int = 0) -> Log:
    """A log of a table world whose objective is clicks and a twentieth of the revenue."""
    log = drawn(TableWorld(0, 0.5), 1_000, seed)
    revenue = log.rewards * np.random.default_rng([seed, 1]).uniform(5.0, 50.0, len(log))
    columns = tuple(YesNoColumn(name=f"segment {number}") for number in range(log.features.shape[1]))
    fitted = FittedSchema(visitors=Encoder(columns=columns), weights={"click": 1.0, "revenue": 0.05})
    named = {"click": log.rewards, "revenue": revenue}
    return replace(log, rewards=log.rewards + 0.05 * revenue, rewards_by_name=named, fitted=fitted)


def test_lifts_are_shares_of_what_the_log_earned() -> None:
    log = shop_log()
    world = TableWorld(0, 0.5)
    found = evaluate(log, {"new": log.features @ world.target}, estimators=ESTIMATORS)
    for evaluation in found.by_reward.values():
        assert [row.estimator for row in evaluation.lifts] == list(ESTIMATORS)
        for row, lift in zip(evaluation.results, evaluation.lifts, strict=True):
            assert lift.verdict == row.verdict
            assert lift.value == pytest.approx(row.value / evaluation.logged.mean - 1.0, abs=1e-12)
            assert lift.low is not None
            assert lift.high is not None
            assert -1.0 <= lift.low < lift.value < lift.high
        needed = [row.rows_needed for row in evaluation.differences]
        assert [row.held for row in evaluation.lifts] == [1_000 / rows for rows in needed if rows]


def test_each_reward_has_the_figures_of_a_log_of_its_own() -> None:
    """And the policy is asked once."""
    log = shop_log()
    asked = []

    def policy(part: Log, start: int, stop: int) -> FloatArray:
        asked.append(start)
        return np.asarray(part.features[start:stop] @ TableWorld(0, 0.5).target)

    found = evaluate(log, {"new": policy}, estimators=BY_WEIGHTS)
    assert len(asked) == 1
    assert list(found.by_reward) == ["objective (click + 0.05 revenue)", "click", "revenue"]
    for name, other in found.others.items():
        alone = evaluate(
            replace(log, rewards=log.rewards_by_name[name], rewards_by_name={}), {"new": policy}, estimators=BY_WEIGHTS
        )
        assert (other.results, other.differences, other.lifts) == (alone.results, alone.differences, alone.lifts)
        assert other.logged == alone.logged
    assert found.results == evaluate(replace(log, rewards_by_name={}), {"new": policy}, estimators=BY_WEIGHTS).results


def test_a_reward_that_is_the_objective_stands_once() -> None:
    log = shop_log()
    clicks = replace(log, rewards=log.rewards_by_name["click"], fitted=FittedSchema(weights={"click": 1.0}))
    found = evaluate(clicks, {"new": np.full(10, 0.1)})
    assert list(found.by_reward) == ["click", "revenue"]
    assert found.summary["reward"] == "click"
    assert found.summary["others"]["revenue"]["logged"]["mean"] == found.others["revenue"].logged.mean


def test_rankings_have_several_rewards_too() -> None:
    world = RankedWorld("above")
    which = np.random.default_rng(0).integers(len(RANKINGS), size=300)
    log = to_log(world.frame(which, world.rewards[which]), action_space=ActionSpace.RANKINGS)
    margin = log.rewards * np.arange(1, L + 1)
    estimators = ["cascade-ips", "cascade-dr", "independent-ips", "independent-dr"]
    both = replace(log, rewards_by_name={"margin": margin})
    found = evaluate(both, {"p": TARGET}, estimators=estimators)
    alone = evaluate(replace(log, rewards=margin), {"p": TARGET}, estimators=estimators)
    assert found.others["margin"].results == alone.results
    assert found.results == evaluate(log, {"p": TARGET}, estimators=estimators).results


def test_lifts_hold_as_often_as_they_say() -> None:
    """150 logs of 400 rows: 95% intervals hold on 134 or more, three binomial standard errors below."""
    world = TableWorld(0, 0.5)
    truth = world.value / float((world.logging * world.clicks).sum(axis=1).mean()) - 1.0
    held = dict.fromkeys(("ips", "snips", "dr"), 0)
    for seed in range(150):
        log = drawn(world, 400, seed)
        found = evaluate(log, {"new": log.features @ world.target}, estimators=list(held), samples=199, seed=seed)
        for lift in found.lifts:
            assert lift.low is not None
            assert lift.high is not None
            held[lift.estimator] += lift.low <= truth <= lift.high
    assert min(held.values()) >= 134, held


def judged(lift: Lift | None, rewards: float = 212.0, **changes: Any) -> Evaluation:
    """An evaluation of one policy by one estimator, with a lift of its own, that rests on so many rewards."""
    log = drawn(TableWorld(0, 0.5), 300)
    found = evaluate(log, {"new": np.full(10, 0.1)}, estimators=["ips"])
    results = tuple(row._replace(effective_rewards=rewards) for row in found.results)
    return replace(found, **{"results": results, "lifts": () if lift is None else (lift,), **changes})


def test_a_sentence_says_what_a_manager_needs() -> None:
    clear = judged(Lift("new", "ips", 0.22, 0.1, 0.35, 1.7, "trust"), reward="click")
    word = clear.results[0].verdict
    assert sentences(clear) == {"new": f"+22% click [+10%, +35%] (ips: {word}, rests on 212 rewards)"}
    monthly = replace(clear, per_day=41_000.0 / 30.0, logged=clear.logged._replace(mean=0.023))
    month = "about +210 a month at today's 41,000 visits"  # .22 x .023 x 41,000 = 207
    assert sentences(monthly) == {"new": f"+22% click [+10%, +35%], {month} (ips: {word}, rests on 212 rewards)"}
    unclear = judged(Lift("new", "ips", 0.012, -0.04, 0.04, 0.4, "trust"), reward="revenue")
    both = sentences(replace(clear, others={"revenue": unclear}))["new"]
    assert "; revenue not told apart from today's: -4.0% to +4.0%, as the log holds 40% of the rows that would" in both
    assert "show +1.2%" in both
    useless = judged(None, results=(clear.results[0]._replace(verdict="do not use"),), reward="margin")
    assert "; margin: the log cannot tell" in sentences(replace(clear, others={"margin": useless}))["new"]
    without = judged(None, reward="margin")
    difference = without.differences[0]._replace(value=-0.5, low=-0.8, high=-0.2)
    said = sentences(replace(without, differences=(difference,)))["new"]
    assert said.startswith("-0.5 margin per visit [-0.8, -0.2]")
    assert [percent_more(value) for value in (0.0994, 0.0996, 12.0, None)] == ["+9.9%", "+10%", "+1,200%", "open"]
    assert [per_month(value) for value in (207.4, -1_932.0, 12.3, 0.123, 0.0)] == [
        "+210",
        "-1,900",
        "+12",
        "+0.12",
        "0",
    ]


@pytest.mark.parametrize(
    ("rewards", "said"), [(19.4, "about 19 rewards"), (2.0, "about 2 rewards"), (0.0, "no reward")]
)
def test_a_sentence_that_rests_on_few_rewards_gives_no_percentages(rewards: float, said: str) -> None:
    few = sentences(judged(Lift("new", "ips", -0.7, -1.0, -0.39, 1.7, "weak"), rewards, reward="revenue"))["new"]
    assert few.startswith(f"revenue: too early to say how much, as it rests on {said}")
    assert "%" not in few


@given(st.integers(0, 2**32 - 1), st.floats(0.002, 0.3), st.floats(0.0, 4.0))
@settings(max_examples=25, deadline=None)
def test_sentences_follow_their_intervals(seed: int, rate: float, spread: float) -> None:
    """Rare, skewed rewards: the point lies in the interval, the words follow it, and two sentences never disagree."""
    rng = np.random.default_rng(seed)
    log = drawn(TableWorld(0, 0.5), 400)
    rewards = (rng.random(400) < rate) * rng.lognormal(0.0, 1.0, 400)
    weights = np.exp(spread * rng.normal(size=(2, 10)))
    policies = {name: each / each.sum() for name, each in zip("ab", weights, strict=True)}
    estimators = ["ips", "snips", "dr"]
    found = evaluate(replace(log, rewards=rewards), policies, estimators=estimators, samples=99)
    for policy, sentence in sentences(found).items():
        best = best_result(found, policy)
        lift = next((row for row in found.lifts if row[:2] == (policy, best.estimator)), None)
        if best.verdict == "do not use" or best.effective_rewards < FEW_REWARDS:
            assert "%" not in sentence
        elif lift is not None:
            assert lift.low is not None
            assert lift.high is not None
            assert -1.0 <= lift.low <= lift.value <= lift.high
            is_clear = lift.low > 0.0 or lift.high < 0.0
            assert ("not told apart" in sentence) != is_clear
            ahead = next(r for r in found.differences if r[:3] == (policy, "logged", best.estimator))
            assert is_clear == (ahead.p <= 0.05) or lift.low == -1.0


def test_each_reward_has_a_verdict_of_its_own() -> None:
    """Trusted for clicks, a hint for revenue, and useless, so without a figure, for margin."""
    log = shop_log()
    found = evaluate(log, {"new": log.features @ TableWorld(0, 0.5).target}, estimators=["dr"], overlap=True)

    def judged_as(verdict: str, reward: str) -> Evaluation:
        results = tuple(row._replace(verdict=verdict, effective_rewards=80.0) for row in found.results)
        lifts = (Lift("new", "dr", 0.5, 0.4, 0.6, 2.0, verdict),)
        return replace(found, results=results, lifts=lifts, reward=reward, others={})

    others = {"revenue": judged_as("weak", "revenue"), "margin": judged_as("do not use", "margin")}
    three = replace(judged_as("trust", "click"), others=others)
    assert sentences(three)["new"].split("; ") == [
        "+50% click [+40%, +60%] (dr: trust, rests on 80 rewards)",
        "+50% revenue [+40%, +60%] (dr: weak, rests on 80 rewards)",
        "margin: the log cannot tell (dr: do not use)",
    ]
    gains = [row[:5] for row in decisions_table(three).rows if row[0] == "new"]
    assert gains == [
        ("new", "click", "trust", "+50", "+40 to +60"),
        ("new", "revenue", "weak", "+50", "+40 to +60"),
        ("new", "margin", "do not use", "", ""),
    ]


def test_what_may_lie_around_zero_has_no_lift() -> None:
    """Rewards of -1 and 1 as often as each other: a share of their mean would mean nothing."""
    log = drawn(TableWorld(0, 0.5), 400)
    signs = np.where(np.arange(400) % 2, 1.0, -1.0)
    found = evaluate(replace(log, rewards=signs), {"new": log.features @ TableWorld(0, 0.5).target})
    assert found.lifts == ()
    assert "not told apart from today's: " in sentences(found)["new"]


def test_the_page_folds_the_other_rewards() -> None:
    log = shop_log()
    page = build_page(evaluate(log, {"new": log.features @ TableWorld(0, 0.5).target}, overlap=True))
    folded = [table.heading for table in page.tables if table.folded]
    rewards = ("objective (click + 0.05 revenue)", "click", "revenue")
    for heading in ("All estimators", "Differences"):
        assert [name for name in folded if name.startswith(heading)] == [f"{heading}: {reward}" for reward in rewards]
    decisions = page.tables[0]
    policies = ("new", "today's choices")
    assert [row[:2] for row in decisions.rows] == [(policy, reward) for policy in policies for reward in rewards]
