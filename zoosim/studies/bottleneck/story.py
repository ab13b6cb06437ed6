"""The page of the bottleneck study: what a decision costs against candidates and parameters, on log-log axes."""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence

import plotly.graph_objects as go

from zoosim.report.drawing import (
    CHARACTER,
    COLORS,
    LINE_HEIGHT,
    MUTED,
    axis_style,
    darker,
    escaped,
    layout_style,
    rgba,
    spread_apart,
)
from zoosim.report.story import Drawing, Story, Table
from zoosim.studies.bottleneck.analysis import verdict
from zoosim.studies.bottleneck.timing import Timing

PARTS = {
    "gradients": COLORS[0],
    "inverse": COLORS[1],
    "bonuses": COLORS[2],
    "choosing": COLORS[5],
    "learning": COLORS[3],
}
TERMS = {
    "plain loop": "As published: a backward pass for each candidate, the inverse of a (p, p) matrix, the bonuses.",
    "Jacobian": "The same with all gradients in one vectorised pass, kept as a (K, p) matrix.",
    "inverse": "The inverse alone: what both of them pay however few candidates there are.",
    "MB": "Of the published forms what one decision needs; of neural-ucb all that it keeps, candidates of earlier "
    "visitors included.",
    "exact": "neural-ucb: the same bonuses from the factors of the gradients; new candidates at every visit.",
    "exact, fixed pool": "The same for one visitor and a fixed set of products: only those are evaluated that may be "
    "best.",
    "last layer": "Only the last layer's gradients: cheap, and another bonus.",
}


def tell(timings: Sequence[Timing]) -> Story:
    """Tell what was measured: figures, and every measurement in a table."""
    words = _words(timings)
    drawings = [Drawing(*words[key], figure) for key, figure in bottleneck_figures(timings).items()]
    return Story(verdict(timings), [_table(timings)], drawings, TERMS)


def _table(timings: Sequence[Timing]) -> Table:
    heads = ("method", "network", "on", "parameters", "candidates", "ms", "MB", "runs")
    rows = [
        (
            *(t.method, f"9-{t.network}-1", t.device, f"{t.parameters:,}", f"{t.candidates:,}"),
            *(f"{t.milliseconds:,.3f}", f"{t.megabytes:,.2f}", f"{t.repeats}"),
        )
        for t in timings
    ]
    return Table("Every measurement", heads, rows, n_text=3, caption="A decision, learning included.")


def bottleneck_figures(timings: Sequence[Timing]) -> dict[str, go.Figure]:
    """Draw time and memory by candidates for each network with several, time by parameters, and the parts at 50."""
    networks = dict.fromkeys(t.network for t in timings)
    several = [n for n in networks if len({t.candidates for t in timings if t.network == n}) > 1]
    drawn: dict[str, go.Figure] = {}
    for number, network in enumerate(several):
        own = [t for t in timings if t.network == network]
        drawn[f"time-{number}"] = _log_log(own, "candidates", "milliseconds", "candidates", "ms a decision")
        drawn[f"memory-{number}"] = _log_log(own, "candidates", "megabytes", "candidates", "MB")
    at = _common_count(timings)
    if len(networks) > 1:
        same = [t for t in timings if t.candidates == at and t.device == "cpu"]
        drawn["parameters"] = _log_log(same, "parameters", "milliseconds", "parameters", "ms a decision")
    drawn["parts"] = _parts([t for t in timings if t.candidates == at and t.parts])
    return drawn


def _common_count(timings: Sequence[Timing]) -> int:
    """Return the number of candidates that most networks were measured with."""
    networks = {count: len({t.network for t in timings if t.candidates == count}) for count in _counts(timings)}
    return max(networks, key=lambda count: (networks[count], count == 50, -count))


def _counts(timings: Iterable[Timing]) -> list[int]:
    return sorted({t.candidates for t in timings})


def _words(timings: Sequence[Timing]) -> dict[str, tuple[str, str]]:
    networks = {t.network: t.parameters for t in timings}
    several = [n for n in networks if len({t.candidates for t in timings if t.network == n}) > 1]
    at = _common_count(timings)
    words = {
        "parameters": (
            f"Time by parameters, {at:,} candidates",
            "The inverse grows with the cube of the parameters; the exact forms never compute it.",
        ),
        "parts": (
            f"Where the time goes, {at:,} candidates",
            "Milliseconds of each part of a decision, on a logarithmic axis a row; hover for figures.",
        ),
    }
    for number, network in enumerate(several):
        size = f"{networks[network]:,} parameters (9-{network}-1)"
        words[f"time-{number}"] = (
            f"Time of a decision, {size}",
            "Lower is better. A line ends where time or memory is out of reach.",
        )
        words[f"memory-{number}"] = (
            f"Memory, {size}",
            "The arrays that a decision needs, or that are kept.",
        )
    return words


def _line_of(timing: Timing) -> str:
    return timing.method if timing.device == "cpu" else f"{timing.method}, GPU"


def _log_log(timings: Sequence[Timing], x: str, y: str, x_title: str, y_title: str) -> go.Figure:
    lines: dict[str, list[tuple[float, float]]] = {}
    for timing in timings:
        lines.setdefault(_line_of(timing), []).append((getattr(timing, x), getattr(timing, y)))
    margin = {"l": 72, "r": 60 + CHARACTER * max(map(len, lines)), "t": 16, "b": 54}
    figure = go.Figure(layout=layout_style(height=400, margin=margin))
    colors = dict(zip(lines, itertools.cycle(COLORS), strict=False))
    for line, points in lines.items():
        xs, ys = zip(*sorted(points), strict=True)
        style = {"mode": "lines+markers", "line": {"color": colors[line], "width": 2}, "marker": {"size": 7}}
        hover = [f"{escaped(line)}<br>{a:,} {x_title}: {b:,.3g} {y_title}" for a, b in zip(xs, ys, strict=True)]
        figure.add_scatter(x=xs, y=ys, **style, text=hover, hovertemplate="%{text}<extra></extra>")
    levels = [math.log10(y) for points in lines.values() for _, y in points]
    bounds = (min(levels) - 0.2, max(levels) + 0.2)
    figure.update_xaxes(**axis_style(), type="log", title_text=x_title, dtick=1, tickformat=",d")
    figure.update_yaxes(**axis_style(), type="log", title_text=y_title, dtick=1, tickformat=",~g", range=bounds)
    _label_ends(figure, {line: max(points) for line, points in lines.items()}, colors, bounds)
    return figure


def _label_ends(
    figure: go.Figure,
    ends: Mapping[str, tuple[float, float]],
    colors: Mapping[str, str],
    bounds: tuple[float, float],
) -> None:
    """Write each line's name right of its end so that none overlap."""
    inner = figure.layout.height - figure.layout.margin.t - figure.layout.margin.b
    names = sorted(ends, key=lambda name: -ends[name][1])
    wanted = [(bounds[1] - math.log10(ends[name][1])) / (bounds[1] - bounds[0]) * inner for name in names]
    for name, want, place in zip(names, wanted, spread_apart(wanted, LINE_HEIGHT, inner), strict=True):
        at = {"x": math.log10(ends[name][0]), "y": math.log10(ends[name][1]), "ax": 30, "ay": place - want}
        leader = {"showarrow": True, "arrowhead": 0, "arrowwidth": 1, "arrowcolor": rgba(colors[name], 0.6)}
        words = {"text": escaped(name), "xanchor": "left", "font": {"color": darker(colors[name]), "size": 12}}
        figure.add_annotation(**at, **leader, **words)


def _parts(timings: Sequence[Timing]) -> go.Figure:
    labels = [f"{_line_of(t)}, p = {t.parameters:,}" for t in timings]
    margin = {"l": 24 + CHARACTER * max(map(len, labels)), "r": 24, "t": 34, "b": 54}
    figure = go.Figure(layout=layout_style(height=100 + 24 * len(labels), margin=margin))
    for part, color in PARTS.items():
        values = [t.parts.get(part) for t in timings]
        if any(value is not None for value in values):
            marker = {"color": color, "size": 10, "line": {"color": color, "width": 1}}
            hover = [None if v is None else f"{part}: {v:,.3g} ms" for v in values]
            dots = {"mode": "markers", "marker": marker, "name": part, "showlegend": True}
            figure.add_scatter(x=values, y=labels, **dots, text=hover, hovertemplate="%{text}<extra></extra>")
    figure.update_xaxes(**axis_style(), type="log", title_text="ms", dtick=1, tickformat=",~g")
    figure.update_yaxes(**{**axis_style(), "autorange": "reversed", "title": None})
    figure.update_layout(legend={"orientation": "h", "y": 1.0, "yanchor": "bottom", "font": {"color": MUTED}})
    return figure
