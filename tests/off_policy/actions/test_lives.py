"""Policies judged by logs of visitors who come back: known answers, verdicts, and what is refused."""

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest

import zoosim
from studies.session_logs import BANDIT, FAR, NEAR, SessionLogs
from tests.arena.backends.test_remote import Losing
from zoosim.arena.backends.judging import spread_over
from zoosim.arena.backends.remote import Remote
from zoosim.core.errors import ConfigError, DataError
from zoosim.core.types import IntArray
from zoosim.logs.log import Log
from zoosim.off_policy.actions.lives import BY_WEIGHTS, ESTIMATORS, visitors_of
from zoosim.off_policy.estimators.lives import life_rows, life_weights, weighted_per_decision
from zoosim.off_policy.evaluate import evaluate
from zoosim.off_policy.results import Evaluation
from zoosim.off_policy.targets.products import spec_of
from zoosim.off_policy.verdict import DO_NOT_USE, TRUST, WEAK
from zoosim.policies.registry import find_class

LOGS = SessionLogs()
QUICK = [estimator for estimator in ESTIMATORS if estimator != "fqe-network"]


@pytest.fixture(scope="module")
def drawn() -> tuple[Log, IntArray]:
    """A log of 3,000 visitors of the world of sessions by a bandit with eps .3, seed 1, and states."""
    return LOGS.draw(3_000, 1)


@pytest.fixture(scope="module")
def judged(drawn: tuple[Log, IntArray]) -> Evaluation:
    log, places = drawn
    targets: dict[str, Any] = {name: LOGS.policy(name) for name in (NEAR, *FAR)}
    targets["logging"] = LOGS.writers[BANDIT].main[places[:, 0], places[:, 1]]
    return evaluate(log, targets, estimators=QUICK, samples=199)


def of_policy(judged: Evaluation, policy: str) -> dict[str, zoosim.off_policy.Result]:
    return {row.estimator: row for row in judged.results if row.policy == policy}


def test_the_logs_are_those_that_were_studied() -> None:
    assert LOGS.truth.value(LOGS.writers[BANDIT].main) == pytest.approx(6.44, abs=0.005)
    assert [round(LOGS.worth[name], 2) for name in (NEAR, *FAR)] == [7.26, 7.89, 10.98]


def test_the_logging_policy_is_worth_the_mean_of_the_log(judged: Evaluation, drawn: tuple[Log, IntArray]) -> None:
    mean = float(drawn[0].rewards.sum()) / 3_000
    assert (judged.unit, judged.n, judged.n_clusters) == ("visitors", 3_000, 3_000)
    assert judged.logged.mean == pytest.approx(mean)
    results = of_policy(judged, "logging")
    for estimator in BY_WEIGHTS:
        assert results[estimator].value == pytest.approx(mean)
        assert results[estimator].ess == pytest.approx(3_000.0)
        assert results[estimator].mean_weight == pytest.approx(1.0)
    for estimator in ("mis", "dr", "wdr", "fqe"):  # whose models pool all decisions
        assert results[estimator].value == pytest.approx(mean, rel=0.02)
        assert results[estimator].verdict == TRUST


def test_a_near_policy_is_found_and_trusted(judged: Evaluation) -> None:
    """Its exact value, within 3 standard errors; what rests on few heavy lives says so."""
    for estimator, row in of_policy(judged, NEAR).items():
        assert row.verdict == TRUST or any("make up the standard error" in reason for reason in row.reasons)
        assert row.low is not None
        assert row.high is not None
        half = (row.high - row.low) / 2.0
        assert abs(row.value - LOGS.worth[NEAR]) < 3.0 / 1.96 * half, estimator
    assert of_policy(judged, NEAR)["fqe"].verdict == TRUST
    assert of_policy(judged, NEAR)["mis"].verdict == TRUST
    assert of_policy(judged, NEAR)["model"].verdict == TRUST
    assert judged.notes[NEAR][0].startswith("the log tells of all decisions")


def test_a_network_finds_a_near_policy(drawn: tuple[Log, IntArray]) -> None:
    """Its exact value, within 3 standard errors."""
    row = evaluate(drawn[0], {NEAR: LOGS.policy(NEAR)}, estimators=["fqe-network"], samples=199).results[0]
    assert row.low is not None
    assert row.high is not None
    assert row.low < row.value < row.high
    assert abs(row.value - LOGS.worth[NEAR]) < 3.0 / 1.96 * (row.high - row.low) / 2.0


def test_a_model_of_visitors_finds_what_the_log_hardly_shows(judged: Evaluation) -> None:
    for policy in FAR:
        row = of_policy(judged, policy)["model"]
        assert row.low is not None
        assert row.high is not None
        assert row.low < LOGS.worth[policy] < row.high
        assert row.high - row.low < LOGS.worth[policy]


def test_policies_and_logs_that_a_model_of_visitors_does_not_fit_are_named() -> None:
    log, places = LOGS.draw(250, 1)
    assert len(log) > 1_848  # as many rows as there are states, at least
    chances = LOGS.chances(NEAR, places)

    def note(policy: Any, log: Log = log) -> str:
        judged = evaluate(log, {"it": policy}, estimators=["mis", "model"], samples=99)
        assert [row.estimator for row in judged.results] == ["mis"]
        return judged.notes["it"][-1].removeprefix("model is left out: ")

    assert note(chances) == "the policy's probabilities are known for the log's visitors alone"
    by_row = "the policy's probabilities do not follow from visitors' features"
    assert note(lambda log, start, stop: chances[start:stop]) == by_row
    all_rows = note(lambda log, start, stop: chances)
    assert all_rows.startswith("asked about visitors in other states it gives probabilities of shape")
    assert note(LOGS.policy(NEAR), replace(log, rewards=2.0 * log.rewards)) == "rewards are not clicks, 0 or 1"


def test_a_model_of_visitors_is_of_the_objective_alone() -> None:
    log, _ = LOGS.draw(100, 1)
    named = replace(log, rewards_by_name={"double": 2.0 * log.rewards})
    found = evaluate(named, {NEAR: LOGS.policy(NEAR)}, estimators=["mis", "model"], samples=99)
    assert [row.estimator for row in found.results] == ["mis", "model"]
    assert [row.estimator for row in found.others["double"].results] == ["mis"]


def test_normalisers_without_the_visitors_who_have_gone_fail(drawn: tuple[Log, IntArray]) -> None:
    """Those who stay are taken for all visitors: more than 10 standard errors too high."""
    log, places = drawn
    assert log.lives is not None
    rows = life_rows(log.lives)
    ratios = LOGS.chances(NEAR, places)[np.arange(len(log)), log.actions] / log.propensities
    weights = life_weights(rows, ratios[rows.order])
    rewards = log.rewards[rows.order]
    right = weighted_per_decision(rows, weights, rewards)
    totals = np.bincount(rows.step, weights)
    broken = (np.bincount(rows.step, weights * rewards) / np.where(totals > 0.0, totals, 1.0)).sum()
    error = right.influence().std() / np.sqrt(3_000)
    assert abs(right.value - LOGS.worth[NEAR]) < 3.0 * error
    assert broken - LOGS.worth[NEAR] > 10.0 * error


@pytest.mark.parametrize("policy", FAR)
def test_far_policies_are_never_trusted(judged: Evaluation, policy: str) -> None:
    for row in of_policy(judged, policy).values():
        assert row.verdict == DO_NOT_USE
        assert row.reasons[0].startswith("the mean weight of whole lives is")
        assert row.reasons[-1] == "ask for an A/B test by visitor"
    assert "first decision" in judged.notes[policy][0]


def test_weights_alone_are_weak_at_best(drawn: tuple[Log, IntArray]) -> None:
    log, places = drawn
    chances = LOGS.chances(NEAR, places)[np.arange(len(log)), log.actions]
    by_column = evaluate(replace(log, columns={"p": chances}), {"near": "column:p"}, samples=199)
    assert [row.estimator for row in by_column.results] == ["weighted-per-decision", "mis"]
    for row in by_column.results:
        assert row.verdict == WEAK
        assert "no model checks the weights, as the policy's other probabilities are unknown" in row.reasons


def test_rows_may_come_in_any_order(drawn: tuple[Log, IntArray], judged: Evaluation) -> None:
    log, places = drawn
    shuffled = np.random.default_rng(0).permutation(len(log))
    again = evaluate(log.rows(shuffled), {NEAR: LOGS.chances(NEAR, places[shuffled])}, samples=199)
    for row in again.results:
        assert row.value == pytest.approx(of_policy(judged, NEAR)[row.estimator].value)


def test_visitors_who_were_cut_off_count_by_those_who_were_followed(drawn: tuple[Log, IntArray]) -> None:
    """A fifth of the visitors followed for two decisions alone: near what all are worth."""
    log, places = drawn
    assert log.lives is not None
    is_cut = (log.lives.visitor % 5 == 0) & (log.lives.step == 1) & ~log.lives.ended
    keep = (log.lives.visitor % 5 != 0) | (log.lives.step <= 1)
    lives = log.lives._replace(censored=is_cut)
    cut = replace(log, lives=lives).rows(keep)
    found = evaluate(cut, {NEAR: LOGS.chances(NEAR, places)[keep]}, estimators=["wdr", "mis", "fqe"], samples=199)
    mean = float(log.rewards.sum()) / 3_000
    assert found.logged.mean == pytest.approx(mean, rel=0.05)
    assert float(cut.rewards.sum()) / 3_000 < 0.9 * mean
    for row in found.results:
        assert row.value == pytest.approx(LOGS.worth[NEAR], rel=0.08)
        assert row.verdict != TRUST
        assert any(reason.startswith("the log ends before") for reason in row.reasons)


def test_rewards_by_name_are_judged_by_the_same_weights(drawn: tuple[Log, IntArray]) -> None:
    log, places = drawn
    named = replace(log, rewards_by_name={"clicks": log.rewards, "double": 2.0 * log.rewards})
    found = evaluate(named, {NEAR: LOGS.chances(NEAR, places)}, samples=199)
    for row, other in zip(found.results, found.others["double"].results, strict=True):
        assert other.value == pytest.approx(2.0 * row.value)


def frame(**changes: list[int]) -> pl.DataFrame:
    """Return a log of 2 visitors of 2 decisions."""
    columns = {
        "visitor": [0, 0, 1, 1],
        "visit": [0, 0, 0, 1],
        "step": [0, 1, 0, 1],
        "action": [0, 1, 1, 0],
        "propensity": [0.5] * 4,
        "reward": [1.0, 0.0, 0.0, 1.0],
        "ended": [False, True, False, True],
        "censored": [False] * 4,
        **changes,
    }
    return pl.DataFrame(columns)


def test_what_cannot_be_judged_is_refused_in_one_line() -> None:
    even = {"even": np.array([0.5, 0.5])}
    with pytest.raises(DataError, match="row 2 is the first of its visitor and of visit 1, expected visit 0"):
        zoosim.evaluate(frame(visit=[0, 0, 1, 2]), even)
    with pytest.raises(ConfigError, match="gamma: got 0, expected above 0 and at most 1"):
        zoosim.evaluate(frame(), even, gamma=0)
    with pytest.raises(ConfigError, match=r"gamma: got 0\.5, expected none"):
        zoosim.evaluate(frame().drop("visitor"), even, gamma=0.5)
    with pytest.raises(ConfigError, match=r"unknown estimator.*snips"):
        zoosim.evaluate(frame(), even, estimators=["snips"])
    with pytest.raises(ConfigError, match="is a log of visitors who come back"):
        zoosim.evaluate(frame(), even, propensity_model="multinomial")
    with pytest.raises(ConfigError, match="learn from logs of single actions alone"):
        zoosim.evaluate(frame(), even, train=True)


def test_without_features_of_visitors_a_network_is_the_linear_model() -> None:
    even = {"even": np.array([0.5, 0.5])}
    linear = zoosim.evaluate(frame(), even, estimators=["fqe"], samples=99).results[0]
    network = zoosim.evaluate(frame(), even, estimators=["fqe-network"], samples=99).results[0]
    assert network.value == pytest.approx(linear.value, rel=0.2)


def test_later_rewards_count_less_by_gamma(drawn: tuple[Log, IntArray]) -> None:
    log, places = drawn
    visitors = visitors_of(log, 0.5)
    assert log.lives is not None
    expected = float((0.5**log.lives.step * log.rewards).sum()) / 3_000
    assert float(visitors.rewards.mean()) == pytest.approx(expected)
    logging = {"logging": LOGS.writers[BANDIT].main[places[:, 0], places[:, 1]]}
    found = evaluate(log, logging, estimators=["per-decision"], gamma=0.5, samples=199)
    assert found.results[0].value == pytest.approx(expected)


def test_workers_are_asked_about_decisions(drawn: tuple[Log, IntArray]) -> None:
    log = drawn[0].rows(slice(0, 2_000))
    policies = {"linucb": find_class("linucb")(spec_of(log), np.random.default_rng(0))}
    executor = Losing(0)
    away, here = (
        evaluate(log, policies, estimators=["per-decision", "wdr"], samples=199, spread=spread)
        for spread in (spread_over(Remote(executor)), None)
    )
    assert executor.calls == 1
    assert away == here
