"""What a price 10% higher does to clicks: against the same searches simulated at both prices."""

import numpy as np

from tests.fitting.search_designs import LAYOUT, SIZES, TRUTH, random_design
from zoosim.core.search_config import Behaviour
from zoosim.fitting.price_response import price_responses
from zoosim.fitting.search_behaviour import fit_behaviour
from zoosim.fitting.search_parameters import parameter_effects


def test_responses_hold_the_truth() -> None:
    """Each segment's interval, widened to 4 standard errors, holds the mean change of 200 draws of noise."""
    design = random_design(4_000, 4, 11)
    fitted = fit_behaviour(design, SIZES)
    utility = parameter_effects(design, LAYOUT).predictors(LAYOUT.pack(TRUTH)).utility
    higher = np.log1p(1.1 * np.expm1(design.log_price)) - design.log_price
    noise = Behaviour().utility_sd * np.random.default_rng(0).normal(size=(200, 1, 1))
    for number, response in enumerate(price_responses(design, fitted)):
        rows = design.segment == number
        before = (1.0 / (1.0 + np.exp(-(utility[rows] + noise)))).mean(axis=0)
        after = (1.0 / (1.0 + np.exp(-(utility[rows] + TRUTH.price[number] * higher[rows] + noise)))).mean(axis=0)
        clicks = design.clicks[rows]
        truth = float((clicks * (after / before - 1.0)).sum() / clicks.sum())
        assert response.low is not None
        assert abs(response.mean - truth) < 4.0 / 1.96 * (response.mean - response.low)
        assert response.mean - response.low < 0.02
        assert np.sign(response.mean) == np.sign(TRUTH.price[number])


def test_a_segment_without_clicks_is_asked_by_what_it_was_shown() -> None:
    design = random_design(600, 3, 12)
    fitted = fit_behaviour(design, SIZES)
    silent = design._replace(clicks=design.clicks * (design.segment == 0)[:, None])
    responses = price_responses(silent, fitted)
    assert np.isfinite(np.array(responses, float)).all()
