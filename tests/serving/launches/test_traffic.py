"""How many visitors come per hour."""

import pytest

from zoosim.core.durations import DAY, HOUR
from zoosim.serving.launches.traffic import Traffic


def test_those_of_the_last_day_count_most() -> None:
    traffic = Traffic()
    assert traffic.per_hour(0) == 0.0
    time = 1_764_000_000_000_000
    for _ in range(2_000):
        traffic.come(time)
        time += HOUR // 20
    assert traffic.per_hour(time) == pytest.approx(20.0, rel=0.01)
    for _ in range(24 * 3 * 5):
        traffic.come(time)
        time += HOUR // 5
    # Of what is counted, 1 / e^3 is of the time when 20 came per hour: 5 + 15 x .05 is 5.75.
    assert traffic.per_hour(time) == pytest.approx(5.74, rel=0.01)
    assert traffic.per_hour(time + 10 * DAY) < 0.01
