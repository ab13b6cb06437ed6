"""The page of the study: what each delay costs each policy, the best with late rewards first."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from studies.figures import add_interval, rows_figure
from studies.late_rewards.runs import TIMINGS, Reached
from studies.rows import values_where
from studies.writing import told
from zoosim.core.statistics import mean_interval
from zoosim.report.drawing import COLORS
from zoosim.report.sections import Drawing, Page, PageTable

LATE = "1,000 late"
TERMS = {
    "% of oracle": "The true click probabilities of what was shown, summed, over those of the best product each time.",
    "late": "A visit's reward reaches the policy after so many further visits; those of the last visits never do.",
    "batches": "Rewards reach the policy together, once every 1,000 visits.",
    "intervals": "95% over seeds (Student's t).",
}


def build_page(rows: Sequence[Reached]) -> Page:
    """Tell what late rewards cost."""
    policies = ordered(rows)
    n = len({row.seed for row in rows})
    heads = ("policy", *TIMINGS, f"worst seed, {LATE}")
    cells = [
        (
            policy,
            *(told(values_where(rows, "percent", policy=policy, timing=timing), 1) for timing in TIMINGS),
            f"{min(values_where(rows, 'percent', policy=policy, timing=LATE)):.1f}",
        )
        for policy in policies
    ]
    table = PageTable(f"% of oracle, {n} seeds", heads, cells, caption="In brackets 95% intervals over seeds.")
    drawing = Drawing(
        "What do late rewards cost?",
        f"Mean % of oracle over {n} seeds, with 95% intervals; a color for each delay.",
        figure_of(rows, policies),
    )
    return Page(answer(rows, policies), [table], [drawing], TERMS, details=[verdict(rows, policies)])


def ordered(rows: Sequence[Reached]) -> list[str]:
    """Return the policies, the best with rewards 1,000 visits late first."""
    policies = dict.fromkeys(row.policy for row in rows)
    return sorted(policies, key=lambda policy: -_mean(rows, policy, LATE))


def answer(rows: Sequence[Reached], policies: Sequence[str]) -> str:
    """Return which policy to use where rewards come late."""
    best = policies[0]
    share = _mean(rows, best, LATE)
    return f"Use {best} where rewards come 1,000 visits late: it reaches {share:.1f}% of oracle, the most of all."


def verdict(rows: Sequence[Reached], policies: Sequence[str]) -> str:
    """Say which policy stands late rewards best."""
    best = policies[0]
    figures = [f"{_mean(rows, best, timing):.1f}% {timing}" for timing in TIMINGS]
    return f"With rewards 1,000 visits late {best} is ahead: {', '.join(figures)}."


def figure_of(rows: Sequence[Reached], policies: Sequence[str]) -> go.Figure:
    """Draw a row for each policy, with a dot for each delay."""
    figure = rows_figure(list(policies), "% of oracle")
    for place, policy in enumerate(policies):
        for number, timing in enumerate(TIMINGS):
            interval = mean_interval(values_where(rows, "percent", policy=policy, timing=timing))
            height = place + 0.12 * (number - 2)
            add_interval(figure, interval, height, COLORS[number], f"{policy}, {timing}: {interval.mean:.1f}")
    return figure


def _mean(rows: Sequence[Reached], policy: str, timing: str) -> float:
    return float(np.mean(values_where(rows, "percent", policy=policy, timing=timing)))
