"""Searches: the boosts that rank the products of a request."""

import contextlib
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

import msgspec
import numpy as np
from msgspec import UNSET

from zoosim.core.errors import PolicyError
from zoosim.core.parameters import shown, unknown
from zoosim.core.types import FloatArray
from zoosim.policies.boost_model import TASTES, BoostModel
from zoosim.schema.column import DeviationKind
from zoosim.serving.arms import mixture_of
from zoosim.serving.bodies import ScoredProduct, SearchAnswer, SearchBody, SearchVisitor, hash_of
from zoosim.serving.current import ServedArm
from zoosim.serving.endpoints.base import TRIAL, Endpoint, ServiceParts, answered_arm
from zoosim.serving.events import SearchDecision, pack, pack_floats, unpack_floats
from zoosim.serving.ids import product_id
from zoosim.serving.inputs import VISITOR, InputKey, refuse
from zoosim.serving.join import CLICK, PURCHASE
from zoosim.serving.products import Complaints, check_size
from zoosim.serving.ranker import Units


class SearchEndpoint(Endpoint):
    """Ranks the results of a search by boosts."""

    path = "/v1/searches"
    operation = "search"
    summary = "Rank the results of a search."
    what = "ranks searches by boosts"
    body = SearchBody
    answer = SearchAnswer
    choice = SearchDecision

    def __init__(self, parts: ServiceParts) -> None:
        super().__init__(parts)
        self._complaints = Complaints(parts.clock.passed)

    async def decide(self, body: SearchBody, request: bytes, decision_id: str) -> tuple[SearchDecision, SearchAnswer]:
        """Return the record and the answer of a search."""
        self.check_model()
        deviations = _deviations(_model_of(self._current.champion), body.visitor)
        warnings = list(deviations.values())
        if warnings and self._current.settings.strict:
            self.inputs.note(deviations)
            refuse(warnings)
        search, answer = self._rank(body, request, decision_id)
        self.inputs.note(deviations)
        answer.warnings = warnings
        return search, answer

    async def answer_again(
        self, decision_id: str, choice: SearchDecision, body: SearchBody | None = None
    ) -> SearchAnswer:
        """Return what was answered to a search."""
        answer = _answer(decision_id, choice)
        if body is not None and isinstance(self._current.model, BoostModel):
            answer.warnings = list(_deviations(self._current.model, body.visitor).values())
        return answer

    def check_rewards(self, rewards: Mapping[str, float]) -> None:
        """Refuse what a product of a search cannot earn: `PolicyError`."""
        for name, reward in rewards.items():
            if name not in (CLICK, PURCHASE):
                raise PolicyError(unknown("rewards: unknown", name, [CLICK, PURCHASE]))
            if reward not in (0.0, 1.0):
                raise PolicyError(f"rewards: got {reward:g} as {name}, expected 0 or 1")

    def try_requests(self) -> None:
        """Rank the first products of the catalogue."""
        self.check_model()
        model = _model_of(self._current.champion)
        schema = model.requests.schema
        visitor = SearchVisitor(schema.segments[0], next(iter(schema.query_types)))
        body = SearchBody(visitor, dict.fromkeys(model.requests.names[: schema.k], 0.0))
        record, answer = self._rank(body, hash_of(body), TRIAL)
        pack(record)
        msgspec.json.encode(answer)

    def _rank(self, body: SearchBody, request: bytes, decision_id: str) -> tuple[SearchDecision, SearchAnswer]:
        """Return the record and the answer of a search; moves no state, and stores nothing."""
        self.check_model()
        check_size(body.candidates, self._current.settings)
        is_drawn = self._current.settings.mode == "online"
        units = Units(self._parts.secret, decision_id)
        arm, ranked = self.decided(
            body, decision_id, lambda arm: rank(_model_of(arm), body, units.generator() if is_drawn else None)
        )
        search = SearchDecision(
            request=request,
            model=arm.start.model,
            state=arm.state,
            visitor_id=body.visitor_id,
            visitor=ranked.visitor,
            products=ranked.products,
            scores=pack_floats(ranked.scores),
            boosts=pack_floats(ranked.boosts),
            density=ranked.density,
            ranking=ranked.ranking,
            deferred=body.defer,
            turn=arm.start.turn,
            ignored=ranked.ignored,
            arm=arm.name,
            mixture=self._mixture(
                body, arm.name, ranked, self._current.assignment.arm_for(body.visitor_id, decision_id)
            ),
        )
        if ranked.ignored:
            self._complaints.add(
                f"candidates: got {shown(ranked.ignored[0])}, which is not in the catalogue of "
                f"{len(_model_of(arm).requests.names):,} products; train another model when your catalogue changes"
            )
        return search, _answer(decision_id, search)

    def _mixture(self, body: SearchBody, decided: str, ranked: "RankedSearch", assigned: str) -> float | None:
        """Return the density of boosts before the arm was drawn, None where they were not, or one arm is alone.

        `assigned` is the arm that was drawn, which failed where another one decided.
        """
        if ranked.density is None or len(self._current.deciding) == 1:
            return None
        densities = {decided: [ranked.density]}
        for name, arm in self._current.deciding.items():
            if name not in (decided, assigned):
                with contextlib.suppress(Exception):  # it would have left the decision to the champion
                    densities[name] = [_density(_model_of(arm), body, ranked.boosts)]
        (density,) = mixture_of(self._current.assignment.weights(densities), densities)
        return density


def _model_of(arm: ServedArm) -> BoostModel:
    return cast(BoostModel, arm.model)


def _deviations(model: BoostModel, visitor: SearchVisitor) -> dict[InputKey, str]:
    """Describe what of a visitor a model was not made for; unknown columns, segments and query types are refused.

    A shop may estimate one of both tastes, so that only where both are left out they are missing.
    """
    schema = model.requests.schema
    tastes = {name: getattr(visitor, name) for name in TASTES}
    found = {}
    if schema.n_tastes and all(taste is UNSET for taste in tastes.values()):
        for name in tastes:
            line = f"{VISITOR}: {name}: was left out, expected a number; it counts as 0"
            found[InputKey(VISITOR, name, DeviationKind.MISSING)] = line
    limit = schema.largest_taste
    for name, taste in tastes.items():
        if taste is not UNSET and abs(taste) > limit:
            line = f"{VISITOR}: {name}: got {taste:g}, expected a number from {-limit:.1f} to {limit:.1f}"
            found[InputKey(VISITOR, name, DeviationKind.OUT_OF_RANGE)] = line
    return found


def _answer(decision_id: str, search: SearchDecision) -> SearchAnswer:
    """Return what is answered to a search."""
    return SearchAnswer(
        decision_id=decision_id,
        ranking=search.names_shown,
        boosts=unpack_floats(search.boosts).tolist(),
        density=search.density,
        model=search.model,
        state=search.state,
        ignored=search.ignored,
        arm=answered_arm(search),
    )


class RankedSearch(NamedTuple):
    """A ranking: places `ranking (k,)` among the candidates `products (n,)` with their base `scores (n,)`.

    `density` is that of the `boosts (10,)`, None where these were not drawn. `ignored` are the ids of candidates that
    the model does not know.
    """

    visitor: dict[str, Any]
    products: list[str]
    scores: FloatArray
    boosts: FloatArray
    density: float | None
    ranking: list[int]
    ignored: list[str]


def rank(model: BoostModel, body: SearchBody, rng: np.random.Generator | None) -> RankedSearch:
    """Rank the candidates of a search; moves no state of the model.

    Args:
        model: Whose boosts rank.
        body: The request.
        rng: Where boosts are drawn from; None for the base ranker's own ranking, without boosts.

    Raises:
        PolicyError: no candidate is known, or one comes twice, or the segment or query type is unknown.
    """
    visitor = msgspec.to_builtins(body.visitor)
    candidates, ignored = _known_candidates(model, body.candidates)
    request = model.request(visitor, candidates)
    if rng is None:
        boosts = np.zeros(model.policy.spec.product_dim)
        density = None
    else:
        distribution = model.distribution(request.context)
        boosts = distribution.draw(rng=rng)
        density = distribution.density(boosts)
    products = [model.requests.names[row] for row in request.rows]
    ranking = model.requests.ranking(request.context, boosts).tolist()
    return RankedSearch(visitor, products, request.context.base_scores, boosts, density, ranking, ignored)


def _density(model: BoostModel, body: SearchBody, boosts: FloatArray) -> float:
    """Return the density of boosts for a search, by a model that may know other products; raises as `rank`."""
    request = model.request(msgspec.to_builtins(body.visitor), _known_candidates(model, body.candidates)[0])
    return float(model.distribution(request.context).density(boosts))


def _known_candidates(model: BoostModel, candidates: dict[str, float] | list[ScoredProduct]) -> tuple[Any, list[str]]:
    """Return the candidates that a model knows, as it takes them, and the ids of the others.

    Where it knows none, all of them are returned, which it refuses.
    """
    if isinstance(candidates, dict):
        scored_products = [ScoredProduct(name, score) for name, score in candidates.items()]
    else:
        scored_products = candidates
    names = [product_id(candidate.id) for candidate in scored_products]
    is_known = [name in model.requests.row_of for name in names]
    known_products = [candidate for candidate, keep in zip(scored_products, is_known, strict=True) if keep]
    ignored_names = [name for name, keep in zip(names, is_known, strict=True) if not keep]
    if not known_products:
        return msgspec.to_builtins(scored_products), []
    return msgspec.to_builtins(known_products), ignored_names
