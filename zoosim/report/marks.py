"""Dots with their intervals, and figures of rows of them."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import plotly.graph_objects as go

from zoosim.core.number_format import with_interval
from zoosim.core.statistics import Interval
from zoosim.report.drawing import (
    CHARACTER,
    MUTED,
    NAME,
    axis_style,
    dot_style,
    error_bar,
    escaped,
    label_of,
    layout_style,
    legend_style,
    row_axis_style,
    shortened,
)

FEW = 200
"""Whole numbers on an axis up to which each, or each tenth, has a tick."""

APART = 0.28
"""Distance of the marks of one row, in rows."""


class Mark(NamedTuple):
    """A value with its interval, drawn in a colour; `name` and `note` are read when one points at it."""

    name: str
    value: Interval
    color: str
    note: str = ""
    symbol: str = "circle"


def add_mark(figure: go.Figure, mark: Mark, y: float, **place: Any) -> None:
    """Draw a mark at the height of a row of a figure, or of its panel at a `place`; an end that is open has no bar."""
    mean, low, high = mark.value
    written = with_interval(mean, low, high)
    words = f"{escaped(mark.name)}: {written.value if low is None and high is None else written}"
    if mark.note:
        words += f"<br>{escaped(mark.note)}"
    bar = error_bar(mean, *(end if end is not None and math.isfinite(end) else None for end in (low, high)))
    dot = dot_style(mark.color, mark.symbol)
    figure.add_scatter(x=[mean], y=[y], error_x=bar, hovertemplate=f"{words}<extra></extra>", **dot, **place)


class Line(NamedTuple):
    """Values `y` at places `x`, drawn in a colour; as dots where they have intervals, from `low` to `high`."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    color: str
    low: Sequence[float] = ()
    high: Sequence[float] = ()


def lines_figure(lines: Sequence[Line], x_title: str, y_title: str) -> go.Figure:
    """Draw lines over whole numbers, from 0 or from below it; those with intervals as dots."""
    figure = go.Figure(layout=layout_style(height=320, margin={"l": 64, "r": 24, "t": 40, "b": 54}))
    for line in lines:
        style: dict[str, Any] = {"mode": "lines", "line": {"color": line.color, "width": 2}}
        if line.low:
            up = [high - value for high, value in zip(line.high, line.y, strict=True)]
            down = [value - low for low, value in zip(line.low, line.y, strict=True)]
            style = dot_style(line.color) | {"error_y": {"array": up, "arrayminus": down, "thickness": 1.8, "width": 0}}
        name = escaped(line.name)
        hover = f"{name}, {x_title} %{{x:.0f}}: %{{y:.4g}}<extra></extra>"
        figure.add_scatter(x=list(line.x), y=list(line.y), name=name, hovertemplate=hover, **style)
    figure.update_xaxes(**axis_style(), title_text=x_title, dtick=_tick(lines[0].x), ticklabelstandoff=8)
    figure.update_yaxes(**axis_style(), title_text=y_title, rangemode="tozero")
    figure.update_layout(legend_style(1.02, MUTED))
    return figure


def _tick(x: Sequence[float]) -> float | None:
    """Return how far ticks lie apart on an axis of few whole numbers; None: as plotly likes."""
    return max(1, len(x) // 10) if max(x) <= FEW else None


def marks_figure(rows: Mapping[str, Sequence[Mark]], title: str) -> go.Figure:
    """Draw the marks of each row below each other, on an axis with a title."""
    width = CHARACTER * max(len(shortened(name, NAME)) for name in rows)
    margin = {"l": width + 24, "r": 24, "t": 12, "b": 54}
    figure = go.Figure(layout=layout_style(height=80 + 44 * len(rows), margin=margin))
    for row, marks in enumerate(rows.values()):
        for number, mark in enumerate(marks):
            add_mark(figure, mark, row + APART * (number - (len(marks) - 1) / 2))
    figure.update_yaxes(**row_axis_style([label_of(name, NAME) for name in rows], size=12))
    figure.update_xaxes(**axis_style(), rangemode="tozero", title_text=title)
    return figure
