"""What deviations of visitors bring by their visits, and what their memory takes."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from studies.figures import add_line, add_name
from studies.own_tastes.measuring import COMES, OWN, POLICIES, Filled, Reached
from studies.rows import values_where
from studies.writing import told, written
from zoosim.core.statistics import Interval, mean_interval
from zoosim.report.drawing import COLORS, axis_style, layout_style
from zoosim.report.sections import Drawing, Page, PageTable

OURS, OTHER = "visitor-linucb", "d-linucb"
TERMS = {
    "own tastes": "How much visitors differ beyond their segment, in units of the tastes that all share. Nobody tells "
    "policies of them.",
    "visit": "The visitor's first, second to fourth, and so on; each comes ten times on average.",
    "% of oracle": "Chances of a click on what was shown, over those on the best product for this very visitor; mean "
    "over seeds with a 95% interval.",
    "d-linucb, visitor-linucb": "The same linear model for all visitors, without and with a deviation for each, by the "
    "last eight rewarded visits.",
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


def paired(rows: Sequence[Reached], own: float, comes: str) -> Interval:
    """Return by how many points deviations bring more, paired by seed."""
    ours, other = (values_where(rows, "percent", policy=name, own=own, comes=comes) for name in (OURS, OTHER))
    return mean_interval([a - b for a, b in zip(ours, other, strict=True)])


def answer(rows: Sequence[Reached]) -> str:
    """Return what it brings where visitors differ most, at their last visits, and costs where they do not."""
    last = list(COMES)[-1]
    gains = {own: paired(rows, own, last).mean for own in OWN}
    return (
        f"Take {OURS} where visitors come back: {gains[OWN[-1]]:+.1f} points from the 10th visit on where they differ, "
        f"{gains[OWN[0]]:+.1f} where not."
    )


def details(rows: Sequence[Reached], filled: Sequence[Filled]) -> list[str]:
    """Return the gains by visit with their intervals, and what the memory takes."""
    sentences = []
    for own in OWN:
        parts = [f"{comes} visit {written(paired(rows, own, comes), 1, sign=True)}" for comes in COMES]
        sentences.append(f"Own tastes {own:g}, points more than {OTHER}: {', '.join(parts)}.")
    largest = max(filled, key=lambda row: row.visitors)
    sentences.append(
        f"{largest.visitors:,} visitors take {largest.megabytes:,.0f} MB; a decision takes {largest.decision:,.0f} "
        f"microseconds, an update {largest.update:,.0f}."
    )
    return sentences


def _table(rows: Sequence[Reached]) -> PageTable:
    cells = []
    for own in OWN:
        for policy in POLICIES:
            by_visit = [told(values_where(rows, "percent", own=own, policy=policy, comes=comes), 1) for comes in COMES]
            cells.append((f"{own:g}", policy, *by_visit))
    heads = ("own tastes", "policy", *COMES)
    caption = "% of oracle by the number of the visitor's visit; in brackets 95% intervals over seeds."
    return PageTable("Tastes of their own", heads, cells, n_text=2, caption=caption)


def _memory(filled: Sequence[Filled]) -> PageTable:
    cells = [
        (f"{row.visitors:,}", f"{row.megabytes:,.1f}", f"{row.decision:,.0f}", f"{row.update:,.0f}") for row in filled
    ]
    heads = ("visitors", "state, MB", "decision, us", "update, us")
    return PageTable("Eight visits of each visitor held", heads, cells, n_text=0, caption="Medians, one thread.")


def _figure(rows: Sequence[Reached], own: float) -> go.Figure:
    figure = go.Figure(layout=layout_style(height=380, margin={"l": 64, "r": 130, "t": 24, "b": 54}))
    for color, policy in zip(COLORS, POLICIES, strict=False):
        values = [values_where(rows, "percent", own=own, policy=policy, comes=comes) for comes in COMES]
        means = [mean_interval(each) for each in values]
        add_line(figure, list(COMES), means, color, policy, ".1f")
        add_name(figure, float(np.mean(values[-1])), policy, color)
    figure.update_xaxes(**axis_style(), title_text="visit of the visitor")
    figure.update_yaxes(**axis_style(), title_text="% of oracle")
    return figure
