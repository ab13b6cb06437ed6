"""q-sanity, calibration and overestimation: what they measure on small sizes, and what ends up on their pages."""

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from studies import quadratic
from studies.calibration import build_page as build_calibration_page
from studies.calibration import limits, measuring, spreads
from studies.calibration.limits import Limits
from studies.calibration.spreads import (
    LEVELS,
    MANY,
    MENDED,
    METHODS,
    OURS,
    PRIORS,
    PUBLISHED,
    SCATTERED,
    Scatter,
    Spread,
)
from studies.overestimation import build_page as build_picks_page
from studies.overestimation import critics, picks
from studies.overestimation.critics import CRITICS, DOUBT, HALVES, MEAN, MINIMUM, SINGLE, ascend
from studies.overestimation.picks import OWN, RANDOM, Pick
from studies.published_ensemble import PublishedEnsemble
from studies.q_sanity import build_page as build_sanity_page
from studies.q_sanity import fits
from studies.q_sanity import measure as measure_sanity
from studies.q_sanity.fits import SEARCHES, TRUTH, End, Fit
from studies.run import run_study
from studies.shops import read_shop
from studies.writing import extremes, told
from tests.caches import use_cache
from zoosim.policies.q_ensemble import QEnsembleConfig, QEnsembleRegressor


def test_the_quadratic_by_hand() -> None:
    """x = (1, 2, 0, 0, 0), a = (.5, .25, 0, ..., .5): .5 + .5 - .1 (.25 + .0625 + .25) = .94375."""
    states, actions = np.zeros((1, 5)), np.zeros((1, 10))
    states[0, :2], actions[0, [0, 1, 9]] = (1, 2), (0.5, 0.25, 0.5)
    assert quadratic.value(states, actions)[0] == pytest.approx(0.94375)


def test_means_are_written_with_their_intervals() -> None:
    """t(.975, 1) = 12.706, sd = sqrt(2), n = 2: half = 12.706."""
    assert told([1.0, 3.0], 1) == "2.0 (-10.7\u201314.7)"
    assert told([1.0, 3.0], 0, percent=True, sign=True) == "+200% (-1071 to +1471)"
    assert told([-0.001], 2) == "0.00"
    assert extremes([0.2, 0.1], 1, percent=True) == "10.0\u201320.0"


def test_the_published_ensemble_is_deterministic_and_learns() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(300, 3))
    rewards = rows[:, 0] - rows[:, 1]
    one, two = (PublishedEnsemble(3, members=2, hidden=(8,), seed=1) for _ in range(2))
    for ensemble in (one, two):
        ensemble.fit(rows, rewards, n_epochs=30, batch_size=32)
    assert one.members(rows).shape == (2, 300)
    assert np.array_equal(one.members(rows), two.members(rows))
    assert np.mean((one.members(rows).mean(axis=0) - rewards) ** 2) < 0.02


@pytest.fixture(autouse=True, scope="module")
def fitted_once() -> Iterator[None]:
    """Ensembles that several tests look at are fitted once for each seed."""
    once = cache(quadratic.fit_both)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fits, "fit_both", once)
        patch.setattr(spreads, "fit_both", once)
        spreads_of = cache(spreads.spreads_of)
        patch.setattr(spreads, "spreads_of", spreads_of)
        patch.setattr(measuring, "spreads_of", spreads_of)
        yield


def test_sanity_holds_where_the_published_form_fails() -> None:
    """Seed 0: ours below .002, ReLU members above the printed .01; the default search finds the true top."""
    rows = measure_sanity(seeds=1)
    published, ours = (row for row in rows if isinstance(row, Fit))
    assert (published.method, ours.method) == (PUBLISHED, OURS)
    assert ours.mse < 0.002 < 0.01 < published.mse
    assert all(row.member_mse > row.mse for row in (published, ours))
    ends = {(row.objective, row.search): row for row in rows if isinstance(row, End)}
    assert len(ends) == 3 * len(SEARCHES)
    assert ends[TRUTH, "default"].distance < 0.01 < 0.4 < ends[TRUTH, "published, 5 x 64"].distance
    assert all(row.share < 1.0 for row in ends.values())
    assert ends[OURS, "default"].share > ends[PUBLISHED, "default"].share


def test_sanity_is_told_by_hand() -> None:
    fits = [
        Fit(seed, m, e, 0.1, 0.1, 0.5) for seed in (0, 1) for m, e in ((PUBLISHED, 0.009 + 0.002 * seed), (OURS, 0.001))
    ]
    ends = [
        End(seed, o, s, 0.02 - 0.015 * seed, 0.9) for seed in (0, 1) for o in (TRUTH, PUBLISHED, OURS) for s in SEARCHES
    ]
    page = build_sanity_page([*fits, *ends])
    assert "ReLU units as published have .01, under .01 on 1 of 2" in page.verdict
    assert "on the true function on 1 of 2 seeds" in page.verdict
    assert page.tables[0].rows[1][2:5] == ("0.01100", "1 of 2", "0 of 2")
    assert page.tables[1].rows[0][0] == "printed (lessons.md 7.4.1)"


def test_sanity_ends_up_on_its_page(tmp_path: Path) -> None:
    run_study("q-sanity", tmp_path, seeds="0:1", jobs=1)
    assert "printed (lessons.md 7.4.1)" in (tmp_path / "report.html").read_text()


@pytest.mark.slow
def test_spread_is_mended_by_what_held_out_points_taught() -> None:
    found = spreads.spreads_of(0)
    rows = {row.method: row for row in found if isinstance(row, Spread)}
    assert tuple(rows) == METHODS
    assert rows[PRIORS].std_z != rows[OURS].std_z
    few, many = (row.share for row in found if isinstance(row, Scatter))
    assert 0.2 < many < few < 0.5
    assert rows[PUBLISHED].std_z > 1.3
    assert rows[MANY].std_z < 0.8
    assert 0.95 < rows[MENDED].std_z < 1.05
    assert all(0.93 < row.conformal < 0.97 and 0.93 < row.bounded < 0.97 for row in rows.values())
    assert np.abs(np.array(rows[MENDED].observed) - LEVELS).max() < 0.06
    assert rows[OURS].observed[LEVELS.index(0.95)] == rows[OURS].coverage


def test_std_scatters_by_how_many_members_there_are() -> None:
    """Normal numbers, each point with a std of its own: sqrt(1 - c^2) / c is .363 with 5 and .239 with 10."""
    rng = np.random.default_rng(0)
    outputs = rng.normal(size=(20, 20_000)) * rng.uniform(0.9, 1.1, 20_000)
    assert spreads.scatter_of_std(outputs, 5) == pytest.approx(0.363, abs=0.005)
    assert spreads.scatter_of_std(outputs, 10) == pytest.approx(0.239, abs=0.005)
    assert spreads.scatter_of_std(np.tile(outputs[:5], (4, 1)), 5) == 0.0


@pytest.fixture
def few_visits(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, size in {"TRAINED": 200, "FITTED": 500, "HELD": 800, "TESTED": 800, "BINS": 2}.items():
        monkeypatch.setattr(limits, name, size)


@pytest.mark.usefixtures("few_visits")
def test_limits_hold_in_every_segment() -> None:
    """2,000 visits; premium has some 15% of 800 held-out and 800 tested: 4 standard errors are 11 points; seed 0."""
    rows = limits.limits_of(read_shop(None), 0)
    assert [row.segment for row in rows] == ["all", "price_hunter", "pl_lover", "premium", "litter_heavy"]
    assert max(abs(row.exact - 0.95) for row in rows) < 0.11
    assert all(row.plain >= row.exact for row in rows)
    assert rows[0].normal < 0.8
    assert rows[1].zeros <= rows[1].plain
    assert rows[0].visits == sum(row.visits for row in rows[1:]) == 800


@pytest.mark.usefixtures("few_visits")
def test_calibration_ends_up_on_its_page(tmp_path: Path) -> None:
    run_study("calibration", tmp_path, seeds=[0], jobs=1)
    rows = json.loads((tmp_path / "summary.json").read_text())["rows"]
    assert len(rows) == len(METHODS) + len(SCATTERED) + 5
    assert "printed (lessons.md 7.5.3)" in (tmp_path / "report.html").read_text()


def test_calibration_is_told_by_hand() -> None:
    def spread(seed: int, method: str) -> Spread:
        return Spread(seed, method, 0.03, 0.0, 1.0 + seed, 0.9, 0.95, 1.6, 0.95, tuple(LEVELS))

    told_rows = [spread(seed, method) for seed in (0, 1) for method in METHODS]
    held = [Limits(seed, name, 10, 0.5, 0.5, 0.96, 0.9 + 0.1 * seed, 3.0) for seed in (0, 1) for name in ("all", "a")]
    scattered = [Scatter(seed, members, 0.3 + 0.1 * seed) for seed in (0, 1) for members in SCATTERED]
    page = build_calibration_page([*told_rows, *scattered, *held])
    assert "the default's is 1.00 to 2.00 over seeds" in page.verdict
    assert "or 95.0% with ties broken by chance (90.0 to 100.0% in single segments" in page.verdict
    assert page.tables[0].rows[1][2:5] == ("1.35", "", "88%")
    assert page.tables[2].rows[1][2].startswith("35.0% (")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    sizes = {"ROUNDS": 4, "RANDOM_ROUNDS": 3, "ROUND": 50, "JUDGED": 40, "REPLICATES": 20, "EPOCHS": 20, "LONG": 20}
    for name, size in sizes.items():
        monkeypatch.setattr(picks, name, size)


@pytest.mark.usefixtures("small")
def test_critics_are_measured_on_their_own_picks() -> None:
    """A single network that has seen 200 visits promises more than its picks earn, and more than the minimum does."""
    rows = {(row.critic, row.learned): row for row in picks.picks_of(read_shop(None), 0)}
    assert list(rows) == [(critic, learned) for learned in (OWN, RANDOM) for critic in CRITICS]
    for row in rows.values():
        assert row.error == pytest.approx(row.promised - row.earned)
        assert row.share == pytest.approx(row.error / row.spread)
        assert row.size >= abs(row.error)
        assert row.largest >= row.error
    assert rows[SINGLE, OWN].error > max(0.0, rows[MINIMUM, OWN].error)
    # the same ensemble of members that saw the same: a lower value at every action has a lower maximum
    assert rows[MEAN, RANDOM].promised > rows[DOUBT, RANDOM].promised
    assert rows[MEAN, RANDOM].promised > rows[MINIMUM, RANDOM].promised


@pytest.mark.usefixtures("small")
def test_overestimation_is_kept_and_ends_up_on_its_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_cache(monkeypatch, tmp_path / "cache")
    first = run_study("overestimation", tmp_path / "out", seeds="0:2", jobs=1).rows
    monkeypatch.setattr(picks, "picks_of", None)
    assert picks.measure(seeds=2, jobs=1) == first
    page = (tmp_path / "out" / "report.html").read_text()
    assert "printed (lessons.md 7.5.1)" in page
    assert "learned from random boosts" in page


def test_overestimation_is_told_by_hand() -> None:
    pick = Pick(0, SINGLE, OWN, 14.0, 10.0, 4.0, 5.0, 9.0, 10.0, 0.4)
    rows = [
        replace(pick, seed=seed, critic=critic, learned=learned, share=0.4 if critic in (SINGLE, MEAN) else 0.06 * seed)
        for seed in (0, 1)
        for critic in CRITICS
        for learned in (OWN, RANDOM)
    ]
    page = build_picks_page(rows)
    assert "by 40% of the spread over visitors, the mean of five by 40%" in page.verdict
    assert f"Within 5% are: {MINIMUM} (+3%), {DOUBT} (+3%), {HALVES} (+3%)." in page.verdict
    assert page.tables[0].rows[0][:5] == (SINGLE, "14.0", "10.0", "+4.0 (+4.0 to +4.0)", "+2.8")


def test_the_minimum_and_its_slope_are_those_of_the_lowest_member() -> None:
    q = QEnsembleRegressor(2, 10, QEnsembleConfig(n_ensembles=3, hidden_sizes=(8,)))
    rng = np.random.default_rng(0)
    states, actions = rng.normal(size=(4, 2)), rng.uniform(-0.5, 0.5, (4, 6, 10))
    minimum = critics.minimum(q, states)
    value, slope = minimum.gradient(actions)
    rows = np.repeat(states, 6, axis=0), actions.reshape(-1, 10)
    np.testing.assert_allclose(value.ravel(), q.members(*rows).min(axis=0), rtol=0, atol=1e-12)
    for i in (0, 7):
        step = 1e-2 * np.eye(10)[i]
        numeric = (minimum.gradient(actions + step)[0] - minimum.gradient(actions - step)[0]) / 2e-2
        # float32 differences; where the lowest member changes in between, they are no slope
        assert np.median(np.abs(numeric - slope[..., i])) < 1e-4


def test_ascent_finds_the_corner_of_a_plane() -> None:
    def plane(actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        weights = np.array([1.0, -1, 2, -2, 3, -3, 4, -4, 5, -5])
        return actions @ weights, np.broadcast_to(weights, actions.shape).copy()

    actions, value = ascend(plane, np.zeros((3, 2)), 0.5)
    assert (value > 0.97 * 15.0).all()  # .5 (1 + 1 + 2 + ... + 5 + 5), the smallest weights last
    assert (np.sign(actions) == [1, -1] * 5).all()
