"""Load a shop's own catalogue, users, queries and base scores from CSV or Parquet files with these columns.

Catalogue: `id` (whole numbers or texts, each once) and `price` in EUR; and where they are given `category` (without it
all are of one, "all"), `cm2` in EUR (else the category's `cm2_slope` times the price), `discount` (0 to 1, else 0),
`private_label` (else 0), `bestseller` (at least 0, else 0), `strategic` (else the category's), `appeal` (what is added
to the product's utility, else 0).

Users: `segment` (a name of `SearchConfig.segments`), `price_taste`, `label_taste`, and `taste_CATEGORY` (at least 0)
for each category; a user's number is the row in the file, sorted by segment.

Queries: `query`, the text; `category` that it means and `type` (names of the configuration); and where it is given
`weight` (above 0, 1 without), how often it is typed among those of its category. Words that a text and a category share
count for base relevance. With scores of the shop's own `category` may be left out: it is that of most candidates.

Scores: `query`, `product` and the `score` that the shop's base ranker gives it: a row for each candidate of each query.
What is not listed is no candidate. These scores are taken as they are, without noise; products and users then have no
embeddings, so that cosine and the match of user and product are 0.

All but scores: `e0`, `e1`, ... up to `embedding_dim` - 1, an embedding; without, embeddings are drawn.

Categories and types of queries that share no name with the built-in ones need no entry in the configuration: where it
has the built-in ones alone, those of the tables take their place, with the defaults of `Category` and `QueryType`, and
the built-in segments' tastes for categories become even.
"""

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from zoosim.core.config import build
from zoosim.core.digests import file_digest, short_digest
from zoosim.core.errors import ConfigError, DataError
from zoosim.core.files import place_of, resolved
from zoosim.core.search_config import CATEGORIES, QUERY_TYPES, SEGMENTS, Category, QueryType, SearchConfig
from zoosim.core.types import FloatArray, IntArray, frozen
from zoosim.worlds.frames import read_frame
from zoosim.worlds.search.catalogue import SearchCatalogue, per_row
from zoosim.worlds.search.queries import QueryTable
from zoosim.worlds.search.shop_table import ShopTable, read_columns
from zoosim.worlds.search.users import Users

LEAST = 1e-9
"""The least weight of a query."""


def resolve_files(config: SearchConfig) -> SearchConfig:
    """Return a config whose counts are those of its files, which it names by their whole paths; raises `DataError`."""
    config = _with_names_of_files(config)
    changes: dict[str, Any] = {}
    if config.catalogue_file is not None:
        changes |= {"n_products": len(load_catalogue(config).ids), "catalogue_file": _whole_path(config.catalogue_file)}
    if config.users_file is not None:
        changes |= {"n_users": len(load_users(config).segment), "users_file": _whole_path(config.users_file)}
    if config.queries_file is not None:
        load_query_table(config)
        changes["queries_file"] = _whole_path(config.queries_file)
    if config.scores_file is not None:
        changes["scores_file"] = _whole_path(config.scores_file)
    return config.model_copy(update=changes)


def read_search_config(config: SearchConfig | Mapping[str, Any] | None) -> SearchConfig:
    """Check a configuration, and read the files that it names; raises `ConfigError` or `DataError`."""
    try:
        values = dict(config or {})
    except (TypeError, ValueError):
        expected = "expected a SearchConfig or a mapping such as {'n_products': 99}"
        raise ConfigError(f"config: got {config!r}, {expected}") from None
    return resolve_files(build(SearchConfig, values, "search"))


def _with_names_of_files(config: SearchConfig) -> SearchConfig:
    """Return a config with the categories and query types of its files, where it has none but built-in ones."""
    changes: dict[str, Any] = {}
    if config.catalogue_file is not None and config.categories == CATEGORIES:
        names, shares = _shares_of_names(config.catalogue_file, "category")
        if names and not set(names) & set(CATEGORIES):
            words = {name: re.findall(r"[^\W_]+", name) for name in names}
            changes["categories"] = {
                name: Category(share=share, words=words[name]) for name, share in zip(names, shares, strict=True)
            }
            if config.segments == SEGMENTS:
                even: dict[str, Any] = {"category_tastes": {}}
                changes["segments"] = {name: part.model_copy(update=even) for name, part in SEGMENTS.items()}
    if config.queries_file is not None and config.query_types == QUERY_TYPES:
        names, shares = _shares_of_names(config.queries_file, "type")
        if names and not set(names) & set(QUERY_TYPES):
            changes["query_types"] = {name: QueryType(share=share) for name, share in zip(names, shares, strict=True)}
    if not changes:
        return config
    named: SearchConfig = build(SearchConfig, {**config.model_dump(), **_dumped(changes)}, "search")
    return named


def _dumped(changes: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    return {field: {name: part.model_dump() for name, part in parts.items()} for field, parts in changes.items()}


def _shares_of_names(file: str, column: str) -> tuple[list[str], list[float]]:
    """Return the names in a column of a file, in the order in which they come, and their shares of the rows."""
    frame = read_frame(Path(file))
    if column not in frame.columns:
        return (["all"], [1.0]) if column == "category" else ([], [])
    counts = pl.Series(column, ShopTable(file, frame).texts(column)).value_counts(sort=False).sort(column)
    shares = counts["count"] / frame.height
    return counts[column].to_list(), shares.to_list()


def _whole_path(file: str) -> str:
    return str(resolved(file))


def digest(config: SearchConfig) -> str:
    """Hash the content of a config's files, for the keys of cached results; empty where it has none."""
    files = {field: file_digest(place_of(file)) for field, file in config.files.items()}
    return short_digest(json.dumps(files)) if files else ""


def load_catalogue(config: SearchConfig) -> SearchCatalogue:
    """Return the catalogue of a config's file, with embeddings `(d, 0)` where the file has none."""
    assert config.catalogue_file is not None
    return _read_catalogue(config.catalogue_file, _modified_at(config.catalogue_file), config.model_dump_json())


def load_names(config: SearchConfig) -> tuple[str, ...]:
    """Return what the shop calls the products of its own file."""
    assert config.catalogue_file is not None
    return tuple(ShopTable(config.catalogue_file, read_frame(Path(config.catalogue_file))).names("id"))


def load_users(config: SearchConfig) -> Users:
    """Return the users of a config's file, with embeddings `(0, d)` where the file has none."""
    assert config.users_file is not None
    return _read_users(config.users_file, _modified_at(config.users_file), config.model_dump_json())


def load_query_table(config: SearchConfig) -> QueryTable:
    """Return the queries of a config's files, or without one the categories' own words."""
    if config.queries_file is None:
        return QueryTable(
            types=np.zeros(0, np.int64),
            weights=np.zeros(0),
            bounds=np.zeros(len(config.categories) + 1, np.int64),
            embeddings=np.zeros((0, config.embedding_dim)),
            mix=np.zeros((len(config.categories), len(config.query_types))),
            shared=_shared_words([category.words for category in config.categories.values()], config),
            **NO_SCORES,
        )
    # Of all files: candidates depend on the catalogue's ids and on scores as well.
    modified_at = sum(_modified_at(file) for file in config.files.values())
    return _read_queries(config.queries_file, modified_at, config.model_dump_json())


def load_query_texts(config: SearchConfig) -> list[str]:
    """Return the texts of the queries of a config's file, in the order of the rows of `load_query_table`."""
    assert config.queries_file is not None
    table = read_columns(config.queries_file, ("query",), "queries")
    category = _query_categories(table, config, None if config.scores_file is None else _read_scores(config))
    texts = table.texts("query")
    return [texts[row] for row in np.argsort(category, kind="stable")]


def _shared_words(texts: list[list[str]], config: SearchConfig) -> FloatArray:
    """Return how many words each of Q texts shares with each category, `(Q, C)`."""
    of_categories = [{word.lower() for word in category.words} for category in config.categories.values()]
    of_texts = [{word.lower() for word in text} for text in texts]
    return np.array([[len(text & category) for category in of_categories] for text in of_texts], float)


def _modified_at(file: str) -> int:
    """Return when a file was last changed, in ns, so that a cached reading can be told stale; 0 for a missing file."""
    try:
        return place_of(file).stat().st_mtime_ns
    except OSError:
        return 0


@lru_cache(maxsize=4)
def _read_catalogue(file: str, modified_at: int, config_json: str) -> SearchCatalogue:
    config = SearchConfig.model_validate_json(config_json)
    table = read_columns(file, ("id", "price"), "products")
    category = np.zeros(table.frame.height, np.int64)
    if "category" in table.frame.columns:
        category = table.numbers_of_names("category", config.categories)
    elif len(config.categories) > 1:
        raise DataError(f"{file}: no column category; name the category of each product, or one category in the config")
    price = table.numbers("price", low=0.0)
    cm2 = table.numbers("cm2")
    if "cm2" not in table.frame.columns:
        cm2 = per_row(config.categories, "cm2_slope", category) * price
    embeddings = table.embeddings(config.embedding_dim)
    if config.scores_file is not None:
        embeddings = np.zeros((table.frame.height, config.embedding_dim))
    strategic = table.flags("strategic")
    if "strategic" not in table.frame.columns:
        strategic = per_row(config.categories, "strategic", category) != 0.0
    return SearchCatalogue(
        ids=frozen(table.ids()),
        category=frozen(category),
        price=frozen(price),
        cm2=frozen(cm2),
        discount=frozen(table.numbers("discount", low=0.0, high=1.0)),
        label=frozen(table.flags("private_label").astype(float)),
        bestseller=frozen(table.numbers("bestseller", low=0.0)),
        strategic=frozen(strategic),
        appeal=frozen(table.numbers("appeal")),
        embeddings=frozen(np.ascontiguousarray(embeddings.T)),
    )


@lru_cache(maxsize=4)
def _read_users(file: str, modified_at: int, config_json: str) -> Users:
    config = SearchConfig.model_validate_json(config_json)
    taste_columns = [f"taste_{name}" for name in config.categories]
    table = read_columns(file, ("segment", "price_taste", "label_taste", *taste_columns), "users")
    segment = table.numbers_of_names("segment", config.segments)
    counts = np.bincount(segment, minlength=len(config.segments))
    tastes = np.column_stack([table.numbers(name, low=0.0) for name in taste_columns])
    without_taste = np.flatnonzero(tastes.sum(axis=1) <= 0.0)
    if len(without_taste):
        raise DataError(f"{file}: row {without_taste[0] + 1} has no taste for any category; give one a number above 0")
    _check_every_segment_has_users(file, counts, config)
    order = np.argsort(segment, kind="stable")
    return Users(
        segment=frozen(segment[order]),
        price_taste=frozen(table.numbers("price_taste")[order]),
        label_taste=frozen(table.numbers("label_taste")[order]),
        category_tastes=frozen((tastes / tastes.sum(axis=1, keepdims=True))[order]),
        embeddings=frozen(table.embeddings(config.embedding_dim, order)),
        bounds=frozen(np.concatenate([[0], np.cumsum(counts)])),
    )


def _check_every_segment_has_users(file: str, counts: IntArray, config: SearchConfig) -> None:
    for name, count in zip(config.segments, counts, strict=True):
        if not count and any(config.shares_of(name)):
            remedy = "set its share to 0" if config.shares_of(name)[0] else "leave it out of the shifts' segment_mix"
            raise DataError(f"{file}: no user of segment {name}; add some, or {remedy}")


@lru_cache(maxsize=4)
def _read_queries(file: str, modified_at: int, config_json: str) -> QueryTable:
    config = SearchConfig.model_validate_json(config_json)
    needed = ("query", "type") if config.scores_file is not None else ("query", "category", "type")
    table = read_columns(file, needed, "queries")
    scores = None if config.scores_file is None else _read_scores(config)
    category = _query_categories(table, config, scores)
    types = table.numbers_of_names("type", config.query_types)
    weights = np.ones(len(types))
    if "weight" in table.frame.columns:
        weights = table.numbers("weight", low=LEAST)
    mix = np.zeros((len(config.categories), len(config.query_types)))
    np.add.at(mix, (category, types), weights)
    # Stable, as in `load_query_texts`, whose rows these are.
    order = np.argsort(category, kind="stable")
    bounds = np.concatenate([[0], np.cumsum(np.bincount(category, minlength=len(config.categories)))])
    cumulative = [np.cumsum(part) / np.sum(part) for part in np.split(weights[order], bounds[1:-1]) if len(part)]
    embeddings = table.embeddings(config.embedding_dim, order)
    shared = _shared_words([re.findall(r"\w+", text) for text in table.texts("query")], config)
    return QueryTable(
        types=frozen(types[order]),
        weights=frozen(np.concatenate(cumulative)),
        bounds=frozen(bounds),
        embeddings=frozen(embeddings),
        # A category without queries keeps its row of zeros.
        mix=frozen(mix / np.maximum(mix.sum(axis=1, keepdims=True), LEAST)),
        shared=frozen(shared[order]),
        **(NO_SCORES if scores is None else _candidates(table, order, scores, config)),
    )


NO_SCORES: dict[str, Any] = {
    "starts": np.zeros(0, np.int64),
    "candidates": np.zeros(0, np.int64),
    "scores": np.zeros(0),
}
"""The parts of a `QueryTable` about base scores of the shop's own, where it has none."""


def _read_scores(config: SearchConfig) -> pl.DataFrame:
    """Return the base scores of a config's file: `query` (text), `product` (index), `score`; raises `DataError`."""
    assert config.scores_file is not None
    table = read_columns(config.scores_file, ("query", "product", "score"), "scores")
    index = {name: number for number, name in enumerate(load_names(config))}
    names = table.names("product")
    unknown = [row for row, name in enumerate(names) if name not in index]
    if unknown:
        raise DataError(
            f"{table.file}: row {unknown[0] + 1}: unknown product {names[unknown[0]]!r}; list it in the catalogue"
        )
    products = [index[name] for name in names]
    scores = pl.DataFrame({"query": table.texts("query"), "product": products, "score": table.numbers("score")})
    twice = scores.select(pl.struct("query", "product").is_duplicated()).to_series()
    if twice.any():
        row = int(twice.arg_max() or 0)
        raise DataError(f"{table.file}: row {row + 1}: query and product are there more than once; give one score each")
    return scores


def _query_categories(table: "ShopTable", config: SearchConfig, scores: pl.DataFrame | None) -> IntArray:
    """Return the category of each query `(Q,)`: the table's, or that of most of its candidates."""
    if scores is None or "category" in table.frame.columns:
        return table.numbers_of_names("category", config.categories)
    category = load_catalogue(config).category
    counts: dict[str, IntArray] = {}
    for query, products in scores.group_by("query", maintain_order=True).agg("product").iter_rows():
        counts[query] = np.bincount(category[products], minlength=len(config.categories))
    none = np.zeros(len(config.categories), np.int64)
    return np.array([int(counts.get(text, none).argmax()) for text in table.texts("query")], np.int64)


def _candidates(table: "ShopTable", order: IntArray, scores: pl.DataFrame, config: SearchConfig) -> dict[str, Any]:
    """Return `starts`, `candidates` and `scores` of the queries in some `order` of their rows; raises `DataError`."""
    texts = table.texts("query")
    row_of = {texts[row]: place for place, row in enumerate(order)}
    if len(row_of) < len(texts):
        raise DataError(f"{table.file}: a query is there more than once; list each once, with its weight")
    unknown = next((text for text in scores["query"] if text not in row_of), None)
    if unknown is not None:
        raise DataError(f"{config.scores_file}: unknown query {unknown!r}; list it in {table.file}")
    rows = np.array([row_of[text] for text in scores["query"]], np.int64)
    counts = np.bincount(rows, minlength=len(texts))
    if not counts.all():
        text = texts[order[int(counts.argmin())]]
        raise DataError(f"{config.scores_file}: no candidate for the query {text!r}; score at least one product")
    by_query = np.lexsort((scores["product"].to_numpy(), rows))
    return {
        "starts": frozen(np.concatenate([[0], np.cumsum(counts)])),
        "candidates": frozen(scores["product"].to_numpy()[by_query].astype(np.int64)),
        "scores": frozen(scores["score"].to_numpy()[by_query].astype(np.float64)),
    }
