"""Figures of a fitted world: its click table, and expected against observed clicks."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go

from zoosim.fitting.fit import Cell, FittedWorld
from zoosim.fitting.holdout import Share
from zoosim.report.drawing import ACCENT, COLORS, MUTED, axis_style, dot_style, escaped, layout_style, panel_of, panels

MOST_ROWS = 25
"""Categories that a figure shows, those that were shown most."""

RANGE = {"mode": "lines", "line": {"color": "#c9d2da", "width": 9}, "hoverinfo": "skip"}
"""The style of a bar over the clicks that the world allows."""


def table_figure(world: FittedWorld) -> go.Figure:
    """Draw the click probabilities at the log's end, one panel per segment, with their intervals."""
    rows_of = Counter[str]()
    for cell in world.cells:
        rows_of[cell.category] += cell.rows
    most_shown = [name for name, _ in rows_of.most_common(MOST_ROWS)]
    names = sorted(most_shown, key=world.category_names.index)
    last = {(cell.segment, cell.category): cell for cell in world.cells}
    titles = [f"{name}, {100 * mix:.0f}% of visits" for name, mix in zip(world.segment_names, world.mix, strict=True)]
    across = min(4, len(titles))
    figure = panels(names, titles, across)
    for number, segment in enumerate(world.segment_names):
        cells = [last[segment, name] for name in names]
        _add_cells(figure, cells, panel_of(number, len(titles), across))
    figure.update_xaxes(tickformat="~%", rangemode="tozero", nticks=4, matches="x")
    return figure


def _add_cells(figure: go.Figure, cells: Sequence[Cell], panel: dict[str, int]) -> None:
    hover = [
        f"{escaped(c.category)}: {c.estimate:.2%} ({c.low:.2%} to {c.high:.2%})<br>{c.clicks:,} clicks of {c.rows:,}"
        for c in cells
    ]
    bars = {
        "array": [c.high - c.estimate for c in cells],
        "arrayminus": [c.estimate - c.low for c in cells],
        "color": ACCENT,
        "thickness": 1.5,
        "width": 0,
    }
    rows = {"x": [c.estimate for c in cells], "y": list(range(len(cells))), "error_x": bars}
    figure.add_scatter(**rows, text=hover, hovertemplate="%{text}<extra></extra>", **dot_style(ACCENT), **panel)


def expected_figure(shares: Sequence[Share]) -> go.Figure:
    """Draw observed clicks (dots) over the range that the world allows (bars), one row per part of the log."""
    shares = [share for kind in ("day", "segment", "category") for share in _most(shares, kind)]
    margin = {"l": 190, "r": 24, "t": 12, "b": 54}
    figure = go.Figure(layout=layout_style(height=80 + 24 * len(shares), margin=margin))
    for row, share in enumerate(shares):
        figure.add_scatter(x=[share.low / share.rows, share.high / share.rows], y=[row, row], **RANGE)
        words = (
            f"{escaped(share.name)}: {share.clicks:,} clicks of {share.rows:,}<br>expected {share.expected:,.1f} "
            f"({share.low:,.1f} to {share.high:,.1f})<extra></extra>"
        )
        figure.add_scatter(x=[share.clicks / share.rows], y=[row], hovertemplate=words, **_dot(share))
    labels = [escaped(f"{share.name}"[:28]) for share in shares]
    ticks = {"tickvals": list(range(len(shares))), "ticktext": labels, "range": [len(shares) - 0.4, -0.6]}
    figure.update_yaxes(**{**axis_style(), **ticks})
    figure.update_xaxes(**axis_style(), tickformat="~%", rangemode="tozero", title_text="click rate")
    return figure


def _dot(share: Share) -> dict[str, Any]:
    """Return the style of observed clicks: another colour where they lie beyond what the world allows."""
    is_within = share.low <= share.clicks <= share.high
    return dot_style(ACCENT if is_within else COLORS[1])


def _most(shares: Sequence[Share], kind: str) -> list[Share]:
    of_kind = [share for share in shares if share.kind == kind]
    kept = sorted(of_kind, key=lambda share: -share.rows)[:MOST_ROWS]
    return [share for share in of_kind if share in kept]


def calibration_figure(shares: Sequence[Share]) -> go.Figure:
    """Draw observed against expected click rates, for tenths of the held-out rows."""
    tenths = [share for share in shares if share.kind == "tenth"]
    figure = go.Figure(layout=layout_style(height=380, margin={"l": 64, "r": 24, "t": 12, "b": 54}))
    top = max(max(share.high, share.clicks) / share.rows for share in tenths)
    line = {"mode": "lines", "line": {"color": MUTED, "width": 1, "dash": "dot"}, "hoverinfo": "skip"}
    figure.add_scatter(x=[0.0, top], y=[0.0, top], **line)
    for share in tenths:
        expected = share.expected / share.rows
        observed = share.clicks / share.rows
        figure.add_scatter(x=[expected, expected], y=[share.low / share.rows, share.high / share.rows], **RANGE)
        words = f"expected {expected:.2%}, came {observed:.2%}<extra></extra>"
        figure.add_scatter(x=[expected], y=[observed], hovertemplate=words, **_dot(share))
    figure.update_xaxes(**axis_style(), tickformat="~%", rangemode="tozero", title_text="click rate expected")
    figure.update_yaxes(**axis_style(), tickformat="~%", rangemode="tozero", title_text="click rate that came")
    return figure
