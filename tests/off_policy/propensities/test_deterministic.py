"""Logs of shops that choose without chance: how they are known, and what is planned for them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.off_policy.propensities.test_estimate import unknown
from tests.off_policy.test_evaluate import drawn
from tests.off_policy.worlds import TableWorld
from zoosim.core.types import FloatArray, IntArray
from zoosim.logs.candidate_sets import CandidateSets
from zoosim.logs.log import Log
from zoosim.off_policy import findings
from zoosim.off_policy.evaluate import evaluate
from zoosim.off_policy.intervals.clusters import make_clusters
from zoosim.off_policy.propensities import deterministic as deterministic_logs
from zoosim.off_policy.propensities.deterministic import (
    Randomisation,
    is_deterministic,
    plan_randomisation,
    plan_sentences,
)
from zoosim.off_policy.propensities.estimate import estimate_propensities
from zoosim.report.evaluation import build_page

DAY = 86_400_000_000


def log_of(actions: IntArray, features: FloatArray) -> Log:
    """A log that shows these products, of 4."""
    log = unknown(drawn(TableWorld(0, 0.5), len(actions)))
    return replace(log, actions=actions, features=features, candidates=CandidateSets.everything(4), products=np.eye(4))


def deterministic(log: Log) -> bool:
    return is_deterministic(log, estimate_propensities(log, make_clusters(len(log))))


def test_logs_without_chance_are_known() -> None:
    """By segments, by lines between numbers, by thresholds; with 3% of chance, or by half of the segments, no more."""
    rng = np.random.default_rng(0)
    n = 2_000
    segment = rng.integers(4, size=n)
    by_segment = np.eye(4)[segment]
    numbers = rng.normal(size=(n, 2))
    by_lines = (numbers @ rng.normal(size=(2, 4))).argmax(axis=1)
    by_thresholds = 2 * (numbers[:, 0] > 0.3).astype(int) + (np.abs(numbers[:, 1]) > 1.0)
    some = np.where(rng.random(n) < 0.04, rng.integers(4, size=n), segment)
    half = np.where(segment < 2, segment, rng.integers(4, size=n))
    assert deterministic(log_of(segment, by_segment))
    assert deterministic(log_of(by_lines, numbers))
    assert deterministic(log_of(by_thresholds, numbers))
    assert deterministic(log_of(np.zeros(n, np.int64), numbers))
    assert not deterministic(log_of(some, by_segment))
    assert not deterministic(log_of(half, by_segment))
    assert not deterministic(log_of(rng.integers(4, size=n), by_segment))


def test_a_log_by_rules_alone_on_most_rows_keeps_the_estimates_of_the_others() -> None:
    """A quarter of the visits, which a feature marks, show any product: what a policy changes there can be estimated.

    It shows product 0 there, which is clicked twice as often as the others, .4 and .2; of all visits a quarter earns .4
    and three quarters by their rule .25, so .2875.
    """
    rng = np.random.default_rng(0)
    n = 4_000
    segment = rng.integers(4, size=n)
    by_chance = rng.random(n) < 0.25
    shown = np.where(by_chance, rng.integers(4, size=n), segment)
    log = log_of(shown, np.column_stack([np.eye(4)[segment], by_chance]))
    log = replace(log, rewards=(rng.random(n) < np.where(shown == 0, 0.4, 0.2)).astype(float))
    changed = np.eye(4)[np.where(by_chance, 0, segment)]
    swapped = np.eye(4)[3 - segment]
    found = evaluate(log, {"changed": changed, "swapped": swapped}, propensity_model="multinomial")
    assert not found.is_deterministic
    assert [(row.estimator, row.verdict) for row in found.results if row.policy == "changed"] == [
        ("snips", "weak"),
        ("dr", "weak"),
    ]
    for row in found.results[:2]:
        assert row.low is not None
        assert row.high is not None
        assert row.low < 0.2875 < row.high
    assert {row.verdict for row in found.results if row.policy == "swapped"} == {"do not use"}


def test_the_plan_by_hand() -> None:
    """All rows show product 0 of 4, half of the rewards are 1; the policies always show 1 and 2.

    With a quarter of the visits at random product 1 has a chance of 1/16, so a row's variance is 16 x .25 = 4; to
    a precision of .1 x .5 = .05 that takes 4 x (1.95996 / .05)^2 = 6,147 rows, at 100 rows per day 61.5 days; two
    policies differ by 16 + 16 in squares, 8 in variance: 8 x (2.80159 / .05)^2 = 25,116 rows.
    """
    n = 1_001
    log = log_of(np.zeros(n, np.int64), np.ones((n, 1)))
    log = replace(log, rewards=np.r_[0.5, np.arange(n - 1) % 2], times=np.arange(n) * (DAY * n // 100 // (n - 1)))
    first, second = np.eye(4)[1], np.eye(4)[2]
    chances = {"one": np.tile(first, (n, 1)), "two": np.tile(second, (n, 1))}
    plan = plan_randomisation(log, chances, {"one": 0.1, "two": 0.2}, 0.95)[-1]
    assert plan.share == 0.25
    assert plan.rows == pytest.approx(6_147, rel=0.005)
    assert plan.days == pytest.approx(61.5, rel=0.005)
    assert plan.rows_to_compare == pytest.approx(25_116, rel=0.005)
    alone = plan_randomisation(replace(log, times=None), {"one": chances["one"]}, {"one": 0.1}, 0.95)
    assert (alone[-1].days, alone[-1].rows_to_compare, alone[-1].days_to_compare) == (None, None, None)
    assert plan_sentences(alone)[-1].startswith("with 25% of the visits at random, 6,140 rows of log judge each policy")
    assert plan_randomisation(replace(log, rewards=np.zeros(n)), chances, {"one": 0.1, "two": 0.2}, 0.95) == ()


def test_the_plan_takes_fewer_rows_of_many_products(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deterministic_logs, "MOST_CELLS", 400)
    planned = []

    def plan(log: Log, chances: Mapping[str, FloatArray], *_: Any) -> tuple[Randomisation, ...]:
        planned.append(chances["uniform"].shape)
        return ()

    monkeypatch.setattr(findings, "plan_randomisation", plan)
    segment = np.random.default_rng(0).integers(4, size=800)
    evaluate(log_of(segment, np.eye(4)[segment]), {"uniform": np.full(4, 0.25)}, propensity_model="multinomial")
    assert planned == [(100, 4)]


def test_the_direct_method_is_for_information() -> None:
    rng = np.random.default_rng(0)
    segment = rng.integers(4, size=800)
    log = log_of(segment, np.eye(4)[segment])
    policies = {"swap": np.eye(4)[3 - segment], "uniform": np.full(4, 0.25)}
    found = evaluate(log, policies, propensity_model="multinomial", overlap=True)
    assert [(row.estimator, row.verdict) for row in found.results] == [("dm", "do not use")] * 2
    assert "the log is deterministic" in found.results[0].reasons[0]
    assert found.is_deterministic
    assert [plan.share for plan in found.randomisation] == [0.01, 0.05, 0.1, 0.25]
    assert found.summary["randomisation"][0]["rows_to_compare"] > found.summary["randomisation"][3]["rows_to_compare"]
    assert len(found.remarks) == 7  # estimated, deterministic, what to log, and four shares
    page = build_page(found)
    assert page.answer.startswith("Choose by chance in some visits and ask again")
    assert page.details[0].startswith("This log is deterministic")
    assert "What would settle it" in [table.heading for table in page.tables]
    assert [row[2:7] for row in page.tables[0].rows[:2]] == [("do not use", "", "", "", "")] * 2
    assert all(sentence.startswith("reward: the log cannot tell") for sentence in found.summary["sentences"].values())
