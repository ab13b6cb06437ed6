"""Figures of a fitted world: what choices earn there, and expected against observed responses."""

from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go

from zoosim.core.statistics import Interval
from zoosim.fitting.checks import ValueComparison
from zoosim.fitting.held_out import Share
from zoosim.report.drawing import (
    ACCENT,
    CHARACTER,
    COLORS,
    GREYS,
    MUTED,
    axis_style,
    dot_style,
    escaped,
    layout_style,
    shortened,
)
from zoosim.report.marks import Mark, marks_figure

BEST = "the best for each visitor"

MOST_ROWS = 25
"""Parts of each kind that a figure shows, those with the most rows."""

LABEL = 40
"""Characters of a part's name, at most."""

RANGE = {"mode": "lines", "line": {"color": GREYS[0], "width": 3}, "hoverinfo": "skip"}
"""The style of a bar over the responses that the world allows."""


def values_figure(comparisons: Sequence[ValueComparison], oracle: Interval) -> go.Figure:
    """Draw what choices earn in the fitted world (blue), and by the log (grey), one row per policy."""
    rows = {}
    for row in comparisons:
        rows[row.policy] = [Mark(f"{row.policy}, in the fitted world", row.world, ACCENT)]
        if row.log is not None:
            rows[row.policy].append(Mark(f"{row.policy}, by the log ({row.estimator})", row.log, MUTED))
    rows[BEST] = [Mark(f"{BEST}, in the fitted world", oracle, ACCENT)]
    return marks_figure(rows, "mean reward of a visit")


def expected_figure(shares: Sequence[Share]) -> go.Figure:
    """Draw observed responses (dots) over the range that the world allows (bars), one row per part of the log."""
    shares = [share for kind in ("day", "segment", "category") for share in _most(shares, kind)]
    labels = [shortened(share.name, LABEL) for share in shares]
    margin = {"l": 24 + int(CHARACTER * max(map(len, labels))), "r": 24, "t": 12, "b": 54}
    figure = go.Figure(layout=layout_style(height=80 + 24 * len(shares), margin=margin))
    for row, share in enumerate(shares):
        figure.add_scatter(x=[share.low / share.rows, share.high / share.rows], y=[row, row], **RANGE)
        words = (
            f"{escaped(share.name)}: {share.responses:,} responses of {share.rows:,}<br>expected {share.expected:,.1f} "
            f"({share.low:,.1f} to {share.high:,.1f})<extra></extra>"
        )
        figure.add_scatter(x=[share.responses / share.rows], y=[row], hovertemplate=words, **_dot(share))
    ticks = {
        "tickvals": list(range(len(shares))),
        "ticktext": list(map(escaped, labels)),
        "range": [len(shares) - 0.4, -0.6],
    }
    figure.update_yaxes(**{**axis_style(), **ticks})
    figure.update_xaxes(**axis_style(), tickformat="~%", rangemode="tozero", title_text="response rate")
    return figure


def _dot(share: Share) -> dict[str, Any]:
    """Return the style of observed responses: another colour where they lie beyond what the world allows."""
    is_within = share.low <= share.responses <= share.high
    return dot_style(ACCENT if is_within else COLORS[1])


def _most(shares: Sequence[Share], kind: str) -> list[Share]:
    of_kind = [share for share in shares if share.kind == kind]
    kept = sorted(of_kind, key=lambda share: -share.rows)[:MOST_ROWS]
    # In the order in which they came, so that days stay in order of time.
    return [share for share in of_kind if share in kept]


def calibration_figure(shares: Sequence[Share]) -> go.Figure:
    """Draw observed against expected response rates, for tenths of the held-out rows."""
    tenths = [share for share in shares if share.kind == "tenth"]
    figure = go.Figure(layout=layout_style(height=380, margin={"l": 64, "r": 24, "t": 12, "b": 54}))
    top = max(max(share.high, share.responses) / share.rows for share in tenths)
    line = {"mode": "lines", "line": {"color": MUTED, "width": 1, "dash": "dot"}, "hoverinfo": "skip"}
    figure.add_scatter(x=[0.0, top], y=[0.0, top], **line)
    for share in tenths:
        expected = share.expected / share.rows
        observed = share.responses / share.rows
        figure.add_scatter(x=[expected, expected], y=[share.low / share.rows, share.high / share.rows], **RANGE)
        words = f"expected {expected:.2%}, came {observed:.2%}<extra></extra>"
        figure.add_scatter(x=[expected], y=[observed], hovertemplate=words, **_dot(share))
    figure.update_xaxes(**axis_style(), tickformat="~%", rangemode="tozero", title_text="response rate expected")
    figure.update_yaxes(**axis_style(), tickformat="~%", rangemode="tozero", title_text="response rate that came")
    return figure
