"""Shrunken click tables: limits that are known, and intervals that hold as often as they say."""

import numpy as np
import pytest
from scipy.special import betaln

from tests.fitting.shops import CLICKS, shop_log
from zoosim.core.types import FloatArray
from zoosim.fitting.click_table import Estimates, design_effect, estimate_clicks
from zoosim.off_policy.intervals.clusters import make_clusters


def test_many_rows_speak_for_themselves_and_alike_cells_share() -> None:
    rows = np.array([1e6, 1e6, 1e6])
    found = estimate_clicks(rows, rows * np.array([0.1, 0.5, 0.9]))
    np.testing.assert_allclose(found.clicks, [0.1, 0.5, 0.9], atol=1e-5)
    half = 1.96 * np.sqrt(0.25 / 1e6)
    assert (found.low[1], found.high[1]) == pytest.approx((0.5 - half, 0.5 + half), abs=1e-5)
    alike = estimate_clicks(np.full(200, 100.0), np.full(200, 10.0))
    np.testing.assert_allclose(alike.clicks, 0.1, atol=0.005)
    assert alike.strength > 1_000
    own = np.sqrt(0.09 / 100)  # a cell's own standard error; the common mean is known far better
    assert float((alike.high - alike.low).max()) < 0.5 * 3.92 * own


def test_a_cell_without_rows_has_the_common_mean() -> None:
    found = estimate_clicks(np.array([100.0, 100.0, 0.0]), np.array([20.0, 30.0, 0.0]))
    assert found.clicks[2] == pytest.approx(found.mean, abs=0.01)
    assert found.high[2] - found.low[2] > found.high[0] - found.low[0]
    nothing = estimate_clicks(np.array([50.0, 50.0]), np.zeros(2))
    assert 0.0 < nothing.low[0] < nothing.clicks[0] < nothing.high[0] < 0.1


def test_the_posterior_is_that_of_a_fine_grid() -> None:
    """Against a plain sum over 400 x 400 values of mean and strength, cell by cell."""
    rows, clicks = np.array([30.0, 50.0, 10.0, 80.0]), np.array([3.0, 20.0, 0.0, 10.0])
    mean = (np.arange(400) + 0.5) / 400
    strength = np.geomspace(0.05, 1_000 * rows.mean(), 400)
    m, s = (grid.ravel() for grid in np.meshgrid(mean, strength))
    log = -0.5 * np.log(m * (1 - m)) + np.log(s) - 2 * np.log(s + rows.mean())
    for n, k in zip(rows, clicks, strict=True):
        log += betaln(k + m * s, n - k + (1 - m) * s) - betaln(m * s, (1 - m) * s)
    weights = np.exp(log - log.max())
    weights /= weights.sum()
    by_hand = [float(weights @ ((k + m * s) / (n + s))) for n, k in zip(rows, clicks, strict=True)]
    np.testing.assert_allclose(estimate_clicks(rows, clicks).clicks, by_hand, rtol=5e-3)


def coverage(found: Estimates, truth: FloatArray) -> FloatArray:
    return np.asarray((found.low <= truth) & (truth <= found.high))


@pytest.mark.parametrize("rows", [40, 200, 1_000])
def test_intervals_of_drawn_tables_hold(rows: int) -> None:
    """300 tables of 25 cells, Beta(.7, 2) cut to [.01, .9]: 7,500 cells, seed 0; 93 to 97% hold."""
    rng, hits = np.random.default_rng(0), []
    for _ in range(300):
        truth = np.clip(rng.beta(0.7, 2.0, 25), 0.01, 0.9)
        found = estimate_clicks(np.full(25, float(rows)), rng.binomial(rows, truth).astype(float))
        hits.append(coverage(found, truth))
    assert 0.93 < float(np.mean(hits)) < 0.97


def test_every_cell_of_a_table_holds() -> None:
    """2,000 logs of one table, 500 rows a cell, seed 1: each cell's interval holds in 93 to 97% of them."""
    rng, truth, hits = np.random.default_rng(1), CLICKS.ravel(), np.zeros(CLICKS.size)
    for _ in range(2_000):
        found = estimate_clicks(np.full(truth.size, 500.0), rng.binomial(500, truth).astype(float))
        hits += coverage(found, truth)
    assert hits.min() / 2_000 > 0.93
    assert hits.max() / 2_000 < 0.97


def test_the_design_effect_is_that_of_whole_users() -> None:
    """Users whose 4 rows are all clicks or none: the variance of sums is 4 times that of independent rows."""
    rng = np.random.default_rng(0)
    users, clicks = np.arange(8_000) // 4, (rng.random(2_000) < 0.3).astype(float)
    cells = np.zeros(8_000, np.int64)
    clusters = make_clusters(8_000, users)
    assert design_effect(clusters, cells, clicks[users], 1) == pytest.approx(4.0, rel=1e-9)
    rows = make_clusters(8_000)
    assert design_effect(rows, cells, clicks[users], 1) == pytest.approx(1.0, rel=1e-9)


def test_intervals_hold_where_users_differ_and_would_not_without_the_design_effect() -> None:
    """100 logs of 600 users with 20 rows each, who click 80% more or less than their segment, seed 2: 1,500 cells."""
    rng, hits = np.random.default_rng(2), {"with": 0.0, "without": 0.0}
    for _ in range(100):
        log = shop_log(rng, 12_000, rows_a_user=20, taste=0.8)
        cells = log.features.argmax(axis=1) * 5 + log.products.argmax(axis=1)[log.actions]
        rows, clicks = (np.bincount(cells, w, 15).astype(float) for w in (np.ones(12_000), log.rewards))
        effect = design_effect(make_clusters(12_000, log.user_ids), cells, log.rewards, 15)
        hits["with"] += coverage(estimate_clicks(rows / effect, clicks / effect), CLICKS.ravel()).mean() / 100
        hits["without"] += coverage(estimate_clicks(rows, clicks), CLICKS.ravel()).mean() / 100
    assert 0.93 < hits["with"] < 0.985
    assert hits["without"] < 0.93
