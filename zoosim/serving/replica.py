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
from zoosim.policies.model import Model
from zoosim.serving.catalogue import Candidates, ServedCatalogue
from zoosim.serving.events import (
    Decision,
    Feedback,
    Kind,
    Product,
    Row,
    Search,
    Start,
    unpack,
    unpack_floats,
    unpack_whole,
)
from zoosim.serving.join import Closing, Join, SearchJoin
from zoosim.serving.rules import Rules
from zoosim.serving.searches import learn_search

EVERY_REWARD = (-1e9, 1e9)


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
        start: What the log says of the model and the rules; None before its first row.
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
        self.start: Start | None = None
        self.known_versions: set[int] = set()
        self.counts: Counter[str] = Counter()
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

    def begin(self, start: Start) -> None:
        """Go on with another model, from what its file holds, or with other rules."""
        rules = build(Rules, rules_of(start), "log of the service: rules")
        if self.start is None or self.start.model != start.model:
            self.model = self._load_model(start.model)
            self.catalogue = ServedCatalogue(self.model.catalogue)
            join = SearchJoin if isinstance(self.model, BoostModel) else Join
            self.join = join(rules, dict(self.model.fitted.weights))
            self.known_versions = set()
        self.join.rules = rules
        self.start = start

    def _start(self, row: Row) -> None:
        start = unpack(row)
        assert isinstance(start, Start)
        self.begin(start)

    def _change_product(self, row: Row) -> None:
        product = unpack(row)
        assert isinstance(product, Product)
        self.catalogue.change(product)

    def _decide(self, row: Row) -> None:
        decision = unpack(row)
        assert isinstance(decision, Decision)
        if self.rules.mode == "logging-only":
            return
        self.join.decide(row, decision)
        versions = unpack_whole(decision.versions).tolist()
        are_known = self.known_versions.issuperset(versions)
        self.known_versions.update(versions)
        for place in decision.shown:
            # The policy meets all candidates once, so that it has numbered them when it is asked about them.
            candidates, action = ([versions[place]], 0) if are_known else (versions, place)
            context = self._context(decision.visitor, candidates)
            self._move(partial(self.model.policy.note_decision, context, action))

    def _search(self, row: Row) -> None:
        search = unpack(row)
        assert isinstance(search, Search)
        if self.rules.mode != "logging-only":
            self.join.decide(row, search)

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
        row = self._find_row(closing.seq)
        if row is None:
            self.counts["gone"] += 1
            return
        if not self.model.policy.learns_online:
            return
        self._move(partial(self._teach, unpack(row), closing))
        self.counts["learned"] += 1

    def _teach(self, decision: Any, closing: Closing) -> None:
        if isinstance(decision, Search):
            assert isinstance(self.model, BoostModel)
            learn_search(self.model, decision, closing)
            return
        assert isinstance(decision, Decision)
        policy = self.model.policy
        reward = self.rules.stretched(closing.reward, *getattr(policy, "rewards", EVERY_REWARD))
        version = int(unpack_whole(decision.versions)[decision.shown[closing.slot]])
        policy.update(self._context(decision.visitor, [version]), 0, reward)

    def _context(self, visitor: bytes, versions: list[int]) -> Context:
        """Return a request; that for one product is enough where a policy learns of it, as it keeps it by its id."""
        return context_of(frozen(np.array(unpack_floats(visitor))), self.catalogue.candidates(versions))

    def _move(self, move: Callable[[], None]) -> None:
        """Do what moves the policy; what it refuses is counted, and nothing stops."""
        try:
            move()
        except Exception:
            self.counts["refused by the policy"] += 1


def rules_of(start: Start) -> dict[str, Any]:
    """Return the rules of a start, as plain values."""
    return dict(json.loads(start.rules))


_READERS: dict[Kind, Callable[[Replica, Row], None]] = {
    Kind.START: Replica._start,
    Kind.PRODUCT: Replica._change_product,
    Kind.DECISION: Replica._decide,
    Kind.SEARCH: Replica._search,
    Kind.FEEDBACK: Replica._earn,
    Kind.ACTIVATION: Replica._activate,
    Kind.TICK: Replica._tick,
}
