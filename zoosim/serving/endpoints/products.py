"""Decisions on products: draw what to show from the policy that is current, and say what the log shall hold of it."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import ClassVar

import msgspec

from zoosim.core.errors import PolicyError
from zoosim.core.parameters import unknown
from zoosim.core.types import frozen
from zoosim.policies.base import Policy
from zoosim.serving.arms import mixture_of
from zoosim.serving.bodies import DecideBody, DecisionAnswer, ProductBody, SlotBody, Value, hash_of
from zoosim.serving.catalogue import RequestCandidates
from zoosim.serving.clipped import ClippedColumns
from zoosim.serving.current import ServedArm
from zoosim.serving.described import Contents
from zoosim.serving.endpoints.base import TRIAL, Endpoint, ServiceParts
from zoosim.serving.endpoints.product_tasks import (
    ArmTask,
    EncodedVisitor,
    Offer,
    answer_of,
    places_among,
    trial_candidates,
)
from zoosim.serving.events import (
    CHAMPION,
    Choice,
    Kind,
    Product,
    ProductDecision,
    pack,
    pack_floats,
    pack_unexpressed,
    pack_whole,
    unpack,
    unpack_whole,
)
from zoosim.serving.fresh import EXPLORATION
from zoosim.serving.ids import product_id, user_id_of
from zoosim.serving.inputs import KnownDescriptions, RequestInputs, refuse
from zoosim.serving.places import Slot, can_fill, check_slots
from zoosim.serving.products import ProductFinder
from zoosim.serving.ranker import Drawn, Units, chances_of, draw
from zoosim.serving.shop_rules.candidates import RuledCandidates, apply_rules, check_pins, with_request
from zoosim.serving.shop_rules.settings import ShopRules
from zoosim.serving.unexpressed import unexpressed_in

TRIAL_VALUE = "2024-01-01T12:00:00Z"
"""Value of each column of a made-up visitor: a time for a column of times, else a level that nobody knows."""


class ProductEndpoint(Endpoint):
    """Decides which of the candidates of a request to show."""

    path = "/v1/decisions"
    operation = "decide"
    summary = "Decide what to show."
    what = "decides on products"
    body: ClassVar[type[DecideBody]] = DecideBody
    answer: ClassVar[type[msgspec.Struct]] = DecisionAnswer
    choice: ClassVar[type[Choice]] = ProductDecision
    fills_slots = True
    follows_shop_rules = True
    schema_grows = True

    def __init__(self, parts: ServiceParts) -> None:
        super().__init__(parts)
        self._clipped = ClippedColumns(parts.counts)
        self._known = KnownDescriptions()
        self._products = ProductFinder(parts.current, parts.writer, parts.clock, self.check_model)

    async def decide(
        self,
        body: DecideBody,
        request: bytes,
        decision_id: str,
        slots: Sequence[SlotBody] = (),
        takes_any_columns: bool = False,
    ) -> tuple[ProductDecision, DecisionAnswer]:
        """Return the record and the answer of a new decision.

        Args:
            body, request, decision_id: As in the base class.
            slots: What is to be filled where slots differ.
            takes_any_columns: Whether what the model was not made for is counted alone, whatever the settings say: not
                refused, nor told.
        """
        self.check_model()
        if body.pinned:
            check_pins(body)
        contents = Contents(body.candidates)
        if self._current.settings.strict and not takes_any_columns:
            self._refuse_deviations(self._inputs(body, slots, contents))
        offers = await self._offers(body, slots, contents)
        # Nothing is awaited from the draw to the record: model, state and probabilities are of one moment.
        inputs = self._inputs(body, slots, contents)
        decision, answer = self._decide_among(offers, slots, inputs, body, request, decision_id)
        self._clipped.note(self._current.model.fitted.visitors, inputs.visitors)
        if not self._current.is_warming_up:
            self.inputs.note(inputs.deviations)
            answer.warnings = [] if takes_any_columns else self._warnings(inputs)
        return decision, answer

    def _inputs(self, body: DecideBody, slots: Sequence[SlotBody], contents: Contents) -> RequestInputs:
        """Return what a request holds, beside the schema, which all arms have."""
        fitted = self._current.model.fitted
        return RequestInputs.of(body, slots, fitted, contents, self._known.of(fitted))

    def _refuse_deviations(self, inputs: RequestInputs) -> None:
        """Refuse what the model was not made for: `PolicyError`."""
        if inputs.deviations and not self._current.is_warming_up:
            self.inputs.note(inputs.deviations)
            refuse(self._warnings(inputs))

    def _warnings(self, inputs: RequestInputs) -> list[str]:
        """Describe what of a request the model was not made for."""
        return inputs.warnings(self._parts.grows()) if inputs.deviations else []

    async def _offers(
        self, body: DecideBody, slots: Sequence[SlotBody], contents: Contents
    ) -> dict[str, Offer | PolicyError]:
        """Return among what each arm can decide, once the log holds it, or why it cannot."""
        if body.candidates is None:
            return {name: Offer(arm.catalogue.everything(), []) for name, arm in self._current.deciding.items()}
        while True:
            origins = self._current.origins
            offers: dict[str, Offer | PolicyError] = {}
            for name, arm in self._current.deciding.items():
                try:
                    usable = await self._products.usable(arm, contents, partial(self._check_slots, body, slots))
                    offers[name] = Offer(arm.catalogue.candidates(usable.versions), usable.ignored)
                except PolicyError as error:
                    offers[name] = error
            if self._current.origins == origins:  # else another model may decide, which reads other features
                return offers

    def _decide_among(
        self,
        offers: Mapping[str, Offer | PolicyError],
        slots: Sequence[SlotBody],
        inputs: RequestInputs,
        body: DecideBody,
        request: bytes,
        decision_id: str,
    ) -> tuple[ProductDecision, DecisionAnswer]:
        """Return the record and the answer of a decision among candidates; moves no state, and stores nothing.

        Args:
            offers: What each arm may show, by its name, or why it cannot decide.
            inputs: What the request holds, beside the schema, which all arms have.
            slots, body, request, decision_id: As in `decide`.
        """
        tasks, refusals = self._tasks(offers, body, slots)
        units = Units(self._parts.secret, decision_id)

        def decide(arm: ServedArm) -> Drawn:
            return draw(*self._asked(tasks[arm.name]), units, tasks[arm.name].caps)

        arm, drawn = self.decided(body, decision_id, decide, refusals)
        task = tasks[arm.name]
        candidates = task.offer.candidates
        products = [candidates.names[place] for place in drawn.shown]
        decision = ProductDecision(
            request=request,
            model=arm.start.model,
            state=arm.state,
            visitor_id=body.visitor_id,
            visitor=pack_floats(task.visitor),
            versions=pack_whole(candidates.versions),
            propensities=pack_floats(drawn.propensities),
            shown=drawn.shown,
            chances=drawn.chances,
            deferred=body.defer,
            slots=[slot.id for slot in slots],
            visitors=[pack_floats(slot.visitor) for slot in task.slots] if slots else [],
            unexpressed=pack_unexpressed(unexpressed_in(inputs, candidates.names, self._current.is_warming_up)),
            products=products,
            turn=arm.start.turn,
            excluded=drawn.excluded,
            baseline=drawn.baseline,
            agrees=self._agrees(task, drawn, units),
            ignored=list(task.offer.ignored),
            arm=arm.name,
            mixture=self._mixture(
                tasks, arm, products, drawn.chances, self._current.assignment.arm_for(body.visitor_id, decision_id)
            ),
            rules=task.rules_applied(drawn),
        )
        return decision, answer_of(decision_id, decision, candidates.names)

    def _mixture(
        self,
        tasks: Mapping[str, ArmTask],
        decided: ServedArm,
        products: Sequence[str],
        chances: list[float],
        assigned: str,
    ) -> list[float]:
        """Return how likely what was shown was before the arm was drawn, each product given those above it.

        Only arms count that would have decided among the same candidates, as the log has no others; empty where no
        other arm would.

        Args:
            tasks: What each arm had to fill.
            decided: The arm that decided.
            products, chances: What it showed, and how likely each was.
            assigned: The arm that was drawn, which failed where another one decided.
        """
        candidates = tasks[decided.name].offer.candidates.names
        by_arm = {decided.name: chances}
        able = [decided.name]
        for name, task in tasks.items():
            if name in (decided.name, assigned):
                continue
            places = places_among(products, candidates, task.offer.candidates.names)
            has_same = places is not None
            try:
                own_chances = chances_of(places or [-1] * len(products), *self._asked(task), task.caps)
            except Exception:  # it would have left the decision to the champion
                continue
            able.append(name)
            if has_same:
                by_arm[name] = own_chances
        if len(by_arm) == 1:
            return []
        # Arms that would have decided among other candidates are able, too: they leave nothing to the champion.
        weights = self._current.assignment.weights(able)
        return mixture_of({name: weights[name] for name in by_arm}, by_arm)

    async def answer_again(
        self, decision_id: str, choice: ProductDecision, body: DecideBody | None = None
    ) -> DecisionAnswer:
        """Return what was answered to a decision; where the candidates are not known, without the names of them."""
        names: Sequence[str] | None = None
        if body is not None and body.candidates is not None:
            names = [name for name in map(product_id, body.candidates) if name not in choice.ignored]
        answer = answer_of(decision_id, choice, names or await self._names_in(choice))
        if body is not None and not self._current.is_warming_up:
            answer.warnings = self._warnings(self._inputs(body, (), Contents(body.candidates)))
        return answer

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

    def note_stored(self, choice: ProductDecision) -> None:
        """Count what rules did, and what the champion's schema, which may grow, does not express of the request."""
        if choice.rules is not None:
            self._parts.counts["decisions with pinned products"] += bool(choice.rules.pinned)
            self._parts.counts["decisions without a rule that left nothing"] += bool(choice.rules.lifted)
        if choice.arm != CHAMPION:
            return
        self._parts.note_unexpressed(choice.unexpressed)

    async def change_product(self, name: str, body: ProductBody) -> list[str]:
        """Add a product, change its features, or say whether it may be shown."""
        inputs = RequestInputs([], [body.features or {}], self._current.model.fitted)
        if self._current.settings.strict:
            self._refuse_deviations(inputs)
        await self._products.change(name, body)
        if self._current.is_warming_up:
            return []
        self.inputs.note(inputs.deviations)
        return self._warnings(inputs)

    def try_requests(self) -> None:
        """Decide among a few products, and among all of them."""
        visitor: dict[str, Value] = dict.fromkeys(self._current.model.fitted.visitors.names, TRIAL_VALUE)
        arms = self._current.takers
        trials = [trial_candidates(arm) for arm in arms.values()]
        for candidates in zip(*trials, strict=False):
            names = candidates[0].names
            body = DecideBody(visitor, list(names), count=min(2, len(names)))
            offers = {name: Offer(each, []) for name, each in zip(arms, candidates, strict=True)}
            inputs = self._inputs(body, (), Contents(body.candidates))
            record, answer = self._decide_among(offers, (), inputs, body, hash_of(body), TRIAL)
            pack(record)
            msgspec.json.encode(answer)

    async def _names_in(self, decision: ProductDecision) -> Sequence[str] | None:
        """Return the names of a decision's candidates, None where they are not known.

        Of earlier models those alone are known that requests described; they, and those that another service stored
        just now, are read from the log.
        """
        versions = unpack_whole(decision.versions).tolist()
        arm = self._current.arm_of(decision)
        if arm is None or decision.origin != arm.origin:
            return await self._earlier_names(versions)
        for version in versions:
            if version not in arm.catalogue:
                arm.take_version(await self._current.ask(self._parts.reader.row, version), version)
        return arm.catalogue.candidates(versions).names if arm.catalogue.has_all(versions) else None

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

    def _agrees(self, task: ArmTask, drawn: Drawn, units: Units) -> bool | None:
        """Return whether an apprentice would show the shop's own choice; None where there is none, or it fails."""
        if self._current.settings.mode != "apprentice" or self._current.is_warming_up or task.slots[0].pin is not None:
            return None
        try:
            # The top alone is compared; what is pinned below it cannot stand there.
            slots = task.slots if task.ruled else task.slots[:1]
            own_draw = draw(task.arm.model.policy, slots, task.offer.candidates, 0.0, units, task.caps)
        except Exception:  # what is shown does not hang on an apprentice
            return None
        return own_draw.shown[0] == drawn.baseline

    def _tasks(
        self, offers: Mapping[str, Offer | PolicyError], body: DecideBody, slots: Sequence[SlotBody]
    ) -> tuple[dict[str, ArmTask], dict[str, PolicyError]]:
        """Return what each arm has to fill from what, or why it cannot, by its name."""
        # Encoded once for all arms, whose schema is one: a visitor of 60 columns takes as long as a policy's decision.
        visitor = self._encoded(body, slots)
        tasks = {}
        refusals = {}
        for name, offer in offers.items():
            try:
                tasks[name] = self._task(self._current.arms[name], offer, body, slots, visitor)
            except PolicyError as error:
                refusals[name] = error
        return tasks, refusals

    def _task(
        self,
        arm: ServedArm,
        offer: Offer | PolicyError,
        body: DecideBody,
        slots: Sequence[SlotBody],
        visitor: EncodedVisitor,
    ) -> ArmTask:
        """Return what an arm has to fill from what; raises `PolicyError` where it cannot."""
        if isinstance(offer, PolicyError):
            raise offer
        if not offer.candidates.names:
            raise PolicyError("candidates: got none, expected at least one product that may be shown")
        to_fill = self._slots(body, slots, visitor, offer.candidates.names)
        rules = with_request(self._current.settings.shop_rules, body.pins, body.forbidden)
        if not rules.are_set:
            return ArmTask(arm, offer, visitor.features, to_fill)
        ruled = self._ruled(rules, arm, offer.candidates, body, slots, to_fill)
        if not slots:
            to_fill = [slot._replace(pin=ruled.pins.get(number)) for number, slot in enumerate(to_fill[: ruled.most])]
        return ArmTask(arm, offer._replace(candidates=ruled.candidates), visitor.features, to_fill, ruled)

    def _ruled(
        self,
        rules: ShopRules,
        arm: ServedArm,
        candidates: RequestCandidates,
        body: DecideBody,
        slots: Sequence[SlotBody],
        to_fill: Sequence[Slot],
    ) -> RuledCandidates:
        """Return what rules leave of candidates; raises `PolicyError` where slots that differ cannot follow them."""
        encoder = arm.model.fitted.products
        past = self._current.history.past(body.visitor_id, self._parts.clock.now())
        if not slots:
            return apply_rules(rules, candidates, encoder, len(to_fill), past)
        if rules.per_page or rules.pinned:
            raise PolicyError(
                "slots: got slots that differ, for which per_page and pinned cannot hold; leave these out"
            )
        return apply_rules(rules, candidates, encoder, len(to_fill), past, partial(can_fill, to_fill))

    def _check_slots(self, body: DecideBody, slots: Sequence[SlotBody], names: Sequence[str]) -> None:
        """Refuse a request whose slots candidates of these names cannot fill: `PolicyError`."""
        check_slots(self._slots(body, slots, self._encoded(body, slots), names), len(names))

    def _encoded(self, body: DecideBody, slots: Sequence[SlotBody]) -> EncodedVisitor:
        """Encode the visitor of a request by the schema that all arms have."""
        encoder = self._current.model.fitted.visitors
        by_slot = [frozen(encoder.encode_one({**body.visitor, **slot.visitor})) for slot in slots]
        return EncodedVisitor(frozen(encoder.encode_one(body.visitor)), by_slot)

    def _slots(
        self, body: DecideBody, slots: Sequence[SlotBody], visitor: EncodedVisitor, names: Sequence[str]
    ) -> list[Slot]:
        """Return what is to be filled from candidates of these names; raises `PolicyError` for too many slots.

        Where candidates of the request are ignored, fewer products are shown than it asked for; slots that differ all
        have to be filled.
        """
        count = len(slots) or body.count
        candidates = names if body.candidates is None else body.candidates
        if count > (len(names) if slots else len(candidates)):
            raise PolicyError(f"count: got {count}, expected at most the {len(names)} candidates that can be shown")
        user_id = user_id_of(body.visitor_id)
        if not slots:
            return [Slot(visitor.features, user_id=user_id)] * min(count, len(names))
        places = {name: place for place, name in enumerate(names)}
        to_fill = []
        for slot, features in zip(slots, visitor.by_slot, strict=True):
            excluded_places = tuple(places[name] for name in slot.excluded if name in places)
            to_fill.append(Slot(features, places.get(slot.baseline), excluded_places, user_id))
        return to_fill

    def _asked(self, task: ArmTask) -> tuple[Policy | None, Sequence[Slot], RequestCandidates, float]:
        """Return what `draw` takes of an arm: who decides on what, and the share of draws that is even."""
        exploration = self._current.settings.exploration
        policy: Policy | None = task.arm.model.policy
        if self._current.settings.mode != "online":
            policy = None
            exploration = 0.0
        elif self._current.is_warming_up:
            policy = None
            exploration = max(exploration, EXPLORATION)
        return policy, task.slots, task.offer.candidates, exploration
