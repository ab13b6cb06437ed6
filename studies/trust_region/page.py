"""What the courses tell: do trust regions help early, how far do rankings move, and what do guardrails cost?"""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from studies.figures import add_line, add_name
from studies.rows import rows_where, values_where
from studies.trust_region.courses import (
    ADAPTIVE_BASE,
    ADAPTIVE_LAST,
    FREE,
    GUARD_BASE,
    GUARD_LAST,
    LARGE_BASE,
    LARGE_LAST,
    LIMIT,
    LONG,
    PLAN_BASE,
    PLAN_LAST,
    SETTINGS,
    SHORT,
    SMALL_BASE,
    SMALL_LAST,
    TOP,
    Stretch,
)
from studies.writing import interval_alone, told, written
from zoosim.core.statistics import Interval, mean_interval
from zoosim.report.drawing import COLORS, axis_style, layout_style
from zoosim.report.sections import Drawing, Page, PageTable

BOUND = (GUARD_BASE, GUARD_LAST, PLAN_BASE, PLAN_LAST)
"""Settings whose rankings are limited; the others are regions of boosts, or free."""

PAIRS = (
    *((name, FREE) for name in (SMALL_BASE, SMALL_LAST, LARGE_BASE, LARGE_LAST, ADAPTIVE_BASE, ADAPTIVE_LAST)),
    (SMALL_LAST, SMALL_BASE),
    (LARGE_LAST, LARGE_BASE),
    (ADAPTIVE_LAST, ADAPTIVE_BASE),
    (GUARD_BASE, FREE),
    (GUARD_LAST, FREE),
    (GUARD_LAST, GUARD_BASE),
    (PLAN_BASE, GUARD_BASE),
    (PLAN_LAST, GUARD_LAST),
    (PLAN_LAST, PLAN_BASE),
)
"""Which settings are compared, each with the one behind it."""

TERMS = {
    "static best": "Full weight on the price, nothing else: the best of the published kind of template.",
    "last boosts": "Those served last to visitors of the same segment who searched in the same way. A region around "
    "them begins at the static best and goes along with each decision.",
    "last ranking": "What the last boosts would show at the present request; the base ranker's before any.",
    "radius": "Euclidean, in units of the boosts, which lie in [-.5, .5]; the adaptive one is wide where the ensemble "
    "is unsure at the centre.",
    "left, changed": f"Products that left the base ranker's top {TOP}, and that of the last ranking, a decision. The "
    "rank change as a symmetric difference is twice that.",
    "guardrail": f"What would take more than {LIMIT} of the top {TOP} away is brought back, at each decision, from the "
    "request's own scores.",
    "planned in it": "The same, and every sample of the search is brought back before it is judged: the learner looks "
    "for the best of what it may do.",
    "recommended": "What the learner thinks best then, without exploring, in expected EUR a visit on visits apart.",
    "intervals": "95% over seeds, each with its own catalogue and visitors; differences are paired by seed.",
}


def build_page(rows: Sequence[Stretch]) -> Page:
    """Tell what was found."""
    drawings = [
        Drawing(
            "What is recommended, by visits",
            "Expected EUR a visit on visits apart, mean over seeds with 95% intervals. Dotted: the static best.",
            learning_figure(rows),
        )
    ]
    tables = [_settings(rows), _on_the_way(rows), _differences(rows), _guardrails(rows)]
    return Page(answer(rows), tables, drawings, TERMS, details=[verdict(rows)])


def _rewards(rows: Sequence[Stretch], setting: str, visits: int) -> list[float]:
    return values_where(rows, "reward", setting=setting, visits=visits)


def _mean(rows: Sequence[Stretch], setting: str, visits: int) -> float:
    return mean_interval(_rewards(rows, setting, visits)).mean


def paired(rows: Sequence[Stretch], setting: str, other: str, visits: int) -> Interval:
    """Return by how much a setting's recommendations earn more than those of another, paired by seed."""
    ours, theirs = (
        {row.seed: row.reward for row in rows_where(rows, setting=name, visits=visits)} for name in (setting, other)
    )
    return mean_interval([ours[seed] - theirs[seed] for seed in ours])


def answer(rows: Sequence[Stretch]) -> str:
    """Return whether to begin inside a trust region, by what the learner earns after the fewest visits."""
    visits = SHORT[0]
    means = {name: _mean(rows, name, visits) for name in SETTINGS if name not in BOUND}
    best = max(means, key=lambda name: means[name])
    earned = f"after {visits:,} visits it earns {means[best]:.1f} EUR a visit"
    if best == FREE:
        return f"Search without a trust region: {earned}, more than inside one."
    return f"Begin inside a trust region ({best}): {earned}, against {means[FREE]:.1f} without."


def verdict(rows: Sequence[Stretch]) -> str:
    """Say in a few sentences what regions bring, and what guardrails cost."""
    small = paired(rows, SMALL_LAST, SMALL_BASE, SHORT[-1])
    costs = []
    for name in (GUARD_BASE, GUARD_LAST):
        gain = paired(rows, name, FREE, LONG[-1])
        cost = Interval(-gain.mean, *(None if end is None else -end for end in (gain.high, gain.low)))
        costs.append(f"{cost.mean:.1f} EUR a visit, {interval_alone(cost, 1)} ({name})")
    decisions = sum(values_where(rows, "decisions", setting=GUARD_BASE))
    broken = [
        f"{sum(values_where(rows, field, setting=name))} of {decisions:,}"
        for name, field in ((GUARD_BASE, "broke_base"), (GUARD_LAST, "broke_last"))
    ]
    return (
        f"After {SHORT[-1]:,} visits steps of radius .1 from the last boosts earn {small.mean:+.1f} EUR a visit, "
        f"{interval_alone(small, 1)}, against a radius of .1 around the static best for ever. Behind the guardrail "
        f"{broken[0]} decisions take more than {LIMIT} products out of the base ranker's top {TOP}, {broken[1]} out of "
        f"the last ranking's. After {LONG[-1]:,} visits it costs {' and '.join(costs)}."
    )


def _settings(rows: Sequence[Stretch]) -> PageTable:
    heads = ("setting", *(f"{n:,} visits" for n in SHORT))
    static = mean_interval(values_where(rows, "static", setting=FREE, visits=SHORT[-1]))
    cells = [("static best", *[written(static, 1)] * 3)]
    cells += [(name, *(told(_rewards(rows, name, n), 1) for n in SHORT)) for name in SETTINGS]
    caption = f"EUR a visit of what is recommended after so many, {_n_seeds(rows)} seeds; in brackets 95% intervals."
    return PageTable("Trust regions and guardrails", heads, cells, caption=caption)


def _on_the_way(rows: Sequence[Stretch]) -> PageTable:
    heads = ("setting", "earned to 300", "left", "changed")
    cells = []
    for name in SETTINGS:
        way = [row for row in rows_where(rows, setting=name) if row.visits <= SHORT[-1]]
        early = [row for row in way if row.visits <= SHORT[1]]
        earned = np.average([row.earned for row in early], weights=[row.decisions for row in early])
        weights = [row.decisions for row in way]
        moves = [np.average([getattr(row, key) for row in way], weights=weights) for key in ("left", "changed")]
        cells.append((name, f"{earned:.1f}", *(f"{move:.1f}" for move in moves)))
    caption = f"EUR a visit; products a decision that left and changed, over {SHORT[-1]:,} visits."
    return PageTable("On the way", heads, cells, caption=caption)


def _differences(rows: Sequence[Stretch]) -> PageTable:
    heads = ("setting", "less", *(f"{visits:,} visits" for visits in LONG))
    cells = []
    for setting, other in PAIRS:
        measured = [visits for visits in LONG if _rewards(rows, setting, visits) and _rewards(rows, other, visits)]
        texts = [written(paired(rows, setting, other, visits), 1) for visits in measured]
        cells.append((setting, other, *texts, *[""] * (len(LONG) - len(texts))))
    caption = f"EUR a visit of recommendations, {_n_seeds(rows)} seeds, paired; in brackets 95% intervals."
    return PageTable("What one earns more than another", heads, cells, n_text=2, caption=caption)


def _guardrails(rows: Sequence[Stretch]) -> PageTable:
    heads = ("setting", "decisions", "more than 3 left", "more than 3 changed", "held back")
    cells = []
    for name in (FREE, *BOUND):
        own = rows_where(rows, setting=name)
        decisions = sum(row.decisions for row in own)
        counts = [sum(getattr(row, field) for row in own) for field in ("broke_base", "broke_last")]
        held = sum(row.held for row in own)
        cells.append((name, f"{decisions:,}", *(f"{count:,}" for count in counts), f"{100 * held / decisions:.1f}%"))
    return PageTable(f"Decisions that take more than {LIMIT} out of a top {TOP}", heads, cells)


def _n_seeds(rows: Sequence[Stretch]) -> int:
    return len({row.seed for row in rows})


def learning_figure(rows: Sequence[Stretch]) -> go.Figure:
    """Draw what is recommended by visits, a line a setting."""
    figure = go.Figure(layout=layout_style(height=420, margin={"l": 64, "r": 176, "t": 24, "b": 54}))
    ends = []
    for color, name in zip(COLORS, SETTINGS, strict=False):
        means = [mean_interval(_rewards(rows, name, n)) for n in SHORT]
        add_line(figure, SHORT, means, color, name, ".2f")
        ends.append((means[-1].mean, name, color))
    low, high = ends_range(ends)
    for place, (_, name, color) in enumerate(sorted(ends)):
        add_name(figure, low + (high - low) * place / max(1, len(ends) - 1), name, color)
    static = mean_interval(values_where(rows, "static", setting=FREE, visits=SHORT[-1])).mean
    figure.add_hline(y=static, line={"width": 1, "dash": "dot"})
    figure.update_xaxes(**axis_style(), type="log", tickvals=list(SHORT), title_text="visits")
    figure.update_yaxes(**axis_style(), title_text="EUR a visit")
    return figure


def ends_range(ends: Sequence[tuple[float, str, str]]) -> tuple[float, float]:
    """Return the lowest and the highest place of labels: at the ends of the lines, and far enough apart."""
    low, high = min(ends)[0], max(ends)[0]
    room = 0.6 * len(ends) - (high - low)
    return (low - max(0.0, room) / 2, high + max(0.0, room) / 2)
