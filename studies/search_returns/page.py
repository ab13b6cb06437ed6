"""What the best boosts of one visit leave of the best of a life, by law of returns and by segment."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from studies.search_returns.measuring import LAWS, Segment, left_by_myopia
from studies.writing import told
from zoosim.core.statistics import mean_interval
from zoosim.report.drawing import COLORS, axis_style, layout_style
from zoosim.report.sections import Drawing, Page, PageTable

TERMS = {
    "best of one visit": "The boosts, of those tried for a segment, that earn most in a visit.",
    "best of a life": "Those that earn most from a searcher's first visit to the last: reward / (1 - chance of a "
    "return). Both are chosen on half of the visits, and judged on the other half.",
    "left": "What the best of one visit bring over a searcher's life, in % of what the best of a life bring.",
    "returns": "Chances of a return after a visit, with the logit of a base, and more by clicks and satisfaction.",
}
BESIDE = 0.2
"""Distance of the laws of a segment in the figure."""


def build_page(rows: Sequence[Segment]) -> Page:
    """Build the page."""
    drawing = Drawing(
        "What is left by boosts that are the best of one visit",
        "% of what the best of a life bring, by segment; mean over seeds with 95% intervals, by the law of returns.",
        _figure(rows),
    )
    return Page(answer(rows), [_by_law(rows), _by_segment(rows)], [drawing], TERMS)


def answer(rows: Sequence[Segment]) -> str:
    """Say what looking one visit ahead leaves, by the default law."""
    law = next(iter(LAWS))
    left = told(left_by_myopia(rows, law), 1, percent=True)
    return f"In search, boosts that are the best of one visit have {left} of what the best of searchers' lives bring."


def _by_law(rows: Sequence[Segment]) -> PageTable:
    cells = []
    for law in LAWS:
        own = [row for row in rows if row.law == law]
        known = [row.correlation for row in own if np.isfinite(row.correlation)]
        cells.append(
            (
                law,
                told(left_by_myopia(rows, law), 1, percent=True),
                f"{100 * min(row.lowest for row in own):.0f} to {100 * max(row.highest for row in own):.0f}",
                f"{np.median(known):.2f}" if known else "-",
            )
        )
    heads = ("searchers return", "left", "returns, %", "correlation")
    caption = (
        "All segments; mean over seeds with a 95% interval. Least and largest chance of a return over segments and "
        "boosts; correlation of rewards with these chances over boosts, its median over segments and seeds."
    )
    return PageTable("What the best boosts of one visit have", heads, cells, caption=caption)


def _by_segment(rows: Sequence[Segment]) -> PageTable:
    cells = []
    for law in LAWS:
        for segment in dict.fromkeys(row.segment for row in rows):
            own = [row for row in rows if (row.law, row.segment) == (law, segment)]
            cells.append((law, segment, told(_shares(own), 1, percent=True), _mean([row.life_best for row in own])))
    heads = ("searchers return", "segment", "left", "EUR of a life")
    caption = "Mean over seeds with a 95% interval; EUR of a new searcher's whole life, by the best boosts."
    return PageTable("By segment", heads, cells, n_text=2, caption=caption, printed=True)


def _shares(rows: Sequence[Segment]) -> list[float]:
    # A segment that buys nothing earns nothing either way.
    return [row.visit_best / row.life_best if row.life_best > 0.0 else 1.0 for row in rows]


def _mean(values: Sequence[float]) -> str:
    return f"{np.mean(values):.2f}"


def _figure(rows: Sequence[Segment]) -> go.Figure:
    figure = go.Figure()
    segments = list(dict.fromkeys(row.segment for row in rows))
    for number, (color, law) in enumerate(zip(COLORS, LAWS, strict=False)):
        found = [mean_interval(_shares([row for row in rows if (row.law, row.segment) == (law, s)])) for s in segments]
        reach = [100 * (each.high - each.mean) if each.high is not None else 0.0 for each in found]
        figure.add_scatter(
            x=[100 * each.mean for each in found],
            y=np.arange(len(segments)) + BESIDE * (number - 1),
            name=law,
            mode="markers",
            marker={"color": color, "size": 9},
            error_x={"array": reach, "color": color},
        )
    legend = {"orientation": "h", "y": 1.0, "yref": "container", "yanchor": "top", "x": 0}
    margin = {"l": 110, "r": 16, "t": 64, "b": 48}
    figure.update_layout(**layout_style(height=300, margin=margin, showlegend=True, legend=legend))
    figure.update_xaxes(**axis_style(), title_text="% of what the best of a life bring")
    figure.update_yaxes(**axis_style(), tickvals=list(range(len(segments))), ticktext=segments)
    return figure
