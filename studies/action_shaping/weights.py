"""Move the boost of litter's margin alone, then let a learner choose all boosts, with penalties on their size."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from studies.held_out import HELD_OUT_START, boosts_reward, open_shop, spec_of
from studies.work import measure_in_shops
from zoosim.core.errors import ConfigError
from zoosim.core.rng import stream
from zoosim.core.search_config import SearchConfig
from zoosim.core.search_names import FEATURES
from zoosim.core.types import FloatArray
from zoosim.policies.boosts.q_boosts import QEnsemble
from zoosim.worlds.search.boosts import context_of
from zoosim.worlds.search.shop import SearchShop, SearchVisit

LITTER = FEATURES.index("strategic cm2")
TWINS = (("discount", "discount x price taste"), ("private label", "private label x label taste"))
"""Pairs of features that are the same for a visitor but for the sign: only the sum of their boosts does anything."""

WEIGHTS = (-1.0, -0.6, -0.2, 0.0, 0.2, 0.6, 1.0)
PENALTIES = (0.0, 0.003, 0.01, 0.03, 0.1, 0.3)
VISITS, JUDGED, TOP = 1_000, 200, 10
QUERIES = ("litter", "other")


@dataclass(frozen=True)
class Moved:
    """What the boost on litter's margin alone does to `query`s for litter, or for other goods, at a visit.

    `weight` in units of a_max; `left` of the base ranker's top 10; `reward` expected.
    """

    seed: int
    query: str
    weight: float
    left: float
    reward: float


@dataclass(frozen=True)
class Chosen:
    """What a learner chooses with a `penalty`, over queries for litter or for others, in units of a_max.

    `litter` is the mean boost on litter's margin and `spread` its standard deviation; `idle` the mean size of what
    twins have without effect, half the difference of their boosts; `length` the length of the whole vector; `reward`
    expected.
    """

    seed: int
    query: str
    penalty: float
    litter: float
    spread: float
    idle: float
    length: float
    reward: float


def _rows_of(config: SearchConfig, seed: int) -> list[Moved | Chosen]:
    """Measure both on a seed's own catalogue, at 200 held-out visits; raises `ConfigError` in a shop without litter."""
    if not {QUERIES[0]} < set(config.categories):
        raise ConfigError("action-shaping: env.categories: expected litter, whose queries are studied, and others")
    shop = open_shop(config, seed)
    visits = [shop.arrive(HELD_OUT_START + step) for step in range(JUDGED)]
    return [*moved(shop, visits), *chosen(shop, visits, learner(shop))]


measure = measure_in_shops(_rows_of, "1000:1010")


def query_of(shop: SearchShop, visit: SearchVisit) -> str:
    """Say what a visitor looks for: "litter" or "other"."""
    return QUERIES[0] if list(shop.world.config.categories)[visit.intent] == "litter" else QUERIES[1]


def moved(shop: SearchShop, visits: Sequence[SearchVisit]) -> list[Moved]:
    """Boost litter's margin alone."""
    rows = []
    for weight in WEIGHTS:
        action = shop.world.config.a_max * weight * np.eye(len(FEATURES))[LITTER]
        for query in QUERIES:
            own = [visit for visit in visits if query_of(shop, visit) == query]
            left = [TOP - np.isin(v.baseline[:TOP], shop.rank(v, action)[:TOP]).sum() for v in own]
            reward = [boosts_reward(shop, visit, action) for visit in own]
            rows.append(Moved(shop.world.seed, query, weight, float(np.mean(left)), float(np.mean(reward))))
    return rows


def learner(shop: SearchShop, visits: int = VISITS) -> QEnsemble:
    """Let a learner serve the first visits of a shop."""
    policy = QEnsemble(spec_of(shop, visits), stream(shop.world.seed, "policy"))
    for step in range(visits):
        visit = shop.arrive(step)
        context = context_of(shop, visit)
        action = policy.select_action(context)
        policy.update(context, action, shop.serve(visit, shop.rank(visit, action)).reward)
    return policy


def chosen(shop: SearchShop, visits: Sequence[SearchVisit], policy: QEnsemble) -> list[Chosen]:
    """Ask a learner for its boosts under every penalty."""
    rows, a_max = [], shop.world.config.a_max
    for penalty in PENALTIES:
        policy.penalty = penalty
        actions = np.array([policy.recommend(context_of(shop, visit)) for visit in visits]) / a_max
        rewards = np.array([boosts_reward(shop, v, a_max * a) for v, a in zip(visits, actions, strict=True)])
        idle = idle_sizes(actions, np.array([visit.signs for visit in visits]))
        for query in QUERIES:
            own = np.array([query_of(shop, visit) == query for visit in visits])
            litter, length = actions[own, LITTER], np.linalg.norm(actions[own], axis=1).mean()
            figures = litter.mean(), litter.std(), idle[own].mean(), length, rewards[own].mean()
            rows.append(Chosen(shop.world.seed, query, penalty, *(float(figure) for figure in figures)))
    return rows


def idle_sizes(actions: FloatArray, signs: FloatArray) -> FloatArray:
    """Return the mean size of what twins have without effect, for `actions (n, 10)` and `signs (n, 3)` of tastes."""
    halves = []
    for column, names in enumerate(TWINS):
        first, second = (actions[:, FEATURES.index(name)] for name in names)
        halves.append(np.abs(first - signs[:, column] * second) / 2.0)
    sizes: FloatArray = np.mean(halves, axis=0)
    return sizes
