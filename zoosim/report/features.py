"""Figures of how results follow what an experiment varies: a setting that it sweeps over, and what policies see."""

from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from zoosim.report.data import ReportData
from zoosim.report.drawing import (
    CHARACTER,
    COLORS,
    INK,
    LINE_HEIGHT,
    MUTED,
    NAME,
    axis_style,
    darker,
    dot_style,
    escaped,
    label_of,
    layout_style,
    policy_styles,
    row_axis_style,
    shortened,
    spread_apart,
    words_style,
)

Value = Mapping[str, Any]
Lines = dict[str, list[tuple[float, Value]]]


def features_figure(report: ReportData) -> go.Figure | None:
    """Draw what each learner gets at the end on each set of features, and in words what it gains over the first."""
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


def sweep_figure(report: ReportData) -> go.Figure | None:
    """Draw the fraction of oracle against what the experiment sweeps over, a line for each form, best marked.

    Where policies are of several learners, each has a panel.
    """
    found = _swept(report)
    if report.sweep is None or not found:
        return None
    names = dict.fromkeys(line for lines in found.values() for line in lines)
    colors = {line: COLORS[n % len(COLORS)] for n, line in enumerate(names)}
    width, gap = CHARACTER * max(map(len, names)), 84
    height = 290 * len(found) + gap * (len(found) - 1)
    figure = make_subplots(
        len(found), 1, subplot_titles=list(map(escaped, found)), vertical_spacing=gap / height if len(found) > 1 else 0
    )
    layout = layout_style(height=height + 84, margin={"l": 64, "r": 34 + width, "t": 30, "b": 54})
    figure.update_layout(**layout)
    figure.update_annotations(font={"size": 13, "color": INK}, x=0, xanchor="left")
    figure.update_yaxes(
        **axis_style(), tickformat=".0%", title_text="% of oracle" + " at the end" * report.sweep.at_end
    )
    for row, lines in enumerate(found.values(), start=1):
        _add_panel(figure, lines, colors, row)
        figure.update_xaxes(title_text=report.sweep.axis, row=row)
    return figure


def _swept(report: ReportData) -> dict[str, Lines]:
    """Return for each panel and line the places on the axis, in order, with the figures found there."""
    found: dict[str, Lines] = {}
    sweep = report.sweep
    for name, (line, x) in ({} if sweep is None else sweep.points).items():
        policy = report.summary["policies"].get(name)
        value = None if policy is None else _value(policy, sweep is not None and sweep.at_end)
        if value is not None and value["mean"] is not None:
            panel = report.features[name][0] if name in report.features else ""
            found.setdefault(panel, {}).setdefault(line, []).append((x, value))
    return {panel: {n: sorted(ps, key=lambda p: p[0]) for n, ps in lines.items()} for panel, lines in found.items()}


def _value(policy: Value, at_end: bool) -> Value | None:
    source = (policy["phases"][-1] if policy["phases"] else None) if at_end else policy
    return None if source is None else source["oracle_fraction"]


def _add_panel(figure: go.Figure, lines: Lines, colors: Mapping[str, str], row: int) -> None:
    at = sorted({x for points in lines.values() for x, _ in points})
    least = min((x for x in at if x > 0), default=1.0)
    places = {x: x if x > 0 else least / 2 for x in at}  # a logarithmic axis has no 0
    for line, points in lines.items():
        _add_line(figure, line, [(places[x], x, value) for x, value in points], colors[line], row)
    ends = [_end(value, key) for points in lines.values() for _, value in points for key in ("low", "high")]
    bounds = (min(ends) - 0.02, max(ends) + 0.02)
    last = {line: float(points[-1][1]["mean"]) for line, points in lines.items()}
    order = sorted(last, key=lambda line: -last[line])
    wanted = [(bounds[1] - last[line]) / (bounds[1] - bounds[0]) * 290 for line in order]
    for line, want, place in zip(order, wanted, spread_apart(wanted, LINE_HEIGHT, 290), strict=True):
        words = {"text": escaped(line), "showarrow": False, "font": {"color": darker(colors[line]), "size": 12}}
        shift = {"xanchor": "left", "xshift": 10, "yshift": want - place}
        domain = "x domain" if row == 1 else f"x{row} domain"
        figure.add_annotation(x=1, y=last[line], xref=domain, yref="y" if row == 1 else f"y{row}", **words, **shift)
    ticks = {"type": "log", "tickvals": [places[x] for x in at], "ticktext": [f"{x:g}" for x in at]}
    figure.update_xaxes(**axis_style(), **ticks, row=row)
    figure.update_yaxes(range=bounds, row=row)


def _add_line(figure: go.Figure, line: str, points: Sequence[tuple[float, float, Value]], color: str, row: int) -> None:
    means = [float(value["mean"]) for *_, value in points]
    best = max(means)
    marker = {"size": 9, "color": [color if mean == best else "white" for mean in means]}
    marker |= {"line": {"color": color, "width": 2}}
    style = {"mode": "lines+markers", "line": {"color": color, "width": 2}, "marker": marker}
    bars = {"error_y": {**_bars([value for *_, value in points]), "color": color}}
    hover = [f"{escaped(line)}, {x:g}<br>{mean:.1%} of oracle" for (_, x, _), mean in zip(points, means, strict=True)]
    shown = {"text": hover, "hovertemplate": "%{text}<extra></extra>"}
    figure.add_scatter(x=[place for place, *_ in points], y=means, **style, **bars, **shown, row=row, col=1)


def _bars(values: Sequence[Value]) -> dict[str, Any]:
    """Return error bars from low to high, none where there is no interval."""
    up = [_end(value, "high") - value["mean"] for value in values]
    down = [value["mean"] - _end(value, "low") for value in values]
    return {"type": "data", "array": up, "arrayminus": down, "thickness": 1.8, "width": 0}


def _end(value: Value, key: str) -> float:
    return float(value["mean"] if value[key] is None else value[key])
