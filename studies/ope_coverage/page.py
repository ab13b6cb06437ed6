"""What the cells tell: coverage with its binomial band, by interval and estimator, and where the verdict is trust."""

import math
from collections.abc import Sequence

import plotly.graph_objects as go

from studies.figures import rows_figure
from studies.ope_coverage.cells import ENOUGH
from studies.ope_coverage.measuring import BERNSTEIN, BOOTSTRAP, ROWS, SEQUENCE, Covered
from studies.rows import rows_where
from zoosim.report.drawing import ACCENT, COLORS, MUTED, dot_style
from zoosim.report.sections import Drawing, Page, PageTable

LEVEL, TRUSTED = 0.95, 0.935
ERRORS = 3.0
STYLES = (
    ((BOOTSTRAP, "ips"), ACCENT, "circle"),
    ((BOOTSTRAP, "snips"), COLORS[1], "circle"),
    ((BOOTSTRAP, "dr"), COLORS[2], "circle"),
    ((BERNSTEIN, "any"), MUTED, "diamond-open"),
    ((SEQUENCE, "any"), MUTED, "square-open"),
)
TERMS = {
    "cell": "A world, a log size and a target policy at a distance from the one that writes the log. All are fixed in "
    "advance; the truth is known from the world.",
    "sound": f"Propensities are right, no action is missing, and the log counts for {ENOUGH:.0f} rows of the target's "
    "own or more, in expectation. It is a property of the world, not of what was measured. Logs of boosts are not: "
    "kernels judge a blurred policy, and only the verdict can say where that matters.",
    "band": "Three binomial standard errors around 95%: where the coverage of an interval that holds 95% of the time "
    "lies nearly always.",
    "bernstein, sequence": "Empirical Bernstein, and the confidence sequence, which holds if it does so after "
    "every row. Both bound the policy's value whichever the estimator, need rewards of a known range, and the sequence "
    "rows that are fresh draws of the same visitors; elsewhere they are left out.",
    "trust": f"Of the logs with the verdict trust, at least {TRUSTED:.1%} should have an interval that holds.",
}


def build_page(rows: Sequence[Covered]) -> Page:
    """Tell what was found."""
    labels = [_label(row) for row in _firsts(rows)]
    caption = "How often intervals hold. Grey band: where 95% lies within three binomial standard errors. "
    drawing = Drawing(
        "Coverage, cell by cell", caption + "A star marks cells whose log is not sound.", _figure(rows, labels)
    )
    return Page(answer(rows), [_coverage(rows), _sides(rows)], [drawing], TERMS, details=[_verdict(rows)])


def band(logs: int) -> tuple[float, float]:
    """Return 95% less and plus three binomial standard errors."""
    half = ERRORS * math.sqrt(LEVEL * (1.0 - LEVEL) / logs)
    return LEVEL - half, LEVEL + half


def _firsts(rows: Sequence[Covered]) -> list[Covered]:
    """Return one row per cell."""
    return list({row.cell: row for row in reversed(rows)}.values())[::-1]


def _sound(row: Covered) -> bool:
    return row.interval == BOOTSTRAP and row.promised


def _label(row: Covered) -> str:
    return f"{row.world}, {row.n:,}, {row.distance:g}{'' if _sound(row) else ' *'}"


def answer(rows: Sequence[Covered]) -> str:
    """Return whether to rely on intervals with the verdict trust."""
    trusted = [row for row in rows if row.interval == BOOTSTRAP and row.trusted]
    share = sum(row.trusted_held for row in trusted) / max(sum(row.trusted for row in trusted), 1)
    advice = "Rely" if share >= TRUSTED else "Do not rely"
    return f"{advice} on intervals with the verdict trust: they hold {share:.1%} of the time (wanted: {TRUSTED:.1%})."


def _verdict(rows: Sequence[Covered]) -> str:
    own = [row for row in rows if row.interval == BOOTSTRAP]
    sound = [row for row in own if row.promised]
    inside = sum(band(row.logs)[0] <= row.coverage <= band(row.logs)[1] for row in sound)
    low, high = min((row.coverage for row in sound), default=1.0), max((row.coverage for row in sound), default=1.0)
    told = (
        f"Where the log is sound, {inside} of {len(sound)} default intervals hold within three binomial standard "
        f"errors of 95% ({low:.1%} to {high:.1%})"
    )
    for name in (BERNSTEIN, SEQUENCE):
        least = min((row.coverage for row in rows if row.interval == name and row.promised), default=1.0)
        told += f"; {name} at least {least:.1%}"
    trusted = [row for row in own if row.trusted]
    share = sum(row.trusted_held for row in trusted) / max(sum(row.trusted for row in trusted), 1)
    return f"{told}. Intervals with the verdict trust hold {share:.1%} of the time (wanted: {TRUSTED:.1%})."


def _cells_of(rows: Sequence[Covered]) -> list[tuple[Covered, dict[tuple[str, str], Covered]]]:
    found: dict[int, dict[tuple[str, str], Covered]] = {}
    for row in rows:
        found.setdefault(row.cell, {})[row.interval, row.estimator] = row
    return [(next(iter(cell.values())), cell) for cell in found.values()]


def _coverage(rows: Sequence[Covered]) -> PageTable:
    told = []
    for first, cell in _cells_of(rows):
        own = [row for row in cell.values() if row.interval == BOOTSTRAP]
        trusted = sum(row.trusted for row in own)
        shares = [_marked(cell[name]) if name in cell else "" for name in ROWS]
        held = f"{sum(row.trusted_held for row in own) / trusted:.1%}" if trusted else "none"
        effective = "" if first.effective is None else f"{first.effective:,.0f}"
        place = (first.world, f"{first.n:,}", f"{first.distance:g}", effective)
        sound = "yes" if _sound(first) else "no"
        told.append((*place, sound, *shares, f"{trusted / sum(row.logs for row in own):.0%}", held))
    heads = ("world", "rows", "distance", "effective rows", "sound", *map(_name, ROWS), "trust", "trusted hold")
    low, high = band(rows[0].logs)
    caption = (
        f"{rows[0].logs:,} logs a cell; the band is {low:.1%} to {high:.1%}. An exclamation mark: outside what is "
        "promised. ips, snips and dr are the default interval of these estimators; of rankings cascade-ips and so on, "
        "of boosts kernel-ips and so on."
    )
    return PageTable("Coverage", heads, told, n_text=1, caption=caption)


def _name(row: tuple[str, str]) -> str:
    return row[1] if row[0] == BOOTSTRAP else row[0]


def _marked(row: Covered) -> str:
    """Return the coverage, and a mark where it breaks a promise."""
    low, high = band(row.logs) if row.interval == BOOTSTRAP else (LEVEL, 1.0)
    return f"{row.coverage:.1%}{' !' if row.promised and not low <= row.coverage <= high else ''}"


def _sides(rows: Sequence[Covered]) -> PageTable:
    """Say on which side intervals miss, and how wide they are."""
    told = []
    for first, cell in _cells_of(rows):
        own = [row for row in cell.values() if row.interval == BOOTSTRAP]
        sides = [f"{row.below / row.logs:.1%} / {row.above / row.logs:.1%}" for row in own]
        told.append((_label(first), *sides, *(_width(cell[name]) if name in cell else "" for name in ROWS)))
    names = [_name(name) for name in ROWS]
    heads = ("cell", *(f"{name}: below / above" for name in names[:3]), *(f"{name}: width" for name in names))
    caption = (
        "Logs whose truth lies below, or above, the interval; and the median of the interval's width over the truth."
    )
    return PageTable("Misses by side, and widths", heads, told, caption=caption)


def _width(row: Covered) -> str:
    return "open" if row.width is None else f"{row.width:.2f}"


def _figure(rows: Sequence[Covered], labels: Sequence[str]) -> go.Figure:
    figure = rows_figure(labels, "logs whose interval holds", row=24)
    low, high = band(rows[0].logs)
    figure.add_vrect(x0=low, x1=high, fillcolor="#e3e7ea", line_width=0, layer="below")
    figure.add_vline(x=LEVEL, line={"color": MUTED, "width": 1, "dash": "dot"})
    places = {row.cell: place for place, row in enumerate(_firsts(rows))}
    for name, color, symbol in STYLES:
        own = rows_where(rows, interval=name[0], estimator=name[1])
        hover = [f"{labels[places[row.cell]]}<br>{_name(name)}: {row.coverage:.1%} of {row.logs:,} logs" for row in own]
        figure.add_scatter(
            x=[max(row.coverage, 0.8) for row in own],
            y=[places[row.cell] for row in own],
            **dot_style(color, symbol),
            name=_name(name),
            showlegend=True,
            text=hover,
            hovertemplate="%{text}<extra></extra>",
        )
    figure.update_xaxes(tickformat=".0%", range=[0.795, 1.005])
    legend = {"orientation": "h", "y": 1.0, "yanchor": "bottom", "font": {"color": MUTED}}
    figure.update_layout(showlegend=True, legend=legend)
    return figure
