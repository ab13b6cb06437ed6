"""What a service has learned, computed from its log alone: the same rows give the same state, to the bit."""

import json
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from zoosim.core.config import build
from zoosim.core.errors import DataError
from zoosim.core.types import Context, frozen
from zoosim.policies.boost_model import BoostModel
from zoosim.policies.model import ID, Model, product_ids
from zoosim.serving.catalogue import Candidates, ServedCatalogue
from zoosim.serving.events import (
    Decision,
    Feedback,
    Kind,
    Product,
    RawRequest,
    Row,
    Search,
    Start,
    row_checksum,
    unpack,
    unpack_floats,
    unpack_raw,
    unpack_whole,
)
from zoosim.serving.join import Closing, Join, SearchJoin
from zoosim.serving.rules import Rules
from zoosim.serving.searches import learn_search

EVERY_REWARD = (-1e9, 1e9)

WARM_UP, GROWN_FROM = "warm_up", "grown_from"
"""Facts of a model: it stands in while a schema is inferred; it grew from the requests of the one with this digest."""

JUDGED, AGREED = "apprentice decisions", "apprentice agreements"
"""Counts of decisions that an apprentice was asked about, and of those that it would have made alike."""


def context_of(visitor: Any, candidates: Candidates) -> Context:
    """Return a request as policies see it: the visitor's features `(d_u,)`, and candidates that may all be shown."""
    return Context(
        user_id=0,
        user=visitor,
        product_ids=candidates.ids,
        products=candidates.features,
        available=candidates.available,
    )


class Replica:
    """A model's policy, its products and its open decisions, as they are after some rows of the log.

    Attributes:
        position: The row up to which the log has been read.
        checksum: The checksum of that row.
        start: What the log says of the model and the rules; None before its first row.
        early: What was over before there was a schema: the policy that grows from the first requests learns it.
        known_versions: The versions of products that the policy has met as candidates.
        counts: What came of learning.
    """

    def __init__(self, load_model: Callable[[str], Model], find_row: Callable[[int], Row | None]) -> None:
        """Start before the first row.

        Args:
            load_model: Returns the model with a digest.
            find_row: Returns the row of the log at a position, None where it is gone.
        """
        self._load_model = load_model
        self._find_row = find_row
        self.position = 0
        self.checksum = b""
        self.start: Start | None = None
        self.known_versions: set[int] = set()
        self.counts: Counter[str] = Counter()
        self.early: list[Closing] = []
        self.model: Model
        self.catalogue: ServedCatalogue
        self.join: Join

    @property
    def rules(self) -> Rules:
        """The rules by which it learns."""
        return self.join.rules

    def apply(self, row: Row) -> None:
        """Read the next row of the log."""
        if row.seq <= self.position:
            raise DataError(
                f"log of the service: got row {row.seq:,} behind row {self.position:,}, expected a later one"
            )
        _READERS[row.kind](self, row)
        self.position = row.seq
        self.checksum = row_checksum(row)

    def follow(self, row: Row) -> None:
        """Read the next row as one who decides alone: for the model and its products, and nothing that is learned."""
        if row.kind in (Kind.START, Kind.PRODUCT):
            self.apply(row)
        else:
            self.position = row.seq

    def begin(self, start: Start) -> None:
        """Go on with another model, from what its file holds, or with other rules."""
        rules = build(Rules, rules_of(start), "log of the service: rules")
        if self.start is None or self.start.origin != start.origin:
            self._take_model(start)
        self.join.rules = rules
        self.start = start

    def _take_model(self, start: Start) -> None:
        """Go on with a model as its file holds it; one that grew from the first requests learns what they earned."""
        before = None if self.start is None else self.start.model
        self.model = self._load_model(start.model)
        hidden = [] if self.start is None else self.catalogue.hidden()
        self.catalogue = ServedCatalogue(self.model.catalogue, hidden)
        self.known_versions = set()
        if before is not None and self.model.facts.get(GROWN_FROM) == before:
            self._learn_early()
        else:
            join = SearchJoin if isinstance(self.model, BoostModel) else Join
            self.join = join(Rules(), dict(self.model.fitted.weights))
            self.early = []

    def forget_decisions(self) -> None:
        """Forget what is open or waits for a schema: a replica that decides alone learns nothing of it."""
        self.early = []
        if self.start is not None:
            self.join = type(self.join)(self.join.rules, dict(self.model.fitted.weights))

    def _learn_early(self) -> None:
        early, self.early = self.early, []
        for seq in sorted({closing.seq for closing in early} | self.join.rows()):
            row = self._find_row(seq)
            if row is not None:
                self._note(_decision_in(row))
        for closing in early:
            self._learn(closing)

    def _start(self, row: Row) -> None:
        start = unpack(row)
        assert isinstance(start, Start)
        self.begin(start)

    def change_product(self, row: Row) -> None:
        """Take over what a row says of a product."""
        product = unpack(row)
        assert isinstance(product, Product)
        if self.start is not None and product.model == self.start.model:
            self.catalogue.change(row.seq, product)

    def _decide(self, row: Row) -> None:
        decision = _decision_in(row)
        if self._is_learned(decision) and self._knows_products(decision):
            self.join.decide(row, decision)
            self._count_agreement(decision)
            self._note(decision)

    def _count_agreement(self, decision: Decision) -> None:
        if decision.agrees is not None:
            self.counts[JUDGED] += 1
            self.counts[AGREED] += decision.agrees

    def _search(self, row: Row) -> None:
        search = unpack(row)
        assert isinstance(search, Search)
        if self._is_learned(search):
            self.join.decide(row, search)

    def _knows_products(self, decision: Decision) -> bool:
        """Whether the log has what a decision rests on, which a server may lose."""
        if decision.raw or self.catalogue.has_all(unpack_whole(decision.versions).tolist()):
            return True
        self.counts["of unknown products"] += 1
        return False

    def _is_learned(self, decision: Decision | Search) -> bool:
        """Whether the policy learns from a decision: not if a service made it that had not read of this model yet."""
        assert self.start is not None
        if decision.origin != self.start.origin:
            self.counts["of an earlier model"] += 1
            return False
        return self.rules.mode != "logging-only" and not decision.is_forgotten

    def _earn(self, row: Row) -> None:
        feedback = unpack(row)
        assert isinstance(feedback, Feedback)
        self.join.earn(row, feedback)

    def _activate(self, row: Row) -> None:
        self.join.activate(row)

    def _tick(self, row: Row) -> None:
        for closing in self.join.tick(row.time):
            self._learn(closing)

    def _learn(self, closing: Closing) -> None:
        """Let the policy learn what a decision earned."""
        if WARM_UP in self.model.facts:
            self.early.append(closing)
            return
        row = self._find_row(closing.seq)
        if row is None:
            self.counts["gone"] += 1
            return
        if not self.model.policy.learns_online:
            return
        self._move(partial(self._teach, unpack(row), closing))

    def _teach(self, decision: Any, closing: Closing) -> None:
        if decision.is_forgotten:
            self.counts["forgotten"] += 1
            return
        if isinstance(decision, Search):
            assert isinstance(self.model, BoostModel)
            learn_search(self.model, decision, closing)
            self.counts["learned"] += 1
            return
        assert isinstance(decision, Decision)
        policy = self.model.policy
        reward = self.rules.stretched(closing.reward, *getattr(policy, "rewards", EVERY_REWARD))
        policy.update(*self.shown_in(decision, closing.slot), reward)
        self.counts["learned"] += 1

    def _note(self, decision: Decision) -> None:
        """Let the policy move what a decision moves."""
        if WARM_UP in self.model.facts or decision.is_forgotten:
            return
        versions = set() if decision.raw else set(unpack_whole(decision.versions).tolist())
        are_known = self.known_versions.issuperset(versions)
        self.known_versions |= versions
        for slot in range(len(decision.shown)):
            # The policy meets all candidates once, so that it has numbered them when it is asked about them.
            context, action = self.shown_in(decision, slot, alone=are_known)
            self._move(partial(self.model.policy.note_decision, context, action))

    def shown_in(self, decision: Decision, slot: int, alone: bool = True) -> tuple[Context, int]:
        """Return a request and the action in a slot of it.

        That for the one product is enough where a policy learns of it, as it keeps it by its id.
        """
        action = decision.shown[slot]
        if decision.raw:
            return raw_context(self.model, unpack_raw(decision.raw), slot), action
        versions = unpack_whole(decision.versions).tolist()
        visitor = frozen(np.array(unpack_floats(decision.visitor_in(slot))))
        if alone:
            return context_of(visitor, self.catalogue.candidates([versions[action]])), 0
        return context_of(visitor, self.catalogue.candidates(versions)), action

    def _move(self, move: Callable[[], None]) -> None:
        """Do what moves the policy; what it refuses is counted, and nothing stops."""
        try:
            move()
        except Exception:
            self.counts["refused by the policy"] += 1


def raw_context(model: Model, request: RawRequest, slot: int) -> Context:
    """Return a request as it came as policies see it in a slot, by the schema of a model."""
    names = tuple(name for name, _ in request.candidates)
    encoder = model.fitted.products
    features = np.array([encoder.encode_one({**columns, ID: name}) for name, columns in request.candidates], float)
    candidates = Candidates(
        np.zeros(len(names), np.int64), names, product_ids(names), frozen(features.reshape(len(names), -1))
    )
    columns = request.visitors[slot if slot < len(request.visitors) else 0]
    return context_of(frozen(model.fitted.visitors.encode_one(columns)), candidates)


def _decision_in(row: Row) -> Decision:
    decision = unpack(row)
    assert isinstance(decision, Decision)
    return decision


def rules_of(start: Start) -> dict[str, Any]:
    """Return the rules of a start, as plain values."""
    return dict(json.loads(start.rules))


_READERS: dict[Kind, Callable[[Replica, Row], None]] = {
    Kind.START: Replica._start,
    Kind.PRODUCT: Replica.change_product,
    Kind.DECISION: Replica._decide,
    Kind.SEARCH: Replica._search,
    Kind.FEEDBACK: Replica._earn,
    Kind.ACTIVATION: Replica._activate,
    Kind.TICK: Replica._tick,
}
