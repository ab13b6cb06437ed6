"""What the measuring functions of q-sanity, calibration and overestimation return, on small sizes."""

import numpy as np
import polars as pl
import pytest

from zoosim.experiments import calibration, overestimation, quadratic
from zoosim.experiments.over_seeds import over_seeds
from zoosim.experiments.overestimation import ascend, measure_overestimation
from zoosim.experiments.published_ensemble import PublishedEnsemble
from zoosim.experiments.q_sanity import measure_sanity
from zoosim.policies.q_ensemble import QEnsembleConfig, QEnsembleRegressor


def test_the_quadratic_by_hand() -> None:
    """x = (1, 2, 0, 0, 0), a = (.5, .25, 0, ..., .5): .5 + .5 - .1 (.25 + .0625 + .25) = .94375."""
    states, actions = np.zeros((1, 5)), np.zeros((1, 10))
    states[0, :2], actions[0, [0, 1, 9]] = (1, 2), (0.5, 0.25, 0.5)
    assert quadratic.value(states, actions)[0] == pytest.approx(0.94375)


def test_means_over_seeds_by_hand() -> None:
    frame = pl.DataFrame({"seed": [0, 1, 0, 1], "method": ["a", "a", "b", "b"], "mse": [1.0, 3.0, 2.0, 2.0]})
    found = over_seeds(frame, "method")
    assert found["mean"].to_list() == [2.0, 2.0]
    assert (found["lowest"].to_list(), found["highest"].to_list()) == ([1.0, 2.0], [3.0, 2.0])
    # t(.975, 1) = 12.706, sd = sqrt(2), n = 2: half = 12.706
    assert found["high"].to_list() == pytest.approx([14.706, 2.0], abs=1e-3)
    assert found["seeds"].to_list() == [2, 2]


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


def test_sanity_holds_where_the_published_form_fails() -> None:
    """Seed 0: ours below .002, ReLU members above the printed .01; the frame has a row a seed and method."""
    frame = measure_sanity([0])
    assert frame["method"].to_list() == ["published", "q-ensemble"]
    published, ours = frame["mse"].to_list()
    assert ours < 0.002 < 0.01 < published
    assert (frame["member_mse"] - frame["mse"]).to_numpy().min() > 0


def test_spread_is_mended_by_what_held_out_points_taught() -> None:
    found = calibration.measure_spread([0])
    std_z = dict(zip(found.scores["method"], found.scores["std_z"], strict=True))
    assert std_z["published"] > 1.3
    assert 0.95 < std_z["recalibrated"] < 1.05
    assert found.scores["conformal"].is_between(0.93, 0.97).all()
    assert found.curve.shape == (3 * len(calibration.LEVELS), 4)
    mended = found.curve.filter(pl.col("method") == "recalibrated")
    assert np.abs((mended["observed"] - mended["level"]).to_numpy()).max() < 0.06


def test_limits_hold_in_every_segment(monkeypatch: pytest.MonkeyPatch) -> None:
    """2,000 visits; premium has some 15% of 800 held-out and 800 tested: 4 standard errors are 11 points; seed 0."""
    for name, size in {"TRAINED": 200, "FITTED": 500, "HELD": 800, "TESTED": 800, "BINS": 2}.items():
        monkeypatch.setattr(calibration, name, size)
    frame = calibration.measure_limits([0])
    assert frame["segment"].to_list() == ["all", "price_hunter", "pl_lover", "premium", "litter_heavy"]
    assert np.abs(frame["exact"].to_numpy() - 0.95).max() < 0.11
    assert (frame["plain"] >= frame["exact"]).all()
    assert frame["normal"][0] < 0.8
    hunters = frame.row(1, named=True)
    assert hunters["zeros"] <= hunters["plain"]


def test_critics_are_measured_on_their_own_picks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A single network that has seen 200 visits promises more than its picks earn, and more than the minimum does."""
    for name, size in {"ROUNDS": 4, "RANDOM_ROUNDS": 3, "ROUND": 50, "JUDGED": 40, "MOODS": 20, "EPOCHS": 20}.items():
        monkeypatch.setattr(overestimation, name, size)
    frame = measure_overestimation([0])
    found = {row["critic"]: row for row in frame.to_dicts()}
    assert list(found) == ["single network", "ensemble mean", "ensemble minimum", "mean - std", "two halves"]
    for row in found.values():
        assert row["error"] == pytest.approx(row["promised"] - row["earned"])
        assert row["share"] == pytest.approx(row["error"] / row["spread"])
        assert row["size"] >= abs(row["error"])
    assert found["single network"]["error"] > max(0.0, found["ensemble minimum"]["error"])


def test_the_minimum_and_its_slope_are_those_of_the_lowest_member() -> None:
    q = QEnsembleRegressor(2, 10, QEnsembleConfig(n_ensembles=3, hidden_sizes=(8,)))
    rng = np.random.default_rng(0)
    states, actions = rng.normal(size=(4, 2)), rng.uniform(-0.5, 0.5, (4, 6, 10))
    minimum = overestimation._minimum(q, states)
    value, slope = minimum.gradient(actions)
    rows = np.repeat(states, 6, axis=0), actions.reshape(-1, 10)
    np.testing.assert_allclose(value.ravel(), q.members(*rows).min(axis=0), rtol=0, atol=1e-12)
    for i in (0, 7):
        step = 1e-2 * np.eye(10)[i]
        numeric = (minimum.gradient(actions + step)[0] - minimum.gradient(actions - step)[0]) / 2e-2
        # float32 differences; where the lowest member changes in between, they are no slope
        assert np.median(np.abs(numeric - slope[..., i])) < 1e-4


def test_ascent_finds_the_corner_of_a_plane() -> None:
    class Plane:
        def gradient(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            weights = np.array([1.0, -1, 2, -2, 3, -3, 4, -4, 5, -5])
            return actions @ weights, np.broadcast_to(weights, actions.shape).copy()

    actions, value = ascend(Plane(), np.zeros((3, 2)))
    assert (value > 0.97 * 15.0).all()  # .5 (1 + 1 + 2 + ... + 5 + 5), the smallest weights last
    assert (np.sign(actions) == [1, -1] * 5).all()
