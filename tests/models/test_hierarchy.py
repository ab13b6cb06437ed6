"""Hierarchies of coefficients: the posterior against a plain dense solution, variances and draws against the truth."""

import numpy as np
import pytest

from zoosim.core.types import FloatArray
from zoosim.models.deviations import PrecisionBlock
from zoosim.models.hierarchy import (
    INTERCEPT_VARIANCE,
    Design,
    ProductSums,
    Variances,
    draw_coefficients,
    fit_hierarchy,
    make_design,
    posterior_at,
    start_variances,
)
from zoosim.models.product_pairs import sparse_products

K, Q, R = 6, 2, 3


def whole(precision: FloatArray, target: FloatArray) -> ProductSums:
    return ProductSums((PrecisionBlock(np.arange(len(target)), precision),), target)


def small() -> tuple[Design, ProductSums, Variances]:
    rng = np.random.default_rng(0)
    products = np.column_stack([np.ones(K), rng.normal(size=(K, R - 1))])
    design = Design(products, np.array([0, 1]), np.array([0, 1, 1]))
    roots = rng.normal(size=(K, Q, Q))
    precision = roots @ roots.transpose(0, 2, 1)
    precision[0] = 0.0  # a product that was never shown
    target = np.einsum("kij,kj->ki", precision, rng.normal(size=(K, Q)))
    return design, whole(precision, target), Variances(np.array([[0.5, 0.2], [0.1, 0.3]]), np.array([0.4, 0.05]))


def dense(design: Design, sums: ProductSums, variances: Variances) -> tuple[FloatArray, FloatArray]:
    """Return the mean and the covariance of all b_k by one large matrix over M and all a_k."""
    size = Q * R + K * Q
    precision, target = np.zeros((size, size)), np.zeros(size)
    to_b = np.zeros((K * Q, size))
    for k in range(K):
        for j in range(Q):
            to_b[k * Q + j, j * R : (j + 1) * R] = design.products[k]
            to_b[k * Q + j, Q * R + k * Q + j] = 1.0
        rows = to_b[k * Q : (k + 1) * Q]
        precision += rows.T @ sums.parts[0].matrices[k] @ rows
        target += rows.T @ sums.target[k]
    entries = variances.shared[np.ix_(design.visitor_block, design.product_block)]
    entries[0, 0] = INTERCEPT_VARIANCE
    prior = np.concatenate([entries.ravel(), np.tile(variances.own[design.visitor_block], K)])
    covariance = np.linalg.inv(precision + np.diag(1.0 / prior))
    return to_b @ covariance @ target, to_b @ covariance @ to_b.T


def test_the_posterior_is_that_of_one_large_matrix() -> None:
    design, sums, variances = small()
    posterior = posterior_at(design, sums, variances)
    mean, covariance = dense(design, sums, variances)
    np.testing.assert_allclose(posterior.mean.ravel(), mean, rtol=1e-9, atol=1e-12)
    for k in range(K):
        own = slice(k * Q, (k + 1) * Q)
        np.testing.assert_allclose(posterior.covariance[k], covariance[own, own], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("rows_a_product", [0, 1, 3])
def test_fewer_rows_than_coefficients_give_the_posterior_of_their_precisions(
    monkeypatch: pytest.MonkeyPatch, rows_a_product: int
) -> None:
    """Of 600 products with 5 coefficients each: low-rank forms are exact, and threads change no bit."""
    rng = np.random.default_rng(0)
    k, q = 600, 5
    design = make_design(rng.normal(size=(k, 4)), np.array([0, 0, 1, 1]), np.array([0, 1, 1, 2]))
    rows = rng.normal(size=(k, rows_a_product, q))
    precision = rows.transpose(0, 2, 1) @ rows
    target = np.einsum("kij,kj->ki", precision, rng.normal(size=(k, q)))
    by_rows = ProductSums(
        tuple(PrecisionBlock(part, rows[part]) for part in np.split(np.arange(k), [128, 200])), target
    )
    plain = fit_hierarchy(design, whole(precision, target), start_variances(design), 3)
    monkeypatch.setattr("zoosim.models.hierarchy.PRODUCTS_AT_ONCE", 100)
    fast = fit_hierarchy(design, by_rows, start_variances(design), 3)
    everything = np.arange(k)
    np.testing.assert_allclose(fast.shared, plain.shared, rtol=1e-7, atol=1e-10)
    np.testing.assert_allclose(fast.mean, plain.mean, rtol=1e-7, atol=1e-10)
    np.testing.assert_allclose(fast.covariance[everything], plain.covariance[everything], rtol=1e-7, atol=1e-10)
    for fast_part, plain_part in zip((*fast.variances, *fast.freedom), (*plain.variances, *plain.freedom), strict=True):
        np.testing.assert_allclose(fast_part, plain_part, rtol=1e-6)
    monkeypatch.setattr("zoosim.core.threads.n_threads", lambda: 1)
    assert np.array_equal(fit_hierarchy(design, by_rows, start_variances(design), 3).mean, fast.mean)


def test_a_product_without_rows_has_what_its_features_predict() -> None:
    design, sums, variances = small()
    posterior = posterior_at(design, sums, variances)
    np.testing.assert_allclose(posterior.mean[0], posterior.shared @ design.products[0], rtol=1e-9)


def test_draws_have_the_mean_and_the_covariance_of_the_posterior(monkeypatch: pytest.MonkeyPatch) -> None:
    """5,000 draws at known variances, seed 1: means and covariances within 5 standard errors."""
    monkeypatch.setattr("zoosim.models.hierarchy._draw_variances", lambda posterior, rng: posterior.variances)
    design, sums, variances = small()
    posterior = posterior_at(design, sums, variances)
    drawn = draw_coefficients(design, sums, posterior, 5_000, rng=np.random.default_rng(1))[1].reshape(-1, K * Q)
    mean, covariance = dense(design, sums, variances)
    deviations = np.sqrt(np.diag(covariance))
    np.testing.assert_array_less(np.abs(drawn.mean(axis=0) - mean), 5 * deviations / np.sqrt(5_000))
    errors = np.abs(np.cov(drawn.T) - covariance) / np.outer(deviations, deviations)
    assert float(errors.max()) < 5 * np.sqrt(2.0 / 5_000)


def test_variances_come_back() -> None:
    """10 catalogues of 400 products in 20 categories, seeds 0 to 9: means of the estimates within 4 standard errors."""
    estimates = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        category = rng.integers(20, size=400)
        design = Design(np.column_stack([np.ones(400), np.eye(20)[category]]), np.array([0]), np.array([0] + [1] * 20))
        effects = rng.normal(0.0, 0.7, 20)[category] + rng.normal(0.0, 0.4, 400) - 2.0
        targets = effects + rng.normal(0.0, 0.5, 400)
        sums = whole(np.full((400, 1, 1), 1 / 0.25), (targets / 0.25)[:, None])
        posterior = fit_hierarchy(design, sums, start_variances(design), 200)
        estimates.append((posterior.variances.shared[0, 1], posterior.variances.own[0]))
    means = np.mean(estimates, axis=0)
    errors = np.std(estimates, axis=0, ddof=1) / np.sqrt(10)
    np.testing.assert_array_less(np.abs(means - [0.49, 0.16]), 4 * errors)


def test_products_of_few_numbers_have_the_posterior_of_all_their_features() -> None:
    """Categories, brands and a price far from 0, mixed into traits: the sparse form agrees with the dense one."""
    rng = np.random.default_rng(4)
    k, q = 1_100, 3
    price = 500.0 + rng.normal(size=(k, 1))
    products = np.hstack([np.eye(12)[rng.integers(12, size=k)], np.eye(30)[rng.integers(30, size=k)], price])
    centre = products.mean(axis=0)
    weights = np.hstack([np.eye(43)[:, :12], np.eye(43)[:, 42:], 0.2 * rng.normal(size=(43, 8))])
    scores = (products - centre) @ weights
    sparse = sparse_products(products, centre, weights, q)
    assert sparse is not None
    assert len(sparse.values) == 4 * k
    blocks = np.array([0, 1]), np.repeat([0, 1, 2], [12, 1, 8])
    parts = [
        PrecisionBlock(part, rng.normal(size=(len(part), m, q)))
        for part, m in zip(np.split(np.arange(k), [500, 900]), (1, 2, 2), strict=True)
    ]
    sums = ProductSums(tuple(parts), rng.normal(size=(k, q)))
    dense = make_design(scores, *blocks)
    few = make_design(scores, *blocks, sparse)
    expected = fit_hierarchy(dense, sums, start_variances(dense), 3)
    found = fit_hierarchy(few, sums, start_variances(few), 3)
    chosen = np.array([3, 1_099, 620, 4])
    np.testing.assert_allclose(found.shared, expected.shared, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(found.covariance[chosen], expected.covariance[chosen], rtol=1e-7, atol=1e-9)
    for of_found, of_expected in zip(found.variances, expected.variances, strict=True):
        np.testing.assert_allclose(of_found, of_expected, rtol=1e-7)


def test_products_that_differ_in_numbers_alone_have_no_sparse_form() -> None:
    rng = np.random.default_rng(4)
    numbers = rng.normal(size=(1_100, 5))
    assert sparse_products(numbers, numbers.mean(axis=0), np.eye(5), 3) is None
    one_hot = np.eye(60)[rng.integers(60, size=1_000)]
    assert sparse_products(one_hot, one_hot.mean(axis=0), np.eye(60), 3) is None
