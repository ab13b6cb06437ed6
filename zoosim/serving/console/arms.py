"""Rows of the console's table of arms: who decides by which model since when, and what that earned."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from zoosim.serving.console.launch_view import first_of_arm
from zoosim.serving.console.series import ArmPeriod, Change, Series, totals
from zoosim.serving.console.texts import MISSING, amount, moment
from zoosim.serving.events import CHAMPION


class ArmRow(NamedTuple):
    """An arm: who decides, for whom, since when, and what it earned of each reward per decision since then."""

    name: str
    place: int
    role: str
    share: str
    policy: str
    model: str
    since: str
    decisions: str
    learned: str
    rewards: list[str]


def arm_rows(series: Series, arms: Mapping[str, Any], rewards: Sequence[str]) -> list[ArmRow]:
    """Return the arms, described as `Service.deployment` does, the champion first.

    Args:
        series: What the log holds over time.
        arms: The arms, by name.
        rewards: Names of rewards.
    """
    rows = []
    for place, (name, arm) in enumerate(arms.items()):
        since = began(series.changes, name)
        earned = _earned_since(series, name, since)
        rows.append(
            ArmRow(
                name=name,
                place=place,
                role=arm["role"],
                share=f"{arm['share']:.1%}",
                policy=arm["policy"],
                model=arm["model"][:8],
                since=moment(since) if since else MISSING,
                decisions=f"{earned.decisions:,}",
                learned=f"{arm['learned'].get('learned', 0):,}",
                rewards=[_rate(earned, reward) for reward in rewards],
            )
        )
    return rows


def began(changes: Sequence[Change], name: str) -> int:
    """Return since when the model of an arm decides, in microseconds since 1970; 0 where nobody knows."""
    if name != CHAMPION:
        change = first_of_arm(changes, name)
        return change.time if change else 0
    begin = 0
    model = None
    for change in changes:
        if change.model != model:
            begin = change.time
            model = change.model
    return begin


def _earned_since(series: Series, name: str, since: int) -> ArmPeriod:
    """Return what an arm did since its model decides."""
    # Another champion decided in a part of the period in which this one began, unless it was the first.
    is_mixed = name == CHAMPION and any(change.time < since for change in series.changes)
    begin = since if is_mixed else since - series.length + 1
    return totals([period for period in series.periods if period.begin >= begin]).get(name, ArmPeriod())


def _rate(arm: ArmPeriod, reward: str) -> str:
    return amount(arm.rewards.get(reward, 0.0) / arm.decisions) if arm.decisions else MISSING
