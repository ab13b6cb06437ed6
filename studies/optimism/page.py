"""What each schedule earns in each period: a verdict, a table, and a row of dots for each schedule."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from studies.figures import add_interval, rows_figure
from studies.optimism.measuring import (
    CONSTANTS,
    DRAWS,
    FALLING,
    GREEDY,
    GROWING,
    KNOWN,
    OPENING,
    PERIODS,
    RENEWED,
    SCHEDULES,
    Earned,
)
from studies.writing import interval_alone, told, written
from zoosim.core.statistics import Interval, mean_interval
from zoosim.report.drawing import COLORS
from zoosim.report.sections import Drawing, Page, PageTable

TERMS = {
    "schedule": "The weight beta of the ensemble's std in what a search is for, mean + beta std: constant, falling "
    "over the T visits, or growing with their number t. With a member drawn, the default, it is Thompson "
    "sampling instead.",
    "new shop": "The visits after 30 with random boosts: nothing is known of visitors nor products.",
    "known shop": "A period in which both have been learned.",
    "new catalogue": "The period after other products have taken the places of all; visitors stay as they were.",
    "expected reward": "Of what was shown, exploring included, in EUR a visit; mean over seeds with a 95% interval.",
}


def build_page(rows: Sequence[Earned]) -> Page:
    """Build the page."""
    seeds = len({row.seed for row in rows})
    drawing = Drawing(
        "How much optimism pays?",
        f"Expected EUR a visit in each period, mean and 95% interval over {seeds} seeds; a color for each period: "
        f"{', '.join(PERIODS)}.",
        _figure(rows),
    )
    return Page(answer(rows), [_rewards(rows), _gains(rows)], [drawing], TERMS, details=details(rows))


def best_constant(rows: Sequence[Earned], period: str) -> str:
    """Return the name of the constant beta, or of none, with the highest mean reward in a period."""
    return max((GREEDY, *CONSTANTS), key=lambda name: float(np.mean(_by_seed(rows, name, period))))


def paired(rows: Sequence[Earned], schedule: str, other: str, period: str) -> Interval:
    """Return what a schedule earns more than another in a period, in EUR a visit, paired by seed."""
    return mean_interval(
        [a - b for a, b in zip(*(_by_seed(rows, name, period) for name in (schedule, other)), strict=True)]
    )


def answer(rows: Sequence[Earned]) -> str:
    """Return whether a new catalogue asks for more optimism than a known one."""
    known, renewed = (best_constant(rows, period) for period in (KNOWN, RENEWED))
    betas = {GREEDY: 0.0, **CONSTANTS}
    lead = paired(rows, renewed, known, RENEWED)
    if betas[renewed] > betas[known] and lead.low is not None and lead.low > 0.0:
        return (
            f"Raise beta where the catalogue is new: {renewed} earns {written(lead, 2)} EUR a visit more than {known}."
        )
    if renewed == known:
        return f"Leave beta as it is where the catalogue is new: {known} is best there as in a known shop."
    told_lead = written(lead, 2, sign=True)
    return f"Leave beta as it is where the catalogue is new: {renewed} earns {told_lead} EUR a visit more than {known}."


def details(rows: Sequence[Earned]) -> list[str]:
    """Compare the printed schedules with the constants, and draws with both."""
    best = best_constant(rows, OPENING)
    leads = {name: paired(rows, name, best, OPENING) for name in (FALLING, GROWING, DRAWS)}
    parts = [f"{name} {lead.mean:+.2f} ({interval_alone(lead, 2, sign=True)})" for name, lead in leads.items()]
    return [f"In a new shop {best} is the best constant; against it, EUR a visit: {', '.join(parts)}."]


def _by_seed(rows: Sequence[Earned], schedule: str, period: str) -> list[float]:
    here = {row.seed: row.reward for row in rows if (row.schedule, row.period) == (schedule, period)}
    return [here[seed] for seed in sorted(here)]


def _rewards(rows: Sequence[Earned]) -> PageTable:
    cells = [(name, *(told(_by_seed(rows, name, period), 2) for period in PERIODS)) for name in SCHEDULES]
    spans = ", ".join(f"{name}: visits {start:,} to {stop - 1:,}" for name, (start, stop) in PERIODS.items())
    caption = f"EUR a visit, 95% intervals over seeds. {spans[0].upper()}{spans[1:]}."
    return PageTable("Expected reward by schedule", ("schedule", *PERIODS), cells, caption=caption)


def _gains(rows: Sequence[Earned]) -> PageTable:
    others = [name for name in SCHEDULES if name != GREEDY]
    cells = [
        (name, *(written(paired(rows, name, GREEDY, period), 2, sign=True) for period in PERIODS)) for name in others
    ]
    caption = f"EUR a visit more than with the {GREEDY}, paired by seed; 95% intervals."
    return PageTable("Gain by optimism", ("schedule", *PERIODS), cells, caption=caption)


def _figure(rows: Sequence[Earned]) -> go.Figure:
    names = list(SCHEDULES)
    figure = rows_figure(names, "expected EUR a visit")
    for number, period in enumerate(PERIODS):
        for place, name in enumerate(names):
            mean = mean_interval(_by_seed(rows, name, period))
            height = place + 0.22 * (number - 1)
            add_interval(figure, mean, height, COLORS[number], f"{name}, {period}: {mean.mean:.2f}")
    return figure
