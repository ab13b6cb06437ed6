"""How launches ended, what they cost, and how long better models waited."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from studies.guardrails.page import median
from studies.launches.measuring import EFFECTS, METHODS, PLAN, RAMP, Run
from zoosim.core.number_format import counted
from zoosim.core.statistics import Interval, mean_interval, share_intervals
from zoosim.core.types import FloatArray
from zoosim.monitoring.launch import State
from zoosim.monitoring.launch_plan import Plan
from zoosim.monitoring.sample_size import events_needed, fixed_test_events
from zoosim.playground.visitors import PER_DAY, RATE
from zoosim.report.drawing import COLORS, axis_style, layout_style
from zoosim.report.sections import Drawing, Page, PageTable

WORSE, BETTER = -0.2, 0.1
"""The effects of which targets are set."""

HOVER = "hour %{x:.1f}: %{y:.0%}"

RESAMPLES = 2_000
"""Resamples of the shops behind an interval of a ratio."""

TERMS = {
    "plan": "The plan of a launch of this package, with the rules that move a running service; a holdback of 5% keeps "
    "the champion, so that 100% are 95% of all visitors.",
    RAMP: "1, 5, 10, 25 and 50% of the visitors, each beside as many of a control; a look every 6 hours at its "
    "one-sided sequential interval of 95%, tuned to 5,000 events, over all visitors so far: taken back where it lies "
    "below 0, shipped after the last look otherwise.",
    "clicks lost": "Clicks fewer than without the launch until the end of all days, on average over the luck of "
    "clicks; below 0 they are gained.",
    "best fixed test": "One look, at a number of visitors chosen beforehand, with the level of the plan's `ship_level` "
    "and half of the visitors from the start, which shows the improvement in half of all cases.",
}


def build_page(rows: Sequence[Run]) -> Page:
    """Build the page."""
    seed = rows[0].seed
    drawing = Drawing(
        "Shares over time",
        f"The new model's share of the visitors in the shop of seed {seed}; the plan's lines end where it is decided.",
        _figure([row for row in rows if row.seed == seed]),
    )
    return Page(answer(rows), [_outcomes(rows), _targets(rows)], [drawing], TERMS, _found_by_both(rows))


def answer(rows: Sequence[Run]) -> str:
    """Return the main figures."""
    lost = [mean_interval(_lost(rows, WORSE, method)).mean for method in METHODS]
    hours = [median(_hours(rows, BETTER, method)).mean for method in METHODS]
    return (
        f"A model 20% worse costs {lost[0]:,.0f} clicks (GrowthBook {lost[1]:,.0f}); one 10% better ships after "
        f"{hours[0]:,.0f} hours ({hours[1]:,.0f})."
    )


def _found_by_both(rows: Sequence[Run]) -> list[str]:
    """Return what a worse model costs in the shops in which the ramp finds it, too, in a sentence."""
    ramped = {row.seed: row.lost for row in _of(rows, WORSE, RAMP) if row.state is State.ROLLED_BACK}
    planned = [row.lost for row in _of(rows, WORSE, PLAN) if row.seed in ramped]
    if not ramped:
        return []
    return [
        f"In the {counted(len(ramped), 'shop')} in which the ramp takes the worse model back, too, that costs "
        f"{np.mean(list(ramped.values())):,.0f} clicks, and {np.mean(planned):,.0f} by plan."
    ]


def _of(rows: Sequence[Run], effect: float, method: str) -> list[Run]:
    return [row for row in rows if (row.effect, row.method) == (effect, method)]


def _lost(rows: Sequence[Run], effect: float, method: str) -> list[float]:
    return [row.lost for row in _of(rows, effect, method)]


def _hours(rows: Sequence[Run], effect: float, method: str) -> list[float]:
    """Return the hours until each launch shipped, infinity where it did not."""
    return [row.hour if row.state is State.COMPLETED else math.inf for row in _of(rows, effect, method)]


def _outcomes(rows: Sequence[Run]) -> PageTable:
    cells = []
    for effect in EFFECTS:
        for method in METHODS:
            runs = _of(rows, effect, method)
            states = [row.state for row in runs]
            shipped = states.count(State.COMPLETED)
            back = states.count(State.ROLLED_BACK)
            low, high = share_intervals(np.array([shipped]), len(runs))
            share = f"{shipped} ({100 * low[0]:.0f}\N{EN DASH}{100 * high[0]:.0f}%)"
            counts = (share, str(back), str(len(runs) - shipped - back))
            lost = _text(mean_interval(_lost(rows, effect, method)))
            cells.append((f"{effect:+.0%}", method, *counts, lost, _text(median(_hours(rows, effect, method)))))
    heads = ("challenger", "launch", "shipped", "taken back", "cannot tell", "clicks lost", "hours to 100%")
    number = len({row.seed for row in rows})
    caption = (
        f"{number} shops with {PER_DAY:,} visitors a day who click at {RATE:.0%}. Mean clicks lost against never "
        "having launched, and median hours until all visitors had the new model, both with 95% intervals."
    )
    return PageTable("Launches of challengers that earn more or less", heads, cells, 2, caption, printed=True)


def _ratio(planned: FloatArray, ramped: FloatArray, *, average: Callable[..., Any]) -> str:
    """Return the ratio of averages over shops, with a bootstrap interval that draws shops, with both their launches."""
    places = np.random.default_rng(0).integers(0, len(planned), (RESAMPLES, len(planned)))
    ratios = average(planned[places], axis=1) / average(ramped[places], axis=1)
    low, high = np.quantile(ratios, (0.025, 0.975), method="nearest")
    return f"{average(planned) / average(ramped):.2f} ({low:.2f}\N{EN DASH}{high:.2f})"


def _targets(rows: Sequence[Run]) -> PageTable:
    """Return the ratios to the ramp, and what the best tests could do."""
    lost = _ratio(*(np.array(_lost(rows, WORSE, method)) for method in (PLAN, RAMP)), average=np.mean)
    hours = _ratio(*(np.array(_hours(rows, BETTER, method)) for method in (PLAN, RAMP)), average=np.median)
    plan = Plan.model_validate({})
    per_hour = PER_DAY / 24.0 * (1.0 - plan.holdback)
    rate = RATE * (1.0 + BETTER / 2.0)
    terms = (RATE * BETTER, rate * (1.0 - rate), 0.5, plan.ship_level)
    cells = [
        ("clicks lost by -20%, parts of GrowthBook's", lost),
        ("hours to 100% of +10%, parts of GrowthBook's", hours),
        ("hours that the best fixed test needs for +10%", f"{fixed_test_events(*terms) / per_hour:.0f}"),
        ("hours that `events_needed` says for +10%, half of the visitors", f"{events_needed(*terms) / per_hour:.0f}"),
    ]
    caption = "95% intervals by resampling shops. The two last rows are of the default plan."
    return PageTable("Beside GrowthBook's ramp", ("", "figure"), cells, 1, caption, printed=True)


def _text(interval: Interval) -> str:
    """Return a figure with its interval; a dash where less than half of the launches ship."""
    if math.isinf(interval.mean):
        return "\N{EN DASH}"
    ends = "" if interval.low is None else f" ({interval.low:,.0f} to {interval.high:,.0f})"
    return f"{interval.mean:,.0f}{ends}"


def _figure(rows: Sequence[Run]) -> go.Figure:
    """Draw the shares of one shop's launches, a colour per challenger, those of the ramp dotted."""
    figure = go.Figure(layout=layout_style(height=380, margin={"l": 60, "r": 30, "t": 100, "b": 54}))
    figure.update_layout(showlegend=True, legend={"orientation": "h", "y": 1.02, "yanchor": "bottom"})
    figure.update_xaxes(**axis_style(), title_text="hours", type="log")
    figure.update_yaxes(**axis_style(), title_text="share of the new model", tickformat=".0%")
    for place, effect in enumerate(EFFECTS):
        for method, dash in ((PLAN, "solid"), (RAMP, "dot")):
            for row in _of(rows, effect, method):
                line = {"color": COLORS[place], "dash": dash, "width": 2, "shape": "hv"}
                name = f"{effect:+.0%}, {method}"
                # On a logarithmic axis hour 0 has no place.
                hours = [max(hour, 0.25) for hour in row.starts]
                figure.add_scatter(x=hours, y=row.shares, mode="lines", line=line, name=name, hovertemplate=HOVER)
    return figure
