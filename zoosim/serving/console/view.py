"""What the console says of a service: its sentences, tiles and tables, as plain values for the template."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from zoosim.core.durations import MICROSECONDS
from zoosim.live.charts import Figure, Line, Mark, draw_charts
from zoosim.monitoring.launch import SPLITTING, State
from zoosim.optimizers.dual_ascent import Standing
from zoosim.policies.base import policy_name
from zoosim.serving.console.arms import arm_rows, began
from zoosim.serving.console.calibration_view import calibration_panels
from zoosim.serving.console.holdback_view import holdback_panel
from zoosim.serving.console.launch_view import launch_values
from zoosim.serving.console.ledger_view import ledger_panel
from zoosim.serving.console.series import DELAYS, ArmPeriod, Change, Period, Series, totals
from zoosim.serving.console.texts import MISSING, amount, moment, span
from zoosim.serving.events import CHAMPION
from zoosim.serving.floors import floors_of
from zoosim.serving.service import Service

MOST_POINTS = 60
"""Points of a line: of more, each would rest on few decisions."""

TABLE_ROWS = 25
"""Rows of the table behind a chart, and of the other long ones."""

MOST_ACTIONS = 10
"""Products whose shares are listed."""


class Finding(NamedTuple):
    """A line on the health of a service: whether all is well, and what is looked at."""

    is_well: bool
    what: str
    sentence: str


def sentence(service: Service, launch: Mapping[str, Any] | None) -> str:
    """Say in one sentence how the service does and its launch stands, and what it waits for."""
    if service.failure:
        return f"The log cannot be written: {service.failure}. Nothing is decided until it can."
    if service.is_warming_up:
        return f"{service.knowledge().capitalize()}."
    current = service.current
    if current.settings.frozen:
        why = current.silence.sentence if current.silence else "somebody froze it"
        return f"Learning is frozen: {why.rstrip('.')}. Decisions are made, and logged."
    if launch is not None and launch["state"] in SPLITTING:
        share = current.assignment.shares.get(launch["arm"], 0.0)
        report = launch["report"]
        words = report["sentence"] if report else "no visitor counts yet"
        state = words[:1].lower() + words[1:].rstrip(".")
        return f"{arm_subject(launch['arm'])} decides for {share:.0%} of the visitors: {state}."
    policy = policy_name(type(service.model.policy))
    learned = current.champion.learned.get("learned", 0)
    shares = current.assignment.shares
    others = [f"{name} for {share:.0%}" for name, share in shares.items() if share and name != CHAMPION]
    beside = f", {' and '.join(others)}" if others else ""
    who = f"{policy} decides for {shares[CHAMPION]:.0%} of the visitors{beside}"
    if launch is not None and launch["state"] == State.COMPLETED and launch["model"] == service.start.model:
        since = began(current.figures.series.changes, CHAMPION)
        return f"{who}, since {moment(since)}: {launch['reason']}"
    return f"{who}; it has learned from {learned:,} decisions."


def arm_subject(name: str) -> str:
    """Return an arm as the subject of a sentence; its name stays as somebody wrote it."""
    return "The champion" if name == CHAMPION else f"Arm {name}"


def earned_curve(series: Series, weights: Mapping[str, float], places: Mapping[str, int]) -> Figure:
    """Return the figure of what each arm earned per decision over time."""

    def value(arm: ArmPeriod) -> float:
        earned = sum(weights.get(name, 0.0) * amount for name, amount in sorted(arm.rewards.items()))
        return earned / arm.decisions if arm.decisions else math.nan

    objective = "earned per decision, by arm"
    merged = max(math.ceil(len(series.periods) / MOST_POINTS), 1)
    groups = [series.periods[place : place + merged] for place in range(0, len(series.periods), merged)]
    periods = [Period(group[0].begin, totals(group)) for group in groups]
    caption = (
        f"One point is {span(merged * series.length)}. Rewards count when their decision was made, so the last points "
        "still rise until the wait is over. Numbers mark changes of what decides, and what happened to "
        "the shop; they are listed under History."
    )
    lines = [
        Line(name, place, [(period.begin, value(period.arms[name])) for period in periods if name in period.arms])
        for name, place in places.items()
    ]
    marks = [Mark(entry.time, entry.number) for entry in entries(series)]
    rows = [
        [moment(period.begin), *(_cell(period, name, value) for name in places)]
        for period in list(reversed(periods))[:TABLE_ROWS]
    ]
    return Figure("earned", objective.capitalize(), caption, draw_charts(lines, marks), ["from", *places], rows)


def _cell(period: Period, name: str, value: Any) -> str:
    arm = period.arms.get(name)
    return MISSING if arm is None else f"{amount(value(arm))} ({arm.decisions:,})"


class Entry(NamedTuple):
    """An entry of the history: its number, when it happened, who told or made it, what it is, and a note on it."""

    number: int
    time: int
    who: str
    what: str
    note: str


def entries(series: Series) -> list[Entry]:
    """Return the changes of what decides and what happened to the shop, from the oldest to the newest."""
    told = [(each.time, each.who, each.what, each.why) for each in series.annotations]
    made = [(each.time, each.who, each.why, f"Beside the champion: {_shares(each)}") for each in series.changes]
    both = sorted([*made, *told], key=lambda entry: entry[0])
    return [Entry(number, *entry) for number, entry in enumerate(both, 1)]


def _shares(change: Change) -> str:
    return ", ".join(f"{name} {share:.1%}" for name, share in change.shares.items()) or "nobody"


def history(series: Series) -> list[list[str]]:
    """Return the newest entries first: number, time, person, what it is, note."""
    newest = list(reversed(entries(series)))[:TABLE_ROWS]
    return [[f"{each.number}", moment(each.time), each.who or MISSING, each.what, each.note] for each in newest]


def findings(service: Service, launch: Mapping[str, Any] | None) -> list[Finding]:
    """Return the health of a service: of its log, its learner, its feedback, its launch, and what is asked of it."""
    current = service.current
    lag = service.lag()
    report = current.report_on_launch
    checks = report.checks if report is not None and launch is not None and launch["state"] in SPLITTING else []
    deviations = sum(count for _, count in service.inputs.by_key())
    silence = current.silence
    return [
        Finding(not service.failure, "Log", service.failure or "is written"),
        Finding(lag < 10_000, "Learner", f"{lag:,} rows behind the log"),
        Finding(silence is None, "Feedback", silence.sentence if silence else _feedback_sentence(service)),
        *(Finding(False, f"Launch: {check.check}", check.sentence) for check in checks),
        *_floor_findings(service),
        Finding(
            not deviations,
            "Requests",
            f"{deviations:,} held what the model was not made for"
            if deviations
            else "hold what the model was made for",
        ),
    ]


def _floor_findings(service: Service) -> list[Finding]:
    """Return how the floors and ceilings of the arms stand."""
    return [
        Finding(report.standing != Standing.IMPOSSIBLE, f"Floors of {arm.name}", report.sentence)
        for arm in service.current.arms.values()
        for report in floors_of(arm.model.policy)
    ]


def _feedback_sentence(service: Service) -> str:
    arms = totals(service.current.figures.series.periods).values()
    decisions = sum(arm.decisions for arm in arms)
    rewarded = sum(arm.rewarded for arm in arms)
    if not decisions:
        return "no decision yet"
    newest = service.current.last_feedback
    since = f"; the newest came at {moment(newest)}" if newest else ""
    return f"{rewarded:,} feedbacks to {decisions:,} decisions{since}"


def judging_sentence(series: Series) -> str:
    """Say how well the log can judge policies that never decided."""
    decisions = sum(arm.decisions for arm in totals(series.periods).values())
    if not series.squares:
        return "No decision on products yet, so nothing can be judged by this log."
    effective = series.effective_decisions()
    return (
        f"This log of {decisions:,} decisions judges a policy that shows all candidates alike as well as "
        f"{effective:,.0f} decisions at random would."
    )


def action_rows(series: Series) -> list[list[str]]:
    """Return the products that were shown most, with their shares."""
    total = sum(series.products.values())
    most = sorted(series.products.items(), key=lambda item: (-item[1], item[0]))[:MOST_ACTIONS]
    return [[name or "others", f"{count:,}", f"{count / total:.1%}"] for name, count in most]


def delay_rows(series: Series, wait: float) -> tuple[str, list[list[str]]]:
    """Return a sentence on how late feedback comes beside the wait, and the counts by delay."""
    total = sum(series.delays)
    if not total:
        return "No feedback yet.", []
    bounds = [span(bound * MICROSECONDS) for bound in DELAYS]
    names = [f"up to {bound}" for bound in bounds] + [f"later than {bounds[-1]}"]
    rows = [
        [name, f"{count:,}", f"{count / total:.1%}"] for name, count in zip(names, series.delays, strict=True) if count
    ]
    half = total / 2
    passed = 0
    middle = names[-1]
    for name, count in zip(names, series.delays, strict=True):
        passed += count
        if passed >= half:
            middle = name
            break
    return (
        f"Half of the feedback comes {middle} after its decision; the service waits {span(wait * MICROSECONDS)}.",
        rows,
    )


def model_rows(models: Mapping[str, Any]) -> list[list[str]]:
    """Return where models came from, the newest first."""
    newest = sorted(models.items(), key=lambda item: -float(item[1]["came"]))
    return [
        [
            digest[:8],
            model["state"],
            model["policy"],
            model["who"] or MISSING,
            str(model["parent"])[:8],
            f"{model['rows']:,}",
            moment(model["came"] * MICROSECONDS),
            _judged(model.get("verdict") or {}),
        ]
        for digest, model in newest[:TABLE_ROWS]
    ]


def _judged(verdict: Mapping[str, Any]) -> str:
    policies = verdict.get("policies")
    return f"on {verdict['rows']:,} rows" if policies and "rows" in verdict else MISSING


def values(service: Service) -> dict[str, Any]:
    """Return all that the template shows."""
    series = service.current.figures.series
    weights = service.model.fitted.weights
    deployment = service.deployment()
    launch = deployment["launch"]
    places = {name: place for place, name in enumerate(deployment["arms"])}
    delay_sentence, delays = delay_rows(series, service.settings.wait)
    return {
        "sentence": sentence(service, launch),
        **launch_values(launch, weights, series.changes),
        "rewards": list(weights),
        "arms": arm_rows(series, deployment["arms"], list(weights)),
        "curve": earned_curve(series, weights, places),
        "findings": findings(service, launch),
        "judging": judging_sentence(series),
        "actions": action_rows(series),
        "delay_sentence": delay_sentence,
        "delays": delays,
        "models": model_rows(deployment["models"]),
        "holdback": holdback_panel(service.current.figures.holdback),
        "calibrations": calibration_panels(service.current.figures.calibrations),
        "ledger": ledger_panel(service.current.figures.ledger),
        "history": history(series),
    }
