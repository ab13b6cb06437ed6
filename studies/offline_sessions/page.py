"""What learners make of logs, by who wrote them and their length."""

from collections.abc import Sequence

import plotly.graph_objects as go

from studies.figures import add_line
from studies.offline_sessions.measuring import Trained
from studies.rows import rows_where, values_where
from studies.session_logs import BANDIT
from studies.writing import told
from zoosim.core.statistics import Interval, mean_interval
from zoosim.report.drawing import COLORS, axis_style, layout_style
from zoosim.report.sections import Drawing, Page, PageTable
from zoosim.worlds.sessions.config import SessionConfig
from zoosim.worlds.sessions.truth import SessionTruth

TERMS = {
    "% of the optimum": "Expected clicks of a new visitor if the learner shows what it takes for best after the log: "
    "exact. Mean over seeds with a 95% interval.",
    "bandit, eps": "Shows what is clicked most now, and any kind in a share eps of its decisions.",
    "for 10% of visitors": "A bandit, eps .1, for most; the other policy throughout for a share of the visitors, drawn "
    "when they first come. Policies without teasers, too, show any kind in 10% of their decisions.",
    "while written": "What visitors bring while the log is written, in % of the optimum: exact.",
    "log": "Of whole lives, with every state.",
    "planner": "Learns how visitors click, stay and come back, and plans in that model.",
    "dqn, iql": "Learn values of what follows, trained on decisions that are drawn from the log. Pessimism (CQL) holds "
    "down what the log does not show; iql imitates the log's better decisions.",
}


def build_page(rows: Sequence[Trained]) -> Page:
    """Build the page."""
    myopic = next(100.0 * step.share for step in SessionTruth(SessionConfig()).ladder() if step.name == "myopic")
    by_length = [rows_where(rows, visits=visits) for visits in sorted({row.visits for row in rows})]
    longest = by_length[-1]
    drawing = Drawing(
        f"Which log to write? {longest[0].visits:,} visits",
        f"% of the optimum by who wrote the log, mean over {len({row.seed for row in longest})} seeds with 95% "
        f"intervals; the best next click alone has {myopic:.1f}%.",
        _figure(longest),
    )
    return Page(answer(rows), [_table(each) for each in by_length], [drawing], TERMS)


def answer(rows: Sequence[Trained]) -> str:
    """Return who learns most from the longest log of a bandit, and who else from which other log."""
    longest = rows_where(rows, visits=max(row.visits for row in rows))
    names = _names(longest)
    best = max(names, key=lambda name: _interval(longest, name, BANDIT).mean)
    sentence = f"A bandit's log teaches {best} {_interval(longest, best, BANDIT).mean:.1f}% of the optimum"
    others = [(name, log) for name in names if name != best for log in _writers(longest) if log != BANDIT]
    if not others:
        return f"{sentence}."
    name, log = max(others, key=lambda pair: _interval(longest, *pair).mean)
    return f"{sentence}; of the others {name} learns most, {_interval(longest, name, log).mean:.1f}%, from: {log}."


def _interval(rows: Sequence[Trained], learner: str, writers: str) -> Interval:
    return mean_interval(values_where(rows, "percent", learner=learner, writers=writers))


def _names(rows: Sequence[Trained]) -> list[str]:
    return list(dict.fromkeys(row.learner for row in rows))


def _writers(rows: Sequence[Trained]) -> list[str]:
    return list(dict.fromkeys(row.writers for row in rows))


def _table(rows: Sequence[Trained]) -> PageTable:
    """Tabulate logs of one length."""
    names = _names(rows)
    cells = []
    for log in _writers(rows):
        while_written = values_where(rows, "writing", writers=log)[0]
        learned = (told(values_where(rows, "percent", learner=name, writers=log), 1) for name in names)
        cells.append((log, f"{while_written:.1f}", *learned))
    title = f"% of the optimum, from a log of {rows[0].visits:,} visits"
    return PageTable(title, ("log by", "while written", *names), cells, caption="In brackets 95% intervals.")


def _figure(rows: Sequence[Trained]) -> go.Figure:
    figure = go.Figure(layout=layout_style(height=420, margin={"l": 64, "r": 24, "t": 24, "b": 130}))
    writers = _writers(rows)
    for color, name in zip(COLORS, _names(rows), strict=False):
        add_line(figure, writers, [_interval(rows, name, log) for log in writers], color, name, ".1f", mode="markers")
    figure.update_layout(showlegend=True, legend={"orientation": "h", "y": 1.12})
    figure.update_xaxes(**axis_style())
    figure.update_yaxes(**axis_style(), title_text="% of the optimum")
    return figure
