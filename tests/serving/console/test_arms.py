"""Rows of the console's table of arms."""

from typing import Any

from zoosim.core.durations import MICROSECONDS
from zoosim.serving.console.arms import arm_rows
from zoosim.serving.console.series import FIRST_LENGTH, ArmPeriod, Change, Period, Series
from zoosim.serving.console.texts import MISSING, moment
from zoosim.serving.events import CHAMPION

TIME = 1_700_000_000 * MICROSECONDS
LENGTH = FIRST_LENGTH


def arm(model: str) -> dict[str, Any]:
    return {"role": "challenger", "share": 0.2, "policy": "linear", "model": model, "learned": {"learned": 3}}


def a_series(changes: list[Change]) -> Series:
    """Four periods in which champion and challenger decide for ten each, and earn 1, 2, 3 and 4 clicks."""
    periods = [
        Period(TIME + place * LENGTH, {name: ArmPeriod(10, 1, {"click": place + 1.0}) for name in (CHAMPION, "new")})
        for place in range(4)
    ]
    return Series(periods=periods, changes=changes)


def test_an_arm_is_told_since_its_model_decides() -> None:
    changes = [
        Change(TIME + 5, "", "began", {}, "old"),
        Change(TIME + LENGTH + 5, "maya", "new", {"new": 0.2}, "old"),
        Change(TIME + 2 * LENGTH + 5, "launch", "promoted", {"new": 0.2}, "other"),
    ]
    champion, new, gone = arm_rows(
        a_series(changes), {CHAMPION: arm("other"), "new": arm("m"), "gone": arm("g")}, ["click", "revenue"]
    )
    # The period in which the champion changed is no one's alone; that in which an arm began is its own.
    assert (champion.since, champion.decisions, champion.rewards) == (moment(changes[2].time), "10", ["0.4", "0"])
    assert (new.since, new.decisions, new.rewards) == (moment(changes[1].time), "30", ["0.3", "0"])
    assert (gone.since, gone.decisions, gone.rewards) == (MISSING, "0", [MISSING, MISSING])


def test_the_first_champion_is_told_from_the_beginning() -> None:
    [champion] = arm_rows(a_series([Change(TIME + 5, "", "began", {}, "old")]), {CHAMPION: arm("old")}, ["click"])
    assert (champion.decisions, champion.learned) == ("40", "3")
