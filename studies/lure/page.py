"""What boosts that look ahead reach where discounts lure, beside those that look at one visit."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from studies.figures import add_line, add_name
from studies.lure.measuring import Reached
from studies.writing import told, written
from zoosim.core.statistics import mean_interval
from zoosim.report.drawing import COLORS, MUTED, axis_style, layout_style
from zoosim.report.sections import Drawing, Page, PageTable
from zoosim.worlds.lure.config import LureConfig
from zoosim.worlds.lure.truth import LureTruth

MYOPIC = "myopic"
SHOWN = ("random", MYOPIC, "best boosts of each segment")
"""Rungs of the ladder that are drawn as lines."""

TERMS = {
    "% of the optimum": "Expected EUR of a new visitor, from the first visit to the last, if at each visit the boosts "
    "are those that the learner takes for best, and it learns no more; of those of the best policy over all rankings "
    "that boosts can make, which knows all laws. Exact. Mean over seeds with a 95% interval, and the worst seed.",
    "online": "EUR of a visitor since the look before, exploration included, in % of the optimum.",
    MYOPIC: "The boosts that earn most at this visit; all laws are known.",
    "actor-critic, visit": "The same learner with discount 0: it takes a visit for a visitor's life.",
}


def build_page(rows: Sequence[Reached]) -> Page:
    """Build the page."""
    ladder = {rung.name: 100.0 * rung.share for rung in LureTruth(LureConfig()).ladder()}
    seeds = len({row.seed for row in rows})
    drawing = Drawing(
        "What is learned by when?",
        f"% of the optimum by visits, mean over {seeds} seeds with 95% intervals; dotted: what simpler policies are "
        "worth that know all laws.",
        _figure(rows, ladder),
    )
    return Page(answer(rows, ladder), [_table(rows, ladder)], [drawing], TERMS)


def answer(rows: Sequence[Reached], ladder: dict[str, float]) -> str:
    """Return who is ahead in the end, and whether it looks ahead."""
    last = max(row.visits for row in rows)
    ends = {name: mean_interval(_at(rows, name, last)) for name in _names(rows)}
    best = max(ends, key=lambda name: ends[name].mean)
    lead = f"{best} reaches {written(ends[best], 1)}% of the optimum in {last:,} visits"
    low = ends[best].low
    if (ends[best].mean if low is None else low) > ladder[MYOPIC]:
        return f"Look ahead: {lead}; myopic boosts get {ladder[MYOPIC]:.1f}%."
    return f"Nobody looks ahead yet: {lead}; myopic boosts get {ladder[MYOPIC]:.1f}%."


def _names(rows: Sequence[Reached]) -> list[str]:
    return list(dict.fromkeys(row.learner for row in rows))


def _at(rows: Sequence[Reached], learner: str, visits: int) -> list[float]:
    here = {row.seed: row.percent for row in rows if (row.learner, row.visits) == (learner, visits)}
    return [here[seed] for seed in sorted(here)]


def _table(rows: Sequence[Reached], ladder: dict[str, float]) -> PageTable:
    marks = sorted({row.visits for row in rows})
    cells = []
    for name in _names(rows):
        ends = _at(rows, name, marks[-1])
        before = (f"{np.mean(_at(rows, name, mark)):.1f}" for mark in marks[:-1])
        online = np.mean([row.online for row in rows if (row.learner, row.visits) == (name, marks[-1])])
        cells.append((name, *before, told(ends, 1), f"{min(ends):.1f}", f"{online:.1f}"))
    known = ", ".join(f"{rung} {ladder[rung]:.1f}" for rung in SHOWN)
    caption = f"Mean over seeds, with a 95% interval at the end. Of policies that know all laws: {known}."
    heads = ("learner", *(f"{mark:,}" for mark in marks), "worst", "online, last")
    return PageTable("% of the optimum after so many visits", heads, cells, caption=caption, printed=True)


def _figure(rows: Sequence[Reached], ladder: dict[str, float]) -> go.Figure:
    figure = go.Figure(layout=layout_style(height=420, margin={"l": 64, "r": 150, "t": 24, "b": 54}))
    marks = sorted({row.visits for row in rows})
    for rung in SHOWN:
        figure.add_hline(y=ladder[rung], line={"color": MUTED, "width": 1, "dash": "dot"})
        words = {"xref": "paper", "xanchor": "left", "showarrow": False, "font": {"size": 11, "color": MUTED}}
        figure.add_annotation(x=0.0, y=ladder[rung], yshift=8, text=f"{rung} {ladder[rung]:.0f}%", **words)
    for color, name in zip(COLORS, _names(rows), strict=False):
        means = [mean_interval(_at(rows, name, mark)) for mark in marks]
        add_line(figure, marks, means, color, name, ".1f")
        add_name(figure, means[-1].mean, name, color)
    figure.update_xaxes(**axis_style(), type="log", title_text="visits")
    figure.update_yaxes(**axis_style(), title_text="% of the optimum", range=[40, 103])
    return figure
