"""What learners reach by their visits, between the rungs of the ladder of what simpler policies are worth."""

from collections.abc import Sequence

import plotly.graph_objects as go

from studies.figures import add_line, add_name
from studies.session_curves import Learned, learned_by
from studies.writing import written
from zoosim.core.statistics import Interval, mean_interval
from zoosim.report.drawing import COLORS, MUTED, axis_style, layout_style
from zoosim.report.sections import Drawing, Page, PageTable
from zoosim.worlds.sessions.config import SessionConfig
from zoosim.worlds.sessions.truth import SessionTruth

SHOWN = {
    "random": "random",
    "myopic": "myopic",
    "no teasers": "no teasers",
    "shaped bandit, felt": "shaped bandit, felt",
}
"""Rungs of the ladder that are drawn as lines."""

MYOPIC = "myopic"
TERMS = {
    "% of the optimum": "Expected clicks of a new visitor, from the first decision to the last, if the policy shows "
    "what it takes for best and learns no more: exact where it sees the state or what a shop does, else simulated on "
    "visitors whom it never met, with a standard error below .3. Of those of the best policy, which knows "
    "all laws. Mean over seeds with a 95% interval, and the worst seed.",
    "visits": "Visits of all visitors so far, of which each learner meets the same. A visitor makes up to three or so, "
    "of seven decisions each.",
    "myopic": "Shows what is most likely to be clicked now, and knows all chances.",
    "schedules": "Shares of random decisions and learning rates fall over a run of this length: a longer run explores "
    "longer.",
}


def build_page(rows: Sequence[Learned]) -> Page:
    """Build the page."""
    ladder = {step.name: 100.0 * step.share for step in SessionTruth(SessionConfig()).ladder()}
    seeds = len({row.seed for row in rows})
    drawing = Drawing(
        "What is learned by when?",
        f"% of the optimum by visits, mean over {seeds} seeds with 95% intervals; dotted: what simpler policies are "
        "worth that know all laws.",
        _figure(rows, ladder),
    )
    return Page(answer(rows, ladder), [_table(rows, ladder)], [drawing], TERMS)


def answer(rows: Sequence[Learned], ladder: dict[str, float]) -> str:
    """Return who is ahead in the end, and whether it looks ahead."""
    last = max(row.visits for row in rows)
    ends = {name: mean_interval(learned_by(rows, name, last)) for name in _names(rows)}
    best = max(ends, key=lambda name: ends[name].mean)
    lead = f"{best} reaches {written(ends[best], 1)}% of the optimum in {last:,} visits"
    low = ends[best].low
    if (ends[best].mean if low is None else low) > ladder[MYOPIC]:
        return f"Look ahead: {lead}; the best next click gets {ladder[MYOPIC]:.1f}%."
    return f"Nobody looks ahead yet: {lead}; the best next click gets {ladder[MYOPIC]:.1f}%."


def _names(rows: Sequence[Learned]) -> list[str]:
    return list(dict.fromkeys(row.learner for row in rows))


def _table(rows: Sequence[Learned], ladder: dict[str, float]) -> PageTable:
    marks = sorted({row.visits for row in rows})
    cells = []
    for name in _names(rows):
        at_marks = [learned_by(rows, name, mark) for mark in marks]
        cells.append((name, *(f"{mean_interval(values).mean:.1f}" for values in at_marks), *_end(at_marks[-1])))
    known = ", ".join(f"{rung} {ladder[rung]:.1f}" for rung in SHOWN)
    caption = f"Mean over seeds, the interval and the worst seed at the end. Of policies that know all laws: {known}."
    heads = ("learner", *(f"{mark:,}" for mark in marks), "95% interval", "worst")
    return PageTable("% of the optimum after so many visits", heads, cells, caption=caption)


def _end(values: Sequence[float]) -> tuple[str, str]:
    interval = mean_interval(values)
    span = "" if interval.low is None else f"{interval.low:.1f} to {interval.high:.1f}"
    return span, f"{min(values):.1f}"


def _figure(rows: Sequence[Learned], ladder: dict[str, float]) -> go.Figure:
    figure = go.Figure(layout=layout_style(height=420, margin={"l": 64, "r": 150, "t": 24, "b": 54}))
    marks = sorted({row.visits for row in rows})
    for rung, label in SHOWN.items():
        figure.add_hline(y=ladder[rung], line={"color": MUTED, "width": 1, "dash": "dot"})
        words = {"xref": "paper", "xanchor": "left", "showarrow": False, "font": {"size": 11, "color": MUTED}}
        figure.add_annotation(x=0.0, y=ladder[rung], yshift=8, text=f"{label} {ladder[rung]:.0f}%", **words)
    ends: dict[str, Interval] = {}
    for color, name in zip(COLORS, _names(rows), strict=False):
        means = [mean_interval(learned_by(rows, name, mark)) for mark in marks]
        add_line(figure, marks, means, color, name, ".1f")
        ends[name] = means[-1]
    for color, (name, end) in zip(COLORS, ends.items(), strict=False):
        add_name(figure, end.mean, name, color)
    figure.update_xaxes(**axis_style(), type="log", title_text="visits")
    figure.update_yaxes(**axis_style(), title_text="% of the optimum", range=[20, 103])
    return figure
