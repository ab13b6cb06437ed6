"""An action space of its own: a decision shows two different products side by side.

All that depends on it stands in this file, from the columns of its log to its answers over HTTP. `register()` makes it
known to a program; a package names it by an entry point of the group `zoosim.action_spaces` instead.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Annotated, Any, ClassVar, NamedTuple

import msgspec
import numpy as np
import polars as pl
from msgspec import Meta

import zoosim
from zoosim.action_spaces import register_action_space
from zoosim.action_spaces.candidates import Candidates
from zoosim.arena.block import Block
from zoosim.arena.recording import candidate_choices
from zoosim.core.errors import PolicyError
from zoosim.logs.records import ProductRecords
from zoosim.off_policy.actions.products import ProductEvaluator
from zoosim.off_policy.training import Training
from zoosim.policies.model import Model
from zoosim.report.sections import PageTable
from zoosim.report.training import Uses, encoded_columns
from zoosim.serving.bodies import Body, DecideBody, Value
from zoosim.serving.endpoints.products import ProductEndpoint
from zoosim.serving.events import Choice, ProductDecision
from zoosim.serving.ids import Id, OptionalId
from zoosim.serving.learning.products import ProductLearning

JOINT = " + "
"""Stands between the names of the two products of a pair."""


class PairRecords(ProductRecords):
    """A row per visit: the pair in `action`, and its products' names in `first` and `second`."""


class Pair(NamedTuple):
    """Two products to show, and the probability with which the pair was drawn."""

    first: str
    second: str
    propensity: float


class PairModel(Model):
    """A policy that chooses a pair of the products that may be shown."""

    action_space = "pairs"

    def decide(self, visitor: Mapping[str, Any], candidates: Sequence[Any] | None = None) -> Any:
        """Return the `Pair` to show, from the products `candidates`; by default from all pairs of the catalogue."""
        pairs = None if candidates is None else pairs_of([str(name) for name in candidates])
        choice = super().decide(visitor, pairs)
        first, second = choice.product.split(JOINT)
        return Pair(first, second, choice.propensity)


class PairDecision(ProductDecision, array_like=True):
    """What a service's log says of a pair that was shown."""

    action_space: ClassVar[str] = "pairs"
    kind = Choice.kind


class PairBody(Body):
    """A request for a pair: `products` may be shown; by default all of the catalogue."""

    visitor: dict[str, Value] = msgspec.field(default_factory=dict)
    products: Annotated[list[str], Meta(min_length=2)] | None = None
    decision_id: Id | None = None
    visitor_id: OptionalId = ""
    defer: bool = False


class PairAnswer(msgspec.Struct):
    """The pair to show, and the probability with which it was drawn."""

    decision_id: str
    first: str
    second: str
    propensity: float
    model: str
    state: int


class PairEndpoint(ProductEndpoint):
    """Decides which two products to show."""

    path = "/v1/pairs"
    operation = "pair"
    summary = "Decide which two products to show."
    what = "decides on pairs of products"
    body: ClassVar[type[Any]] = PairBody
    answer = PairAnswer
    choice = PairDecision
    fills_slots = False
    schema_grows = False

    async def decide(
        self, body: Any, request: bytes, decision_id: str, slots: Any = (), takes_any_columns: bool = False
    ) -> Any:
        """Return the record and the answer of a new decision."""
        candidates: list[Any] | None = None if body.products is None else [*pairs_of(body.products)]
        choice = DecideBody(body.visitor, candidates, visitor_id=body.visitor_id, defer=body.defer)
        record, _ = await super().decide(choice, request, decision_id)
        fields = {name: getattr(record, name) for name in record.__struct_fields__}
        decision = PairDecision(**fields)
        return decision, _answer(decision_id, decision)

    async def answer_again(self, decision_id: str, choice: Any, body: Any = None) -> Any:
        """Return what was answered."""
        return _answer(decision_id, choice)


def _answer(decision_id: str, decision: PairDecision) -> PairAnswer:
    first, second = decision.products[0].split(JOINT)
    return PairAnswer(decision_id, first, second, decision.chances[0], decision.model, decision.state)


def pairs_of(names: Iterable[str]) -> list[str]:
    """Return the names of all pairs of different products; raises `PolicyError` for fewer than two products."""
    pairs = [JOINT.join(pair) for pair in combinations(sorted(set(names)), 2)]
    if not pairs:
        raise PolicyError("products: got fewer than two, expected at least two different ones")
    return pairs


def logged_pairs(world: zoosim.World, block: Block) -> dict[str, Any]:
    """Return the columns of a log that say what was shown."""
    columns = candidate_choices(world, block)
    first, second = np.array([name.split(JOINT) for name in columns["product_id"]]).T
    return {**columns, "first": pl.Series(first), "second": pl.Series(second)}


def pair_columns(training: Training, uses: Uses) -> PageTable:
    """Return the table of a page that says what policies see of a pair."""
    names = {name for pair in training.model.catalogue.names for name in pair.split(JOINT)}
    caption = f"A pair has the features of both of its products, of which there are {len(names)}."
    return replace(encoded_columns(training, uses), caption=caption)


class Pairs(Candidates):
    """One of the pairs of products that may be shown, by its index."""

    name = "pairs"
    chosen_by = "products"
    contenders = ("random", "linucb")
    records = PairRecords
    evaluator = ProductEvaluator
    model = PairModel
    endpoint = PairEndpoint
    learning = ProductLearning
    logged_choices = staticmethod(logged_pairs)
    training_columns = staticmethod(pair_columns)

    @property
    def train(self) -> Any:
        """The function that trains policies which choose one of several candidates."""
        from zoosim.api.models import train_candidates

        return train_candidates


def register() -> None:
    """Make pairs known to this program."""
    register_action_space(SPACE)


SPACE = Pairs()
