"""What visitors were shown and bought lately, by the log, so that caps on it can hold."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from zoosim.core.durations import DAY
from zoosim.serving.arm_replica import checked_rules
from zoosim.serving.events import (
    CHOICES,
    Choice,
    Feedback,
    Kind,
    Row,
    Start,
    decision_key,
    decision_of,
    start_key,
    unpack,
)
from zoosim.serving.projection import Projection, rows_of
from zoosim.serving.shop_rules.candidates import VisitorPast
from zoosim.serving.shop_rules.events import VisitorEvents, visitor_number
from zoosim.serving.shop_rules.settings import ShopRules
from zoosim.serving.store.base import Store

VISITOR_ROWS = (*CHOICES, Kind.FEEDBACK, Kind.ACTIVATION)
"""Rows that say what a visitor was shown, or bought."""

NOBODY = VisitorPast()


# What counts follows from the rows behind the newest start that turned a cap on or made its days more, so that a
# service that was started again counts as one that ran all the while. Nothing of it is in a snapshot: it would name
# visitors. So a start reads the days of the log that count.
class VisitorHistory(Projection):
    """Follows what each visitor was shown and bought, as far as the rules of the shop ask for it."""

    def __init__(self, find_row: Callable[[bytes], Row | None]) -> None:
        """Begin without rules, and without following the log before `read` says up to where.

        Args:
            find_row: Returns the row of the log with a key.
        """
        self._find_row = find_row
        self._is_following = False
        self._rules = ShopRules()
        self._shown: VisitorEvents | None = None
        self._bought: VisitorEvents | None = None
        self._being_stored: dict[str, Counter[str]] = {}

    def __len__(self) -> int:
        """Return of how many visitors something counts."""
        return max((len(events) for events in (self._shown, self._bought) if events is not None), default=0)

    def apply(self, row: Row) -> None:
        """Read the next row of the log, or one that was read before; without caps of visitors starts alone."""
        if self._is_following and (row.kind is Kind.START or self._rules.needs_history):
            super().apply(row)

    def read(self, store: Store, start: Start, until: int) -> None:
        """Begin anew with what the log says up to a row.

        Args:
            store: The log.
            start: Its newest start.
            until: The row.
        """
        self._is_following = True
        self.take_rules(ShopRules())
        rules = checked_rules(start).shop_rules
        newest = store.row(until)
        if not rules.needs_history or newest is None:
            return
        first = _first_since(store, newest.time - round(_longest(rules) * DAY), until)
        self.take_rules(_rules_before(store, start, first))
        for row in rows_of(store, first - 1, until):
            self.apply(row)

    def take_rules(self, rules: ShopRules) -> None:
        """Keep what rules ask for; what counts for longer than before, or for another reward, begins anew."""
        if rules.not_bought != self._rules.not_bought:
            self._bought = None
        self._shown = _kept(self._shown, rules.shown_days if rules.most_shown else 0.0)
        self._bought = _kept(self._bought, rules.bought_days if rules.not_bought else 0.0)
        self._rules = rules

    def past(self, visitor_id: str, now: int) -> VisitorPast:
        """Return what caps keep from a visitor at a time, in microseconds since 1970."""
        if not visitor_id or not self._rules.needs_history:
            return NOBODY
        shown = []
        if self._shown is not None:
            showings = self._shown.counts(visitor_id, now)
            showings.update(self._being_stored.get(visitor_id, {}))
            shown = [product for product, count in showings.items() if count >= self._rules.most_shown]
        bought = [] if self._bought is None else list(self._bought.counts(visitor_id, now))
        return VisitorPast(shown, bought)

    def storing(self, choice: Choice) -> AbstractContextManager[None]:
        """Count what a decision shows while its row is being stored, for what is asked of the visitor meanwhile."""
        if self._shown is None or choice.deferred or not choice.visitor_id:
            return nullcontext()
        return self._counting(choice)

    @contextmanager
    def _counting(self, choice: Choice) -> Iterator[None]:
        products = self._being_stored.setdefault(choice.visitor_id, Counter())
        products.update(choice.names_shown)
        try:
            yield
        finally:
            products.subtract(choice.names_shown)
            if not any(products.values()):
                del self._being_stored[choice.visitor_id]

    def next_rows(self, count: int, now: int) -> list[tuple[int, int]]:
        """Return visitors by the numbers that they are kept by, and a row that names each; all come in turn."""
        kept = [events for events in (self._shown, self._bought) if events]
        return [each for events in kept for each in events.next_rows(count, now)]

    def check_named(self, visitor: int, seq: int, row: Row | None) -> None:
        """Forget what a visitor saw and bought by a row, that `next_rows` returned, where it does not name them."""
        decision = None if row is None else unpack(row)
        if isinstance(decision, Choice) and visitor_number(decision.visitor_id) == visitor:
            return
        for events in (self._shown, self._bought):
            if events is not None:
                events.drop(visitor, seq)

    def note(self, row: Row, choice: Choice) -> None:
        """Note a decision that was stored just now, before the log is read that far."""
        if self._shown is not None:
            self.on_choice(row, choice)

    def on_start(self, row: Row, start: Start) -> None:
        """Go on by the rules of a start."""
        self.take_rules(checked_rules(start).shop_rules)

    def on_choice(self, row: Row, choice: Choice) -> None:
        """Note what a decision showed; a deferred one once it is activated."""
        if not choice.deferred:
            self._show(row, row.time, choice)

    def on_activation(self, row: Row) -> None:
        """Note what a deferred decision showed."""
        decision = self._find_row(decision_key(decision_of(row))) if self._shown is not None else None
        if decision is not None:
            self._show(decision, row.time, unpack(decision))

    def on_feedback(self, row: Row, feedback: Feedback) -> None:
        """Note what a visitor bought, however late that is told."""
        if self._bought is None or feedback.rewards.get(self._rules.not_bought, 0.0) <= 0.0:
            return
        decision = self._find_row(decision_key(decision_of(row)))
        if decision is None:
            return
        choice: Choice = unpack(decision)
        if feedback.slot < choice.parts:
            self._bought.add(choice.visitor_id, decision.seq, row.time, [choice.names_shown[feedback.slot]])

    def _show(self, decision: Row, time: int, choice: Choice) -> None:
        if self._shown is not None:
            self._shown.add(choice.visitor_id, decision.seq, time, choice.names_shown)


def _kept(events: VisitorEvents | None, days: float) -> VisitorEvents | None:
    """Return events as they go on where they count for so many days; None for 0."""
    if not days:
        return None
    if events is None or days > events.days:
        return VisitorEvents(days)
    events.days = days
    return events


def _longest(rules: ShopRules) -> float:
    """Return for how many days anything counts."""
    return max(rules.shown_days if rules.most_shown else 0.0, rules.bought_days if rules.not_bought else 0.0)


def _first_since(store: Store, time: int, until: int) -> int:
    """Return the first row at or after a time, by halving: times never go back, and what is gone is older."""
    first, last = 1, until
    while first < last:
        middle = (first + last) // 2
        row = store.row(middle)
        if row is None or row.time < time:
            first = middle + 1
        else:
            last = middle
    return first


def _rules_before(store: Store, newest: Start, first: int) -> ShopRules:
    """Return the rules that held before a row, as far as the log goes back."""
    start = newest
    for number in range(newest.number, 0, -1):
        row = store.find(start_key(number))
        if row is None:
            break
        start = unpack(row)
        if row.seq < first:
            break
    else:
        return ShopRules()
    return checked_rules(start).shop_rules
