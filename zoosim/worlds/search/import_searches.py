"""Convert a shop's own table of searches, a row per product shown, to a log of searches.

A YAML file says what its columns are, and names the shop's tables (`zoosim.worlds.search.tables`):

    shop: {catalogue_file: products.csv, queries_file: queries.csv, scores_file: scores.csv, k: 20}
    columns: {search: search_id, position: rank, product: sku, query: query, clicked: clicked, purchased: bought,
              segment: segment, user_id: customer, time: at}
    time_zone: Europe/Berlin

`shop` holds keys of `SearchConfig`; its files are relative to the YAML file. Of the columns `search`, `position`,
`product`, `query` and `clicked` are needed. Without `segment` all visitors are of one, "all"; without `purchased`
nobody buys. `price_taste` and `label_taste` are what the shop thinks of a visitor, `boosts` the ten columns of boosts
and `density` that of all ten together, where the shop boosted; else boosts are 0. Candidates and their base scores are
those of the query in `scores_file`.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from pydantic import Field

from zoosim.core.config import Strict, build, read_yaml, with_tables
from zoosim.core.errors import ConfigError, DataError
from zoosim.core.parameters import unknown
from zoosim.core.parquet import write_parquet
from zoosim.core.search_config import SearchConfig
from zoosim.core.search_names import FEATURES
from zoosim.core.types import FloatArray
from zoosim.logs.checks import Fault, sound_rows
from zoosim.logs.importing.columns import numbers, rewards
from zoosim.logs.importing.inference import NAMES_NO_ZONE, checked_time_zone
from zoosim.logs.importing.summary import Imported, facts_of_searches, uses_of
from zoosim.logs.importing.tables import read_table
from zoosim.logs.importing.times import TimeNotation, lacks_zone, read_times
from zoosim.logs.records import faults_within_visits, misplaced_positions
from zoosim.logs.schema import A_MAX, SCHEMA_VERSION
from zoosim.logs.searches import write_shop
from zoosim.ranking.product_table import ProductTable
from zoosim.ranking.search_requests import SearchRequests, SearchSchema
from zoosim.schema.column import Zone
from zoosim.schema.values import DateOrder, Epoch, texts_of
from zoosim.worlds.search.queries import QueryTable
from zoosim.worlds.search.tables import (
    load_catalogue,
    load_names,
    load_query_table,
    load_query_texts,
    read_search_config,
)

TASTES = ("price_taste", "label_taste")
ALL = "all"
"""The segment of all visitors where a table names none."""


class SearchColumns(Strict):
    """The columns of a table of searches by role."""

    search: str
    position: str
    product: str
    query: str
    clicked: str
    purchased: str | None = None
    segment: str | None = None
    user_id: str | None = None
    time: str | None = None
    price_taste: str | None = None
    label_taste: str | None = None
    density: str | None = None
    boosts: list[str] = Field(default=[], max_length=len(FEATURES))

    @property
    def named(self) -> dict[str, str]:
        """Return the columns by what they are for, but for the boosts."""
        return {role: name for role, name in self.model_dump(exclude={"boosts"}).items() if name is not None}


class SearchLogSchema(Strict):
    """The description of a table of searches, and of the shop that it is of."""

    shop: dict[str, Any]
    columns: SearchColumns
    time_zone: Zone | None = None
    epoch: Epoch | None = None
    dates: DateOrder | None = None

    @property
    def notation(self) -> TimeNotation:
        """The notation of times in the table."""
        return TimeNotation(self.time_zone, self.epoch, self.dates)


def describes_searches(schema: Any) -> bool:
    """Return whether a schema, a YAML file or a mapping, is of a table of searches."""
    if isinstance(schema, str | os.PathLike) and Path(schema).suffix in (".yaml", ".yml") and Path(schema).is_file():
        schema = read_yaml(Path(schema))
    return isinstance(schema, Mapping) and "shop" in schema


def import_searches(
    table: Any,
    schema: str | os.PathLike[str] | Mapping[str, Any],
    out: str | os.PathLike[str],
    *,
    products: Any = None,
    time_zone: str | None = None,
    like: str | os.PathLike[str] | None = None,
    skip_bad: bool = False,
) -> Imported:
    """Convert a table of searches to a log; `zoosim.import_log` calls it.

    Args:
        table: A file or a data frame, a row per search.
        schema: A YAML file or a mapping, as above.
        out: The log to write; it ends in `.parquet`.
        products, like: Refused: the schema names the shop's tables.
        time_zone: Time zone of times that name none, where the schema does not say it.
        skip_bad: Whether invalid rows are dropped and counted, rather than refused.

    Raises:
        ConfigError: an argument or the schema is invalid.
        DataError: the table does not fit the schema.
    """
    if products is not None or like is not None:
        raise ConfigError("import: leave out --products and --like; the schema of searches names the shop's tables")
    path = Path(out)
    if path.suffix != ".parquet" or path.is_dir() or not path.parent.is_dir():
        raise ConfigError(f"import: got {str(out)!r}, expected a file that ends in .parquet, in a folder that is there")
    described = _read_schema(schema)
    if time_zone is not None and described.time_zone is not None:
        raise ConfigError("time_zone: got it twice, in the schema and beside it; leave one out")
    described = described.model_copy(update={"time_zone": checked_time_zone(time_zone) or described.time_zone})
    config = read_search_config(described.shop)
    frame, source = read_table(table)
    searches = _SearchTable(frame, source, described, config)
    rows, skipped = searches.sound_rows(skip_bad)
    requests = searches.requests(rows)
    records = searches.records(rows, requests)
    meta = {"schema": "record", "schema_version": SCHEMA_VERSION, **write_shop(requests, path.parent)}
    write_parquet(records, path, meta)
    facts = facts_of_searches(records, described.time_zone or "UTC", len(requests.names), config.reward.model_dump())
    return Imported(skipped, {}, searches.notes, facts, searches.uses)


def _read_schema(schema: str | os.PathLike[str] | Mapping[str, Any]) -> SearchLogSchema:
    values = schema if isinstance(schema, Mapping) else read_yaml(Path(schema))
    label = "schema" if isinstance(schema, Mapping) else str(schema)
    described: SearchLogSchema = build(SearchLogSchema, values, label)
    if isinstance(schema, Mapping):
        return described
    return described.model_copy(update={"shop": with_tables(described.shop, Path(schema).parent)})


class _SearchTable:
    """A table of searches on its way to a log: a row per product shown, its columns named by what they are for."""

    def __init__(self, table: pl.DataFrame, source: str, schema: SearchLogSchema, config: SearchConfig) -> None:
        if config.scores_file is None:
            raise ConfigError(
                "schema.shop: no scores_file; name the table of the base ranker's scores by query and product"
            )
        columns = schema.columns
        if columns.boosts and len(columns.boosts) != len(FEATURES):
            raise ConfigError(
                f"schema.columns.boosts: got {len(columns.boosts)}, expected {len(FEATURES)} columns or none"
            )
        for name in [*columns.named.values(), *columns.boosts]:
            if name not in table.columns:
                raise DataError(f"{source}: {unknown('no column', name, table.columns)}; correct the schema")
        if not table.height:
            raise DataError(f"{source}: got no rows, expected one for each product shown")
        self.table = table
        self.source = source
        self.schema = schema
        self.config = config
        self.queries: QueryTable = load_query_table(config)
        self.texts = load_query_texts(config)
        self.names = load_names(config)
        self.frame = self._read()

    def _read(self) -> pl.DataFrame:
        """Return what each column is for; null where a value cannot be read."""
        columns = self.schema.columns
        texts = ("search", "product", "query", "segment", "user_id")
        read = {role: texts_of(self.table[name]) for role, name in columns.named.items() if role in texts}
        read["position"] = numbers(self.table[columns.position])
        read["clicked"] = rewards(self.table[columns.clicked])
        n = self.table.height
        read["purchased"] = rewards(self.table[columns.purchased]) if columns.purchased else pl.Series(np.zeros(n))
        for role in TASTES:
            name = getattr(columns, role)
            read[role] = numbers(self.table[name]) if name else pl.Series(np.zeros(n))
        for number, name in enumerate(columns.boosts):
            read[f"boost {number}"] = numbers(self.table[name])
        if columns.density:
            read["density"] = numbers(self.table[columns.density])
        if columns.time:
            read["time"] = read_times(self.table[columns.time], self.schema.notation, self.source)
        if "segment" not in read:
            read["segment"] = pl.Series([ALL] * n)
        frame = pl.DataFrame({role: column.alias(role) for role, column in read.items()})
        return frame.with_columns(
            row=frame["product"].replace_strict(
                dict(zip(self.names, range(len(self.names)), strict=True)), default=None
            ),
            query_row=frame["query"].replace_strict(
                dict(zip(self.texts, range(len(self.texts)), strict=True)), default=None
            ),
        )

    @property
    def uses(self) -> dict[str, str]:
        """Uses of the columns of the table, in words."""
        columns = self.schema.columns
        uses = uses_of(columns.named) | {
            name: f"boost of {kind}" for name, kind in zip(columns.boosts, FEATURES, strict=False)
        }
        return {name: uses.get(name, "not used") for name in self.table.columns}

    @property
    def notes(self) -> dict[str, str]:
        """Notes on what to look at, by column."""
        time = self.schema.columns.time
        if time and self.schema.time_zone is None and lacks_zone(self.table[time]):
            return {time: NAMES_NO_ZONE}
        return {}

    def sound_rows(self, skip_bad: bool) -> tuple[pl.DataFrame, dict[str, int]]:
        """Return the rows of sound searches, by search and position, and how many were left out, by reason."""
        columns = self.schema.columns
        named = {**columns.named, **{f"boost {number}": name for number, name in enumerate(columns.boosts)}}
        faults = [fault._replace(column=named.get(fault.column, fault.column)) for fault in self._faults()]
        frame = self.frame.with_columns(decision_id=pl.col("search"))
        rows, skipped = sound_rows(frame, faults, self.source, skip_bad, table=self.table, together="search")
        # By the first row of a search, so that searches stay in the order of the table, whatever their ids.
        numbered = rows.with_row_index("first").with_columns(pl.col("first").first().over("search"))
        return numbered.sort("first", "position"), skipped

    def _faults(self) -> Iterator[Fault]:
        frame = self.frame.with_columns(decision_id=pl.col("search"))
        in_every_row = ("query", "segment", "user_id", "time", "density")
        kept = [name for name in frame.columns if name in in_every_row or name.startswith("boost ")]
        needed = [name for name in kept if name != "user_id"]
        for name in ("search", "product", "query", *needed):
            yield Fault(name, "a value", frame[name].is_null().to_numpy())
        yield from self._faults_of_tastes(frame)
        kept += TASTES
        yield Fault("product", "a product of the catalogue", frame["row"].is_null().to_numpy())
        yield Fault("query", "a query of queries_file", frame["query_row"].is_null().to_numpy())
        for name in ("clicked", "purchased"):
            yield Fault(name, "0 or 1", ~frame[name].is_in([0.0, 1.0]).fill_null(False).to_numpy())
        yield Fault(
            "purchased", "a click before a purchase", (frame["purchased"] > frame["clicked"]).fill_null(True).to_numpy()
        )
        again = frame.select(pl.struct("search", "product").is_duplicated()).to_series().to_numpy()
        yield Fault("product", "one that the search does not show at another position", again)
        again = frame.select(pl.struct("search", "position").is_duplicated()).to_series().to_numpy()
        yield Fault(
            "position", "another one for each product of a search", again | frame["position"].is_null().to_numpy()
        )
        yield misplaced_positions(frame)
        yield Fault("product", "a candidate of its query, with a score in scores_file", self._strangers())
        for number in range(len(self.schema.columns.boosts)):
            outside = ~(frame[f"boost {number}"].abs() <= self.config.a_max).fill_null(False)
            yield Fault(
                f"boost {number}",
                f"a boost from {-self.config.a_max:g} to {self.config.a_max:g} (a_max)",
                outside.to_numpy(),
            )
        if "density" in frame.columns:
            yield Fault("density", "a density above 0", ~(frame["density"] > 0.0).fill_null(False).to_numpy())
        if "segment" in self.schema.columns.named and self._known_segments():
            strange = ~frame["segment"].is_in(list(self.config.segments)).fill_null(False)
            yield Fault("segment", f"one of {', '.join(self.config.segments)}", strange.to_numpy())
        yield from faults_within_visits(frame, kept)

    def _faults_of_tastes(self, frame: pl.DataFrame) -> Iterator[Fault]:
        """Yield the rows whose taste is no number, or missing where other rows of the search have one."""
        for role in TASTES:
            column = getattr(self.schema.columns, role)
            if column is not None:
                missing = frame[role].is_null()
                unreadable = missing & texts_of(self.table[column]).is_not_null()
                yield Fault(role, "a number", unreadable.to_numpy())
                is_known = frame.select(pl.col(role).is_not_null().any().over("search")).to_series()
                yield Fault(role, "a number, as other rows of the search have", (missing & is_known).to_numpy())

    def _known_segments(self) -> bool:
        """Return whether the shop's configuration names its own segments."""
        return "segments" in self.schema.shop

    def _strangers(self) -> np.ndarray:
        """Mark products `(n,)` that are no candidate of their query."""
        n_products = len(self.names)
        owner = np.repeat(np.arange(len(self.texts)), np.diff(self.queries.starts))
        pairs = owner * n_products + self.queries.candidates
        # Any number will do where one is not known, since that is a fault of its own.
        query = self.frame["query_row"].fill_null(0).to_numpy()
        product = self.frame["row"].fill_null(0).to_numpy()
        return ~np.isin(query * n_products + product, pairs)

    def requests(self, rows: pl.DataFrame) -> SearchRequests:
        """Return the shop that the log is of."""
        config = self.config
        # Sorted, so that numbers of segments do not depend on the order of the rows.
        segments = list(config.segments) if self._known_segments() else sorted(rows["segment"].unique())
        columns = self.schema.columns
        schema = SearchSchema(
            segments=segments,
            query_types={name: query_type.specificity for name, query_type in config.query_types.items()},
            categories=list(config.categories),
            context="rich" if columns.price_taste or columns.label_taste else "simple",
            k=config.k,
            a_max=config.a_max,
            reward=config.reward,
        )
        catalogue = load_catalogue(config)
        table = ProductTable(**{name: getattr(catalogue, name) for name in ProductTable._fields})
        return SearchRequests(schema, self.names, table)

    def records(self, rows: pl.DataFrame, requests: SearchRequests) -> pl.DataFrame:
        """Return the log, a row per search."""
        table = requests.table
        weights = self.config.reward
        product = rows["row"].to_numpy()
        bought = rows["purchased"].to_numpy()
        parts = {
            "gmv": bought * table.price[product],
            "cm2": bought * table.cm2[product],
            "strategic": bought * table.strategic[product],
        }
        earned = weights.gmv * parts["gmv"] + weights.cm2 * parts["cm2"] + weights.strategic * parts["strategic"]
        rows = rows.with_columns(**parts, reward=earned + weights.clicks * rows["clicked"].to_numpy())
        first = [name for name in ("user_id", "time", "density") if name in rows.columns]
        # Rows stand in the order of positions, so that lists of a visit are rankings from the top.
        visits = rows.group_by("first", maintain_order=True).agg(
            pl.col("search", "segment", "query", "query_row", "price_taste", "label_taste", *first).first(),
            pl.col("^boost .*$").first(),
            pl.col("reward", "gmv", "cm2", "strategic").sum(),
            pl.col("clicked").sum().alias("click"),
            pl.col("purchased").sum().alias("purchases"),
            pl.col("row").cast(pl.Int64).alias("shown"),
            pl.col("clicked", "purchased").cast(pl.Int8),
        )
        return self._completed(visits, requests)

    def _completed(self, visits: pl.DataFrame, requests: SearchRequests) -> pl.DataFrame:
        """Return visits with their requests, as policies see them, and their boosts."""
        schema = requests.schema
        kinds = self.queries.types[visits["query_row"].to_numpy()]
        boosts = np.zeros((visits.height, len(FEATURES)))
        if self.schema.columns.boosts:
            boosts = visits.select(pl.col("^boost .*$")).to_numpy()
        columns: dict[str, Any] = {"candidates": [], "base_scores": [], "signs": [], "user": []}
        tastes: FloatArray = visits.select(pl.col(*TASTES).fill_null(0.0)).to_numpy().astype(np.float64)
        for row, (query, kind, segment) in enumerate(zip(visits["query_row"], kinds, visits["segment"], strict=True)):
            part = slice(*self.queries.starts[query : query + 2])
            candidates = self.queries.candidates[part]
            scores = self.queries.scores[part]
            number = schema.number("segments", segment)
            columns["candidates"].append(candidates)
            columns["base_scores"].append(scores)
            columns["signs"].append(requests.signs(tastes[row], int(kind)))
            columns["user"].append(requests.features(number, int(kind), tastes[row], candidates, scores))
        names = np.array(list(schema.query_types))
        kept = visits.select(pl.exclude("first", "query_row", "price_taste", "label_taste", "^boost .*$"))
        return kept.rename(
            {"search": "decision_id", **({"density": "propensity"} if "density" in kept.columns else {})}
        ).with_columns(
            pl.Series("query_type", names[kinds]),
            pl.Series("action", boosts.tolist(), dtype=pl.List(pl.Float64)),
            pl.lit(self.config.a_max).alias(A_MAX),
            *(pl.Series(name, [values.tolist() for values in lists]) for name, lists in columns.items()),
        )
