"""The generalised linear model of clicks and amounts: as many clicks as came, effects that come back, rare cases."""

from collections.abc import Sequence

import numpy as np
import pytest
from scipy import special

from zoosim.core.types import FloatArray, IntArray
from zoosim.fitting.sizes import fit_sizes
from zoosim.models.glm import FittedGLM, Response, RowsByProduct, expected_probability, fit_glm
from zoosim.models.hierarchy import Design
from zoosim.models.row_effects import Family

PRODUCTS, CATEGORIES = 60, 6
DESIGN = Design(
    np.column_stack([np.ones(PRODUCTS), np.eye(CATEGORIES)[np.arange(PRODUCTS) % CATEGORIES]]),
    np.array([0, 1]),
    np.array([0, *[1] * CATEGORIES]),
)


def fit_clicks(x: FloatArray, actions: IntArray, clicks: FloatArray, families: Sequence[Family] = ()) -> FittedGLM:
    return fit_glm(Response.CLICKS, x, actions, clicks, DESIGN, families)


def made(seed: int, n: int = 20_000) -> tuple[FloatArray, IntArray, FloatArray, FloatArray, IntArray]:
    """Return visitors, actions, clicks, the products' true coefficients, and who came."""
    rng = np.random.default_rng(seed)
    category = np.arange(PRODUCTS) % CATEGORIES
    level = -3.0 + rng.normal(0.0, 0.5, CATEGORIES)[category] + rng.normal(0.0, 0.6, PRODUCTS)
    slope = rng.normal(0.0, 0.5, CATEGORIES)[category]
    truth = np.column_stack([level, slope])
    users = rng.integers(2_000, size=n)
    x = np.column_stack([np.ones(n), rng.normal(size=2_000)[users]])
    actions = rng.integers(PRODUCTS, size=n)
    logits = (x * truth[actions]).sum(axis=1) + rng.normal(0.0, 0.4, 2_000)[users]
    return x, actions, (rng.random(n) < special.expit(logits)).astype(float), truth, users


def test_the_expected_probability_is_that_of_normal_logits() -> None:
    """Against 400,000 draws, seed 0, to 2%."""
    noise = np.random.default_rng(0).normal(size=400_000)
    for logit, variance in ((-4.0, 0.3), (-2.0, 0.2), (0.5, 0.3)):
        drawn = special.expit(logit + np.sqrt(variance) * noise).mean()
        expected = expected_probability(np.array([logit]), np.array([variance]))[0]
        assert expected == pytest.approx(drawn, rel=0.02)


def test_effects_come_back_and_as_many_clicks_are_expected_as_came() -> None:
    """8 logs of 20,000 rows, seeds 0 to 7: 95% intervals of products' coefficients hold in 92 to 98% of 960."""
    hits, spreads = [], []
    for seed in range(8):
        x, actions, clicks, truth, users = made(seed)
        model = fit_clicks(x, actions, clicks, [Family(users, 2_000, optional=False)])
        drawn = model.draw(200, rng=np.random.default_rng(seed))
        low, high = np.quantile(drawn, (0.025, 0.975), axis=0)
        hits.append(((low <= truth) & (truth <= high)).mean())
        spreads.append(model.effects[0].spread)
        variances = np.einsum("ni,nij,nj->n", x, model.posterior.covariance[actions], x)
        effects = model.effects[0]
        logits = (x * model.posterior.mean[actions]).sum(axis=1) + effects.mean[users]
        expected = expected_probability(logits, variances + effects.variance[users])
        assert expected.sum() == pytest.approx(clicks.sum(), rel=0.01)
    assert 0.92 < float(np.mean(hits)) < 0.98
    assert float(np.mean(spreads)) == pytest.approx(0.16, abs=4 * float(np.std(spreads)) / np.sqrt(8))


def test_few_clicks_and_products_never_shown_do_not_break_it() -> None:
    """600 rows of 10 of the 60 products, 12 clicks, seed 0; and a log in which one product is clicked every time."""
    rng = np.random.default_rng(0)
    x = np.column_stack([np.ones(600), rng.normal(size=600)])
    actions = rng.integers(10, size=600)
    clicks = np.zeros(600)
    clicks[:12] = 1.0
    logits = x @ fit_clicks(x, actions, clicks).mean.T
    assert np.isfinite(logits).all()
    assert special.expit(logits[np.arange(600), actions]).mean() == pytest.approx(0.02, abs=0.01)
    always = x @ fit_clicks(x, actions, (actions == 3).astype(float)).mean.T
    assert np.isfinite(always).all()
    assert (always.argmax(axis=1) == 3).mean() > 0.99


def test_sizes_of_responses_come_back() -> None:
    """5,000 log-normal amounts, seed 0: product means within 4 posterior deviations, the mean amount to 5%."""
    rng = np.random.default_rng(0)
    levels = 3.0 + rng.normal(0.0, 0.5, PRODUCTS)
    actions = rng.integers(PRODUCTS, size=5_000)
    x = np.column_stack([np.ones(5_000), rng.normal(size=5_000)])
    amounts = np.exp(levels[actions] + rng.normal(0.0, 0.4, 5_000))
    sizes = fit_sizes(x, actions, amounts, DESIGN, 200, rng=rng)
    assert sizes is not None
    assert sizes.are_logs
    of_levels = sizes.coefficients[:, :, 0]
    assert (np.abs(of_levels.mean(axis=0) - levels) < 4 * of_levels.std(axis=0)).all()
    expected = np.exp((x * sizes.coefficients.mean(axis=0)[actions]).sum(axis=1)) * np.exp(sizes.residuals).mean()
    assert expected.mean() == pytest.approx(amounts.mean(), rel=0.05)
    assert fit_sizes(x, actions, np.ones(5_000), DESIGN, 10, rng=rng) is None
    margins = fit_sizes(x, actions, amounts - 20.0, DESIGN, 10, rng=rng)
    assert margins is not None
    assert not margins.are_logs


def test_a_visitor_who_comes_and_clicks_often_is_told_apart() -> None:
    """600 rows of a visitor who clicks 30%, 19,400 of others who click 1%, seed 0: whole Newton steps find -30."""
    rng = np.random.default_rng(0)
    users = np.append(np.zeros(600, np.int64), rng.integers(1, 2_000, size=19_400))
    clicks = (rng.random(20_000) < np.where(users == 0, 0.3, 0.01)).astype(float)
    x = np.column_stack([np.ones(20_000), rng.normal(size=2_000)[users]])
    family = Family(users, 2_000, optional=False, spread=1.5)
    model = fit_clicks(x, rng.integers(PRODUCTS, size=20_000), clicks, [family])
    logit = float(model.effects[0].mean[0] + x[0] @ model.posterior.mean.mean(axis=0))
    assert special.expit(logit) == pytest.approx(0.3, abs=0.06)


@pytest.mark.parametrize("rows_a_product", [0.5, 4.0])
def test_rows_in_parts_give_the_sums_of_each_product(rows_a_product: float) -> None:
    """Products with no rows, with fewer than coefficients, and with more: against one product after the other."""
    rng = np.random.default_rng(0)
    k, q = 300, 4
    n = int(rows_a_product * k)
    x, actions, mean = rng.normal(size=(n, q)), rng.integers(k, size=n), rng.normal(size=(k, q))
    scores, weights = rng.normal(size=n), rng.random(n)
    roots = rng.normal(size=(k, q, q))
    covariance = roots @ roots.transpose(0, 2, 1)
    rows = RowsByProduct(x, actions, k)
    sums = rows.sums(scores, weights, mean)
    precision = np.zeros((k, q, q))
    for part in sums.parts:
        f = part.matrices
        precision[part.products] = f if part.is_whole else f.transpose(0, 2, 1) @ f
    assert {part.is_whole for part in sums.parts} == ({False} if rows_a_product < 1.0 else {False, True})
    linear, variances = rows.predictor(mean, covariance)
    np.testing.assert_allclose(linear, (x * mean[actions]).sum(axis=1), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(variances, np.einsum("ni,nij,nj->n", x, covariance[actions], x), rtol=1e-10)
    limited = rows.limited(mean)
    for product in range(k):
        own = actions == product
        expected = (x[own].T * weights[own]) @ x[own]
        np.testing.assert_allclose(precision[product], expected, rtol=1e-10, atol=1e-12)
        target = x[own].T @ scores[own] + expected @ mean[product]
        np.testing.assert_allclose(sums.target[product], target, rtol=1e-9, atol=1e-11)
        share = 1.0 / np.abs(x[own] @ mean[product]).max(initial=1.0)
        np.testing.assert_allclose(limited[product], share * mean[product], rtol=1e-10)
