"""From values to boosts: slates against sorting in numpy, the projection against numpy's weighted ridge regression."""

import numpy as np
import pytest

from zoosim.core.types import FloatArray
from zoosim.optimizers import CEMConfig
from zoosim.policies.boosts.search import LEAST, RIDGE, BoostRequest, best_boosts, projected, slate_values


def request(
    products: int, d: int = 3, shown: int = 4, penalty: float = 0.0, kept: int = 3, seed: int = 0
) -> BoostRequest:
    rng = np.random.default_rng(seed)
    reach = np.cumprod(rng.uniform(0.5, 1.0, shown)).astype(np.float64)
    base, features = rng.normal(size=products), rng.normal(size=(d, products))
    return BoostRequest(base, features, rng.exponential(size=products), reach, penalty, kept)


def values(asked: BoostRequest, actions: FloatArray) -> FloatArray:
    out = np.full(len(actions), np.nan)
    slate_values(asked, actions, out)
    return out


def by_sorting(asked: BoostRequest, action: FloatArray) -> float:
    """Sort all products, highest first and ties to the lowest number, and add up what is reached."""
    order = np.argsort(-(asked.base + action @ asked.features), kind="stable")
    m = min(len(asked.reach), len(order))
    worth = float(asked.reach[:m] @ asked.values[order[:m]])
    before = np.argsort(-asked.base, kind="stable")[: asked.kept]
    return worth - asked.penalty * len(set(before.tolist()) - set(order[: asked.kept].tolist()))


@pytest.mark.parametrize("products", [1, 2, 3, 5, 30])
@pytest.mark.parametrize(("shown", "kept"), [(4, 3), (2, 6)])
@pytest.mark.parametrize("penalty", [0.0, 0.3])
def test_slates_are_worth_what_sorting_says(products: int, shown: int, kept: int, penalty: float) -> None:
    asked = request(products, shown=shown, kept=kept, penalty=penalty)
    actions = np.random.default_rng(1).uniform(-2.0, 2.0, (40, 3))
    expected = [by_sorting(asked, action) for action in actions]
    np.testing.assert_allclose(values(asked, actions), expected, rtol=1e-12, atol=1e-12)


def test_the_penalty_by_hand() -> None:
    """Scores 3, 2, 1; a boost of 5 on the last puts it first: of the first two, one leaves and is charged .4."""
    asked = BoostRequest(
        np.array([3.0, 2.0, 1.0]), np.array([[0.0, 0.0, 1.0]]), np.array([1.0, 2.0, 4.0]), np.ones(1), 0.4, 2
    )
    np.testing.assert_allclose(values(asked, np.array([[0.0], [5.0]])), [1.0, 4.0 - 0.4])
    # shuffled within the first two, nothing has left
    moved = asked._replace(features=np.array([[0.0, 1.0, 0.0]]))
    np.testing.assert_allclose(values(moved, np.array([[5.0]])), [2.0])


def test_ties_go_to_the_first_product() -> None:
    asked = BoostRequest(np.zeros(4), np.zeros((1, 4)), np.array([1.0, 2.0, 3.0, 4.0]), np.array([1.0, 0.5]), 0.0, 2)
    np.testing.assert_allclose(values(asked, np.zeros((1, 1))), [1.0 + 0.5 * 2.0])


def by_ridge(asked: BoostRequest, a_max: float) -> FloatArray:
    """Regress log values on an intercept and features by weighted least squares, with a ridge on the slopes alone."""
    worth = np.maximum(asked.values, LEAST * asked.values.max())
    weights = worth / worth.sum()
    centred = asked.features - (asked.features @ weights)[:, np.newaxis]
    ridge = RIDGE * np.mean(np.sum(weights * centred**2, axis=1)) + 1e-12
    d = len(asked.features)
    design = np.column_stack([np.ones(len(worth)), asked.features.T])
    rows = np.vstack([np.sqrt(weights)[:, np.newaxis] * design, np.sqrt(ridge) * np.eye(d + 1)[1:]])
    targets = np.concatenate([np.sqrt(weights) * np.log(worth), np.zeros(d)])
    slopes = np.linalg.lstsq(rows, targets, rcond=None)[0][1:]
    found: FloatArray = a_max * slopes / np.abs(slopes).max()
    return found


@pytest.mark.parametrize("products", [2, 5, 50, 400])
def test_the_projection_is_a_weighted_ridge_regression(products: int) -> None:
    asked = request(products, d=4, seed=products)
    found = projected(asked, 0.5)
    np.testing.assert_allclose(found, by_ridge(asked, 0.5), rtol=1e-7, atol=1e-9)
    assert np.abs(found).max() == pytest.approx(0.5)


def test_the_projection_takes_twins_and_products_worth_nothing() -> None:
    """Twin features share the slope; values of 0 count as a thousandth of the highest."""
    asked = request(60, d=2, seed=3)
    twins = asked._replace(features=np.vstack([asked.features[0], asked.features[0], asked.features[1]]))
    first, second, _ = projected(twins, 1.0)
    assert first == pytest.approx(second, rel=1e-9)
    poor = asked._replace(values=np.where(np.arange(60) < 30, 0.0, asked.values))
    np.testing.assert_allclose(projected(poor, 1.0), by_ridge(poor, 1.0), rtol=1e-7)


def test_without_differences_there_is_no_direction() -> None:
    asked = request(20)
    np.testing.assert_array_equal(projected(asked._replace(values=np.ones(20)), 0.5), np.zeros(3))
    np.testing.assert_array_equal(projected(asked._replace(features=np.ones((3, 20))), 0.5), np.zeros(3))


def test_the_search_is_no_worse_than_where_it_begins_and_stays_in_the_box() -> None:
    config = CEMConfig(n_samples=32, n_iters=5)
    for seed in range(5):
        asked = request(200, d=5, shown=10, seed=seed)
        found = best_boosts(asked, config, np.random.default_rng(0))
        start = projected(asked, config.a_max)
        assert np.abs(found).max() <= config.a_max
        assert values(asked, found[np.newaxis])[0] >= values(asked, start[np.newaxis])[0]
        again = best_boosts(asked, config, np.random.default_rng(0))
        np.testing.assert_array_equal(found, again)


def test_with_a_high_penalty_nothing_leaves() -> None:
    asked = request(200, d=5, shown=10, penalty=1e6, kept=10)
    found = best_boosts(asked, CEMConfig(n_samples=64, n_iters=20), np.random.default_rng(0))
    assert values(asked, found[np.newaxis])[0] > 0.0


def test_a_start_that_rounding_puts_outside_the_box_is_searched_from() -> None:
    """Of 200 requests the projection of some ends outside by a last digit, which the search would refuse."""
    config = CEMConfig(n_samples=8, n_iters=1, a_max=5.0)
    requests = [request(20, seed=seed) for seed in range(200)]
    assert any(np.abs(projected(each, 5.0)).max() > 5.0 for each in requests)
    for each in requests:
        assert np.abs(best_boosts(each, config, np.random.default_rng(0))).max() <= 5.0


def test_where_leaving_the_top_costs_much_the_search_finds_small_boosts() -> None:
    config = CEMConfig(n_samples=32, n_iters=3, a_max=2.0, init_std=1.0)
    for seed in range(5):
        asked = request(200, penalty=100.0, seed=seed)
        boosts = best_boosts(asked, config, np.random.default_rng(seed))
        # Nothing leaves, so it is worth at least what the base ranker's own ranking is.
        assert values(asked, boosts[np.newaxis])[0] >= values(asked, np.zeros((1, 3)))[0]


def test_where_no_product_is_worth_anything_nothing_is_boosted_at_first() -> None:
    asked = request(20)._replace(values=-np.ones(20))
    np.testing.assert_array_equal(projected(asked, 2.0), np.zeros(3))
