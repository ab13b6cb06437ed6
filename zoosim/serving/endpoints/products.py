"""Decisions on products: draw what to show from the policy that is current, and say what the log shall hold of it."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import msgspec
import numpy as np

from zoosim.core.errors import PolicyError
from zoosim.core.parameters import unknown
from zoosim.core.types import FloatArray, frozen
from zoosim.policies.model import product_ids
from zoosim.serving.bodies import DecideBody, DecisionAnswer, ProductBody, Shown, SlotBody, Value, hash_of
from zoosim.serving.catalogue import Candidates
from zoosim.serving.clipped import ClippedColumns
from zoosim.serving.endpoints.base import TRIAL, Endpoint, ServiceParts
from zoosim.serving.events import (
    Choice,
    Decision,
    Kind,
    Product,
    pack,
    pack_floats,
    pack_unexpressed,
    pack_whole,
    unpack,
    unpack_floats,
    unpack_whole,
)
from zoosim.serving.fresh import EXPLORATION
from zoosim.serving.ids import product_id
from zoosim.serving.products import Products
from zoosim.serving.ranker import Drawn, Slot, Units, check_slots, draw
from zoosim.serving.unexpressed import unexpressed_in

TRIAL_VALUE = "2024-01-01T12:00:00Z"
"""What each column of a made-up visitor holds: a time for a column of times, else a level that nobody knows."""


class ProductEndpoint(Endpoint):
    """Decides which of the candidates of a request to show."""

    path = "/v1/decisions"
    operation = "decide"
    summary = "Decide what to show."
    what = "decides on products"
    body: ClassVar[type[DecideBody]] = DecideBody
    answer: ClassVar[type[msgspec.Struct]] = DecisionAnswer
    choice: ClassVar[type[Choice]] = Decision
    fills_slots = True
    schema_grows = True

    def __init__(self, parts: ServiceParts) -> None:
        super().__init__(parts)
        self._clipped = ClippedColumns(parts.counts)
        self._products = Products(parts.current, parts.writer, parts.clock, self.check_model)

    async def decide(
        self, body: DecideBody, request: bytes, decision_id: str, slots: Sequence[SlotBody] = ()
    ) -> tuple[Decision, DecisionAnswer]:
        """Return the record and the answer of a new decision; `slots` are what to fill where slots differ."""
        self.check_model()
        if body.candidates is None:
            candidates = self._current.catalogue.everything()
            ignored: list[str] = []
        else:
            usable = await self._products.usable(body.candidates, partial(self._check_slots, body, slots))
            candidates = self._current.catalogue.candidates(usable.versions)  # which may be another catalogue by now
            ignored = usable.ignored
        decided = self._decide_among(candidates, slots, body, request, decision_id, ignored)
        visitors = [{**body.visitor, **slot.visitor} for slot in slots] or [body.visitor]
        self._clipped.note(self._current.model.fitted.visitors, visitors)
        return decided

    def _decide_among(
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
        return decision, _answer(decision_id, decision, candidates.names)

    async def answer_again(self, decision_id: str, choice: Decision, body: DecideBody | None = None) -> DecisionAnswer:
        """Return what was answered to a decision; where the candidates are not known, without the names of them."""
        names: Sequence[str] | None = None
        if body is not None and body.candidates is not None:
            names = [name for name in map(product_id, body.candidates) if name not in choice.ignored]
        return _answer(decision_id, choice, names or await self._names_in(choice))

    def check_rewards(self, rewards: Mapping[str, float]) -> None:
        """Refuse rewards that the model does not know, and an objective out of range: `PolicyError`."""
        weights = self._current.model.fitted.weights
        for name in rewards:
            if name not in weights:
                raise PolicyError(unknown("rewards: unknown", name, list(weights)))
        value = sum(weights[name] * reward for name, reward in rewards.items())
        settings = self._current.settings
        if not settings.lowest <= value <= settings.highest:
            expected = f"{settings.lowest:g} to {settings.highest:g} (lowest and highest)"
            raise PolicyError(f"rewards: got an objective of {value:g}, expected {expected}")

    def reward_of_value(self, value: float) -> dict[str, float]:
        """Return the first reward that counts, and how much of it is worth `value`."""
        name, weight = next((name, weight) for name, weight in self._current.model.fitted.weights.items() if weight)
        return {name: value / weight}

    def clipped(self) -> dict[str, int]:
        """Return how many requests had numbers that were clipped, by column."""
        return self._clipped.by_column()

    def note_stored(self, choice: Decision) -> None:
        """Count what the schema does not express of the request."""
        self._parts.note_unexpressed(choice.unexpressed)

    async def change_product(self, name: str, body: ProductBody) -> None:
        """Add a product, change its features, or say whether it may be shown."""
        await self._products.change(name, body)

    def try_requests(self) -> None:
        """Decide among a few products, and among all of them."""
        visitor: dict[str, Value] = dict.fromkeys(self._current.model.fitted.visitors.names, TRIAL_VALUE)
        for candidates in self._trial_candidates():
            body = DecideBody(visitor, list(candidates.names), count=min(2, len(candidates.names)))
            record, answer = self._decide_among(candidates, (), body, hash_of(body), TRIAL)
            pack(record)
            msgspec.json.encode(answer)

    def _trial_candidates(self) -> Iterator[Candidates]:
        """Yield a few products, then all of them; of a service without a catalogue two that are made up."""
        catalogue = self._current.catalogue
        everything = catalogue.everything()
        if not everything.names:
            names = ("a", "b")
            features = frozen(np.zeros((2, self._current.model.fitted.products.width)))
            yield Candidates(frozen(np.array([-1, -2])), names, product_ids(names), features)
            return
        yield catalogue.candidates(everything.versions[:2].tolist())
        yield everything

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
                row = await self._current.ask(self._parts.reader.row, version)
                if not self._current.version_from(row, version):
                    return None
        return self._current.catalogue.candidates(versions).names

    async def _earlier_names(self, versions: Sequence[int]) -> list[str] | None:
        """Return the names of products that came with requests to an earlier model, None where one is not known."""
        names = []
        for version in versions:
            row = await self._current.ask(self._parts.reader.row, version) if version > 0 else None
            if row is None or row.kind is not Kind.PRODUCT:
                return None
            product: Product = unpack(row)
            names.append(product.name)
        return names

    def _unexpressed(self, body: DecideBody, slots: Sequence[SlotBody], names: Sequence[str]) -> bytes:
        fitted = self._current.model.fitted
        return pack_unexpressed(unexpressed_in(body, slots, fitted, names, self._current.is_warming_up))

    def _agrees(self, decision_id: str, slot: Slot, candidates: Candidates, drawn: Drawn) -> bool | None:
        """Tell whether an apprentice would show what the shop does; None where there is none, or it fails."""
        if self._current.settings.mode != "apprentice" or self._current.is_warming_up:
            return None
        try:
            wanted = draw(self._current.model.policy, [slot], candidates, 0.0, Units(self._parts.secret, decision_id))
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
        unit = Units(self._parts.secret, decision_id)
        if self._current.settings.mode != "online":
            return draw(None, slots, candidates, 0.0, unit)
        if self._current.is_warming_up:
            return draw(None, slots, candidates, max(self._current.settings.exploration, EXPLORATION), unit)
        return draw(self._current.model.policy, slots, candidates, self._current.settings.exploration, unit)


def _answer(decision_id: str, decision: Decision, names: Sequence[str] | None) -> DecisionAnswer:
    """Return what is answered; without the candidates' `names`, with the probabilities of what was shown alone."""
    propensities = unpack_floats(decision.propensities).tolist()
    if names is None:
        known = [(name, propensities[place]) for name, place in zip(decision.products, decision.shown, strict=True)]
    else:
        known = list(zip(names, propensities, strict=True))
    shown_products = zip(decision.products, decision.chances, strict=True)
    return DecisionAnswer(
        decision_id=decision_id,
        shown=[Shown(name, chance) for name, chance in shown_products],
        propensities=dict(known),
        model=decision.model,
        state=decision.state,
        ignored=decision.ignored,
    )
