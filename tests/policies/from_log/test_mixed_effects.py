"""The policy `mixed-effects`: what it earns, rewards of all kinds, products with and without features."""

from dataclasses import replace

import numpy as np
import pytest

from tests.policies.from_log.test_from_log import context_of, described, fitted, guesses
from zoosim.core.errors import ConfigError
from zoosim.core.types import FloatArray
from zoosim.logs.candidate_sets import CandidateSets
from zoosim.logs.log import Log
from zoosim.policies.from_log import mixed_effects

K = 20


def shop(seed: int, n: int = 20_000) -> tuple[Log, FloatArray]:
    """Return a log of visitors who like products by their features and by themselves, and the true log odds."""
    rng = np.random.default_rng(seed)
    features, products = rng.normal(size=(n, 3)), rng.normal(size=(K, 2))
    likes = rng.normal(0.0, 0.7, (3, 2))
    odds = -3.0 + features @ likes @ products.T + rng.normal(0.0, 0.7, K)
    actions = rng.integers(K, size=n)
    clicks = (rng.random(n) < 1.0 / (1.0 + np.exp(-odds[np.arange(n), actions]))).astype(float)
    zeros = np.zeros(n, np.int64)
    log = Log(actions, np.full(n, 1.0 / K), clicks, CandidateSets.everything(K), zeros, features, zeros, products)
    return log, odds


def share_of_best(kind: str, log: Log, values: FloatArray) -> float:
    """Return what the recommended products are worth to the first 1,000 visitors, beside the best ones."""
    policy = fitted(kind, log)
    chosen = [policy.recommend(context_of(log, row)) for row in range(1_000)]
    return float(values[np.arange(1_000), chosen].sum() / values[:1_000].max(axis=1).sum())


def test_it_earns_more_than_a_linear_model_of_each_product() -> None:
    """4,000 rows of some 6% clicks, seeds 0 to 5: the mean share of the best that is possible."""
    shares: dict[str, list[float]] = {"linear": [], "mixed-effects": []}
    for seed in range(6):
        log, odds = shop(seed, 4_000)
        for kind, found in shares.items():
            found.append(share_of_best(kind, log, 1.0 / (1.0 + np.exp(-odds))))
    assert np.mean(shares["mixed-effects"]) > 0.9
    assert np.mean(shares["mixed-effects"]) > np.mean(shares["linear"]) + 0.03


def test_revenue_is_how_likely_times_how_much() -> None:
    """Sizes of exp(1 + product feature 0 + .5 noise), seed 0: the guesses are near the true means."""
    log, odds = shop(0)
    rng = np.random.default_rng(9)
    log_sizes = 1.0 + log.products[:, 0]
    sizes = np.exp(log_sizes[log.actions] + rng.normal(0.0, 0.5, len(log)))
    log = replace(log, rewards=log.rewards * sizes)
    values = np.exp(log_sizes + 0.125) / (1.0 + np.exp(-odds))
    policy = fitted("mixed-effects", log)
    guessed = np.array([guesses(policy, context_of(log, row)) for row in range(200)])
    assert np.corrcoef(np.log(guessed).ravel(), np.log(values[:200]).ravel())[0, 1] > 0.95
    assert guessed.mean() == pytest.approx(values[:200].mean(), rel=0.15)
    assert share_of_best("mixed-effects", log, values) > 0.9


@pytest.mark.parametrize("scale", [1 / 1024, 1024.0])
def test_the_unit_of_the_rewards_does_not_matter(scale: float) -> None:
    log = described()
    policy, scaled = fitted("mixed-effects", log), fitted("mixed-effects", replace(log, rewards=scale * log.rewards))
    for row in range(20):
        context = context_of(log, row)
        np.testing.assert_allclose(guesses(scaled, context), scale * guesses(policy, context), rtol=1e-9)


@pytest.mark.parametrize("reward", [0.0, 1.0, -3.0])
def test_rewards_that_are_all_alike_teach_nothing_and_break_nothing(reward: float) -> None:
    log = described()
    policy = fitted("mixed-effects", replace(log, rewards=np.full(len(log), reward)))
    found = guesses(policy, context_of(log, 0))
    np.testing.assert_allclose(found, reward, atol=1e-2)


def test_products_need_no_features_and_may_have_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without features, and with more than are taken as they are, it learns 90% of the best still."""
    log, odds = shop(1)
    values = 1.0 / (1.0 + np.exp(-odds))
    assert share_of_best("mixed-effects", replace(log, products=np.zeros((K, 0))), values) > 0.85
    monkeypatch.setattr(mixed_effects, "MOST_COEFFICIENTS", 11)
    assert share_of_best("mixed-effects", log, values) > 0.9


def test_large_blocks_of_features_give_way_to_what_products_differ_in() -> None:
    """Of a number and 12 levels, at most 10 traits: the number stays, the levels become 8 components or fewer."""
    rng = np.random.default_rng(0)
    levels = np.eye(12)[rng.integers(12, size=200)]
    products = np.hstack([rng.normal(size=(200, 1)), levels])
    traits, blocks = mixed_effects.traits_in_blocks(products, 13)
    assert traits.scores.shape == (200, 13)
    assert blocks.tolist() == [0, *[1] * 12]
    traits, blocks = mixed_effects.traits_in_blocks(products, 10)
    assert traits.scores.shape == (200, 9)
    assert blocks.tolist() == list(range(9))
    np.testing.assert_allclose(traits.scores[:, 0], (products[:, 0] - products[:, 0].mean()) / products[:, 0].std())
    np.testing.assert_allclose(traits.scores, (products - traits.mean) @ traits.weights)
    assert mixed_effects.traits_in_blocks(products, 3)[0].scores.shape == (200, 3)
    assert mixed_effects.traits_in_blocks(products, 0)[0].scores.shape == (200, 0)


def test_products_that_were_never_shown_are_guessed_by_their_features() -> None:
    log, _ = shop(2)
    is_kept = log.actions >= 5
    policy = fitted("mixed-effects", log.rows(np.flatnonzero(is_kept)))
    whole = guesses(policy, context_of(log, 0))
    stranger = context_of(log, 0, product_ids=np.arange(K) + 100)
    np.testing.assert_allclose(whole[:5], guesses(policy, stranger)[:5])
    assert (whole[5:] != guesses(policy, stranger)[5:]).all()


def test_too_many_products_for_memory_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    log, _ = shop(2, 1_000)
    monkeypatch.setattr(mixed_effects, "MAX_BYTES", 8 * K * 4 - 1)
    with pytest.raises(ConfigError, match="20 products and 3 features of visitors, too many for memory"):
        fitted("mixed-effects", log)
