"""Ranking policies by a log: small cases by hand, and how often anything false is claimed."""

import numpy as np
import pytest

from tests.off_policy.test_evaluate import drawn
from tests.off_policy.worlds import TableWorld
from zoosim.core.types import FloatArray
from zoosim.off_policy.estimators.terms import Terms
from zoosim.off_policy.evaluate import evaluate
from zoosim.off_policy.intervals.bootstrap import bootstrap
from zoosim.off_policy.intervals.clusters import group_sums, make_clusters, standard_error
from zoosim.off_policy.intervals.comparisons import PairedLead, Ranked, rank_policies

RATIOS = np.linspace(-2, 2, 99)


def lead(value: float, ratios: FloatArray = RATIOS) -> PairedLead:
    return PairedLead(value, 1.0, ratios)


def test_a_small_case_by_hand() -> None:
    """a leads by 1.9, b by 1.5; both ratios are the same 99 numbers, so the largest of both is each."""
    over = {"a": lead(1.9), "b": lead(1.5), "c": lead(-1.0)}
    between = {("b", "a"): lead(-0.4), ("c", "a"): lead(-2.9), ("c", "b"): lead(-2.5)}
    found = {row.policy: row for row in rank_policies("ips", {"b": 5.5, "a": 5.9, "c": 3.0}, over, between)}
    assert [found[name].place for name in "abc"] == [1, 2, 3]
    beyond = int((RATIOS >= 1.9).sum())
    assert found["a"].p_better == pytest.approx((1 + beyond) / 100)
    assert found["c"].p_better == 1.0
    assert found["a"].low == pytest.approx(1.9 - RATIOS[94])  # the 95th of 99
    # The largest of |ratio|: 99 numbers from 0 to 2, each twice but one; its 95th is below 2.
    assert [found[name].may_be_best for name in "abc"] == [True, True, False]


Leads = tuple[dict[str, float], dict[str, PairedLead], dict[tuple[str, str], PairedLead]]


def leads(rng: np.random.Generator, means: FloatArray, n: int = 400) -> Leads:
    """Return values and leads over logged choices of mean 0; rows' terms are N(mean, 1) with a common part."""
    common = rng.normal(size=n)
    logged, clusters = rng.normal(size=n), make_clusters(n)
    terms = {f"p{i}": mean + 0.7 * common + 0.7 * rng.normal(size=n) for i, mean in enumerate(means)}

    def leading(values: FloatArray) -> PairedLead:
        sums = group_sums(clusters, Terms(values))
        return PairedLead(sums.value, standard_error(sums), bootstrap(sums, samples=199).ratios)

    over = {name: leading(values - logged) for name, values in terms.items()}
    names = list(terms)
    pairs = [(a, b) for i, a in enumerate(names) for b in names[:i]]
    between = {(a, b): leading(terms[a] - terms[b]) for a, b in pairs}
    return {name: float(values.mean()) for name, values in terms.items()}, over, between


def test_false_claims_are_as_rare_as_they_should_be() -> None:
    """300 logs, 6 policies no better than logged, and one of them as good as another: at most 5% (+ 3.5 sd: 9.4%).

    Taken one by one, the best of the six would be claimed too often.
    """
    rng, claims, alone, excluded = np.random.default_rng(0), 0, 0, 0
    for _ in range(300):
        values, over, between = leads(rng, np.zeros(6))
        found = rank_policies("ips", values, over, between)
        claims += any(row.low > 0.0 for row in found)
        excluded += not all(row.may_be_best for row in found)
        single: list[Ranked] = []
        for name in values:
            single += rank_policies("ips", {name: values[name]}, {name: over[name]}, {})
        alone += any(row.low > 0.0 for row in single)
    assert claims / 300 < 0.094
    assert excluded / 300 < 0.094
    assert alone / 300 > 0.1


def test_what_is_better_is_found() -> None:
    found = rank_policies("ips", *leads(np.random.default_rng(1), np.array([0.0, 0.3, 0.6]), n=2_000))
    assert [row.policy for row in found] == ["p2", "p1", "p0"]
    assert [row.low > 0.0 for row in found] == [True, True, False]
    assert [row.may_be_best for row in found] == [True, False, False]


def test_an_evaluation_ranks_what_can_be_used() -> None:
    world = TableWorld(0, 0.5)
    log = drawn(world)
    best = np.full((4, 10), 0.05) + 0.5 * np.eye(10)[world.clicks.argmax(axis=1)]
    tables = {"best": log.features @ best, "target": log.features @ world.target, "far": np.eye(10)[3]}
    found = evaluate(log, tables, estimators=["ips", "dr"])
    useless = {row.policy for row in found.results if row.verdict == "do not use"}
    assert {row.policy for row in found.ranking} == set(tables) - useless
    first = next(row for row in found.ranking if row.estimator == "dr")
    assert (first.policy, first.place) == ("best", 1)
    value = next(row.value for row in found.results if row[:2] == ("best", "dr"))
    assert first.value == value
    assert first.lead == pytest.approx(value - found.logged.mean, abs=1e-12)
    ahead = next(d for d in found.differences if (d.policy, d.other, d.estimator) == ("best", "logged", "dr"))
    assert ahead.low is not None
    assert first.low < ahead.value
