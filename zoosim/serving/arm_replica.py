"""What one arm has learned, as a projection of the log: its model's policy, its products and its open decisions."""

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
    Choice,
    Feedback,
    Kind,
    Product,
    ProductDecision,
    Row,
    Start,
    unpack,
    unpack_floats,
)
from zoosim.serving.join import Closing, FindRows, Join, with_rows
from zoosim.serving.learning.base import Learning
from zoosim.serving.projection import ROWS_AT_ONCE, Projection
from zoosim.serving.recorded import FeaturesOf, Schemas
from zoosim.serving.rules import Rules
from zoosim.serving.visitors import VisitorBounds

WARM_UP, GROWN_FROM = "warm_up", "grown_from"
"""Facts of a model: it stands in while a schema is inferred; it grew from others, as `Origin` says."""

WAITING = "waiting for a schema"
"""The count of decisions that are over and that no policy has learned yet, as there is no schema."""

FROZEN = "while learning was frozen"
"""The count of decisions that are not learned since learning, or that of their arm, was frozen by then."""

GONE = "gone"
"""The count of decisions that are over and not learned, as the log lacks their rows by then."""

PINNED = "pinned"
"""The count of what is not learned since a rule of the shop showed it, and not a policy."""

EARLIER = "of an earlier model"
"""The count of decisions that no arm learns from, as their model decides no more."""


class Origin(msgspec.Struct):
    """Origin of a model that grew: those of its ancestors, the last one its parent, and a row of their log.

    `ancestors` are a model in a turn each, as in `Start`, whichever arm that was; in files of earlier releases the
    digests of models that decided as the champion. Its policy has learned from the log up to the row at `position`;
    `join` are the decisions that were open then.
    """

    ancestors: Annotated[list[str], msgspec.Meta(min_length=1)]
    position: int
    join: dict[str, Any]

    def includes(self, decision: Choice) -> bool:
        """Return whether an ancestor made a decision."""
        return decision.origin in self.ancestors or (decision.arm == CHAMPION and decision.model in self.ancestors)

    def follows(self, start: Start) -> bool:
        """Return whether the model grew from the champion of a start."""
        return self.ancestors[-1] in (start.origin, start.model)

    @property
    def models(self) -> frozenset[str]:
        """The digests of the ancestors."""
        return frozenset(ancestor.partition("/")[0] for ancestor in self.ancestors)


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


def ancestors_of(model: Model) -> frozenset[str]:
    """Return the digests of the models that a model grew from; raises `DataError`."""
    origin = origin_of(model)
    return origin.models if origin else frozenset()


# Why state is never taken over from a running policy, but computed from rows. A learner may be killed at any row, may
# start again from any older snapshot, and several of them read one log. All come to the same only if nothing enters but
# the rows: no clock, no order of arrival beside that of the log, and what a policy refuses it refuses each time.
# So time passes by tick rows, rules and models change by start rows, and errors are counted instead of raised.
class ArmReplica(Projection):
    """A model's policy, its products and its open decisions, as they are after some rows of the log.

    An arm learns from its own decisions alone: so it is what it would be alone with its share of visitors, and no arm
    gains by what another one tries.

    Attributes:
        name: The name of the arm.
        start: What the log says of its model and of the rules, as if it were alone.
        learns: Whether the arm learns from its decisions; a holdback does not.
        visitors: How often each visitor decided lately, which bounds what is learned of it.
        counts: What came of learning.
        model: Its model.
        catalogue: The products of the model.
        join: Its open decisions.
        learning: How the model learns from decisions of its action space.
        features_of: Returns what a product was in a decision of the model's ancestors, as in `Recorded`.
        schemas: The schemas of models.
        on_learning: Called before a decision that is over is learned, with this, the decision and what it earned; None
            for nobody. It must not move the policy.
    """

    def __init__(
        self,
        name: str,
        start: Start,
        load_model: Callable[[str], Model],
        find_rows: FindRows,
        features_of: FeaturesOf | None = None,
        hidden: Iterable[str] = (),
    ) -> None:
        """Begin with a model as its file holds it.

        Args:
            name: The name of the arm.
            start: Its model, and the rules.
            load_model: Returns the model with a digest.
            find_rows: Returns rows of the log by their positions, without those that are gone.
            features_of: Returns what a product was in a decision of the model's ancestors, as in `Recorded`. Default:
                what the log says of those that are newer than the model.
            hidden: Products that it may not show.

        Raises:
            ConfigError: the rules cannot be.
            DataError: the model is broken.
        """
        self.name = name
        self.start = start
        self.learns = True
        self._load_model = load_model
        self._find_rows = find_rows
        self.features_of = features_of or self._later_features
        self.schemas = Schemas(load_model)
        self.on_learning: Callable[[ArmReplica, Any, Closing], None] | None = None
        self.visitors = VisitorBounds()
        self.counts: Counter[str] = Counter()
        self.model: Model
        self.catalogue: ServedCatalogue
        self.join: Join
        self.learning: Learning
        self._take_model(checked_rules(start), hidden)

    @property
    def origin(self) -> str:
        """Origin of the policy; see `Start`."""
        return self.start.origin

    @property
    def rules(self) -> Rules:
        """The rules by which it learns."""
        return self.join.rules

    @property
    def is_warming_up(self) -> bool:
        """True if the model stands in until there is a schema."""
        return WARM_UP in self.model.facts

    def begin(self, name: str, start: Start) -> None:
        """Go on under a name by the rules of a start, and from the file of its model where that is another one."""
        rules = checked_rules(start)  # before anything changes
        is_new = start.origin != self.origin
        self.name = name
        self.start = start
        if is_new:
            self._take_model(rules, self.catalogue.hidden())
        self.join.rules = rules

    def _take_model(self, rules: Rules, hidden: Iterable[str]) -> None:
        self.model = self._load_model(self.start.model)
        self.catalogue = ServedCatalogue(self.model.catalogue, hidden)
        self._origin = origin_of(self.model)
        self.learning = find_action_space(self.model.action_space).learning(self)
        self.join = self.learning.join(rules, dict(self.model.fitted.weights))

    def forget_decisions(self) -> None:
        """Forget what is open, and who decided: a replica that decides alone learns nothing of it."""
        self.visitors = VisitorBounds()
        self.join = self.learning.join(self.rules, dict(self.model.fitted.weights))

    def has_made(self, decision: Choice) -> bool:
        """Return whether a decision was made by the model that it has, or by one that this grew from."""
        return decision.origin == self.origin or (self._origin is not None and self._origin.includes(decision))

    def on_start(self, row: Row, start: Start) -> None:
        """Go on by the rules of a start of the log, when it learns anew what came before it began."""
        self.join.rules = checked_rules(start)

    def learn_since(self, before: Start, start: Row) -> None:
        """Learn, with a policy that grew, from the rows between those from which it grew and its start.

        Args:
            before: The start before; nothing is learned where the own model did not grow from the champion's of then.
            start: The row of the start.
        """
        origin = self._origin
        if origin is None or not origin.follows(before):
            return
        # The rows since the model grew were read already, for the policy that it replaces. Its own policy must learn
        # from them now, and nothing else may count them twice: so the rest is set aside, and put back at the end.
        counts, rules, visitors = self.counts.copy(), self.rules, self.visitors
        self.visitors = VisitorBounds()  # as these rows are counted already
        self.join.load_state(origin.join)
        for first in range(origin.position + 1, start.seq, ROWS_AT_ONCE):
            rows = self._find_rows(range(first, min(first + ROWS_AT_ONCE, start.seq)))
            for seq in sorted(rows):
                self.apply(rows[seq])
        self.join.rules = rules
        self.visitors = visitors
        self.counts = counts
        self.counts["learned"] += self.counts.pop(WAITING, 0)

    def _later_features(self, decision: ProductDecision, version: int) -> FloatArray | None:
        """Return the features of a version that is newer than the grown model, and which its catalogue lacks."""
        grown_at = self._origin.position if self._origin else 0
        row = self._row_at(version) if version > grown_at else None
        if row is None or row.kind is not Kind.PRODUCT:
            return None
        product: Product = unpack(row)
        return unpack_floats(product.features) if product.model == decision.model else None

    def change_product(self, row: Row, product: Product) -> None:
        """Take over what a row says of a product, where this model encoded it."""
        if product.model == self.start.model:
            self.catalogue.change(row.seq, product)

    def on_choice(self, row: Row, choice: Choice) -> None:
        """Enter a decision, where the model learns from it."""
        # A service may have decided by an earlier model, as it had not read of this one yet. The arm may have had
        # another name, as a challenger that was promoted.
        if not self.has_made(choice):
            self.counts[EARLIER] += 1
        else:
            self.enter(row, choice)

    def enter(self, row: Row, choice: Choice) -> None:
        """Enter a decision that this made."""
        if not self.learns or self.rules.mode == "logging-only" or choice.is_forgotten:
            return
        if self.rules.frozen:
            self.counts[FROZEN] += 1
        else:
            self.learning.decide(row, choice)

    def is_within_bound(self, row: Row, choice: Choice) -> bool:
        """Count a decision, and return whether its visitor may still teach the policy, before its reward is known."""
        return self.visitors.admits(row.seq, row.time, choice.visitor_id, self.rules.per_visitor)

    def _row_at(self, seq: int) -> Row | None:
        return self._find_rows([seq]).get(seq)

    def visitor_at(self, seq: int) -> str:
        """Return whose the decision at a row of the log is; empty where that is nobody's, or gone."""
        row = self._row_at(seq)
        decision = None if row is None else unpack(row)
        return decision.visitor_id if isinstance(decision, Choice) else ""

    def on_feedback(self, row: Row, feedback: Feedback) -> None:
        """Enter what a decision earned."""
        self.join.earn(row, feedback)

    def on_activation(self, row: Row) -> None:
        """Activate a deferred decision whose wait is not over."""
        self.join.activate(row)

    def on_tick(self, row: Row) -> None:
        """Learn from the decisions that are over by now."""
        closings = self.join.tick(row.time)
        if not closings:
            return
        # Also what was decided before: feedback that is lost is why learning is frozen, as where a pixel is broken; and
        # an arm that became a holdback stays as it was then.
        if self.rules.frozen or not self.learns:
            self.counts[FROZEN] += len(closings)
        elif self.is_warming_up:
            self.counts[WAITING] += len(closings)
        else:
            # Read again from the log, and not kept while the decision was open: waits last up to two days, in which
            # open decisions may be more than memory holds. And if its visitor was forgotten meanwhile, the row no
            # longer says who it was.
            for closing, decision in with_rows(closings, self._find_rows):
                self._learn(closing, decision)

    def _learn(self, closing: Closing, row: Row | None) -> None:
        """Update the policy with what a decision earned."""
        if row is None:
            self.counts[GONE] += 1
            return
        choice = unpack(row)
        if self.on_learning is not None and not choice.is_forgotten and not choice.is_pinned(closing.slot):
            self.on_learning(self, choice, closing)
        if self.model.policy.learns_from_rewards:
            self.move(partial(self._teach, choice, closing))

    def _teach(self, choice: Any, closing: Closing) -> None:
        if choice.is_forgotten:
            self.counts["forgotten"] += 1
            return
        if choice.is_pinned(closing.slot):
            self.counts[PINNED] += 1
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


def checked_rules(start: Start) -> Rules:
    """Return the rules of a start; raises `ConfigError` for what they cannot be."""
    rules: Rules = build(Rules, rules_of(start), "log of the service: rules")
    return rules
