"""The figure of how results spread over seeds."""

from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from zoosim.report.data import ReportData, ranked
from zoosim.report.drawing import (
    CHARACTER,
    NAME,
    axis_style,
    dot_style,
    escaped,
    label_of,
    layout_style,
    policy_styles,
    row_axis_style,
    shortened,
)


def seeds_figure(report: ReportData) -> go.Figure | None:
    """Draw one mark per seed and policy; None with a single seed."""
    policies = report.summary["policies"]
    seeds = report.summary["seeds"]
    names = [name for name in ranked(report.summary) if policies[name]["oracle_fraction"]["mean"] is not None]
    if not names or len(seeds) < 2:
        return None
    width = CHARACTER * max(len(shortened(name, NAME)) for name in names)
    margin = {"l": width + 24, "r": 16, "t": 12, "b": 54}
    figure = go.Figure(layout=layout_style(height=66 + 28 * len(names), margin=margin))
    for row, name in enumerate(names):
        marks = [(x, seed) for x, seed in zip(_fractions(policies[name]), seeds, strict=True) if x is not None]
        dot = dot_style(policy_styles(policies, report.features)[name].color, "line-ns")
        dot["marker"] |= {"size": 13, "opacity": 0.75}
        hover = [f"{escaped(name)}<br>seed {seed}: {x:.1%}" for x, seed in marks]
        points = {"x": [x for x, _ in marks], "y": [row] * len(marks)}
        figure.add_scatter(**points, **dot, text=hover, hovertemplate="%{text}<extra></extra>")
    figure.update_yaxes(**row_axis_style([label_of(name, NAME) for name in names], size=12))
    figure.update_xaxes(**axis_style(), tickformat=".0%", title_text="% of oracle, one mark per seed")
    return figure


def _fractions(policy: Mapping[str, Any]) -> Sequence[float | None]:
    fractions: Sequence[float | None] = policy["oracle_fraction"]["per_seed"]
    return fractions
