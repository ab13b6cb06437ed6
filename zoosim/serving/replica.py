"""Projection of the log to what the model has learned; the same rows give the same state, to the bit."""

import json
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from typing import Annotated, Any

import msgspec

from zoosim.action_spaces.registry import find_action_space
from zoosim.core.config import build
from zoosim.core.errors import DataError
from zoosim.core.types import FloatArray
from zoosim.policies.model import Model
from zoosim.serving.catalogue import ServedCatalogue
from zoosim.serving.events import (
    CHAMPION,
    HOLDBACK,
    Choice,
    Feedback,
    Kind,
    Product,
    ProductDecision,
    Row,
    Start,
    row_checksum,
    unpack,
    unpack_floats,
)
from zoosim.serving.join import Closing, Join
from zoosim.serving.learning.base import Learning
from zoosim.serving.projection import Projection
from zoosim.serving.recorded import FeaturesOf, Schemas
from zoosim.serving.rules import Rules
from zoosim.serving.visitors import VisitorBounds

WARM_UP, GROWN_FROM = "warm_up", "grown_from"
"""Facts of a model: it stands in while a schema is inferred; it grew from others, as `Origin` says."""

WAITING = "waiting for a schema"
"""The count of decisions that are over and that no policy has learned yet, as there is no schema."""


class Origin(msgspec.Struct):
    """Origin of a model that grew: the digests of its ancestors, the last one its parent, and a row of their log.

    Its policy has learned from the log up to the row at `position`; `join` are the decisions that were open then.
    """

    ancestors: Annotated[list[str], msgspec.Meta(min_length=1)]
    position: int
    join: dict[str, Any]

    @property
    def parent(self) -> str:
        """The digest of the model whose schema grew."""
        return self.ancestors[-1]


def origin_of(model: Model) -> Origin | None:
    """Return what a model grew from, None for one that did not; raises `DataError`."""
    fact = model.facts.get(GROWN_FROM)
    if fact is None or isinstance(fact, str):  # a text in models of releases that kept no more
        return None
    try:
        origin = msgspec.convert(fact, Origin)
        if origin.join:  # empty while its policy is still being taught
            Join(Rules(), {}).load_state(origin.join)
    except (ValueError, LookupError, TypeError) as error:
        raise DataError(f"{model.source}: what it grew from cannot be read ({error}); restore a backup") from None
    return origin


# Why state is never taken over from a running policy, but computed from rows. A learner may be killed at any row, may
# start again from any older snapshot, and several of them read one log. All come to the same only if nothing enters but
# the rows: no clock, no order of arrival beside that of the log, and what a policy refuses it refuses each time.
# So time passes by tick rows, rules and models change by start rows, and errors are counted instead of raised.
class Replica(Projection):
    """A model's policy, its products and its open decisions, as they are after some rows of the log.

    That of the champion, which reads the log, holds those of the other arms. Each arm learns from its own decisions
    alone: so it is what it would be alone with its share of visitors, and no arm gains by what another one tries.

    Attributes:
        name: The name of the arm.
        others: The replicas of the arms beside the champion, by name.
        learns: Whether the arm learns from its decisions; a holdback does not.
        position: The row up to which the log has been read.
        checksum: The checksum of that row.
        start: What the log says of the model and the rules; None before its first row.
        visitors: How often each visitor decided lately, which bounds what is learned of it.
        counts: What came of learning.
        learning: How the model learns from decisions of its action space.
        features_of: Returns what a product was in a decision of the model's ancestors, as in `Recorded`.
        schemas: The schemas of models.
    """

    def __init__(
        self,
        load_model: Callable[[str], Model],
        find_row: Callable[[int], Row | None],
        features_of: FeaturesOf | None = None,
        name: str = CHAMPION,
    ) -> None:
        """Start before the first row.

        Args:
            load_model: Returns the model with a digest.
            find_row: Returns the row of the log at a position, None where it is gone.
            features_of: Returns what a product was in a decision of the model's ancestors, as in `Recorded`. Default:
                what the log says of those that are newer than the model.
            name: The name of the arm.
        """
        self.name = name
        self.others: dict[str, Replica] = {}
        self.learns = True
        self._load_model = load_model
        self._find_row = find_row
        self.features_of = features_of or self._later_features
        self.schemas = Schemas(load_model)
        self.position = 0
        self.checksum = b""
        self.start: Start | None = None
        self.visitors = VisitorBounds()
        self.counts: Counter[str] = Counter()
        self.model: Model
        self.catalogue: ServedCatalogue
        self.join: Join
        self.learning: Learning

    @property
    def arms(self) -> dict[str, "Replica"]:
        """The replicas of all arms by name, the champion's first."""
        return {self.name: self, **self.others}

    @property
    def origin(self) -> str:
        """Origin of the policy of the arm; see `Start`."""
        assert self.start is not None
        return self.start.origin

    @property
    def rules(self) -> Rules:
        """The rules by which it learns."""
        return self.join.rules

    @property
    def is_warming_up(self) -> bool:
        """True if the model stands in until there is a schema."""
        return WARM_UP in self.model.facts

    def apply(self, row: Row) -> None:
        """Read the next row of the log."""
        if row.seq <= self.position:
            raise DataError(
                f"log of the service: got row {row.seq:,} behind row {self.position:,}, expected a later one"
            )
        super().apply(row)
        self.position = row.seq
        self.checksum = row_checksum(row)

    def begin(self, start: Start, hidden: Iterable[str] = ()) -> None:
        """Go on with another model, from what its file holds, with other arms, or with other rules.

        Args:
            start: How to go on.
            hidden: Products that a new replica may not show.
        """
        # Checked before anything changes.
        rules = build(Rules, rules_of(start), "log of the service: rules")
        if self.start is None or self.start.origin != start.origin:
            self._take_model(start, hidden if self.start is None else self.catalogue.hidden())
        self.join.rules = rules
        self.start = start
        others = {}
        own_starts = start.by_arm()
        for arm in start.arms:
            # An arm that stays keeps what it has learned, also where its share or role changes: `begin` takes the model
            # anew only for another origin.
            other = self.others.get(arm.name) or Replica(self._load_model, self._find_row, name=arm.name)
            other.begin(own_starts[arm.name], self.catalogue.hidden())
            other.learns = arm.role != HOLDBACK
            others[arm.name] = other
        self.others = others

    def _take_model(self, start: Start, hidden: Iterable[str]) -> None:
        """Go on with a model as its file holds it."""
        self.model = self._load_model(start.model)
        self.catalogue = ServedCatalogue(self.model.catalogue, hidden)
        self._origin = origin_of(self.model)
        self._ancestors = frozenset(self._origin.ancestors if self._origin else ())
        self.learning = find_action_space(self.model.action_space).learning(self)
        self.join = self.learning.join(Rules(), dict(self.model.fitted.weights))

    def forget_decisions(self) -> None:
        """Forget what is open, and who decided: a replica that decides alone learns nothing of it."""
        for arm in self.arms.values():
            arm.visitors = VisitorBounds()
            if arm.start is not None:
                arm.join = arm.learning.join(arm.rules, dict(arm.model.fitted.weights))

    def learns_from(self, decision: Choice) -> bool:
        """Return whether this arm made a decision, by the model that it has, or one that this grew from."""
        assert self.start is not None
        if decision.arm != self.name:
            return False
        return decision.origin == self.start.origin or decision.model in self._ancestors

    def on_start(self, row: Row, start: Start) -> None:
        """Go on as a start says; a model that grew learns what came since then."""
        before = self.start
        self.begin(start)
        origin = self._origin
        is_new = before is None or before.origin != start.origin
        if is_new and before is not None and origin is not None and before.model == origin.parent:
            self._learn_since(origin, row)

    def _learn_since(self, origin: Origin, start: Row) -> None:
        """Learn, with a policy that grew, from the rows between those from which it grew and its start."""
        # The rows since the model grew were read already, for the policy that it replaces. Its own policy must learn
        # from them now, and nothing else may count them twice: so the rest is set aside, and put back at the end.
        counts, rules, visitors, others = self.counts.copy(), self.rules, self.visitors, self.others
        self.others = {}  # which have read these rows
        self.visitors = VisitorBounds()  # as these rows are counted already
        self.join.load_state(origin.join)
        for seq in range(origin.position + 1, start.seq):
            row = self._find_row(seq)
            if row is not None:
                self.relearn(row)
        self.join.rules = rules
        self.visitors = visitors
        self.others = others
        self.counts = counts
        self.counts["learned"] += self.counts.pop(WAITING, 0)

    def relearn(self, row: Row) -> None:
        """Learn from a row that the model's ancestors learned from, or would have."""
        if row.kind is Kind.START:
            self.join.rules = build(Rules, rules_of(unpack(row)), "log of the service: rules")
        elif row.kind is not Kind.PRODUCT:
            super().apply(row)

    def _later_features(self, decision: ProductDecision, version: int) -> FloatArray | None:
        """Return the features of a version that is newer than the grown model, and which its catalogue lacks."""
        grown_at = self._origin.position if self._origin else 0
        row = self._find_row(version) if version > grown_at else None
        if row is None or row.kind is not Kind.PRODUCT:
            return None
        product: Product = unpack(row)
        return unpack_floats(product.features) if product.model == decision.model else None

    def on_product(self, row: Row, product: Product) -> None:
        """Take over what a row says of a product."""
        for arm in self.arms.values():
            arm._change_product(row, product)

    def _change_product(self, row: Row, product: Product) -> None:
        if self.start is not None and product.model == self.start.model:
            self.catalogue.change(row.seq, product)

    def on_choice(self, row: Row, choice: Choice) -> None:
        """Enter a decision, where the model of its arm learns from it."""
        arm = self.arms.get(choice.arm)
        if arm is None:
            self.counts["of an earlier model"] += 1
        elif arm._is_learned(choice):
            arm.learning.decide(row, choice)

    def is_within_bound(self, row: Row, choice: Choice) -> bool:
        """Count a decision, and return whether its visitor may still teach the policy, before its reward is known."""
        return self.visitors.admits(row.seq, row.time, choice.visitor_id, self.rules.per_visitor)

    def visitor_at(self, seq: int) -> str:
        """Return whose the decision at a row of the log is; empty where that is nobody's, or gone."""
        row = self._find_row(seq)
        decision = None if row is None else unpack(row)
        return decision.visitor_id if isinstance(decision, Choice) else ""

    def _is_learned(self, decision: Choice) -> bool:
        """Return whether the policy learns from a decision: not if its service had not read of this model yet."""
        if not self.learns_from(decision):
            self.counts["of an earlier model"] += 1
            return False
        return self.learns and self.rules.mode != "logging-only" and not decision.is_forgotten

    def on_feedback(self, row: Row, feedback: Feedback) -> None:
        """Enter what a decision earned."""
        # Feedback does not say which arm decided. Where nobody holds its decision, the champion counts it as late or
        # unknown.
        arm = next((other for other in self.others.values() if other.join.holds(row, feedback)), self)
        arm.join.earn(row, feedback)

    def on_activation(self, row: Row) -> None:
        """Activate a deferred decision whose wait is not over."""
        for arm in self.arms.values():
            arm.join.activate(row)

    def on_tick(self, row: Row) -> None:
        """Learn from the decisions that are over by now."""
        for arm in self.arms.values():
            for closing in arm.join.tick(row.time):
                arm._learn(closing)

    def due(self) -> int | None:
        """Return from when on a tick closes a decision of any arm: 0 for at once, None while none is open."""
        return min((due for arm in self.arms.values() if (due := arm.join.due()) is not None), default=None)

    def _learn(self, closing: Closing) -> None:
        """Update the policy with what a decision earned."""
        if self.is_warming_up:
            self.counts[WAITING] += 1
            return
        # Read again from the log, and not kept while the decision was open: waits last up to two days, in which open
        # decisions may be more than memory holds. And if its visitor was forgotten meanwhile, the row no longer says
        # who it was.
        row = self._find_row(closing.seq)
        if row is None:
            self.counts["gone"] += 1
            return
        if not self.model.policy.learns_from_rewards:
            return
        self.move(partial(self._teach, unpack(row), closing))

    def _teach(self, choice: Any, closing: Closing) -> None:
        if choice.is_forgotten:
            self.counts["forgotten"] += 1
            return
        self.learning.teach(choice, closing)
        self.counts["learned"] += 1

    def move(self, move: Callable[[], None]) -> None:
        """Do what moves the policy; what it refuses is counted, and nothing stops."""
        try:
            # Whatever it raises: a policy may be a user's own, and one bad row would stop the learner at each restart
            # anew.
            move()
        except Exception:
            self.counts["refused by the policy"] += 1


def rules_of(start: Start) -> dict[str, Any]:
    """Return the rules of a start, as plain values."""
    return dict(json.loads(start.rules))
