"""The page of the study: who earns more in each pair, what a wrong width costs, and what a decision takes."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from studies.figures import add_interval, add_mark, rows_figure
from studies.rows import values_where
from studies.ucb_or_thompson.measuring import DELAYS, FACTORS, Reached
from studies.ucb_or_thompson.pairs import PAIRS, Pair, width_of
from studies.ucb_or_thompson.timing import Timed
from studies.writing import told
from zoosim.core.statistics import mean_interval
from zoosim.report.drawing import COLORS
from zoosim.report.sections import Drawing, Page, PageTable

TERMS = {
    "% of oracle": "The true expected rewards of what was shown, summed, over those of the best choice each time.",
    "difference": "Thompson sampling less the bound on the same visitors, in points, mean over seeds.",
    "late": "A visit's reward reaches the policy after so many further visits.",
    "width": "Standard deviations of an estimate that are added to it, or that draws are spread by (alpha).",
    "chances": "Candidates that a decision could have shown, by its propensities: a bound leaves one.",
    "intervals": "95% over seeds (Student's t).",
}


def build_page(rows: Sequence[Reached | Timed]) -> Page:
    """Tell in which pair and at which delay draws earn more, and what either asks for."""
    reached = [row for row in rows if isinstance(row, Reached)]
    timed = [row for row in rows if isinstance(row, Timed)]
    pairs = [pair for pair in PAIRS if pair.ucb in {row.policy for row in reached}]
    tables = [_reward_table(reached, pairs), _width_table(reached, pairs), _cost_table(timed)]
    drawings = [
        Drawing(
            "Thompson sampling less the upper confidence bound",
            "Points of the oracle's reward on the same visitors, mean over seeds with 95% intervals; a color for each "
            "delay. Right of the line draws earn more.",
            _difference_figure(reached, pairs),
        ),
        Drawing(
            "What does a wrong width cost?",
            "Points of the oracle's reward that half and twice the width change, on the same visitors, mean over seeds "
            "with 95% intervals.",
            _width_figure(reached, pairs),
        ),
    ]
    return Page(_answer(reached, pairs), tables, drawings, TERMS, details=[_verdict(reached, timed, pairs)])


def differences(rows: Sequence[Reached], pair: Pair, delay: int) -> list[float]:
    """Return the points by which Thompson sampling is ahead of the bound, of each seed."""
    draws = _percents(rows, pair.thompson, delay, 1.0)
    bounds = _percents(rows, pair.ucb, delay, 1.0)
    return [draw - bound for draw, bound in zip(draws, bounds, strict=True)]


def _percents(rows: Sequence[Reached], policy: str, delay: int, factor: float) -> list[float]:
    return values_where(rows, "percent", policy=policy, delay=delay, factor=factor)


def _leads(rows: Sequence[Reached], pairs: Sequence[Pair], delay: int) -> tuple[int, int]:
    """Return in how many pairs the bound leads, and in how many draws do, by an interval without 0."""
    bounds = 0
    draws = 0
    for pair in pairs:
        interval = mean_interval(differences(rows, pair, delay))
        if interval.low is not None and interval.high is not None:
            bounds += interval.high < 0.0
            draws += interval.low > 0.0
    return bounds, draws


def _answer(rows: Sequence[Reached], pairs: Sequence[Pair]) -> str:
    at_once = _leads(rows, pairs, 0)
    late = _leads(rows, pairs, DELAYS[-1])
    return (
        f"Of {len(pairs)} pairs the bound leads in {at_once[0]} and draws in {at_once[1]} with rewards at once, in "
        f"{late[0]} and {late[1]} with rewards {DELAYS[-1]:,} visits late."
    )


def _verdict(rows: Sequence[Reached], timed: Sequence[Timed], pairs: Sequence[Pair]) -> str:
    """Say what propensities cost, and what a wrong width does."""
    time_of = {row.policy: row for row in timed}
    factors = [
        time_of[pair.thompson].with_propensities / time_of[pair.ucb].with_propensities
        for pair in pairs
        if {pair.ucb, pair.thompson} <= time_of.keys()
    ]
    worst = {policy: min(_change(rows, policy, factor) for factor in FACTORS) for policy in _policies(pairs)}
    frailest = min(worst, key=lambda policy: worst[policy])
    told_factors = f"{min(factors):.1f} to {max(factors):.1f}" if factors else "not timed"
    return (
        f"A decision of Thompson sampling with its propensities takes {told_factors} times that of the bound. Half or "
        f"twice the width costs {frailest} most, {-worst[frailest]:.1f} points."
    )


def _change(rows: Sequence[Reached], policy: str, factor: float) -> float:
    """Return the mean points that a policy gains at a factor of its width."""
    return float(np.mean(_changes(rows, policy, factor)))


def _changes(rows: Sequence[Reached], policy: str, factor: float) -> list[float]:
    own = _percents(rows, policy, 0, 1.0)
    return [other - percent for other, percent in zip(_percents(rows, policy, 0, factor), own, strict=True)]


def _policies(pairs: Sequence[Pair]) -> list[str]:
    return [policy for pair in pairs for policy in (pair.ucb, pair.thompson)]


def _reward_table(rows: Sequence[Reached], pairs: Sequence[Pair]) -> PageTable:
    seeds = len({row.seed for row in rows})
    heads = ("bound", "draws", "visits late", "% of oracle, bound", "% of oracle, draws", "difference", "draws ahead")
    cells = []
    for pair in pairs:
        for delay in DELAYS:
            lead = differences(rows, pair, delay)
            cells.append(
                (
                    pair.ucb,
                    pair.thompson,
                    f"{delay:,}",
                    f"{np.mean(_percents(rows, pair.ucb, delay, 1.0)):.1f}",
                    f"{np.mean(_percents(rows, pair.thompson, delay, 1.0)):.1f}",
                    told(lead, 1, sign=True),
                    f"{sum(value > 0 for value in lead)} of {len(lead)}",
                )
            )
    return PageTable(f"Reward by delay, {seeds} seeds", heads, cells, n_text=2, caption="In brackets 95% intervals.")


def _width_table(rows: Sequence[Reached], pairs: Sequence[Pair]) -> PageTable:
    heads = ("policy", "width", *(f"change at {factor:g} x" for factor in FACTORS if factor != 1.0))
    cells = [
        (
            policy,
            f"{width_of(pair, policy):g}",
            *(told(_changes(rows, policy, factor), 1, sign=True) for factor in FACTORS if factor != 1.0),
        )
        for pair in pairs
        for policy in (pair.ucb, pair.thompson)
    ]
    return PageTable("What other widths change, in points", heads, cells, caption="Rewards at once, the same visitors.")


def _cost_table(timed: Sequence[Timed]) -> PageTable:
    heads = ("policy", "decision", "with propensities", "update", "chances", "candidates")
    cells = [
        (
            row.policy,
            f"{row.decision:.0f}",
            f"{row.with_propensities:.0f}",
            f"{row.update:.0f}",
            f"{row.chances:.1f}",
            f"{row.candidates}",
        )
        for row in timed
    ]
    caption = "Median microseconds on one thread, after 2,000 visits; compare within one run."
    return PageTable("What a decision takes", heads, cells, caption=caption)


def _difference_figure(rows: Sequence[Reached], pairs: Sequence[Pair]) -> go.Figure:
    labels = [f"{pair.thompson} less {pair.ucb}" for pair in pairs]
    figure = rows_figure(labels, "points of % of oracle")
    for place, pair in enumerate(pairs):
        for number, delay in enumerate(DELAYS):
            interval = mean_interval(differences(rows, pair, delay))
            height = place + 0.2 * (number - 1)
            words = f"{labels[place]}, {delay:,} visits late: {interval.mean:+.1f}"
            add_interval(figure, interval, height, COLORS[number], words)
    add_mark(figure, 0.0, "alike")
    return figure


def _width_figure(rows: Sequence[Reached], pairs: Sequence[Pair]) -> go.Figure:
    policies = _policies(pairs)
    figure = rows_figure(policies, "points of % of oracle")
    for place, policy in enumerate(policies):
        for number, factor in enumerate(factor for factor in FACTORS if factor != 1.0):
            interval = mean_interval(_changes(rows, policy, factor))
            height = place + 0.2 * (number - 0.5)
            add_interval(figure, interval, height, COLORS[number], f"{policy}, {factor:g} x: {interval.mean:+.1f}")
    add_mark(figure, 0.0, "own width")
    return figure
