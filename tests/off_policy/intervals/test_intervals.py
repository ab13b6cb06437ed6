"""Intervals against second computations and known distributions, and how often they hold."""

import math

import numpy as np
import polars as pl
import pytest
from scipy import stats

from tests.off_policy.worlds import TableWorld
from zoosim.core.errors import ConfigError, DataError
from zoosim.core.rng import mix, stream_key
from zoosim.core.statistics import Interval
from zoosim.core.types import FloatArray, IntArray
from zoosim.logs.parse import to_log
from zoosim.off_policy.estimators.single import doubly_robust, ips, self_normalised_dr, self_normalised_ips
from zoosim.off_policy.estimators.terms import Terms
from zoosim.off_policy.evaluate import evaluate
from zoosim.off_policy.intervals.bootstrap import bootstrap, bootstraps, poisson, poisson_law
from zoosim.off_policy.intervals.clusters import difference, group_sums, make_clusters, standard_error
from zoosim.off_policy.intervals.intervals import (
    asymptotic_interval,
    bernstein_interval,
    bootstrap_interval,
    ratio_interval,
    rows_to_decide,
)
from zoosim.off_policy.intervals.sequences import confidence_sequence

LAW = poisson_law()


def misses(interval: Interval, truth: float) -> bool:
    assert interval.low is not None
    assert interval.high is not None
    return not interval.low <= truth <= interval.high


def test_the_asymptotic_interval_of_a_mean_is_students() -> None:
    rng = np.random.default_rng(0)
    values = rng.gamma(2.0, size=40)
    found = asymptotic_interval(group_sums(make_clusters(40), ips(np.ones(40), values)))
    low, high = stats.t.interval(0.95, 39, values.mean(), stats.sem(values))
    assert found == pytest.approx((values.mean(), low, high), abs=1e-12)


def test_the_clustered_error_is_that_of_a_plain_loop() -> None:
    drawn = TableWorld(0, 0.8).draw(np.random.default_rng(1), 60, rows_a_user=3)
    terms = self_normalised_ips(drawn.weights, drawn.rewards)
    total = 0.0
    for user in range(20):
        rows = drawn.users == user
        total += float((drawn.weights[rows] * (drawn.rewards[rows] - terms.value)).sum()) ** 2
    by_hand = math.sqrt(total * 20 / 19) / drawn.weights.sum()
    assert standard_error(group_sums(make_clusters(60, drawn.users), terms)) == pytest.approx(by_hand, rel=1e-12)


def counts_of(seed: int, sample: int, groups: int) -> IntArray:
    """The bootstrap's draws, asked for one at a time."""
    row = np.uint64(mix(np.uint64(stream_key(seed, "bootstrap") ^ np.uint64(mix(np.uint64(sample))))))
    law = poisson_law()
    return np.array([poisson(np.uint64(mix(np.uint64(row ^ np.uint64(g)))), law) for g in range(groups)], np.int64)


def repeated(terms: Terms, times: IntArray) -> Terms:
    top, bottom = (None if part is None else np.repeat(part, times) for part in terms[1:])
    return Terms(np.repeat(terms.base, times), top, bottom)


@pytest.mark.parametrize("name", ["ips", "snips", "sndr"])
@pytest.mark.parametrize("paired", [False, True])
def test_bootstrap_samples_are_estimates_on_repeated_rows(name: str, paired: bool) -> None:
    """Users counted as often as they were drawn: the estimate and its error, computed anew from the rows."""
    drawn = TableWorld(0, 0.8).draw(np.random.default_rng(2), 45, rows_a_user=3)
    w, r, p, e = drawn.weights, drawn.rewards + 0.1, drawn.rewards * 0.3, drawn.weights * 0.05
    terms = {"ips": ips(w, r), "snips": self_normalised_ips(w, r), "sndr": self_normalised_dr(w, r, p, e)}[name]
    less = self_normalised_ips(np.sqrt(w), r) if paired else None
    clusters = make_clusters(45, drawn.users)
    sums = group_sums(clusters, terms)
    sums = sums if less is None else difference(sums, group_sums(clusters, less))
    found = bootstrap(sums, samples=20, seed=4)
    for sample in range(20):
        times = counts_of(4, sample, 15)[drawn.users]
        users = np.repeat(drawn.users, times)
        again = repeated(terms, times)
        value, influence = again.value, again.influence()
        if less is not None:
            value, influence = value - repeated(less, times).value, influence - repeated(less, times).influence()
        assert found.deviations[sample] == pytest.approx(value - sums.value, abs=1e-12)
        # a user drawn twice is two units: divide the sum over its copies by the number of copies
        draws = counts_of(4, sample, 15)
        shares = np.bincount(users, influence, 15)
        error = math.sqrt(sum(s**2 / k for s, k in zip(shares, draws, strict=True) if k)) / len(users)
        assert found.errors[sample] == pytest.approx(error, abs=1e-12)


def test_estimates_resampled_together_are_those_resampled_alone() -> None:
    drawn = TableWorld(0, 0.8).draw(np.random.default_rng(2), 90)
    clusters = make_clusters(90)
    estimates = [group_sums(clusters, form(drawn.weights, drawn.rewards)) for form in (ips, self_normalised_ips)]
    together = bootstraps(estimates, samples=50, seed=3)
    for sums, found in zip(estimates, together, strict=True):
        alone = bootstrap(sums, samples=50, seed=3)
        np.testing.assert_array_equal(found.deviations, alone.deviations)
        np.testing.assert_array_equal(found.errors, alone.errors)
    assert (together[0].deviations != together[1].deviations).any()


def test_counts_are_poisson() -> None:
    """Chi-squared over 0 to 5 and more, 100,000 draws, below the 99.9% quantile."""
    draws = np.concatenate([counts_of(0, sample, 1_000) for sample in range(100)])
    seen = np.bincount(np.minimum(draws, 5), minlength=6)
    chances = np.array([*stats.poisson.pmf(range(5), 1), stats.poisson.sf(4, 1)])
    assert stats.chisquare(seen, chances * len(draws)).statistic < stats.chi2.ppf(0.999, 5)


def test_the_bootstrap_repeats_and_knows_its_level() -> None:
    drawn = TableWorld(0, 0.5).draw(np.random.default_rng(3), 2_000)
    sums = group_sums(make_clusters(2_000), ips(drawn.weights, drawn.rewards))
    assert bootstrap_interval(sums, seed=1) == bootstrap_interval(sums, seed=1) != bootstrap_interval(sums, seed=2)
    wide, narrow = bootstrap_interval(sums, 0.99), bootstrap_interval(sums, 0.5)
    assert wide.low is not None
    assert narrow.low is not None
    assert wide.low < narrow.low < sums.value
    with pytest.raises(ConfigError, match="samples: got 30, expected at least 40"):
        bootstrap_interval(sums, samples=30)
    with pytest.raises(ConfigError, match="level: got 95"):
        bootstrap_interval(sums, 95)


def test_many_rows_in_groups_have_the_error_of_the_rows() -> None:
    """200,000 rows in 20,000 groups: the standard errors agree to 4 times 1 / sqrt(2 x 20,000)."""
    drawn = TableWorld(0, 0.8).draw(np.random.default_rng(4), 200_000)
    terms = ips(drawn.weights, drawn.rewards)
    grouped = make_clusters(200_000)
    assert (len(grouped.sizes), grouped.n_clusters) == (20_000, 200_000)
    ratio = standard_error(group_sums(grouped, terms)) / standard_error(
        group_sums(make_clusters(200_000, max_groups=200_000), terms)
    )
    assert abs(ratio - 1) < 4 / math.sqrt(40_000)
    users = make_clusters(200_000, drawn.users // 5)
    assert users.n_clusters == 40_000
    assert len({*users.group[:5]}) == 1


def coverage(n: int, rows_a_user: int, clustered: bool, runs: int = 400) -> dict[str, int]:
    """Count how often intervals miss the true value over `runs` logs of `n` rows."""
    world, missed = TableWorld(7, 0.6), {"bootstrap": 0, "asymptotic": 0, "bernstein": 0}
    for run in range(runs):
        drawn = world.draw(np.random.default_rng([n, run]), n, rows_a_user)
        clusters = make_clusters(n, drawn.users if clustered else None)
        sums = group_sums(clusters, self_normalised_ips(drawn.weights, drawn.rewards))
        missed["bootstrap"] += misses(bootstrap_interval(sums, samples=400, seed=run), world.value)
        missed["asymptotic"] += misses(asymptotic_interval(sums), world.value)
        missed["bernstein"] += misses(bernstein_interval(drawn.weights, drawn.rewards, (0, 1), clusters), world.value)
    return missed


def test_intervals_hold_as_often_as_they_say() -> None:
    """400 logs of 600 rows: misses within 4 standard errors (4 x 4.4) of 20; Bernstein's at most 20."""
    missed = coverage(600, 1, clustered=True)
    assert abs(missed["bootstrap"] - 20) < 17.5
    assert abs(missed["asymptotic"] - 20) < 17.5
    assert missed["bernstein"] <= 20


def test_rows_of_a_user_must_be_kept_together() -> None:
    """Users of 30 rows with one context: clustered intervals hold; taken row by row, they miss far too often."""
    kept, broken = coverage(1_500, 30, clustered=True), coverage(1_500, 30, clustered=False, runs=100)
    assert abs(kept["bootstrap"] - 20) < 17.5
    assert kept["bernstein"] <= 20
    assert broken["bootstrap"] > 15


def test_bernstein_holds_where_actions_are_missing_and_the_bootstrap_does_not() -> None:
    """A target whose best action the log never shows: E w = 0.5, so IPS sees half of the value."""
    missed = np.zeros(2)
    for run in range(50):
        rng = np.random.default_rng(run)
        weights, rewards = np.full(2_000, 0.5), (rng.random(2_000) < 0.4).astype(float)
        truth = 0.5 * 0.4 + 0.5 * 0.8
        clusters = make_clusters(2_000)
        sums = group_sums(clusters, ips(weights, rewards))
        missed += [
            misses(bernstein_interval(weights, rewards, (0, 1), clusters), truth),
            misses(bootstrap_interval(sums), truth),
        ]
    assert missed.tolist() == [0, 50]


def test_bernsteins_bound_by_hand() -> None:
    """4 rewards of 1 and 4 of 0, weights 1: mean 1/2, variance 2/7, tail .025 / 7 at the limit of 1."""
    rewards = np.array([1.0, 0.0] * 50)
    found = bernstein_interval(np.ones(100), rewards, (0, 1), make_clusters(100))
    log = math.log(2 * 7 * 2 / 0.05)
    slack = math.sqrt(2 * (25 / 99) * log / 100) + 7 * log / (3 * 99)
    assert found == pytest.approx((0.5, 0.5 - slack, 0.5 + slack), abs=1e-12)
    with pytest.raises(DataError, match=r"rewards: got 1 in row 0, expected 0 to 0\.5"):
        bernstein_interval(np.ones(100), rewards, (0, 0.5), make_clusters(100))
    with pytest.raises(ConfigError, match=r"reward_range: got \(1, 0\)"):
        bernstein_interval(np.ones(100), rewards, (1, 0), make_clusters(100))


def plain_sequence(values: list[float], alpha: float) -> list[float]:
    """The lower sequence written out: lambda_t, the mean before row t, and psi(lambda) = -log(1 - lambda) - lambda."""
    best, out = 0.0, []
    for t in range(1, len(values) + 1):
        means = [min(1.0, (0.5 + sum(values[:i])) / (i + 1)) for i in range(t + 1)]
        bets = []
        for i in range(1, t + 1):
            variance = (0.25 + sum((values[j] - means[j + 1]) ** 2 for j in range(i - 1))) / i
            bets.append(min(0.5, math.sqrt(2 * math.log(1 / alpha) / (variance * i * math.log(1 + i)))))
        charge = sum((values[i] - means[i]) ** 2 * (-math.log(1 - bets[i]) - bets[i]) for i in range(t))
        gain = sum(bet * value for bet, value in zip(bets, values, strict=False))
        best = max(best, (gain - math.log(1 / alpha) - charge) / sum(bets))
        out.append(min(best, 1.0))
    return out


def test_the_sequence_is_the_formulas() -> None:
    drawn = TableWorld(1, 0.5).draw(np.random.default_rng(5), 150)
    rewards = 0.9 * drawn.rewards
    found = confidence_sequence(drawn.weights, rewards, (0, 1))
    assert found.low == pytest.approx(plain_sequence((drawn.weights * rewards).tolist(), 0.025), abs=1e-10)
    upper = plain_sequence((drawn.weights * (1 - rewards)).tolist(), 0.025)
    assert found.high == pytest.approx([1 - low for low in upper], abs=1e-10)


def test_the_sequence_holds_at_all_times_and_a_peeked_at_interval_does_not() -> None:
    """200 logs of 3,000 rows, looked at after every row: at most 10 may miss at any time (expected); the asymptotic
    interval, looked at in the same way from row 50 on, misses in over 60."""
    world, missed = TableWorld(3, 0.5), np.zeros(2, int)
    for run in range(200):
        drawn = world.draw(np.random.default_rng([3, run]), 3_000)
        low, high = confidence_sequence(drawn.weights, drawn.rewards, (0, 1))
        assert (np.diff(low) >= 0).all()
        missed[0] += bool((low > world.value).any() or (high < world.value).any())
        missed[1] += peeked(drawn.weights * drawn.rewards, world.value)
    assert missed[0] <= 10
    assert missed[1] > 60


def peeked(values: FloatArray, truth: float) -> bool:
    n = np.arange(1, len(values) + 1)
    mean = values.cumsum() / n
    error = np.sqrt(np.maximum((values**2).cumsum() / n - mean**2, 1e-12) / n)
    return bool((np.abs(mean - truth) > 1.96 * error)[50:].any())


def test_the_sequence_narrows_to_something_useful() -> None:
    world = TableWorld(3, 0.5)
    drawn = world.draw(np.random.default_rng(0), 100_000)
    low, high = confidence_sequence(drawn.weights, drawn.rewards, (0, 1))
    assert low[-1] < world.value < high[-1]
    assert high[-1] - low[-1] < 0.04


def test_a_difference_is_paired() -> None:
    """Two near policies on one log: their difference is known far better than either value."""
    world = TableWorld(5, 0.3)
    drawn = world.draw(np.random.default_rng(8), 5_000)
    clusters, nearly = make_clusters(5_000), drawn.weights * 0.9 + 0.1
    one, other = self_normalised_ips(drawn.weights, drawn.rewards), self_normalised_ips(nearly, drawn.rewards)
    both = difference(group_sums(clusters, one), group_sums(clusters, other))
    assert both.value == pytest.approx(one.value - other.value, abs=1e-15)
    assert standard_error(both) < 0.3 * standard_error(group_sums(clusters, one))
    same = difference(group_sums(clusters, one), group_sums(clusters, one))
    assert (same.value, standard_error(same)) == (0.0, 0.0)
    assert rows_to_decide(same, 1.96) is None
    assert rows_to_decide(group_sums(clusters, one), math.inf) is None


def test_rows_to_decide_have_the_power_they_promise() -> None:
    """Differences of .05 with sd 1: n = (1.96 + .8416)^2 x 400 = 3,140 rows; on those 80% of 400 logs find it."""
    rng = np.random.default_rng(2)
    values = rng.normal(size=100_000)
    values = (values - values.mean()) / values.std() + 0.05
    n = rows_to_decide(group_sums(make_clusters(100_000, max_groups=100_000), Terms(values)), 1.96)
    assert n is not None
    assert n == pytest.approx(3_140, rel=1e-3)
    found = 0
    for _ in range(400):
        low = asymptotic_interval(group_sums(make_clusters(n), Terms(rng.normal(0.05, 1.0, n)))).low
        found += low is not None and low > 0
    assert abs(found - 320) < 4 * math.sqrt(400 * 0.8 * 0.2)


def test_too_few_rewards_leave_an_end_open_and_none_at_all_is_said() -> None:
    rewards = np.zeros(500)
    rewards[7] = 1.0
    few = bootstrap_interval(group_sums(make_clusters(500), ips(np.ones(500), rewards)))
    assert few.high == math.inf
    nothing = bootstrap_interval(group_sums(make_clusters(500), ips(np.ones(500), np.zeros(500))))
    assert nothing == (0.0, 0.0, 0.0)
    with pytest.raises(DataError, match="weights: sum to 0"):
        group_sums(make_clusters(3), self_normalised_ips(np.zeros(3), np.ones(3)))
    one_user = group_sums(make_clusters(3, np.zeros(3, np.int64)), ips(np.ones(3), np.ones(3)))
    assert bootstrap_interval(one_user) == (1.0, -math.inf, math.inf)


def test_a_good_model_makes_dr_narrower_than_ips() -> None:
    world = TableWorld(2, 0.6)
    drawn = world.draw(np.random.default_rng(9), 5_000)
    predicted = world.clicks[drawn.contexts, drawn.actions]
    expected = (world.target * world.clicks).sum(axis=1)[drawn.contexts]
    robust = doubly_robust(drawn.weights, drawn.rewards, predicted, expected)
    errors = [standard_error(group_sums(make_clusters(5_000), t)) for t in (robust, ips(drawn.weights, drawn.rewards))]
    assert errors[0] < 0.95 * errors[1]


@pytest.mark.parametrize(("own", "word"), [(True, "do not use"), (False, "weak")])
def test_a_sequence_is_not_to_be_used_where_rows_of_a_user_go_together(own: bool, word: str) -> None:
    """60 users of 50 rows, each with a click rate of their own, one after another: sequences miss on 19 logs of 20 or
    more. Rows that do not go together may be used, whoever's they are."""
    missed, users, words = 0, np.repeat(np.arange(60), 50), set[str]()
    for run in range(20):
        rng = np.random.default_rng(run)
        rates = rng.beta(0.5, 0.5, 60)[users] if own else np.full(3_000, 0.5)
        frame = {"action": np.arange(3_000) % 2, "propensity": np.full(3_000, 0.5), "user_id": users}
        log = to_log(pl.DataFrame({**frame, "reward": (rng.random(3_000) < rates).astype(float)}))
        (row,) = evaluate(log, {"p": np.full(2, 0.5)}, estimators=["ips"], interval="sequence").results
        words.add(row.verdict)
        low, high = confidence_sequence(np.ones(3_000), log.rewards, (0, 1))
        missed += bool((low > 0.5).any() or (high < 0.5).any())
    assert words == {word}
    assert missed >= 19 if own else missed <= 3


def test_a_ratio_to_the_logged_mean_by_hand() -> None:
    """Weights 2, 0, 1, 1 and rewards 1, 1, 0, 2: ips (2 + 0 + 0 + 2) / 4 = 1 over a mean of 1, so a ratio of 1.

    Influences are 1, -1, -1, 1 and 0, 0, -1, 1, so over 4 x 3 variances are 1/3 and 1/6, and the covariance 1/6. With
    one error the ends solve (1 - r)^2 = 1/3 - r / 3 + r^2 / 6: 5/6 r^2 - 5/3 r + 2/3 = 0, so r = 1 -+ sqrt(1/5).
    """
    weights, rewards = np.array([2.0, 0.0, 1.0, 1.0]), np.array([1.0, 1.0, 0.0, 2.0])
    clusters = make_clusters(4)
    logged = group_sums(clusters, ips(np.ones(4), rewards))
    of_ips = ratio_interval(group_sums(clusters, ips(weights, rewards)), logged, 1.0, 1.0)
    assert of_ips == pytest.approx((1.0, 1.0 - math.sqrt(0.2), 1.0 + math.sqrt(0.2)))
    of_snips = ratio_interval(group_sums(clusters, self_normalised_ips(weights, rewards)), logged, 1.0, 1.0)
    assert of_snips.mean == 1.0
    open_end = ratio_interval(group_sums(clusters, ips(weights, rewards)), logged, 1.0, math.inf)
    assert open_end.high == math.inf
    assert open_end.low == of_ips.low
