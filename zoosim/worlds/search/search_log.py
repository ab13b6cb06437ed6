"""Columns that a shop with base scores of its own writes to logs beside its boosts: see `zoosim.logs.searches`."""

from typing import Any

import polars as pl

from zoosim.core.types import IntArray
from zoosim.logs.searches import COLUMNS
from zoosim.ranking.product_table import ProductTable
from zoosim.ranking.search_requests import SearchRequests, SearchSchema
from zoosim.worlds.search.shop import SearchShop, SearchVisit
from zoosim.worlds.search.tables import load_names, load_query_texts

DTYPES = {
    **dict.fromkeys(("signs", "base_scores"), pl.List(pl.Float64)),
    **dict.fromkeys(("candidates", "shown"), pl.List(pl.Int64)),
    **dict.fromkeys(("clicked", "purchased"), pl.List(pl.Int8)),
}


class SearchRecorder:
    """Writes the searches of a shop whose catalogue stays as it is."""

    def __init__(self, shop: SearchShop) -> None:
        config = shop.world.config
        self.shop = shop
        self._segments = list(config.segments)
        self._query_types = list(config.query_types)
        self._texts = load_query_texts(config)
        schema = SearchSchema(
            segments=self._segments,
            query_types={name: query_type.specificity for name, query_type in config.query_types.items()},
            categories=list(config.categories),
            context=config.context,
            k=shop.k,
            a_max=config.a_max,
            reward=config.reward,
        )
        columns = {name: getattr(shop.world.catalogue, name) for name in ProductTable._fields}
        self.requests = SearchRequests(schema, load_names(config), ProductTable(**columns))

    def columns(self, visits: list[SearchVisit], rankings: list[IntArray]) -> dict[str, pl.Series]:
        """Return the columns of visits that were shown `rankings`, each `(k,)`."""
        rows = [self._row(visit, shown) for visit, shown in zip(visits, rankings, strict=True)]
        return {name: pl.Series(name, [row[name] for row in rows], dtype=DTYPES.get(name)) for name in COLUMNS}

    def _row(self, visit: SearchVisit, shown: IntArray) -> dict[str, Any]:
        candidates = self.shop.candidates(visit)
        assert candidates is not None
        outcome = self.shop.serve(visit, shown).outcome  # the same as when it was served
        return {
            "segment": self._segments[visit.segment],
            "query": self._texts[visit.row],
            "query_type": self._query_types[visit.query_type],
            "signs": visit.signs.tolist(),
            "candidates": candidates.tolist(),
            "base_scores": visit.base[candidates].tolist(),
            "shown": shown.tolist(),
            "clicked": outcome.clicks.astype(int).tolist(),
            "purchased": outcome.purchases.astype(int).tolist(),
        }


def recorder_of(shop: SearchShop) -> SearchRecorder | None:
    """Return what writes the searches of a shop; None where scores are not its own, or prices change."""
    catalogue = shop.world.catalogue
    if shop.world.config.scores_file is None or any(market.catalogue is not catalogue for market in shop.world.markets):
        return None
    return SearchRecorder(shop)
