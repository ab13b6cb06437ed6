"""What the courses tell: does a trust region help early, how far do rankings move, and what does a guardrail cost?"""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from studies.figures import add_line, add_name
from studies.rows import rows_where
from studies.trust_region.courses import FREE, GUARDED, LIMIT, LONG, PLANNED, SETTINGS, SHORT, TOP, Stretch
from studies.writing import interval_alone, told, written
from zoosim.core.statistics import Interval, mean_interval
from zoosim.report.drawing import COLORS, axis_style, layout_style
from zoosim.report.sections import Drawing, Page, PageTable

TERMS = {
    "static best": "Full weight on the price, nothing else: the best of the published kind of template. Trust regions "
    "are around it.",
    "radius": "Euclidean, in units of the boosts, which lie in [-.5, .5]; the adaptive one is wide where the ensemble "
    "is unsure at the static best.",
    "left, moved": f"Products that left the base ranker's top {TOP}, and that of the static best, a decision. The "
    "symmetric difference of both tops, the other usual measure, is twice that.",
    "guardrail": f"What would take more than {LIMIT} of the base ranker's top {TOP} away is scaled back, at each "
    "decision, from the request's own scores.",
    "planned in the guardrail": "The same, and every sample of the search is scaled back before it is judged: the "
    "learner looks for the best of what it may do.",
    "recommended": "What the learner thinks best then, without exploring, in expected EUR a visit on visits apart.",
    "intervals": "95% over seeds, each with its own catalogue and visitors; differences are paired by seed.",
}


def build_page(rows: Sequence[Stretch]) -> Page:
    """Tell what was found."""
    drawings = [
        Drawing(
            "What is recommended, by visits",
            "Expected EUR a visit on visits apart, mean over the seeds that all settings were measured on, with 95% "
            "intervals. Dotted: the static best.",
            learning_figure(rows),
        )
    ]
    return Page(answer(rows), [_settings(rows), _guardrail(rows)], drawings, TERMS, details=[verdict(rows)])


def of(rows: Sequence[Stretch], setting: str, visits: int, *, common: bool = True) -> list[Stretch]:
    """Return the stretches of a setting up to a number of visits, of seeds that all settings have, or of all."""
    shared = set.intersection(*({row.seed for row in rows if row.setting == name} for name in _names(rows)))
    own = rows_where(rows, setting=setting, visits=visits)
    return [row for row in own if not common or row.seed in shared]


def _names(rows: Sequence[Stretch]) -> list[str]:
    return list(dict.fromkeys(row.setting for row in rows))


def answer(rows: Sequence[Stretch]) -> str:
    """Return whether to begin inside a trust region, by what the learner earns after the fewest visits."""
    visits = SHORT[0]
    settings = [name for name in _names(rows) if name not in (GUARDED, PLANNED)]
    means = {name: mean_interval([row.reward for row in of(rows, name, visits)]).mean for name in settings}
    best = max(means, key=lambda name: means[name])
    earned = f"after {visits:,} visits it earns {means[best]:.1f} EUR a visit"
    if best == FREE:
        return f"Search without a trust region: {earned}, more than inside one."
    return f"Begin inside a trust region ({best}): {earned}, against {means[FREE]:.1f} without."


def verdict(rows: Sequence[Stretch]) -> str:
    """Say in a sentence or two what they do."""
    regions = [name for name in _names(rows) if name not in (FREE, GUARDED, PLANNED)]
    parts = []
    for visits in SHORT[0], SHORT[-1]:
        free = mean_interval([row.reward for row in of(rows, FREE, visits)]).mean
        means = {name: mean_interval([row.reward for row in of(rows, name, visits)]).mean for name in regions}
        best = max(means, key=lambda name: means[name])
        parts.append(
            f"after {visits:,} visits {free:.1f} EUR a visit without, {means[best]:.1f} with the best ({best})"
        )
    held = [row for row in rows if row.setting == GUARDED]
    gain = paired(rows, LONG[-1])
    cost = Interval(-gain.mean, *(None if end is None else -end for end in (gain.high, gain.low)))
    decisions = sum(row.decisions for row in held)
    broken = sum(row.broken for row in held)
    return (
        f"A trust region around the static best: {'; '.join(parts)}. Behind the guardrail {broken} "
        f"of {decisions:,} decisions take more than {LIMIT} products out of the top {TOP}; it costs {cost.mean:.1f} "
        f"EUR a visit, {interval_alone(cost, 1)}."
    )


def paired(rows: Sequence[Stretch], visits: int) -> Interval:
    """Return what the guardrail adds to the reward of recommendations, paired by seed."""
    both = [{row.seed: row.reward for row in of(rows, name, visits, common=False)} for name in (GUARDED, FREE)]
    return mean_interval([both[0][seed] - both[1][seed] for seed in both[0]])


def _settings(rows: Sequence[Stretch]) -> PageTable:
    heads = ("setting", *(f"recommended, {n:,}" for n in SHORT), "earned to 300", "left", "moved", "broken")
    cells = []
    static = mean_interval([row.static for row in of(rows, FREE, SHORT[-1])])
    cells.append(("static best", *[written(static, 1)] * 3, "", "", "0.0", ""))
    for name in _names(rows):
        rewards = [told([row.reward for row in of(rows, name, n)], 1) for n in SHORT]
        early = [row for n in SHORT[:2] for row in of(rows, name, n)]
        all_of = [row for n in SHORT for row in of(rows, name, n)]
        earned = sum(row.earned * row.decisions for row in early) / sum(row.decisions for row in early)
        weights = [row.decisions for row in all_of]
        left, moved = (np.average([getattr(row, key) for row in all_of], weights=weights) for key in ("left", "moved"))
        broken = sum(row.broken for row in all_of) / sum(weights)
        cells.append((name, *rewards, f"{earned:.1f}", f"{left:.1f}", f"{moved:.1f}", f"{100 * broken:.0f}%"))
    seeds = len({row.seed for row in of(rows, FREE, SHORT[-1])})
    caption = (
        f"EUR a visit, {seeds} seeds; in brackets 95% intervals. Left, moved and broken over the first 1,000 visits."
    )
    return PageTable("Trust regions around the static best", heads, cells, caption=caption)


def _guardrail(rows: Sequence[Stretch]) -> PageTable:
    heads = ("visits", "recommended, free", "recommended, guarded", "difference", "broken, free", "broken", "held back")
    cells = []
    for visits in LONG:
        free, held = (of(rows, name, visits, common=False) for name in (FREE, GUARDED))
        decisions = sum(row.decisions for row in held)
        cells.append(
            (
                f"{visits:,}",
                *(told([row.reward for row in own], 1) for own in (free, held)),
                written(paired(rows, visits), 1),
                f"{100 * sum(row.broken for row in free) / max(1, sum(row.decisions for row in free)):.1f}%",
                f"{sum(row.broken for row in held)} of {decisions:,}",
                f"{100 * sum(row.held for row in held) / decisions:.1f}%",
            )
        )
    caption = f"EUR a visit, {len({row.seed for row in rows if row.setting == GUARDED})} seeds."
    return PageTable(f"At most {LIMIT} of the top {TOP} leave", heads, cells, caption=caption)


def learning_figure(rows: Sequence[Stretch]) -> go.Figure:
    """Draw what is recommended by visits, a line a setting."""
    figure = go.Figure(layout=layout_style(height=420, margin={"l": 64, "r": 176, "t": 24, "b": 54}))
    ends = []
    for color, name in zip(COLORS, SETTINGS, strict=False):
        means = [mean_interval([row.reward for row in of(rows, name, n)]) for n in SHORT]
        add_line(figure, SHORT, means, color, name, ".2f")
        ends.append((means[-1].mean, name, color))
    low, high = ends_range(ends)
    for place, (_, name, color) in enumerate(sorted(ends)):
        add_name(figure, low + (high - low) * place / max(1, len(ends) - 1), name, color)
    static = mean_interval([row.static for row in of(rows, FREE, SHORT[-1])]).mean
    figure.add_hline(y=static, line={"width": 1, "dash": "dot"})
    figure.update_xaxes(**axis_style(), type="log", tickvals=list(SHORT), title_text="visits")
    figure.update_yaxes(**axis_style(), title_text="EUR a visit")
    return figure


def ends_range(ends: Sequence[tuple[float, str, str]]) -> tuple[float, float]:
    """Return the lowest and the highest place of labels: at the ends of the lines, and far enough apart."""
    low, high = min(ends)[0], max(ends)[0]
    room = 0.6 * len(ends) - (high - low)
    return (low - max(0.0, room) / 2, high + max(0.0, room) / 2)
