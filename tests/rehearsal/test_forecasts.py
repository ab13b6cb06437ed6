"""What a rehearsal forecasts holds in a further shop as often as it says."""

import numpy as np
import pytest

from zoosim.rehearsal.forecasts import forecast_of


def test_the_interval_is_that_of_a_further_shop() -> None:
    # Mean 2, deviation 1, of 3 shops: 4.3027 x sqrt(1 + 1/3) to each side (Student's t of 2 degrees).
    forecast = forecast_of("linear", "click", np.array([1.0, 2.0, 3.0]), 50_000)
    assert (forecast.value, forecast.horizon) == (2.0, 50_000)
    assert forecast.high - forecast.value == pytest.approx(4.3027 * np.sqrt(4 / 3), rel=1e-4)
    assert forecast.value - forecast.low == pytest.approx(forecast.high - forecast.value)


def test_it_holds_in_nineteen_of_twenty_shops() -> None:
    rng = np.random.default_rng(0)
    n = 2_000
    held = 0
    for *seen, further in rng.normal(size=(n, 6)):
        forecast = forecast_of("linear", "click", np.array(seen), 1)
        held += forecast.low <= further <= forecast.high
    assert abs(held / n - 0.95) < 4.0 * np.sqrt(0.95 * 0.05 / n)
