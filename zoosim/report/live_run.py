"""The page of a run while it goes on: how far it is, what policies earn and choose, and when shocks come."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from zoosim.arena.watching import DONE, FAILED, RUNNING, WAITING, Curve, PolicyFigures, RunProgress
from zoosim.core.number_format import counted
from zoosim.live.charts import Figure, Line, Mark, draw_charts
from zoosim.live.pages import render, time_text
from zoosim.worlds.facts import RewardScale

PACKAGE = "zoosim.report"

MOST_LINES = 8
"""Policies that are drawn, the best so far: of more the lines could not be told apart. Tables have all."""

MOST_BARS = 6
"""Actions that are told apart in a bar, those that all policies together choose most."""

TABLE_ROWS = 12
"""Rows of a table behind a chart."""

BAR_LEFT, BAR_HEIGHT, BAR_GAP = 0, 22, 24
"""Layout of bars, in units of the drawing; the policy's name stands in the gap above each."""

BAR_WIDTHS = (720, 360)
LEAST_LABEL = 26.0
"""Width of a part of a bar from which on it is labelled."""

MISSING = "\N{EN DASH}"


class RunFacts(NamedTuple):
    """What a live page says of a run that does not change.

    Attributes:
        title: The name of the experiment.
        question: What it asks.
        unit: What an action is, such as "product"; empty where actions are vectors.
        counted_by: What rewards are counted by, "visit", or "visitor" where visitors come back.
        reward: What rewards are called, and how they are written.
        shocks: The visit and the name of each shock that all worlds share.
        shocks_differ: Whether each seed's world has shocks of its own.
    """

    title: str
    question: str
    unit: str
    counted_by: str
    reward: RewardScale
    shocks: Sequence[tuple[int, str]]
    shocks_differ: bool


class Drawn(NamedTuple):
    """A policy that is drawn: its name, and its place in the palette."""

    name: str
    place: int


class Segment(NamedTuple):
    """A part of a bar: its action's place in the palette, -1 for all others; where it lies; its label."""

    place: int
    x: float
    width: float
    label: str


class Bar(NamedTuple):
    """A bar of shares that add up to 1."""

    name: str
    y: float
    segments: list[Segment]


class Bars(NamedTuple):
    """Bars below one another, ready to be written as SVG."""

    width: int
    height: int
    bars: list[Bar]


def live_page(facts: RunFacts, progress: RunProgress, ending: str, now: float) -> str:
    """Return the whole page of a run, as it is now.

    Args:
        facts: What does not change.
        progress: How far the run is.
        ending: What came of it, once it has ended; empty before.
        now: The time, in seconds since 1970.
    """
    shown = {**_values(facts, progress, ending), "now": time_text(now), "title": facts.title, "root": ""}
    return render(PACKAGE, "live_run.html", question=facts.question, **shown)


def live_panels(facts: RunFacts, progress: RunProgress, ending: str) -> str:
    """Return the panels of the page of a run, as they are now; see `live_page`."""
    return render(PACKAGE, "live_run_panels.html", **_values(facts, progress, ending))


def _values(facts: RunFacts, progress: RunProgress, ending: str) -> dict[str, Any]:
    ranked = sorted(progress.policies, key=_by_fraction)
    chosen = {figures.name for figures in ranked[:MOST_LINES]}
    # By their places in the run, so that a policy keeps its colour when others overtake it.
    drawn = [figures for figures in progress.policies if figures.name in chosen]
    marks = [Mark(step, number) for number, (step, _) in enumerate(facts.shocks, 1)]
    left_out = len(progress.policies) - len(drawn)
    note = f" Drawn are the {MOST_LINES} policies that are ahead; the table below has all." if left_out else ""
    return {
        "sentence": ending or sentence(progress),
        "is_over": bool(ending),
        "percent": math.floor(100.0 * progress.share_done),
        "drawn": [Drawn(figures.name, place) for place, figures in enumerate(drawn)],
        "fraction": _fraction_figure(facts, progress, drawn, marks, note),
        "reward": _reward_figure(facts, progress, drawn, marks, note),
        "shocks": [(number, f"{step:,}", name) for number, (step, name) in enumerate(facts.shocks, 1)],
        "shocks_differ": facts.shocks_differ,
        "heads": ["policy", DONE, RUNNING, WAITING, FAILED, "of the oracle so far", f"{facts.reward.name} so far"],
        "policies": [_policy_row(figures, facts.reward) for figures in ranked],
        **_actions(facts.unit, progress.policies),
    }


def sentence(progress: RunProgress) -> str:
    """Say how far a run is, and how long it still takes."""
    parts = [f"{progress.done} of {counted(progress.total, 'trial')} are over, {progress.share_done:.0%} of the visits"]
    seconds = progress.seconds_left
    if seconds is None:
        parts.append("how long the rest takes is not known yet")
    elif progress.done < progress.total:
        parts.append(f"about {_duration(seconds)} left")
    return f"{'; '.join(parts)}."


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def _by_fraction(figures: PolicyFigures) -> float:
    mean = figures.fraction_so_far[0]
    return math.inf if mean is None else -mean


def _fraction_figure(
    facts: RunFacts, progress: RunProgress, drawn: Sequence[PolicyFigures], marks: Sequence[Mark], note: str
) -> Figure:
    return _figure(
        "fraction",
        "Share of the oracle",
        f"What the choices in each part of the run are worth, over what the best would have been worth.{note}",
        {figures.name: figures.fraction for figures in drawn},
        {figures.name: figures.fraction for figures in progress.policies},
        progress,
        marks,
        True,
    )


def _reward_figure(
    facts: RunFacts, progress: RunProgress, drawn: Sequence[PolicyFigures], marks: Sequence[Mark], note: str
) -> Figure:
    name = facts.reward.name
    by = facts.counted_by
    return _figure(
        "reward",
        f"{name[:1].upper()}{name[1:]}",
        f"{f'The share of {by}s that paid off' if facts.reward.is_share else f'What a {by} earned'}.{note}",
        {figures.name: figures.reward for figures in drawn},
        {figures.name: figures.reward for figures in progress.policies},
        progress,
        marks,
        facts.reward.is_share,
    )


def _figure(
    name: str,
    title: str,
    caption: str,
    drawn: Mapping[str, Curve],
    all_curves: Mapping[str, Curve],
    progress: RunProgress,
    marks: Sequence[Mark],
    is_share: bool,
) -> Figure:
    """Return a figure of curves over visits, with the table behind it."""
    visits = progress.visits.tolist()
    lines = [_line(policy, place, visits, curve, is_share) for place, (policy, curve) in enumerate(drawn.items())]
    bands = " A band is the 95% interval over the seeds that have come so far; the line is their mean."
    numbers = " Numbers mark shocks; they are listed below." if marks else ""
    step = max(math.ceil(len(visits) / TABLE_ROWS), 1)
    parts = [part for part in range(step - 1, len(visits), step) if _has_any(all_curves, part)]
    rows = [
        [f"{visits[part]:,}", *(_cell(curve, part, is_share) for curve in all_curves.values())]
        for part in reversed(parts)
    ]
    charts = draw_charts(lines, marks, lambda visit, span: f"{visit:,}")
    return Figure(name, title, caption + bands + numbers, charts, ["up to visit", *all_curves], rows)


def _line(policy: str, place: int, visits: Sequence[int], curve: Curve, is_share: bool) -> Line:
    """Return a curve as a line with its band; few seeds say little, and a share has no band beyond 0 and 1."""
    low = np.where(curve.mean >= 0.0, np.maximum(curve.low, 0.0), curve.low)
    high = np.where(curve.mean <= 1.0, np.minimum(curve.high, 1.0), curve.high) if is_share else curve.high
    band = list(zip(visits, low.tolist(), high.tolist(), strict=True))
    return Line(policy, place, list(zip(visits, curve.mean.tolist(), strict=True)), band)


def _has_any(curves: Mapping[str, Curve], part: int) -> bool:
    return any(math.isfinite(curve.mean[part]) for curve in curves.values())


def _cell(curve: Curve, part: int, is_share: bool) -> str:
    mean, low, high = (float(each[part]) if math.isfinite(each[part]) else None for each in curve)
    return _with_interval((mean, low, high), is_share)


def _written(value: float, is_share: bool) -> str:
    return f"{100.0 * value:.1f}%" if is_share else f"{value:.4g}"


def _policy_row(figures: PolicyFigures, reward: RewardScale) -> list[str]:
    states = [f"{figures.states[state]}" for state in (DONE, RUNNING, WAITING, FAILED)]
    fraction = _with_interval(figures.fraction_so_far, True)
    return [figures.name, *states, fraction, _with_interval(figures.reward_so_far, reward.is_share)]


def _with_interval(value: tuple[float | None, float | None, float | None], is_share: bool) -> str:
    mean, low, high = value
    if mean is None:
        return MISSING
    if low is None or high is None:
        return _written(mean, is_share)
    if mean >= 0.0:
        low = max(low, 0.0)
    if is_share and mean <= 1.0:
        high = min(high, 1.0)
    return f"{_written(mean, is_share)} ({_written(low, is_share)} to {_written(high, is_share)})"


def _actions(unit: str, policies: Sequence[PolicyFigures]) -> dict[str, Any]:
    """Return the bars of what policies choose, and the table behind them."""
    begun = [figures for figures in policies if figures.actions]
    total = Counter[int]()
    for figures in begun:
        total.update({action: round(1e6 * share) for action, share in figures.actions.items()})
    listed = sorted(action for action, _ in total.most_common(MOST_BARS))
    rows = [
        [
            figures.name,
            *(_written(figures.actions.get(action, 0.0), True) for action in listed),
            _written(max(1.0 - sum(figures.actions.get(action, 0.0) for action in listed), 0.0), True),
        ]
        for figures in begun
    ]
    return {
        "unit": unit,
        "legend": [Drawn(f"{unit} {action}", place) for place, action in enumerate(listed)],
        "bars": [_bars(begun, listed, width) for width in BAR_WIDTHS] if begun else [],
        "action_heads": ["policy", *(f"{unit} {action}" for action in listed), "others"],
        "action_rows": rows,
    }


def _bars(policies: Sequence[PolicyFigures], listed: Sequence[int], width: int) -> Bars:
    bars = []
    for row, figures in enumerate(policies):
        y = row * (BAR_HEIGHT + BAR_GAP) + BAR_GAP - 6.0
        x = float(BAR_LEFT)
        segments = []
        for place, action in enumerate(listed):
            part = (width - BAR_LEFT) * figures.actions.get(action, 0.0)
            if part > 0.0:
                segments.append(Segment(place, round(x, 1), round(part, 1), f"{action}" if part >= LEAST_LABEL else ""))
            x += part
        if width - x > 0.5:
            segments.append(Segment(-1, round(x, 1), round(width - x, 1), ""))
        bars.append(Bar(figures.name, y, segments))
    return Bars(width, len(policies) * (BAR_HEIGHT + BAR_GAP) + 4, bars)
