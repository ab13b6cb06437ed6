"""Learning curves with lines, for all visits and a panel a segment."""

from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from studies.boost_curves.learners import LEARNERS
from studies.boost_curves.lines import CELL, CONSTANT, NEUTRAL, OPTIMUM, SINGLE
from studies.boost_curves.summary import (
    Rows,
    checkpoints_in,
    learners_in,
    lines_in,
    reward,
    segments_in,
    share,
)
from zoosim.core.statistics import Interval
from zoosim.report.drawing import (
    COLORS,
    GREYS,
    INK,
    LINE_HEIGHT,
    MUTED,
    axis_style,
    darker,
    grid_of,
    layout_style,
    panel_of,
    rgba,
    spread_apart,
)

DRAWN = (OPTIMUM, CONSTANT, CELL, SINGLE, NEUTRAL)
IN_PANELS = {CONSTANT: "dashdot", CELL: "dot"}
HEIGHT, MARGIN = 500, {"l": 64, "r": 200, "t": 16, "b": 54}
PANEL, ACROSS = 240, 2
"""The height of a panel in px, and how many stand side by side."""


def curves_figure(rows: Rows, laws: str) -> go.Figure:
    """Draw the share of the optimum by visits, a line a learner, with what can be reached as dotted lines."""
    figure = go.Figure(layout=layout_style(height=HEIGHT, margin=MARGIN))
    checkpoints, ends = checkpoints_in(rows, laws), list[tuple[float, str, str]]()
    for name in (name for name in DRAWN if name in lines_in(rows, laws)):
        level = _mean(share(rows, name, laws))
        figure.add_hline(y=level, line={"width": 1.5, "dash": "dot", "color": GREYS[0]})
        ends.append((level, name, MUTED))
    for who in learners_in(rows, laws):
        means = [share(rows, who, laws, n) for n in checkpoints]
        _add_band(figure, checkpoints, means, _color(who))
        _add_curve(figure, who, checkpoints, means)
        ends.append((_mean(means[-1]), who, darker(_color(who))))
    bounds = _bounds(figure)
    figure.update_xaxes(**_visits_axis(checkpoints))
    figure.update_yaxes(**axis_style(), range=bounds, tickformat=".0%", dtick=0.1, title_text="% of the optimum")
    _add_labels(figure, ends, bounds)
    return figure


def segments_figure(rows: Rows, laws: str) -> go.Figure:
    """Draw the same for each segment, in units of its own optimum."""
    segments, checkpoints = segments_in(rows, laws), checkpoints_in(rows, laws)
    worth = [f"{name}: optimum EUR {reward(rows, OPTIMUM, laws, 0, name).mean:.2f} a visit" for name in segments]
    n_rows, columns = grid_of(len(segments), ACROSS)
    gaps = {"horizontal_spacing": 0.06, "vertical_spacing": 0.34 / n_rows if n_rows > 1 else None}
    figure = make_subplots(n_rows, columns, subplot_titles=worth, shared_yaxes=True, **gaps)
    for number, segment in enumerate(segments):
        place, first = panel_of(number, len(segments), ACROSS), number == 0
        for name, dash in ((name, dash) for name, dash in IN_PANELS.items() if name in lines_in(rows, laws)):
            level, line = share(rows, name, laws, 0, segment), {"color": GREYS[2], "dash": dash, "width": 1.5}
            if level is not None:
                ends = [checkpoints[0], checkpoints[-1]]
                style: dict[str, Any] = {"mode": "lines", "line": line, "name": name, "showlegend": first}
                figure.add_scatter(x=ends, y=[level.mean] * 2, hovertemplate=_hover(name), **style, **place)
        for who in learners_in(rows, laws):
            means = [share(rows, who, laws, n, segment) for n in checkpoints]
            _add_curve(figure, who, checkpoints, means, name=who, showlegend=first, **place)
    legend = {"orientation": "h", "y": 1.0, "yref": "container", "yanchor": "top", "x": 0, "font": {"color": MUTED}}
    height = n_rows * PANEL + 150
    margin = {"l": 64, "r": 16, "t": 96, "b": 54}
    figure.update_layout(**layout_style(height=height, margin=margin, showlegend=True, legend=legend))
    figure.update_annotations(font={"size": 12, "color": INK})
    figure.update_xaxes(**_visits_axis(checkpoints))
    figure.update_yaxes(**axis_style(), range=_bounds(figure), tickformat=".0%", dtick=0.2)
    figure.update_yaxes(title_text="% of its optimum", col=1)
    return figure


def _add_curve(
    figure: go.Figure, who: str, visits: Sequence[int], means: Sequence[Interval | None], **extra: Any
) -> None:
    x, y = zip(*((n, mean.mean) for n, mean in zip(visits, means, strict=True) if mean is not None), strict=True)
    line = {"color": _color(who), "width": 2, "dash": "dash" if LEARNERS[who].discrete else "solid"}
    marker = {"size": 6, "color": _color(who)}
    figure.add_scatter(
        x=x, y=y, mode="lines+markers", line=line, marker=marker, hovertemplate=_hover(who), **{"name": who, **extra}
    )


def _add_band(figure: go.Figure, visits: Sequence[int], means: Sequence[Interval | None], color: str) -> None:
    ends = [(n, i.low, i.high) for n, i in zip(visits, means, strict=True) if i is not None and i.low is not None]
    if ends:
        x, low, high = zip(*ends, strict=True)
        band = {"fill": "toself", "fillcolor": rgba(color, 0.13), "line_width": 0, "hoverinfo": "skip", "mode": "lines"}
        figure.add_scatter(x=[*x, *x[::-1]], y=[*high, *low[::-1]], **band)


def _add_labels(figure: go.Figure, ends: list[tuple[float, str, str]], bounds: tuple[float, float]) -> None:
    """Write names at the right, as near to the ends of their lines as there is room."""
    inner = HEIGHT - MARGIN["t"] - MARGIN["b"]
    scale, ends = inner / (bounds[1] - bounds[0]), sorted(ends, reverse=True)
    wanted = [(bounds[1] - level) * scale for level, _, _ in ends]
    for (level, name, color), want, place in zip(ends, wanted, spread_apart(wanted, LINE_HEIGHT, inner), strict=True):
        leader = {"showarrow": True, "arrowhead": 0, "arrowwidth": 1, "arrowcolor": color, "ax": 26, "ay": place - want}
        label = {"text": f"{name} {100 * level:.1f}", "xanchor": "left", "font": {"color": color, "size": 12}}
        figure.add_annotation(x=1.0, xref="paper", y=level, **label, **leader)


def _visits_axis(checkpoints: Sequence[int]) -> dict[str, Any]:
    ticks = {"tickvals": list(checkpoints), "ticktext": [f"{n:,}" for n in checkpoints]}
    return {**axis_style(), "type": "log", **ticks, "title_text": "visits, on a log scale"}


def _bounds(figure: go.Figure) -> tuple[float, float]:
    """Return a range that holds 0, 1 and all curves; bands may go beyond it."""
    values = [value for trace in figure.data if trace.fill is None for value in trace.y]
    return (min(0.0, *values) - 0.02, max(1.0, *values) + 0.04)


def _hover(name: str) -> str:
    return f"{name}, %{{x:,}} visits: %{{y:.1%}}<extra></extra>"


def _color(who: str) -> str:
    return COLORS[list(LEARNERS).index(who) % len(COLORS)]


def _mean(interval: Interval | None) -> float:
    return float("nan") if interval is None else interval.mean
