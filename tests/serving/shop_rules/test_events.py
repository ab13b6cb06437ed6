"""Events of visitors: what counts, for how long, and in how much memory."""

import pytest

from zoosim.core.durations import DAY
from zoosim.serving.shop_rules import events as module
from zoosim.serving.shop_rules.events import VisitorEvents, visitor_number


def test_events_count_for_their_days_and_once_per_row_and_product() -> None:
    events = VisitorEvents(2.0)
    events.add("ann", 1, DAY, ["a", "b"])
    events.add("ann", 1, DAY, ["a", "b"])
    events.add("ann", 5, 2 * DAY, ["a"])
    events.add("", 6, 2 * DAY, ["a"])
    assert events.counts("ann", 2 * DAY) == {"a": 2, "b": 1}
    assert events.counts("ann", 3 * DAY) == {"a": 1}, "what is two days old is over"
    assert events.counts("ann", 4 * DAY) == {}
    assert events.counts("bob", DAY) == {}
    events.days = 3.0
    assert events.counts("ann", 3 * DAY) == {"a": 2, "b": 1}


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_VISITORS", 3)
    monkeypatch.setattr(module, "MOST_EVENTS", 2)
    events = VisitorEvents(10.0)
    for seq in range(1, 6):
        events.add("ann", seq, seq, [f"p{seq}"])
        events.add(f"v{seq}", seq, seq, ["a"])
    assert len(events) == 3
    assert events.counts("ann", 6) == {"p4": 1, "p5": 1}
    assert events.counts("v3", 6) == {}
    events.add("late", 9, 20 * DAY, ["a"])
    events.add("late", 10, 20 * DAY, ["b"])
    assert len(events) == 1, "who did not come for ten days is gone"


def test_each_visitor_comes_in_turn_to_be_checked_and_can_be_dropped() -> None:
    events = VisitorEvents(1.0)
    for seq in range(1, 6):
        events.add(f"v{seq}", seq, seq, ["a"])
    events.add("v2", 9, 9, ["b"])
    rows = [pair for _ in range(3) for pair in events.next_rows(2, 9)]
    assert sorted(rows) == sorted((visitor_number(f"v{seq}"), seq) for seq in range(1, 6))
    events.drop(visitor_number("v2"), 2)
    assert events.counts("v2", 9) == {"b": 1}
    assert events.next_rows(1, 9) == [(visitor_number("v2"), 9)], "the next row of whom one was dropped comes at once"
    events.drop(visitor_number("v2"), 9)
    events.drop(visitor_number("v2"), 9)
    assert events.counts("v2", 9) == {}
    assert len(events.next_rows(9, 9)) == 4
    assert events.next_rows(9, DAY + 5) == [], "what counts no more need not be looked up"
