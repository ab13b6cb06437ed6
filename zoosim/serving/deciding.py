"""Decide: draw what to show from the policy that is current, and say what the log shall hold of it."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from zoosim.core.errors import PolicyError
from zoosim.core.parameters import shown
from zoosim.core.types import FloatArray, frozen
from zoosim.policies.boost_model import BoostModel
from zoosim.serving.answers import decision_answer
from zoosim.serving.bodies import DecideBody, DecisionAnswer, SearchAnswer, SearchBody, SlotBody
from zoosim.serving.catalogue import Candidates
from zoosim.serving.clipped import ClippedColumns
from zoosim.serving.current import Current
from zoosim.serving.events import Decision, Search, pack_floats, pack_unexpressed, pack_whole
from zoosim.serving.fresh import EXPLORATION
from zoosim.serving.products import Products
from zoosim.serving.ranker import Drawn, Slot, Units, check_slots, draw
from zoosim.serving.searches import rank, search_answer
from zoosim.serving.unexpressed import unexpressed_in


class Decider:
    """Makes decisions, and the rankings of searches; what it makes counts once it is logged."""

    def __init__(self, current: Current, products: Products, secret: bytes, clipped: ClippedColumns) -> None:
        """Decide by what is current.

        Args:
            current: What a service decides by.
            products: What requests say of products.
            secret: From which, with a decision's id, its draws follow.
            clipped: Counts the decisions with clipped numbers.
        """
        self._current = current
        self._clipped = clipped
        self._products = products
        self._secret = secret

    async def decide(
        self, slots: Sequence[SlotBody], body: DecideBody, request: bytes, decision_id: str
    ) -> tuple[Decision, DecisionAnswer]:
        """Return what the log says of a new decision, and its answer; what it rests on is stored then."""
        self._products.check_model()
        if body.candidates is None:
            candidates = self._current.catalogue.everything()
            ignored: list[str] = []
        else:
            usable = await self._products.usable(body.candidates, partial(self._check_slots, body, slots))
            candidates = self._current.catalogue.candidates(usable.versions)  # which may be another catalogue by now
            ignored = usable.ignored
        decided = self.decide_among(candidates, slots, body, request, decision_id, ignored)
        visitors = [{**body.visitor, **slot.visitor} for slot in slots] or [body.visitor]
        self._clipped.note(self._current.model.fitted.visitors, visitors)
        return decided

    def decide_among(
        self,
        candidates: Candidates,
        slots: Sequence[SlotBody],
        body: DecideBody,
        request: bytes,
        decision_id: str,
        ignored: Sequence[str] = (),
    ) -> tuple[Decision, DecisionAnswer]:
        """Return the record and the answer of a decision among candidates; moves no state, and stores nothing."""
        if not candidates.names:
            raise PolicyError("candidates: got none, expected at least one product that may be shown")
        visitor = self._encoded(body.visitor)
        to_fill = self._slots(body, slots, visitor, candidates.names)
        drawn = self._drawn(decision_id, to_fill, candidates)
        decision = Decision(
            request=request,
            model=self._current.start.model,
            state=self._current.state,
            visitor_id=body.visitor_id,
            visitor=pack_floats(visitor),
            versions=pack_whole(candidates.versions),
            propensities=pack_floats(drawn.propensities),
            shown=drawn.shown,
            chances=drawn.chances,
            deferred=body.defer,
            slots=[slot.id for slot in slots],
            visitors=[pack_floats(slot.visitor) for slot in to_fill] if slots else [],
            unexpressed=self._unexpressed(body, slots, candidates.names),
            products=[candidates.names[place] for place in drawn.shown],
            turn=self._current.start.turn,
            excluded=drawn.excluded,
            baseline=drawn.baseline,
            agrees=self._agrees(decision_id, to_fill[0], candidates, drawn),
            ignored=list(ignored),
        )
        return decision, decision_answer(decision_id, decision, candidates.names)

    async def rank(self, body: SearchBody, request: bytes, decision_id: str) -> tuple[Search, SearchAnswer]:
        """Return what the log says of a new search, and its answer."""
        return self.rank_now(body, request, decision_id)

    def rank_now(self, body: SearchBody, request: bytes, decision_id: str) -> tuple[Search, SearchAnswer]:
        """Return the record and the answer of a search; moves no state, and stores nothing."""
        model = self._current.model
        if not isinstance(model, BoostModel):
            raise PolicyError("searches: this model decides on products; send its decisions to /v1/decisions")
        self._products.check_size(body.candidates)
        is_drawn = self._current.settings.mode == "online"
        ranked = rank(model, body, Units(self._secret, decision_id).generator() if is_drawn else None)
        search = Search(
            request=request,
            model=self._current.start.model,
            state=self._current.state,
            visitor_id=body.visitor_id,
            visitor=ranked.visitor,
            products=ranked.products,
            scores=pack_floats(ranked.scores),
            boosts=pack_floats(ranked.boosts),
            density=ranked.density,
            ranking=ranked.ranking,
            deferred=body.defer,
            turn=self._current.start.turn,
            ignored=ranked.ignored,
        )
        if ranked.ignored:
            self._products.complain(
                f"candidates: got {shown(ranked.ignored[0])}, which is not in the catalogue of "
                f"{len(model.requests.names):,} products; train another model when your catalogue changes"
            )
        return search, search_answer(decision_id, search)

    def _unexpressed(self, body: DecideBody, slots: Sequence[SlotBody], names: Sequence[str]) -> bytes:
        fitted = self._current.model.fitted
        return pack_unexpressed(unexpressed_in(body, slots, fitted, names, self._current.is_warming_up))

    def _agrees(self, decision_id: str, slot: Slot, candidates: Candidates, drawn: Drawn) -> bool | None:
        """Tell whether an apprentice would show what the shop does; None where there is none, or it fails."""
        if self._current.settings.mode != "apprentice" or self._current.is_warming_up:
            return None
        try:
            wanted = draw(self._current.model.policy, [slot], candidates, 0.0, Units(self._secret, decision_id))
        except Exception:  # what is shown does not hang on an apprentice
            return None
        return wanted.shown[0] == drawn.baseline

    def _encoded(self, columns: Mapping[str, Any]) -> FloatArray:
        return frozen(self._current.model.fitted.visitors.encode_one(columns))

    def _check_slots(self, body: DecideBody, slots: Sequence[SlotBody], names: Sequence[str]) -> None:
        """Refuse a request whose slots candidates of these names cannot fill: `PolicyError`."""
        check_slots(self._slots(body, slots, self._encoded(body.visitor), names), len(names))

    def _slots(
        self, body: DecideBody, slots: Sequence[SlotBody], visitor: FloatArray, names: Sequence[str]
    ) -> list[Slot]:
        """Return what is to be filled from candidates of these names; raises `PolicyError` for too many slots.

        Where candidates of the request are ignored, fewer products are shown than it asked for; slots that differ all
        have to be filled.
        """
        count = len(slots) or body.count
        named = names if body.candidates is None else body.candidates
        if count > (len(names) if slots else len(named)):
            raise PolicyError(f"count: got {count}, expected at most the {len(names)} candidates that can be shown")
        if not slots:
            return [Slot(visitor)] * min(count, len(names))
        places = {name: place for place, name in enumerate(names)}
        to_fill = []
        for slot in slots:
            excluded = tuple(places[name] for name in slot.excluded if name in places)
            features = self._encoded({**body.visitor, **slot.visitor})
            to_fill.append(Slot(features, places.get(slot.baseline), excluded))
        return to_fill

    def _drawn(self, decision_id: str, slots: Sequence[Slot], candidates: Candidates) -> Drawn:
        unit = Units(self._secret, decision_id)
        if self._current.settings.mode != "online":
            return draw(None, slots, candidates, 0.0, unit)
        if self._current.is_warming_up:
            return draw(None, slots, candidates, max(self._current.settings.exploration, EXPLORATION), unit)
        return draw(self._current.model.policy, slots, candidates, self._current.settings.exploration, unit)
