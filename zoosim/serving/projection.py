"""Read a service's log: whatever follows from it is a set of handlers, one for each kind of row that it needs."""

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

from zoosim.serving.events import ROW_KINDS, Kind, Row, unpack
from zoosim.serving.store.base import Store

ROWS_AT_ONCE = 1_000
"""Rows of a log that are read in one step."""


class Projection:
    """Folds the rows of a service's log in their order.

    A subclass defines handlers, methods named as in `zoosim.serving.events.ROW_KINDS`: `on_start`, `on_product`,
    `on_choice`, `on_feedback` get a row and its record, `on_activation` and `on_tick`, which have none, the row alone.
    Rows of other kinds are passed over without being decoded.
    """

    _handlers: ClassVar[dict[Kind, Callable[..., None]]] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        """Find the handlers of a subclass."""
        super().__init_subclass__(**options)
        handlers = {kind: getattr(cls, row_kind.handler, None) for kind, row_kind in ROW_KINDS.items()}
        cls._handlers = {kind: handler for kind, handler in handlers.items() if handler is not None}

    def apply(self, row: Row) -> None:
        """Read the next row of the log; raises `DataError` for one that cannot be read."""
        handler = self._handlers.get(row.kind)
        if handler is None:
            return
        if ROW_KINDS[row.kind].has_record:
            handler(self, row, unpack(row))
        else:
            handler(self, row)


def rows_of(store: Store, after: int = 0, until: int | None = None) -> Iterator[Row]:
    """Yield the rows of a log behind the position `after`, up to `until` or, by default, to its end."""
    while until is None or after < until:
        rows = store.read(after, ROWS_AT_ONCE)
        if not rows:
            return
        yield from (row for row in rows if until is None or row.seq <= until)
        after = rows[-1].seq
