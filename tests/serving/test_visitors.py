"""How much one visitor teaches: bounded by what many others do, and in memory."""

import numpy as np
import pytest

from zoosim.core.durations import DAY
from zoosim.serving import visitors
from zoosim.serving.visitors import LEAST, MOST_DECISIONS, VisitorBounds


def decide(bounds: VisitorBounds, visitor: str, decisions: int, time: int = 1, per_visitor: int = 3) -> int:
    """Return how many of a visitor's decisions are learned."""
    return sum(bounds.admits(1, time, visitor, per_visitor) for _ in range(decisions))


def test_one_visitor_teaches_no_more_than_the_setting() -> None:
    bounds = VisitorBounds()
    assert decide(bounds, "a", 2_000) == 3
    assert decide(bounds, "a", 2_000, time=DAY) == 0  # the day began with the first row, at 1


def test_decisions_of_a_day_count_half_as_much_on_the_next() -> None:
    bounds = VisitorBounds()
    assert decide(bounds, "a", 5) == 3
    assert decide(bounds, "a", 5, time=DAY + 1) == 1  # after 2 of 5
    assert decide(bounds, "a", 5, time=2 * DAY + 1) == 0  # after 3 of 7
    assert decide(bounds, "a", 5, time=5 * DAY + 1) == 2  # after 1 of 8
    for day in range(10, 20):
        assert decide(bounds, "b", 2, time=day * DAY) == 2  # who comes twice a day loses nothing
    assert decide(bounds, "a", 5, time=20 * DAY) == 3


def test_visitors_without_an_id_and_a_setting_of_0_bound_nothing() -> None:
    bounds = VisitorBounds()
    assert decide(bounds, "", 50) == 50
    assert decide(bounds, "a", 50, per_visitor=0) == 50


def test_what_many_visitors_do_is_learned_of_each() -> None:
    """10 decisions of each of 2,000: only those are lost that came before enough visitors had made as many."""
    bounds = VisitorBounds()
    learned = sum(bounds.admits(1, 1, f"{visitor}", 3) for _ in range(10) for visitor in range(2_000))
    assert learned == 2_000 * 10 - 7 * (LEAST - 1)


def test_a_gang_of_fewer_than_the_least_does_not_raise_the_bound() -> None:
    bounds = VisitorBounds()
    learned = sum(bounds.admits(1, 1, f"{visitor}", 3) for _ in range(50) for visitor in range(LEAST - 1))
    assert learned == 3 * (LEAST - 1)
    for visitor in range(10_000):
        bounds.admits(1, 1, f"honest {visitor}", 3)
    assert decide(bounds, "the next", 50) == 3


def test_nothing_of_a_visitor_is_learned_beyond_the_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visitors, "LEAST", 0)
    monkeypatch.setattr(visitors, "SHARE", 0.0)
    assert decide(VisitorBounds(), "a", MOST_DECISIONS + 10) == MOST_DECISIONS


def test_so_many_visitors_are_counted_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visitors, "MOST_VISITORS", 100)
    bounds = VisitorBounds()
    for visitor in range(1_050):
        assert decide(bounds, f"{visitor}", 2) == 2
        assert len(bounds) <= 100
    assert sum(len(array) for array in bounds.state()[1].values()) <= 2 * 100 + MOST_DECISIONS


def test_it_goes_on_from_its_state() -> None:
    rng = np.random.default_rng(0)
    whole = VisitorBounds()
    times = np.sort(rng.integers(3 * DAY, size=3_000)).tolist()
    names = [f"{rng.zipf(1.5)}" for _ in times]
    steps = list(zip(range(3_000), times, names, strict=True))
    for step in steps[:1_500]:
        whole.admits(*step, 3)
    resumed = VisitorBounds()
    resumed.load_state(*whole.state(), names.__getitem__)
    assert str(resumed.state()) == str(whole.state())
    both = [(whole.admits(*step, 3), resumed.admits(*step, 3)) for step in steps[1_500:]]
    assert all(first == second for first, second in both)
    assert not all(first for first, _ in both)
    assert str(resumed.state()) == str(whole.state())


def test_who_is_not_in_the_log_any_more_is_not_counted_any_more() -> None:
    before = VisitorBounds()
    for seq, visitor in enumerate(("a", "b", "a", "a")):
        before.admits(seq, 1, visitor, 3)
    after = VisitorBounds()
    after.load_state(*before.state(), {3: "", 1: "b"}.__getitem__)
    assert (len(before), len(after)) == (2, 2)
    assert decide(after, "a", 10) == 3
    assert decide(after, "b", 10) == 2
    rows, decisions, _ = after.state()[1].values()
    assert (rows.tolist(), decisions.tolist()) == ([1, 1], [10, 11])


def test_a_broken_state_is_refused() -> None:
    day, arrays = VisitorBounds().state()
    with pytest.raises(ValueError, match="counts of decisions"):
        VisitorBounds().load_state(day, {**arrays, "visitors by decisions": np.zeros(3)}, str)
    with pytest.raises(LookupError):
        VisitorBounds().load_state(day, {}, str)
