"""Dots with their intervals, and figures of rows of them."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import plotly.graph_objects as go

from zoosim.core.number_format import ends
from zoosim.core.statistics import Interval
from zoosim.report.drawing import (
    CHARACTER,
    NAME,
    axis_style,
    dot_style,
    error_bar,
    escaped,
    label_of,
    layout_style,
    row_axis_style,
    shortened,
)

APART = 0.28
"""How far marks of one row lie apart, in rows."""


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
    words = f"{escaped(mark.name)}: {mean:.5g}"
    if low is not None or high is not None:
        words += f" ({ends(low, high, 5)})"
    if mark.note:
        words += f"<br>{escaped(mark.note)}"
    bar = error_bar(mean, *(end if end is not None and math.isfinite(end) else None for end in (low, high)))
    dot = dot_style(mark.color, mark.symbol)
    figure.add_scatter(x=[mean], y=[y], error_x=bar, hovertemplate=f"{words}<extra></extra>", **dot, **place)


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
