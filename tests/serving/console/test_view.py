"""What the console says, as plain values."""

from zoosim.core.durations import MICROSECONDS
from zoosim.serving.console.series import ArmPeriod, Period, Series
from zoosim.serving.console.view import MOST_POINTS, earned_curve
from zoosim.serving.events import CHAMPION

TIME = 1_700_000_000 * MICROSECONDS


def test_a_line_has_few_points_which_rest_on_all_decisions() -> None:
    arms = [ArmPeriod(10, 2, {"click": float(number % 2)}) for number in range(200)]
    periods = [Period(TIME + number * 10 * MICROSECONDS, {CHAMPION: arm}) for number, arm in enumerate(arms)]
    curve = earned_curve(Series(periods=periods), {"click": 2.0}, {CHAMPION: 0})
    points = curve.charts[0].lines[0].points.split(" ")
    assert len(points) == 50 <= MOST_POINTS
    assert {point.split(",")[1] for point in points} == {points[0].split(",")[1]}  # 4 periods: 2 clicks of 40, each 2.0
    assert curve.rows[0][1] == "0.1 (40)"
    assert "One point is 40 s." in curve.caption
