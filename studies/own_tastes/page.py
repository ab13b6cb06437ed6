"""What deviations of visitors bring by their visits, and what their memory takes."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from studies.figures import add_line, add_name
from studies.own_tastes.measuring import ALL, COMES, COMPARED, POLICIES, Filled, Reached
from studies.rows import values_where
from studies.writing import told, written
from zoosim.core.statistics import Interval, mean_interval
from zoosim.report.drawing import COLORS, axis_style, layout_style
from zoosim.report.sections import Drawing, Page, PageTable

OTHER, OURS = COMPARED
TERMS = {
    "own tastes": "How much visitors differ beyond their segment, in units of the tastes that all share. Nobody tells "
    "policies of them.",
    "visit": "The visitor's first, second to fourth, and so on; each comes ten times on average.",
    "% of oracle": "Chances of a click on what was shown, over those on the best product for this very visitor; mean "
    "over seeds with a 95% interval.",
    "d-linucb, visitor-linucb": "The same linear model for all visitors, without and with a deviation for each, by the "
    "last eight rewarded visits; both forget as slowly.",
    "linucb": "A linear model for each product, which knows the visitor's segment.",
}


def build_page(rows: Sequence[Reached | Filled]) -> Page:
    """Build the page."""
    reached = [row for row in rows if isinstance(row, Reached)]
    filled = [row for row in rows if isinstance(row, Filled)]
    most = max(row.own for row in reached)
    drawing = Drawing(
        "From which visit on?",
        f"% of oracle by the number of a visitor's visit, where own tastes weigh {most:g} of shared ones, mean over "
        f"{len({row.seed for row in reached})} seeds with 95% intervals.",
        _figure(reached, most),
    )
    return Page(answer(reached), [_table(reached), _memory(filled)], [drawing], TERMS, details=details(reached, filled))


def paired(rows: Sequence[Reached], other: str, own: float, comes: str) -> Interval:
    """Return by how many points deviations bring more than another policy, paired by seed."""
    ours, theirs = (values_where(rows, "percent", policy=name, own=own, comes=comes) for name in (OURS, other))
    return mean_interval([a - b for a, b in zip(ours, theirs, strict=True)])


def answer(rows: Sequence[Reached]) -> str:
    """Return what deviations bring where visitors differ most, and where they differ least."""
    gains = [f"{paired(rows, OTHER, own, ALL).mean:+.1f} at own tastes {own:g}" for own in reversed(_differences(rows))]
    return f"Points that {OURS} brings more than {OTHER}: {', '.join(gains)}."


def details(rows: Sequence[Reached], filled: Sequence[Filled]) -> list[str]:
    """Return the gains by visit with their intervals, and what the memory takes."""
    sentences = []
    for own in _differences(rows):
        for other in _policies(rows):
            if other in (OTHER, "d-linucb"):
                gains = [f"{comes} {written(paired(rows, other, own, comes), 1, sign=True)}" for comes in COMES]
                sentences.append(f"Own tastes {own:g}, points more than {other} by visit: {', '.join(gains)}.")
    largest = max(filled, key=lambda row: row.visitors)
    sentences.append(
        f"{largest.visitors:,} visitors take {largest.megabytes:,.0f} MB; a decision takes {largest.decision:,.0f} "
        f"microseconds, an update {largest.update:,.0f}."
    )
    return sentences


def _differences(rows: Sequence[Reached]) -> list[float]:
    return sorted({row.own for row in rows})


def _policies(rows: Sequence[Reached]) -> list[str]:
    met = {row.policy for row in rows}
    return [name for name in POLICIES if name in met]


def _table(rows: Sequence[Reached]) -> PageTable:
    cells = []
    for own in _differences(rows):
        for policy in _policies(rows):
            by_visit = [told(values_where(rows, "percent", own=own, policy=policy, comes=comes), 1) for comes in COMES]
            cells.append((f"{own:g}", policy, *by_visit))
    heads = ("own tastes", "policy", *COMES)
    caption = "% of oracle by the number of the visitor's visit, and of all; in brackets 95% intervals over seeds."
    return PageTable("Tastes of their own", heads, cells, n_text=2, caption=caption)


def _memory(filled: Sequence[Filled]) -> PageTable:
    cells = [
        (f"{row.visitors:,}", f"{row.megabytes:,.1f}", f"{row.decision:,.0f}", f"{row.update:,.0f}") for row in filled
    ]
    heads = ("visitors", "state, MB", "decision, us", "update, us")
    return PageTable("Eight visits of each visitor held", heads, cells, n_text=0, caption="Medians, one thread.")


def _figure(rows: Sequence[Reached], own: float) -> go.Figure:
    figure = go.Figure(layout=layout_style(height=380, margin={"l": 64, "r": 130, "t": 24, "b": 54}))
    by_visit = [comes for comes in COMES if comes != ALL]
    for color, policy in zip(COLORS, _policies(rows), strict=False):
        values = [values_where(rows, "percent", own=own, policy=policy, comes=comes) for comes in by_visit]
        means = [mean_interval(each) for each in values]
        add_line(figure, by_visit, means, color, policy, ".1f")
        add_name(figure, float(np.mean(values[-1])), policy, color)
    figure.update_xaxes(**axis_style(), title_text="visit of the visitor")
    figure.update_yaxes(**axis_style(), title_text="% of oracle")
    return figure
