"""The figures of the study: agreement by setting, by population, and what a trust region costs."""

from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go

from studies.cem_optima.ends import DECISIONS, RADII, Ends, Step
from studies.cem_optima.shares import share_interval
from studies.figures import add_interval, add_line, add_name
from studies.rows import values_where
from zoosim.core.statistics import Interval
from zoosim.report.drawing import CHARACTER, COLORS, MUTED, axis_style, dot_style, layout_style, panel_of, panels

BEFORE, AFTER = COLORS[1], COLORS[0]


def agreement_figure(groups: Mapping[tuple[str, str], Sequence[Ends]], names: Mapping[str, str]) -> go.Figure:
    """Draw for each setting, a panel a landscape, the share of queries that agree, before and after finishing."""
    kinds = list(dict.fromkeys(kind for kind, _ in groups))
    settings = list(dict.fromkeys(setting for _, setting in groups))
    figure = panels(settings, [names[kind] for kind in kinds], across=4)
    for (kind, setting), rows in groups.items():
        place = panel_of(kinds.index(kind), len(kinds), 4)
        row = settings.index(setting)
        _add_share(figure, share_interval([r.agree for r in rows]), row - 0.16, BEFORE, "as it ended", place)
        _add_share(figure, share_interval([r.finished_agree for r in rows]), row + 0.16, AFTER, "finished", place)
    figure.update_xaxes(range=[-0.04, 1.04], tickformat=".0%", dtick=0.5)
    return figure


def _add_share(figure: go.Figure, share: Interval, y: float, color: str, name: str, place: Mapping[str, int]) -> None:
    words = "" if share.low is None or share.high is None else f" ({share.low:.0%} to {share.high:.0%})"
    add_interval(figure, share, y, color, f"{name}: {share.mean:.0%}{words}", place=place)


def population_figure(rows: Sequence[Ends]) -> go.Figure:
    """Draw the share of queries that agree by samples an iteration, a line a dimension."""
    figure = go.Figure(layout=layout_style(height=380, margin={"l": 64, "r": 130, "t": 24, "b": 54}))
    for color, d in zip(COLORS, dict.fromkeys(row.dimension for row in rows), strict=False):
        counts = list(dict.fromkeys(row.n_samples for row in rows if row.dimension == d))
        shares = [share_interval([r.agree for r in rows if (r.dimension, r.n_samples) == (d, n)]) for n in counts]
        add_line(figure, counts, shares, color, f"{d} dimensions", ".0%")
        add_name(figure, shares[-1].mean, f"{d} dimensions", color, yshift=10 if color == COLORS[0] else -8)
        figure.add_vline(x=4 * d + 16, line={"color": color, "width": 1, "dash": "dot"})
    figure.update_xaxes(
        **axis_style(), type="log", tickvals=[16, 32, 56, 96, 128, 192], title_text="samples an iteration"
    )
    figure.update_yaxes(**axis_style(), range=[-0.04, 1.06], tickformat=".0%", title_text="queries that agree")
    return figure


def steps_figure(rows: Sequence[Step], names: Mapping[str, str]) -> go.Figure:
    """Draw the share of what there is to gain by radius, a line for each number of decisions, a panel a landscape."""
    kinds = list(dict.fromkeys(row.landscape for row in rows))
    labels = [f"{radius:g}" for radius in RADII]
    figure = panels(labels, [names[kind] for kind in kinds], across=2)
    for kind in kinds:
        place = panel_of(kinds.index(kind), len(kinds), 2)
        for color, count in zip((COLORS[4], COLORS[1], COLORS[0]), DECISIONS, strict=True):
            own = [values_where(rows, "share", landscape=kind, radius=x, decisions=count) for x in RADII]
            hover = f"{count} decision{'s' * (count > 1)}: %{{x:.0%}}<extra></extra>"
            dots = {"name": f"{count} decision{'s' * (count > 1)}", "showlegend": kind == kinds[0]}
            figure.add_scatter(
                x=[float(np.mean(shares)) for shares in own],
                y=list(range(len(RADII))),
                hovertemplate=hover,
                **dot_style(color),
                **dots,
                **place,
            )
    figure.update_xaxes(range=[-0.04, 1.04], tickformat=".0%", dtick=0.5)
    figure.update_yaxes(title_text="radius", col=1)
    figure.update_layout(
        showlegend=True,
        legend={"orientation": "h", "y": 1.12, "yanchor": "bottom", "x": 0, "font": {"color": MUTED}},
        margin={"l": 40 + CHARACTER * 8, "t": 70},
        height=figure.layout.height + 40,
    )
    return figure
