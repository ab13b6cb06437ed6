"""The page of the bottleneck study: what a decision costs against candidates and parameters, on log-log axes."""

import itertools
import math
from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from studies.bottleneck.arithmetic import orders_table, sizes_table
from studies.bottleneck.timing import Timing
from studies.cards import card_sentence
from studies.rows import rows_where
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
from zoosim.report.sections import Drawing, Page, PageTable

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
    "LinUCB": "A ridge model of its own for each candidate.",
    "embedding": "LinUCB, one for all candidates, on the last hidden layer of a network, as in neural-linear.",
    "on": "One thread of the processor (cpu), or a graphics card: in float64 on CUDA, in float32 on MPS.",
    "inverse": "The inverse alone: what both of them pay however few candidates there are.",
    "MB": "Of the published forms what one decision needs; of neural-ucb all that it keeps, candidates of earlier "
    "visitors included.",
    "exact": "neural-ucb: the same bonuses from the factors of the gradients; new candidates at every visit.",
    "exact, fixed pool": "The same for one visitor and a fixed set of products: only those are evaluated that may be "
    "best.",
    "last layer": "Only the last layer's gradients: cheap, and another bonus.",
}


def build_page(timings: Sequence[Timing]) -> Page:
    """Return what was measured as figures and a table, and what the orders of each form come to."""
    details = [verdict(timings), card_sentence(timing.device for timing in timings)]
    tables = [_table(timings), orders_table(), sizes_table()]
    return Page(answer(timings), tables, _drawings(timings), TERMS, details=details)


def answer(timings: Sequence[Timing]) -> str:
    """Return which form to use, by the smallest gain in time over the published one."""
    ratios = _ratios(timings, "plain loop")
    if not ratios:
        return "Measure both forms at one size: only one of them was measured."
    form = "the exact form" if min(ratios) > 1.0 else "the published loop for small networks"
    least, most = f"{min(ratios):,.1f}", f"{max(ratios):,.0f}"
    return f"Use {form}: {least} to {most} times less time than the published loop for the same bonuses."


def _ratios(timings: Sequence[Timing], form: str) -> list[float]:
    """Return how many times longer a published form takes than the exact one, at each size that both were timed at."""
    by_size = {(t.method, t.parameters, t.candidates): t.milliseconds for t in timings if t.device == "cpu"}
    return [
        by_size[form, parameters, count] / milliseconds
        for (method, parameters, count), milliseconds in by_size.items()
        if method == "exact" and (form, parameters, count) in by_size
    ]


def verdict(timings: Sequence[Timing]) -> str:
    """Say in a sentence how the exact form compares with the published one, for the smallest and largest network."""
    both = {(t.method, t.parameters, t.candidates): t for t in timings if t.device == "cpu"}
    keys = [(parameters, count) for method, parameters, count in both if method == "exact"]
    pairs = sorted(
        (key for key in keys if ("plain loop", *key) in both), key=lambda key: (key[0], key[1] == 50, key[1])
    )
    if not pairs:
        return "No verdict: no size was measured in both forms."
    told = [_compared(both["plain loop", *key], both["exact", *key]) for key in dict.fromkeys((pairs[0], pairs[-1]))]
    ratios = _ratios(timings, "Jacobian")
    at_once = f" With all gradients at once, the Jacobian, {min(ratios):,.1f} to {max(ratios):,.0f}." if ratios else ""
    return f"The same bonuses as published, for less: {'; '.join(told)}.{at_once}"


def _compared(plain: Timing, exact: Timing) -> str:
    size = f"{exact.parameters:,} parameters and {exact.candidates:,} candidates"
    ratio = plain.milliseconds / exact.milliseconds
    return f"with {size} {exact.milliseconds:.2f} ms against {plain.milliseconds:,.0f} ms, a factor of {ratio:,.0f}"


def _table(timings: Sequence[Timing]) -> PageTable:
    heads = ("method", "network", "on", "parameters", "candidates", "ms", "MB", "runs")
    rows = [
        (
            *(t.method, f"9-{t.network}-1", t.device, f"{t.parameters:,}", f"{t.candidates:,}"),
            *(f"{t.milliseconds:,.3f}", f"{t.megabytes:,.2f}", f"{t.repeats}"),
        )
        for t in timings
    ]
    return PageTable("Every measurement", heads, rows, n_text=3, caption="A decision, learning included.")


def _drawings(timings: Sequence[Timing]) -> list[Drawing]:
    """Draw time and memory by candidates for each network with several, time by parameters, and the parts at 50."""
    networks, drawn = dict.fromkeys(t.network for t in timings), list[Drawing]()
    for network in networks:
        own = rows_where(timings, network=network)
        if len({t.candidates for t in own}) > 1:
            size = f"{own[0].parameters:,} parameters (9-{network}-1)"
            lower = "Lower is better. A line ends where time or memory is out of reach."
            time = _log_log(own, "candidates", "milliseconds", "candidates", "ms a decision")
            memory = _log_log(own, "candidates", "megabytes", "candidates", "MB")
            drawn.append(Drawing(f"Time of a decision, {size}", lower, time))
            drawn.append(Drawing(f"Memory, {size}", "The arrays that a decision needs, or that are kept.", memory))
    at = _common_count(timings)
    if len(networks) > 1:
        same = rows_where(timings, candidates=at, device="cpu")
        caption = "The inverse grows with the cube of the parameters; the exact forms never compute it."
        figure = _log_log(same, "parameters", "milliseconds", "parameters", "ms a decision")
        drawn.append(Drawing(f"Time by parameters, {at:,} candidates", caption, figure))
    caption = "Milliseconds of each part of a decision, on a logarithmic axis a row; hover for figures."
    figure = _parts([t for t in timings if t.candidates == at and t.parts])
    return [*drawn, Drawing(f"Where the time goes, {at:,} candidates", caption, figure)]


def _common_count(timings: Sequence[Timing]) -> int:
    """Return the number of candidates that most networks were measured with."""
    counts = sorted({t.candidates for t in timings})
    networks = {count: len({t.network for t in timings if t.candidates == count}) for count in counts}
    return max(networks, key=lambda count: (networks[count], count == 50, -count))


def _line_of(timing: Timing) -> str:
    return timing.method if timing.device == "cpu" else f"{timing.method}, {timing.device}"


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
    figure: go.Figure, ends: Mapping[str, tuple[float, float]], colors: Mapping[str, str], bounds: tuple[float, float]
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
