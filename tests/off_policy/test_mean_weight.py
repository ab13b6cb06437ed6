"""What a mean weight can tell: wrong propensities are blamed where that can be known, and sound logs are not."""

import numpy as np
import pytest

from zoosim.core.statistics import Interval
from zoosim.core.types import FloatArray
from zoosim.off_policy.diagnostics import ErrorFigures, RewardCount, weight_figures
from zoosim.off_policy.intervals.clusters import make_clusters
from zoosim.off_policy.mean_weight import has_light_tail, is_surely_below_one, pareto_shape
from zoosim.off_policy.verdict import judge_weighted


def softmax(logits: FloatArray) -> FloatArray:
    chances = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(chances / chances.sum(axis=1, keepdims=True))


def logged(seed: int, scale: float, n: int = 2_000, k: int = 50) -> tuple[FloatArray, FloatArray]:
    """Return weights and propensities of two unrelated policies over 50 actions, the further apart the larger."""
    rng = np.random.default_rng(seed)
    visitors = rng.normal(size=(n, 5))
    logging, target = (softmax(visitors @ rng.normal(size=(5, k)) * scale) for _ in range(2))
    actions = (logging.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(0, k - 1)
    rows = np.arange(n)
    return target[rows, actions] / logging[rows, actions], logging[rows, actions]


def is_blamed(weights: FloatArray, propensities: FloatArray) -> bool:
    """Whether the verdict on an estimate with such weights, which is good but for these, blames the propensities."""
    figures = weight_figures(weights, make_clusters(len(weights)), largest_possible=1.0 / propensities.min())
    rewards = RewardCount(300.0, 300.0)
    verdict = judge_weighted(
        figures, ErrorFigures(0.001, 500.0, 0.1), Interval(0.1, 0.098, 0.102), len(weights), rewards
    )
    return any("propensities are wrong" in reason for reason in verdict.reasons)


def test_sound_logs_with_hardly_any_overlap_are_not_blamed() -> None:
    """400 sound logs: at most 2 are blamed (.5%), where more than 60 miss 1 by three standard errors."""
    blamed, missed = 0, 0
    for seed in range(400):
        weights, propensities = logged(seed, (0.3, 0.6, 1.0, 2.0)[seed % 4], n=1_000)
        error = weights.std() / np.sqrt(len(weights))
        missed += abs(weights.mean() - 1.0) > 3.0 * error
        blamed += is_blamed(weights, propensities)
    assert missed > 60
    assert blamed <= 2


def test_wrong_propensities_are_still_blamed() -> None:
    """A third too large where weights are small: by the standard error. Flattened where they are heavy: by bets."""
    mild = [is_blamed(weights / 1.3, 1.3 * p) for weights, p in (logged(seed, 0.2, n=4_000) for seed in range(20))]
    assert sum(mild) >= 18
    flattened = 0
    for seed in range(20):
        weights, propensities = logged(seed, 1.5, n=4_000)
        wrong = 0.7 * propensities + 0.3 / 50
        flattened += is_blamed(weights * propensities / wrong, wrong)
    assert flattened >= 18


def test_tails_are_told_apart() -> None:
    rng = np.random.default_rng(0)
    assert has_light_tail(rng.random(1_000))
    assert has_light_tail(np.where(np.arange(1_000) % 3, 0.0, 3.0))
    assert not has_light_tail(rng.pareto(1.5, 1_000))
    assert not has_light_tail(np.append(np.zeros(990), np.ones(10)))
    for shape in (0.2, 0.5, 1.0):
        excesses = np.sort(((1.0 - rng.random(4_000)) ** -shape - 1.0) / shape)
        assert pareto_shape(excesses) == pytest.approx(shape, abs=0.1)


def test_bets_need_a_bound() -> None:
    assert is_surely_below_one(np.full(1_000, 0.5), 10.0)
    assert not is_surely_below_one(np.full(1_000, 0.5), np.inf)
    assert not is_surely_below_one(np.full(10, 0.5), 10.0)
    assert not is_surely_below_one(np.full(1_000, 1.5), 10.0)
