"""Line charts of live pages, drawn on the server as SVG: no script, and nothing that a strict policy forbids."""

import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from zoosim.core.durations import DAY, HOUR, MICROSECONDS

LEAST_SPAN = 1e-300
"""Span of values from which on they are told apart: a step between still smaller ones may be 0."""

TICKS = 4
"""Lines across a chart, at most, beside that of zero."""

MARK_LINES, LINE, DIGIT = 3, 12.0, 7.0
"""Lines on which numbers of marks may stand, the height of one, and the width of a digit, in units of the drawing."""

SIZES = ((720, 240), (360, 220))
"""Sizes of a chart: for wide and for narrow screens, in units of the drawing."""

LEFT, RIGHT, TOP, BOTTOM = 52, 12, 14, 26
"""Room around the lines, in units of the drawing."""


class Line(NamedTuple):
    """A line of a chart.

    Attributes:
        name: The name of its arm, or policy.
        place: The place of that among all.
        points: Pairs (x, value), x being a time in microseconds since 1970, or a count.
        band: Triples (x, low, high) between which the line is known to lie; empty for no band.
    """

    name: str
    place: int
    points: Sequence[tuple[int, float]]
    band: Sequence[tuple[int, float, float]] = ()


class Mark(NamedTuple):
    """An x that a chart marks, and its number in the list below."""

    x: int
    number: int


class Drawn(NamedTuple):
    """A line as it is drawn: where it ends, what `<polyline points>` takes, and what `<polygon points>` does."""

    name: str
    place: int
    points: str
    end_x: float
    end_y: float
    band: str


class DrawnMark(NamedTuple):
    """A mark as it is drawn: its line at `x`, and its number at the height `y`; without one where there is no room."""

    x: float
    number: int | None
    y: float


class Label(NamedTuple):
    """A label of an axis, where it stands, and with which part of it, as `text-anchor` says."""

    at: float
    text: str
    anchor: str = "end"


class Chart(NamedTuple):
    """A chart, ready to be written as SVG.

    Attributes:
        width, height: Its size.
        left, right, top, bottom: Where its field lies.
        lines: Its lines.
        marks: Moments that are marked.
        rows: Labels of values, with where they stand.
        columns: Labels of x.
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


class Figure(NamedTuple):
    """A figure: its name in the page, what it shows, a sentence on it, its charts by size, and the table behind it."""

    name: str
    title: str
    caption: str
    charts: list[Chart]
    heads: list[str]
    rows: list[list[str]]


def draw_charts(
    lines: Sequence[Line], marks: Sequence[Mark], label: Callable[[int, int], str] | None = None
) -> list[Chart]:
    """Return a chart for each of `SIZES`, as `draw_chart` does; none where there is nothing to draw."""
    charts = [draw_chart(lines, marks, width, height, label) for width, height in SIZES]
    return [chart for chart in charts if chart is not None]


def draw_chart(
    lines: Sequence[Line],
    marks: Sequence[Mark],
    width: int,
    height: int,
    label: Callable[[int, int], str] | None = None,
) -> Chart | None:
    """Return a chart of lines from zero on; None where there is nothing to draw.

    Args:
        lines: The lines.
        marks: What is to be marked; what lies outside of the lines is left out.
        width, height: Its size, in units of the drawing.
        label: Returns the label of an x, given how far all of them reach; by default of a time.
    """
    field = _field_of(lines, width - RIGHT, height - BOTTOM)
    if field is None:
        return None
    marked = [(field.x(mark.x), mark.number) for mark in marks if field.first <= mark.x <= field.last]
    return Chart(
        width,
        height,
        LEFT,
        field.right,
        TOP,
        field.bottom,
        [_drawn(line, field) for line in lines if any(math.isfinite(value) for _, value in line.points)],
        _drawn_marks(marked),
        _row_labels(field),
        _column_labels(field, 5 if width > 500 else 3, label),
    )


class _Field(NamedTuple):
    """The field of a chart: which x and values it reaches over, in steps of which size, and where it ends."""

    first: int
    last: int
    low: float
    high: float
    step: float
    right: float
    bottom: float

    def x(self, x: int) -> float:
        return round(LEFT + (self.right - LEFT) * (x - self.first) / (self.last - self.first), 1)

    def y(self, value: float) -> float:
        return round(self.bottom - (self.bottom - TOP) * (value - self.low) / (self.high - self.low), 1)


def _field_of(lines: Sequence[Line], right: float, bottom: float) -> _Field | None:
    """Return the field over all points and bands, from zero on; None where there are no two x."""
    points = [point for line in lines for point in line.points if math.isfinite(point[1])]
    places = {x for x, _ in points}
    if len(places) < 2:
        return None
    ends = [end for line in lines for _, *both in line.band for end in both if math.isfinite(end)]
    values = [*(value for _, value in points), *ends]
    least = min(0.0, *values)
    most = max(values)
    step = _round_step((max(0.0, most) - least) or 1.0)
    low = math.floor(least / step) * step
    high = max(math.ceil(most / step) * step, low + step)
    return _Field(min(places), max(places), low, high, step, right, bottom)


def _drawn(line: Line, field: _Field) -> Drawn:
    places = [(field.x(x), field.y(value)) for x, value in line.points if math.isfinite(value)]
    band = [each for each in line.band if all(map(math.isfinite, each))]
    around = [(field.x(x), field.y(top)) for x, _, top in band]
    around += [(field.x(x), field.y(end)) for x, end, _ in reversed(band)]
    return Drawn(line.name, line.place, _written(places), *places[-1], _written(around))


def _row_labels(field: _Field) -> list[Label]:
    values = [field.low + number * field.step for number in range(round((field.high - field.low) / field.step) + 1)]
    return [Label(field.y(value), f"{value:.6g}") for value in values]


def _column_labels(field: _Field, count: int, label: Callable[[int, int], str] | None) -> list[Label]:
    """Return about so many labels: of times, or what `label` makes of round numbers."""
    first, last = field.first, field.last
    places = _spread(first, last, count) if label is None else _round_places(first, last, count)
    write = label or time_label
    anchors = {first: "start", last: "end"}
    return [Label(field.x(x), write(x, last - first), anchors.get(x, "middle")) for x in places]


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


def _written(places: Sequence[tuple[float, float]]) -> str:
    """Return places as SVG has them."""
    return " ".join(f"{x:g},{y:g}" for x, y in places)


def _spread(first: int, last: int, count: int) -> list[int]:
    return [first + (last - first) * number // (count - 1) for number in range(count)]


def _round_places(first: int, last: int, count: int) -> list[int]:
    """Return about so many round numbers from the first to the last."""
    step = max(round(_round_step((last - first) * TICKS / count)), 1)
    return list(range(math.ceil(first / step) * step, last + 1, step))


def _round_step(span: float) -> float:
    """Return the smallest of 1, 2, 5, 10 ... of which a few make a span."""
    raw = max(span, LEAST_SPAN) / TICKS
    power = 10.0 ** math.floor(math.log10(raw))
    return next(factor * power for factor in (1.0, 2.0, 5.0, 10.0) if factor * power >= raw)
