"""Several rewards of one log: what each earns, how much more than the logged choices, and what to say of it."""

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.off_policy.ranked import RANKINGS, TARGET, L, RankedWorld
from tests.off_policy.test_evaluate import drawn
from tests.off_policy.worlds import TableWorld
from zoosim.core.statistics import sign_of
from zoosim.core.types import FloatArray
from zoosim.logs.log import Log
from zoosim.logs.parse import to_log
from zoosim.off_policy.actions.products import ESTIMATORS
from zoosim.off_policy.best_estimates import best_result, over_logged, policies_of, sign_over_logged
from zoosim.off_policy.compare import LOGGED, Difference, Lift
from zoosim.off_policy.estimators.single import DIRECT_METHOD
from zoosim.off_policy.evaluate import evaluate
from zoosim.off_policy.results import Evaluation
from zoosim.off_policy.sentences import monthly_gain, sentences
from zoosim.report.evaluation import answer, build_page
from zoosim.report.evaluation_tables import TODAY, decisions_table
from zoosim.schema.columns import YesNoColumn
from zoosim.schema.encoder import Encoder
from zoosim.schema.schema import FittedSchema
from zoosim.terminal.evaluation import ranking_lines

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
    log = to_log(world.frame(which, world.rewards[which]), action_space="rankings")
    margin = log.rewards * np.arange(1, L + 1)
    estimators = ["cascade-ips", "cascade-dr", "independent-ips", "independent-dr"]
    both = replace(log, rewards_by_name={"margin": margin})
    found = evaluate(both, {"p": TARGET}, estimators=estimators)
    alone = evaluate(replace(log, rewards=margin), {"p": TARGET}, estimators=estimators)
    assert found.others["margin"].results == alone.results
    assert found.results == evaluate(log, {"p": TARGET}, estimators=estimators).results


@pytest.mark.parametrize(("logs", "least"), [(50, 43), pytest.param(150, 134, marks=pytest.mark.slow)])
def test_lifts_hold_as_often_as_they_say(logs: int, least: int) -> None:
    """Logs of 400 rows: 95% intervals hold on so many or more, three binomial standard errors below."""
    world = TableWorld(0, 0.5)
    truth = world.value / float((world.logging * world.clicks).sum(axis=1).mean()) - 1.0
    held = dict.fromkeys(("ips", "snips", "dr"), 0)
    for seed in range(logs):
        log = drawn(world, 400, seed)
        found = evaluate(log, {"new": log.features @ world.target}, estimators=list(held), samples=199, seed=seed)
        for lift in found.lifts:
            assert lift.low is not None
            assert lift.high is not None
            held[lift.estimator] += lift.low <= truth <= lift.high
    assert min(held.values()) >= least, held


def judged(lift: Lift | None, rewards: float = 212.0, **changes: Any) -> Evaluation:
    """An evaluation of one policy by one estimator, with a lift of its own, that rests on so many rewards."""
    log = drawn(TableWorld(0, 0.5), 300)
    found = evaluate(log, {"new": np.full(10, 0.1)}, estimators=["ips"])
    results = tuple(row._replace(effective_rewards=rewards, expected_rewards=rewards) for row in found.results)
    lifts = () if lift is None else (lift,)
    return replace(found, **{"results": results, "lifts": lifts, "differences": (), **changes})


def test_a_sentence_says_what_a_manager_needs() -> None:
    clear = judged(Lift("new", "ips", 0.22, 0.1, 0.35, 1.7, "trust"), reward="click")
    word = clear.results[0].verdict
    assert sentences(clear) == {"new": f"+22% clicks (+10% to +35%) (ips: {word}, rests on 212 rewards)"}
    scarce = tuple(row._replace(effective_rewards=3.0, expected_rewards=41.0) for row in clear.results)
    words = "rests on 3 rewards where today's choices would have 41"
    assert sentences(replace(clear, results=scarce)) == {"new": f"+22% clicks (+10% to +35%) (ips: {word}, {words})"}
    monthly = replace(clear, per_day=41_000.0 / 30.0, logged=clear.logged._replace(mean=0.023))
    month = "about 210 clicks more a month at today's 41,000 visits"  # .22 x .023 x 41,000 = 207
    assert sentences(monthly) == {"new": f"+22% clicks (+10% to +35%), {month} (ips: {word}, rests on 212 rewards)"}
    unclear = judged(Lift("new", "ips", 0.012, -0.04, 0.04, 0.4, "trust"), reward="revenue")
    both = sentences(replace(clear, others={"revenue": unclear}))["new"]
    assert "; revenue not told apart from today's: -4.0% to +4.0%, as the log holds 40% of the rows that would" in both
    assert "show +1.2%" in both
    useless = judged(None, results=(clear.results[0]._replace(verdict="do not use"),), reward="margin")
    assert "; margin: the log cannot tell" in sentences(replace(clear, others={"margin": useless}))["new"]
    without = judged(None, reward="margin")
    difference = Difference("new", LOGGED, "ips", -0.5, -0.8, -0.2, 0.01, 100, "trust")
    said = sentences(replace(without, differences=(difference,)))["new"]
    assert said.startswith("-0.50 margin per visit (-0.80 to -0.20)")
    daily = replace(without, per_day=1.0 / 30.0)  # a visit a month
    amounts = (207.4, -1_932.0, 12.3, 0.123, 0.0)
    months = [monthly_gain(daily, difference._replace(value=value)) for value in amounts]
    assert months == [f", about {amount} a month" for amount in ("+210", "-1,900", "+12", "+0.12", "0")]
    counted = [monthly_gain(replace(daily, reward=name), difference) for name in ("click", "eur", "margin")]
    assert counted == [f", about {amount} a month" for amount in ("0.5 clicks fewer", "0.5 EUR less", "-0.5")]


def test_headline_and_sentence_write_small_gains_alike() -> None:
    small = judged(Lift("new", "ips", 0.0005, 0.0001, 0.0009, 1.7, "trust"), reward="click")
    small = replace(small, results=tuple(row._replace(verdict="trust") for row in small.results))
    said = "+0.050% clicks (+0.010% to +0.090%)"
    assert sentences(small)["new"].startswith(f"{said} (ips: trust")
    assert answer(small) == f"Switch to new: {said}, and the log can tell (trust)."
    lift = Lift("new", "ips", 0.0, -0.0004, 0.0004, 0.2, "trust")
    assert sentences(replace(small, lifts=(lift,)))["new"].startswith(
        "clicks not told apart from today's: -0.040% to +0.040% (ips"
    )


def test_a_log_never_holds_the_rows_that_it_lacks() -> None:
    """A difference that is not shown takes more rows than there are, however many policies are compared."""
    rng = np.random.default_rng(6)
    shares = []
    for seed in range(4):
        log = drawn(TableWorld(seed, 0.5), 2_000, seed)
        policies = {str(number): rng.dirichlet(np.full(10, 5.0)) for number in range(6)}
        evaluation = evaluate(log, policies, estimators=["ips", "snips", "dr"], samples=199)
        shares += [lift.held for lift in evaluation.lifts if sign_of(lift.low, lift.high) == 0 and lift.held]
    assert shares
    assert max(shares) < 1.0


@pytest.mark.parametrize(
    ("rewards", "said"), [(19.4, "about 19 rewards"), (2.0, "about 2 rewards"), (0.0, "no reward")]
)
def test_a_sentence_that_rests_on_few_rewards_gives_no_percentages(rewards: float, said: str) -> None:
    few = sentences(judged(Lift("new", "ips", -0.7, -1.0, -0.39, 1.7, "weak"), rewards, reward="revenue"))["new"]
    assert few.startswith(f"revenue: too early to say how much, as it rests on {said}")
    assert "%" not in few


def ends_of(interval: str) -> tuple[float, float]:
    """Return the ends of an interval as a table writes it."""
    low, _, high = interval.replace(",", "").partition(" to ")
    return float("-inf" if low == "open" else low), float("inf" if high == "open" else high)


def follows(interval: str, sign: int) -> bool:
    """Return whether a written interval lies where a sign says."""
    return sign_of(*ends_of(interval)) == sign


def check_sentences(evaluation: Evaluation, signs: dict[tuple[str, str], int]) -> None:
    """Check that the sentence on each policy says of each reward what its sign says."""
    for policy, sentence in sentences(evaluation).items():
        for reward, clause in zip(evaluation.by_reward, sentence.split("; "), strict=True):
            best = best_result(evaluation.by_reward[reward], policy)
            assert ("%" in clause or "per visit" in clause) <= best.is_comparable
            assert (clause[0] == "+") - (clause[0] == "-") == signs[policy, reward]
            gain = over_logged(evaluation.by_reward[reward], best)
            if gain is None:
                continue
            assert gain.low is not None
            assert gain.high is not None
            assert gain.low <= gain.value <= gain.high
            interval = re.search(r"\S+ to [^\s),]+", clause.replace(",", ""))
            assert interval is not None
            low, high = ends_of(interval.group().strip("()").replace("%", ""))
            assert sign_of(low, high) == signs[policy, reward]
            assert "-0%" not in clause
            held = re.search(r"holds (less than )?([0-9,]+)%", clause)
            assert held is None or int(held.group(2).replace(",", "")) < 100


def check_tables(evaluation: Evaluation, signs: dict[tuple[str, str], int]) -> None:
    """Check that the tables of a page say of each policy and reward what the signs say."""
    tables = {table.heading: table.rows for table in build_page(evaluation).tables}
    for policy, reward, verdict, gain, interval, *_ in tables["What each policy would earn"]:
        if verdict and gain:
            assert follows(interval, signs[policy, reward])
    shown_worse = set()
    for reward, by_reward in evaluation.by_reward.items():
        compared = set()
        for policy, other, estimator, _, _, interval, p, _ in tables.get(f"Differences: {reward}", ()):
            is_clear = p == "below .001" or float(p) <= 0.05
            low, high = ends_of(interval)
            if other == TODAY:
                compared.add(policy)
                assert estimator == best_result(by_reward, policy).estimator
                assert follows(interval, signs[policy, reward])
                assert is_clear == (signs[policy, reward] != 0)
            elif is_clear and reward == evaluation.reward:
                shown_worse.add(other if low >= 0.0 and high > 0.0 else policy)
        assert compared == {name for name in policies_of(by_reward) if best_result(by_reward, name).is_comparable}
    for policy, _, may_be_best, _, least, _ in tables.get("Which policy may be best", ()):
        assert (may_be_best == "no") == (policy in shown_worse)
        assert (least != "open" and float(least) > 0.0) == (signs[policy, evaluation.reward] > 0)


def check_advice(evaluation: Evaluation, signs: dict[tuple[str, str], int]) -> None:
    """Check that the first line of the page and the last lines of the terminal name policies as the signs say."""
    better = {policy for (policy, reward), sign in signs.items() if reward == evaluation.reward and sign > 0}
    first = answer(evaluation)
    assert first.startswith(("Switch", "Try")) == bool(better)
    assert not better or first.partition(":")[0].split()[2 if first[0] == "S" else 1] in better
    for line in ranking_lines(evaluation):
        named = line.partition("better than the logged choices: ")[2].partition(";")[0]
        assert {name.partition(" ")[0] for name in named.split(", ")} == (better or {"none"})


@pytest.mark.slow
@example(1, 0.5, 2.220446049250313e-16)  # three policies that differ by rounding alone
@given(st.integers(0, 2**32 - 1), st.floats(0.02, 0.5), st.floats(0.0, 3.0))
@settings(max_examples=25, deadline=None)
def test_what_is_said_of_a_policy_follows_one_interval(seed: int, rate: float, spread: float) -> None:
    """Rare, skewed rewards: sentences, tables, first line and terminal agree on which policy is better and worse."""
    rng = np.random.default_rng(seed)
    log = drawn(TableWorld(0, 0.5), 400)
    likes = np.where(log.actions < 5, 1.0, 0.3)
    clicks = (rng.random(400) < rate * likes).astype(float)
    revenue = clicks * (rng.random(400) < 0.5) * rng.lognormal(0.0, 1.0, 400)
    weights = np.exp(spread * rng.normal(size=(3, 10)))
    policies = {name: each / each.sum() for name, each in zip("abc", weights, strict=True)}
    both = replace(log, rewards=clicks, rewards_by_name={"revenue": revenue})
    evaluation = evaluate(both, policies, estimators=["ips", "snips", "dr"], samples=99, overlap=True)
    signs = {
        (policy, reward): sign_over_logged(by_reward, best_result(by_reward, policy))
        for policy in policies
        for reward, by_reward in evaluation.by_reward.items()
    }
    check_sentences(evaluation, signs)
    check_tables(evaluation, signs)
    check_advice(evaluation, signs)


def test_each_reward_has_a_verdict_of_its_own() -> None:
    """Trusted for clicks, a hint for revenue, and useless, so without a figure, for margin."""
    log = shop_log()
    found = evaluate(log, {"new": log.features @ TableWorld(0, 0.5).target}, estimators=["dr"], overlap=True)

    def judged_as(verdict: str, reward: str) -> Evaluation:
        results = tuple(
            row._replace(verdict=verdict, effective_rewards=80.0, expected_rewards=80.0) for row in found.results
        )
        lifts = (Lift("new", "dr", 0.5, 0.4, 0.6, 2.0, verdict),)
        return replace(found, results=results, lifts=lifts, differences=(), reward=reward, others={})

    others = {"revenue": judged_as("weak", "revenue"), "margin": judged_as("do not use", "margin")}
    three = replace(judged_as("trust", "click"), others=others)
    assert sentences(three)["new"].split("; ") == [
        "+50% clicks (+40% to +60%) (dr: trust, rests on 80 rewards)",
        "+50% revenue (+40% to +60%) (dr: weak, rests on 80 rewards)",
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
