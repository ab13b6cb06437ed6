"""The figures of the study of boost learning: learning curves with baselines, overall and by segment."""

from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from studies.boost_curves.baselines import CONSTANT, NEUTRAL, OPTIMUM, per_cell
from studies.boost_curves.learners import LEARNERS
from studies.boost_curves.summary import (
    Rows,
    baselines_in,
    checkpoints_in,
    learners_in,
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

DRAWN = (OPTIMUM, CONSTANT, per_cell("vectors"), per_cell("rules"), NEUTRAL)
IN_PANELS = {CONSTANT: "dashdot", per_cell("vectors"): "dot"}
"""Baselines in the figure of all visits, and in the panels of segments with their dashes."""

HEIGHT = 500
MARGIN = {"l": 64, "r": 200, "t": 16, "b": 54}

PANEL_HEIGHT = 240
COLUMNS = 2
"""Height in px of a segment's panel, and how many stand side by side."""


def drawn_in(rows: Rows, behaviour: str) -> list[str]:
    """Return the learners that figures show: of the bandits over each library, Thompson sampling alone."""
    measured = learners_in(rows, behaviour)
    return [name for name in measured if not LEARNERS[name].library or LEARNERS[name].policy == "template-ts"]


def curves_figure(rows: Rows, behaviour: str) -> go.Figure:
    """Draw the share of the optimum by visits, a line per learner, with baselines as dotted lines."""
    figure = go.Figure(layout=layout_style(height=HEIGHT, margin=MARGIN))
    checkpoints = checkpoints_in(rows, behaviour)
    ends: list[tuple[float, str, str]] = []
    for name in (name for name in DRAWN if name in baselines_in(rows, behaviour)):
        level = _mean(share(rows, name, behaviour))
        figure.add_hline(y=level, line={"width": 1.5, "dash": "dot", "color": GREYS[0]})
        ends.append((level, name, MUTED))
    for policy in drawn_in(rows, behaviour):
        means = [share(rows, policy, behaviour, n) for n in checkpoints]
        _add_band(figure, checkpoints, means, _color(policy))
        _add_curve(figure, policy, checkpoints, means)
        ends.append((_mean(means[-1]), policy, darker(_color(policy))))
    bounds = _bounds(figure)
    figure.update_xaxes(**_visits_axis(checkpoints))
    figure.update_yaxes(**axis_style(), range=bounds, tickformat=".0%", dtick=0.1, title_text="% of the optimum")
    _add_labels(figure, ends, bounds)
    return figure


def segments_figure(rows: Rows, behaviour: str) -> go.Figure:
    """Draw a panel per segment: learners' shares of the segment's own optimum by visits, with baselines."""
    segments = segments_in(rows, behaviour)
    checkpoints = checkpoints_in(rows, behaviour)
    titles = [
        f"{name}: optimum EUR {reward(rows, OPTIMUM, behaviour, 0, name).mean:.2f} per visit" for name in segments
    ]
    n_rows, columns = grid_of(len(segments), COLUMNS)
    gaps = {"horizontal_spacing": 0.06, "vertical_spacing": 0.34 / n_rows if n_rows > 1 else None}
    figure = make_subplots(n_rows, columns, subplot_titles=titles, shared_yaxes=True, **gaps)
    measured = baselines_in(rows, behaviour)
    for number, segment in enumerate(segments):
        panel = {**panel_of(number, len(segments), COLUMNS), "showlegend": number == 0}
        for name, dash in IN_PANELS.items():
            level = share(rows, name, behaviour, 0, segment) if name in measured else None
            if level is not None:
                _add_level(figure, name, (checkpoints[0], checkpoints[-1]), level.mean, dash, panel)
        for policy in drawn_in(rows, behaviour):
            means = [share(rows, policy, behaviour, n, segment) for n in checkpoints]
            _add_curve(figure, policy, checkpoints, means, name=policy, **panel)
    legend = {"orientation": "h", "y": 1.0, "yref": "container", "yanchor": "top", "x": 0, "font": {"color": MUTED}}
    height = n_rows * PANEL_HEIGHT + 150
    margin = {"l": 64, "r": 16, "t": 96, "b": 54}
    figure.update_layout(**layout_style(height=height, margin=margin, showlegend=True, legend=legend))
    figure.update_annotations(font={"size": 12, "color": INK})
    figure.update_xaxes(**_visits_axis(checkpoints))
    figure.update_yaxes(**axis_style(), range=_bounds(figure), tickformat=".0%", dtick=0.2)
    figure.update_yaxes(title_text="% of its optimum", col=1)
    return figure


def _add_level(
    figure: go.Figure, name: str, visits: tuple[int, int], level: float, dash: str, panel: dict[str, Any]
) -> None:
    """Draw a baseline from the first to the last of `visits`."""
    line = {"color": GREYS[2], "dash": dash, "width": 1.5}
    figure.add_scatter(
        x=list(visits), y=[level] * 2, mode="lines", line=line, name=name, hovertemplate=_hover(name), **panel
    )


def _add_curve(
    figure: go.Figure, policy: str, visits: Sequence[int], means: Sequence[Interval | None], **extra: Any
) -> None:
    points = [(n, mean.mean) for n, mean in zip(visits, means, strict=True) if mean is not None]
    x, y = zip(*points, strict=True)
    line = {"color": _color(policy), "width": 2, "dash": "dash" if LEARNERS[policy].library else "solid"}
    marker = {"size": 6, "color": _color(policy)}
    figure.add_scatter(
        x=x,
        y=y,
        mode="lines+markers",
        line=line,
        marker=marker,
        hovertemplate=_hover(policy),
        **{"name": policy, **extra},
    )


def _add_band(figure: go.Figure, visits: Sequence[int], means: Sequence[Interval | None], color: str) -> None:
    ends = [(n, i.low, i.high) for n, i in zip(visits, means, strict=True) if i is not None and i.low is not None]
    if ends:
        x, low, high = zip(*ends, strict=True)
        band = {"fill": "toself", "fillcolor": rgba(color, 0.13), "line_width": 0, "hoverinfo": "skip", "mode": "lines"}
        figure.add_scatter(x=[*x, *x[::-1]], y=[*high, *low[::-1]], **band)


def _add_labels(figure: go.Figure, ends: list[tuple[float, str, str]], bounds: tuple[float, float]) -> None:
    """Write names at the right, as near to the ends of their lines as there is room."""
    inner_height = HEIGHT - MARGIN["t"] - MARGIN["b"]
    low, high = bounds
    scale = inner_height / (high - low)
    ends = sorted(ends, reverse=True)
    line_ends = [(high - level) * scale for level, _, _ in ends]
    places = spread_apart(line_ends, LINE_HEIGHT, inner_height)
    for (level, name, color), line_end, place in zip(ends, line_ends, places, strict=True):
        arrow = {"showarrow": True, "arrowhead": 0, "arrowwidth": 1, "arrowcolor": color}
        leader = {**arrow, "ax": 26, "ay": place - line_end}
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


def _color(policy: str) -> str:
    boosts = [name for name, learner in LEARNERS.items() if not learner.library]
    # Of a learner of boosts its own, of bandits that of their library.
    places = [*boosts, *dict.fromkeys(learner.library for learner in LEARNERS.values() if learner.library)]
    return COLORS[places.index(LEARNERS[policy].library or policy) % len(COLORS)]


def _mean(interval: Interval | None) -> float:
    return float("nan") if interval is None else interval.mean
