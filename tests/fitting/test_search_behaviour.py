"""A known behaviour found again; segments that differ in how much they click are not taken to differ by price."""

import numpy as np
import pytest

from tests.fitting.search_designs import LAYOUT, SIZES, TRUTH, random_design
from zoosim.fitting import search_parameters
from zoosim.fitting.search_behaviour import FittedBehaviour, fit_behaviour
from zoosim.fitting.search_parameters import KINDS, ParameterPooling


@pytest.fixture(scope="module")
def fitted() -> FittedBehaviour:
    return fit_behaviour(random_design(4_000, 5, 7), SIZES)


def test_behaviour_is_found_again(fitted: FittedBehaviour) -> None:
    """Every estimate within 4.5 standard errors of the truth; 4,000 searches of 5 positions.

    `python -m benchmarks Q10` says how often intervals hold over many shops.
    """
    for name in ("intercept", "price", "label", "product", "score", "examination", "purchase_slope"):
        gap = np.asarray(getattr(fitted.estimates, name)) - np.asarray(getattr(TRUTH, name))
        error = np.asarray(getattr(fitted.errors, name))
        assert (np.abs(gap) < 4.5 * error).all(), name
        assert (error < 0.6).all(), name


def test_a_segment_that_clicks_more_is_not_one_that_likes_high_prices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Base rates differ by 2.4 in log odds, slopes by .8, which is found; where segments share a level it is not."""
    design = random_design(4_000, 4, 9, TRUTH._replace(intercept=np.array([-1.0, 1.4])))
    fitted = fit_behaviour(design, SIZES)
    contrast = np.zeros(fitted.layout.size)
    contrast[fitted.layout.places("price")] = [-1.0, 1.0]
    error = np.sqrt(contrast @ fitted.covariance @ contrast)
    assert abs(np.diff(fitted.estimates.price)[0] - 0.8) < 4.5 * error
    for name in ("intercept", "examination", "segment_category"):
        monkeypatch.setitem(KINDS, name, ParameterPooling(1e-3, 1e9, KINDS[name].has_mean))
    broken = fit_behaviour(design, SIZES)
    assert np.ptp(broken.estimates.intercept) < 0.01
    assert abs(np.diff(broken.estimates.price)[0] - 0.8) > 4.5 * error


def test_variances_of_kinds_are_found(fitted: FittedBehaviour) -> None:
    """Products differ by .3; 20 of them tell that to a factor of 1.6."""
    assert 0.3 / 1.6 < fitted.sds["product"] < 0.3 * 1.6
    assert set(fitted.sds) == set(KINDS)


def test_effects_of_a_kind_are_deviations(fitted: FittedBehaviour, monkeypatch: pytest.MonkeyPatch) -> None:
    """They sum to 0, so that a position's examination has its own error, not that of the segments' mean as well."""
    assert np.abs(fitted.estimates.segment_category.sum(axis=1)).max() < 0.01
    for name in ("examination", "query_type", "product"):
        assert abs(getattr(fitted.estimates, name).sum()) < 0.01
    monkeypatch.setattr(search_parameters, "SUM_SD", 1e3)
    broken = fit_behaviour(random_design(4_000, 5, 7), SIZES, start=fitted)
    assert fitted.errors.bias[0, 0] < 0.1 < broken.errors.bias[0, 0]


def test_pooling_draws_effects_to_their_mean_by_the_textbook() -> None:
    """Deviations of 20 with sd .5 that sum to 0; effects of sd .5 around a mean of sd 3."""
    sds = dict.fromkeys(KINDS, 0.5)
    precision = LAYOUT.prior_precision(sds)
    places = LAYOUT.places("product")
    block = np.linalg.inv(precision[np.ix_(places, places)])
    assert block == pytest.approx(0.25 * (np.eye(20) - 1.0 / 20.0), abs=1e-6)
    places = LAYOUT.places("price")
    block = np.linalg.inv(precision[np.ix_(places, places)])
    assert block == pytest.approx(np.array([[9.25, 9.0], [9.0, 9.25]]))  # .5^2 each, and a mean of 3^2 for both


def test_a_step_for_a_kinds_variance_by_hand() -> None:
    """Effects 1 and -1 of a pair around its mean, errors .1^2 each: (2 + .01 + .5^2) / (1 + 1), gone 1.5 times."""
    values = np.zeros(LAYOUT.size)
    values[LAYOUT.places("price")] = [3.0, 1.0]
    covariance = 0.01 * np.eye(LAYOUT.size)
    updated = LAYOUT.updated_sds(values, covariance, {"price": 0.7})
    assert updated["price"] == pytest.approx(0.7 * (np.sqrt((2.0 + 0.01 + 0.25) / 2.0) / 0.7) ** 1.5)
