"""The figure of what policies reach in each kind of world."""

import plotly.graph_objects as go

from zoosim.report.data import ReportData, ranked
from zoosim.report.drawing import (
    CHARACTER,
    MUTED,
    axis_style,
    dot_style,
    escaped,
    layout_style,
    legend_style,
    policy_styles,
    row_axis_style,
    shortened,
)

ROW = 26
"""Pixels per kind of world."""

LABEL = 34
"""Characters of a kind's name, at most."""


def kinds_figure(report: ReportData) -> go.Figure | None:
    """Draw a row per kind of world, with a dot per policy at its mean share of the oracle; None where all are alike."""
    kinds = report.summary.get("kinds", [])
    if not kinds or report.crowded:
        return None
    labels = [f"{shortened(kind['value'], LABEL)} ({len(kind['seeds'])})" for kind in kinds]
    firsts = [row for row, kind in enumerate(kinds) if row == 0 or kinds[row - 1]["trait"] != kind["trait"]]
    # Above the rows of each trait there is an empty one with its name.
    places = [row + sum(first <= row for first in firsts) for row in range(len(kinds))]
    margin = {"l": 24 + int(CHARACTER * max(map(len, labels))), "r": 16, "t": 40, "b": 54}
    height = 94 + ROW * (len(kinds) + len(firsts))
    figure = go.Figure(layout=layout_style(height=height, margin=margin) | legend_style())
    styles = policy_styles(report.summary["policies"], report.features)
    for name in ranked(report.summary):
        means = [kind["policies"].get(name) for kind in kinds]
        hover = f"{escaped(name)}, %{{y}}: %{{x:.1%}}<extra></extra>"
        dots = {**dot_style(styles[name].color), "showlegend": True, "name": escaped(name)}
        figure.add_scatter(x=means, y=places, hovertemplate=hover, **dots)
    for first in firsts:
        words = {"text": f"<b>{escaped(kinds[first]['trait'])}</b>", "font": {"size": 12, "color": MUTED}}
        place = {"x": 0, "xref": "paper", "xanchor": "left", "y": places[first] - 1, "yanchor": "middle"}
        figure.add_annotation(**words, **place, showarrow=False)
    rows = {"tickvals": places, "ticktext": labels, "range": [len(kinds) + len(firsts) - 0.4, -0.6]}
    figure.update_yaxes(**(row_axis_style(labels, size=12) | rows))
    figure.update_xaxes(**axis_style(), tickformat=".0%", title_text="% of oracle", rangemode="tozero")
    return figure
