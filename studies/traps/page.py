"""What each mistake costs, and what the broken learner believes."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from studies.figures import add_interval, add_mark, rows_figure
from studies.session_curves import Learned, learned_by
from studies.traps.measuring import BROKEN, DISCOUNT, RIGHT, SWEEPS, Diverged
from studies.writing import told, written
from zoosim.core.statistics import Interval, mean_interval
from zoosim.report.drawing import COLORS
from zoosim.report.sections import Drawing, Page, PageTable
from zoosim.worlds.sessions.config import SessionConfig
from zoosim.worlds.sessions.truth import SessionTruth

TERMS = {
    "% of the optimum": "Expected clicks of a new visitor if the learner shows what it takes for best: exact. Mean "
    "over seeds with a 95% interval.",
    "believes": "What the learner expects of a new visitor, in % of what the optimum brings. It should be what its "
    "policy is worth; far above, its values run away.",
    "the visit taken for the episode": "Learning stops at the end of each visit, so that a return is worth nothing.",
    "a loss that clips errors": "Huber's loss with a delta of 1: it estimates something like a median. Visitors who go "
    "for good are rare and cost much, which medians do not see.",
    "no trailing network": "Targets are computed by the network that learns.",
    "a learning rate that stays": "Actions differ by 2% of their values: steps that stay as large jump over that.",
    "two states": "Of value 0, with the features 1 and 2; the first leads to the second, the second to itself "
    "(Tsitsiklis & Van Roy 1996).",
}


def build_page(rows: Sequence[Learned | Diverged]) -> Page:
    """Build the page."""
    learned = [row for row in rows if isinstance(row, Learned)]
    ladder = {step.name: 100.0 * step.share for step in SessionTruth(SessionConfig()).ladder()}
    last = max(row.visits for row in learned)
    drawing = Drawing(
        "What does each mistake cost?",
        f"% of the optimum after {last:,} visits, mean over {len({row.seed for row in learned})} seeds with 95% "
        "intervals.",
        _figure(learned, last, ladder["myopic"]),
    )
    tables = [_costs(learned, last), _two_states([row for row in rows if isinstance(row, Diverged)])]
    return Page(answer(learned, last), tables, [drawing], TERMS, details=details(learned, last, ladder))


def cost(rows: Sequence[Learned], mistake: str, visits: int) -> Interval:
    """Return by how many points a mistake is behind, paired by seed."""
    right = learned_by(rows, RIGHT.name, visits)
    wrong = learned_by(rows, BROKEN[mistake].name, visits)
    return mean_interval([b - a for a, b in zip(right, wrong, strict=True)])


def answer(rows: Sequence[Learned], last: int) -> str:
    """Return what costs most."""
    worst = min(BROKEN, key=lambda mistake: cost(rows, mistake, last).mean)
    return f"Worst is {worst}: {written(cost(rows, worst, last), 1, sign=True)} points."


def details(rows: Sequence[Learned], last: int, ladder: dict[str, float]) -> list[str]:
    """Say where the commonest mistake ends, beside the best that can be had of a visit."""
    at_visit = mean_interval(learned_by(rows, BROKEN["the visit taken for the episode"].name, last))
    return [
        f"A visit taken for the episode ends at {written(at_visit, 1)}% of the optimum; the best for a visit alone, by "
        f"one who knows all laws, is worth {ladder['best for this visit']:.1f}%."
    ]


def _believed(rows: Sequence[Learned], learner: str, visits: int) -> list[float]:
    here = [row for row in rows if (row.learner, row.visits) == (learner, visits)]
    return [float("nan") if row.believed is None else row.believed for row in here]


def _costs(rows: Sequence[Learned], last: int) -> PageTable:
    cells = [("none", told(learned_by(rows, RIGHT.name, last), 1), "", _text(_believed(rows, RIGHT.name, last)))]
    for mistake, learner in BROKEN.items():
        reached = told(learned_by(rows, learner.name, last), 1)
        behind = written(cost(rows, mistake, last), 1, sign=True)
        cells.append((mistake, reached, behind, _text(_believed(rows, learner.name, last))))
    heads = ("mistake", "% of the optimum", "points more, paired", "believes")
    caption = f"After {last:,} visits; in brackets 95% intervals over seeds. Believed: the median over seeds."
    return PageTable("What mistakes cost", heads, cells, caption=caption)


def _text(values: Sequence[float]) -> str:
    return f"{np.median(values):,.0f}%"


def _two_states(rows: Sequence[Diverged]) -> PageTable:
    cells = []
    for uniform, name in ((True, "both states alike"), (False, "as often as visitors are in them")):
        by_updates = {row.updates: row.weight for row in rows if row.uniform == uniform}
        cells.append((name, *(f"{by_updates[updates]:.3g}" for updates in SWEEPS)))
    heads = ("updates", *(f"after {updates}" for updates in SWEEPS))
    caption = f"The weight of a linear learner that starts at 1 and should end at 0; discount {DISCOUNT:g}."
    return PageTable("Divergence in two states", heads, cells, caption=caption)


def _figure(rows: Sequence[Learned], last: int, myopic: float) -> go.Figure:
    learners = {"none": RIGHT, **BROKEN}
    figure = rows_figure(list(learners), "% of the optimum")
    for place, (mistake, learner) in enumerate(learners.items()):
        mean = mean_interval(learned_by(rows, learner.name, last))
        add_interval(figure, mean, place, COLORS[0 if learner is RIGHT else 1], f"{mistake}: {mean.mean:.1f}%")
    add_mark(figure, myopic, "myopic")
    return figure
