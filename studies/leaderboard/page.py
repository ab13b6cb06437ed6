"""The standings of all learners, how sure they are, and a radar of each over the worlds."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from studies.axes.page import worlds_table
from studies.figures import add_interval, add_mark, rows_figure
from studies.leaderboard.measuring import Standing
from studies.session_axes import WORLDS, myopic_percent
from studies.writing import written
from zoosim.report.drawing import COLORS, GRID, INK, MUTED, grid_of, layout_style, rgba
from zoosim.report.sections import Drawing, Page, PageTable

ACROSS = 4
"""Radars side by side, at most."""

PANEL = 150
GAP = 84
"""Height of a radar, and what lies between two rows of them, in px."""

TERMS = {
    "% of the optimum": "Expected clicks of a new visitor, from the first decision to the last, if the learner shows "
    "what it takes for best and learns no more, of those of the best policy, which knows all laws: exact.",
    "IQM": "Interquartile mean, that of the middle half of all worlds and seeds; its 95% interval is of a bootstrap "
    "that draws seeds again in each world (Agarwal et al. 2021): what hangs on seeds, not on the choice of worlds.",
    "myopic": "Shows what is most likely to be clicked now, and knows all chances.",
    "worst": "The worst seed in any world.",
}


def build_page(rows: Sequence[Standing]) -> Page:
    """Build the page."""
    drawings = []
    ranked = [row for row in rows if row.interquartile is not None]
    if ranked:
        words = "Interquartile mean of % of the optimum over all worlds and seeds, with 95% intervals."
        drawings.append(Drawing("Who is ahead, and how sure is that?", words, _intervals(ranked)))
    words = (
        "% of the optimum by world, mean over seeds, from 0 in the middle to 100 at the rim; the dotted line is what "
        "looks at the next click alone and knows all chances."
    )
    drawings.append(Drawing("Where does each of them fail?", words, _radars(rows)))
    tables = [_standings(rows), _learned_from(rows), worlds_table(list(WORLDS))]
    return Page(answer(rows), tables, drawings, TERMS)


def answer(rows: Sequence[Standing]) -> str:
    """Return who is ahead over all worlds."""
    best = rows[0]
    if best.interquartile is None:
        return f"Nobody has learned all {len(WORLDS)} worlds yet: there is no ranking."
    mean, low, high = best.interquartile
    interval = "" if low is None else f" ({low:.1f} to {high:.1f})"
    return (
        f"{best.learner} is ahead: {mean:.1f}%{interval} of the optimum, interquartile mean over {len(WORLDS)} worlds."
    )


def _standings(rows: Sequence[Standing]) -> PageTable:
    cells = []
    for row in rows:
        means = [f"{np.mean(row.percent[name]):.1f}" if name in row.percent else "" for name in WORLDS]
        cells.append((row.learner, *_interquartile(row), *means, f"{row.worst:.1f}"))
    heads = ("learner", "IQM", "95% interval", *WORLDS, "worst")
    caption = "% of the optimum, mean over seeds in each world. Who has not learned all worlds stands last."
    return PageTable("Leaderboard", heads, cells, caption=caption)


def _interquartile(row: Standing) -> tuple[str, str]:
    if row.interquartile is None:
        return "", ""
    mean, low, high = row.interquartile
    return f"{mean:.1f}", "" if low is None else f"{low:.1f} to {high:.1f}"


def _learned_from(rows: Sequence[Standing]) -> PageTable:
    cells = [
        (row.learner, f"{row.library} {row.version}", row.budget, str(len(row.seeds)), f"{row.seconds:.1f}")
        for row in rows
    ]
    heads = ("learner", "library", "learned from", "seeds", "seconds")
    caption = "Seconds of processor time of a run, on the machine where each was run."
    return PageTable("Who learned from what", heads, cells, n_text=3, caption=caption, printed=True)


def _intervals(rows: Sequence[Standing]) -> go.Figure:
    figure = rows_figure([row.learner for row in rows], "% of the optimum", row=30)
    for place, row in enumerate(rows):
        assert row.interquartile is not None
        add_interval(figure, row.interquartile, place, COLORS[0], f"{row.learner}: {written(row.interquartile, 1)}%")
    add_mark(figure, 100.0, "optimum")
    return figure


def _radars(rows: Sequence[Standing]) -> go.Figure:
    lines, across = grid_of(len(rows), ACROSS)
    # A last row that is not full has no panels where nobody is left.
    specs = [
        [{"type": "polar"} if line * across + place < len(rows) else None for place in range(across)]
        for line in range(lines)
    ]
    height = lines * PANEL + (lines - 1) * GAP
    figure = make_subplots(
        lines,
        across,
        specs=specs,
        subplot_titles=[row.learner for row in rows],
        horizontal_spacing=0.13,
        vertical_spacing=GAP / height if lines > 1 else None,
    )
    figure.update_layout(**layout_style(height=height + 90, margin={"l": 48, "r": 48, "t": 56, "b": 34}))
    figure.update_annotations(font={"size": 12, "color": INK}, yshift=18)
    axis = {"gridcolor": GRID, "linecolor": GRID, "ticks": ""}
    scale = {"range": [0, 100], "tickvals": [50, 100], "showticklabels": False, "showline": False}
    names = {"tickfont": {"size": 10, "color": MUTED}, "direction": "clockwise", "rotation": 90}
    figure.update_polars(radialaxis={**axis, **scale}, angularaxis={**axis, **names}, bgcolor="rgba(0,0,0,0)")
    myopic = [myopic_percent(world) for world in WORLDS.values()]
    for number, row in enumerate(rows):
        place = {"row": number // across + 1, "col": number % across + 1}
        figure.add_trace(_outline(list(WORLDS), myopic, "myopic", {"color": MUTED, "width": 1, "dash": "dot"}), **place)
        means = [float(np.mean(values)) for values in row.percent.values()]
        line = {"color": COLORS[0], "width": 2}
        figure.add_trace(_outline(list(row.percent), means, row.learner, line, fill=rgba(COLORS[0], 0.15)), **place)
    return figure


def _outline(
    worlds: Sequence[str], values: Sequence[float], name: str, line: dict[str, object], fill: str | None = None
) -> go.Scatterpolar:
    """Return a closed line over the worlds."""
    return go.Scatterpolar(
        theta=[*worlds, worlds[0]],
        r=[*values, values[0]],
        mode="lines",
        line=line,
        fill="none" if fill is None else "toself",
        fillcolor=fill,
        hovertemplate=f"{name}, %{{theta}}: %{{r:.1f}}%<extra></extra>",
    )
