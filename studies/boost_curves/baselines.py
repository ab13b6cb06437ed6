"""Baselines for learners of boosts: the best vectors, the best templates of each library, and no boosts.

All are scored on the same held-out visits.
"""

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np

from studies.boost_curves.learners import DEFAULT, SHOPS
from studies.boost_curves.records import ALL, Score, SegmentBoosts
from studies.held_out import (
    HELD_OUT_VISITS,
    REPLICATES,
    HeldOut,
    best_vectors,
    draw_held_out,
    open_shop,
    ranking_reward,
)
from zoosim.core.array_cache import kept
from zoosim.core.rng import stream
from zoosim.core.search_names import FEATURES, LIBRARY_NAMES
from zoosim.core.types import FloatArray, IntArray
from zoosim.worlds.search import optimum as searching
from zoosim.worlds.search.boosts import cell_of
from zoosim.worlds.search.expected_reward import groups_of, share_of
from zoosim.worlds.search.optimum import SearchBudget, best_of_group
from zoosim.worlds.search.shop import SearchShop, SearchVisit
from zoosim.worlds.search.tables import digest
from zoosim.worlds.search.template_arms import expected_rewards, with_library
from zoosim.worlds.search.world import build_search_world

OPTIMUM = "optimum"
CONSTANT = "best constant vector"
PREMIUM = "premium vector"
PREMIUM_RULE = "premium rule"
NEUTRAL = "neutral"
RANDOM = "random boosts"

Ranker = Callable[[SearchVisit], IntArray]


def per_cell(library: str) -> str:
    """Return the name of the baseline that ranks each cell by the best template of a library."""
    return f"best of {library} per cell"


def per_segment(library: str) -> str:
    """Return the name of the baseline that ranks each segment by the best template of a library."""
    return f"best of {library} per segment"


def single(library: str) -> str:
    """Return the name of the baseline that ranks all visits by the best template of a library."""
    return f"best of {library}"


def baseline_scores(behaviour: str, seed: int) -> list[Score]:
    """Return the score of each baseline in the shop of a seed, for all visits and by segment; kept on disk.

    The optimum, a vector for each segment, and the constant vector are `best_of_group`'s; with changed behaviour the
    constant vector is left out. Templates are chosen on the visits of `expected_rewards`.
    """
    shop = open_shop(SHOPS[behaviour], seed)
    config = shop.world.config
    key = (behaviour, config.model_dump_json(), digest(config), seed, HELD_OUT_VISITS, REPLICATES)

    def make() -> dict[str, Any]:
        return {"rows": np.array(json.dumps([asdict(row) for row in _measured(shop, behaviour, seed)]))}

    rows = json.loads(str(kept("boost-lines", key, ("rows",), make)["rows"]))
    return [Score(**row) for row in rows]


def best_boosts(behaviour: str, seed: int) -> list[SegmentBoosts]:
    """Return the optimum's boosts of each segment in the shop of a seed."""
    shop = open_shop(SHOPS[behaviour], seed)
    names = [part.name for part in groups_of(shop, "segment")]
    return [
        SegmentBoosts(OPTIMUM, behaviour, seed, name, dict(zip(FEATURES, boosts.tolist(), strict=True)))
        for name, boosts in zip(names, best_vectors(shop), strict=True)
    ]


def _measured(shop: SearchShop, behaviour: str, seed: int) -> list[Score]:
    held_out = draw_held_out(shop, best_vectors(shop), HELD_OUT_VISITS)
    rows = _rows(OPTIMUM, behaviour, seed, held_out, held_out.baseline.mean(axis=1))
    for name, rank in _rankers(shop, behaviour).items():
        rewards = [[ranking_reward(shop, visit, rank(visit)) for visit in part] for part in held_out.visits]
        rows += _rows(name, behaviour, seed, held_out, np.mean(rewards, axis=1))
    return rows


def _rankers(shop: SearchShop, behaviour: str) -> dict[str, Ranker]:
    """Return the function from a visit to a ranking of each baseline but the optimum."""
    a_max = shop.world.config.a_max
    rng = stream(shop.world.seed, "random boosts")
    rankers: dict[str, Ranker] = {
        **{name: rank for library in LIBRARY_NAMES[::-1] for name, rank in _template_rankers(shop, library).items()},
        NEUTRAL: lambda visit: visit.baseline,
        RANDOM: lambda visit: shop.rank(visit, rng.uniform(-a_max, a_max, len(FEATURES))),
    }
    if behaviour != DEFAULT:
        return rankers
    (everybody,) = groups_of(shop, "all")
    # A search for all visits takes so many of each segment: as many in all as one for a segment.
    sizes = SearchBudget(*(-(-size // len(groups_of(shop, "segment"))) for size in searching.USUAL))
    constant = best_of_group(shop, 0, everybody, sizes=sizes).boosts
    return {CONSTANT: lambda visit: shop.rank(visit, constant), **rankers}


def _template_rankers(shop: SearchShop, library: str) -> dict[str, Ranker]:
    """Return the ranker of each baseline of a library: its best templates, and Premium for everybody."""
    config = with_library(shop.world.config, library)
    other = SearchShop(build_search_world(config, seed=shop.world.seed))
    (cell_rewards,) = expected_rewards(other)
    by_segment = best_by_segment(other, cell_rewards)
    best = best_single(other, cell_rewards)
    rankers: dict[str, Ranker] = {
        per_cell(library): lambda visit: other.rank_by_template(
            visit, int(cell_rewards[cell_of(other, visit)].argmax())
        ),
        per_segment(library): lambda visit: other.rank_by_template(visit, by_segment[visit.segment]),
        single(library): lambda visit: other.rank_by_template(visit, best),
    }
    premium = {"vectors": PREMIUM, "rules": PREMIUM_RULE}.get(library)
    if premium is not None:
        number = list(config.templates).index("premium")
        rankers[premium] = lambda visit: other.rank_by_template(visit, number)
    return rankers


def best_single(shop: SearchShop, cell_rewards: FloatArray) -> int:
    """Return the template that earns most over all visits, by its reward in each cell, `cell_rewards (cells, T)`."""
    return int(_totals(shop, cell_rewards).sum(axis=0).argmax())


def best_by_segment(shop: SearchShop, cell_rewards: FloatArray) -> list[int]:
    """Return the template that earns most in each segment, by its reward in each cell, `cell_rewards (cells, T)`."""
    best: list[int] = _totals(shop, cell_rewards).argmax(axis=1).tolist()
    return best


def _totals(shop: SearchShop, cell_rewards: FloatArray) -> FloatArray:
    """Return what each template earns in each segment, by the segment's share of the visits, `(S, T)`."""
    config = shop.world.config
    totals = np.zeros((len(config.segments), cell_rewards.shape[1]))
    for group in groups_of(shop, "cell"):
        assert group.segment is not None
        assert group.query_type is not None
        cell = group.segment * len(config.query_types) + group.query_type
        totals[group.segment] += share_of(shop, 0, group) * cell_rewards[cell]
    return totals


def _rows(name: str, behaviour: str, seed: int, held_out: HeldOut, means: FloatArray) -> list[Score]:
    """Return the scores of a baseline for all visits and for each segment, from its mean rewards `means (S,)`."""
    optima = held_out.baseline.mean(axis=1)
    reward = float(held_out.shares @ means)
    optimum = float(held_out.shares @ optima)
    rows = [Score(name, behaviour, seed, 0, ALL, reward, optimum)]
    for segment, mean, best in zip(held_out.names, means.tolist(), optima.tolist(), strict=True):
        rows.append(Score(name, behaviour, seed, 0, segment, mean, best))
    return rows
