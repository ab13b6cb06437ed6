"""Read the rows of a service's log into visits: what each decision showed, and what feedback came to it in time."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from zoosim.core.durations import MICROSECONDS
from zoosim.core.errors import DataError
from zoosim.core.types import FloatArray
from zoosim.policies.base import policy_name
from zoosim.schema.schema import FittedSchema
from zoosim.serving.arm_replica import ancestors_of, checked_rules
from zoosim.serving.catalogue import model_version
from zoosim.serving.events import (
    CHAMPION,
    AppliedRules,
    Choice,
    Feedback,
    Kind,
    Product,
    ProductDecision,
    Row,
    Source,
    Start,
    decision_of,
    unpack_floats,
    unpack_whole,
)
from zoosim.serving.folder import SNAPSHOTS, Models
from zoosim.serving.join import order_of
from zoosim.serving.projection import Projection
from zoosim.serving.rules import AGGREGATIONS, Rules
from zoosim.serving.snapshots import newest_replica
from zoosim.serving.store.base import Store

STILL_OPEN = "decision: expected one whose wait for feedback is over"
NO_CANDIDATES = "decision: expected one of a candidate; others, such as searches, cannot be judged so far"
NOT_ACTIVATED = "decision: expected one that was activated in time, as it was deferred"
FORGOTTEN = "decision: expected one whose visitor is not forgotten"
OTHER_SCHEMA = "decision: expected one of a model with the schema of the newest one, or of one that this grew from"
PINNED = "decision: expected one that was drawn; what is pinned has probability 1, and says nothing of other choices"
RETRIEVED_PAGE = "decision: expected one among the request's candidates; judge what stood at the top of the others"
CAPPED_PAGE = "decision: expected one without caps per page, which rankings do not know; judge what stood at the top"
GONE = "decision: expected one of a model whose products are known, and the log of them was removed"

NO_RULES = AppliedRules()


@dataclass
class ModelPeriod:
    """Period in which an arm decides by one model: its schema, and every version of its products.

    `policy` is the name of the model's policy, `action_space` that of what it decides on. `place_of` says at which
    place of `names` and `features` a version stands; `ancestors` are the models that this one grew from; `known_until`
    is the row up to which the versions are known without reading, from a snapshot.
    """

    arm: str
    model: str
    origin: str
    policy: str
    action_space: str
    fitted: FittedSchema
    names: list[str]
    features: list[FloatArray]
    place_of: dict[int, int]
    ancestors: frozenset[str] = frozenset()
    known_until: int = 0
    is_known: bool = True
    sets: dict[bytes, int] = field(default_factory=dict)

    def under(self, arm: str) -> "ModelPeriod":
        """Return the period in which another arm goes on with the model and what it knows of products."""
        return replace(
            self, arm=arm, names=[*self.names], features=[*self.features], place_of={**self.place_of}, sets={}
        )

    def change(self, row: Row, product: Product) -> None:
        """Take over a new version of a product."""
        if product.model == self.model and row.seq not in self.place_of:
            self.place_of[row.seq] = len(self.names)
            self.names.append(product.name)
            self.features.append(unpack_floats(product.features))


class LoggedDecision(NamedTuple):
    """A decision: the numbers of its period, rules and candidates, when its wait ends, and what it showed.

    `first` is the candidate that the shop would have shown at the top without the service. Of slots with visitors and
    exclusions of their own only the first counts: it alone has these candidates. `chances` are those before the `arm`
    was drawn, `arm_chances` those given the arm. Where candidates were retrieved, `source` says how, `chances` are
    those given the candidates, and `marginal` is how likely the top was over all arms and sources. `unexpressed` is
    what the request held beside what the features of the `visitor` say. `pinned` are the places on the page that were
    not drawn, and `has_page_caps` says whether what stood above could close candidates below it.
    """

    decision_id: str
    period: int
    rules: int
    candidates: int
    time: int
    due: int
    visitor_id: str
    visitor: bytes
    unexpressed: bytes
    first: int
    shown: tuple[int, ...]
    chances: tuple[float, ...]
    arm: str
    arm_chances: tuple[float, ...]
    pinned: frozenset[int]
    has_page_caps: bool
    source: Source | None
    marginal: float

    def why_not_judged(self, as_ranking: bool) -> str:
        """Return why nothing can be judged by it, as a ranking or by its top alone; empty where it can."""
        if self.pinned if as_ranking else 0 in self.pinned:
            return PINNED
        if as_ranking and self.source is not None:
            return RETRIEVED_PAGE
        return CAPPED_PAGE if as_ranking and self.has_page_caps else ""


class _Given(NamedTuple):
    """Feedback to a slot and its time, with what orders it: the number of ticks before it, and a hash of its key."""

    ticks: int
    key: bytes
    time: int
    slot: int
    rewards: Mapping[str, float]


class LogReader(Projection):
    """Reads the rows of a service's log in their order, and makes visits of them."""

    def __init__(self, folder: Path, store: Store) -> None:
        """Start before the first row of a log, with the models and snapshots of a folder."""
        self._folder = folder
        self._store = store
        self._models = Models(folder, store)
        self.periods: list[ModelPeriod] = []
        self._in_charge: dict[str, ModelPeriod] = {}
        self.rules: list[Rules] = []
        self.sets: list[tuple[int, bytes]] = []
        self.visits: list[LoggedDecision] = []
        self._visit_of: dict[str, int] = {}
        self._feedback: dict[int, list[_Given]] = {}
        self._inactive: set[int] = set()
        self.skipped: Counter[str] = Counter()
        self._ticks = 0
        self._ticked_until = 0
        self._end = 0

    def apply(self, row: Row) -> None:
        """Read the next row."""
        if not self.periods and row.kind is not Kind.START:
            self._begin_in_the_middle()
        self._end = row.time
        super().apply(row)

    def on_tick(self, row: Row) -> None:
        """Count the ticks, by which feedback is ordered."""
        self._ticks += 1
        self._ticked_until = row.time

    def on_product(self, row: Row, product: Product) -> None:
        """Take over a new version of a product."""
        for period in self.periods:
            period.change(row, product)

    @property
    def champion(self) -> ModelPeriod:
        """That of the newest model of the champion."""
        return self._in_charge[CHAMPION]

    @property
    def action_space(self) -> str:
        """The name of the action space in which the newest model decides."""
        return self.champion.action_space

    @property
    def fitted(self) -> FittedSchema:
        """Schema of the newest model of the champion."""
        return self.champion.fitted

    def fits(self, period: ModelPeriod) -> bool:
        """Return whether decisions of a period can stand in one log with those of the newest model."""
        return period.is_known and (period.model in self.champion.ancestors or self.encodes_alike(period))

    def encodes_alike(self, period: ModelPeriod) -> bool:
        """Return whether the features of a period are those of the newest model; else they are to be carried over."""
        return period.fitted.fingerprint == self.fitted.fingerprint

    def finished(self) -> list[int]:
        """Return the visits that are over, in their order; the others are counted in `skipped`."""
        fits = [self.fits(period) for period in self.periods]
        numbers = []
        for number, visit in enumerate(self.visits):
            if not fits[visit.period]:
                self.skipped[OTHER_SCHEMA if self.periods[visit.period].is_known else GONE] += 1
            elif visit.due > self._end:
                self.skipped[STILL_OPEN] += 1
            elif number in self._inactive:
                self.skipped[NOT_ACTIVATED] += 1
            else:
                numbers.append(number)
        return numbers

    def judged(self, numbers: Sequence[int], as_rankings: bool) -> list[int]:
        """Return those of the visits by which policies can be judged; the others are counted in `skipped`."""
        kept = []
        for number in numbers:
            reason = self.visits[number].why_not_judged(as_rankings)
            if reason:
                self.skipped[reason] += 1
            else:
                kept.append(number)
        return kept

    def earned(self, number: int) -> dict[int, tuple[float, dict[str, float]]]:
        """Return what each slot of a visit earned to which feedback came: the objective, and each reward by name."""
        rules = self.rules[self.visits[number].rules]
        aggregate = AGGREGATIONS[rules.aggregation]
        weights = self.fitted.weights
        by_slot: dict[int, list[Mapping[str, float]]] = {}
        # In the order in which the learner counts it (`Join`), so that a visit earns what was learned of it.
        for feedback in sorted(self._feedback.get(number, ()), key=lambda feedback: feedback[:2]):
            by_slot.setdefault(feedback.slot, []).append(feedback.rewards)
        outcomes = {}
        for slot, rewards in by_slot.items():
            values = [sum(weights.get(name, 0.0) * value for name, value in sorted(each.items())) for each in rewards]
            by_name = {name: float(aggregate([each.get(name, 0.0) for each in rewards])) for name in weights}
            outcomes[slot] = rules.aggregate(values), by_name
        return outcomes

    def delay(self, number: int) -> float:
        """Return how many seconds after a visit its last feedback came, NaN where none did."""
        times = [feedback.time for feedback in self._feedback.get(number, ())]
        return (max(times) - self.visits[number].time) / MICROSECONDS if times else math.nan

    def on_start(self, row: Row, start: Start) -> None:
        """Go on by other rules, and in a new period for each arm that has another model."""
        self.rules.append(checked_rules(start))
        new_periods: list[ModelPeriod] = []
        for name, own in start.by_arm().items():
            before = self._in_charge.get(name)
            if before is not None and before.origin == own.origin:
                continue
            if before is not None and row.seq <= before.known_until:
                before.is_known = False  # the snapshot is of a later time of the same model
            renamed = next((period for period in self._in_charge.values() if period.origin == own.origin), None)
            if renamed is not None:
                new_periods.append(renamed.under(name))
                continue
            model = self._models.load(own.model)
            names = list(model.catalogue.names)
            features = list(model.catalogue.features)
            place_of = {model_version(place): place for place in range(len(names))}
            policy = policy_name(type(model.policy))
            space = model.action_space
            period = ModelPeriod(name, own.model, own.origin, policy, space, model.fitted, names, features, place_of)
            period.ancestors = ancestors_of(model)
            new_periods.append(period)
        # Only then: two arms may have changed their names with each other.
        for period in new_periods:
            self._append(period)
        self._in_charge = {name: self._in_charge[name] for name in start.by_arm()}

    def _append(self, period: ModelPeriod) -> None:
        self.periods.append(period)
        self._in_charge[period.arm] = period

    def _begin_in_the_middle(self) -> None:
        """Begin a log whose first rows were removed: a snapshot knows the model and the products."""

        for name in self._store.shared():
            if name.startswith(f"{SNAPSHOTS}/"):
                self._store.fetch(self._folder, name)
        replica = newest_replica(self._folder / SNAPSHOTS, self._models.load, self._store.rows, lambda line: None)
        if replica.start is None:
            raise DataError(
                f"{self._folder}: has neither the first rows of its log nor a snapshot, so nothing says what was "
                "shown; restore a backup"
            )
        for name, arm in replica.arms.items():
            names, versions, features = arm.catalogue.every_version()
            model = arm.model
            period = ModelPeriod(
                arm=name,
                model=arm.origin.partition("/")[0],
                origin=arm.origin,
                policy=policy_name(type(model.policy)),
                action_space=model.action_space,
                fitted=model.fitted,
                names=names,
                features=features,
                place_of={version: place for place, version in enumerate(versions)},
                ancestors=ancestors_of(model),
                known_until=replica.position,
            )
            self._append(period)
        self.rules.append(replica.champion.rules)

    def on_choice(self, row: Row, decision: Choice) -> None:
        """Make a visit of a decision."""
        if not isinstance(decision, ProductDecision):
            self.skipped[NO_CANDIDATES] += 1
            return
        if decision.is_forgotten:
            self.skipped[FORGOTTEN] += 1
            return
        number = self._period_of(decision)
        if number is None:
            self.skipped[GONE] += 1
            return
        period = self.periods[number]
        products = np.array([period.place_of[version] for version in unpack_whole(decision.versions).tolist()])
        # The same candidates in another order are one set, of which the log of visits holds each once.
        in_order = np.sort(np.delete(products, decision.excluded)).astype("<u4").tobytes()
        candidates = period.sets.setdefault(in_order, len(self.sets))
        if candidates == len(self.sets):
            self.sets.append((number, in_order))
        count = 1 if decision.slots else len(decision.shown)
        given_arm = decision.marginals or decision.chances
        given_candidates = decision.chances if decision.source else decision.overall_chances
        rules = decision.rules or NO_RULES
        visit = LoggedDecision(
            decision_id=decision_of(row),
            period=number,
            rules=len(self.rules) - 1,
            candidates=candidates,
            time=row.time,
            due=row.time + round(self.rules[-1].wait * MICROSECONDS),
            visitor_id=decision.visitor_id,
            visitor=decision.visitor_in(0),
            unexpressed=decision.unexpressed,
            first=int(products[decision.baseline]),
            shown=tuple(products[decision.shown[:count]].tolist()),
            chances=tuple(given_candidates[:count]),
            arm=decision.arm,
            arm_chances=tuple(given_arm[:count]),
            pinned=frozenset(rules.pinned).intersection(range(count)),
            has_page_caps=bool(rules.per_page),
            source=decision.source,
            marginal=decision.overall_chances[0],
        )
        if decision.deferred:
            self._inactive.add(len(self.visits))
        self._visit_of[visit.decision_id] = len(self.visits)
        self.visits.append(visit)

    def _period_of(self, decision: ProductDecision) -> int | None:
        """Return the newest period of a decision's arm and model, None where that or one of its products is unknown."""
        for number in range(len(self.periods) - 1, -1, -1):
            period = self.periods[number]
            if (period.arm, period.origin) == (decision.arm, decision.origin):
                versions = unpack_whole(decision.versions).tolist()
                return number if all(version in period.place_of for version in versions) else None
        return None

    def on_feedback(self, row: Row, feedback: Feedback) -> None:
        """Note what a visit earned, if it came in time."""
        visit = self._open_visit(row)
        if visit is not None:
            entry = _Given(self._ticks, order_of(row), row.time, feedback.slot, feedback.rewards)
            self._feedback.setdefault(visit, []).append(entry)

    def on_activation(self, row: Row) -> None:
        """Activate a deferred visit whose wait is not over."""
        visit = self._open_visit(row)
        if visit is not None:
            self._inactive.discard(visit)

    def _open_visit(self, row: Row) -> int | None:
        """Return the visit that a row is about, None where its wait was over."""
        visit = self._visit_of.get(decision_of(row))
        if visit is None:
            return None
        due = self.visits[visit].due
        # A tick at the due time has closed the decision for the learner, so feedback behind it is late even if its time
        # is not.
        return None if row.time > due or self._ticked_until >= due else visit
