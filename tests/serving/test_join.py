"""Joining feedback to decisions: worked out by hand, and in any order between two ticks."""

import itertools

import pytest

from zoosim.serving.events import Feedback, Kind, ProductDecision, Row, activation_key, decision_key, feedback_key
from zoosim.serving.join import Closing, Join
from zoosim.serving.rules import Rules

SECOND = 1_000_000


def decided(seq: int, name: str, time: int = 0, shown: int = 1, deferred: bool = False) -> tuple[Row, ProductDecision]:
    decision = ProductDecision(b"", "m", 0, "", b"", b"", b"", list(range(shown)), [1.0] * shown, deferred)
    return Row(seq, time, Kind.DECISION, decision_key(name), b""), decision


def earned(seq: int, name: str, reward: float, time: int = 1, slot: int = 0, key: str = "") -> tuple[Row, Feedback]:
    row = Row(seq, time, Kind.FEEDBACK, feedback_key(name, key or f"{seq}"), b"")
    return row, Feedback({"click": reward}, slot)


def new_join(**rules: object) -> Join:
    return Join(Rules(wait=10.0, **rules), {"click": 1.0})  # type: ignore[arg-type]


def closing(seq: int, slot: int, reward: float, click: float | None = None) -> Closing:
    return Closing(seq, slot, reward, parts=(("click", reward if click is None else click),))


def test_the_first_feedback_is_learned_at_the_next_tick() -> None:
    join = new_join()
    join.decide(*decided(1, "a"))
    join.earn(*earned(2, "a", 1.0))
    assert join.tick(2) == [closing(1, 0, 1.0)]
    join.earn(*earned(3, "a", 0.0))
    assert join.tick(3) == []
    assert join.counts["late or unknown"] == 1


def test_what_is_not_clicked_in_time_earns_the_default() -> None:
    join = new_join(default_reward=0.25)
    join.decide(*decided(1, "a"))
    assert join.tick(10 * SECOND - 1) == []
    assert join.tick(10 * SECOND) == [closing(1, 0, 0.25, click=0.0)]
    assert len(join) == 0


def test_feedback_after_the_wait_counts_for_nothing() -> None:
    join = new_join(aggregation="sum")
    join.decide(*decided(1, "a"))
    join.earn(*earned(2, "a", 1.0, time=10 * SECOND + 1))
    assert join.tick(11 * SECOND) == [closing(1, 0, 0.0)]


@pytest.mark.parametrize(
    ("aggregation", "expected"),
    [("sum", 1.0), ("average", 0.375), ("median", 0.25), ("min", 0.125), ("max", 0.75), ("latest", 0.25)],
)
def test_several_feedbacks_come_to_one_reward(aggregation: str, expected: float) -> None:
    join = new_join(aggregation=aggregation)
    join.decide(*decided(1, "a"))
    for seq, reward in ((2, 0.125), (3, 0.75), (4, 0.25)):
        join.earn(*earned(seq, "a", reward))
        assert join.tick(seq) == []
    # The reward is kept within its range, 0 to 1; what it is made of is not.
    assert join.tick(10 * SECOND) == [closing(1, 0, expected, click=1.125 if aggregation == "sum" else expected)]


def test_each_reward_has_a_part_beside_the_objective() -> None:
    join = Join(Rules(wait=10.0, aggregation="sum"), {"click": 1.0, "margin": 0.0})
    join.decide(*decided(1, "a"))
    for seq, rewards in ((2, {"click": 1.0}), (3, {"margin": 4.0}), (4, {"margin": -1.0, "note": 7.0})):
        row = Row(seq, seq, Kind.FEEDBACK, feedback_key("a", f"{seq}"), b"")
        join.earn(row, Feedback(rewards, 0))
    (over,) = join.tick(10 * SECOND)
    assert over.reward == 1.0
    assert dict(over.parts) == {"click": 1.0, "margin": 3.0}


def test_a_deferred_decision_counts_once_it_is_activated() -> None:
    join = new_join()
    join.decide(*decided(1, "a", deferred=True))
    join.decide(*decided(2, "b", deferred=True))
    join.earn(*earned(3, "a", 1.0))
    join.earn(*earned(4, "b", 1.0))
    assert join.tick(5) == []
    join.activate(Row(6, 6, Kind.ACTIVATION, activation_key("a"), b""))
    assert join.tick(7) == [closing(1, 0, 1.0)]
    assert join.tick(10 * SECOND) == []
    assert join.counts["never activated"] == 1


def test_each_place_of_a_ranking_earns_for_itself() -> None:
    join = new_join()
    join.decide(*decided(1, "a", shown=3))
    join.earn(*earned(2, "a", 1.0, slot=1))
    assert join.tick(3) == [closing(1, 1, 1.0)]
    assert join.tick(10 * SECOND) == [closing(1, 0, 0.0), closing(1, 2, 0.0)]


@pytest.mark.parametrize("aggregation", ["earliest", "latest", "sum", "median"])
def test_the_order_between_two_ticks_does_not_matter(aggregation: str) -> None:
    events = [earned(5, "a", 0.1, key="x"), earned(5, "a", 0.7, key="y"), earned(5, "b", 0.3), earned(5, "c", 0.2)]
    outcomes = set()
    for order in itertools.permutations(events):
        join = new_join(aggregation=aggregation)
        for seq, name in enumerate("abc", 1):
            join.decide(*decided(seq, name))
        for event in order:
            join.earn(*event)
        outcomes.add((tuple(join.tick(6)), tuple(join.tick(10 * SECOND))))
    assert len(outcomes) == 1


def test_a_join_goes_on_from_its_state() -> None:
    first, second = new_join(aggregation="sum"), new_join(aggregation="sum")
    for join in (first, second):
        join.decide(*decided(1, "a"))
        join.decide(*decided(2, "b"))
        join.earn(*earned(3, "a", 0.5))
    second = new_join(aggregation="sum")
    second.load_state(first.state())
    assert second.tick(10 * SECOND) == first.tick(10 * SECOND) == [closing(1, 0, 0.5), closing(2, 0, 0.0)]
