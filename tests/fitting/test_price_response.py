"""What a price 10% higher does to clicks: against the truth of the searches that were drawn, however visitors look."""

import numpy as np
import pytest

from tests.fitting.search_designs import LABELS, LAYOUT, PRICES, SIZES, TRUTH, random_design
from zoosim.core.search_config import Behaviour
from zoosim.core.statistics import Interval
from zoosim.core.types import FloatArray, IntArray
from zoosim.fitting.price_response import price_responses
from zoosim.fitting.search_design import SearchDesign
from zoosim.fitting.search_parameters import parameter_effects

SHOPS = 12


def errors_of(responses: tuple[Interval, ...]) -> FloatArray:
    """Return the standard errors of responses."""
    lows = np.array([response.low for response in responses], float)
    return np.asarray((np.array([response.mean for response in responses]) - lows) / 1.96)


def test_responses_hold_the_truth_of_a_cascade() -> None:
    """Each segment's response lies within 4 standard errors of the mean change of 200 draws of noise."""
    design = random_design(4_000, 4, 11)
    utility = parameter_effects(design, LAYOUT).predictors(LAYOUT.pack(TRUTH)).utility
    higher = np.log1p(1.1 * np.expm1(design.log_price)) - design.log_price
    noise = Behaviour().utility_sd * np.random.default_rng(0).normal(size=(200, 1, 1))
    responses = price_responses(design, SIZES, np.arange(4_000))
    for number, (response, error) in enumerate(zip(responses, errors_of(responses), strict=True)):
        rows = design.segment == number
        before = (1.0 / (1.0 + np.exp(-(utility[rows] + noise)))).mean(axis=0)
        after = (1.0 / (1.0 + np.exp(-(utility[rows] + TRUTH.price[number] * higher[rows] + noise)))).mean(axis=0)
        clicks = design.clicks[rows]
        truth = float((clicks * (after / before - 1.0)).sum() / clicks.sum())
        assert abs(response.mean - truth) < 4.0 * error
        assert error < 0.015
        assert np.sign(response.mean) == np.sign(TRUTH.price[number])


def random_looks(seed: int) -> tuple[SearchDesign, IntArray, FloatArray]:
    """Draw searches of visitors who look at positions by chance, each alone; return users and true responses, too."""
    rng = np.random.default_rng([seed, 40])
    n, length = 2_400, 4
    users = rng.integers(n // 3, size=n)
    segment = users % 2
    product = rng.integers(20, size=(n, length))
    quality = rng.normal(0.0, 0.4, 20)
    utility = -1.2 + quality[product] + rng.normal(0.0, 0.5, n // 3)[users][:, None]
    slope = np.array([-0.7, 0.3])[segment][:, None]
    chance, dearer = (
        1.0 / (1.0 + np.exp(-(utility + slope * (price - 2.5))))
        for price in (PRICES[product], np.log1p(1.1 * np.expm1(PRICES[product])))
    )
    looks = rng.random((n, length)) < np.array([0.9, 0.6, 0.45, 0.4])
    clicks = (looks & (rng.random((n, length)) < chance)).astype(float)
    parts = [segment == number for number in range(2)]
    truth = np.array([(looks * (dearer - chance))[rows].sum() / (looks * chance)[rows].sum() for rows in parts])
    none = np.zeros((n, length))
    design = SearchDesign(
        segment, np.zeros(n, np.int64), none + 1.0, clicks, none, none, PRICES[product], LABELS[product], none,
        product % 2, product,
    )  # fmt: skip
    return design, users, truth


@pytest.mark.parametrize("products_differ", [True, False])
def test_errors_are_right_where_visitors_look_by_chance(products_differ: bool) -> None:
    """Squared gaps are those of the errors, over 12 shops whose products differ; not where errors leave that out."""
    squares = []
    for seed in range(SHOPS):
        design, users, truth = random_looks(seed)
        if not products_differ:
            design = design._replace(product=0 * design.product)
        responses = price_responses(design, SIZES, users)
        gaps = np.array([response.mean for response in responses]) - truth
        squares.append(float(((gaps / errors_of(responses)) ** 2).mean()))
    # The mean of 12 averages of 2 squares: were both of a shop the same, its standard error would be sqrt(2 / 12).
    assert (np.mean(squares) < 1.0 + 4.0 * 0.41) == products_differ, squares


def test_a_segment_without_clicks_is_asked_by_what_it_was_shown() -> None:
    design = random_design(600, 3, 12)
    silent = design._replace(clicks=design.clicks * (design.segment == 0)[:, None])
    responses = price_responses(silent, SIZES, np.arange(600))
    assert np.isfinite(np.array(responses, float)).all()
    assert errors_of(responses)[1] > 3.0 * errors_of(responses)[0]


def test_one_click_on_a_product_of_an_extreme_price_breaks_nothing() -> None:
    design, users, _ = random_looks(0)
    rng = np.random.default_rng(1)
    clicks = design.clicks * (rng.random(design.clicks.shape) < 0.05)
    log_price = np.log1p(rng.lognormal(3.0, 0.5, design.clicks.shape))
    clicks[0, 0], log_price[0, 0] = 1.0, np.log1p(10_000.0)
    responses = price_responses(design._replace(clicks=clicks, log_price=log_price), SIZES, users)
    assert np.isfinite(np.array(responses, float)).all()
