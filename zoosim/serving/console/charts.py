"""Line charts of the console, drawn on the server as SVG: no script, and nothing that a strict policy forbids."""

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from zoosim.core.durations import DAY, HOUR, MICROSECONDS

LEAST_SPAN = 1e-300
"""Span of values from which on they are told apart: a step between still smaller ones may be 0."""

TICKS = 4
"""Lines across a chart, at most, beside that of zero."""

MARK_LINES, LINE, DIGIT = 3, 12.0, 7.0
"""Lines on which numbers of marks may stand, the height of one, and the width of a digit, in units of the drawing."""

LEFT, RIGHT, TOP, BOTTOM = 52, 12, 14, 26
"""Room around the lines, in units of the drawing."""


class Line(NamedTuple):
    """A line of a chart: the name of its arm, its place among the arms, and points (time in microseconds, value)."""

    name: str
    place: int
    points: Sequence[tuple[int, float]]


class Mark(NamedTuple):
    """A moment that a chart marks, and its number in the list below."""

    time: int
    number: int


class Drawn(NamedTuple):
    """A line as it is drawn: where it ends, and what `<polyline points>` takes."""

    name: str
    place: int
    points: str
    end_x: float
    end_y: float


class DrawnMark(NamedTuple):
    """A mark as it is drawn: its line at `x`, and its number at the height `y`; without one where there is no room."""

    x: float
    number: int | None
    y: float


class Label(NamedTuple):
    """A label of an axis, and where it stands."""

    at: float
    text: str


class Chart(NamedTuple):
    """A chart, ready to be written as SVG.

    Attributes:
        width, height: Its size.
        left, right, top, bottom: Where its field lies.
        lines: Its lines.
        marks: Moments that are marked.
        rows: Labels of values, with where they stand.
        columns: Labels of times.
    """

    width: int
    height: int
    left: float
    right: float
    top: float
    bottom: float
    lines: list[Drawn]
    marks: list[DrawnMark]
    rows: list[Label]
    columns: list[Label]


def draw_chart(lines: Sequence[Line], marks: Sequence[Mark], width: int, height: int) -> Chart | None:
    """Return a chart of lines over time from zero on; None where there is nothing to draw.

    Args:
        lines: The lines.
        marks: Moments to be marked, those outside of the lines' time are left out.
        width, height: Its size, in units of the drawing.
    """
    points = [point for line in lines for point in line.points if math.isfinite(point[1])]
    if len({time for time, _ in points}) < 2:
        return None
    first = min(time for time, _ in points)
    last = max(time for time, _ in points)
    least = min(0.0, *(value for _, value in points))
    step = _round_step((max(0.0, *(value for _, value in points)) - least) or 1.0)
    low = math.floor(least / step) * step
    most = max(value for _, value in points)
    high = max(math.ceil(most / step) * step, low + step)
    right, bottom = width - RIGHT, height - BOTTOM

    def x_of(time: int) -> float:
        return round(LEFT + (right - LEFT) * (time - first) / (last - first), 1)

    def y_of(value: float) -> float:
        return round(bottom - (bottom - TOP) * (value - low) / (high - low), 1)

    drawn = []
    for line in lines:
        places = [(x_of(time), y_of(value)) for time, value in line.points if math.isfinite(value)]
        if places:
            drawn.append(Drawn(line.name, line.place, " ".join(f"{x:g},{y:g}" for x, y in places), *places[-1]))
    count = round((high - low) / step)
    rows = [Label(y_of(low + number * step), f"{low + number * step:.6g}") for number in range(count + 1)]
    columns = [
        Label(x_of(time), time_label(time, last - first)) for time in _times(first, last, 5 if width > 500 else 3)
    ]
    shown_marks = _drawn_marks([(x_of(mark.time), mark.number) for mark in marks if first <= mark.time <= last])
    return Chart(width, height, LEFT, right, TOP, bottom, drawn, shown_marks, rows, columns)


def time_label(time: int, span: int) -> str:
    """Return a time, in microseconds since 1970, as exactly as a span of so many asks for."""
    moment = datetime.fromtimestamp(time / MICROSECONDS, UTC)
    if span > 3 * DAY:
        return f"{moment:%d %b}"
    if span > DAY:
        return f"{moment:%d %b %H:%M}"
    return f"{moment:%H:%M}" if span > HOUR / 3 else f"{moment:%H:%M:%S}"


def _drawn_marks(places: Sequence[tuple[float, int]]) -> list[DrawnMark]:
    """Return marks whose numbers stand beside each other, or below where they would lie on one another."""
    ends = [-math.inf] * MARK_LINES  # where the last number of each line ends
    drawn = []
    for x, number in places:
        width = 6.0 + DIGIT * len(f"{number}")
        free = [line for line, end in enumerate(ends) if x >= end]
        if free:
            ends[free[0]] = x + width
        drawn.append(DrawnMark(x, number if free else None, TOP + 4 + LINE * free[0] if free else TOP))
    return drawn


def _times(first: int, last: int, count: int) -> list[int]:
    return [first + (last - first) * number // (count - 1) for number in range(count)]


def _round_step(span: float) -> float:
    """Return the smallest of 1, 2, 5, 10 ... of which a few make a span."""
    raw = max(span, LEAST_SPAN) / TICKS
    power = 10.0 ** math.floor(math.log10(raw))
    return next(factor * power for factor in (1.0, 2.0, 5.0, 10.0) if factor * power >= raw)
