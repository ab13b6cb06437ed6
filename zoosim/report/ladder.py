"""Drawings of worlds with an exact optimum: the worth of policies up to it, and what they do by satisfaction."""

from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go

from zoosim.core.types import FloatArray
from zoosim.report.drawing import (
    CHARACTER,
    COLORS,
    GREYS,
    MUTED,
    axis_style,
    label_of,
    layout_style,
    legend_style,
    row_axis_style,
)

LONGEST = 36
"""Letters of a policy's name."""


def ladder_figure(policies: Sequence[str], shares: Sequence[float], worths: Sequence[str], enough: float) -> go.Figure:
    """Draw what policies are worth.

    Args:
        policies: Their names, in the order of the bars.
        shares: What they are worth as a share of the optimum.
        worths: The same in words, such as "8.11 clicks of a visitor".
        enough: The share from which a policy is enough.
    """
    names = [label_of(policy, LONGEST) for policy in policies]
    margin = {"l": 24 + CHARACTER * max(map(len, policies)), "r": 24, "t": 12, "b": 54}
    figure = go.Figure(layout=layout_style(height=80 + 28 * len(names), margin=margin))
    figure.add_bar(
        x=list(shares),
        y=list(range(len(names))),
        orientation="h",
        width=0.35,  # leaves room for the names, which on a phone stand above
        marker_color=[COLORS[0] if share >= enough else GREYS[0] for share in shares],
        customdata=list(worths),
        hovertemplate="%{x:.1%} of the optimum, %{customdata}<extra></extra>",
    )
    figure.add_vline(x=enough, line={"color": MUTED, "width": 1, "dash": "dot"})
    figure.update_yaxes(**row_axis_style(names, size=12))
    figure.update_xaxes(**axis_style(), tickformat="~%", range=[0.0, 1.02], title_text="share of the optimum")
    return figure


def levels_figure(lines: Mapping[str, FloatArray], title: str) -> go.Figure:
    """Draw shares by level of satisfaction.

    Args:
        lines: A share for each level by name of the line, the lowest level first; NaN where there is none.
        title: What the shares are.
    """
    margin = {"l": 64, "r": 16, "t": 40, "b": 54}
    figure = go.Figure(layout=layout_style(height=320, margin=margin) | legend_style())
    for color, (name, shares) in zip(COLORS, lines.items(), strict=False):
        top = len(shares) // 2
        levels = np.arange(-top, top + 1)
        reached = ~np.isnan(shares)
        line = {"mode": "lines+markers", "line": {"color": color, "width": 2}, "marker": {"size": 7}}
        hover = f"{name}, level %{{x}}: %{{y:.1%}}<extra></extra>"
        figure.add_scatter(x=levels[reached], y=shares[reached], name=name, **line, hovertemplate=hover)
    figure.update_xaxes(**axis_style(), title_text="level of satisfaction", tickformat="d")
    figure.update_yaxes(**axis_style(), title_text=title, tickformat="~%", range=[-0.02, 1.02])
    return figure
