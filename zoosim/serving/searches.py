"""Searches: the boosts that rank the products of a request, and what the model learns from clicks and purchases."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
import numpy as np

from zoosim.core.errors import PolicyError
from zoosim.core.parameters import unknown
from zoosim.core.types import FloatArray
from zoosim.policies.boost_model import BoostModel
from zoosim.serving.bodies import ScoredProduct, SearchAnswer, SearchBody
from zoosim.serving.events import Search, unpack_floats
from zoosim.serving.ids import product_id
from zoosim.serving.join import CLICK, PURCHASE, Closing


class Ranked(NamedTuple):
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


def rank(model: BoostModel, body: SearchBody, rng: np.random.Generator | None) -> Ranked:
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
    return Ranked(visitor, products, request.context.base_scores, boosts, density, ranking, ignored)


def _known_candidates(model: BoostModel, candidates: dict[str, float] | list[ScoredProduct]) -> tuple[Any, list[str]]:
    """Return the candidates that a model knows, as it takes them, and the ids of the others.

    Where it knows none, all of them are returned, which it refuses.
    """
    if isinstance(candidates, dict):
        scored = [ScoredProduct(name, score) for name, score in candidates.items()]
    else:
        scored = candidates
    names = [product_id(candidate.id) for candidate in scored]
    is_known = [name in model.requests.row_of for name in names]
    known = [candidate for candidate, keep in zip(scored, is_known, strict=True) if keep]
    ignored = [name for name, keep in zip(names, is_known, strict=True) if not keep]
    if not known:
        return msgspec.to_builtins(scored), []
    return msgspec.to_builtins(known), ignored


def search_answer(decision_id: str, search: Search) -> SearchAnswer:
    """Return what is answered to a search."""
    return SearchAnswer(
        decision_id=decision_id,
        ranking=search.names_shown,
        boosts=unpack_floats(search.boosts).tolist(),
        density=search.density,
        model=search.model,
        state=search.state,
        ignored=search.ignored,
    )


def check_search_rewards(rewards: Mapping[str, float]) -> None:
    """Refuse what a product of a search cannot earn: `PolicyError`."""
    for name, reward in rewards.items():
        if name not in (CLICK, PURCHASE):
            raise PolicyError(unknown("rewards: unknown", name, [CLICK, PURCHASE]))
        if reward not in (0.0, 1.0):
            raise PolicyError(f"rewards: got {reward:g} as {name}, expected 0 or 1")


def learn_search(model: BoostModel, search: Search, closing: Closing) -> None:
    """Learn what a search earned."""
    scores = unpack_floats(search.scores).tolist()
    request = model.request(search.visitor, dict(zip(search.products, scores, strict=True)))
    places = np.arange(len(search.ranking))
    clicks = np.isin(places, closing.clicked).astype(float)
    purchases = np.isin(places, closing.purchased).astype(float)
    model.learn_shown(request, unpack_floats(search.boosts), np.array(search.ranking), clicks, purchases)
