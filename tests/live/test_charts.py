"""Charts of the console: where lines, labels and marks stand."""

import math

import pytest

from zoosim.core.durations import DAY, HOUR, MICROSECONDS
from zoosim.live.charts import BOTTOM, LEFT, RIGHT, TOP, Line, Mark, draw_chart, time_label

WIDTH, HEIGHT = 720, 240


def test_a_line_spans_the_chart_from_zero_to_a_round_number() -> None:
    chart = draw_chart([Line("a", 0, [(0, 0.0), (100, 0.8)])], [], WIDTH, HEIGHT)
    assert chart is not None
    assert [label.text for label in chart.rows] == ["0", "0.2", "0.4", "0.6", "0.8"]
    assert chart.lines[0].points == f"{LEFT},{HEIGHT - BOTTOM} {WIDTH - RIGHT},{TOP}"


def test_values_below_zero_have_room() -> None:
    chart = draw_chart([Line("a", 0, [(0, -3.0), (100, 5.0)])], [], WIDTH, HEIGHT)
    assert chart is not None
    assert [float(label.text) for label in chart.rows] == [-4.0, -2.0, 0.0, 2.0, 4.0, 6.0]


def test_marks_outside_of_the_time_are_left_out() -> None:
    marks = [Mark(-1, 1), Mark(50, 2), Mark(101, 3)]
    chart = draw_chart([Line("a", 0, [(0, 1.0), (100, 1.0)])], marks, WIDTH, HEIGHT)
    assert chart is not None
    assert [(mark.number, mark.x) for mark in chart.marks] == [(2, (LEFT + WIDTH - RIGHT) / 2)]


def test_what_is_no_number_is_left_out() -> None:
    lines = [Line("a", 0, [(0, 1.0), (50, math.nan), (100, 2.0)]), Line("b", 1, [(50, math.nan)])]
    chart = draw_chart(lines, [], WIDTH, HEIGHT)
    assert chart is not None
    assert [line.name for line in chart.lines] == ["a"]
    assert chart.lines[0].points.count(",") == 2


@pytest.mark.parametrize("points", [[], [(5, 1.0)], [(5, math.nan), (6, math.nan)]])
def test_without_two_moments_there_is_nothing_to_draw(points: list[tuple[int, float]]) -> None:
    assert draw_chart([Line("a", 0, points)], [], WIDTH, HEIGHT) is None


def test_zeros_alone_are_drawn() -> None:
    chart = draw_chart([Line("a", 0, [(0, 0.0), (100, 0.0)])], [], WIDTH, HEIGHT)
    assert chart is not None
    assert chart.lines[0].end_y == HEIGHT - BOTTOM


def test_the_smallest_number_of_all_is_drawn() -> None:
    """Any reward may be it, and somebody who sends one must not hide the page from others."""
    chart = draw_chart([Line("a", 0, [(0, 0.0), (100, 5e-324)])], [], WIDTH, HEIGHT)
    assert chart is not None
    assert chart.lines[0].end_y == HEIGHT - BOTTOM


@pytest.mark.parametrize(
    ("span", "label"),
    [(4 * DAY, "14 Nov"), (2 * DAY, "14 Nov 22:13"), (HOUR, "22:13"), (60 * MICROSECONDS, "22:13:20")],
)
def test_times_are_as_exact_as_their_span(span: int, label: str) -> None:
    assert time_label(1_700_000_000 * MICROSECONDS, span) == label


def test_numbers_of_marks_do_not_lie_on_each_other() -> None:
    lines = [Line("champion", 0, [(0, 1.0), (1_000, 1.0)])]
    marks = [Mark(time, number) for number, time in enumerate([0, 5, 10, 11, 500], 8)]
    chart = draw_chart(lines, marks, 720, 240)
    assert chart is not None
    assert [mark.number for mark in chart.marks] == [8, 9, 10, None, 12]  # three lines of numbers are full
    heights = [mark.y for mark in chart.marks if mark.number]
    assert heights[0] < heights[1] < heights[2]
    assert heights[3] == heights[0]
