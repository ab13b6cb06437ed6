"""Columns of a log of searches: each request with its candidates and base scores, what was shown, and what came of it.

These are further columns of Records of boosts, one row per search, with the catalogue and a `SearchSchema` beside them:
`segment`, `query`, `query_type` (texts), `signs` (of price taste, label taste and specificity), `candidates` and
`shown` (rows of the catalogue, `shown` from the top), `base_scores` of the candidates, `clicked` and `purchased` (0 or
1) of what was shown.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from zoosim.core.config import build
from zoosim.core.digests import short_digest
from zoosim.core.errors import DataError
from zoosim.core.parquet import UNREADABLE, check_parquet, decoding, read_meta, read_parquet, write_parquet
from zoosim.core.types import Context, FloatArray, IntArray
from zoosim.logs.checks import Fault
from zoosim.logs.schema import SCHEMA_VERSION
from zoosim.ranking.product_table import ProductTable
from zoosim.ranking.search_requests import SearchRequests, SearchSchema

COLUMNS = ("segment", "query", "query_type", "signs", "candidates", "base_scores", "shown", "clicked", "purchased")
META_KEY = "search"
"""The key of the `SearchSchema` in a log's metadata."""


class VisitOfLog(NamedTuple):
    """A logged search: its context, and its feedback as boost policies learn from it."""

    context: Context
    feedback: Mapping[str, Any]


@dataclass(frozen=True)
class Searches:
    """The n searches of a log: a `frame` with the `COLUMNS`, the `features (n, d)` of contexts, and the shop."""

    frame: pl.DataFrame
    features: FloatArray
    requests: SearchRequests

    def rows(self, chosen: np.ndarray | slice) -> "Searches":
        """Return the searches of some rows: indices, a mask `(n,)`, or a slice without a step."""
        if isinstance(chosen, np.ndarray) and chosen.dtype == bool:
            chosen = np.flatnonzero(chosen)
        return replace(self, frame=self.frame[chosen], features=self.features[chosen])

    @cached_property
    def _lists(self) -> dict[str, "Ragged"]:
        return {name: Ragged.of(self.frame[name]) for name, kind in self.frame.schema.items() if kind == pl.List}

    def context(self, row: int) -> Context:
        """Return the request of a search."""
        lists = self._lists
        candidates = lists["candidates"].row(row).astype(np.int64)
        return self.requests.context(
            self.features[row], candidates, lists["base_scores"].row(row), lists["signs"].row(row)
        )

    def visit(self, row: int) -> VisitOfLog:
        """Return a search with what came of it."""
        lists = self._lists
        context = self.context(row)
        candidates = lists["candidates"].row(row)
        place = {int(product): number for number, product in enumerate(candidates)}
        shown = np.array([place[int(product)] for product in lists["shown"].row(row)], np.int64)
        clicked, purchased = (lists[name].row(row).astype(float) for name in ("clicked", "purchased"))
        return VisitOfLog(context, self.requests.feedback(context, shown, clicked, purchased))


class Ragged(NamedTuple):
    """Lists of numbers, one after the other: row r is `values[starts[r] : starts[r + 1]]`."""

    values: np.ndarray
    starts: IntArray

    @classmethod
    def of(cls, column: pl.Series) -> "Ragged":
        """Take over a column of lists."""
        lengths = column.list.len().fill_null(0).to_numpy()
        values = column.list.explode(keep_nulls=False, empty_as_null=False).to_numpy()
        return cls(values, np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]))

    def row(self, number: int) -> np.ndarray:
        """Return the values of a row."""
        return self.values[self.starts[number] : self.starts[number + 1]]

    def padded(self, width: int, fill: float) -> np.ndarray:
        """Return the first `width` values of each row `(n, width)`, with `fill` where a row is shorter."""
        lengths = np.diff(self.starts)
        places = self.starts[:-1, None] + np.arange(width)
        inside = np.arange(width) < lengths[:, None]
        out = np.full(places.shape, fill, np.float64)
        out[inside] = self.values[places[inside]]
        return out


def has_searches(path: Path) -> bool:
    """Return whether a file is a log of searches."""
    try:
        if path.suffix != ".parquet":
            return False
        check_parquet(path)
        with decoding():
            return set(COLUMNS) <= set(pl.scan_parquet(path, glob=False).collect_schema().names())
    except UNREADABLE:
        return False


def catalogue_frame(requests: SearchRequests) -> pl.DataFrame:
    """Return the catalogue of a shop as the table that lies beside its logs."""
    table = requests.table
    categories = np.array(requests.schema.categories)[table.category]
    columns = {name: getattr(table, name) for name in ProductTable._fields if name != "category"}
    return pl.DataFrame({"product_id": requests.names, "category": categories, **columns})


def catalogue_digest(frame: pl.DataFrame) -> str:
    """Hash a catalogue, so that another one gets another file."""
    return short_digest(frame.write_csv())


def write_shop(requests: SearchRequests, folder: Path) -> dict[str, Any]:
    """Write the catalogue of a shop to a log's folder; return what the log's metadata must say."""
    frame = catalogue_frame(requests)
    digest = catalogue_digest(frame)
    meta = {"schema": "search catalogue", "catalogue": digest, "schema_version": SCHEMA_VERSION}
    write_parquet(frame, folder / f"catalogue-{digest}.parquet", meta)
    return {META_KEY: json.loads(requests.schema.model_dump_json()), "catalogue": digest}


def read_requests(path: Path) -> SearchRequests:
    """Return the shop of a log of searches; raises `DataError` where its catalogue is missing or broken."""
    meta = read_meta(path)
    values = meta.get(META_KEY)
    if not isinstance(values, Mapping):
        raise DataError(f"{path}: does not say what shop its searches are of; write or import it anew")
    schema: SearchSchema = build(SearchSchema, values, f"{path}: its search schema")
    digest = meta.get("catalogue")
    file = path.parent / f"catalogue-{digest}.parquet"
    try:
        frame = read_parquet(file)
        if read_meta(file).get("catalogue", digest) != digest:
            raise ValueError("of another shop")
        return requests_of(schema, frame)
    except (*UNREADABLE, TypeError, LookupError) as error:
        reason = str(error).splitlines()[0]
        raise DataError(f"{file}: is no catalogue of the searches in {path}, or broken ({reason}); move both") from None


def requests_of(schema: SearchSchema, catalogue: pl.DataFrame) -> SearchRequests:
    """Return the shop with a catalogue as `catalogue_frame` makes it; raises `ValueError` for an unknown category."""
    columns: dict[str, Any] = {name: catalogue[name].to_numpy() for name in ProductTable._fields if name != "category"}
    columns["category"] = np.array([schema.categories.index(name) for name in catalogue["category"]], np.int64)
    return SearchRequests(schema, [str(name) for name in catalogue["product_id"]], ProductTable(**columns))


def faults_of_searches(frame: pl.DataFrame, requests: SearchRequests) -> Iterator[Fault]:
    """Yield what is wrong in the columns of a log of searches."""
    products = f"rows of the catalogue, 0 to {len(requests.names) - 1}"
    for name in ("candidates", "shown"):
        stranger = pl.element().is_null() | ~pl.element().is_between(0, len(requests.names) - 1)
        some = pl.col(name).list.eval(stranger).list.any() | (pl.col(name).list.len() == 0)
        yield _fault(frame, name, products, some)
        yield _fault(frame, name, "each product once", pl.col(name).list.n_unique() != pl.col(name).list.len())
    for name, beside in (("base_scores", "candidates"), ("clicked", "shown"), ("purchased", "shown")):
        yield _fault(frame, name, f"as many as {beside}", pl.col(name).list.len() != pl.col(beside).list.len())
    beyond = pl.col("shown").list.set_difference("candidates").list.len() > 0
    yield _fault(frame, "shown", "products that are among the candidates", beyond)
    for name in ("clicked", "purchased"):
        odd = pl.col(name).list.eval(~pl.element().is_in([0, 1])).list.any()
        yield _fault(frame, name, "0 or 1 for each product shown", odd)
    yield _fault(
        frame, "base_scores", "finite numbers", ~pl.col("base_scores").list.eval(pl.element().is_finite()).list.all()
    )
    yield _fault(frame, "signs", "three numbers", pl.col("signs").list.len() != 3)
    for name in ("segment", "query_type"):
        known = requests.schema.segments if name == "segment" else list(requests.schema.query_types)
        yield _fault(frame, name, f"one of {', '.join(known)}", ~pl.col(name).is_in(known))


def _fault(frame: pl.DataFrame, column: str, expected: str, bad: pl.Expr) -> Fault:
    return Fault(column, expected, frame.select(bad.fill_null(True)).to_series().to_numpy())
