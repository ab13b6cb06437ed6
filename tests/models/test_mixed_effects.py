"""Mixed models: against a dense solution, known variances, and plain derivatives."""

import numpy as np
import pytest
from scipy import special

from zoosim.core.types import FloatArray
from zoosim.models import mixed_effects
from zoosim.models.mixed_effects import (
    Choices,
    Effects,
    Groups,
    MixedModel,
    exclusive_blocks,
    fit_mixed_model,
    group_coefficients,
    product_coefficients,
    scale_blocks,
    with_leading_one,
)

N, K, D_U, D_P = 400, 7, 3, 2


def made(n: int = N, n_products: int = K, d_u: int = D_U, d_p: int = D_P, seed: int = 0) -> tuple[Choices, Groups]:
    """Return choices without effects, and groups of one block each."""
    rng = np.random.default_rng(seed)
    visitors = with_leading_one(rng.normal(size=(n, d_u)))
    products = with_leading_one(rng.normal(size=(n_products, d_p)))
    choices = Choices(visitors, products, rng.integers(n_products, size=n), rng.normal(size=n))
    return choices, group_coefficients(np.zeros(d_u, np.int64), np.zeros(d_p, np.int64))


def dense(choices: Choices) -> FloatArray:
    """Return the columns of all coefficients: the shared ones by row, then each product's."""
    products = choices.products[choices.actions]
    shared = np.einsum("np,nq->npq", choices.visitors, products).reshape(len(products), -1)
    own = np.einsum("nk,np->nkp", np.eye(len(choices.products))[choices.actions], choices.visitors)
    return np.hstack([shared, own.reshape(len(products), -1)])


def ordered(choices: Choices) -> Choices:
    """Return choices in order of their products."""
    order = np.argsort(choices.actions)
    visitors, products, actions, rewards = choices
    return Choices(visitors[order], products, actions[order], rewards[order])


def flat(effects: Effects) -> FloatArray:
    return np.append(effects.shared.ravel(), effects.own.ravel())


def fitted(choices: Choices, groups: Groups, *, clicks: bool) -> MixedModel:
    return fit_mixed_model(choices, groups, clicks=clicks, progress=lambda line: None)


@pytest.mark.parametrize("size", [64_000_000, 8 * 2 * (1 + D_U) ** 2])
def test_a_step_solves_the_normal_equations(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against a dense ridge regression with the same penalties, and the diagonal of its inverse; in parts, too."""
    monkeypatch.setattr(mixed_effects, "PART_BYTES", size)
    choices, groups = made()
    variances = np.random.default_rng(1).uniform(0.1, 3.0, int(groups.own.max()) + 1)
    start = Effects(np.zeros((1 + D_U, 1 + D_P)), np.zeros((K, 1 + D_U)))
    choices = ordered(choices)
    parts = mixed_effects._in_parts(choices)
    assert len(parts) == (1 if size > 1_000 else 4)
    step, posterior = mixed_effects._solve(parts, start, groups, variances, 0.5, False)
    columns = dense(choices)
    penalty = 1.0 / np.append(variances[groups.shared].ravel(), np.tile(variances[groups.own], K))
    covariance = np.linalg.inv(columns.T @ columns / 0.5 + np.diag(penalty))
    np.testing.assert_allclose(flat(step), covariance @ columns.T @ choices.rewards / 0.5, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(flat(posterior), np.diag(covariance), rtol=1e-8)


def test_clicks_are_fitted_to_the_largest_posterior() -> None:
    """At the estimate the gradient of the log posterior is 0."""
    choices, groups = made()
    clicks = (choices.rewards > 0.3).astype(float)
    choices = choices._replace(rewards=clicks)
    model = fitted(choices, groups, clicks=True)
    columns = dense(choices)
    penalty = 1.0 / np.append(model.variances[groups.shared].ravel(), np.tile(model.variances[groups.own], K))
    for _ in range(3):  # the last variances came after the last step
        parts = mixed_effects._in_parts(ordered(choices))
        step, _ = mixed_effects._solve(parts, model.effects, groups, model.variances, 1.0, True)
        effects = Effects(model.effects.shared + step.shared, model.effects.own + step.own)
        model = model._replace(effects=effects)
    gradient = columns.T @ (clicks - special.expit(columns @ flat(model.effects))) - penalty * flat(model.effects)
    np.testing.assert_allclose(gradient, 0.0, atol=1e-6)


@pytest.mark.parametrize("clicks", [False, True])
def test_variances_are_found(clicks: bool) -> None:
    """60 products and 40 features, 60,000 rows: effects of products .5, of pairs of features .1, others none.

    The variance of m normal effects is known to its share of sqrt(2 / m): .18 of the products' own, .07 of the pairs'.
    Within four of these, and somewhat more for what the rows leave open.
    """
    rng = np.random.default_rng(3)
    choices, groups = made(60_000, 60, 10, 40, seed=2)
    own = np.zeros((60, 11))
    own[:, 0] = rng.normal(0.0, np.sqrt(0.5), 60)
    shared = np.zeros((11, 41))
    shared[1:, 1:] = rng.normal(0.0, np.sqrt(0.1), (10, 40)) / np.sqrt(10.0)
    coefficients = product_coefficients(choices.products, Effects(shared, own))
    predictor = np.einsum("np,np->n", choices.visitors, coefficients[choices.actions])
    noise = rng.random(60_000) if clicks else rng.normal(size=60_000)
    rewards = (noise < special.expit(predictor)).astype(float) if clicks else predictor + noise
    model = fitted(choices._replace(rewards=rewards), groups, clicks=clicks)
    assert model.variances[groups.own[0]] == pytest.approx(0.5, rel=0.9)
    assert model.variances[groups.shared[1, 1]] == pytest.approx(0.01, rel=0.35)
    assert model.variances[groups.own[1]] < 0.003
    if not clicks:
        assert model.noise == pytest.approx(1.0, abs=4 * np.sqrt(2.0 / 60_000) + 0.01)


def test_what_tells_nothing_is_shrunk_away() -> None:
    """Rewards of noise alone: effects are small beside their standard error without shrinkage, 1 / sqrt(400 / 7)."""
    choices, groups = made()
    model = fitted(choices, groups, clicks=False)
    without_level = np.delete(flat(model.effects), 0)
    assert np.sqrt(np.mean(without_level**2)) < 0.3 / np.sqrt(N / K)


@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_rewards_that_are_all_alike_are_no_obstacle(rate: float) -> None:
    choices, groups = made()
    same = choices._replace(rewards=np.full(N, rate))
    for clicks in (False, True):
        model = fitted(same, groups, clicks=clicks)
        assert np.isfinite(flat(model.effects)).all()


def test_blocks_are_columns_that_exclude_each_other() -> None:
    levels = np.eye(3)[[0, 1, 2, 0]]
    number = np.array([[0.5], [-1.0], [0.0], [2.0]])
    missing = np.array([[0.0], [0.0], [1.0], [0.0]])
    blocks = exclusive_blocks(np.hstack([levels, number, missing, levels[:, :1]]))
    assert blocks.tolist() == [0, 0, 0, 1, 1, 2]
    assert exclusive_blocks(np.zeros((4, 0))).tolist() == []


def test_levels_of_a_category_are_scaled_alike() -> None:
    """Variances 3/16, 3/16 and 1/4 have the mean 5/24; a column that does not vary becomes 0."""
    levels = np.eye(3)[[0, 1, 2, 2]]
    scaling = scale_blocks(np.hstack([levels, np.ones((4, 1))]))
    np.testing.assert_allclose(scaling.scale, [*[np.sqrt(24 / 5)] * 3, 0.0])
    np.testing.assert_allclose(scaling.centre, [0.25, 0.25, 0.5, 1.0])


def test_products_that_were_never_shown_have_no_effects_of_their_own() -> None:
    choices, groups = made()
    more = np.vstack([choices.products, np.ones((3, 1 + D_P))])
    model = fitted(choices._replace(products=more), groups, clicks=False)
    without = fitted(choices, groups, clicks=False)
    assert not model.effects.own[K:].any()
    np.testing.assert_array_equal(model.effects.own[:K], without.effects.own)
