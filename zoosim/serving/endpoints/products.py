"""Decisions on products: draw what to show from the policy that is current, and say what the log shall hold of it."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import ClassVar

import msgspec

from zoosim.core.errors import PolicyError
from zoosim.core.parameters import unknown
from zoosim.serving.arms import mixture_of
from zoosim.serving.bodies import DecideBody, DecisionAnswer, ProductBody, Shown, SlotBody, Value, hash_of
from zoosim.serving.candidate_sources import CandidateSource, Listed
from zoosim.serving.clipped import ClippedColumns
from zoosim.serving.current import ServedArm
from zoosim.serving.described import Contents, Descriptions
from zoosim.serving.endpoints.base import TRIAL, Endpoint, ServiceParts, answered_arm
from zoosim.serving.endpoints.product_pages import Asked, DrawnPage, draw_page, page_chances
from zoosim.serving.endpoints.product_tasks import ArmTask, TaskMaker, has_same_products, trial_candidates
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
    unpack_floats,
    unpack_whole,
)
from zoosim.serving.fresh import EXPLORATION
from zoosim.serving.ids import product_id
from zoosim.serving.inputs import KnownDescriptions, RequestInputs, refuse
from zoosim.serving.products import ProductFinder
from zoosim.serving.ranker import Drawn, Units, draw
from zoosim.serving.shop_rules.candidates import check_pins
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
        self._maker = TaskMaker(parts.current, parts.clock)

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
        sources = await self._sources(body, slots, contents)
        # Nothing is awaited from the draw to the record: model, state and probabilities are of one moment.
        inputs = self._inputs(body, slots, contents)
        decision, answer = self._decide_among(sources, slots, inputs, body, request, decision_id)
        self._clipped.note(inputs.visitors)
        if not self._current.is_warming_up:
            self.inputs.note(inputs.deviations)
            if not takes_any_columns:
                answer.warnings = self._warnings(inputs)
        return decision, answer

    def _inputs(self, body: DecideBody, slots: Sequence[SlotBody], contents: Contents) -> RequestInputs:
        """Return what a request holds, beside the schema, which all arms have."""
        fitted = self._current.model.fitted
        # While there is no schema, columns are kept as they come, and each request is looked at for those that cannot.
        known = Descriptions[bool]() if self._current.is_warming_up else self._known.of(fitted)
        return RequestInputs.of(body, slots, fitted, contents, known)

    def _refuse_deviations(self, inputs: RequestInputs) -> None:
        """Refuse what the model was not made for: `PolicyError`."""
        if inputs.deviations and not self._current.is_warming_up:
            self.inputs.note(inputs.deviations)
            refuse(self._warnings(inputs))

    def _warnings(self, inputs: RequestInputs) -> list[str]:
        """Describe what of a request the model was not made for."""
        return inputs.warnings(self._parts.grows()) if inputs.deviations else []

    async def _sources(
        self, body: DecideBody, slots: Sequence[SlotBody], contents: Contents
    ) -> dict[str, CandidateSource | PolicyError]:
        """Return where each arm's candidates come from, once the log holds those of the request, or why it has none."""
        if body.candidates is None:
            return {name: arm.source for name, arm in self._current.deciding.items()}
        check_slots = partial(self._maker.check_slots, body, slots)
        while True:
            arms = self._current.arms
            sources: dict[str, CandidateSource | PolicyError] = {}
            for name, arm in self._current.deciding.items():
                try:
                    usable = await self._products.usable(arm, contents, check_slots)
                    sources[name] = Listed(arm.catalogue.candidates(usable.versions), usable.ignored)
                except PolicyError as error:
                    sources[name] = error
            if self._current.arms is arms:  # else another model may decide, which reads other features
                return sources

    def _decide_among(
        self,
        sources: Mapping[str, CandidateSource | PolicyError],
        slots: Sequence[SlotBody],
        inputs: RequestInputs,
        body: DecideBody,
        request: bytes,
        decision_id: str,
    ) -> tuple[ProductDecision, DecisionAnswer]:
        """Return the record and the answer of a decision; moves no state, and stores nothing.

        Args:
            sources: Where the candidates of each arm come from, by its name, or why it cannot decide.
            inputs: What the request holds, beside the schema, which all arms have.
            slots, body, request, decision_id: As in `decide`.
        """
        made = self._maker.tasks(sources, body, slots, inputs.visitors)
        tasks = made.tasks
        units = Units(self._parts.secret, decision_id)

        def decide(arm: ServedArm) -> DrawnPage:
            if arm.name in made.failures:
                raise made.failures[arm.name]
            return draw_page(tasks[arm.name], self._asked(arm), units)

        arm, page = self.decided(body, decision_id, decide, made.refusals, made.seconds)
        weight, mixture = self._mixture(tasks, arm, page, body.visitor_id, decision_id)
        task = page.task
        drawn = page.drawn
        candidates = task.offer.candidates
        are_retrieved = any(each.pool is not None for each in tasks.values())
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
            products=page.products,
            turn=arm.start.turn,
            excluded=drawn.excluded,
            baseline=drawn.baseline,
            agrees=self._agrees(task, drawn, units),
            ignored=list(task.offer.ignored),
            arm=arm.name,
            mixture=mixture,
            rules=task.rules_applied(drawn),
            source=page.source(weight) if are_retrieved else None,
            marginals=page.marginals if are_retrieved else [],
        )
        return decision, answer_of(decision_id, decision, candidates.names)

    def _mixture(
        self, tasks: Mapping[str, ArmTask], decided: ServedArm, page: DrawnPage, visitor_id: str, decision_id: str
    ) -> tuple[float, list[float]]:
        """Return how likely the arm was to decide, and how likely its page was before an arm was drawn.

        Each product given those above it; empty where no other arm would have decided. Where all candidates come from
        the request, only arms count that would have decided among the same ones, as the log has no others.

        Args:
            tasks: What each arm had to fill.
            decided: The arm that decided.
            page: What it showed.
            visitor_id, decision_id: What the arm was drawn for.
        """
        if len(tasks) == 1:
            return 1.0, []
        # It failed where another one decided.
        assigned = self._current.assignment.arm_for(visitor_id, decision_id)
        candidates = page.task.offer.candidates.names
        are_retrieved = any(task.pool is not None for task in tasks.values())
        by_arm = {decided.name: page.marginals if are_retrieved else page.drawn.chances}
        able = [decided.name]
        for name, task in tasks.items():
            if name in (decided.name, assigned):
                continue
            try:
                own_chances = page_chances(task, page.products, self._asked(task.arm))
            except Exception:  # it would have left the decision to the champion
                continue
            able.append(name)
            if are_retrieved or has_same_products(candidates, task.offer.candidates.names):
                by_arm[name] = own_chances
        # Arms that would have decided among other candidates are able, too: they leave nothing to the champion.
        weights = self._current.assignment.weights(able)
        if len(by_arm) == 1:
            return weights[decided.name], []
        return weights[decided.name], mixture_of({name: weights[name] for name in by_arm}, by_arm)

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
        few = {name: Listed(trial_candidates(arm), []) for name, arm in arms.items()}
        names = trial_candidates(self._current.champion).names
        self._try(few, DecideBody(visitor, list(names), count=min(2, len(names))))
        if self._current.catalogue.n_shown:
            self._try({name: arm.source for name, arm in arms.items()}, DecideBody(visitor, count=min(2, len(names))))

    def _try(self, sources: Mapping[str, CandidateSource], body: DecideBody) -> None:
        inputs = self._inputs(body, (), Contents(body.candidates))
        record, answer = self._decide_among(sources, (), inputs, body, hash_of(body), TRIAL)
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
        return arm.catalogue.names_of(versions) if arm.catalogue.has_all(versions) else None

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

    def _asked(self, arm: ServedArm) -> Asked:
        """Return who decides for an arm, and the share of draws that is even."""
        exploration = self._current.settings.exploration
        if self._current.settings.mode != "online":
            return Asked(None, 0.0)
        if self._current.is_warming_up:
            return Asked(None, max(exploration, EXPLORATION))
        return Asked(arm.model.policy, exploration)


def answer_of(decision_id: str, decision: ProductDecision, names: Sequence[str] | None) -> DecisionAnswer:
    """Return what is answered; without the candidates' `names`, with the probabilities of what was shown alone."""
    propensities = unpack_floats(decision.propensities).tolist()
    if names is None:
        by_product = {name: propensities[place] for name, place in zip(decision.products, decision.shown, strict=True)}
    else:
        by_product = dict(zip(names, propensities, strict=True))
    chances = decision.marginals or decision.chances
    answer = DecisionAnswer(
        decision_id=decision_id,
        shown=[Shown(name, chance) for name, chance in zip(decision.products, chances, strict=True)],
        propensities=by_product,
        model=decision.model,
        state=decision.state,
        ignored=decision.ignored,
        arm=answered_arm(decision),
    )
    rules = decision.rules
    if rules is not None:
        answer.pinned = [number + 1 for number in rules.pinned]
        answer.lifted = rules.lifted
        if names is not None:
            answer.barred = {rule: [names[place] for place in places] for rule, places in rules.barred.items()}
    return answer
