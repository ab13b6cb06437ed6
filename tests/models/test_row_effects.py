"""Effects that rows share: moments by hand, and variances that come back."""

import numpy as np
import pytest

from zoosim.models.row_effects import Family, estimate_spread, no_effects, pair_moments, shrunk_effects


def test_moments_are_sums_over_pairs() -> None:
    """Groups 0 and 1 of rows (0, 1, 2) and (3); row 4 has none: pairs 01, 02, 12, each counted twice."""
    family = Family(np.array([0, 0, 0, 1, -1]), 2)
    residuals, weights = np.array([1.0, 2.0, -1.0, 5.0, 9.0]), np.array([0.1, 0.2, 0.3, 0.4, 0.5])
    moments = pair_moments(family, residuals, weights)
    np.testing.assert_allclose(moments.products, [2 * (2.0 - 1.0 - 2.0), 0.0], atol=1e-12)
    np.testing.assert_allclose(moments.weights, [2 * (0.02 + 0.03 + 0.06), 0.0], atol=1e-12)
    np.testing.assert_allclose(moments.information, [0.6, 0.4])
    spread, _ = estimate_spread(moments, 0.0)
    assert spread == pytest.approx(-2.0 / 0.22)
    np.testing.assert_array_equal(family.of_rows(np.array([7.0, 8.0])), [7.0, 7.0, 7.0, 8.0, 0.0])


def test_an_effect_is_shrunk_by_what_its_rows_tell() -> None:
    """Two rows of weight .25 and residuals that add up to .5: a prior variance of 1 gives .5 / (1 + .5) = 1/3."""
    family = Family(np.array([0, 0, -1]), 1)
    residuals, weights = np.array([0.2, 0.3, 9.0]), np.array([0.25, 0.25, 0.25])
    effects = shrunk_effects(family, no_effects(family), 1.0, 0.0, residuals, weights)
    np.testing.assert_allclose([effects.mean[0], effects.variance[0]], [1 / 3, 2 / 3])
    assert shrunk_effects(family, effects, -0.1, 0.1, residuals, weights).mean[0] == 0.0


def test_the_variance_of_visitors_effects_comes_back() -> None:
    """200 logs of 400 visitors with 25 rows each, logits -2 and effects N(0, .3), seed 0: to first order in .3."""
    rng, estimates = np.random.default_rng(0), []
    groups = np.repeat(np.arange(400), 25)
    family = Family(groups, 400)
    for _ in range(200):
        clicks = rng.random(10_000) < 1 / (1 + np.exp(2.0 - rng.normal(0.0, np.sqrt(0.3), 400)[groups]))
        chances = np.full(10_000, clicks.mean())
        estimates.append(estimate_spread(pair_moments(family, clicks - chances, chances * (1 - chances)), 0.3))
    spreads, errors = np.array(estimates).T
    assert 0.25 < float(spreads.mean()) < 0.33
    assert 0.9 < float(errors.mean()) / float(spreads.std()) < 1.35  # rather too wide than too narrow
    nothing = [
        estimate_spread(pair_moments(family, rng.normal(size=10_000), np.ones(10_000)), 0.0)[0] for _ in range(100)
    ]
    assert abs(float(np.mean(nothing))) < 4 * float(np.std(nothing)) / 10
