"""Figures of an evaluation: what policies would earn, sizes of weights, and thinly logged actions."""

import math
from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from zoosim.core.statistics import Interval
from zoosim.off_policy.best_estimates import policies_of
from zoosim.off_policy.estimators.single import DIRECT_METHOD
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
    row_axis_style,
)
from zoosim.report.evaluation_tables import best_results, policy_share
from zoosim.report.marks import Mark, add_mark

# Beside its colour a verdict has a shape. Each colour has a contrast of 4.5 or more to the page, light and dark.
VERDICT_STYLES = {TRUST: (ACCENT, "circle"), WEAK: ("#8a5a00", "triangle-up"), DO_NOT_USE: ("#5c6773", "x")}
VERDICT_KEY = "Blue circles: trust. Brown triangles: weak, a hint only. Grey crosses: do not use."
BELOW = 0.3
"""Distance of predictions below estimates, in rows."""


def result_mark(row: Result) -> Mark:
    """Return an estimate with its interval as a mark, in the style of its verdict."""
    color, symbol = VERDICT_STYLES[row.verdict]
    value = Interval(row.value, row.low, row.high)
    return Mark(f"{row.policy}, {row.estimator}", value, color, row.verdict, symbol)


def values_figure(evaluation: Evaluation) -> go.Figure:
    """Draw what policies would earn, a panel per reward and a row per policy; dotted is what the log earned.

    The mark of a policy is the estimate to go by. What a model predicts, where it was asked for, is a diamond below it.
    """
    names = policies_of(evaluation)
    rewards = list(evaluation.by_reward)
    across = min(2, len(rewards))
    figure = panels(names, [each.value_unit for each in evaluation.by_reward.values()], across)
    for reward, row in best_results(evaluation):
        place = panel_of(rewards.index(reward), len(rewards), across)
        y = names.index(row.policy)
        if math.isfinite(row.value):
            add_mark(figure, result_mark(row), y, **place)
        if row.estimator == DIRECT_METHOD:
            continue
        for predicted in evaluation.by_reward[reward].results:
            if (predicted.policy, predicted.estimator) == (row.policy, DIRECT_METHOD):
                mark = result_mark(predicted)._replace(symbol="diamond-open")
                add_mark(figure, mark, y + BELOW, **place)
    for number, by_reward in enumerate(evaluation.by_reward.values()):
        line = {"color": MUTED, "width": 1, "dash": "dot"}
        figure.add_vline(x=by_reward.logged.mean, line=line, **panel_of(number, len(rewards), across))
    figure.update_xaxes(nticks=5, rangemode="tozero")
    return figure


def weights_figure(overlaps: Mapping[str, Overlap]) -> go.Figure:
    """Draw the share of rows by the size of their weight, a bar per policy."""
    labels = ["0", *(f"{edge:.2g}" if edge < 100 else f"{edge:,.0f}" for edge in EDGES[:-1])]
    used = [i for i in range(len(labels)) if any(_classes(overlap)[i] > 0.0 for overlap in overlaps.values())]
    # Empty classes between others stay: that there is a gap is worth seeing.
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


def actions_figure(shares: Sequence[ActionShare]) -> go.Figure:
    """Draw how often the log shows each action and how often the policy would, one row per action."""
    labels = [label_of(share.name, 26) for share in shares]
    margin = {"l": 40 + CHARACTER * max(map(len, labels)), "r": 24, "t": 40, "b": 54}
    figure = go.Figure(layout=layout_style(height=110 + 22 * len(shares), margin=margin))
    for name, color, symbol, values in (
        ("log", MUTED, "diamond-open", [share.logged for share in shares]),
        ("policy", ACCENT, "circle", [policy_share(share) for share in shares]),
    ):
        hover = f"{name}: %{{x:.2%}}<extra></extra>"
        rows = {"x": values, "y": list(range(len(shares))), "name": name, "showlegend": True}
        figure.add_scatter(**rows, hovertemplate=hover, **dot_style(color, symbol))
    figure.update_yaxes(**row_axis_style(labels, size=12))
    figure.update_xaxes(**axis_style(), tickformat="~%", rangemode="tozero", title_text="share of choices")
    figure.update_layout(legend_style(1.0, MUTED))
    return figure
