"""What the places tell: relative error by estimator against log size, distance and drift."""

from collections import Counter
from collections.abc import Sequence

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from studies.ope_accuracy.measuring import LOGGED, Accuracy
from zoosim.report.drawing import COLORS, GREYS, INK, MUTED, axis_style, layout_style
from zoosim.report.sections import Drawing, Page, PageTable

TITLES = {"n": "rows of the log", "distance": "distance of the policy", "drift": "drift"}
SIZES, TICKS = (300, 1_000, 3_000, 10_000, 30_000), (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
TERMS = {
    "relative error": "Root mean squared error over the truth: what the judged policy earns a visit when the log ends.",
    "distance": "How far the policy's log-odds lie from those of the policy that wrote the log (standard deviation). "
    "The further, the more the policy earns: half of what differs goes by what actions are worth.",
    "drift": "Recommendation: by how much log click rates move while the log is written (standard deviation). Search: "
    "the share of visits that come from a shifted market when the log ends.",
    "logged": "The mean of the logged rewards, which takes no notice of the policy: what estimators have to beat.",
    "estimators": "dm trusts a reward model; ips weighs rewards; clipped-ips cuts weights; snips divides by their sum; "
    "dr corrects a reward model; sndr divides its correction by the weights' sum; switch-dr and shrunk-dr trust the "
    "model where weights are large.",
}


def build_page(rows: Sequence[Accuracy]) -> Page:
    """Tell what was found."""
    caption = (
        f"Relative error over {rows[0].logs:,} logs a dot, on a logarithmic scale. From left to right: more rows, a "
        "policy further from the one that wrote the log, a world that moves while the log is written."
    )
    tables = [_table(rows, axis) for axis in dict.fromkeys(row.axis for row in rows)]
    return Page(
        answer(rows),
        [*tables, _biases(rows)],
        [Drawing("Relative error", caption, _figure(rows))],
        TERMS,
        details=[_verdict(rows)],
    )


def answer(rows: Sequence[Accuracy]) -> str:
    """Return the estimator that is nearest to the truth in most cases."""
    cases: dict[tuple[str, str, float], list[Accuracy]] = {}
    for row in rows:
        if row.estimator != LOGGED:
            cases.setdefault((row.world, row.axis, row.at), []).append(row)
    wins = Counter(min(case, key=lambda row: row.error).estimator for case in cases.values())
    ((best, count),) = wins.most_common(1)
    return (
        f"Use {best}: it is nearest to the truth in {count} of {len(cases)} cases, more often than any other estimator."
    )


def _verdict(rows: Sequence[Accuracy]) -> str:
    """Say which estimator does best in each world over sizes and distances, by its mean rank of errors."""
    told = []
    for world in dict.fromkeys(row.world for row in rows):
        own = [row for row in rows if row.world == world and row.axis == "n" and row.estimator != LOGGED]
        ends = min(row.at for row in own), max(row.at for row in own)
        best = [min((row for row in own if row.at == end), key=lambda row: row.error) for end in ends]
        plain = {row.at: row.error for row in own if row.estimator == "ips"}
        told.append(
            f"{world}: with {ends[0]:,.0f} rows {best[0].estimator} is nearest ({best[0].error:.1%} off, ips "
            f"{plain[ends[0]]:.1%}), with {ends[1]:,.0f} rows {best[1].estimator} ({best[1].error:.1%}, ips "
            f"{plain[ends[1]]:.1%})"
        )
    return f"Relative errors at a distance of 1. {'; '.join(told)}."


def _places(rows: Sequence[Accuracy], axis: str) -> dict[tuple[str, float], dict[str, Accuracy]]:
    found: dict[tuple[str, float], dict[str, Accuracy]] = {}
    for row in rows:
        if row.axis == axis:
            found.setdefault((row.world, row.at), {})[row.estimator] = row
    return found


def _table(rows: Sequence[Accuracy], axis: str) -> PageTable:
    names, told = list(dict.fromkeys(row.estimator for row in rows)), []
    for (world, at), own in _places(rows, axis).items():
        effective = f"{next(iter(own.values())).effective:,.0f}"
        told.append((world, f"{at:,g}", effective, *(f"{own[name].error:.1%}" for name in names)))
    heads = ("world", TITLES[axis], "effective rows", *names)
    return PageTable(f"Relative error by {TITLES[axis]}", heads, told)


def _biases(rows: Sequence[Accuracy]) -> PageTable:
    names, told = list(dict.fromkeys(row.estimator for row in rows)), []
    for axis, title in TITLES.items():
        places = _places(rows, axis)
        for (world, at), own in list(places.items()):
            if at == max(place[1] for place in places if place[0] == world):
                told.append((world, f"{title} {at:,g}", *(f"{own[name].bias:+.1%}" for name in names)))
    caption = "Mean error over the truth at the far end of each axis."
    return PageTable("Bias", ("world", "where", *names), told, n_text=2, caption=caption)


def _figure(rows: Sequence[Accuracy]) -> go.Figure:
    worlds, axes = (list(dict.fromkeys(getattr(row, name) for row in rows)) for name in ("world", "axis"))
    titles = [world if not column else "" for world in worlds for column in range(len(axes))]
    figure = make_subplots(len(worlds), len(axes), subplot_titles=titles, shared_yaxes="rows", horizontal_spacing=0.03)
    margin = {"l": 64, "r": 24, "t": 70, "b": 54}
    legend = {"orientation": "h", "y": 1.04, "yanchor": "bottom", "font": {"color": MUTED}}
    figure.update_layout(**layout_style(height=120 + 270 * len(worlds), margin=margin), legend=legend)
    figure.update_layout(showlegend=True)
    figure.update_annotations(font={"size": 12, "color": INK})
    for place, (world, axis) in enumerate((world, axis) for world in worlds for axis in axes):
        panel = {"row": place // len(axes) + 1, "col": place % len(axes) + 1}
        _lines(figure, [row for row in rows if (row.world, row.axis) == (world, axis)], panel, legend=place == 0)
        kind = {"type": "log", "tickvals": SIZES} if axis == "n" else {}
        figure.update_xaxes(**axis_style(), **kind, title_text=TITLES[axis], **panel)
    figure.update_yaxes(**axis_style(), type="log", tickvals=TICKS, tickformat="~%")
    return figure


def _lines(figure: go.Figure, rows: Sequence[Accuracy], panel: dict[str, int], *, legend: bool) -> None:
    for number, name in enumerate(dict.fromkeys(row.estimator for row in rows)):
        own = [row for row in rows if row.estimator == name]
        color, dash = (GREYS[1], "dot") if name == LOGGED else (COLORS[number], "solid")
        figure.add_scatter(
            x=[row.at for row in own],
            y=[row.error for row in own],
            name=name,
            mode="lines+markers",
            line={"color": color, "width": 1.8, "dash": dash},
            marker={"size": 5},
            legendgroup=name,
            showlegend=legend,
            hovertemplate=f"{name}: %{{y:.1%}} at %{{x}}<extra></extra>",
            **panel,
        )
