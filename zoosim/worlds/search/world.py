"""A search world: catalogue and users by seed, and who types what at each visit.

All that is drawn of a visit depends on (seed, visit) alone, by counter-based hashes, so no policy and no batch size
moves it.
"""

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from zoosim.core.rng import stream, stream_key
from zoosim.core.search_config import SearchConfig
from zoosim.core.types import FloatArray, frozen, frozen_parts
from zoosim.worlds.search.catalogue import SearchCatalogue, draw_catalogue, draw_embeddings
from zoosim.worlds.search.market import Market, markets_of
from zoosim.worlds.search.queries import Queries, QueryTable, draw_queries, empty_queries
from zoosim.worlds.search.tables import load_catalogue, load_query_table, load_users, resolve_files
from zoosim.worlds.search.users import Users, draw_users


@dataclass(frozen=True, eq=False)
class SearchWorld:
    """A search world of one seed: `config`, and the opening `catalogue` and `users`; visits never run out.

    `successors` are the products that take the places of the catalogue's when shifts renew it, one each.
    """

    config: SearchConfig
    seed: int
    catalogue: SearchCatalogue
    users: Users
    successors: SearchCatalogue | None = None

    @cached_property
    def keys(self) -> dict[str, np.uint64]:
        """Return the keys of counter-based draws, by purpose."""
        of_visits = ("visits", "queries", "relevance", "utility", "examination", "clicks", "purchases")
        of_products = ("promotions", "renewal")
        return {name: stream_key(self.seed, "search", name) for name in (*of_visits, *of_products)}

    @cached_property
    def markets(self) -> tuple[Market, ...]:
        """Return the market from visit 0 on, and that after each shift, in the order of their steps."""
        keys = (self.keys["promotions"], self.keys["renewal"])
        return markets_of(self.config, self.catalogue, self.successors, self.users, keys)

    @cached_property
    def table(self) -> QueryTable:
        """Return the queries that visitors choose from."""
        return frozen_parts(load_query_table(self.config))

    def market_at(self, step: int) -> int:
        """Return the number of the market that visit `step` falls in."""
        return bisect_right([market.start for market in self.markets], step) - 1

    def queries(self, start: int, stop: int) -> Queries:
        """Return the visits `start` to `stop - 1`, each in the market of its time."""
        queries = empty_queries(start, stop, self.config.random_tokens, self.config.embedding_dim)
        starts = [market.start for market in self.markets]
        for market, market_start, market_end in zip(self.markets, starts, [*starts[1:], stop], strict=True):
            first = max(market_start, start)
            end = min(market_end, stop)
            if first < end:
                # A slice is a view, so these draws are written to `queries`.
                self._draw(queries.of(slice(first - start, end - start)), market)
        return queries

    def queries_in(self, market: Market, start: int, stop: int) -> Queries:
        """Return the visits `start` to `stop - 1` as they would be in a `market`."""
        queries = empty_queries(start, stop, self.config.random_tokens, self.config.embedding_dim)
        self._draw(queries, market)
        return queries

    def type_shares(self, market: Market, segment: int) -> FloatArray:
        """Return the share of each query type among the visits of a `segment`, `(T,)`."""
        if not len(self.table.types):
            return np.diff(market.shares.types, prepend=0.0)
        first = market.users.bounds[segment]
        end = market.users.bounds[segment + 1]
        has_queries = self.table.mix.sum(axis=1)  # 1 for categories with queries, else 0
        tastes = market.users.category_tastes[first:end] * has_queries
        # As visitors are drawn: who has no taste for any category with queries means each of them alike.
        tastes[tastes.sum(axis=1) <= 0.0] = has_queries
        intents = (tastes / tastes.sum(axis=1, keepdims=True)).mean(axis=0)
        shares: FloatArray = intents @ self.table.mix
        return shares

    def _draw(self, out: Queries, market: Market) -> None:
        draw_queries(
            out,
            self.keys["visits"],
            self.keys["queries"],
            market.shares,
            market.users,
            self.table,
            self.config.vocabulary,
            self.config.query_sd,
        )


def build_search_world(config: SearchConfig, *, seed: int) -> SearchWorld:
    """Build the world of a seed.

    Args:
        config: The shop.
        seed: Seed of all draws.

    Raises:
        DataError: a table of the shop has wrong columns or values.
    """
    # Two streams, so that a file in place of one part moves no draw of the other.
    catalogue_rng = stream(seed, "search", "catalogue")
    users_rng = stream(seed, "search", "users")
    config = resolve_files(config)
    successors = None
    if config.catalogue_file:
        catalogue = load_catalogue(config)
    else:
        catalogue, successors = draw_catalogue(config, rng=catalogue_rng)
    if not catalogue.embeddings.shape[1]:
        catalogue = catalogue._replace(embeddings=draw_embeddings(config, catalogue.category, rng=catalogue_rng))
    users = load_users(config) if config.users_file else draw_users(config, rng=users_rng)
    if config.scores_file is not None:
        users = users._replace(embeddings=frozen(np.zeros((len(users.segment), config.embedding_dim))))
    elif not len(users.embeddings):
        users = users._replace(embeddings=frozen(users_rng.normal(size=(len(users.segment), config.embedding_dim))))
    return SearchWorld(config, seed, frozen_parts(catalogue), frozen_parts(users), successors)
