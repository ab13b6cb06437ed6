"""What the settings cost and bring: a verdict, a table per question, and the spread over iterations."""

from collections.abc import Sequence

import plotly.graph_objects as go

from studies.cem_settings.measuring import (
    CEM_DIMENSIONS,
    CLIMBS,
    DIMENSIONS,
    FRACTIONS,
    ITERATIONS,
    LIKENESS,
    SIZES,
    SMOOTHING,
    WARM,
    Search,
)
from studies.figures import add_line, add_name
from studies.rows import rows_where, values_where
from studies.writing import told
from zoosim.core.statistics import mean_interval
from zoosim.report.drawing import COLORS, axis_style, layout_style
from zoosim.report.sections import Drawing, Page, PageTable

SHOWN = (5, 20, 60)
"""Iterations after which the table of elites looks."""

NAMES = {"concave": "concave", "ensemble": "Q-ensemble", "network": "network", "rastrigin": "Rastrigin"}
TERMS = {
    "share": "Of the way from a random action to the best that is known, by the objective that is searched; by the "
    "true values where members are varied. Mean over requests, with a 95% interval over seeds.",
    "passes": "Samples times members: passes through a network per search, which is nearly all that a search costs. A "
    "value with its gradient counts as three.",
    "likeness": "Correlation of a request's state with that of the request before. 1: the same visitor asks again; 0: "
    "another visitor comes, as in most shops.",
    "narrow": "init_std is .1, not .5.",
    "form": "What the elites' deviations are taken from: the former mean (zoosim) or their own (as usually printed).",
    "smoothing": "alpha, the weight of the former mean and deviations; docs/lessons.md 7.3.2 has .7 to .9.",
    "spread": "Euclidean norm of the deviations after an iteration, `CEMResult.spreads`; it starts at 1.58.",
    "concave, Q-ensemble, network, Rastrigin": "The objectives of the study cem-optima, one of each seed.",
}


def build_page(rows: Sequence[Search]) -> Page:
    """Build the page of the four questions."""
    seeds = len({row.seed for row in rows})
    lines = Drawing(
        "Does the search converge?",
        f"Spread by iteration on Q-ensembles, mean over {seeds} seeds with 95% intervals, elites of 10%, deviations "
        "from the former mean; a line per smoothing. A spread that falls no more is a search to give more iterations.",
        spread_figure(rows),
    )
    tables = [_dimensions(rows), _sizes(rows), _starts(rows), _elites(rows)]
    return Page(answer(rows), tables, [lines], TERMS, details=details(rows))


def answer(rows: Sequence[Search]) -> str:
    """Return which search to take where there is a gradient."""
    d = DIMENSIONS[-1]
    evaluations, shares = {}, {}
    for name in ("default CEM", "8 climbs of 30 steps"):
        group = rows_where(rows, question="dimensions", setting=name, case=d, landscape="ensemble")
        evaluations[name] = _passes(group)
        shares[name] = mean_interval([row.share for row in group]).mean
    cem, climb = shares
    return (
        f"Climb where there is a gradient: {evaluations[climb]} evaluations get {shares[climb]:.1%} of the way in {d} "
        f"dimensions, CEM's {evaluations[cem]} get {shares[cem]:.1%}."
    )


def details(rows: Sequence[Search]) -> list[str]:
    """Return what the other questions found."""
    small, printed = (_mean(rows, "sizes", f"{count} iterations", members) for members, count in ((3, 3), (5, 5)))
    cold = _mean(rows, "starts", "fast, cold", 0.0)
    alike, other = (_mean(rows, "starts", "fast, warm, narrow", likeness) for likeness in (0.9, 0.0))
    slow, quick = (_mean(rows, "elites", f"former, 0.1, {smoothing}", 5, "ensemble") for smoothing in (0.7, 0))
    return [
        f"3 members and 3 iterations take 36% of the passes of 5 and 5, and get {small:.1%} of the way, not "
        f"{printed:.1%}.",
        f"A narrow warm start gets {alike:.1%} where the state moved little, {other:.1%} where another visitor came; a "
        f"cold one {cold:.1%}.",
        f"A smoothing of .7 gets {slow:.1%} in 5 iterations, none {quick:.1%}.",
    ]


def _mean(rows: Sequence[Search], question: str, setting: str, case: float, kind: str | None = None) -> float:
    wanted = {} if kind is None else {"landscape": kind}
    return mean_interval(values_where(rows, "share", question=question, setting=setting, case=case, **wanted)).mean


def _cell(rows: Sequence[Search], digits: int = 1) -> str:
    return told([row.share for row in rows], digits, percent=True)


def _passes(rows: Sequence[Search]) -> str:
    return f"{mean_interval([row.passes for row in rows]).mean:,.0f}"


def _dimensions(rows: Sequence[Search]) -> PageTable:
    kinds = list(dict.fromkeys(row.landscape for row in rows_where(rows, question="dimensions")))
    cells = []
    for d in DIMENSIONS:
        for name in (*CEM_DIMENSIONS, *CLIMBS):
            groups = [rows_where(rows, question="dimensions", case=d, setting=name, landscape=kind) for kind in kinds]
            learned = groups[kinds.index("ensemble")]
            cells.append((name, str(d), *map(_cell, groups), _passes(learned)))
    heads = ("search", "dimensions", *(NAMES[kind] for kind in kinds), "evaluations, Q-ensemble")
    caption = "Share of the way by objective; evaluations of the ensemble per search, a gradient's as three."
    return PageTable("Gradients against CEM", heads, cells, caption=caption)


def _sizes(rows: Sequence[Search]) -> PageTable:
    cells = []
    for members, count in SIZES:
        group = rows_where(rows, question="sizes", case=members, setting=f"{count} iterations")
        cells.append((str(members), str(count), _cell(group), _passes(group)))
    heads = ("members", "iterations", "share", "passes")
    return PageTable("Fewer members and iterations, 64 samples, true values", heads, cells, n_text=0)


def _starts(rows: Sequence[Search]) -> PageTable:
    cells = []
    for likeness in LIKENESS:
        for name in WARM:
            groups = [
                rows_where(rows, question="starts", case=likeness, setting=f"{preset}, {name}")
                for preset in ("fast", "default")
            ]
            fast, default = groups
            cells.append((name, f"{likeness:g}", _cell(fast), _cell(default, 2), _passes(default)))
    heads = ("start", "likeness", "fast CEM", "default CEM", "passes, default")
    return PageTable("A warm start at the previous action, Q-ensemble", heads, cells)


def _elites(rows: Sequence[Search]) -> PageTable:
    cells = []
    for kind in ("ensemble", "rastrigin"):
        for form in ("former", "elites"):
            for fraction in FRACTIONS:
                for smoothing in SMOOTHING:
                    setting = f"{form}, {fraction:g}, {smoothing:g}"
                    groups = [
                        rows_where(rows, question="elites", landscape=kind, setting=setting, case=n) for n in SHOWN
                    ]
                    spreads = [f"{mean_interval([row.spread or 0.0 for row in group]).mean:.3f}" for group in groups]
                    cells.append((NAMES[kind], form, f"{fraction:g}", f"{smoothing:g}", *map(_cell, groups), *spreads))
    heads = ("function", "form", "elites", "smoothing")
    shares = [f"share after {count}" for count in SHOWN]
    spreads = [f"spread after {count}" for count in SHOWN]
    caption = "64 samples an iteration, 10 dimensions."
    return PageTable("Elites and smoothing", (*heads, *shares, *spreads), cells, n_text=2, caption=caption)


def spread_figure(rows: Sequence[Search]) -> go.Figure:
    """Draw the spread by iteration, a line per smoothing."""
    figure = go.Figure(layout=layout_style(height=380, margin={"l": 64, "r": 120, "t": 24, "b": 54}))
    for color, smoothing in zip(COLORS, SMOOTHING, strict=False):
        setting = f"former, 0.1, {smoothing:g}"
        means = [
            mean_interval(
                values_where(rows, "spread", question="elites", landscape="ensemble", setting=setting, case=count)
            )
            for count in ITERATIONS
        ]
        name = f"smoothing {smoothing:g}"
        add_line(figure, ITERATIONS, means, color, name, ".3f")
        add_name(figure, means[-1].mean, name, color)
    figure.update_xaxes(**axis_style(), title_text="iterations")
    figure.update_yaxes(**axis_style(), rangemode="tozero", title_text="spread")
    return figure
