"""How launches over HTTP ended, beside those that were computed."""

import math
from collections.abc import Sequence

import numpy as np

from studies.guardrails.page import median
from studies.served_launches.measuring import COMPUTED, EFFECTS, METHODS, RAMP, SAME_DRAWS, SERVED, Run
from zoosim.core.number_format import counted
from zoosim.core.statistics import Interval, mean_interval, share_intervals
from zoosim.monitoring.launch import State
from zoosim.report.sections import Page, PageTable

TERMS = {
    SERVED: "A running service, its learner and its log; visitors come over HTTP in the service's simulated time, and "
    "the launch ends as the service ends it.",
    SAME_DRAWS: "The launch as the study `launches` computes it, where each visitor meets the arm that the service "
    "gave them, and clicks as they did there.",
    COMPUTED: "The launch as that study has it, with its own draws of arms, in the same shops.",
    RAMP: "GrowthBook's default ramp in the same shops, computed.",
    "clicks lost": "Clicks fewer than without the launch until the end of all days, on average over the luck of "
    "clicks; below 0 they are gained.",
}


def build_page(rows: Sequence[Run]) -> Page:
    """Build the page."""
    return Page(answer(rows), [_outcomes(rows), _agreement(rows)], terms=TERMS, details=_ratios(rows))


def answer(rows: Sequence[Run]) -> str:
    """Return whether the service did what was computed."""
    pairs = _pairs(rows, SAME_DRAWS)
    same = sum(served.state == other.state for served, other in pairs)
    apart = np.median([abs(served.hour - other.hour) for served, other in pairs])
    return (
        f"{same} of {counted(len(pairs), 'launch', 'launches')} over HTTP ended as computed from the same draws, "
        f"{apart:.2f} hours apart in the median."
    )


def _of(rows: Sequence[Run], effect: float, method: str) -> list[Run]:
    return [row for row in rows if (row.effect, row.method) == (effect, method)]


def _pairs(rows: Sequence[Run], method: str, effect: float | None = None) -> list[tuple[Run, Run]]:
    """Return the launches over HTTP, each with that of a method in the same shop."""
    others = {(row.seed, row.effect): row for row in rows if row.method == method}
    served = [row for row in rows if row.method == SERVED and effect in (None, row.effect)]
    return [(row, others[row.seed, row.effect]) for row in served]


def _outcomes(rows: Sequence[Run]) -> PageTable:
    cells = []
    for effect in EFFECTS:
        for method in METHODS:
            runs = _of(rows, effect, method)
            if runs:
                cells.append((f"{effect:+.0%}", method, *_outcome(runs)))
    heads = ("challenger", "launch", "shops", "shipped", "taken back", "clicks lost", "hours to the end", "visitors")
    caption = "Clicks lost are means, hours and visitors until the end medians, with 95% intervals."
    return PageTable("Launches over HTTP, and computed for the same visitors", heads, cells, 2, caption, printed=True)


def _outcome(runs: Sequence[Run]) -> tuple[str, ...]:
    """Return the cells of launches of one effect by one method."""
    states = [run.state for run in runs]
    shipped = states.count(State.COMPLETED)
    low, high = share_intervals(np.array([shipped]), len(runs))
    share = f"{shipped} ({100 * low[0]:.0f}\N{EN DASH}{100 * high[0]:.0f}%)"
    over = [run.state in (State.COMPLETED, State.ROLLED_BACK) for run in runs]
    hours = [run.hour if is_over else math.inf for run, is_over in zip(runs, over, strict=True)]
    visitors = [run.visitors if is_over else math.inf for run, is_over in zip(runs, over, strict=True)]
    lost = mean_interval([run.lost for run in runs])
    counts = (f"{len(runs)}", share, f"{states.count(State.ROLLED_BACK)}")
    return (*counts, _text(lost), _text(median(hours)), _text(median(visitors)))


def _agreement(rows: Sequence[Run]) -> PageTable:
    """Return how far apart launches over HTTP are from computed ones in the same shops."""
    cells = []
    for effect in EFFECTS:
        for method in (SAME_DRAWS, COMPUTED):
            pairs = _pairs(rows, method, effect)
            if not pairs:
                continue
            same = sum(served.state == other.state for served, other in pairs)
            hours = np.array([abs(served.hour - other.hour) for served, other in pairs])
            visitors = np.array([abs(served.visitors - other.visitors) for served, other in pairs])
            apart = f"{np.median(hours):.2f} (most {hours.max():.2f})"
            apart_in_visitors = f"{np.median(visitors):,.0f} (most {visitors.max():,.0f})"
            cells.append((f"{effect:+.0%}", method, f"{same} of {len(pairs)}", apart, apart_in_visitors))
    refused = sum(row.refused for row in rows)
    heads = ("challenger", "beside", "same end", "hours apart", "visitors apart")
    caption = f"Medians of the differences. {counted(refused, 'request')} got no answer over HTTP."
    return PageTable("The same launch over HTTP and computed", heads, cells, 2, caption, printed=True)


def _ratios(rows: Sequence[Run]) -> list[str]:
    """Return what a worse model costs over HTTP beside the ramp, in a sentence."""
    pairs = _pairs(rows, RAMP, EFFECTS[0])
    if not pairs:
        return []
    lost = [float(np.mean([run.lost for run in runs])) for runs in zip(*pairs, strict=True)]
    return [f"A model 20% worse costs {lost[0] / lost[1]:.2f} of what the ramp costs in the same shops."]


def _text(interval: Interval) -> str:
    """Return a figure with its interval; a dash where less than half of the launches came to an end."""
    if math.isinf(interval.mean):
        return "\N{EN DASH}"
    if interval.low is None or interval.high is None:
        return f"{interval.mean:,.0f}"
    high = "more" if math.isinf(interval.high) else f"{interval.high:,.0f}"
    return f"{interval.mean:,.0f} ({interval.low:,.0f} to {high})"
