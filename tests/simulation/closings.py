"""What is learned from a log, by a second account of what arms and joins do: slow and plain."""

import json
from collections.abc import Callable, Iterator, Mapping
from statistics import median
from typing import Any, NamedTuple

from zoosim.serving.events import HOLDBACK, Kind, ProductDecision, Row, Start, decision_of
from zoosim.serving.join import order_of


class Closed(NamedTuple):
    """A slot of a decision that was learned, by which arm, its reward, and what it earned by the reward's name."""

    arm: str
    seq: int
    slot: int
    reward: float
    parts: tuple[tuple[str, float], ...]


class _Slot:
    """A slot of a decision that is not over."""

    def __init__(self, seq: int, slot: int, due: int, is_active: bool) -> None:
        self.seq = seq
        self.slot = slot
        self.due = due
        self.is_active = is_active
        self.is_touched = False
        self.values: list[tuple[int, bytes, float]] = []


class _Arm:
    """An arm: what it began from, whether it learns, and its open slots by decision."""

    def __init__(self, origin: str) -> None:
        self.origin = origin
        self.learns = True
        self.slots: dict[str, list[_Slot]] = {}


AGGREGATES: dict[str, Callable[[list[float]], float]] = {
    "earliest": lambda values: values[0],
    "latest": lambda values: values[-1],
    "sum": sum,
    "average": lambda values: sum(values) / len(values),
    "median": lambda values: float(median(values)),
    "min": min,
    "max": max,
}


def expected_closings(rows: list[Row], records: Mapping[int, Any], bounded: set[int]) -> Iterator[Closed]:
    """Yield what is learned from a log.

    Args:
        rows: The log.
        records: The records of its rows.
        bounded: Rows of decisions that are beyond the bounds of their visitors.
    """
    arms: dict[str, _Arm] = {}
    rules: dict[str, Any] = {}
    ticks = 0
    for row in rows:
        record: Any = records.get(row.seq)
        if row.kind is Kind.START:
            arms = _arms_after(arms, record)
            rules = json.loads(record.rules)
        elif row.kind is Kind.DECISION:
            arm = _arm_of(arms, record)
            if arm is not None and arm.learns and not rules["frozen"]:
                due = row.time + round(rules["wait"] * 1e6)
                arm.slots[decision_of(row)] = [
                    _Slot(row.seq, slot, due, not record.deferred) for slot in range(len(record.shown))
                ]
        elif row.kind in (Kind.FEEDBACK, Kind.ACTIVATION):
            for arm in arms.values():
                for slot in arm.slots.get(decision_of(row), ()):
                    _touch(slot, row, record, ticks)
        elif row.kind is Kind.TICK:
            ticks += 1
            for name, arm in arms.items():
                for slot in _closed_slots(arm, row.time, rules):
                    if slot.is_active and slot.seq not in bounded and arm.learns and not rules["frozen"]:
                        earned = _earned(slot, rules)
                        yield Closed(name, slot.seq, slot.slot, _reward(earned, rules), (("click", earned or 0.0),))


def _arms_after(arms: dict[str, _Arm], start: Start) -> dict[str, _Arm]:
    """Return the arms of a start: what goes on from the same origin keeps what is open, though under another name."""
    roles = {arm.name: arm.role for arm in start.arms}
    going_on = goes_on_as({name: arm.origin for name, arm in arms.items()}, start)
    after = {
        name: arms[going_on[name]] if name in going_on else _Arm(own.origin) for name, own in start.by_arm().items()
    }
    for name, arm in after.items():
        arm.learns = roles.get(name) != HOLDBACK
    return after


def goes_on_as(origins: Mapping[str, str], start: Start) -> dict[str, str]:
    """Return by which name each arm of a start was known before, of those whose origin stays.

    Args:
        origins: The origin of each arm before.
        start: The start.
    """
    left = dict(origins)
    going_on: dict[str, str] = {}
    starts = start.by_arm()
    for name, own in starts.items():
        if left.get(name) == own.origin:
            going_on[name] = name
            del left[name]
    for name, own in starts.items():
        renamed = [old for old, origin in left.items() if origin == own.origin]
        if name not in going_on and renamed:
            going_on[name] = renamed[0]
            del left[renamed[0]]
    return going_on


def _arm_of(arms: Mapping[str, _Arm], decision: ProductDecision) -> _Arm | None:
    own = arms.get(decision.arm)
    if own is not None and own.origin == decision.origin:
        return own
    return next((arm for arm in arms.values() if arm.origin == decision.origin), None)


def _touch(slot: _Slot, row: Row, record: Any, ticks: int) -> None:
    """Enter feedback to a slot, or activate it, where its wait is not over."""
    if row.time > slot.due:
        return
    if row.kind is Kind.ACTIVATION:
        slot.is_touched = slot.is_active = True
    elif record.slot == slot.slot:
        slot.is_touched = True
        slot.values.append((ticks, order_of(row), record.rewards.get("click", 0.0)))


def _closed_slots(arm: _Arm, time: int, rules: Mapping[str, Any]) -> list[_Slot]:
    """Return the slots of an arm that are over at a tick, in their order, and keep the others."""
    over: list[_Slot] = []
    for name, slots in list(arm.slots.items()):
        closed = [slot for slot in slots if _is_over(slot, time, rules)]
        over += closed
        arm.slots[name] = [slot for slot in slots if slot not in closed]
        for slot in slots:
            slot.is_touched = False
        if not arm.slots[name]:
            del arm.slots[name]
    return sorted(over, key=lambda slot: (slot.seq, slot.slot))


def _is_over(slot: _Slot, time: int, rules: Mapping[str, Any]) -> bool:
    is_answered = rules["aggregation"] == "earliest" and slot.is_touched and slot.is_active and bool(slot.values)
    return is_answered or slot.due <= time


def _earned(slot: _Slot, rules: Mapping[str, Any]) -> float | None:
    """Return what feedback to a slot comes to, None where there was none."""
    values = [value for _, _, value in sorted(slot.values)]
    return float(AGGREGATES[rules["aggregation"]](values)) if values else None


def _reward(earned: float | None, rules: Mapping[str, Any]) -> float:
    if earned is None:
        return float(rules["default_reward"])
    return float(min(max(earned, rules["lowest"]), rules["highest"]))
