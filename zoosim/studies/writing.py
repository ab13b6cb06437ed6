"""How studies write means with their intervals, and draw the seeds behind them."""

from collections.abc import Sequence
from math import log10

import plotly.graph_objects as go

from zoosim.evaluation.statistics import Interval, mean_interval
from zoosim.report.drawing import (
    CHARACTER,
    MUTED,
    axis_style,
    dot_style,
    layout_style,
    rgba,
    row_axis_style,
)

ROW = 46  # px


def told(values: Sequence[float], digits: int, *, percent: bool = False, sign: bool = False) -> str:
    """Write the mean of `values`, one a seed, with its 95% interval, as 1.25 (1.10-1.40)."""
    return written(mean_interval(values), digits, percent=percent, sign=sign)


def written(interval: Interval, digits: int, *, percent: bool = False, sign: bool = False) -> str:
    """Write a mean with its interval; a range with signs has a "to" in it."""
    mean, low, high = (None if value is None else _number(value, digits, percent, sign) for value in interval)
    unit = "%" if percent else ""
    return f"{mean}{unit}" if low is None else f"{mean}{unit} ({low}{' to ' if sign else chr(0x2013)}{high})"


def _number(value: float, digits: int, percent: bool, sign: bool) -> str:
    scaled = round(100 * value if percent else value, digits) + 0.0  # no "-0"
    return f"{scaled:{'+' if sign else ''}.{digits}f}"


def extremes(values: Sequence[float], digits: int, *, percent: bool = False) -> str:
    """Write the lowest and the highest of `values`."""
    low, high = (_number(value, digits, percent, False) for value in (min(values), max(values)))
    return f"{low}\u2013{high}"


def rows_figure(labels: Sequence[str], title: str) -> go.Figure:
    """Lay out a figure with a row a label, the first on top, and an axis of numbers called `title`."""
    margin = {"l": 40 + int(CHARACTER * max(map(len, labels))), "r": 40, "t": 30, "b": 54}
    figure = go.Figure(layout=layout_style(height=90 + ROW * len(labels), margin=margin))
    figure.update_xaxes(**axis_style(), title_text=title)
    figure.update_yaxes(**row_axis_style(labels, size=12))
    return figure


def add_seeds(figure: go.Figure, values: Sequence[float], y: float, color: str, name: str, digits: str) -> None:
    """Draw the values of all seeds as pale dots at height y, and above them their mean with its 95% interval."""
    mean, low, high = mean_interval(values)
    pale = {"color": rgba(color, 0.35), "size": 6, "line": {"width": 0}}
    hover = f"{name}: %{{x:{digits}}}<extra></extra>"
    figure.add_scatter(x=list(values), y=[y + 0.14] * len(values), mode="markers", marker=pale, hovertemplate=hover)
    error = {"color": color, "thickness": 2, "width": 0}
    if low is not None and high is not None:
        error |= {"array": [high - mean], "arrayminus": [mean - low]}
    hover = f"{name}: mean {mean:{digits}}<extra></extra>"
    figure.add_scatter(x=[mean], y=[y - 0.14], error_x=error, hovertemplate=hover, **dot_style(color))


def add_mark(figure: go.Figure, x: float, text: str, *, log: bool = False) -> None:
    """Draw a dotted line at x with words on top."""
    figure.add_vline(x=x, line={"color": MUTED, "width": 1, "dash": "dot"})
    words = {"yref": "paper", "yanchor": "bottom", "showarrow": False, "font": {"size": 11, "color": MUTED}}
    figure.add_annotation(x=log10(x) if log else x, y=1.0, text=text, **words)
