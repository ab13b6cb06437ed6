"""A forecast is held where it and what came agree within the intervals of both."""

import json
import math

import numpy as np
import pytest

from tests.core.test_forecasts import forecast
from zoosim.core.forecasts import decisions_to_score
from zoosim.serving.forecasts.scores import EARLY, HELD, MISSED, score_of_mean


def test_a_forecast_is_scored_within_both_intervals() -> None:
    # A standard error of .0433 reaches .0849 to each side with 95%.
    error = 0.0433
    scored = score_of_mean(forecast(value=0.35, low=0.29, high=0.41, horizon=100), 100, 0.25, error, 0.0)
    assert (scored.outcome, scored.decisions, scored.came) == (HELD, 100, 0.25)
    # .36 less the root of .06^2 + .0849^2 is .2560: above what came.
    too_high = forecast(value=0.36, low=0.3, high=0.42, horizon=100)
    too_low = forecast(value=0.14, low=0.08, high=0.2, horizon=100)
    assert score_of_mean(too_high, 100, 0.25, error, 0.0).outcome == MISSED
    assert score_of_mean(too_low, 100, 0.25, error, 0.0).outcome == MISSED
    assert "held" in scored.sentence
    assert json.loads(json.dumps(scored.as_dict()))["came"] == 0.25


def test_forecasts_hold_as_often_as_they_say() -> None:
    """Of click rates by 2,000 rows of a log, 95% hold at the horizon, and at ten times that."""
    rng = np.random.default_rng(0)
    n = 1_000
    for more in (1, 10):
        held = 0
        for _ in range(n):
            rate = rng.binomial(2_000, 0.1) / 2_000
            half = 1.96 * math.sqrt(rate * (1.0 - rate) / 2_000)
            horizon = more * decisions_to_score(math.sqrt(rate * (1.0 - rate)), half, 1.96)
            said = forecast(value=rate, low=rate - half, high=rate + half, horizon=horizon)
            came = rng.binomial(horizon, 0.1) / horizon
            error = math.sqrt(came * (1.0 - came) / horizon)
            held += score_of_mean(said, horizon, came, error, 0.0).outcome == HELD
        assert abs(held / n - 0.95) < 4.0 * np.sqrt(0.95 * 0.05 / n), more


def test_it_is_too_early_before_the_horizon() -> None:
    early = score_of_mean(forecast(horizon=100), 52, 1.0, 0.0, 24.0)
    assert (early.outcome, early.decisions, early.came) == (EARLY, 52, 1.0)
    assert early.reason == "needs 48 more decisions, about 2.0 days"
    nobody = score_of_mean(forecast(horizon=100), 0, 0.0, 0.0, 0.0)
    assert (nobody.outcome, nobody.reason) == (EARLY, "needs 100 more decisions")
    assert nobody.came is None


def test_the_sentence_says_what_and_by_whom() -> None:
    scored = score_of_mean(forecast(policy="linucb", about="a drop of 20%"), 1_000, 0.1, 0.01, 0.0)
    assert scored.sentence == ("linucb: click, reward per visit, a drop of 20%: 0.1 (0.09 to 0.12); 0.1 came: held")
    assert scored.as_dict()["error"] == pytest.approx(0.01)
