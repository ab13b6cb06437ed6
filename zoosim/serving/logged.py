"""What the log holds of decisions: looked up by their ids, whichever service of the log made them."""

from collections.abc import Sequence
from typing import Any

from zoosim.core.parameters import shown
from zoosim.serving.answers import decision_answer
from zoosim.serving.bodies import DecideBody, DecisionAnswer, SearchAnswer, SearchBody
from zoosim.serving.current import Current
from zoosim.serving.events import Choice, Decision, Kind, Product, Row, Search, decision_key, unpack, unpack_whole
from zoosim.serving.ids import product_id
from zoosim.serving.refusals import Conflict, NotFound
from zoosim.serving.searches import search_answer
from zoosim.serving.store.base import Store


class LoggedDecisions:
    """Finds decisions, and searches, in the log."""

    def __init__(self, current: Current, reader: Store) -> None:
        self._current = current
        self._reader = reader

    async def get(self, decision_id: str) -> tuple[Row, Choice]:
        """Return a decision, or a search, and its row; raises `NotFound`."""
        row = await self.row(decision_id)
        decision = unpack(row)
        assert isinstance(decision, Choice)
        return row, decision

    async def answer(self, decision_id: str) -> DecisionAnswer | SearchAnswer:
        """Return what was answered to a decision; raises `NotFound`."""
        _, decision = await self.get(decision_id)
        return await self._answer_to(decision_id, decision)

    async def earlier_answer(self, body: DecideBody | SearchBody, request: bytes) -> Any:
        """Return what was answered to a decision before, None for a new one; raises `Conflict`."""
        decision_id = body.decision_id or ""
        row = await self.find(decision_key(decision_id))
        if row is None:
            return None
        decision = unpack(row)
        assert isinstance(decision, Choice)
        if decision.request != request:
            raise Conflict(f"decision {shown(decision_id)}: is the id of another request; give each its own")
        if isinstance(body, SearchBody) or body.candidates is None:
            return await self._answer_to(decision_id, decision)
        names = [name for name in map(product_id, body.candidates) if name not in decision.ignored]
        return await self._answer_to(decision_id, decision, names)

    async def find(self, key: bytes) -> Row | None:
        """Return the row with a key, None where there is none."""
        return await self._current.ask(self._reader.find, key)

    async def row(self, decision_id: str) -> Row:
        """Return the row of a decision; raises `NotFound`."""
        row = await self.find(decision_key(decision_id))
        if row is None:
            raise NotFound(f"decision {shown(decision_id)}: is not in the log; give the id that was answered")
        return row

    async def _answer_to(
        self, decision_id: str, decision: Choice, names: Sequence[str] | None = None
    ) -> DecisionAnswer | SearchAnswer:
        """Return the answer to a decision; `names` are those of its candidates where they are known."""
        if isinstance(decision, Search):
            return search_answer(decision_id, decision)
        assert isinstance(decision, Decision)
        return decision_answer(decision_id, decision, names or await self._names_in(decision))

    async def _names_in(self, decision: Decision) -> Sequence[str] | None:
        """Return the names of a decision's candidates, None where they are not known.

        Of earlier models those alone are known that requests described; they, and those that another service stored
        just now, are read from the log.
        """
        versions = unpack_whole(decision.versions).tolist()
        if decision.origin != self._current.start.origin:
            return await self._earlier_names(versions)
        for version in versions:
            if version not in self._current.catalogue:
                row = await self._current.ask(self._reader.row, version)
                if not self._current.version_from(row, version):
                    return None
        return self._current.catalogue.candidates(versions).names

    async def _earlier_names(self, versions: Sequence[int]) -> list[str] | None:
        """Return the names of products that came with requests to an earlier model, None where one is not known."""
        names = []
        for version in versions:
            row = await self._current.ask(self._reader.row, version) if version > 0 else None
            if row is None or row.kind is not Kind.PRODUCT:
                return None
            product = unpack(row)
            assert isinstance(product, Product)
            names.append(product.name)
        return names
