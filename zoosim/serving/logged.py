"""Decisions in the log, looked up by their ids, whichever service of the log made them."""

from typing import Any

from zoosim.core.parameters import shown
from zoosim.serving.current import Current
from zoosim.serving.endpoints.base import Endpoints
from zoosim.serving.events import Choice, Row, decision_key, unpack
from zoosim.serving.refusals import Conflict, NotFound
from zoosim.serving.store.base import Store


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

    async def find(self, key: bytes) -> Row | None:
        """Return the row with a key, None where there is none."""
        return await self._current.ask(self._reader.find, key)

    async def row(self, decision_id: str) -> Row:
        """Return the row of a decision; raises `NotFound`."""
        row = await self.find(decision_key(decision_id))
        if row is None:
            raise NotFound(f"decision {shown(decision_id)}: is not in the log; give the id that was answered")
        return row
