"""Ranking policies by a log: small cases by hand, and how often anything false is claimed."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.off_policy.test_evaluate import drawn
from tests.off_policy.worlds import TableWorld
from zoosim.core.types import FloatArray
from zoosim.off_policy.compare import LOGGED, Difference, EstimateComparison, Lift
from zoosim.off_policy.estimators.terms import Terms
from zoosim.off_policy.evaluate import evaluate
from zoosim.off_policy.intervals.bootstrap import bootstrap
from zoosim.off_policy.intervals.clusters import group_sums, make_clusters, standard_error
from zoosim.off_policy.intervals.comparisons import PairedLead, PolicyRank, correct, rank_policies
from zoosim.off_policy.options import EvaluationOptions
from zoosim.off_policy.verdict import TRUST

RATIOS = np.linspace(-2, 2, 99)


def lead(value: float, ratios: FloatArray = RATIOS) -> PairedLead:
    return PairedLead(value, 1.0, ratios)


def rank(
    values: dict[str, float], over: dict[str, PairedLead], between: dict[tuple[str, str], PairedLead]
) -> tuple[PolicyRank, ...]:
    """Correct all leads together and rank by them, as an evaluation does."""
    leads = [*over.values(), *between.values()]
    corrected = correct(leads)
    intervals = [each.interval(lead) for each, lead in zip(corrected, leads, strict=True)]
    p_values = dict(zip(over, (each.p for each in corrected), strict=False))
    of_pairs = dict(zip(between, intervals[len(over) :], strict=True))
    return rank_policies("ips", values, dict(zip(over, intervals, strict=False)), p_values, of_pairs)


def test_a_small_case_by_hand() -> None:
    """One lead of 99 ratios from -2 to 2: at 95% its ends are the third from each side, 2 - 2 x 4/98 = 1.918.

    The 95th of the 99 sizes is the fifth from the top, and two of each size come, so it is the third of one side, too:
    alone, a lead reaches as far as its own ends. One of 1.95 is beyond these, with 4 sizes as large: p = 5 / 100.
    """
    (alone,) = correct([lead(1.95)])
    assert (alone.below, alone.above) == pytest.approx((1.918367, 1.918367), abs=1e-6)
    assert alone.p == pytest.approx(0.05)
    assert correct([lead(1.95), lead(0.0)])[0] == alone  # the same ratios again tell of nothing more
    mirrored = correct([lead(1.95), PairedLead(0.1, 1.0, np.roll(RATIOS, 5))])[0]
    assert mirrored.p > alone.p  # other ratios do


def test_a_lead_of_which_nothing_can_be_said_widens_no_other() -> None:
    """A lead whose samples often have no spread is open at that end; it says nothing, and others stay as they are."""
    open_ratios = np.append(RATIOS[10:], np.full(10, np.inf))
    unknown, known = correct([lead(0.5, open_ratios), lead(1.95)])
    assert unknown.below == np.inf
    assert known.below == pytest.approx(1.918367, abs=0.05)
    assert correct([PairedLead(0.0, 0.0, RATIOS), PairedLead(1.0, 0.0, RATIOS)])[0].p == 1.0
    assert correct([]) == []


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


@pytest.mark.parametrize(("logs", "most"), [(100, 0.127), pytest.param(300, 0.094, marks=pytest.mark.slow)])
def test_false_claims_are_as_rare_as_they_should_be(logs: int, most: float) -> None:
    """4 policies as good as logged, 10 comparisons: any false claim in at most 5% of the logs, and 3.5 errors of that.

    Taken one by one, there would be far more.
    """
    rng, claims, alone = np.random.default_rng(0), 0, 0
    for _ in range(logs):
        values, over, between = leads(rng, np.zeros(4))
        ranked = rank(values, over, between)
        claims += any(row.low > 0.0 or not row.may_be_best for row in ranked)
        single = [correct([each])[0].interval(each) for each in (*over.values(), *between.values())]
        alone += any((each.low or 0.0) > 0.0 or (each.high or 0.0) < 0.0 for each in single)
    assert claims / logs < most
    assert alone / logs > 0.15


def test_what_is_better_is_found() -> None:
    ranked = rank(*leads(np.random.default_rng(1), np.array([0.0, 0.3, 0.6]), n=2_000))
    assert [row.policy for row in ranked] == ["p2", "p1", "p0"]
    assert [row.low > 0.0 for row in ranked] == [True, True, False]
    assert [row.may_be_best for row in ranked] == [True, False, False]


@example(1, 1, 19, 0.0)  # the logged mean is not clear of 0, and the difference is
@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.integers(8, 60), st.floats(0.0, 3.0))
@settings(max_examples=60, deadline=None)
def test_p_values_intervals_and_places_never_disagree(seed: int, n_policies: int, n: int, spread: float) -> None:
    """Rare, skewed rewards on few rows: whatever comes of them, one statistic decides all."""
    rng = np.random.default_rng(seed)
    clusters = make_clusters(n)
    logged = group_sums(clusters, Terms((rng.random(n) < 0.3).astype(float)))
    options = EvaluationOptions(("ips",), "bootstrap", 0.95, 99, 0, (0.0, 1.0), False, None)
    comparison = EstimateComparison(logged, options)
    values = {}
    for number in range(n_policies):
        weights = np.exp(spread * rng.normal(size=n))
        sums = group_sums(clusters, Terms(weights * (rng.random(n) < rng.random())))
        values[f"p{number}"] = sums.value
        comparison.add(f"p{number}", "ips", sums, TRUST)
    found = comparison.compared({"ips": values}, list(values))

    def sign(row: Difference | Lift) -> int:
        assert row.low is not None
        assert row.high is not None
        assert row.low <= row.value <= row.high
        return int(row.low > 0.0) - int(row.high < 0.0)

    signs = {(row.policy, row.other): sign(row) for row in found.differences}
    for row in found.differences:
        if row.value or row.low != row.high:
            assert (row.p <= 0.05) == (signs[row.policy, row.other] != 0)
        if signs[row.policy, row.other] == 0:
            assert row.rows_needed is None or row.rows_needed > n
    for lift in found.lifts:
        if signs[lift.policy, LOGGED] >= 0:  # nobody earns less than nothing, so a lower end may be cut to -100%
            assert sign(lift) == signs[lift.policy, LOGGED]
    behind = {other for (_, other), shown in signs.items() if shown > 0} | {
        policy for (policy, other), shown in signs.items() if shown < 0 and other != LOGGED
    }
    for ranked in found.ranking:
        assert ranked.may_be_best == (ranked.policy not in behind)
        assert (ranked.low > 0.0) == (signs[ranked.policy, LOGGED] > 0)
        assert (ranked.p_better <= 0.05) == (ranked.low > 0.0)


def test_policies_that_differ_by_rounding_are_the_same() -> None:
    uniform = np.full(10, 0.1)
    evaluation = evaluate(drawn(TableWorld(0, 0.5)), {"a": uniform, "b": uniform * np.nextafter(1.0, 2.0)})
    pairs = [row for row in evaluation.differences if row.other == "a"]
    assert {row.estimator for row in pairs} == {"ips", "snips", "dr", "dm"}
    for row in pairs:
        assert (row.value, row.low, row.high, row.p, row.rows_needed) == (0.0, 0.0, 0.0, 1.0, None)


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
