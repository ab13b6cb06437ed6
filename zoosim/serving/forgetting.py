"""Forget a visitor: take out of a service's log who was decided for, and what was known of them."""

from collections.abc import Iterator
from contextlib import closing

import msgspec

from zoosim.serving.events import Decision, Row, Search, pack, unpack
from zoosim.serving.store.address import Address, open_store

ROWS_AT_ONCE = 1_000


def forget_visitor(address: Address, visitor_id: str) -> int:
    """Take a visitor's id and features, and the hash of what was asked, out of all decisions and searches.

    Returns how many these were.

    Rows keep their positions, ids and what was shown, so feedback still finds its decision; it is not learned any more.
    The service may go on meanwhile. Raises `DataError` for a broken log, `StoreError` for one that cannot be written.
    """
    position = 0
    forgotten: list[Row] = []
    with closing(open_store(address)) as store:
        while rows := store.read(position, ROWS_AT_ONCE):
            position = rows[-1].seq
            forgotten += _without_visitor(rows, visitor_id)
        store.replace(forgotten)
    return len(forgotten)


def _without_visitor(rows: list[Row], visitor_id: str) -> Iterator[Row]:
    """Yield those of the rows that are decisions or searches of a visitor, without what they say of them."""
    packed = visitor_id.encode()
    for row in rows:
        if packed not in row.body:
            continue
        record = unpack(row)
        if isinstance(record, Decision | Search) and record.visitor_id == visitor_id:
            yield row._replace(body=pack(_forgotten(record)))


def _forgotten(record: Decision | Search) -> Decision | Search:
    if isinstance(record, Search):
        return msgspec.structs.replace(record, request=b"", visitor_id="", visitor={})
    return msgspec.structs.replace(record, request=b"", visitor_id="", visitor=b"", visitors=[], raw=b"")
