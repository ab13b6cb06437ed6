"""Figures of how results spread over seeds, and how they follow what an experiment sweeps over."""

from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from zoosim.report.data import ReportData, ranked
from zoosim.report.drawing import (
    CHARACTER,
    COLORS,
    NAME,
    axis_style,
    darker,
    dot_style,
    escaped,
    label_of,
    layout_style,
    policy_styles,
    row_axis_style,
    shortened,
)


def seeds_figure(report: ReportData) -> go.Figure | None:
    """Draw a dot a seed for each policy; nothing with one seed."""
    policies, seeds = report.summary["policies"], report.summary["seeds"]
    names = [name for name in ranked(report.summary) if policies[name]["oracle_fraction"]["mean"] is not None]
    if not names or len(seeds) < 2:
        return None
    width = CHARACTER * max(len(shortened(name, NAME)) for name in names)
    margin = {"l": width + 24, "r": 16, "t": 12, "b": 54}
    figure = go.Figure(layout=layout_style(height=66 + 28 * len(names), margin=margin))
    for row, name in enumerate(names):
        found = [(x, seed) for x, seed in zip(_fractions(policies[name]), seeds, strict=True) if x is not None]
        dot = dot_style(policy_styles(policies)[name].color, "line-ns")
        dot["marker"] |= {"size": 13, "opacity": 0.75}
        hover = [f"{escaped(name)}<br>seed {seed}: {x:.1%}" for x, seed in found]
        place = {"x": [x for x, _ in found], "y": [row] * len(found)}
        figure.add_scatter(**place, **dot, text=hover, hovertemplate="%{text}<extra></extra>")
    figure.update_yaxes(**row_axis_style([label_of(name, NAME) for name in names], size=12))
    figure.update_xaxes(**axis_style(), tickformat=".0%", title_text="% of oracle, a mark a seed")
    return figure


def _fractions(policy: Mapping[str, Any]) -> Sequence[float | None]:
    fractions: Sequence[float | None] = policy["oracle_fraction"]["per_seed"]
    return fractions


def sweep_figure(report: ReportData) -> go.Figure | None:
    """Draw the fraction of oracle against what the experiment sweeps over, a line for each form."""
    if report.sweep is None:
        return None
    lines: dict[str, list[tuple[float, Mapping[str, Any]]]] = {}
    for name, (line, x) in report.sweep.points.items():
        value = report.summary["policies"].get(name, {}).get("oracle_fraction", {"mean": None})
        if value["mean"] is not None:
            lines.setdefault(line, []).append((x, value))
    if not lines:
        return None
    margin = {"l": 64, "r": 24 + CHARACTER * max(map(len, lines)), "t": 16, "b": 54}
    figure = go.Figure(layout=layout_style(height=360, margin=margin))
    for color, (line, points) in zip(COLORS, lines.items(), strict=False):
        _add_line(figure, line, sorted(points, key=lambda point: point[0]), color)
    at = sorted({x for points in lines.values() for x, _ in points})
    figure.update_xaxes(**axis_style(), type="log", tickvals=at, ticktext=[f"{x:g}" for x in at])
    figure.update_xaxes(title_text=report.sweep.axis)
    figure.update_yaxes(**axis_style(), tickformat=".0%", title_text="% of oracle")
    return figure


def _add_line(figure: go.Figure, line: str, points: Sequence[tuple[float, Mapping[str, Any]]], color: str) -> None:
    x, means = [at for at, _ in points], [float(value["mean"]) for _, value in points]
    ends = [[value[key] if value[key] is not None else value["mean"] for _, value in points] for key in ("low", "high")]
    bars = {
        "type": "data",
        "array": [high - mean for high, mean in zip(ends[1], means, strict=True)],
        "arrayminus": [mean - low for low, mean in zip(ends[0], means, strict=True)],
        "thickness": 1.8,
        "width": 0,
    }
    style = {**dot_style(color), "mode": "lines+markers", "line": {"color": color, "width": 2}, "error_y": bars}
    hover = [f"{escaped(line)}, {at:g}<br>{mean:.1%} of oracle" for at, mean in zip(x, means, strict=True)]
    figure.add_scatter(x=x, y=means, **style, text=hover, hovertemplate="%{text}<extra></extra>")
    font = {"color": darker(color), "size": 12}
    end = {"x": 1, "xref": "paper", "y": means[-1], "xanchor": "left", "xshift": 8, "showarrow": False}
    figure.add_annotation(**end, text=escaped(line), font=font)
