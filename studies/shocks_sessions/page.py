"""What learners are worth after each shock, beside myopia and the optimum of before."""

from collections.abc import Sequence
from functools import cache

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from studies.figures import add_line
from studies.shocks_sessions.measuring import BACK, PERIODS, VISITORS, Followed, shocks, visits_until_back
from studies.writing import told, written
from zoosim.core.statistics import mean_interval
from zoosim.report.drawing import COLORS, GREYS, INK, MUTED, axis_style, layout_style
from zoosim.report.sections import Drawing, Page, PageTable
from zoosim.worlds.sessions.config import SessionConfig
from zoosim.worlds.sessions.truth import SessionTruth

SHOCKS = PERIODS[1:]
BEFORE, OPENING, MYOPIC = "optimum of before", "optimum of the opening", "myopic"
TERMS = {
    "% of the optimum": "Expected clicks of a new visitor under the laws of now, if the learner shows what it takes "
    "for best and learns no more, of those of the best policy under these laws: exact.",
    "loud shock": "The best category of a persona is liked less, and another one most: hard to miss.",
    "silent shock": "What a persona likes stays as it was, and another category is liked more: only who keeps looking "
    "finds it. The loud shock lasts.",
    "back": f"At {BACK:g}% of the optimum at a look and at all later ones of the period.",
    BEFORE: "The best policy of the laws before this shock, which never learns.",
    OPENING: "The best policy of the laws before any shock.",
    MYOPIC: "Shows what is most likely to be clicked now, and knows all chances of now.",
}


def build_page(rows: Sequence[Followed]) -> Page:
    """Build the page."""
    drawing = Drawing(
        "Who is back, and how soon?",
        f"% of the optimum of the laws of now by visits since the shock, mean over {len({row.seed for row in rows})} "
        "seeds with 95% intervals.",
        _figure(rows),
    )
    tables = [_table(rows, shock) for shock in SHOCKS]
    return Page(answer(rows), tables, [drawing], TERMS, details=[_opening(rows)])


def answer(rows: Sequence[Followed]) -> str:
    """Return who is back soonest."""
    within = {name: _back_within(rows, name) for name in _names(rows)}
    back = {name: visits for name, visits in within.items() if visits is not None}
    if not back:
        return f"No learner is back at {BACK:g}% of the optimum after both shocks, with all seeds."
    best = min(back, key=lambda name: back[name])
    others = "" if len(back) > 1 else ", and no other learner is"
    return f"{best} is back at {BACK:g}% of the optimum within {back[best]:,} visits of both shocks, all seeds{others}."


def _opening(rows: Sequence[Followed]) -> str:
    """Say what learners had reached before anything changed."""
    reached = []
    for name in _names(rows):
        last = _at(rows, name, PERIODS[0])[-1][1]
        reached.append(f"{name} {written(mean_interval(last), 1)}%")
    return f"At the last look before the first shock: {', '.join(reached)}."


def _names(rows: Sequence[Followed]) -> list[str]:
    return list(dict.fromkeys(row.learner for row in rows))


def _at(rows: Sequence[Followed], learner: str, period: str) -> list[tuple[int, list[float]]]:
    """Return what a learner had by seed at each look of a period that all seeds came to."""
    here = [row for row in rows if (row.learner, row.period) == (learner, period)]
    seeds = len({row.seed for row in here})
    by_visits = {visits: [row.percent for row in here if row.visits == visits] for visits in {r.visits for r in here}}
    return [(visits, by_visits[visits]) for visits in sorted(by_visits) if len(by_visits[visits]) == seeds]


def _until_back(rows: Sequence[Followed], learner: str, period: str) -> list[float]:
    """Return after how many visits a learner is back, by seed; infinite where it is not."""
    here = [row for row in rows if (row.learner, row.period) == (learner, period)]
    by_seed = [visits_until_back([row for row in here if row.seed == seed]) for seed in sorted({r.seed for r in here})]
    return [np.inf if visits is None else float(visits) for visits in by_seed]


def _back_within(rows: Sequence[Followed], learner: str) -> int | None:
    """Return after how many visits a learner is back after both shocks with all seeds, None if it is not."""
    most = max(max(_until_back(rows, learner, shock)) for shock in SHOCKS)
    return int(most) if np.isfinite(most) else None


@cache
def _lines(period: str) -> dict[str, float]:
    """Return what is worth how much under the laws of a period to policies that learn nothing, in %."""
    config = SessionConfig.model_validate({"shocks": shocks(VISITORS)})
    truths = [SessionTruth(config, table) for table in config.tables().values()]
    number = PERIODS.index(period)
    truth = truths[number]
    policies = {BEFORE: truths[number - 1].optimum, OPENING: truths[0].optimum, MYOPIC: truth.myopic}
    optimum = truth.value(truth.optimum)
    return {name: 100.0 * truth.value(policy) / optimum for name, policy in policies.items()}


def _table(rows: Sequence[Followed], shock: str) -> PageTable:
    marks = sorted({row.visits for row in rows if row.period == shock})
    cells = []
    for name in _names(rows):
        looks = _at(rows, name, shock)
        means = {visits: f"{np.mean(values):.1f}" for visits, values in looks}
        backs = _until_back(rows, name, shock)
        median = np.median(backs)
        count = f"{sum(np.isfinite(backs))} of {len(backs)}"
        back = f"{median:,.0f}" if np.isfinite(median) else "not"
        cells.append((name, *(means.get(mark, "") for mark in marks), told(looks[-1][1], 1), back, count))
    known = ", ".join(f"{name} {percent:.1f}%" for name, percent in _lines(shock).items())
    heads = ("learner", *(f"{mark:,}" for mark in marks), "at the last look", "back after", "seeds back")
    caption = (
        f"Mean over seeds, with a 95% interval at the last look that all seeds came to; the median of visits until "
        f"back at {BACK:g}%. Of policies that learn nothing: {known}."
    )
    heading = f"% of the optimum so many visits after the {shock}"
    return PageTable(heading, heads, cells, caption=caption, printed=True)


def _figure(rows: Sequence[Followed]) -> go.Figure:
    titles = [f"after the {shock}" for shock in SHOCKS]
    figure = make_subplots(1, len(SHOCKS), subplot_titles=titles, shared_yaxes=True, horizontal_spacing=0.04)
    for column, shock in enumerate(SHOCKS, start=1):
        panel = {"row": 1, "col": column}
        for (name, level), dash in zip(_lines(shock).items(), ("dash", "dashdot", "dot"), strict=True):
            last = max(row.visits for row in rows if row.period == shock)
            line = {"color": GREYS[0], "dash": dash, "width": 1.5}
            hover = f"{name}: {level:.1f}%<extra></extra>"
            figure.add_scatter(
                x=[0, last],
                y=[level] * 2,
                mode="lines",
                line=line,
                name=name,
                hovertemplate=hover,
                showlegend=column == 1,
                **panel,
            )
        for color, name in zip(COLORS, _names(rows), strict=False):
            looks = _at(rows, name, shock)
            means = [mean_interval(values) for _, values in looks]
            visits = [at for at, _ in looks]
            add_line(figure, visits, means, color, name, ".1f", showlegend=column == 1, **panel)
        figure.add_hline(y=BACK, line={"color": MUTED, "width": 1, "dash": "dot"}, **panel)
    legend = {"orientation": "h", "y": 1.0, "yref": "container", "yanchor": "top", "x": 0, "font": {"color": MUTED}}
    margin = {"l": 64, "r": 16, "t": 110, "b": 54}
    figure.update_layout(**layout_style(height=470, margin=margin, showlegend=True, legend=legend))
    figure.update_annotations(font={"size": 12, "color": INK})
    figure.update_xaxes(**axis_style(), title_text="visits since the shock")
    figure.update_yaxes(**axis_style(), range=[20, 103])
    figure.update_yaxes(title_text="% of the optimum", col=1)
    return figure
