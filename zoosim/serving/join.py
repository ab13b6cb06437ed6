"""Join feedback to decisions: which decisions are over, and what each earned.

Nothing here looks at a clock: time is that of the log's rows, and decisions close at its ticks alone. What closes at a
tick is sorted by decision, and feedback that came between two ticks by its key. So the same rows close the same
decisions with the same rewards, whenever they are read, and rows between two ticks may come in any order.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from zoosim.core.digests import short_hash
from zoosim.core.durations import MICROSECONDS
from zoosim.serving.events import Choice, Feedback, Row, decision_of
from zoosim.serving.projection import ROWS_AT_ONCE
from zoosim.serving.rules import Rules

NEVER_ACTIVATED = "never activated"
"""Count of deferred decisions that nobody activated in time."""

BEYOND_BOUND = "beyond a visitor's bound"
"""Count of what is over and not learned, since its visitor decides far more often than others."""

CLICK, PURCHASE = "click", "purchase"
"""Names of the rewards of a product in a search."""


class Closing(NamedTuple):
    """A slot of a decision that is over: the position of its row in the log, the slot, and what it earned.

    `parts` are the rewards by name. Of a search, the places in its ranking that were clicked and bought say that.
    """

    seq: int
    slot: int
    reward: float
    clicked: tuple[int, ...] = ()
    purchased: tuple[int, ...] = ()
    parts: tuple[tuple[str, float], ...] = ()


FindRows = Callable[[Sequence[int]], Mapping[int, Row]]
"""Returns rows of the log by their positions, without those that are gone."""


def with_rows(closings: Sequence[Closing], find_rows: FindRows) -> Iterator[tuple[Closing, Row | None]]:
    """Yield closings with the rows of their decisions, None for those that are gone; many rows are read at once."""
    for start in range(0, len(closings), ROWS_AT_ONCE):
        some = closings[start : start + ROWS_AT_ONCE]
        rows = find_rows([closing.seq for closing in some])
        for closing in some:
            yield closing, rows.get(closing.seq)


class Open(msgspec.Struct, array_like=True):
    """A slot of a decision that is not over: its row, when its wait ends, whether it counts yet, and its feedback.

    `feedback` are triples: the number of ticks before it, what orders it among those of one tick, and what it says.
    `is_learned` says whether anything is learned of it once it is over.
    """

    seq: int
    slot: int
    due: int
    active: bool
    feedback: list[tuple[int, bytes, Feedback]]
    is_learned: bool = True

    def in_order(self) -> list[Feedback]:
        """Return feedback in the order in which it counts."""
        return [feedback for _, _, feedback in sorted(self.feedback, key=lambda entry: entry[:2])]


def order_of(row: Row) -> bytes:
    """Return what orders feedback that came between two ticks: a hash, so that snapshots hold no ids."""
    return short_hash(row.key or b"", 16)


class JoinState(msgspec.Struct):
    """All that a join remembers, as plain values."""

    open: dict[str, Open]
    touched: list[str]
    ticks: int
    counts: dict[str, int]


class Join:
    """Open decisions, and the feedback that came to them.

    `counts` says what came of feedback, `joined` or `late or unknown`, and how many decisions were `never activated` or
    got the `default`, as no feedback came, or were not learned, as they are beyond a visitor's bound.
    """

    def __init__(self, rules: Rules, weights: dict[str, float]) -> None:
        """Start with nothing open.

        Args:
            rules: How feedback becomes rewards.
            weights: The weight of each reward in what the policy learns.
        """
        self.rules = rules
        self._weights = weights
        self._open: dict[str, Open] = {}
        self._by_due: list[tuple[int, int, str]] = []
        self._touched: dict[str, Open] = {}
        self._ticks = 0
        self.counts: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._open)

    def open_rows(self) -> list[int]:
        """Return the positions of the decisions that are open, once per slot."""
        return [slot.seq for slot in self._open.values()]

    def decide(self, row: Row, decision: Choice, is_learned: bool = True) -> None:
        """Enter a decision, learned or not: each product that it showed is a slot, and earns for itself."""
        due = row.time + round(self.rules.wait * MICROSECONDS)
        decision_id = decision_of(row)
        for slot in range(decision.parts):
            name = _slot_name(decision_id, slot)
            self._open[name] = Open(row.seq, slot, due, not decision.deferred, [], is_learned)
            heapq.heappush(self._by_due, (due, row.seq, name))

    def holds(self, row: Row, feedback: Feedback) -> bool:
        """Return whether feedback is to a decision that is open here."""
        return _slot_name(decision_of(row), self._slot_of(feedback)) in self._open

    def earn(self, row: Row, feedback: Feedback) -> None:
        """Enter feedback to a decision."""
        name = _slot_name(decision_of(row), self._slot_of(feedback))
        decision = self._open.get(name)
        if decision is None or row.time > decision.due:
            self.counts["late or unknown"] += 1
            return
        decision.feedback.append((self._ticks, order_of(row), feedback))
        self._touched[name] = decision
        self.counts["joined"] += 1

    def activate(self, row: Row) -> None:
        """Activate a deferred decision whose wait is not over."""
        slot = 0
        while (name := _slot_name(decision_of(row), slot)) in self._open:
            decision = self._open[name]
            if row.time <= decision.due:
                decision.active = True
                self._touched[name] = decision
            slot += 1

    def tick(self, time: int) -> list[Closing]:
        """Return the decisions that are over at a time, in their order."""
        # A slot may be in both, and must close once.
        closed_slots = {**dict(self._closed_at_once()), **dict(self._closed_by(time))}
        self._touched.clear()
        self._ticks += 1
        for name in closed_slots:
            del self._open[name]
        closings = []
        for decision in sorted(closed_slots.values(), key=lambda decision: (decision.seq, decision.slot)):
            if not decision.active:
                self.counts[NEVER_ACTIVATED] += 1
            elif not decision.is_learned:
                self.counts[BEYOND_BOUND] += 1
            else:
                closings.append(self._closing(decision))
        return closings

    def due(self) -> int | None:
        """Return from when on a tick closes a decision: 0 for at once, None while none is open."""
        if any(self._closed_at_once()):
            return 0
        while self._by_due and not self._is_open(*self._by_due[0][1:]):
            heapq.heappop(self._by_due)
        return self._by_due[0][0] if self._by_due else None

    def state(self) -> dict[str, Any]:
        """Return what is open, as plain values."""
        state = JoinState(self._open, sorted(self._touched), self._ticks, dict(self.counts))
        return dict(msgspec.to_builtins(state))

    def load_state(self, state: Any) -> None:
        """Take over what `state` returned; raises `ValueError` or `LookupError` for what it did not."""
        join_state = msgspec.convert(state, JoinState)
        self._open = join_state.open
        self._touched = {name: join_state.open[name] for name in join_state.touched}
        self._ticks = join_state.ticks
        # Not saved, since it follows from what is open. It may be in another order than before, which decides nothing:
        # what closes at a tick is sorted.
        self._by_due = [(decision.due, decision.seq, name) for name, decision in join_state.open.items()]
        heapq.heapify(self._by_due)
        self.counts = Counter(join_state.counts)

    def _closed_at_once(self) -> Iterator[tuple[str, Open]]:
        """Yield the decisions that are over since their first feedback is in."""
        if self.rules.aggregation != "earliest":
            return
        for name, decision in self._touched.items():
            if decision.active and decision.feedback:
                yield name, decision

    def _closed_by(self, time: int) -> Iterator[tuple[str, Open]]:
        """Yield the decisions whose wait is over."""
        while self._by_due and self._by_due[0][0] <= time:
            _, seq, name = heapq.heappop(self._by_due)
            # What the first feedback closed at once is still in the heap, where nothing can be taken out of the middle.
            if self._is_open(seq, name):
                yield name, self._open[name]

    def _is_open(self, seq: int, name: str) -> bool:
        decision = self._open.get(name)
        return decision is not None and decision.seq == seq

    def _slot_of(self, feedback: Feedback) -> int:
        return feedback.slot

    def _closing(self, decision: Open) -> Closing:
        """Return what a slot earned."""
        if not decision.feedback:
            self.counts["default"] += 1
            nothing = tuple((name, 0.0) for name in self._weights)
            return Closing(decision.seq, decision.slot, self.rules.default_reward, parts=nothing)
        feedbacks = decision.in_order()
        values = [self._value_of(feedback) for feedback in feedbacks]
        aggregated = tuple(
            (name, self.rules.combine([feedback.rewards.get(name, 0.0) for feedback in feedbacks]))
            for name in self._weights
        )
        return Closing(decision.seq, decision.slot, self.rules.aggregate(values), parts=aggregated)

    def _value_of(self, feedback: Feedback) -> float:
        return sum(self._weights.get(name, 0.0) * reward for name, reward in sorted(feedback.rewards.items()))


class WaitingJoin(Join):
    """Open decisions, each over when its wait is: if those with a click were over sooner, they alone would count."""

    def _closed_at_once(self) -> Iterator[tuple[str, Open]]:
        return iter(())


class SearchJoin(WaitingJoin):
    """Open searches: each is learned as a whole when its wait is over, by what all feedback to it says together."""

    def _slot_of(self, feedback: Feedback) -> int:
        return 0

    def _closing(self, decision: Open) -> Closing:
        """Return which places of a ranking were clicked and bought; what was bought was clicked, too."""
        if not decision.feedback:
            self.counts["default"] += 1
        places: dict[str, set[int]] = {CLICK: set(), PURCHASE: set()}
        for feedback in decision.in_order():
            for name, reward in feedback.rewards.items():
                if reward:
                    places[name].add(feedback.slot)
        clicked = sorted(places[CLICK] | places[PURCHASE])
        return Closing(decision.seq, decision.slot, 0.0, tuple(clicked), tuple(sorted(places[PURCHASE])))


# Kept, since each arm asks for the name of the same slot, and again for each feedback to it.
@lru_cache(maxsize=4_096)
def _slot_name(decision_id: str, slot: int) -> str:
    """Return by what a slot is remembered: a hash of its decision's id, since snapshots hold it."""
    return f"{slot}:{short_hash(decision_id.encode(), 16).hex()}"
