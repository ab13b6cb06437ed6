"""What can be reached, by vectors, by templates and by no boosts at all, on the visits that learners are scored on."""

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np

from studies.boost_curves.learners import DEFAULT, WORLDS
from studies.boost_curves.records import ALL, Reached
from studies.held_out import EXAM_VISITS, MOODS, Exam, exam_of, open_shop, worth_of
from zoosim.core.array_cache import kept
from zoosim.core.rng import stream
from zoosim.core.search_config import FEATURES, TEMPLATES
from zoosim.core.types import FloatArray, IntArray
from zoosim.worlds.search.expected_reward import groups_of, share_of
from zoosim.worlds.search.optimum import best_of_group, strata_of
from zoosim.worlds.search.shop import SearchShop, Visit
from zoosim.worlds.search.tables import digest
from zoosim.worlds.search.template_arms import expected_rewards

OPTIMUM, CONSTANT, CELL = "optimum", "best constant vector", "best template a cell"
SINGLE, PREMIUM, NEUTRAL, RANDOM = "best template", "premium template", "neutral", "random boosts"

Ranker = Callable[[Visit], IntArray]


def lines_of(laws: str, seed: int) -> list[Reached]:
    """Return what each line comes to in the shop of a seed, for all visits and by segment; kept on disk.

    The optimum, a vector for each segment, and the constant vector are `best_of_group`'s; with the laws changed the
    constant vector is left out. Templates are chosen on the visits of `expected_rewards`.
    """
    shop = open_shop(WORLDS[laws], seed)
    key = (laws, shop.world.config.model_dump_json(), digest(shop.world.config), seed, EXAM_VISITS, MOODS)

    def make() -> dict[str, Any]:
        return {"rows": np.array(json.dumps([asdict(row) for row in _measured(shop, laws, seed)]))}

    rows = json.loads(str(kept("boost-lines", key, ("rows",), make)["rows"]))
    return [Reached(**row) for row in rows]


def _measured(shop: SearchShop, laws: str, seed: int) -> list[Reached]:
    (everybody,) = groups_of(shop, "all")
    best = np.array([best_of_group(shop, 0, part).boosts for _, part in strata_of(shop, 0, everybody)])
    exam = exam_of(shop, best, EXAM_VISITS)
    rows = _rows(OPTIMUM, laws, seed, exam, exam.bars.mean(axis=1))
    for name, rank in _rankers(shop, laws).items():
        means = np.array([np.mean([worth_of(shop, visit, rank(visit)) for visit in part]) for part in exam.visits])
        rows += _rows(name, laws, seed, exam, means)
    return rows


def _rankers(shop: SearchShop, laws: str) -> dict[str, Ranker]:
    table, kinds = expected_rewards(shop)[0], len(shop.world.config.query_types)
    best, single = table.argmax(axis=1), best_single(shop, table)
    rng, a_max = stream(shop.world.seed, "random boosts"), shop.world.config.a_max
    rankers: dict[str, Ranker] = {
        CELL: lambda visit: shop.rank_by_template(visit, int(best[visit.segment * kinds + visit.kind])),
        SINGLE: lambda visit: shop.rank_by_template(visit, single),
        PREMIUM: lambda visit: shop.rank_by_template(visit, TEMPLATES.index("premium")),
        NEUTRAL: lambda visit: visit.baseline,
        RANDOM: lambda visit: shop.rank(visit, rng.uniform(-a_max, a_max, len(FEATURES))),
    }
    if laws != DEFAULT:
        return rankers
    constant = best_of_group(shop, 0, groups_of(shop, "all")[0]).boosts
    return {CONSTANT: lambda visit: shop.rank(visit, constant), **rankers}


def best_single(shop: SearchShop, table: FloatArray) -> int:
    """Return the template that earns most over all visits, by its reward in each cell, `table (cells, 8)`."""
    kinds, totals = len(shop.world.config.query_types), np.zeros(len(TEMPLATES))
    for group in groups_of(shop, "cell"):
        assert group.segment is not None
        assert group.kind is not None
        totals += share_of(shop, 0, group) * table[group.segment * kinds + group.kind]
    return int(totals.argmax())


def _rows(who: str, laws: str, seed: int, exam: Exam, means: FloatArray) -> list[Reached]:
    """Return what a line comes to in all and in each segment, `means (S,)`."""
    bars = exam.bars.mean(axis=1)
    everybody = Reached(who, laws, seed, 0, ALL, float(exam.shares @ means), float(exam.shares @ bars))
    own = zip(exam.names, means.tolist(), bars.tolist(), strict=True)
    return [everybody, *(Reached(who, laws, seed, 0, *figures) for figures in own)]
