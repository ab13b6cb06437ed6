"""Expected rewards of many boost vectors, or of the templates, at many visits of one kind.

All of them meet the same replicates of the same visits, so their differences are paired. `groups_of` names the kinds of
visits: all of them, a segment's, or a cell's, which is a segment with a query type.
"""

from typing import NamedTuple

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.types import FloatArray
from zoosim.ranking.top_k import top
from zoosim.worlds.search.market import only_segment
from zoosim.worlds.search.queries import Queries, QueryTable
from zoosim.worlds.search.reward import left_top, weight_array
from zoosim.worlds.search.scores import BaseRanker, matched_scores, matches, score_request, signs_of
from zoosim.worlds.search.shop import SearchShop
from zoosim.worlds.search.shop_arrays import ShopArrays, value_replicates


class VisitGroup(NamedTuple):
    """The visits of one `segment` and `query_type`, by number; None stands for all of them as they come."""

    name: str
    segment: int | None
    query_type: int | None


def groups_of(shop: SearchShop, by: str) -> tuple[VisitGroup, ...]:
    """Return the groups of visits that come in some market.

    Args:
        shop: The shop.
        by: "all" for one group, "segment", or "cell" for each segment with a query type.
    """
    world = shop.world
    config = world.config
    if by == "all":
        return (VisitGroup("all", None, None),)
    segments = [VisitGroup(name, n, None) for n, name in enumerate(config.segments) if any(config.shares_of(name))]
    if by == "segment":
        return tuple(segments)
    cells = []
    for segment in segments:
        assert segment.segment is not None
        shares = np.max([world.type_shares(market, segment.segment) for market in world.markets], axis=0)
        cells += [
            VisitGroup(f"{segment.name}, {query_type}", segment.segment, number)
            for number, query_type in enumerate(config.query_types)
            if shares[number] > 0.0
        ]
    return tuple(cells)


def share_of(shop: SearchShop, market: int, group: VisitGroup) -> float:
    """Return the share of a market's visits that are of a group.

    Args:
        shop: The shop.
        market: Number of the market.
        group: The group.
    """
    if group.segment is None:
        return 1.0
    conditions = shop.world.markets[market]
    share = float(np.diff(conditions.shares.segments, prepend=0.0)[group.segment])
    if group.query_type is None:
        return share
    return share * float(shop.world.type_shares(conditions, group.segment)[group.query_type])


def visits_of(shop: SearchShop, market: int, group: VisitGroup, first: int, n: int) -> Queries:
    """Return visits of one group, as they would be in a market.

    Args:
        shop: The shop.
        market: Number of the market.
        group: The group.
        first: Number of the visit from which on they are taken.
        n: Number of visits. Fewer come back where a query type is so rare that a thousand times as many do not hold
            them.
    """
    conditions = shop.world.markets[market]
    if group.segment is not None:
        conditions = only_segment(conditions, group.segment)
    if group.query_type is None:
        return shop.world.queries_in(conditions, first, first + n)
    parts = []
    n_found = 0
    # Visits are drawn as they come and sifted: those of a type are then the shop's own, with all that goes with them.
    for start in range(first, first + 1_000 * n, 4 * n):
        drawn = shop.world.queries_in(conditions, start, start + 4 * n)
        of_type = np.flatnonzero(drawn.types == group.query_type)
        parts.append(drawn.of(of_type[: n - n_found]))
        n_found += len(parts[-1].steps)
        if n_found == n:
            break
    return Queries(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def boost_rewards(
    shop: SearchShop,
    market: int,
    queries: Queries,
    actions: FloatArray,
    replicates: int = 1,
    weights: FloatArray | None = None,
) -> FloatArray:
    """Return what boost vectors earn at visits of a market, without bias also from one replicate.

    Args:
        shop: The shop.
        market: The number of the market.
        queries: The n visits.
        actions: Boost vectors, `(m, 10)`.
        replicates: How often each visit is drawn again, the same for all actions.
        weights: What a EUR of GMV, a EUR of CM2, a strategic purchase and a click count, `(4,)`; None for the shop's.

    Returns:
        The mean reward over the replicates in EUR, `(m, n)`.
    """
    no_templates = np.zeros((0, len(shop.world.catalogue.ids)))
    boosts = np.ascontiguousarray(actions, np.float64)
    return _run(shop, market, queries, no_templates, boosts, replicates, weights)


def template_rewards(shop: SearchShop, market: int, queries: Queries, replicates: int = 1) -> FloatArray:
    """Return what each template earns at visits of a market, `(T, n)`; see `boost_rewards`.

    Args:
        shop: The shop.
        market: Number of the market.
        queries: The n visits.
        replicates: Times that each visit is drawn again, the same for all templates.
    """
    return _run(shop, market, queries, shop.added_by_rules(market), shop.templates.boosts, replicates)


def _run(
    shop: SearchShop,
    market: int,
    queries: Queries,
    values: FloatArray,
    actions: FloatArray,
    replicates: int,
    weights: FloatArray | None = None,
) -> FloatArray:
    config = shop.world.config.reward
    counted = weight_array(config) if weights is None else np.array(weights, float)
    price = (counted, config.rank_change, config.rank_change_at)
    out = np.empty((len(actions), len(queries.users)))
    _rewards(
        shop.arrays(market),
        queries,
        shop.world.table,
        shop.relevance,
        shop.specificity,
        price,
        values,
        actions,
        shop.k,
        replicates,
        out,
    )
    return out


@jit
def _rewards(
    arrays: ShopArrays,
    queries: Queries,
    table: QueryTable,
    relevance: BaseRanker,
    specificity: FloatArray,
    price: tuple[FloatArray, float, int],
    values: FloatArray,
    actions: FloatArray,
    k: int,
    replicates: int,
    out: FloatArray,
) -> None:
    """Write what rankings earn by boosts `actions (m, 10)`, and what rules add besides, `values (m, K)` or `(0, K)`.

    `price`: the weights of GMV, CM2, strategic purchases and clicks; the price of a product that leaves the top, and
    the length of that top.
    """
    weights, rank_change_price, rank_change_at = price
    users = arrays.users
    count = arrays.log_price.shape[0]
    base = np.empty(count)
    match = np.empty(count)
    scores = np.empty(count)
    rewards = np.empty(replicates)
    longest_baseline = np.empty(k, np.int64)
    longest_shown = np.empty(k, np.int64)
    signs = np.empty(3)
    for i in range(out.shape[1]):
        step = queries.steps[i]
        user = queries.users[i]
        query_type = queries.types[i]
        query = queries.embeddings[i]
        candidates = score_request(relevance, step, arrays.catalogue_index, query, table, queries.rows[i], base)
        baseline = longest_baseline[:candidates]
        shown = longest_shown[:candidates]
        top(base, baseline)
        signs_of(users.price_taste[user], users.label_taste[user], specificity[query_type], signs)
        # The match of user and products is the same for all actions, and the only costly boost feature.
        matches(arrays.catalogue_index, users.embeddings[user], match)
        for n in range(out.shape[0]):
            matched_scores(arrays.catalogue_index, base, match, signs, actions[n], scores)
            if n < values.shape[0]:
                for p in range(count):
                    scores[p] += values[n, p]
            top(scores, shown)
            value_replicates(arrays, step, user, query_type, query, base, shown, weights, rewards)
            # Which products leave the top follows from the ranking, so that it takes no replicate.
            out[n, i] = np.mean(rewards) - rank_change_price * left_top(baseline, shown, rank_change_at)
