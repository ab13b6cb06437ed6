"""What boosts are worth in expectation: many vectors at many visits, paired by common random numbers."""

from typing import NamedTuple

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.normals import fill_normals
from zoosim.core.search_config import FEATURES
from zoosim.core.types import FloatArray
from zoosim.ranking.top_k import top
from zoosim.worlds.search.market import only
from zoosim.worlds.search.queries import Queries
from zoosim.worlds.search.reward import left_top, worth
from zoosim.worlds.search.scores import base_scores, matched_scores, matches
from zoosim.worlds.search.shop import SearchShop
from zoosim.worlds.search.simulate import Stage, expect


class Group(NamedTuple):
    """Visits of one `segment` and query type `kind`, by number; None stands for all of them as they come."""

    name: str
    segment: int | None
    kind: int | None


def groups_of(shop: SearchShop, by: str) -> tuple[Group, ...]:
    """Return the groups that come in some market: `all` visits, each `segment`, or each `cell` with a query type."""
    config, world = shop.world.config, shop.world
    if by == "all":
        return (Group("all", None, None),)
    coming = [(n, name) for n, name in enumerate(config.segments) if any(config.shares_of(name))]
    if by == "segment":
        return tuple(Group(name, n, None) for n, name in coming)
    typed = {n: np.max([world.type_shares(market, n) for market in world.markets], axis=0) > 0.0 for n, _ in coming}
    kinds = list(enumerate(config.query_types))
    return tuple(Group(f"{name}, {kind}", n, m) for n, name in coming for m, kind in kinds if typed[n][m])


def share_of(shop: SearchShop, market: int, group: Group) -> float:
    """Return the share of a market's visits that are of a group."""
    there = shop.world.markets[market]
    if group.segment is None:
        return 1.0
    share = float(np.diff(there.shares.segments, prepend=0.0)[group.segment])
    return share if group.kind is None else share * float(shop.world.type_shares(there, group.segment)[group.kind])


def visits_of(shop: SearchShop, market: int, group: Group, first: int, n: int) -> Queries:
    """Return `n` visits of one group, the earliest from number `first` on, as they would be in a market.

    Fewer come back where a kind of query is so rare that a thousand times as many visits do not hold them.
    """
    there = shop.world.markets[market]
    if group.segment is not None:
        there = only(there, group.segment)
    if group.kind is None:
        return shop.world.queries_in(there, first, first + n)
    parts, found = [], 0
    for start in range(first, first + 1_000 * n, 4 * n):
        drawn = shop.world.queries_in(there, start, start + 4 * n)
        parts.append(drawn.of(np.flatnonzero(drawn.types == group.kind)[: n - found]))
        found += len(parts[-1].steps)
        if found == n:
            break
    return Queries(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def boost_rewards(shop: SearchShop, market: int, queries: Queries, actions: FloatArray, moods: int = 1) -> FloatArray:
    """Return what boosts `actions (m, 10)` come to at each of n visits of a market, `(m, n)`, the mean over `moods`.

    The mean over visits estimates the expected reward without bias; moods are the same for all actions.
    """
    none = np.zeros((0, len(shop.world.catalogue.ids)))
    return _run(shop, market, queries, none, np.ascontiguousarray(actions, np.float64), moods)


def template_rewards(shop: SearchShop, market: int, queries: Queries, moods: int = 1) -> FloatArray:
    """Return what each template comes to at each of n visits of a market, `(8, n)`; see `boost_rewards`."""
    values = shop.world.config.a_max * shop.templates(market)
    return _run(shop, market, queries, values, np.zeros((0, len(FEATURES))), moods)


def _run(
    shop: SearchShop, market: int, queries: Queries, values: FloatArray, actions: FloatArray, moods: int
) -> FloatArray:
    world, stage = shop.world, shop.stage(market)
    relevance, weights = world.config.relevance, world.config.reward
    noise = (world.keys["relevance"], relevance.cosine, relevance.tokens, relevance.noise_sd)
    price = (worth(weights), weights.rank_change, weights.rank_change_at)
    out = np.empty((len(values) + len(actions), len(queries.users)))
    _rewards(stage, queries, world.table.shared, noise, shop.specificity, price, values, actions, shop.k, moods, out)
    return out


@jit
def _rewards(
    stage: Stage,
    queries: Queries,
    words: FloatArray,
    relevance: tuple[np.uint64, float, float, float],
    specificity: FloatArray,
    price: tuple[FloatArray, float, int],
    values: FloatArray,
    actions: FloatArray,
    k: int,
    moods: int,
    out: FloatArray,
) -> None:
    """Write what rankings come to, those by `values (t, K)` added to base scores first, then those by `actions`."""
    users, count = stage.users, stage.log_price.shape[0]
    base, match, scores, each = np.empty(count), np.empty(count), np.empty(count), np.empty(moods)
    baseline, shown, signs = np.empty(k, np.int64), np.empty(k, np.int64), np.empty(3)
    for i in range(out.shape[1]):
        step, user, kind, query = queries.steps[i], queries.users[i], queries.types[i], queries.embeddings[i]
        fill_normals(relevance[0], step, base)
        base_scores(stage.shelf, query, words[queries.rows[i]], relevance[1], relevance[2], relevance[3], base)
        top(base, baseline)
        signs[0], signs[1] = np.sign(users.price_taste[user]), np.sign(users.label_taste[user])
        signs[2] = np.sign(specificity[kind])
        matches(stage.shelf, users.embeddings[user], match)
        for n in range(out.shape[0]):
            if n < values.shape[0]:
                for p in range(count):
                    scores[p] = base[p] + values[n, p]
            else:
                matched_scores(stage.shelf, base, match, signs, actions[n - values.shape[0]], scores)
            top(scores, shown)
            expect(stage, step, user, kind, query, shown, price[0], 1, each)
            out[n, i] = np.mean(each) - price[1] * left_top(baseline, shown, price[2])
