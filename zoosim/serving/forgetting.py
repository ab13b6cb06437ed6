"""Forget a visitor: take out of a service's log who was decided for, and what was known of them."""

import secrets
from collections.abc import Iterable
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
)
from zoosim.serving.projection import Projection, rows_of
from zoosim.serving.store.address import Address, open_store

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
        visitor = _Visitor(visitor_id)
        for row in rows_of(store):
            visitor.apply(row)
        names: dict[str, str] = {}
        new_rows: list[Row] = []
        # A second pass, as an id in an early row may hold a text that only a later decision is found to say of the
        # visitor.
        for row in rows_of(store) if visitor.forgotten else ():
            if row.kind not in ABOUT_DECISIONS or decision_of(row) not in visitor.decision_ids:
                continue
            body = pack(visitor.forgotten[row.seq]) if row.seq in visitor.forgotten else row.body
            new_rows.append(row._replace(key=_key_without(row, visitor.texts, names), body=body))
        store.replace(new_rows)
    return len(visitor.forgotten)


class _Visitor(Projection):
    """Decisions for one visitor in a log.

    Attributes:
        forgotten: The visitor's decisions by the positions of their rows, without what they say of the visitor.
        decision_ids: The ids of these decisions.
        texts: The visitor's id, and the texts of columns that the schema did not express.
    """

    def __init__(self, visitor_id: str) -> None:
        self._visitor_id = visitor_id
        self.forgotten: dict[int, Choice] = {}
        self.decision_ids: set[str] = set()
        self.texts = {visitor_id.encode()}

    def apply(self, row: Row) -> None:
        """Read the next row, if it may be of the visitor."""
        # MessagePack holds texts as their own bytes, so rows without the id need not be decoded.
        if self._visitor_id.encode() in row.body:
            super().apply(row)

    def on_choice(self, row: Row, choice: Choice) -> None:
        """Take up a decision for the visitor."""
        if choice.visitor_id == self._visitor_id:
            self.forgotten[row.seq] = choice.without_visitor()
            self.decision_ids.add(decision_of(row))
            self.texts |= {text.encode() for text in choice.visitor_texts() if len(text) >= SHORTEST}


def _key_without(row: Row, texts: Iterable[bytes], names: dict[str, str]) -> bytes:
    """Return the key of a row, the ids in it that hold a text replaced: each always by the same, which `names` has."""

    def renamed(name: str) -> str:
        if not any(text in name.encode() for text in texts):
            return name
        return names.setdefault(name, f"forgotten {secrets.token_hex(16)}")

    feedback_id = renamed(feedback_id_of(row)) if row.kind is Kind.FEEDBACK else ""
    return renamed_key(row, renamed(decision_of(row)), feedback_id)
