"""Figures of an evaluation: values with intervals, sizes of weights, and overlap by action."""

import math
from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from zoosim.core.statistics import Interval
from zoosim.off_policy.overlap import EDGES, ActionShare, Overlap
from zoosim.off_policy.results import Evaluation, Result
from zoosim.off_policy.verdict import DO_NOT_USE, TRUST, WEAK
from zoosim.report.drawing import (
    ACCENT,
    CHARACTER,
    COLORS,
    MUTED,
    axis_style,
    dot_style,
    escaped,
    label_of,
    layout_style,
    legend_style,
    panel_of,
    panels,
)
from zoosim.report.marks import Mark, add_mark

# Beside its colour a verdict has a shape. Each colour has a contrast of 4.5 or more to the page, light and dark.
VERDICT_STYLES = {TRUST: (ACCENT, "circle"), WEAK: ("#8a5a00", "triangle-up"), DO_NOT_USE: ("#5c6773", "x")}
VERDICT_KEY = "Blue circles: trust. Brown triangles: weak, a hint only. Grey crosses: do not use."
MOST_ACTIONS = 20


def result_mark(row: Result) -> Mark:
    """Return an estimate with its interval as a mark, in the style of its verdict."""
    color, symbol = VERDICT_STYLES[row.verdict]
    value = Interval(row.value, row.low, row.high)
    return Mark(f"{row.policy}, {row.estimator}", value, color, row.verdict, symbol)


def values_figure(evaluation: Evaluation) -> go.Figure:
    """Draw values with their intervals, a panel an estimator, coloured by verdict; dotted is what the log earned."""
    names = list(dict.fromkeys(row.policy for row in evaluation.results))
    estimators = list(dict.fromkeys(row.estimator for row in evaluation.results))
    across = min(3, len(estimators))
    figure = panels(names, estimators, across)
    for row in (each for each in evaluation.results if math.isfinite(each.value)):
        place = panel_of(estimators.index(row.estimator), len(estimators), across)
        add_mark(figure, result_mark(row), names.index(row.policy), **place)
    for number in range(len(estimators)):
        line = {"color": MUTED, "width": 1, "dash": "dot"}
        figure.add_vline(x=evaluation.logged.mean, line=line, **panel_of(number, len(estimators), across))
    figure.update_xaxes(nticks=4, rangemode="tozero")
    return figure


def weights_figure(overlaps: Mapping[str, Overlap]) -> go.Figure:
    """Draw the share of rows by the size of their weight, a panel a policy."""
    labels = ["0", *(f"{edge:.2g}" if edge < 100 else f"{edge:,.0f}" for edge in EDGES[:-1])]
    used = [i for i in range(len(labels)) if any(_classes(overlap)[i] > 0.0 for overlap in overlaps.values())]
    shown = range(min(used), max(used) + 1)
    names = list(overlaps)
    margin = {"l": 64, "r": 24, "t": 12, "b": 62}
    figure = go.Figure(layout=layout_style(height=340, margin=margin, barmode="group"))
    for color, name in zip(COLORS, names, strict=False):
        shares = [_classes(overlaps[name])[i] for i in shown]
        hover = [f"{escaped(name)}: {share:.2%} of rows" for share in shares]
        figure.add_bar(
            x=[labels[i] for i in shown],
            y=shares,
            name=escaped(name),
            marker_color=color,
            text=hover,
            textposition="none",
            hovertemplate="%{text}<extra></extra>",
        )
    figure.update_xaxes(**axis_style(), title_text="weight from", type="category")
    figure.update_yaxes(**axis_style(), tickformat="~%", title_text="share of rows")
    figure.update_layout(legend_style(1.02, MUTED) | {"showlegend": len(names) > 1})
    return figure


def _classes(overlap: Overlap) -> Sequence[float]:
    return (overlap.unused, *overlap.classes)


def actions_figure(overlap: Overlap) -> go.Figure:
    """Draw how often the log shows each action and how often the policy would, for those that it takes most."""
    shares = sorted(overlap.actions, key=lambda share: (-_policy_share(share), share.logged))[:MOST_ACTIONS]
    labels = [label_of(share.name, 26) for share in shares]
    margin = {"l": 40 + CHARACTER * max(map(len, labels)), "r": 24, "t": 40, "b": 54}
    figure = go.Figure(layout=layout_style(height=110 + 22 * len(shares), margin=margin))
    for name, color, values in (
        ("logged", MUTED, [share.logged for share in shares]),
        ("by the policy", ACCENT, [_policy_share(share) for share in shares]),
    ):
        hover = f"{name}: %{{x:.2%}}<extra></extra>"
        rows = {"x": values, "y": list(range(len(shares))), "name": name, "showlegend": True}
        figure.add_scatter(**rows, hovertemplate=hover, **dot_style(color))
    ticks = {
        "tickvals": list(range(len(shares))),
        "ticktext": labels,
        "range": [len(shares) - 0.4, -0.6],
        "ticklabelstandoff": 6,
    }
    figure.update_yaxes(**{**axis_style(), **ticks})
    figure.update_xaxes(**axis_style(), tickformat="~%", rangemode="tozero", title_text="share of choices")
    figure.update_layout(legend_style(1.0, MUTED))
    return figure


def _policy_share(share: ActionShare) -> float:
    return share.weighted if share.chosen is None else share.chosen
