"""Tasks of arms in a decision on products: what each has to fill from what."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

import msgspec
import numpy as np

from zoosim.core.errors import PolicyError
from zoosim.core.types import NOBODY, FloatArray, frozen
from zoosim.policies.model import product_ids
from zoosim.ranking.caps import GroupCap
from zoosim.schema.encoder import Reading
from zoosim.serving.bodies import DecideBody, SlotBody
from zoosim.serving.candidate_sources import CandidateSource, Offer, Pool, Sought
from zoosim.serving.catalogue import RequestCandidates
from zoosim.serving.clock import Clock
from zoosim.serving.current import Current, ServedArm
from zoosim.serving.events import AppliedRules
from zoosim.serving.ids import user_id_of
from zoosim.serving.places import Slot, can_fill, check_slots
from zoosim.serving.ranker import Drawn
from zoosim.serving.shop_rules.candidates import RuledCandidates, VisitorPast, apply_rules, with_request
from zoosim.serving.shop_rules.settings import ShopRules


class EncodedVisitor(NamedTuple):
    """The visitor of a request, as policies know one.

    Attributes:
        features: The features `(d_u,)`.
        by_slot: Those with what is known of each slot, where slots differ.
        user_id: The number by which they know who it is.
    """

    features: FloatArray
    by_slot: list[FloatArray]
    user_id: int


class Page(NamedTuple):
    """What a request wants filled, and under which rules; the same for all arms."""

    body: DecideBody
    slots: Sequence[SlotBody]
    visitor: EncodedVisitor
    rules: ShopRules
    past: VisitorPast

    @property
    def sought(self) -> Sought:
        """What it seeks candidates for."""
        n_places = len(self.slots) or self.body.count
        return Sought(self.visitor.features, self.visitor.user_id, n_places, self.rules, self.past)


class ArmTask(NamedTuple):
    """The slots that an arm has to fill, from what, and for whom.

    Attributes:
        arm: The arm.
        offer: The candidates.
        page: What the request wants.
        slots: The slots.
        ruled: What the rules of the shop leave; None where there are none.
        pool: The products of which one may be drawn to the top instead, where the candidates were retrieved; else None.
    """

    arm: ServedArm
    offer: Offer
    page: Page
    slots: list[Slot]
    ruled: RuledCandidates | None = None
    pool: Pool | None = None

    @property
    def visitor(self) -> FloatArray:
        """The visitor's features `(d_u,)`."""
        return self.page.visitor.features

    @property
    def caps(self) -> Sequence[GroupCap]:
        """The caps on the page."""
        return self.ruled.caps if self.ruled else ()

    def rules_applied(self, drawn: Drawn) -> AppliedRules | None:
        """Return what the rules of the shop did to a draw; None where they did nothing."""
        if self.ruled is None:
            return None
        pinned = [number for number in range(len(drawn.shown)) if number in self.ruled.pins]
        applied = msgspec.structs.replace(self.ruled.applied, pinned=pinned, closed=drawn.closed)
        return None if applied == AppliedRules() else applied

    def led_by(self, product: str) -> "ArmTask":
        """Return the same task with a product of the pool at the top: the one candidate of a page of one place."""
        candidates = self.arm.catalogue.with_product(self.offer.candidates, product, alone=len(self.slots) == 1)
        led = _task_among(self.arm, self.offer._replace(candidates=candidates), self.page, len(self.slots))
        first = led.slots[0]._replace(pin=candidates.names.index(product))
        return ArmTask(self.arm, led.offer, self.page, [first, *led.slots[1:]], led.ruled)


class ArmTasks(NamedTuple):
    """What arms have to do for a request, each by the name of the arm.

    Attributes:
        tasks: The tasks.
        refusals: Why others cannot decide on such a request.
        failures: What went wrong where others looked for candidates.
        seconds: How long each that looked for candidates took.
    """

    tasks: dict[str, ArmTask]
    refusals: dict[str, PolicyError]
    failures: dict[str, Exception]
    seconds: dict[str, float]


class TaskMaker:
    """Makes the tasks of arms from what a request holds."""

    def __init__(self, current: Current, clock: Clock) -> None:
        """Make tasks by what a service decides by now, at the times of its clock."""
        self._current = current
        self._clock = clock

    def tasks(
        self,
        sources: Mapping[str, CandidateSource | PolicyError],
        body: DecideBody,
        slots: Sequence[SlotBody],
        visitors: Sequence[Reading],
    ) -> ArmTasks:
        """Return what each arm has to fill from what, or why it cannot.

        Args:
            sources: Where the candidates of each arm come from, by its name, or why it has none.
            body: The request.
            slots: What is to be filled where slots differ.
            visitors: The visitor of the request as all arms read it; of slots that differ, of each.
        """
        page = self._page(body, slots, visitors)
        sought = page.sought
        made = ArmTasks({}, {}, {}, {})
        for name, source in sources.items():
            if isinstance(source, PolicyError):
                made.refusals[name] = source
                continue
            began = self._clock.passed()
            try:
                offer = source.offer(sought)
            except Exception as error:  # a policy of the user's own that retrieves may raise anything
                made.failures[name] = error
                continue
            finally:
                made.seconds[name] = self._clock.passed() - began
            try:
                made.tasks[name] = self._task(self._current.arms[name], offer, page)
            except PolicyError as error:
                made.refusals[name] = error
        return made

    def check_slots(self, body: DecideBody, slots: Sequence[SlotBody], names: Sequence[str]) -> None:
        """Refuse a request whose slots candidates of these names cannot fill: `PolicyError`."""
        nothing = np.zeros(0)
        visitor = EncodedVisitor(nothing, [nothing] * len(slots), NOBODY)
        check_slots(_slots(body, slots, visitor, names, len(names)), len(names))

    def _page(self, body: DecideBody, slots: Sequence[SlotBody], visitors: Sequence[Reading]) -> Page:
        """Return what a request wants filled."""
        rules = with_request(self._current.settings.shop_rules, body.pins, body.forbidden)
        past = VisitorPast()
        if rules.are_set:
            past = self._current.history.past(body.visitor_id, self._clock.now())
        return Page(body, slots, self._encoded(body, slots, visitors), rules, past)

    def _task(self, arm: ServedArm, offer: Offer, page: Page) -> ArmTask:
        """Return what an arm has to fill from candidates; raises `PolicyError` where it cannot."""
        if not offer.candidates.names:
            raise PolicyError("candidates: got none, expected at least one product that may be shown")
        task = _task_among(arm, offer, page)
        return task if offer.retrieved is None else self._with_pool(task)

    def _with_pool(self, task: ArmTask) -> ArmTask:
        """Return a task whose candidates were retrieved, with what exploration draws from instead."""
        settings = self._current.settings
        if settings.mode != "online":
            reason = f"in the mode {settings.mode} the shop's own choice is shown, the first of them"
            raise PolicyError(f"candidates: got none, expected those of the shop; {reason}")
        assert task.offer.retrieved is not None
        retrieval, pool = task.offer.retrieved
        share = 1.0 - (1.0 - settings.exploration) * (1.0 - retrieval.spread)
        pins = task.ruled.pins if task.ruled else {}
        # Where pinned products below it may close the top to some groups of products by caps on the page, nobody knows
        # how many products are left without a look at all of them.
        is_open = 0 not in pins and not (pins and task.caps) and pool.size > 0
        known = None
        if is_open:
            pool = pool._replace(share=share)
            known = np.zeros(len(task.offer.candidates.names))
            known[: len(retrieval.propensities)] = retrieval.propensities
        first = task.slots[0]._replace(known=known, explores=not is_open)
        return ArmTask(task.arm, task.offer, task.page, [first, *task.slots[1:]], task.ruled, pool)

    def _encoded(self, body: DecideBody, slots: Sequence[SlotBody], visitors: Sequence[Reading]) -> EncodedVisitor:
        """Encode the visitor of a request by the schema that all arms have."""
        features = [frozen(visitor.features()) for visitor in visitors]
        user_id = user_id_of(body.visitor_id)
        if not slots:
            return EncodedVisitor(features[0], [], user_id)
        encoder = self._current.model.fitted.visitors
        return EncodedVisitor(frozen(encoder.encode_one(body.visitor)), features, user_id)


def _task_among(arm: ServedArm, offer: Offer, page: Page, count: int = 0) -> ArmTask:
    """Return what an arm has to fill from candidates, under the rules of the shop: `count` places, 0 for as asked."""
    to_fill = _slots(page.body, page.slots, page.visitor, offer.candidates.names, offer.n_products, count)
    if not page.rules.are_set:
        return ArmTask(arm, offer, page, to_fill)
    ruled = _ruled(arm, offer.candidates, page, to_fill)
    if not page.slots:
        to_fill = [slot._replace(pin=ruled.pins.get(number)) for number, slot in enumerate(to_fill[: ruled.most])]
    return ArmTask(arm, offer._replace(candidates=ruled.candidates), page, to_fill, ruled)


def _ruled(arm: ServedArm, candidates: RequestCandidates, page: Page, to_fill: Sequence[Slot]) -> RuledCandidates:
    """Return what rules leave of candidates; raises `PolicyError` where slots that differ cannot follow them."""
    encoder = arm.model.fitted.products
    if not page.slots:
        return apply_rules(page.rules, candidates, encoder, len(to_fill), page.past, n_places=page.body.count)
    if page.rules.per_page or page.rules.pinned:
        raise PolicyError("slots: got slots that differ, for which per_page and pinned cannot hold; leave these out")
    return apply_rules(page.rules, candidates, encoder, len(to_fill), page.past, partial(can_fill, to_fill))


def _slots(
    body: DecideBody,
    slots: Sequence[SlotBody],
    visitor: EncodedVisitor,
    names: Sequence[str],
    n_products: int,
    count: int = 0,
) -> list[Slot]:
    """Return what is to be filled from candidates of these names; raises `PolicyError` for too many slots.

    Where candidates of the request are ignored, or rules leave fewer of the `n_products` that could be candidates,
    fewer products are shown than it asked for; slots that differ all have to be filled.
    """
    count = count or len(slots) or body.count
    most = n_products if body.candidates is None else len(body.candidates)
    if count > (len(names) if slots else most):
        raise PolicyError(f"count: got {count}, expected at most the {n_products} candidates that can be shown")
    if not slots:
        return [Slot(visitor.features, user_id=visitor.user_id)] * min(count, len(names))
    places = {name: place for place, name in enumerate(names)}
    to_fill = []
    for slot, features in zip(slots, visitor.by_slot, strict=True):
        excluded_places = tuple(places[name] for name in slot.excluded if name in places)
        to_fill.append(Slot(features, places.get(slot.baseline), excluded_places, visitor.user_id))
    return to_fill


def has_same_products(names: tuple[str, ...], other_names: tuple[str, ...]) -> bool:
    """Return whether candidates are the same products, in whichever order."""
    return other_names == names or set(other_names) == set(names)


def trial_candidates(arm: ServedArm) -> RequestCandidates:
    """Return a few products; of an arm without a catalogue two that are made up."""
    names = arm.catalogue.names()[:2]
    if not names:
        made_up = ("a", "b")
        features = frozen(np.zeros((2, arm.model.fitted.products.width)))
        return RequestCandidates(frozen(np.array([-1, -2])), made_up, product_ids(made_up), features)
    return arm.catalogue.candidates([version for name in names if (version := arm.catalogue.version_of(name))])
