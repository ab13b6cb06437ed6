"""What spreads and limits tell: the printed table beside ours, a reliability figure, and coverage by segment."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from studies.calibration.limits import ALL, FITTED, HELD, TESTED, TRAINED, Limits
from studies.calibration.spreads import (
    LEVELS,
    MANY,
    MENDED,
    METHODS,
    OURS,
    PRIORS,
    PUBLISHED,
    SCATTERED,
    Scatter,
    Spread,
)
from studies.figures import add_line, add_mark, add_seeds, rows_figure
from studies.writing import extremes, told
from zoosim.core.statistics import mean_interval
from zoosim.report.drawing import COLORS, MUTED, axis_style, layout_style
from zoosim.report.sections import Drawing, Page, PageTable

IDEAL = ("ideal, N(0, 1)", "0", "1", "", "95%", "", "0")
PRINTED = ("printed (lessons.md 7.5.3)", "-0.12", "1.35", "", "88%", "", "")
NAMES = {
    PUBLISHED: "ReLU, as published",
    OURS: "zoosim's default",
    PRIORS: "randomised priors, 5 members",
    MANY: "the default with 20 members",
    MENDED: "recalibrated on 5,000 others",
}
LEVEL = 0.95
NORMAL = {5: "36.3%", 10: "23.9%"}
"""By how much the std of so many normal numbers scatters, see `Scatter`."""

TERMS = {
    "z": "(value - mean) / std. std(z) above 1 means that std is too small: overconfidence. The printed 1.35 was read "
    "the other way round; its own coverage of 88% shows which it is.",
    "normal intervals": "mean - 1.96 std to mean + 1.96 std.",
    "conformal": "Intervals mean - q std to mean + q std, with q the 95% quantile of |z| on 5,000 held-out points.",
    "beta": "The beta at which mean + beta std bounds 95% of held-out values (the printed fix), and how many others "
    "it then bounds; 1.64 for N(0, 1).",
    "20 members": "The printed advice is 10 to 20 members. The error of their mean falls with their number, their "
    "spread does not, so that std becomes too large for it.",
    "randomised priors": "Members are a fixed random network each plus one that learns the rest (Osband, Aslanides & "
    "Cassirer 2018), all rows counted alike.",
    "recalibrated": "A scale and a floor for std, and how it grows with the distance from the data, fitted on 5,000 "
    "held-out points.",
    "the quadratic": "x'a - .1 |a|^2 (equation 7.11): the values are means, without noise. 1,000 points to learn from.",
    "limits on rewards": f"A single visit's reward is mostly zero. Learned from {TRAINED:,} visits of a shop of 1,000 "
    f"products under random boosts; quantiles of rewards by predicted mean from {FITTED:,} more, the level at which "
    f"they are read in each segment from {HELD:,} more; judged by {TESTED:,} others.",
    "ties": "99% of the rewards of price hunters are zero: a limit that holds zero holds 99 times in 100. Broken by "
    "chance, ties make coverage exact, and leave out zero itself now and then.",
    "1.96 std": "What the spread of the ensemble alone, which is about the mean reward, covers of single rewards.",
    "intervals": "95% over seeds (Student's t), each with data, first weights and a shop of its own.",
}


def build_page(rows: Sequence[Spread | Scatter | Limits]) -> Page:
    """Tell what was found."""
    spreads = [row for row in rows if isinstance(row, Spread)]
    scatters = [row for row in rows if isinstance(row, Scatter)]
    limits = [row for row in rows if isinstance(row, Limits)]
    drawings = [
        Drawing(
            "Reliability on the quadratic",
            "Share of 5,000 values inside central normal intervals, by the level asked; mean over seeds with 95% "
            "intervals. Dotted: honest. Below it the intervals are too narrow.",
            reliability_figure(spreads),
        ),
        Drawing(
            "Limits on single rewards, by segment",
            f"Share of {TESTED:,} held-out visits whose reward is within its limit at 95%. Pale: a seed each. Full: "
            "their mean with its 95% interval. Blue: ties broken by chance. Orange: ties count as covered.",
            limits_figure(limits),
        ),
    ]
    return Page(
        answer(spreads),
        [_spreads(spreads), _widened(spreads), _scatters(scatters), _limits(limits)],
        drawings,
        TERMS,
        details=[verdict(spreads, limits)],
    )


def figures(rows: Sequence[Spread] | Sequence[Limits], group: str, key: str) -> list[float]:
    """Return a figure of a method or segment, one a seed."""
    return [getattr(row, key) for row in rows if (row.method if isinstance(row, Spread) else row.segment) == group]


def answer(spreads: Sequence[Spread]) -> str:
    """Return whether to recalibrate the default ensemble's standard deviations."""
    plain, mended = (mean_interval(figures(spreads, method, "std_z")).mean for method in (OURS, MENDED))
    words = f"std(z) is {plain:.2f} as it comes and {mended:.2f} recalibrated, where 1 is honest"
    if abs(mended - 1.0) < abs(plain - 1.0):
        return f"Recalibrate the ensemble on held-out points: {words}."
    return f"Take the ensemble as it is: {words}."


def verdict(spreads: Sequence[Spread], limits: Sequence[Limits]) -> str:
    """Say in a sentence or two how honest they are."""
    z = {method: mean_interval(figures(spreads, method, "std_z")).mean for method in METHODS}
    mended = figures(spreads, MENDED, "std_z")
    covered = figures(spreads, MENDED, "coverage")
    normal = np.mean(figures(limits, ALL, "normal"))
    plain, exact = (np.mean(figures(limits, ALL, key)) for key in ("plain", "exact"))
    parts = [value for name in segments(limits)[1:] for value in figures(limits, name, "exact")]
    return (
        f"The published ensemble is overconfident, std(z) {z[PUBLISHED]:.2f}; the default's is {z[OURS]:.2f}, with 20 "
        f"members {z[MANY]:.2f}. Recalibrated, the default's is {min(mended):.2f} to {max(mended):.2f} over seeds, and "
        f"normal intervals at 95% cover {100 * min(covered):.1f} to {100 * max(covered):.1f}%. Of single rewards in "
        f"the search shop 1.96 std cover {100 * normal:.0f}%, conformal limits at 95% {100 * plain:.1f}%, or "
        f"{100 * exact:.1f}% with ties broken by chance ({100 * min(parts):.1f} to {100 * max(parts):.1f}% in single "
        f"segments and seeds)."
    )


def segments(limits: Sequence[Limits]) -> list[str]:
    """Return all, and the names of the segments."""
    return list(dict.fromkeys(row.segment for row in limits))


def _spreads(rows: Sequence[Spread]) -> PageTable:
    found: list[tuple[str, ...]] = [IDEAL, PRINTED]
    for method in METHODS:
        std, normal = (figures(rows, method, key) for key in ("std_z", "coverage"))
        told_std = told(std, 2), extremes(std, 2)
        told_normal = told(normal, 1, percent=True), extremes(normal, 1, percent=True)
        mean_z = told(figures(rows, method, "mean_z"), 2)
        rmse = told(figures(rows, method, "rmse"), 3)
        found.append((NAMES[method], mean_z, *told_std, *told_normal, rmse))
    heads = ("ensemble", "mean(z)", "std(z)", "range", "normal 95% intervals cover", "range", "rmse of the mean")
    return PageTable("Errors and spread on the quadratic", heads, found, caption=_caption(rows))


def _widened(rows: Sequence[Spread]) -> PageTable:
    found = []
    for method in METHODS:
        conformal, bounded = (figures(rows, method, key) for key in ("conformal", "bounded"))
        covered = told(conformal, 1, percent=True), extremes(conformal, 1, percent=True)
        told_bounded = told(bounded, 1, percent=True), extremes(bounded, 1, percent=True)
        found.append((NAMES[method], *covered, told(figures(rows, method, "beta"), 2), *told_bounded))
    heads = ("ensemble", "conformal 95% intervals cover", "range", "beta for 95%", "mean + beta std bounds", "range")
    return PageTable("With a width or a beta from held-out points", heads, found, caption=_caption(rows))


def _scatters(rows: Sequence[Scatter]) -> PageTable:
    found = [("printed (lessons.md 7.2)", "5", "30 to 40%", "")]
    for members in SCATTERED:
        shares = [row.share for row in rows if row.members == members]
        found.append(("zoosim's default", str(members), told(shares, 1, percent=True), NORMAL[members]))
    heads = ("ensemble", "members", "std scatters by", "std of normal numbers")
    return PageTable("How much std itself scatters, as a share of its mean", heads, found)


def _caption(rows: Sequence[Spread]) -> str:
    seeds = len(figures(rows, OURS, "std_z"))
    return f"5,000 points, {seeds} seeds; in brackets 95% intervals of means, the range is that of single seeds."


def _limits(rows: Sequence[Limits]) -> PageTable:
    heads = ("segment", "visits", "rewards of zero", "1.96 std", "limit holds", "ties by chance", "range", "limit, EUR")
    found = []
    for name in segments(rows):
        shares = [figures(rows, name, key) for key in ("zeros", "normal", "plain", "exact")]
        zeros, normal, plain, exact = shares
        means = (f"{100 * np.mean(zeros):.1f}%", f"{100 * np.mean(normal):.1f}%")
        held = told(plain, 1, percent=True), told(exact, 1, percent=True), extremes(exact, 1, percent=True)
        visits = f"{np.mean(figures(rows, name, 'visits')):,.0f}"
        found.append((name, visits, *means, *held, f"{np.mean(figures(rows, name, 'limit')):.2f}"))
    caption = (
        f"{len(figures(rows, ALL, 'plain'))} seeds; in brackets 95% intervals; the range is that of single seeds with "
        "ties broken by chance."
    )
    return PageTable("Limits at 95% on single rewards in the search shop", heads, found, caption=caption)


def reliability_figure(rows: Sequence[Spread]) -> go.Figure:
    """Draw covered shares by the level asked, a line a method."""
    figure = go.Figure(layout=layout_style(height=460, margin={"l": 64, "r": 24, "t": 60, "b": 54}))
    honest = {"color": MUTED, "width": 1, "dash": "dot"}
    figure.add_scatter(x=[0, 1], y=[0, 1], mode="lines", line=honest, hoverinfo="skip", showlegend=False)
    for color, method in zip((COLORS[1], COLORS[2], COLORS[4], COLORS[3], COLORS[0]), METHODS, strict=True):
        curves = np.array([row.observed for row in rows if row.method == method])
        means = [mean_interval(curve) for curve in curves.T]
        add_line(figure, LEVELS, means, color, NAMES[method], ".1%")
    figure.update_layout(showlegend=True, legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0})
    figure.update_xaxes(**axis_style(), range=[0, 1.02], tickformat=".0%", title_text="level asked")
    figure.update_yaxes(**axis_style(), range=[0, 1.02], tickformat=".0%", title_text="values covered")
    return figure


def limits_figure(rows: Sequence[Limits]) -> go.Figure:
    """Draw how often limits hold, overall and by segment."""
    names = segments(rows)
    labels = [f"{name}{tail}" for name in names for tail in (", by chance", ", plain")]
    figure = rows_figure(labels, "visits covered")
    for place, name in enumerate(names):
        for row, (key, color) in enumerate((("exact", COLORS[0]), ("plain", COLORS[1]))):
            add_seeds(figure, figures(rows, name, key), 2 * place + row, color, labels[2 * place + row], ".1%")
    add_mark(figure, LEVEL, "asked: 95%")
    figure.update_xaxes(tickformat=".0%")
    return figure
