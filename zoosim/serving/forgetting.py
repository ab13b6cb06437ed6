"""Forget a visitor: take out of a service's log who was decided for, and what was known of them."""

import secrets
from collections.abc import Iterable, Iterator
from contextlib import closing

from zoosim.serving.events import (
    CHOICES,
    Choice,
    Kind,
    Row,
    decision_of,
    feedback_id_of,
    pack,
    renamed_key,
    unpack,
)
from zoosim.serving.folder import ROWS_AT_ONCE
from zoosim.serving.store.address import Address, open_store
from zoosim.serving.store.base import Store

ABOUT_DECISIONS = (*CHOICES, Kind.FEEDBACK, Kind.ACTIVATION)
"""Rows whose keys hold the id of a decision."""

SHORTEST = 4
"""Characters of a text of a visitor from which on it is looked for in ids: shorter ones are in many."""


def forget_visitor(address: Address, visitor_id: str) -> int:
    """Take a visitor's id and features, and the hash of what was asked, out of all decisions and searches.

    Returns how many these were.

    Rows keep their positions and what was shown, and their ids, so that feedback still finds its decision; it is not
    learned any more. Ids that hold the visitor's id, or a text of the visitor's columns that the schema does not
    express, are replaced by random ones.
    The service may go on meanwhile. Raises `DataError` for a broken log, `StoreError` for one that cannot be written.
    """
    with closing(open_store(address)) as store:
        decisions = {row.seq: row for row in _rows(store) if _is_of(row, visitor_id)}
        texts = _texts_of(decisions.values(), visitor_id)
        decision_ids = {decision_of(row) for row in decisions.values()}
        names: dict[str, str] = {}
        forgotten: list[Row] = []
        for row in _rows(store) if decisions else ():
            if row.kind not in ABOUT_DECISIONS or decision_of(row) not in decision_ids:
                continue
            body = pack(_forgotten(row)) if row.seq in decisions else row.body
            forgotten.append(row._replace(key=_key_without(row, texts, names), body=body))
        store.replace(forgotten)
    return len(decisions)


def _rows(store: Store) -> Iterator[Row]:
    position = 0
    while rows := store.read(position, ROWS_AT_ONCE):
        yield from rows
        position = rows[-1].seq


def _is_of(row: Row, visitor_id: str) -> bool:
    """Whether a row is a decision for a visitor."""
    if row.kind not in CHOICES or visitor_id.encode() not in row.body:
        return False
    record = unpack(row)
    return isinstance(record, Choice) and record.visitor_id == visitor_id


def _texts_of(decisions: Iterable[Row], visitor_id: str) -> list[bytes]:
    """Return a visitor's id, and the texts of columns that the schema did not express."""
    texts = {visitor_id}
    for row in decisions:
        record = unpack(row)
        if isinstance(record, Choice):
            texts |= {text for text in record.visitor_texts() if len(text) >= SHORTEST}
    return [text.encode() for text in sorted(texts)]


def _key_without(row: Row, texts: Iterable[bytes], names: dict[str, str]) -> bytes:
    """Return the key of a row, the ids in it that hold a text replaced: each always by the same, which `names` has."""

    def renamed(name: str) -> str:
        if not any(text in name.encode() for text in texts):
            return name
        return names.setdefault(name, f"forgotten {secrets.token_hex(16)}")

    feedback_id = renamed(feedback_id_of(row)) if row.kind is Kind.FEEDBACK else ""
    return renamed_key(row, renamed(decision_of(row)), feedback_id)


def _forgotten(row: Row) -> Choice:
    """Return a decision without what it says of its visitor."""
    record = unpack(row)
    assert isinstance(record, Choice)
    return record.without_visitor()
