"""Templates as a bandit: a world whose products are the eight templates, so that every policy of ours can choose one.

A visit's features are the visitor's, and what each template would earn is settled beforehand by the shop's common
random numbers: rewards `(n, 8)`. The truth that regret is counted against is each template's expected reward in each
cell, a pair of segment and query type, estimated from visits that no policy meets.
"""

from typing import NamedTuple

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.normals import fill_normals
from zoosim.core.search_config import SearchConfig
from zoosim.core.types import FloatArray, IntArray
from zoosim.dynamics.reward import left_top, reward
from zoosim.dynamics.stage import Stage, serve
from zoosim.dynamics.visit import Outcome
from zoosim.envs.search_shop import SearchShop
from zoosim.ranking.scores import base_scores, top
from zoosim.ranking.templates import TEMPLATES
from zoosim.world.search import Queries

BLOCK = 1_000
APART = 2**40
"""The number of the first visit that the truth is estimated from: no run gets there."""


class Earnings(NamedTuple):
    """What each template came to at each of n visits, each `(n, 8)`: in EUR, products, clicks; and the `reward`."""

    reward: FloatArray
    gmv: FloatArray
    cm2: FloatArray
    strategic: FloatArray
    clicks: FloatArray
    rank_change: FloatArray


def earnings(shop: SearchShop, start: int, stop: int) -> Earnings:
    """Let every template serve the visits `start` to `stop - 1`."""
    world, weights = shop.world, shop.world.config.reward
    relevance = world.config.relevance
    values, out = world.config.a_max * shop.templates, np.zeros((stop - start, len(TEMPLATES), 5))
    for first in range(start, stop, BLOCK):
        queries = world.queries(first, min(first + BLOCK, stop))
        part = out[first - start : first - start + len(queries.users)]
        noise = (world.keys["relevance"], relevance.cosine, relevance.tokens, relevance.noise_sd)
        _serve_all(shop.stage, queries, world.overlap, noise, values, shop.k, weights.rank_change_at, part)
    parts = [np.ascontiguousarray(out[:, :, n]) for n in range(5)]
    return Earnings(reward(weights, parts), *parts)


@jit
def _serve_all(
    stage: Stage,
    queries: Queries,
    overlap: FloatArray,
    relevance: tuple[np.uint64, float, float, float],
    values: FloatArray,
    k: int,
    rank_change_at: int,
    out: FloatArray,
) -> None:
    """Write what each template of `values (8, K)` comes to at each visit to `out (n, 8, 5)`."""
    count = values.shape[1]
    base, scores = np.empty(count), np.empty(count)
    baseline, shown = np.empty(k, np.int64), np.empty(k, np.int64)
    for i in range(out.shape[0]):
        step, user, kind, query = queries.start + i, queries.users[i], queries.types[i], queries.embeddings[i]
        fill_normals(relevance[0], step, base)
        shared = overlap[queries.intents[i]]
        base_scores(stage.shelf, query, shared, relevance[1], relevance[2], relevance[3], base)
        top(base, baseline)
        for template in range(values.shape[0]):
            for p in range(count):
                scores[p] = base[p] + values[template, p]
            top(scores, shown)
            out[i, template, :4] = serve(stage, step, user, kind, query, shown, _nothing(k))
            out[i, template, 4] = left_top(baseline, shown, rank_change_at)


@jit
def _nothing(k: int) -> Outcome:
    """Return an outcome of `k` positions where nothing has happened."""
    flags, figures, chances = np.zeros((3, k), np.bool_), np.zeros((2, k)), np.full((3, k), np.nan)
    return Outcome(flags[0], flags[1], flags[2], figures[0], figures[1], chances[0], chances[1], chances[2])


def cell_of(segment: IntArray, kind: IntArray, config: SearchConfig) -> IntArray:
    """Return the number of the cell of a segment and a query type."""
    return segment * len(config.query_types) + kind
