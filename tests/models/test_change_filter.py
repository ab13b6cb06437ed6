"""The Bayes filter against exact inference over all run lengths, and its jumps."""

from itertools import pairwise

import numpy as np
import pytest

from zoosim.core.types import FloatArray
from zoosim.models.change_filter import WEIGHT, A, B, loosen, mean, new_cells, observe, sample


def play(rewards: list[float], hazard: float, hypotheses: int = 8) -> FloatArray:
    """Return the cell that has seen `rewards`, one visit apart, from a prior of Beta(1, 1)."""
    cell: FloatArray = new_cells(1, hypotheses)[0]
    for n, reward in enumerate(rewards):
        loosen(cell, 1.0, 1.0, 1.0 - hazard if n else 1.0)
        observe(cell, reward)
    return cell


def exact(rewards: list[float], hazard: float) -> list[float]:
    """Return the posterior means after each reward by Adams & MacKay (2007): one hypothesis a run length, all kept."""
    runs: list[tuple[float, float, float]] = [(1.0, 1.0, 1.0)]
    means = []
    for n, reward in enumerate(rewards):
        if n:
            runs = [(a, b, w * (1 - hazard)) for a, b, w in runs] + [(1.0, 1.0, hazard)]
        chances = [a / (a + b) for a, b, _ in runs]
        runs = [
            (a + reward, b + 1 - reward, w * (c * reward + (1 - c) * (1 - reward)))
            for (a, b, w), c in zip(runs, chances, strict=True)
        ]
        total = sum(w for *_, w in runs)
        runs = [(a, b, w / total) for a, b, w in runs]
        means.append(sum(w * a / (a + b) for a, b, w in runs))
    return means


def clicks(chance: float, count: int, seed: int) -> list[float]:
    return [float(x) for x in np.random.default_rng(seed).random(count) < chance]


@pytest.mark.parametrize("hazard", [0.0, 0.01, 0.3])
def test_it_is_exact_while_no_hypothesis_is_dropped(hazard: float) -> None:
    rewards = [1.0, 0.0, 0.0, 1.0, 0.5, 1.0, 1.0]
    for n, expected in enumerate(exact(rewards, hazard), 1):
        assert mean(play(rewards[:n], hazard)) == pytest.approx(expected, rel=1e-12)


def test_it_is_near_exact_when_hypotheses_are_dropped() -> None:
    """600 clicks with a jump from .5 to .1 in the middle, seeds 1 and 2: .005 from exact inference in the median.

    Runs that look like jumps for a while are where dropped hypotheses show: .02 at 9 of 10 looks.
    """
    rewards = clicks(0.5, 300, 1) + clicks(0.1, 300, 2)
    means = exact(rewards, 0.002)
    off = [abs(mean(play(rewards[:n], 0.002)) - means[n - 1]) for n in range(10, 601, 10)]
    assert np.median(off) < 0.005
    assert np.quantile(off, 0.9) < 0.02


def test_without_hazard_it_is_a_beta_posterior() -> None:
    rewards = clicks(0.3, 50, 3)
    assert mean(play(rewards, 0.0)) == pytest.approx((1 + sum(rewards)) / 52, rel=1e-12)


def test_weights_stay_a_distribution() -> None:
    cell = play(clicks(0.4, 500, 4), 0.01)
    assert cell[:, WEIGHT].sum() == pytest.approx(1.0, rel=1e-12)
    assert cell[:, WEIGHT].min() >= 0
    assert (cell[:, :WEIGHT] > 0).all()


def test_a_jump_is_noticed_and_told_once_a_younger_hypothesis_leads() -> None:
    """400 visits at .6, then .1: the filter is below .25 within 60 visits, and says that it jumped."""
    cell, jumps = play(clicks(0.6, 400, 5), 0.001), []
    assert abs(mean(cell) - 0.6) < 0.1
    for n, reward in enumerate(clicks(0.1, 60, 6)):
        loosen(cell, 1.0, 1.0, 0.999)
        if observe(cell, reward):
            jumps.append(n)
    assert mean(cell) < 0.25
    assert jumps


def test_a_steady_chance_does_not_jump() -> None:
    """2,000 visits at .3, seed 7."""
    cell, jumps = new_cells(1, 8)[0], 0
    for reward in clicks(0.3, 2_000, 7):
        loosen(cell, 1.0, 1.0, 0.9999)
        jumps += observe(cell, reward)
    assert jumps <= 1
    assert abs(mean(cell) - 0.3) < 5 * np.sqrt(0.21 / 2_000)


def test_draws_follow_the_posterior_and_are_told_apart_by_their_number() -> None:
    """20,000 draws of a single Beta(31, 71) at sharpness 1: mean and variance within 5 standard errors."""
    cell = play([1.0] * 30 + [0.0] * 70, 0.0)
    a, b = cell[0, A], cell[0, B]
    draws = np.array([sample(cell, 1.0, np.uint64(8), i, 0)[0] for i in range(20_000)])
    expected, variance = a / (a + b), a * b / ((a + b) ** 2 * (a + b + 1))
    assert abs(draws.mean() - expected) < 5 * np.sqrt(variance / 20_000)
    assert abs(draws.var() / variance - 1) < 5 * np.sqrt(2 / 20_000)
    assert all(one != two for one, two in pairwise(draws))
    sharp = np.array([sample(cell, 9.0, np.uint64(8), i, 0)[0] for i in range(20_000)])
    assert sharp.std() == pytest.approx(draws.std() / 3, rel=0.05)
