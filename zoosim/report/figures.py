"""The figures of a report, in plotly: curves over the stream, phases, recovery, pairs."""

import itertools
import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from zoosim.core.statistics import SIGNIFICANT
from zoosim.core.types import FloatArray
from zoosim.report.data import Curve, Pair, ReportData, parted, ranked, shock_names
from zoosim.report.drawing import (
    ACCENT,
    CHARACTER,
    GREYS,
    INK,
    LINE_HEIGHT,
    MUTED,
    NAME,
    Style,
    axis_style,
    darker,
    dot_style,
    error_bar,
    escaped,
    label_of,
    layout_style,
    panel_of,
    panels,
    policy_styles,
    rgba,
    row_axis_style,
    shortened,
    spread_apart,
    words_style,
)
from zoosim.report.features import features_figure
from zoosim.report.kinds import kinds_figure
from zoosim.worlds.facts import Reference

PHASES_ACROSS = 3
RECOVERY_ACROSS = 2
SHOCK_LINE = {"color": GREYS[0], "width": 1, "dash": "4px,3px"}
PRINTED = 430  # px, width of the plot on paper and on a phone held wide


def figures(report: ReportData) -> dict[str, go.Figure]:
    """Draw 'features', the curves, 'targets', 'kinds', 'phases', 'seeds', 'recovery' and 'pairs'.

    Curves are 'ctr', or where rewards are amounts the 'share' of the oracle, which has less noise; 'clicks'; 'regret'.
    What has no data is left out, and in a crowd of policies what draws each one's own.
    """
    drawn = {
        "features": features_figure(report),
        **({} if report.crowded else _all_curves(report)),
        "targets": None if report.crowded else _targets(report),
        "kinds": kinds_figure(report),
        "phases": _phases(report),
        "seeds": None if report.crowded else _seeds(report),
        "recovery": _recovery(report),
        "pairs": None if report.crowded else _pairs(parted(report.summary)[0]),
    }
    return {key: figure for key, figure in drawn.items() if figure is not None}


def _all_curves(report: ReportData) -> dict[str, go.Figure | None]:
    reward = report.reward
    unit = f", {reward.unit}" if reward.unit else ""
    rate, title = ("ctr", reward.name) if reward.is_share else ("share", "share of the oracle")
    return {
        rate: _curves(report, rate, f"{title}, moving average", "~%", is_average=True),
        "clicks": _curves(report, "clicks", f"{reward.word} so far{unit}", ",.0f"),
        "regret": _curves(report, "regret", f"regret so far{unit}", ",.0f"),
    }


def _curves(
    report: ReportData, key: str, title: str, tick_format: str, *, is_average: bool = False
) -> go.Figure | None:
    names = [name for name in ranked(report.summary) if _drawable(report.curves.get(name, {}).get(key))]
    if not names:
        return None
    steps = report.summary["steps"]
    styles = policy_styles(report.summary["policies"], report.features)
    curves = {name: report.curves[name][key] for name in names}
    labelled = _labelled(names, styles)
    levels = _levels(report.shocks, steps)
    layout = layout_style(margin=_curve_margin(labelled, levels), height=390 + LINE_HEIGHT * max(levels, default=0))
    figure = go.Figure(layout=layout)
    for name in reversed(names):
        _add_curve(figure, name, curves[name], styles[name])

    references = report.references if is_average else ()
    bounds = _bounds(curves.values(), references, window=report.window if is_average else 0)
    hover_format = ".1%" if tick_format == "~%" else tick_format
    spikes = {"spikecolor": MUTED, "spikethickness": 1, "spikedash": "solid"}
    figure.update_xaxes(**axis_style(), title_text=f"{report.unit}s", tickformat=",d", range=[0, steps], **spikes)
    figure.update_yaxes(
        **axis_style(), title_text=title, tickformat=tick_format, hoverformat=hover_format, range=bounds
    )
    figure.update_layout(hovermode="x unified", hoverlabel_namelength=-1)
    _add_shocks(figure, report.shocks, levels, steps)
    inner = layout["height"] - layout["margin"]["t"] - layout["margin"]["b"]
    _add_references(figure, references, bounds, inner)
    _label_ends(figure, {name: curves[name] for name in labelled}, styles, bounds, inner)
    return figure


def _targets(report: ReportData) -> go.Figure | None:
    """Draw for each target the share of the segment's visits that got it, and how many of its products were tried."""
    names = [name for name in ranked(report.summary) if "shown 0" in report.curves.get(name, {})]
    if not report.targets or not names:
        return None
    styles = policy_styles(report.summary["policies"], report.features)
    titles = []
    for target in report.targets:
        what = f"{label_of(target.group, NAME)} for {label_of(target.segment, NAME)}"
        titles += [f"{what}:<br>share of their {report.unit}s", f"{what}:<br>products tried since the shock"]
    rows = len(report.targets)
    figure = make_subplots(rows, 2, subplot_titles=titles, horizontal_spacing=0.1, vertical_spacing=0.3 / rows)
    for number, column in itertools.product(range(rows), (1, 2)):
        curves = {name: report.curves[name][f"{'shown' if column == 1 else 'tried'} {number}"] for name in names}
        _add_means(figure, curves, styles, in_legend=number == 0 and column == 1, row=number + 1, col=column)
        figure.add_vline(x=report.targets[number].step, line=SHOCK_LINE, row=number + 1, col=column)
    figure.update_yaxes(tickformat=".0%", rangemode="tozero", col=1)
    legend = {"orientation": "h", "y": 1.0, "yref": "container", "yanchor": "top", "x": 0, "font": {"color": MUTED}}
    margin = {"l": 56, "r": 16, "t": 112, "b": 48}
    figure.update_layout(**layout_style(height=160 + 250 * rows, margin=margin, showlegend=True, legend=legend))
    figure.update_layout(hovermode="x unified")
    figure.update_annotations(font={"size": 12, "color": INK})
    figure.update_xaxes(**axis_style(), tickformat=",d", range=[0, report.summary["steps"]])
    figure.update_yaxes(**axis_style())
    return figure


def _add_means(
    figure: go.Figure, curves: Mapping[str, Curve], styles: Mapping[str, Style], *, in_legend: bool, **place: int
) -> None:
    """Draw the means of policies' curves in one panel; the legend switches a policy in all panels."""
    for name, curve in curves.items():
        line = {"color": styles[name].color, "dash": styles[name].dash, "width": 2}
        group = {"legendgroup": name, "showlegend": in_legend}
        figure.add_scatter(x=curve.steps, y=curve.mean, mode="lines", name=escaped(name), line=line, **group, **place)


def _labelled(names: Sequence[str], styles: Mapping[str, Style]) -> list[str]:
    """Return the policies whose curves are named: of muted ones, the best alone."""
    best = next((name for name in names if styles[name].muted), None)
    return [name for name in names if name == best or not styles[name].muted]


def _add_curve(figure: go.Figure, name: str, curve: Curve, style: Style) -> None:
    common = {"mode": "lines", "meta": name, "name": escaped(name), "showlegend": False}
    wide = (curve.high > curve.low) & (not style.muted)
    if bool(wide.any()):  # one polygon, not fill="tonexty": that turns the order of the hover box round
        x = curve.steps[wide]
        low = curve.low[wide]
        high = curve.high[wide]
        band = {"fill": "toself", "fillcolor": rgba(style.color, 0.13), "line_width": 0, "hoverinfo": "skip"}
        figure.add_scatter(x=np.r_[x, x[::-1]], y=np.r_[high, low[::-1]], **common, **band)
    line = {"color": style.color, "dash": style.dash, "width": 1 if style.muted else 2}
    figure.add_scatter(x=curve.steps, y=curve.mean, **common, line=line)


def _bounds(curves: Iterable[Curve], references: Sequence[Reference], *, window: int) -> tuple[float, float]:
    """Return the range of y; of a moving average from its first full window on, or the second half: before is noise."""
    parts = [values[_settled(curve.steps, window)] for curve in curves for values in (curve.low, curve.high)]
    values = np.concatenate([*parts, np.array([reference.value for reference in references])])
    values = values[np.isfinite(values)]
    low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 1.0)
    margin = 0.04 * ((high - low) or abs(high) or 1.0)
    return (low if low == 0 else low - margin), high + margin


def _settled(steps: FloatArray, window: int) -> Any:
    if not window or not len(steps):
        return np.ones(len(steps), dtype=bool)
    return steps >= min(window, steps.max() / 2)


def _label_ends(
    figure: go.Figure,
    curves: Mapping[str, Curve],
    styles: Mapping[str, Style],
    bounds: tuple[float, float],
    inner: float,
) -> None:
    """Write each name right of the end of its curve so that none overlap; `inner` is the plot's height in px."""
    ends = {name: _last(curve) for name, curve in curves.items()}
    names = sorted(ends, key=lambda name: -ends[name][1])
    scale = inner / (bounds[1] - bounds[0])
    # In px from the top, as plotly moves labels away from their points (`ay`).
    wanted_heights = [(bounds[1] - ends[name][1]) * scale for name in names]
    heights = spread_apart(wanted_heights, LINE_HEIGHT, inner)
    for name, wanted_height, height in zip(names, wanted_heights, heights, strict=True):
        color = styles[name].color
        leader = {"showarrow": True, "arrowhead": 0, "arrowwidth": 1, "arrowcolor": rgba(color, 0.6)}
        label = {"text": label_of(name, NAME), "xanchor": "left", "font": {"color": darker(color), "size": 12}}
        x, y = ends[name]
        figure.add_annotation(x=x, y=y, ax=30, ay=height - wanted_height, name=name, **label, **leader)


def _levels(shocks: Sequence[tuple[int, str]], steps: int) -> list[int]:
    """Find for each shock the lowest free line of text above the plot, as wide as it is on paper."""
    levels: list[int] = []
    spans: list[tuple[float, float]] = []
    for step, name in shocks:
        width = CHARACTER * len(shortened(name, 40)) + 16
        position = PRINTED * step / max(steps, 1)
        starts = {"left": position, "right": position - width, "center": position - width / 2}
        start = starts[_anchor(step, name, steps)]
        span = (start, start + width)
        taken = {levels[i] for i, other in enumerate(spans) if span[0] < other[1] and other[0] < span[1]}
        levels.append(next(level for level in itertools.count() if level not in taken))
        spans.append(span)
    return levels


def _anchor(step: int, name: str, steps: int) -> str:
    """Return on which side of its line a shock's name is written, so that it stays inside the plot."""
    half = CHARACTER * len(shortened(name, 40)) / 2
    position = PRINTED * step / max(steps, 1)
    if position < half:
        return "left"
    return "right" if position > PRINTED - half else "center"


def _add_shocks(figure: go.Figure, shocks: Sequence[tuple[int, str]], levels: Sequence[int], steps: int) -> None:
    for (step, name), level in zip(shocks, levels, strict=True):
        figure.add_vline(x=step, line=SHOCK_LINE)
        words = {"text": label_of(name, 40), "font": {"size": 12, "color": INK}, "showarrow": False}
        place = {"x": step, "y": 1, "yref": "paper", "yshift": 2 + LINE_HEIGHT * level, "yanchor": "bottom"}
        figure.add_annotation(**place, **words, xanchor=_anchor(step, name, steps))


def _add_references(
    figure: go.Figure, references: Sequence[Reference], bounds: tuple[float, float], inner: float
) -> None:
    """Draw lines to compare with, their names above them, or moved so that none overlap; see `_label_ends`."""
    lines = sorted(references, key=lambda line: -line.value)
    scale = inner / (bounds[1] - bounds[0])
    # The middles of names that stand on their lines, in px from the top.
    wanted_heights = [(bounds[1] - line.value) * scale - LINE_HEIGHT / 2 for line in lines]
    heights = spread_apart(wanted_heights, LINE_HEIGHT, inner)
    for line, wanted_height, height in zip(lines, wanted_heights, heights, strict=True):
        figure.add_hline(y=line.value, line={"color": INK, "width": 1, "dash": "dash"}, opacity=0.6)
        text = f"{label_of(line.name, 60)} {line.value:.1%}"
        label = {"text": text, "font": {"size": 12, "color": INK}, "showarrow": False}
        place = {"x": 0, "xref": "paper", "y": line.value, "xanchor": "left", "yanchor": "middle"}
        shift = LINE_HEIGHT / 2 + wanted_height - height
        figure.add_annotation(**place, **label, yshift=shift, bgcolor="rgba(255,255,255,0.75)")


def _phases(report: ReportData) -> go.Figure | None:
    policies = report.summary["policies"]
    names = [name for name in ranked(report.summary) if policies[name]["phases"]]
    if not names:
        return None
    spans = [(phase["from"], phase["to"]) for phase in policies[names[0]]["phases"]]
    figure = panels(names, [_phase_title(span, report) for span in spans], PHASES_ACROSS)
    styles = policy_styles(policies, report.features)
    fractions: list[Mapping[str, Any]] = []
    for row, name in enumerate(names):
        for index, phase in enumerate(policies[name]["phases"]):
            fraction = phase["oracle_fraction"]
            if fraction["mean"] is not None:
                fractions.append(fraction)
                panel = panel_of(index, len(spans), PHASES_ACROSS)
                _add_fraction(figure, fraction, row, panel, name, styles[name].color)
    figure.update_xaxes(**_fraction_axis(fractions))
    return figure


def _fraction_axis(values: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return range and ticks for fractions of oracle: 100% in view, and room for a number right of the last dot."""
    ends = [value[key] for value in values for key in ("low", "mean", "high") if value[key] is not None]
    lowest = min((value["mean"] for value in values if value["mean"] is not None), default=0.0)
    # A single interval that reaches far below 0 must not squeeze all dots: only means take the axis below 0.
    bottom = max(min(0.0, lowest), min(ends, default=0.0) - 0.05)
    top = max([1.0, *ends])
    if bottom < 0.5:
        step = 0.25
    else:
        step = 0.1 if bottom < 0.8 else 0.05
    ticks = [step * count for count in range(math.ceil(bottom / step), round(1 / step) + 1)]
    size = {"size": 11, "color": MUTED}
    return {"tickformat": ".0%", "range": [bottom, top + 0.22 * (top - bottom)], "tickvals": ticks, "tickfont": size}


def _phase_title(span: tuple[int, int], report: ReportData) -> str:
    named = " + ".join(name for step, name in report.shocks if step == span[0])
    first = ""
    if named:
        first = f"after {named}"
    elif report.shocks and not span[0]:
        first = "before shocks"
    lines = textwrap.wrap(first, 24, max_lines=2, placeholder="\u2026")
    head = "".join(f"<b>{escaped(line)}</b><br>" for line in lines)
    return f"{head}{report.unit}s {span[0]:,}\u2013{span[1]:,}"


def _add_fraction(
    figure: go.Figure, value: Mapping[str, Any], row: int, cell: Mapping[str, int], name: str, color: str
) -> None:
    mean = float(value["mean"])
    low, high = (mean if value[key] is None else float(value[key]) for key in ("low", "high"))
    hover = f"{escaped(name)}<br>{mean:.1%} of oracle"
    if high > low:
        hover += f"<br>{low:.1%} to {high:.1%}"
    dot = {**dot_style(color), "error_x": error_bar(mean, low, high), "hovertemplate": hover + "<extra></extra>"}
    figure.add_scatter(x=[mean], y=[row], **dot, **cell)
    figure.add_scatter(x=[high], y=[row], **words_style([f"{mean:.1%}"], "middle right"), **cell)


def _seeds(report: ReportData) -> go.Figure | None:
    """Draw one mark per seed and policy; None with a single seed."""
    policies = report.summary["policies"]
    seeds = report.summary["seeds"]
    names = [name for name in ranked(report.summary) if policies[name]["oracle_fraction"]["mean"] is not None]
    if not names or len(seeds) < 2:
        return None
    styles = policy_styles(policies, report.features)
    width = CHARACTER * max(len(shortened(name, NAME)) for name in names)
    margin = {"l": width + 24, "r": 16, "t": 12, "b": 54}
    figure = go.Figure(layout=layout_style(height=66 + 28 * len(names), margin=margin))
    for row, name in enumerate(names):
        by_seed = zip(seeds, policies[name]["oracle_fraction"]["per_seed"], strict=True)
        fractions = {seed: fraction for seed, fraction in by_seed if fraction is not None}
        dot = dot_style(styles[name].color, "line-ns")
        dot["marker"] |= {"size": 13}
        hover = [f"{escaped(name)}<br>seed {seed}: {fraction:.1%}" for seed, fraction in fractions.items()]
        points = {"x": list(fractions.values()), "y": [row] * len(fractions)}
        figure.add_scatter(**points, **dot, text=hover, hovertemplate="%{text}<extra></extra>")
    figure.update_yaxes(**row_axis_style([label_of(name, NAME) for name in names], size=12))
    figure.update_xaxes(**axis_style(), tickformat=".0%", title_text="% of oracle, one mark per seed")
    return figure


def _recovery(report: ReportData) -> go.Figure | None:
    policies = report.summary["policies"]
    shocks = shock_names(report.summary)
    names = [name for name in ranked(report.summary) if policies[name]["recovery_steps"]]
    if not shocks or not names:
        return None
    figure = panels(names, [f"<b>after {label_of(name, NAME)}</b>" for name in shocks], RECOVERY_ACROSS)
    recoveries = {(name, shock): policies[name]["recovery_steps"].get(shock) for name in names for shock in shocks}
    styles = policy_styles(policies, report.features)
    top = max((value["median"] or 0 for value in recoveries.values() if value), default=0) or 1
    never = any(value and value["median"] is None for value in recoveries.values())
    for (name, shock), value in recoveries.items():
        if value:
            panel = panel_of(shocks.index(shock), len(shocks), RECOVERY_ACROSS)
            # "Never" lies left of its tick, as words follow right of the mark.
            _add_recovery(figure, value, names.index(name), panel, name, styles[name].color, 1.36 * top)
    _set_recovery_axis(figure, top, never)
    figure.update_xaxes(title_text=f"{report.unit}s until recovered")
    return figure


def _set_recovery_axis(figure: go.Figure, top: float, never: bool) -> None:
    """Put ticks from 0 to `top`, and where a policy `never` recovered a grey zone for that right of them."""
    ticks = _ticks(top) if top > 1 else [0.0]
    words = [f"{tick:,.0f}" for tick in ticks]
    end = 1.4 * top
    if never:
        ticks.append(1.46 * top)
        words.append("never")
        end = 1.75 * top
        zone = {"fillcolor": "#f1f3f5", "line_width": 0, "layer": "below"}
        figure.add_vrect(x0=1.17 * top, x1=end, **zone, row="all", col="all")
    figure.update_xaxes(tickvals=ticks, ticktext=words, range=[-0.08 * top, end])


def _add_recovery(
    figure: go.Figure, value: Mapping[str, Any], row: int, cell: Mapping[str, int], name: str, color: str, never: float
) -> None:
    median = value["median"]
    seeds = f"{value['recovered']}/{value['of']}"
    median_label = "never" if median is None else f"{median:,.0f}"
    dot = dot_style(color) if median is not None else dot_style(color, "x-thin")
    hover = f"{escaped(name)}<br>median: {median_label}<br>recovered in {seeds} seeds<extra></extra>"
    place = {"x": [never if median is None else median], "y": [row], **cell}
    figure.add_scatter(**place, **dot, hovertemplate=hover)
    words = seeds if median is None else f"{median_label} <span style='color:{MUTED}'>({seeds})</span>"
    label_left = median is not None and median > 0.4 * never
    figure.add_scatter(**place, **words_style([words], "middle left" if label_left else "middle right"))


def _ticks(top: float) -> list[float]:
    """Return two to four round values from 0 to at most `top`."""
    rough = top / 3
    power = 10.0 ** math.floor(math.log10(rough))
    step = power * next(factor for factor in (1, 2, 5, 10) if factor * power >= rough)
    return [float(tick) for tick in np.arange(0, top + step / 100, step)]


def _pairs(pairs: list[Pair]) -> go.Figure | None:
    rows = [pair for pair in pairs if pair["difference"] is not None]
    if not rows:
        return None
    pitch = max(12.0, min(26.0, 780 / len(rows)))
    size = 12 if pitch > 15 else 10
    over = f" <span style='color:{MUTED}'>over</span> "
    labels = [label_of(pair["a"], NAME) + over + label_of(pair["b"], NAME) for pair in rows]
    length = max(len(shortened(pair["a"], NAME)) + len(shortened(pair["b"], NAME)) for pair in rows)
    margin = {"l": 40 + CHARACTER * (length + 4) * size / 12, "r": 20, "t": 12, "b": 56}
    figure = go.Figure(layout=layout_style(height=round(68 + pitch * (len(rows) + 0.4)), margin=margin))
    figure.add_vline(x=0, line={"color": INK, "width": 1.2})
    for row, pair in enumerate(rows):
        _add_pair(figure, pair, row)
    figure.update_yaxes(**row_axis_style(labels, size=size))
    figure.update_xaxes(**axis_style(), title_text="difference in points of % of oracle", ticksuffix="")
    return figure


def _add_pair(figure: go.Figure, pair: Mapping[str, Any], row: int) -> None:
    middle = 100 * pair["difference"]
    sure = pair["p"] is not None and pair["p"] < SIGNIFICANT
    low, high = (middle if pair[key] is None else 100 * pair[key] for key in ("low", "high"))
    hover = f"{escaped(pair['a'])} over {escaped(pair['b'])}<br>{middle:+.1f} points"
    if pair["p"] is not None:
        hover += f"<br>{low:+.1f} to {high:+.1f}, p = {pair['p']:.2g}"
    bar = error_bar(middle, low, high)
    dot = dot_style(ACCENT if sure else GREYS[0], "circle" if sure else "circle-open")
    figure.add_scatter(x=[middle], y=[row], error_x=bar, **dot, hovertemplate=hover + "<extra></extra>")


def _curve_margin(names: Sequence[str], levels: Sequence[int]) -> dict[str, float]:
    width = CHARACTER * max(len(shortened(name, NAME)) for name in names)
    return {"l": 64, "r": width + 48, "t": 26 + LINE_HEIGHT * max(levels, default=0), "b": 48}


def _drawable(curve: Curve | None) -> bool:
    return curve is not None and bool(np.isfinite(curve.mean).any())


def _last(curve: Curve) -> tuple[float, float]:
    index = np.flatnonzero(np.isfinite(curve.mean))[-1]
    return float(curve.steps[index]), float(curve.mean[index])
