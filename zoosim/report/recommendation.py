"""The page of a recommendation world: who comes, what is for sale, who clicks what, and when that changes."""

import itertools
from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from zoosim.core.types import FloatArray
from zoosim.descriptions.recommendation import PeriodFacts, RecommendationDescription
from zoosim.report.drawing import (
    COLORS,
    INK,
    NAME,
    axis_style,
    escaped,
    label_of,
    layout_style,
    legend_style,
    row_axis_style,
)
from zoosim.report.rendering import render
from zoosim.report.shades import column_axis, column_room, row_room, shades

RATES = {"oracle": "the best product for each visitor", "single": "one product for all", "random": "random products"}


def recommendation_figures(world: RecommendationDescription) -> dict[str, go.Figure]:
    """Draw 'chances', a table of click chances for each period in which they differ, and 'rates' over time."""
    return {"chances": _chances(world), "rates": _rates(world)}


def render_recommendation(
    world: RecommendationDescription, figures: Mapping[str, go.Figure], title: str, command: str, config_yaml: str
) -> str:
    """Render one self-contained HTML page."""
    return render(
        "recommendation.html",
        figures,
        title=title,
        question="A recommendation world: who visits, what is for sale, who clicks what, and when that changes.",
        answer=world.answer,
        world=world,
        rates=RATES,
        command=command,
        config_yaml=config_yaml,
    )


def _chances(world: RecommendationDescription) -> go.Figure:
    periods = _different(world.periods)
    rows = list(world.personas)
    columns = list(world.categories)
    inner = 28 * len(rows)
    gap = 46
    height = inner * len(periods) + gap * (len(periods) - 1)
    titles = [f"from visit {p.start:,}{': ' + label_of(p.name, 60) if p.name else ''}" for p in periods]
    figure = make_subplots(
        len(periods), 1, shared_xaxes=True, subplot_titles=titles, vertical_spacing=gap / height if gap < height else 0
    )
    margin = {"l": row_room(rows), "r": 12, "t": 30, "b": column_room(columns)}
    figure.update_layout(**layout_style(height=round(height + 30 + margin["b"]), margin=margin))
    figure.update_annotations(font={"size": 12, "color": INK}, x=0, xanchor="left")
    before = periods[0].table
    for row, period in enumerate(periods, start=1):
        figure.add_trace(shades(rows, columns, period.table, top=1.0), row=row, col=1)
        _mark_changes(figure, before, period.table, row)
        before = period.table
    figure.update_yaxes(**{**row_axis_style([label_of(name, NAME) for name in rows], size=12), "showgrid": False})
    figure.update_xaxes(**column_axis(columns))
    return figure


def _different(periods: Sequence[PeriodFacts]) -> list[PeriodFacts]:
    """Leave out periods whose table is that of the period before."""
    kept = [periods[0]]
    for period in periods[1:]:
        if not np.array_equal(period.table, kept[-1].table, equal_nan=True):
            kept.append(period)
    return kept


def _mark_changes(figure: go.Figure, before: FloatArray, after: FloatArray, row: int) -> None:
    """Draw a frame around the cells of a table that have changed."""
    # NaN differs from itself; where nothing was and is on sale, nothing has changed.
    changed = ~((before == after) | (np.isnan(before) & np.isnan(after)))
    for y, x in np.argwhere(changed).tolist():
        corners = {"x0": x - 0.48, "x1": x + 0.48, "y0": y - 0.46, "y1": y + 0.46}
        figure.add_shape(type="rect", **corners, line={"color": COLORS[1], "width": 2}, row=row, col=1)


def _rates(world: RecommendationDescription) -> go.Figure:
    margin = {"l": 52, "r": 16, "t": 66, "b": 48}
    figure = go.Figure(layout=layout_style(height=320, margin=margin) | legend_style())
    starts = [*(period.start for period in world.periods), world.steps]
    for color, (key, name) in zip(itertools.cycle(COLORS), RATES.items(), strict=False):
        values = [getattr(period, key) for period in world.periods]
        line = {"mode": "lines", "line": {"color": color, "width": 2, "shape": "hv"}, "name": escaped(name)}
        # The last value twice, so that its step reaches the end of the run.
        figure.add_scatter(x=starts, y=[*values, values[-1]], **line, hovertemplate="from visit %{x:,}: %{y:.1%}")
    figure.update_xaxes(**axis_style(), title_text="visits", tickformat=",d", range=[0, world.steps])
    figure.update_yaxes(**axis_style(), title_text="expected click rate", tickformat=".0%", rangemode="tozero")
    return figure
