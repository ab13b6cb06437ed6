"""Figures that studies share: rows with dots and error bars, and lines with error bars."""

from collections.abc import Mapping, Sequence
from math import log10
from typing import Any

import plotly.graph_objects as go

from zoosim.core.statistics import Interval, mean_interval
from zoosim.report.drawing import CHARACTER, MUTED, axis_style, darker, dot_style, layout_style, rgba, row_axis_style


def rows_figure(labels: Sequence[str], title: str, row: int = 46) -> go.Figure:
    """Lay out a figure with a row a label, `row` px high, the first on top, and an axis of numbers called `title`."""
    margin = {"l": 40 + int(CHARACTER * max(map(len, labels))), "r": 40, "t": 30, "b": 54}
    figure = go.Figure(layout=layout_style(height=90 + row * len(labels), margin=margin))
    figure.update_xaxes(**axis_style(), title_text=title)
    figure.update_yaxes(**row_axis_style(labels, size=12 if row > 30 else 11))
    return figure


def error_bars(intervals: Sequence[Interval], color: str, thickness: float = 1.6) -> dict[str, Any]:
    """Return the error bars of means; those of one seed have none."""
    above = [0.0 if interval.high is None else interval.high - interval.mean for interval in intervals]
    below = [0.0 if interval.low is None else interval.mean - interval.low for interval in intervals]
    bars = {"type": "data", "symmetric": False, "array": above, "arrayminus": below}
    return {**bars, "color": color, "thickness": thickness, "width": 0}


def add_interval(
    figure: go.Figure,
    interval: Interval,
    y: float,
    color: str,
    hover: str,
    *,
    symbol: str = "circle",
    place: Mapping[str, int] | None = None,
) -> None:
    """Draw a mean with its interval as a dot with a bar at height y; `place` names a panel."""
    bars, dot = error_bars([interval], color), dot_style(color, symbol)
    hover += "<extra></extra>"
    figure.add_scatter(x=[interval.mean], y=[y], error_x=bars, hovertemplate=hover, **dot, **(place or {}))


def add_seeds(figure: go.Figure, values: Sequence[float], y: float, color: str, name: str, digits: str) -> None:
    """Draw the values of all seeds as pale dots at height y, and above them their mean with its 95% interval."""
    pale = {"color": rgba(color, 0.35), "size": 6, "line": {"width": 0}}
    hover = f"{name}: %{{x:{digits}}}<extra></extra>"
    figure.add_scatter(x=list(values), y=[y + 0.14] * len(values), mode="markers", marker=pale, hovertemplate=hover)
    mean = mean_interval(values)
    add_interval(figure, mean, y - 0.14, color, f"{name}: mean {mean.mean:{digits}}")


def add_mark(figure: go.Figure, x: float, text: str, *, log: bool = False) -> None:
    """Draw a dotted line at x with words on top."""
    figure.add_vline(x=x, line={"color": MUTED, "width": 1, "dash": "dot"})
    words = {"yref": "paper", "yanchor": "bottom", "showarrow": False, "font": {"size": 11, "color": MUTED}}
    figure.add_annotation(x=log10(x) if log else x, y=1.0, text=text, **words)


def add_line(
    figure: go.Figure, x: Sequence[Any], means: Sequence[Interval], color: str, name: str, digits: str, **extra: Any
) -> None:
    """Draw means over `x` as a line with their intervals."""
    line = {"mode": "lines+markers", "line": {"color": color, "width": 2}, "marker": {"size": 7, "color": color}}
    hover = f"{name}, %{{x}}: %{{y:{digits}}}<extra></extra>"
    y, bars = [mean.mean for mean in means], error_bars(means, color, thickness=1.1)
    figure.add_scatter(x=list(x), y=y, error_y=bars, name=name, hovertemplate=hover, **{**line, **extra})


def add_name(figure: go.Figure, y: float, name: str, color: str, yshift: float = 0.0) -> None:
    """Write a line's name at the right end of a figure, at height y."""
    words = {"text": name, "xanchor": "left", "showarrow": False, "font": {"color": darker(color), "size": 12}}
    figure.add_annotation(x=1.01, xref="paper", y=y, yshift=yshift, **words)
