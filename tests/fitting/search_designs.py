"""Searches drawn at random from known behaviour, for tests of what is estimated from them."""

from typing import Any

import numpy as np

from zoosim.core.types import FloatArray
from zoosim.fitting.search_checks import simulate
from zoosim.fitting.search_design import DesignSizes, SearchDesign
from zoosim.fitting.search_likelihood import log_likelihoods
from zoosim.fitting.search_parameters import EstimatedParameters, Layout, parameter_effects

SIZES = DesignSizes(segments=2, types=2, categories=2, products=20)
LAYOUT = Layout.of(SIZES, 3)
QUALITY = np.random.default_rng(5).normal(0.0, 0.3, 20)
TRUTH = EstimatedParameters(
    bias=np.array([[1.2, 0.7, 0.3], [0.6, 0.2, 0.0]]),
    examination=np.array([0.2, -0.2]),
    intercept=np.array([-0.6, 0.9]),
    segment_category=np.array([[0.2, -0.2], [-0.1, 0.1]]),
    query_type=np.array([0.1, -0.1]),
    product=QUALITY - QUALITY.mean(),
    price=np.array([-0.5, 0.3]),
    label=np.array([0.4, -0.6]),
    score=0.7,
    category=0.5,
    price_sd=0.0,
    examine_satisfaction=0.3,
    purchase_slope=1.1,
    purchase_bias=np.array([0.1, -0.2]),
    purchase_price=np.array([-0.05, 0.05]),
)


PRICES = np.random.default_rng(6).uniform(1.0, 4.0, 20)
LABELS = np.random.default_rng(8).integers(2, size=20).astype(float)
"""log(1 + price) of the products, and which are private labels."""


def random_design(n: int, length: int, seed: int, truth: EstimatedParameters = TRUTH) -> SearchDesign:
    """Draw rankings of products at random, with clicks and purchases by known behaviour."""
    rng = np.random.default_rng(seed)
    product = rng.integers(20, size=(n, length))
    design = SearchDesign(
        segment=rng.integers(2, size=n),
        query_type=rng.integers(2, size=n),
        shown=np.ones((n, length)),
        clicks=np.zeros((n, length)),
        purchases=np.zeros((n, length)),
        score=rng.normal(size=(n, length)),
        log_price=PRICES[product],
        label=LABELS[product],
        taste=rng.random((n, length)),
        category=product % 2,
        product=product,
    )
    clicks, purchases = simulate(parameter_effects(design, LAYOUT), LAYOUT.pack(truth), design, rng=rng)
    return design._replace(clicks=clicks, purchases=purchases)


def likelihoods(parameters: EstimatedParameters, design: SearchDesign) -> FloatArray:
    """Return the likelihood of each search, as the fit computes it."""
    predictors = parameter_effects(design, LAYOUT).predictors(LAYOUT.pack(parameters))
    return np.asarray(np.exp(log_likelihoods(predictors, design)))


def repeated(design: SearchDesign, n: int) -> SearchDesign:
    """Return a design whose searches come `n` times each."""
    columns: list[Any] = [np.repeat(column, n, axis=0) for column in design]
    return SearchDesign(*columns)
