"""Let searchers come back, by the clicks of a visit and how pleased it left them, and compare boosts over whole lives.

The next query does not hang on what was shown before, and each visit begins as pleased as any. So whoever shows a
segment the same boosts `a` at each visit earns V = r(a) + p(a) V, with the reward r and the chance p that a searcher
returns: V = r / (1 - p). The best of one visit have the largest r, the best of a life the largest V. V is one number
for a segment: to look ahead takes no more than to add V, times the return, to the reward.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, logit

from studies.cache import kept_array
from studies.shops import ShopChanges, read_shop
from studies.work import rows_by_seed
from zoosim.core.checks import check_whole
from zoosim.core.rng import stream
from zoosim.core.search_config import SearchConfig
from zoosim.core.types import FloatArray, Progress
from zoosim.worlds.search.shop import SearchShop
from zoosim.worlds.search.world import build_search_world

BOOSTS = 64
"""Boost vectors that are drawn anywhere, beside no boosts and the shop's templates."""

MOST_CLICKS = 10
"""Clicks of a visit that count for a return, at most."""


class Law(NamedTuple):
    """How a searcher returns: with the logit of `base`, and so much for each click and each unit of satisfaction."""

    base: float = 0.35
    by_click: float = 0.20
    by_satisfaction: float = 0.15


LAWS = {
    "default": Law(),
    "satisfaction counts 7 times": Law(by_satisfaction=1.0),
    "searchers often return": Law(base=0.80),
}


@dataclass(frozen=True)
class Segment:
    """What a segment of a shop earns, in EUR of a new searcher's whole life, by a law of returns.

    `visit_best` is what the boosts bring that earn most in one visit, `life_best` what those bring that earn most over
    a life; both are chosen on half of the visits and judged on the other half. `lowest` and `highest` are the chances
    of a return over all boosts, `correlation` that of rewards with them.
    """

    law: str
    seed: int
    segment: str
    share: float
    visit_best: float
    life_best: float
    lowest: float
    highest: float
    correlation: float


def measure(
    *,
    seeds: Any = "1000:1008",
    visits: Any = 4_000,
    jobs: Any = None,
    config: ShopChanges = None,
    progress: Progress = lambda line: None,
) -> list[Segment]:
    """Show each of so many `visits` of a shop per seed under all boosts; what was measured is kept on disk.

    Raises `ConfigError` for another number of visits than 100 to 100,000, and what `read_shop` raises.
    """
    count = check_whole("search-returns: visits", visits, 100, 100_000)
    return rows_by_seed(partial(_segments, read_shop(config), count), seeds, jobs=jobs, progress=progress)


def _segments(config: SearchConfig, visits: int, seed: int) -> list[Segment]:
    key = (config.model_dump_json(), BOOSTS, visits, seed)
    shown = kept_array("search-returns", key, partial(_outcomes, config, visits, seed))
    segments, outcomes = shown[:, 0, 0].astype(int), shown[:, :, 1:]
    rows = []
    for number, name in enumerate(config.segments):
        of_segment = outcomes[segments == number]
        if len(of_segment) >= 2:
            share = len(of_segment) / visits
            rows += [_by_law(law, seed, name, share, of_segment) for law in LAWS]
    return rows


def _outcomes(config: SearchConfig, visits: int, seed: int) -> FloatArray:
    """Return the segment, reward, clicks and satisfaction of each visit under all boosts, `(visits, actions, 4)`."""
    shop = SearchShop(build_search_world(config, seed=seed))
    rng = stream(seed, "search returns")
    boosts = np.vstack([np.zeros(shop.n_features), rng.uniform(-1.0, 1.0, (BOOSTS, shop.n_features)) * config.a_max])
    templates = range(len(shop.templates.boosts))
    out = np.empty((visits, len(boosts) + len(templates), 4))
    for step in range(visits):
        visit = shop.arrive(step)
        rankings = [shop.rank(visit, vector) for vector in boosts]
        rankings += [shop.rank_by_template(visit, template) for template in templates]
        for number, shown in enumerate(rankings):
            finished = shop.serve(visit, shown)
            clicks = finished.outcome.clicks.sum()
            out[step, number] = visit.segment, finished.reward, clicks, finished.outcome.satisfaction[-1]
    return out


def _by_law(law: str, seed: int, segment: str, share: float, outcomes: FloatArray) -> Segment:
    """Return what a segment earns by a law, from reward, clicks and satisfaction `(visits, actions, 3)`."""
    by_return = return_chances(LAWS[law], outcomes[:, :, 1], outcomes[:, :, 2])
    chosen, judged = (lives(outcomes[half::2, :, 0], by_return[half::2]) for half in range(2))
    first = int(outcomes[::2, :, 0].mean(axis=0).argmax())
    rewards, returns = outcomes[:, :, 0].mean(axis=0), by_return.mean(axis=0)
    is_flat = min(np.ptp(rewards), np.ptp(returns)) == 0.0
    return Segment(
        law=law,
        seed=seed,
        segment=segment,
        share=share,
        visit_best=float(judged[first]),
        life_best=float(judged[int(chosen.argmax())]),
        lowest=float(returns.min()),
        highest=float(returns.max()),
        correlation=float("nan") if is_flat else float(np.corrcoef(rewards, returns)[0, 1]),
    )


def return_chances(law: Law, clicks: FloatArray, satisfaction: FloatArray) -> FloatArray:
    """Return how likely searchers return after visits with so many clicks, left so satisfied."""
    counted = np.minimum(clicks, MOST_CLICKS)
    return np.asarray(expit(logit(law.base) + law.by_click * counted + law.by_satisfaction * satisfaction))


def lives(rewards: FloatArray, returns: FloatArray) -> FloatArray:
    """Return what a searcher's life earns by action `(A,)`, from visits `(n, A)`: V = r + p V."""
    return np.asarray(rewards.mean(axis=0) / (1.0 - returns.mean(axis=0)))


def left_by_myopia(rows: Sequence[Segment], law: str) -> list[float]:
    """Return for each seed what boosts of one visit bring, by segment the best, over those of a life, all searchers."""
    seeds = dict.fromkeys(row.seed for row in rows)
    shares = []
    for seed in seeds:
        own = [row for row in rows if (row.law, row.seed) == (law, seed)]
        shares.append(sum(row.share * row.visit_best for row in own) / sum(row.share * row.life_best for row in own))
    return shares
