"""A search shop at work: who comes, how products score, which ranking an action makes, and what visitors do with it."""

from typing import NamedTuple

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.search_names import FEATURES
from zoosim.core.templates import arrays_of
from zoosim.core.types import FloatArray, IntArray
from zoosim.ranking.search_requests import estimated, summarise
from zoosim.ranking.top_k import top, top_of
from zoosim.worlds.search.behaviour import Keys, RankingOutcome, behaviour_parameters, empty_outcome
from zoosim.worlds.search.catalogue import SearchCatalogue
from zoosim.worlds.search.catalogue_index import CatalogueIndex, index_catalogue
from zoosim.worlds.search.queries import Queries, QueryTable
from zoosim.worlds.search.reward import RewardParts, left_top, reward
from zoosim.worlds.search.scores import BaseRanker, boost_features, boosted_scores, score_request, template_scores
from zoosim.worlds.search.shop_arrays import ShopArrays, serve
from zoosim.worlds.search.templates import added_by_rules
from zoosim.worlds.search.world import SearchWorld

CHUNK = 1_000
"""Visits that are drawn together."""

KEPT_MARKETS = 2
"""Markets whose arrays are held ready."""


class SearchVisit(NamedTuple):
    """One visit: its number `step`, the `market` that it falls in, `user`, `segment`, `intent` and `query_type`.

    `row` of the table of queries, `query (d,)` embedding and random `tokens (R,)`; `base (K,)` scores, -inf for what is
    no candidate, and the `baseline (k,)` ranking that they make; `signs (3,)` of price taste, label taste and
    specificity.
    """

    step: int
    market: int
    user: int
    segment: int
    intent: int
    query_type: int
    row: int
    query: FloatArray
    tokens: IntArray
    base: FloatArray
    baseline: IntArray
    signs: FloatArray


class FinishedVisit(NamedTuple):
    """A finished visit: the products `shown (k,)`, what the visitor did with them, and the reward with its parts."""

    shown: IntArray
    outcome: RankingOutcome
    parts: RewardParts
    reward: float


class SearchShop:
    """The visits of a search world, in any order; holds no state but what it has computed before."""

    def __init__(self, world: SearchWorld) -> None:
        config = world.config
        self.world = world
        self.k = min(config.k, len(world.catalogue.ids))
        self.specificity = np.array([query_type.specificity for query_type in config.query_types.values()])
        weights = config.relevance
        self.relevance = BaseRanker(world.keys["relevance"], weights.cosine, weights.tokens, weights.noise_sd)
        self._arrays: dict[int, ShopArrays] = {}
        self.templates = arrays_of(config.templates)
        self._added: tuple[SearchCatalogue, FloatArray] | None = None
        self._queries: Queries = world.queries(0, 0)

    def arrays(self, market: int) -> ShopArrays:
        """Return the arrays that compiled code needs for the visits of a market."""
        if market not in self._arrays:
            built = self._build(market)
            # In order of insertion, so that the market built first is dropped.
            newest = list(self._arrays.items())[1 - KEPT_MARKETS :]
            self._arrays = {**dict(newest), market: built}
        return self._arrays[market]

    def _build(self, market: int) -> ShopArrays:
        config = self.world.config
        catalogue = self.world.markets[market].catalogue
        users = self.world.markets[market].users
        for arrays in self._arrays.values():
            if arrays.catalogue is catalogue:  # only the users have changed
                return arrays._replace(users=users)
        return ShopArrays(
            catalogue_index=index_catalogue(catalogue),
            catalogue=catalogue,
            log_price=np.log1p(catalogue.price),
            users=users,
            behaviour=behaviour_parameters(config),
            keys=Keys(*(self.world.keys[name] for name in Keys._fields)),
        )

    def added_by_rules(self, market: int) -> FloatArray:
        """Return what the rules of each template add to each product's score in a market, `(T, K)`."""
        catalogue = self.world.markets[market].catalogue
        # By identity: a shift that leaves the products alone leaves the very same catalogue.
        if self._added is None or self._added[0] is not catalogue:
            added = added_by_rules(catalogue, self.templates.rules, self.world.config.a_max)
            self._added = (catalogue, added)
        return self._added[1]

    def added_by_template(self, visit: SearchVisit, template: int, products: IntArray) -> FloatArray:
        """Return what a template, by its number, adds to the scores of `products (n,)`."""
        by_boosts = self.boost_features(visit, products) @ self.templates.boosts[template]
        added: FloatArray = self.added_by_rules(visit.market)[template, products] + by_boosts
        return added

    @property
    def n_features(self) -> int:
        """Return how many features a policy observes: 7 or 17 with the default segments and query types."""
        config = self.world.config
        return len(config.segments) + len(config.query_types) + (0 if config.context == "simple" else 10)

    def arrive(self, step: int, base: FloatArray | None = None) -> SearchVisit:
        """Return visit number `step`; its base scores are written to `base (K,)` when that is given."""
        market = self.world.market_at(step)
        arrays = self.arrays(market)
        queries = self._queries_around(step)
        i = step % CHUNK
        user = int(queries.users[i])
        query_type = int(queries.types[i])
        users = arrays.users
        tastes = (users.price_taste[user], users.label_taste[user], self.specificity[query_type])
        base = np.empty(len(self.world.catalogue.ids)) if base is None else base
        query = queries.embeddings[i]
        row = int(queries.rows[i])
        baseline = _rank_by_relevance(
            self.relevance, step, arrays.catalogue_index, query, self.world.table, row, base, self.k
        )
        base.flags.writeable = False
        baseline.flags.writeable = False
        return SearchVisit(
            step=step,
            market=market,
            user=user,
            segment=int(users.segment[user]),
            intent=int(queries.intents[i]),
            query_type=query_type,
            row=row,
            query=query,
            tokens=queries.tokens[i],
            base=base,
            baseline=baseline,
            signs=np.sign(tastes),
        )

    def _queries_around(self, step: int) -> Queries:
        """Return the chunk of visits, drawn together, that holds visit `step`."""
        # Draws go by the number of the visit, so it makes no difference which visits are drawn together.
        start = step - step % CHUNK
        if not len(self._queries.steps) or self._queries.steps[0] != start:
            self._queries = self.world.queries(start, start + CHUNK)
        return self._queries

    def features(self, visit: SearchVisit) -> FloatArray:
        """Return what a policy observes `(7,)` or `(17,)`; see `SearchConfig.context`."""
        config = self.world.config
        n_segments = len(config.segments)
        n_simple = n_segments + len(config.query_types)
        out = np.zeros(self.n_features)
        out[visit.segment] = 1.0
        out[n_segments + visit.query_type] = 1.0
        if config.context != "simple":
            market = self.world.markets[visit.market]
            tastes = np.array([market.users.price_taste[visit.user], market.users.label_taste[visit.user]])
            out[n_simple : n_simple + 2] = tastes if config.context == "rich-oracle" else estimated(tastes)
            summarise(market.catalogue, visit.baseline, visit.base, out[n_simple + 2 :])
        out.flags.writeable = False
        return out

    def candidates(self, visit: SearchVisit) -> IntArray | None:
        """Return the products that a visit may show, by index; None where these are all."""
        table = self.world.table
        return table.candidates[slice(*table.starts[visit.row : visit.row + 2])] if len(table.starts) else None

    def boost_features(self, visit: SearchVisit, products: IntArray | None = None) -> FloatArray:
        """Return the boost features `(n, 10)` of `products (n,)`, of all by default."""
        rows = np.arange(len(visit.base)) if products is None else products
        out = np.empty((len(rows), len(FEATURES)))
        boost_features(self.arrays(visit.market).catalogue_index, self._embedding(visit), visit.signs, rows, out)
        out.flags.writeable = False
        return out

    def rank(self, visit: SearchVisit, action: FloatArray) -> IntArray:
        """Return the top k `(k,)` under boosts `action (10,)`."""
        scores = np.empty(len(visit.base))
        shown = np.empty(len(visit.baseline), np.int64)
        index = self.arrays(visit.market).catalogue_index
        boosted_scores(index, visit.base, self._embedding(visit), visit.signs, action, scores)
        top(scores, shown)
        return shown

    def rank_by_template(self, visit: SearchVisit, template: int) -> IntArray:
        """Return the top k `(k,)` under a template, by its number."""
        scores = np.empty(len(visit.base))
        shown = np.empty(len(visit.baseline), np.int64)
        template_scores(
            self.arrays(visit.market).catalogue_index,
            visit.base,
            self._embedding(visit),
            visit.signs,
            self.added_by_rules(visit.market)[template],
            self.templates.boosts[template],
            scores,
        )
        top(scores, shown)
        return shown

    def serve(self, visit: SearchVisit, shown: IntArray) -> FinishedVisit:
        """Serve the products `shown (k,)` to the visitor."""
        weights = self.world.config.reward
        outcome = empty_outcome(len(shown))
        arrays = self.arrays(visit.market)
        totals = serve(arrays, visit.step, visit.user, visit.query_type, visit.query, visit.base, shown, outcome)
        gmv, cm2, strategic, clicks = totals.tolist()
        left = left_top(visit.baseline, shown, weights.rank_change_at)
        parts = RewardParts(gmv, cm2, int(strategic), int(clicks), int(left))
        return FinishedVisit(shown, outcome, parts, float(reward(weights, parts)))

    def _embedding(self, visit: SearchVisit) -> FloatArray:
        embedding: FloatArray = self.world.users.embeddings[visit.user]
        return embedding


@jit
def _rank_by_relevance(
    relevance: BaseRanker,
    step: int,
    index: CatalogueIndex,
    query: FloatArray,
    table: QueryTable,
    row: int,
    base: FloatArray,
    k: int,
) -> IntArray:
    """Write the base scores `(K,)` of a visit; return the ranking `(k,)` that they make, of fewer candidates all."""
    candidates = score_request(relevance, step, index, query, table, row, base)
    return top_of(base, min(k, candidates))
