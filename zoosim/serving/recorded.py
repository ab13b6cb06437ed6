"""Decisions of the models that a model grew from, as the grown one sees them: in features of its own schema."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from zoosim.core.types import BoolArray, Context, FloatArray, frozen
from zoosim.policies.model import ID, Model, product_ids
from zoosim.schema.schema import FittedSchema
from zoosim.serving.catalogue import RequestCandidates
from zoosim.serving.events import ProductDecision, unpack_floats, unpack_unexpressed, unpack_whole
from zoosim.serving.ids import user_id_of

FeaturesOf = Callable[[ProductDecision, int], FloatArray | None]
"""Returns the features of a version of a product in a decision, None where they are not known."""


def context_of(
    user_id: int, visitor: Any, candidates: RequestCandidates, available: BoolArray | None = None
) -> Context:
    """Return a request as policies see it: who comes, with features `(d_u,)`, and what may be shown.

    By default those candidates are `available (K,)` that are without a request, too.
    """
    return Context(
        user_id=user_id,
        user=visitor,
        product_ids=candidates.ids,
        products=candidates.features,
        available=candidates.available if available is None else available,
    )


class Schemas:
    """The schemas of models by their digests, each loaded once."""

    def __init__(self, load_model: Callable[[str], Model]) -> None:
        self._load_model = load_model
        self._schemas: dict[str, FittedSchema] = {}

    def of(self, digest: str) -> FittedSchema:
        """Return the schema of the model with a digest."""
        if digest not in self._schemas:
            # The schema alone is kept, as a model may be hundreds of megabytes.
            self._schemas[digest] = self._load_model(digest).fitted
        return self._schemas[digest]


class Recorded:
    """Encodes recorded decisions anew: by the features that they had, and by what these did not express."""

    def __init__(
        self,
        model: Model,
        schemas: Schemas,
        features_of: FeaturesOf,
    ) -> None:
        """Encode for a model.

        Args:
            model: The model that grew.
            schemas: Those of the models that it grew from.
            features_of: Returns the features `(d_p,)` that a product had in a decision, by the schema of that time;
                None where they are not known, and those of the grown model's catalogue are taken.
        """
        self._model = model
        self._schemas = schemas
        self._features_of = features_of

    def shown_in(self, decision: ProductDecision, slot: int) -> tuple[Context, int]:
        """Return the request of a decision with the product in a slot alone, and that product's place."""
        user_id = user_id_of(decision.visitor_id)
        return context_of(user_id, frozen(self.visitor_in(decision, slot)), self._product_in(decision, slot)), 0

    def visitor_in(self, decision: ProductDecision, slot: int) -> FloatArray:
        """Return the visitor's features `(d_u,)` in a slot."""
        values = unpack_unexpressed(decision.unexpressed).visitor_in(slot)
        before = self._schemas.of(decision.model).visitors
        features = unpack_floats(decision.visitor_in(slot))
        return self._model.fitted.visitors.carry_over(before, features, values)

    def candidates_in(self, decision: ProductDecision, candidates: RequestCandidates) -> RequestCandidates:
        """Return all candidates of a decision, which are those of another schema."""
        rest = dict(unpack_unexpressed(decision.unexpressed).candidates)
        pairs = zip(candidates.names, candidates.versions.tolist(), strict=True)
        rows = [self._features_in(decision, name, version, rest.get(name, {})) for name, version in pairs]
        features = np.array(rows, float).reshape(len(rows), -1)
        return RequestCandidates(candidates.versions, candidates.names, candidates.ids, frozen(features))

    def _product_in(self, decision: ProductDecision, slot: int) -> RequestCandidates:
        name = decision.products[slot]
        rest = dict(unpack_unexpressed(decision.unexpressed).candidates).get(name, {})
        version = int(unpack_whole(decision.versions)[decision.shown[slot]])
        features = np.array(self._features_in(decision, name, version, rest), float).reshape(1, -1)
        names = (name,)
        return RequestCandidates(np.zeros(1, np.int64), names, product_ids(names), frozen(features))

    def _features_in(
        self, decision: ProductDecision, name: str, version: int, unexpressed: Mapping[str, Any]
    ) -> FloatArray:
        """Return the features `(d_p,)` of a version of a product in a decision."""
        values = {ID: name, **unexpressed}
        encoder = self._model.fitted.products
        features = self._features_of(decision, version)
        place = self._model.catalogue.place(name)
        if features is not None:
            return encoder.carry_over(self._schemas.of(decision.model).products, features, values)
        if place is not None:
            return np.asarray(self._model.catalogue.features[place])
        return encoder.encode_one(values)
