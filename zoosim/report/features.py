"""The figure that compares learners on several sets of features."""

from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from zoosim.report.data import ReportData
from zoosim.report.drawing import (
    CHARACTER,
    MUTED,
    NAME,
    axis_style,
    dot_style,
    escaped,
    label_of,
    layout_style,
    policy_styles,
    row_axis_style,
    shortened,
    words_style,
)

Value = Mapping[str, Any]


def features_figure(report: ReportData) -> go.Figure | None:
    """Draw each learner's final share of the oracle on each set of features, and its gain over the first set."""
    rows = [row for row in report.summary.get("features", []) if row["end"]["mean"] is not None]
    if not rows:
        return None
    styles = policy_styles([row["policy"] for row in rows], report.features)
    labels = [f"{row['learner']}, {row['features']}" for row in rows]
    width = CHARACTER * max(len(shortened(label, 2 * NAME)) for label in labels)
    figure = go.Figure(
        layout=layout_style(height=66 + 28 * len(rows), margin={"l": width + 20, "r": 16, "t": 12, "b": 54})
    )
    for place, (row, label) in enumerate(zip(rows, labels, strict=True)):
        mean = float(row["end"]["mean"])
        gain = "" if row["difference"] is None else f"{100 * row['difference']:+.1f}".replace("-", "\u2212")
        dot = {**dot_style(styles[row["policy"]].color), "error_x": _bars([row["end"]])}
        figure.add_scatter(x=[mean], y=[place], **dot, hovertemplate=f"{escaped(label)}<br>{mean:.1%}<extra></extra>")
        words = f"{mean:.1%}" + (f" <span style='color:{MUTED}'>({gain})</span>" if gain else "")
        high = mean if row["end"]["high"] is None else float(row["end"]["high"])
        figure.add_scatter(x=[max(mean, high)], y=[place], **words_style([words], "middle right"))
    low = min(_end(row["end"], "low") for row in rows)
    figure.update_yaxes(**row_axis_style([label_of(label, 2 * NAME) for label in labels], size=12))
    ticks = {
        "tickvals": [tick / 10 for tick in range(0, 11, 2 if low < 0.7 else 1)],
        "range": [low - 0.03, 1.0 + 0.6 * (1.03 - low)],
    }
    figure.update_xaxes(**axis_style(), **ticks, tickformat=".0%", title_text="% of oracle at the end")
    return figure


def _bars(values: Sequence[Value]) -> dict[str, Any]:
    """Return error bars from low to high, none where there is no interval."""
    up = [_end(value, "high") - value["mean"] for value in values]
    down = [value["mean"] - _end(value, "low") for value in values]
    return {"type": "data", "array": up, "arrayminus": down, "thickness": 1.8, "width": 0}


def _end(value: Value, key: str) -> float:
    return float(value["mean"] if value[key] is None else value[key])
