"""Decisions in the log, looked up by their ids, whichever service of the log made them."""

from typing import Any

from zoosim.core.parameters import shown
from zoosim.serving.current import Current
from zoosim.serving.endpoints.base import Endpoints
from zoosim.serving.events import Choice, Feedback, Kind, Row, decision_key, decision_of, unpack
from zoosim.serving.refusals import Conflict, NotFound
from zoosim.serving.store.base import Store

MOST_SEARCHED = 5_000
"""Rows, the newest, among which decisions of a visitor are looked for."""

SEARCHED_AT_ONCE = 500


class LoggedDecisions:
    """Finds decisions of any action space in the log."""

    def __init__(self, current: Current, endpoints: Endpoints, reader: Store) -> None:
        self._current = current
        self._endpoints = endpoints
        self._reader = reader

    async def get(self, decision_id: str) -> tuple[Row, Choice]:
        """Return a decision and its row; raises `NotFound`."""
        row = await self.row(decision_id)
        decision: Choice = unpack(row)
        return row, decision

    async def answer(self, decision_id: str) -> Any:
        """Return what was answered to a decision; raises `NotFound`."""
        _, decision = await self.get(decision_id)
        return await self._endpoints.for_choice(decision).answer_again(decision_id, decision)

    async def earlier_answer(self, body: Any, request: bytes) -> Any:
        """Return what was answered to a decision before, None for a new one; raises `Conflict`."""
        decision_id = body.decision_id or ""
        row = await self.find(decision_key(decision_id))
        if row is None:
            return None
        decision: Choice = unpack(row)
        if decision.request != request:
            raise Conflict(f"decision {shown(decision_id)}: is the id of another request; give each its own")
        return await self._endpoints.for_choice(decision).answer_again(decision_id, decision, body)

    async def newest(self, most: int, visitor_id: str = "") -> list[tuple[Row, Choice]]:
        """Return the newest decisions, the newest first: among the newest rows, all or those of a visitor.

        Args:
            most: How many.
            visitor_id: Whose; anybody's where empty.
        """
        last = await self._current.ask(self._reader.last)
        before = last.seq + 1 if last else 0
        oldest = max(before - MOST_SEARCHED, 1)
        decisions: list[tuple[Row, Choice]] = []
        while before > oldest and len(decisions) < most:
            begin = max(before - SEARCHED_AT_ONCE, oldest)
            rows = await self._current.ask(self._reader.read, begin - 1, before - begin)
            decisions += [(row, choice) for row in reversed(rows) if (choice := _decision_of(row, visitor_id))]
            before = begin
        return decisions[:most]

    async def feedback_to(self, decision: Row) -> list[tuple[Row, Feedback]]:
        """Return the feedback to a decision among the rows behind it, from the first to the last."""
        decision_id = decision_of(decision)
        feedback: list[tuple[Row, Feedback]] = []
        after = decision.seq
        last = after + MOST_SEARCHED
        while after < last:
            rows = await self._current.ask(self._reader.read, after, SEARCHED_AT_ONCE)
            if not rows:
                break
            own = [row for row in rows if row.kind is Kind.FEEDBACK and decision_of(row) == decision_id]
            feedback += [(row, unpack(row)) for row in own]
            after = rows[-1].seq
        return feedback

    async def find(self, key: bytes) -> Row | None:
        """Return the row with a key, None where there is none."""
        return await self._current.ask(self._reader.find, key)

    async def row(self, decision_id: str) -> Row:
        """Return the row of a decision; raises `NotFound`."""
        row = await self.find(decision_key(decision_id))
        if row is None:
            raise NotFound(f"decision {shown(decision_id)}: is not in the log; give the id that was answered")
        return row


def _decision_of(row: Row, visitor_id: str) -> Choice | None:
    """Return the decision in a row; None where it is none, or another visitor's."""
    # Bodies hold the id as it is, and reading one takes longer than looking for a text in it.
    if row.kind not in (Kind.DECISION, Kind.SEARCH, Kind.CHOICE) or visitor_id.encode() not in row.body:
        return None
    choice: Choice = unpack(row)
    return choice if visitor_id in ("", choice.visitor_id) else None
