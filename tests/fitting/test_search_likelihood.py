"""The likelihood of searches computed another way, and its gradients by finite differences."""

from typing import Any

import numpy as np
import pytest
from scipy import integrate

from tests.fitting.search_designs import LAYOUT, TRUTH, likelihoods, random_design, repeated
from zoosim.core.search_config import Behaviour
from zoosim.fitting.search_design import SearchDesign
from zoosim.fitting.search_likelihood import gradients, log_likelihoods
from zoosim.fitting.search_parameters import parameter_effects

USUAL = Behaviour()


def sigmoid(x: float) -> float:
    return float(1.0 / (1.0 + np.exp(-x)))


def test_likelihood_of_two_positions_by_quadrature_of_its_own() -> None:
    """The click and purchase at the top are integrated adaptively; the second position is looked at, or not, in vain.

    P = P(look 1) E[click, buy | u1] (1 - P(look 2 | s1) P(click 2)), s1 the satisfaction that the click and purchase
    let expect, .5 E[u1 | click, buy] - 1.2.
    """
    design = random_design(1, 2, 0)._replace(clicks=np.array([[1.0, 0.0]]), purchases=np.array([[1.0, 0.0]]))
    s, t = int(design.segment[0]), int(design.query_type[0])
    means = (
        TRUTH.intercept[s]
        + TRUTH.segment_category[s, design.category[0]]
        + TRUTH.query_type[t]
        + TRUTH.product[design.product[0]]
        + TRUTH.score * design.score[0]
        + TRUTH.category * design.taste[0]
        + TRUTH.price[s] * design.log_price[0]
        + TRUTH.label[s] * design.label[0]
    )

    def mean_of(function: object, place: int) -> float:
        def weighted(z: float) -> float:
            density = np.exp(-0.5 * z * z) / np.sqrt(2.0 * np.pi)
            return float(density * function(means[place] + USUAL.utility_sd * z))  # type: ignore[operator]

        return float(integrate.quad(weighted, -8.0, 8.0)[0])

    def bought(u: float) -> float:
        odds = TRUTH.purchase_slope * u + TRUTH.purchase_bias[s] + TRUTH.purchase_price[s] * design.log_price[0, 0]
        return sigmoid(u) * sigmoid(odds)

    top = mean_of(bought, 0)
    expected_utility = mean_of(lambda u: u * bought(u), 0) / top
    satisfaction = USUAL.click_satisfaction * expected_utility + USUAL.purchase_satisfaction
    looks = TRUTH.bias[t] + TRUTH.examination[s]
    look = sigmoid(looks[1] + TRUTH.examine_satisfaction * satisfaction)
    second = 1.0 - look + look * mean_of(lambda u: 1.0 - sigmoid(u), 1)
    expected = sigmoid(looks[0]) * top * second
    assert likelihoods(TRUTH, design)[0] == pytest.approx(expected, rel=1e-3)


def test_likelihoods_of_all_outcomes_add_up_to_1() -> None:
    """No click, a click or a purchase at each of 3 positions: 27 outcomes of one ranking."""
    outcomes = np.stack(np.meshgrid(*[range(3)] * 3), axis=-1).reshape(-1, 3)
    many = repeated(random_design(1, 3, 1), len(outcomes))
    many = many._replace(clicks=(outcomes > 0).astype(float), purchases=(outcomes > 1).astype(float))
    assert likelihoods(TRUTH, many).sum() == pytest.approx(1.0, abs=1e-9)


def test_positions_that_were_not_shown_say_nothing() -> None:
    design = random_design(50, 3, 2)
    padded: list[Any] = [np.pad(column, ((0, 0), (0, 2))) if column.ndim == 2 else column for column in design]
    longer = SearchDesign(*padded)
    assert likelihoods(TRUTH, longer) == pytest.approx(likelihoods(TRUTH, design))


def test_each_searchs_gradient_is_its_finite_difference() -> None:
    """Of all parameters, visitors differing in what price does to them: in steps of 1e-5, to 1e-4 of the largest."""
    design = random_design(40, 3, 3)
    effects = parameter_effects(design, LAYOUT)
    values = LAYOUT.pack(TRUTH._replace(price_sd=0.2))
    scores = effects.scores(gradients(effects.predictors(values), design)[1]).toarray()
    for place in range(LAYOUT.size):
        step = np.zeros(LAYOUT.size)
        step[place] = 1e-5
        above, below = (log_likelihoods(effects.predictors(values + sign * step), design) for sign in (1.0, -1.0))
        assert scores[:, place] == pytest.approx((above - below) / 2e-5, abs=1e-4 * np.abs(scores).max())
