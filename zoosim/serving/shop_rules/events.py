"""Events of visitors, such as what each was shown lately, in bounded memory."""

from array import array
from collections import Counter, OrderedDict
from collections.abc import Sequence
from itertools import islice

from zoosim.core.digests import short_hash
from zoosim.core.durations import DAY

MOST_VISITORS = 200_000
"""Visitors of whom something is kept; beyond, those go of whom nothing came for the longest time."""

MOST_EVENTS = 400
"""Events of one visitor that are kept, the newest."""


class VisitorEvents:
    """The newest events of each visitor: products, each with a row of the log and a time.

    Visitors are kept by hashes of their ids. A product that comes again with the same row, as a service hears of its
    own decisions in several ways, counts once.
    """

    def __init__(self, days: float) -> None:
        """Begin without any; an event counts for so many `days`."""
        self.days = days
        # Three numbers per event, its row, its time and its product, since tuples take five times as much memory. The
        # visitor of the newest event is the last.
        self._of: OrderedDict[int, array[int]] = OrderedDict()
        self._code_of: dict[str, int] = {}
        self._names: list[str] = []
        self._unchecked: list[int] = []

    def __len__(self) -> int:
        """Return of how many visitors there are events."""
        return len(self._of)

    def add(self, visitor_id: str, seq: int, time: int, products: Sequence[str]) -> None:
        """Note products in an event of a visitor.

        Args:
            visitor_id: Whose it is; what is nobody's is not kept.
            seq: The row of a decision for the visitor.
            time: When it was, in microseconds since 1970.
            products: The products.
        """
        if not visitor_id:
            return
        visitor = visitor_number(visitor_id)
        events = self._of.pop(visitor, None) or array("q")
        self._of[visitor] = events
        known = set(zip(events[::3], events[2::3], strict=True))
        for product in products:
            code = self._code_of.setdefault(product, len(self._names))
            if code == len(self._names):
                self._names.append(product)
            if (seq, code) not in known:
                events.extend((seq, time, code))
        del events[: -3 * MOST_EVENTS]
        self._drop_oldest(time)

    def counts(self, visitor_id: str, now: int) -> Counter[str]:
        """Return how often each product came in the events of a visitor that count at a time."""
        events = self._of.get(visitor_number(visitor_id))
        if events is None:
            return Counter()
        since = self._since(now)
        return Counter(self._names[code] for time, code in zip(events[1::3], events[2::3], strict=True) if time > since)

    def next_rows(self, count: int, now: int) -> list[tuple[int, int]]:
        """Return so many visitors, each after all others, and the oldest row that counts of each at a time.

        Who is forgotten is so from the oldest row on, and may have come again since.
        """
        if not self._unchecked:
            self._unchecked = list(self._of)
        since = self._since(now)
        rows = []
        for _ in range(min(count, len(self._unchecked))):
            visitor = self._unchecked.pop()
            events = self._of.get(visitor, array("q"))
            counting = [seq for seq, time in zip(events[::3], events[1::3], strict=True) if time > since]
            if counting:
                rows.append((visitor, min(counting)))
        return rows

    def drop(self, visitor: int, seq: int) -> None:
        """Forget the events of a visitor in a row, and let the visitor be the next one to be checked."""
        events = self._of.get(visitor)
        if events is None:
            return
        left = array("q")
        for place in range(0, len(events), 3):
            if events[place] != seq:
                left.extend(events[place : place + 3])
        if left:
            self._of[visitor] = left
            self._unchecked.append(visitor)
        else:
            del self._of[visitor]

    def _drop_oldest(self, now: int) -> None:
        """Forget who is too many, and up to two visitors whose events count no more, so that none takes long."""
        while len(self._of) > MOST_VISITORS:
            self._of.popitem(last=False)
        for visitor in list(islice(self._of, 2)):
            if self._of[visitor][-2] <= self._since(now):
                del self._of[visitor]

    def _since(self, now: int) -> int:
        return now - round(self.days * DAY)


def visitor_number(visitor_id: str) -> int:
    """Return the number by which a visitor is kept: a hash of the id."""
    return int.from_bytes(short_hash(visitor_id.encode()), "little")
