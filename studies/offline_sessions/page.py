"""What learners make of the log of a bandit, by its length."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from studies.figures import add_line, add_name
from studies.offline_sessions.measuring import Trained
from studies.rows import values_where
from studies.session_logs import LOGGING
from studies.writing import told, written
from zoosim.core.statistics import mean_interval
from zoosim.report.drawing import COLORS, axis_style, layout_style
from zoosim.report.sections import Drawing, Page, PageTable
from zoosim.worlds.sessions.config import SessionConfig
from zoosim.worlds.sessions.truth import SessionTruth

TERMS = {
    "% of the optimum": "Expected clicks of a new visitor if the learner shows what it takes for best after the log: "
    "exact. Mean over seeds with a 95% interval.",
    "the log": f"Of a bandit that shows what is clicked most now, and any kind in {LOGGING:.0%} of its decisions; "
    "whole lives, with every state.",
    "planner": "Learns how visitors click, stay and come back, and plans in that model.",
    "dqn, q-table": "Learn values of what follows from the log's decisions, one after another.",
}


def build_page(rows: Sequence[Trained]) -> Page:
    """Build the page."""
    myopic = next(100.0 * step.share for step in SessionTruth(SessionConfig()).ladder() if step.name == "myopic")
    drawing = Drawing(
        "What is the log of a bandit good for?",
        f"% of the optimum by visits in the log, mean over {len({row.seed for row in rows})} seeds with 95% intervals; "
        f"the best next click alone has {myopic:.1f}%.",
        _figure(rows),
    )
    return Page(answer(rows, myopic), [_table(rows)], [drawing], TERMS)


def answer(rows: Sequence[Trained], myopic: float) -> str:
    """Return who is ahead with the longest log, beside what the best next click is worth."""
    longest = max(row.visitors for row in rows)
    ends = {name: mean_interval(values_where(rows, "percent", learner=name, visitors=longest)) for name in _names(rows)}
    best = max(ends, key=lambda name: ends[name].mean)
    return (
        f"From a bandit's log {best} learns {written(ends[best], 1)}% of the optimum; the next click has {myopic:.1f}%."
    )


def _names(rows: Sequence[Trained]) -> list[str]:
    return list(dict.fromkeys(row.learner for row in rows))


def _visits(rows: Sequence[Trained], visitors: int) -> int:
    return round(float(np.mean([row.visits for row in rows if row.visitors == visitors])))


def _table(rows: Sequence[Trained]) -> PageTable:
    lengths = sorted({row.visitors for row in rows})
    cells = [
        (name, *(told(values_where(rows, "percent", learner=name, visitors=count), 1) for count in lengths))
        for name in _names(rows)
    ]
    heads = ("learner", *(f"{_visits(rows, count):,} visits" for count in lengths))
    return PageTable("% of the optimum, from a log", heads, cells, caption="In brackets 95% intervals over seeds.")


def _figure(rows: Sequence[Trained]) -> go.Figure:
    figure = go.Figure(layout=layout_style(height=380, margin={"l": 64, "r": 110, "t": 24, "b": 54}))
    lengths = sorted({row.visitors for row in rows})
    visits = [_visits(rows, count) for count in lengths]
    for color, name in zip(COLORS, _names(rows), strict=False):
        means = [mean_interval(values_where(rows, "percent", learner=name, visitors=count)) for count in lengths]
        add_line(figure, visits, means, color, name, ".1f")
        add_name(figure, means[-1].mean, name, color)
    figure.update_xaxes(**axis_style(), type="log", title_text="visits in the log")
    figure.update_yaxes(**axis_style(), title_text="% of the optimum")
    return figure
