"""The page of a rehearsed launch: whether to launch, what to expect, how long it takes, and what knowing costs."""

import shlex
from typing import TYPE_CHECKING

import numpy as np
import plotly.graph_objects as go

from zoosim.core.number_format import in_percent, plain, significant, unit_of, with_interval
from zoosim.core.statistics import Interval
from zoosim.monitoring.launch import State
from zoosim.rehearsal.launches.price import in_days
from zoosim.report.drawing import ACCENT, COLORS, MUTED, axis_style, layout_style, legend_style
from zoosim.report.sections import Drawing, Page, PageTable

if TYPE_CHECKING:
    from zoosim.api.rehearse_launch import LaunchRehearsal

BINS = 40
POINTS = 160
"""Hours at which the shares of launches are drawn."""

ENDINGS = {
    "shipped": (State.COMPLETED,),
    "taken back": (State.ROLLED_BACK,),
    "still running": (State.RUNNING, State.CANNOT_TELL, State.PAUSED),
}
ENDING_COLORS = {"shipped": COLORS[2], "taken back": COLORS[1], "still running": MUTED}

TERMS = {
    "regret": "The launch costs, over all days, more than the bearable part of what today's choices alone would have "
    "earned. What it earns and costs is counted as expected, over the luck of visits, in the shop as it truly is.",
    "shops that the log allows": "A shop is fitted to the log. Each launch is played in another draw of what the log "
    "leaves open, with other visitors: so what is known of the shop is known to the model, and what is not differs.",
    "today's choices": "What the log shows at a visit. A visit of the rehearsal is a row of the log.",
    "the new model": "It decides as it was trained, and learns nothing on the way; a part of its decisions is spread "
    "evenly, as in a service.",
    "not knowing": "What is not earned against one who knows beforehand which of both is better, and gives that one "
    "all visitors at once: by visitors who meet the worse one until it is told, and by the holdback.",
    "price of knowing": "How long a test as that of the plan takes in half of all cases to show a change of just "
    "that size, at a share of the visitors; and what it costs a day if the new model is worse by as much.",
}


def build_page(rehearsal: "LaunchRehearsal") -> Page:
    """Return the page."""
    answer, *details = rehearsal.sentences
    tables = [outcome_table(rehearsal), price_table(rehearsal), _plan_table(rehearsal), _next(rehearsal)]
    return Page(answer, tables, [_nets(rehearsal), _endings(rehearsal)], TERMS, details=details)


def outcome_table(rehearsal: "LaunchRehearsal") -> PageTable:
    """Tabulate what to expect of the launch."""
    figures = rehearsal.figures
    unit = unit_of(rehearsal.reward)
    rows = [
        ("you regret it", *_chance(figures.regret)),
        ("it ships", *_chance(figures.shipped)),
        ("it is taken back", *_chance(figures.taken_back)),
        (f"it cannot be told within {rehearsal.days:g} days", *_chance(figures.untold)),
        ("it ships, and truly earns less", *_chance(figures.shipped_worse)),
        ("it is taken back, and truly earns more", *_chance(figures.taken_back_better)),
        ("the new model truly earns more than today's choices", *_chance(figures.better)),
        ("by what part it truly earns more", *in_percent(*figures.effect, signed=True, suffix="%")),
        (f"the launch brings, {unit}", *with_interval(*figures.net, signed=True)),
        ("the launch brings, part of today's", *in_percent(*figures.net_share, signed=True, suffix="%")),
        (f"not knowing costs, {unit}", *with_interval(*figures.asking)),
        ("days until it ships or is taken back", *_days(figures.hours, rehearsal.days)),
        ("days until it ships, if it does", *_days(figures.hours_to_ship, rehearsal.days)),
        (f"exploring costs a day, {unit}", *with_interval(*rehearsal.exploring)),
    ]
    caption = (
        f"{figures.n} launches, each in another shop that the log allows, over {rehearsal.days:g} days of "
        f"{rehearsal.visits_a_day:,.0f} visits; today's choices alone earn {plain(figures.baseline.mean)} {unit}. "
        "Intervals of chances are those of an estimate from so many launches; in all others one further launch lies "
        "with 95%. Days are medians. It is regretted where it costs more than "
        f"{100.0 * rehearsal.bearable:.3g}% of what today's choices alone earn. The rehearsal is to be believed as: "
        f"{rehearsal.believed}."
    )
    cells = [(name, f"{value} ({interval})") for name, value, interval in rows]
    return PageTable("What to expect", ("", "expected (95% interval)"), cells, caption=caption)


def _chance(share: Interval) -> tuple[str, str]:
    assert share.low is not None
    assert share.high is not None
    return f"{share.mean:.1%}", f"{100.0 * share.low:.1f} to {share.high:.1%}"


def _days(hours: Interval | None, days: float) -> tuple[str, str]:
    """Return hours as days; those as long as all that are planned for as "more than" these."""
    if hours is None:
        return "-", "none ships"
    written = [f"over {days:g}" if end is None or end >= 24.0 * days else f"{end / 24.0:.1f}" for end in hours]
    return written[0], f"{written[1]} to {written[2]}"


def price_table(rehearsal: "LaunchRehearsal") -> PageTable:
    """Tabulate what it takes to tell changes."""
    unit = unit_of(rehearsal.reward)
    level = rehearsal.plan.ship_level
    rows = [
        (
            f"{price.lift:+.0%}",
            f"{price.share:.0%}",
            in_days(price.days),
            *(significant(cost, 3) for cost in (price.a_day, price.in_all)),
        )
        for price in rehearsal.prices
    ]
    caption = (
        f"Each is shown with a chance of {level:.0%} of being wrong (ship_level), by a test that may "
        "be looked at all the time. Costs are those if the new model is worse by as much; if it is better, it earns "
        "that."
    )
    heads = ("to tell", "share of the new model", "takes", f"costs a day, {unit}", f"in all, {unit}")
    return PageTable("The price of knowing", heads, rows, caption=caption, printed=True)


def _plan_table(rehearsal: "LaunchRehearsal") -> PageTable:
    plan = rehearsal.plan
    hours = plan.hours if isinstance(plan.hours, list) else [plan.hours] * len(plan.steps)
    rows = [(f"{share:.0%}", f"{hour:g}", f"{plan.least:,}") for share, hour in zip(plan.steps, hours, strict=True)]
    metrics = "; ".join(
        f"{each.role} {each.reward}, margin {each.margin:g}, drop {each.drop:g}, lift {each.lift:g}"
        for each in plan.metrics
    )
    last = f" It is taken back untold after {plan.most_days:g} days at the last share." if plan.most_days else ""
    caption = f"Holdback {plan.holdback:.0%}. {metrics}.{last} The file plan.yaml has it, for zoosim deploy launch."
    heads = ("share", "hours at least", "visitors at least")
    return PageTable("The plan", heads, rows, caption=caption, folded=True)


def next_commands(rehearsal: "LaunchRehearsal") -> list[tuple[str, str]]:
    """Return what comes next, each with its command."""
    if rehearsal.model is None:
        return []
    model = shlex.quote(str(rehearsal.model))
    plan = shlex.quote(str(rehearsal.path / "plan.yaml"))
    return [("launch it in a running service", f"zoosim deploy launch {model} --plan {plan}")]


def _next(rehearsal: "LaunchRehearsal") -> PageTable:
    rows = next_commands(rehearsal)
    rows.append(("the fitted shop, and how far to believe it", str(rehearsal.path / "world" / "report.html")))
    rows.append(("the launches, one in a line", str(rehearsal.path / "launches.jsonl")))
    return PageTable("What comes next", ("", "command or file"), rows, n_text=2)


def _nets(rehearsal: "LaunchRehearsal") -> Drawing:
    """Draw what the launches bring, by how they end."""
    unit = unit_of(rehearsal.reward)
    figure = go.Figure(layout=layout_style(height=320, margin={"l": 56, "r": 24, "t": 40, "b": 54}))
    nets = [each.net for each in rehearsal.outcomes]
    low, high = min(nets), max(nets)
    width = (high - low) / BINS or 1.0
    edges = {"start": low, "end": high + width, "size": width}
    for ending, states in ENDINGS.items():
        of_ending = [each.net for each in rehearsal.outcomes if each.state in states]
        hover = f"{ending}, %{{x}} {unit}: %{{y}} launches<extra></extra>"
        color = {"color": ENDING_COLORS[ending]}
        figure.add_histogram(x=of_ending, xbins=edges, name=ending, marker=color, hovertemplate=hover)
    bearable = -rehearsal.bearable * rehearsal.figures.baseline.mean
    figure.add_vline(x=bearable, line={"color": ACCENT, "dash": "dot", "width": 2})
    figure.update_layout(barmode="stack", bargap=0.05, **legend_style(1.02))
    figure.update_xaxes(**axis_style(), title_text=f"{unit} above today's choices alone")
    figure.update_yaxes(**axis_style(), title_text="launches")
    caption = f"Launches by what each brings over {rehearsal.days:g} days. Left of the dotted line they are regretted."
    return Drawing("What launches bring", caption, figure)


def _endings(rehearsal: "LaunchRehearsal") -> Drawing:
    """Draw how many launches have ended, and how, over time."""
    figure = go.Figure(layout=layout_style(height=320, margin={"l": 56, "r": 24, "t": 40, "b": 54}))
    days = np.linspace(0.0, rehearsal.days, POINTS)
    for ending in ("shipped", "taken back"):
        hours = np.sort([each.hour for each in rehearsal.outcomes if each.state in ENDINGS[ending]])
        share = np.searchsorted(hours, 24.0 * days, side="right") / len(rehearsal.outcomes)
        line = {"color": ENDING_COLORS[ending], "width": 2, "dash": "solid" if ending == "shipped" else "dash"}
        hover = f"{ending} by day %{{x:.1f}}: %{{y:.0%}}<extra></extra>"
        figure.add_scatter(x=days, y=share, mode="lines", line=line, name=ending, hovertemplate=hover)
    figure.update_layout(legend_style(1.02))
    figure.update_xaxes(**axis_style(), title_text="days since the launch began")
    figure.update_yaxes(**axis_style(), title_text="of all launches", tickformat=".0%", range=[0.0, 1.02])
    return Drawing(
        "How long it takes", "The share of the launches that have shipped, or were taken back, by a day.", figure
    )
