"""Intervals, paired tests, Holm's correction and seeds to settle, against scipy and numbers worked out by hand."""

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from zoosim.core.statistics import (
    Interval,
    cut,
    holm,
    mean_interval,
    mean_intervals,
    paired_test,
    paired_tests,
    seeds_to_settle,
    share_intervals,
    t_quantile,
)
from zoosim.core.types import FloatArray

A = [0.61, 0.70, 0.65, 0.72, 0.58]
B = [0.55, 0.69, 0.66, 0.64, 0.57]


def power(effect: float, n: int, tests: int = 1) -> float:
    """Simulate how often a two-sided t test at .05 / `tests` sees a mean of `effect` sds in `n` draws, 20,000 times."""
    draws = np.random.default_rng(3).normal(effect, 1, (20_000, n))
    found = stats.ttest_1samp(draws, 0, axis=1).pvalue < 0.05 / tests
    return float(found.mean())


def with_effect(effect: float) -> FloatArray:
    """Return differences whose mean is `effect` times their standard deviation."""
    base = np.array([-1.0, 0.0, 1.0])  # mean 0, sd 1
    return base + effect


def test_an_interval_by_hand() -> None:
    """1, 2, 3: mean 2, sd 1, t(2, .975) = 4.302653, so 2 +- 4.302653 / sqrt(3) = 2 +- 2.484138."""
    assert mean_interval([1, 2, 3]) == pytest.approx((2, 2 - 2.484138, 2 + 2.484138), abs=1e-6)


@pytest.mark.parametrize("n", [2, 3, 10, 32])
def test_an_interval_is_scipys(n: int) -> None:
    values = np.random.default_rng(n).normal(0.7, 0.1, n)
    found = mean_interval(values)
    expected = stats.t.interval(0.95, n - 1, values.mean(), stats.sem(values))
    assert found == pytest.approx((values.mean(), *expected), rel=1e-10)


@pytest.mark.parametrize("m", [2, 9, 300])
def test_intervals_of_rows_are_those_of_each_row(m: int) -> None:
    columns = np.random.default_rng(m).normal(0.7, 0.1, (m, 5))
    for row, *found in zip(columns.T, *mean_intervals(columns.T), strict=True):
        assert tuple(found) == mean_interval(row)


def test_intervals_cover_the_truth_95_times_in_a_hundred() -> None:
    """5 draws each, 4,000 times: within 4 standard errors; with the normal's 1.96 it would be 88%."""
    rng, n = np.random.default_rng(11), 4_000
    hits = 0
    for values in rng.normal(0.3, 2.0, (n, 5)):
        _, low, high = mean_interval(values)
        assert low is not None
        assert high is not None
        hits += low <= 0.3 <= high
    assert abs(hits / n - 0.95) < 4 * math.sqrt(0.95 * 0.05 / n)


def test_the_paired_test_is_scipys() -> None:
    found, expected = paired_test(A, B), stats.ttest_rel(A, B)
    low, high = expected.confidence_interval(0.95)
    assert found == pytest.approx((np.mean(A) - np.mean(B), low, high, expected.pvalue))
    assert found.p != pytest.approx(stats.ttest_ind(A, B).pvalue)


def test_the_paired_test_turns_around() -> None:
    one, two = paired_test(A, B), paired_test(B, A)
    assert one.low is not None
    assert one.high is not None
    assert (two.difference, two.low, two.high) == (-one.difference, -one.high, -one.low)
    assert one.p == two.p


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=2, max_size=12))
def test_the_paired_test_never_gives_nan(pairs: list[tuple[float, float]]) -> None:
    left, right = zip(*pairs, strict=True)
    found = paired_test(left, right)
    assert found.p is not None
    assert found.low is not None
    assert found.high is not None
    assert 0 <= found.p <= 1
    assert found.low <= found.difference <= found.high


def test_intervals_of_several_pairs_agree_with_the_corrected_p() -> None:
    """By hand: three pairs are tested at 5% / 3; Holm tests the second at 5% / 2, and its interval ends at 0."""
    noise = np.array([-1.0, 1.0, -1.0, 1.0, 0.0])
    pairs = [(lead + noise, np.zeros(5)) for lead in (4.0, 1.65, 0.1)]
    singles = [paired_test(*pair) for pair in pairs]
    first, second, third = paired_tests(pairs)
    assert [test.p for test in (first, second, third)] == holm([test.p for test in singles])
    assert singles[1].p is not None
    assert 0.05 / 3 < singles[1].p < 0.05 / 2
    half = t_quantile(4, 1 - 0.025 / 3) * 1.0 / math.sqrt(5)
    assert (first.low, first.high) == pytest.approx((4.0 - half, 4.0 + half))
    assert (second.low, second.high) == pytest.approx((0.0, 1.65 + half))
    assert (third.low, third.high) == pytest.approx((0.1 - half, 0.1 + half))
    [alone] = paired_tests(pairs[1:2])
    assert alone == singles[1]
    assert paired_tests([(np.array([0.5]), np.array([0.25]))]) == [(0.25, None, None, None)]


def test_intervals_of_all_pairs_hold_together() -> None:
    """Four policies, two of them equal, over 10 seeds: all six intervals hold the truth in 95% of 2,000 repetitions."""
    rng = np.random.default_rng(0)
    means = np.array([0.9, 0.9, 0.85, 0.6])
    hits = 0
    for _ in range(2_000):
        fractions = means[:, None] + rng.normal(0.0, 0.03, (4, 10))
        places = list(itertools.combinations(range(4), 2))
        tests = paired_tests([(fractions[a], fractions[b]) for a, b in places])
        hits += all(
            test.low is not None and test.high is not None and test.low <= means[a] - means[b] <= test.high
            for test, (a, b) in zip(tests, places, strict=True)
        )
    assert hits / 2_000 > 0.95 - 4 * math.sqrt(0.95 * 0.05 / 2_000)


def test_one_seed_tells_nothing() -> None:
    assert mean_interval([0.7]) == (0.7, None, None)
    assert paired_test([0.75], [0.5]) == (0.25, None, None, None)
    assert seeds_to_settle([0.25]) is None


def test_without_variance_a_difference_is_certain_and_none_is_none() -> None:
    assert paired_test([0.75, 0.5], [0.5, 0.25]) == (0.25, 0.25, 0.25, 0.0)
    assert paired_test([0.5, 0.7], [0.5, 0.7]) == (0.0, 0.0, 0.0, 1.0)


def test_holm_by_hand() -> None:
    """Sorted .005 .01 .03 .04, times 4, 3, 2, 1: .02, .03, .06, .04, and none below the one before it."""
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


@pytest.mark.parametrize(
    ("ps", "expected"),
    [
        ([], []),
        ([0.03], [0.03]),
        ([None], [None]),
        ([None, 0.01, None, 0.02], [None, 0.02, None, 0.02]),  # the two that are there count, not four
        ([0.02, 0.02, 0.02], [0.06, 0.06, 0.06]),
        ([0.5, 0.9], [1.0, 1.0]),
        ([0.0, 1.0], [0.0, 1.0]),
    ],
)
def test_holm_at_the_edges(ps: Sequence[float | None], expected: list[float | None]) -> None:
    assert holm(ps) == pytest.approx(expected)


def test_holm_keeps_false_claims_below_5_percent() -> None:
    """Ten true null hypotheses, 4,000 times: some claim in at most 5% (4 standard errors); uncorrected in 40%."""
    ps, n = np.random.default_rng(5).random((4_000, 10)), 4_000
    claims = sum(min(p for p in holm(row.tolist()) if p is not None) < 0.05 for row in ps)
    assert claims / n < 0.05 + 4 * math.sqrt(0.05 * 0.95 / n)
    assert claims / n > 0.03
    assert (ps.min(axis=1) < 0.05).mean() > 0.3


@pytest.mark.parametrize(("effect", "tests"), [(1.2, 1), (0.6, 1), (0.3, 1), (0.6, 21)])
def test_that_many_seeds_have_80_percent_power(effect: float, tests: int) -> None:
    """Simulated with 20,000 runs; one seed in five fewer is clearly too few. (The formula is a close approximation.)"""
    n = seeds_to_settle(with_effect(effect), tests)
    assert n is not None
    assert 0.78 < power(effect, n, tests) < 0.88
    assert power(effect, int(0.8 * n), tests) < 0.79


@pytest.mark.parametrize("effect", [5.0, 2.0, 1.0, 0.5, 0.1, 0.01])
@pytest.mark.parametrize("tests", [1, 6])
def test_it_is_the_smallest_number_of_seeds_that_will_do(effect: float, tests: int) -> None:
    """effect sqrt(n) >= t(n - 1, 1 - .025 / tests) + t(n - 1, .8), and not so for one seed fewer."""

    def enough(n: int) -> bool:
        needed = stats.t.ppf(1 - 0.025 / tests, n - 1) + stats.t.ppf(0.8, n - 1)
        return bool(effect * math.sqrt(n) >= needed)

    n = seeds_to_settle(with_effect(-effect), tests)
    assert n is not None
    assert n >= 2
    assert enough(n)
    assert n == 2 or not enough(n - 1)


def test_seeds_to_settle_by_hand() -> None:
    """Mean and sd 1: n = 10 is just enough, as 3.162 > t(9, .975) + t(9, .8) = 2.262 + .883 = 3.145; 9 are not."""
    assert seeds_to_settle([0, 1, 2]) == 10


def test_equal_policies_are_never_told_apart_and_constant_leads_at_once() -> None:
    assert seeds_to_settle([0.0, 0.0, 0.0]) is None
    assert seeds_to_settle([0.25, 0.25, 0.25]) == 2


def test_rounding_is_no_lead_and_tiny_leads_have_an_end() -> None:
    """The mean of .3, -.1 and -.2 is not quite 0 in binary; a lead of 1e-9 sds would take 8e18 seeds."""
    assert np.mean([0.3, -0.1, -0.2]) != 0
    assert seeds_to_settle([0.3, -0.1, -0.2]) is None
    assert seeds_to_settle(with_effect(1e-9)) == 1_000_000


def test_quantiles_of_t() -> None:
    """From the tables: t(1, .975) = 12.706, t(9, .975) = 2.262, t(31, .975) = 2.040."""
    assert [t_quantile(n) for n in (1, 9, 31)] == pytest.approx([12.706, 2.262, 2.040], abs=5e-4)


def test_the_interval_of_a_share_is_wilsons() -> None:
    """Against scipy, ends included; 0 of 10 by hand: z^2 / (10 + z^2) = 3.8415 / 13.8415 = .27754."""
    hits = np.array([0, 3, 10])
    low, high = share_intervals(hits, 10)
    wilson = [stats.binomtest(k, 10).proportion_ci(method="wilson") for k in hits.tolist()]
    np.testing.assert_allclose(low, [ends.low for ends in wilson], atol=1e-12)
    np.testing.assert_allclose(high, [ends.high for ends in wilson], atol=1e-12)
    assert high[0] == pytest.approx(0.27754, abs=1e-5)


def test_intervals_are_cut_at_what_is_possible_unless_their_mean_is_not() -> None:
    assert cut(Interval(0.1, -0.2, 0.4), (0.0, 1.0)) == Interval(0.1, 0.0, 0.4)
    assert cut(Interval(0.9, 0.7, 1.1), (0.0, 1.0)) == Interval(0.9, 0.7, 1.0)
    beyond = Interval(1.2, 0.9, 1.5)
    for estimate in (beyond, Interval(0.1, None, None), Interval(0.1, -math.inf, math.inf)):
        assert cut(estimate, (0.0, 1.0)) == estimate
