"""Make a model whose schema expresses what requests of late held, and whose policy has learned from the log by it."""

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any, NamedTuple

import msgspec
import numpy as np

from zoosim.core.parameters import parameters_of
from zoosim.core.rng import stream
from zoosim.core.types import FloatArray, PolicySpec
from zoosim.policies.base import Policy, policy_name
from zoosim.policies.model import ID, Catalogue, Model
from zoosim.policies.products.adaptive import Adaptive
from zoosim.schema.columns import CategoryColumn
from zoosim.schema.encoder import Encoder
from zoosim.schema.growth import MOST_COLUMNS, Grown, Observations, grow_encoder
from zoosim.schema.schema import FittedSchema
from zoosim.serving.arm_replica import GROWN_FROM, WARM_UP, ArmReplica, Origin, origin_of
from zoosim.serving.events import (
    CHAMPION,
    Choice,
    Product,
    ProductDecision,
    Row,
    Start,
    unpack_floats,
    unpack_unexpressed,
    unpack_whole,
)
from zoosim.serving.folder import Models, newest_snapshot
from zoosim.serving.projection import Projection, rows_of
from zoosim.serving.recorded import Schemas
from zoosim.serving.replica import Replica
from zoosim.serving.store.address import Address, open_store
from zoosim.serving.store.base import Store

MOST_ROWS = 200_000
"""Rows before the end of the log from which a schema grows, and its policy learns."""

MOST_DECISIONS, MOST_CANDIDATES = 2_000, 20_000
"""Decisions, and candidates of theirs, the newest, by which a schema grows."""

PER_VISITOR = 3
"""The most decisions of one visitor, the newest, among these, so that a type or a range follows from many visitors."""


class ModelGrowth(NamedTuple):
    """Result of a look at the log: the model that grew, None where nothing grew, and the reason in words.

    `requests` is how many decisions of the model were in the log.
    """

    model: Model | None
    news: str
    requests: int


def grown_model(address: Address, parent: str, wanted: int = 1) -> ModelGrowth:
    """Grow the schema of a model by what the log of its service holds, and learn from that log by it.

    Args:
        address: Where the log lies.
        parent: The origin of the champion's policy, as in `Start`.
        wanted: Decisions that it takes.

    Returns:
        The model that goes on; its policy has learned from the decisions of its ancestors that are still in the log.

    Raises:
        DataError, StoreError: the log, or a model of it, cannot be read.
        ConfigError: the schema cannot be made.
    """
    with closing(open_store(address, read_only=True)) as store:
        models = Models(address.folder, store)
        return _Look(store, models.load, newest_snapshot(address.folder, store, models)).growth(parent, wanted)


class _Sampled(NamedTuple):
    """A decision, and who it was for."""

    decision: ProductDecision
    visitor: str


class _Sample:
    """The newest decisions, of each visitor a few."""

    def __init__(self) -> None:
        self._by_turn: OrderedDict[tuple[str, int], ProductDecision] = OrderedDict()
        self._turns: Counter[str] = Counter()

    def add(self, decision: ProductDecision, visitor: str) -> None:
        """Take up a decision, in the place of one of its visitor that is too old, or of the oldest of all."""
        key = (visitor, self._turns[visitor] % PER_VISITOR)
        self._turns[visitor] += 1
        self._by_turn[key] = decision
        # Assigning to a key that is there leaves it in its place, and the oldest is what stands first.
        self._by_turn.move_to_end(key)
        if len(self._by_turn) > MOST_DECISIONS:
            self._by_turn.popitem(last=False)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._by_turn)

    def __iter__(self) -> Iterator[_Sampled]:
        """Return them from the oldest to the newest."""
        return (_Sampled(decision, visitor) for (visitor, _), decision in self._by_turn.items())

    def __reversed__(self) -> Iterator[_Sampled]:
        """Return them from the newest to the oldest."""
        return (_Sampled(decision, visitor) for (visitor, _), decision in reversed(self._by_turn.items()))


class _Look(Projection):
    """Reads the log once to see what it holds, and once more to learn from it."""

    def __init__(self, store: Store, load_model: Callable[[str], Model], replica: Replica) -> None:
        self._store = store
        self._load_model = load_model
        self._schemas = Schemas(load_model)
        self._replica = replica
        newest = store.last()
        self._last = 0 if newest is None else newest.seq
        self._first = max(self._last - MOST_ROWS, 0)
        self._products: dict[int, Product] = {}
        self._sample = _Sample()
        self._learnable = 0
        self._requests = 0
        self._known_until = replica.position

    def growth(self, parent: str, wanted: int) -> ModelGrowth:
        requests = self._read(parent)
        replica = self._replica
        if replica.start is None or replica.start.origin != parent or requests < wanted:
            return ModelGrowth(None, "", requests)
        before = replica.champion.model
        visitors = grow_encoder(before.fitted.visitors, self._observed_visitors())
        products = self._grown_products(before)
        news = (
            *(f"visitor: {column}" for column in visitors.news),
            *(f"product: {column}" for column in products.news),
        )
        if not news and WARM_UP not in before.facts:
            return ModelGrowth(None, "", requests)
        fitted = FittedSchema(visitors=visitors.encoder, products=products.encoder, weights=before.fitted.weights)
        if self._learnable < before.rows:
            reason = f"{'; '.join(news)}: the log has {self._learnable:,} decisions, fewer than it was trained on"
            return ModelGrowth(None, reason, requests)
        return ModelGrowth(self._learned(before, fitted), "; ".join(news), requests)

    def _read(self, parent: str) -> int:
        """Read what the log holds of products and of decisions; return how many the parent made."""
        self._parent = parent
        before = origin_of(self._load_model(parent.partition("/")[0]))
        ancestors = [each for each in before.ancestors if each != parent] if before else []
        self._origin = Origin([*ancestors, parent], self._last, {})
        # From the earlier of both: decisions name products whose rows may lie before the snapshot, and starts behind
        # the snapshot say what the service goes by now.
        for row in rows_of(self._store, min(self._first, self._known_until), self._last):
            self.apply(row)
        return self._requests

    def on_start(self, row: Row, start: Start) -> None:
        """Follow the models of the service."""
        if row.seq > self._known_until:
            self._replica.begin(start)

    def on_product(self, row: Row, product: Product) -> None:
        """Note what decisions may name."""
        self._products[row.seq] = product
        if row.seq > self._known_until:
            self._replica.on_product(row, product)

    def on_choice(self, row: Row, decision: Choice) -> None:
        """Take up a decision of the champion, by whichever name, or of a model that it grew from."""
        if row.seq <= self._first or not isinstance(decision, ProductDecision):
            return
        if self._origin.includes(decision) and not decision.is_forgotten:
            self._requests += decision.origin == self._parent
            self._learnable += 1
            # Ids hold no control characters, so this is nobody else's.
            self._sample.add(decision, decision.visitor_id or f"\0{row.seq}")

    def _observed_visitors(self) -> Observations:
        rows: list[dict[str, Any]] = []
        visitors: list[str] = []
        for decision, visitor in self._sample:
            unexpressed = unpack_unexpressed(decision.unexpressed)
            encoder = self._schemas.of(decision.model).visitors
            for slot in range(max(len(decision.visitors), 1)):
                values = encoder.decode_one(unpack_floats(decision.visitor_in(slot)))
                rows.append({**values, **unexpressed.visitor_in(slot)})
                visitors.append(visitor)
        return Observations(rows, visitors)

    def _grown_products(self, before: Model) -> Grown:
        """Return an encoder of products that tells them apart by their ids where nothing else does."""
        columns = tuple(column for column in before.fitted.products.columns if column.name != ID)
        growth = grow_encoder(Encoder(columns=columns), self._observed_products())
        if ID not in before.fitted.products.names:
            return growth
        names, rows = self._newest_products(growth.encoder)
        patterns = {row.tobytes() for row in rows}
        if growth.encoder.width and not len(patterns) < len(rows) <= MOST_COLUMNS:
            return growth
        levels = tuple(sorted(names)) if len(names) <= MOST_COLUMNS else ()
        return Grown(Encoder(columns=(*growth.encoder.columns, CategoryColumn(name=ID, levels=levels))), growth.news)

    def _observed_products(self) -> Observations:
        """Return what the newest decisions said of their candidates."""
        rows: list[dict[str, Any]] = []
        visitors: list[str] = []
        values_of: dict[tuple[str, int], dict[str, Any]] = {}
        for decision, visitor in reversed(self._sample):
            rest = dict(unpack_unexpressed(decision.unexpressed).candidates)
            for version, name in self._candidates_of(decision):
                key = (decision.model, version)
                if key not in values_of:
                    features = self._features_of(decision, version)
                    encoder = self._schemas.of(decision.model).products
                    values_of[key] = {} if features is None else encoder.decode_one(features)
                rows.append({**values_of[key], **rest.get(name, {})})
                visitors.append(visitor)
            if len(rows) >= MOST_CANDIDATES:
                break
        for row in rows:
            row.pop(ID, None)
        return Observations(rows, visitors)

    def _candidates_of(self, decision: ProductDecision) -> Iterator[tuple[int, str]]:
        """Yield versions and names of a decision's candidates, names that are not known as empty ones."""
        start = self._replica.start
        assert start is not None
        catalogue = self._replica.champion.catalogue
        is_current = decision.model == start.model
        for version in unpack_whole(decision.versions).tolist():
            if is_current and version in catalogue:
                yield version, catalogue.name_of(version)
            else:
                product = self._products.get(version)
                yield version, "" if product is None else product.name

    def _newest_products(self, encoder: Encoder) -> tuple[tuple[str, ...], FloatArray]:
        """Return the names of the products by now, and their features `(K, d_p)` by another encoder."""
        catalogue = self._replica.champion.catalogue
        before = self._replica.champion.model.fitted.products
        rest: dict[str, dict[str, Any]] = {}
        for decision, _ in self._sample:
            rest.update(unpack_unexpressed(decision.unexpressed).candidates)
        names = (*catalogue.names(), *catalogue.hidden())
        features = np.zeros((len(names), encoder.width))
        for place, name in enumerate(names):
            version = catalogue.version_of(name)
            assert version is not None
            values = {**rest.get(name, {}), ID: name}
            features[place] = encoder.carry_over(before, catalogue.features_of(version), values)
        return names, features

    def _learned(self, before: Model, fitted: FittedSchema) -> Model:
        """Return a model with another schema, whose policy has learned what the log says by that."""
        names, features = self._newest_products(fitted.products)
        policy = _new_policy(before, fitted)
        # Noted twice: to be taught, the model must say what it grew from, and what is open at the end is known only
        # then.
        origin = self._origin
        facts = {"rows": 0, "policy": policy_name(type(policy)), "schema_rows": len(self._sample)}
        facts[GROWN_FROM] = msgspec.to_builtins(origin)
        model = Model(policy, fitted, Catalogue(names, features), facts)
        origin.join = self._teach(model)
        facts[GROWN_FROM] = msgspec.to_builtins(origin)
        return model

    def _teach(self, model: Model) -> dict[str, Any]:
        """Teach a grown model from the log; return the decisions that are open at its end."""
        start = self._replica.start
        assert start is not None

        def load(name: str) -> Model:
            # The log names models by the digests of their files. This one has no file yet, so the empty name stands for
            # it.
            return self._load_model(name) if name else model

        teacher = ArmReplica(CHAMPION, Start("", start.rules), load, self._store.rows, self._features_of)
        for row in rows_of(self._store, self._first, self._last):
            teacher.apply(row)
        return teacher.join.state()

    def _features_of(self, decision: ProductDecision, version: int) -> FloatArray | None:
        """Return the features that a product had in a decision, by the schema of that time."""
        start = self._replica.start
        assert start is not None
        catalogue = self._replica.champion.catalogue
        if decision.model == start.model and version in catalogue:
            return catalogue.features_of(version)
        product = self._products.get(version)
        return None if product is None or product.model != decision.model else unpack_floats(product.features)


def _new_policy(before: Model, fitted: FittedSchema) -> Policy:
    """Return a model's policy for another schema, with nothing learned; after a warm-up the recommended one."""
    policy = before.policy
    user_dim = fitted.visitors.width
    product_dim = fitted.products.width
    if WARM_UP in before.facts:
        return Adaptive(PolicySpec(user_dim=user_dim, product_dim=product_dim), stream(0, "policy", "adaptive"))
    params = {name: getattr(policy, name) for name in parameters_of(type(policy))}
    spec = replace(policy.spec, user_dim=user_dim, product_dim=product_dim)
    return type(policy)(spec, stream(0, "policy", policy_name(type(policy))), **params)
