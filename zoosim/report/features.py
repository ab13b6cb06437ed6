"""The figure that compares learners on several sets of features."""

from collections.abc import Mapping
from typing import Any

import plotly.graph_objects as go

from zoosim.report.data import ReportData
from zoosim.report.drawing import (
    CHARACTER,
    MUTED,
    NAME,
    axis_style,
    dot_style,
    error_bar,
    escaped,
    label_of,
    layout_style,
    policy_styles,
    row_axis_style,
    shortened,
    words_style,
)


def features_figure(report: ReportData) -> go.Figure | None:
    """Draw each learner's final share of the oracle on each set of features, and its gain over the first set."""
    rows = [row for row in report.summary.get("features", []) if row["end"]["mean"] is not None]
    if not rows:
        return None
    labels = [f"{row['learner']}, {row['features']}" for row in rows]
    width = CHARACTER * max(len(shortened(label, 2 * NAME)) for label in labels)
    margin = {"l": width + 20, "r": 16, "t": 12, "b": 54}
    figure = go.Figure(layout=layout_style(height=66 + 28 * len(rows), margin=margin))
    styles = policy_styles([row["policy"] for row in rows], report.features)
    for place, (row, label) in enumerate(zip(rows, labels, strict=True)):
        _add_row(figure, row, label, place, styles[row["policy"]].color)

    lowest = min(row["end"]["mean"] if row["end"]["low"] is None else row["end"]["low"] for row in rows)
    tenths = range(0, 11, 2 if lowest < 0.7 else 1)
    # Words stand right of the dots, so the axis goes on beyond 100%, without ticks.
    ticks = {"tickvals": [tenth / 10 for tenth in tenths], "range": [lowest - 0.03, 1.0 + 0.6 * (1.03 - lowest)]}
    figure.update_yaxes(**row_axis_style([label_of(label, 2 * NAME) for label in labels], size=12))
    figure.update_xaxes(**axis_style(), **ticks, tickformat=".0%", title_text="% of oracle at the end")
    return figure


def _add_row(figure: go.Figure, row: Mapping[str, Any], label: str, place: int, color: str) -> None:
    """Draw a share with its interval, and write the share and the gain beside it."""
    mean, low, high = (row["end"][key] for key in ("mean", "low", "high"))
    dot = {**dot_style(color), "error_x": error_bar(mean, low, high)}
    figure.add_scatter(x=[mean], y=[place], **dot, hovertemplate=f"{escaped(label)}<br>{mean:.1%}<extra></extra>")
    words = f"{mean:.1%}"
    if row["difference"] is not None:
        gain = f"{100 * row['difference']:+.1f}".replace("-", "\u2212")
        words += f" <span style='color:{MUTED}'>({gain})</span>"
    right = mean if high is None else max(mean, high)
    figure.add_scatter(x=[right], y=[place], **words_style([words], "middle right"))
