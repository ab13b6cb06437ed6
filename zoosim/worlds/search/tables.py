"""Load a shop's own catalogue, users and queries from CSV or Parquet files with these columns.

Catalogue: `id` (whole numbers, each once), `category` (a name of `SearchConfig.categories`), `price` and `cm2` in EUR;
and where they are given `discount` (0 to 1), `private_label`, `bestseller` (at least 0), `strategic`.

Users: `segment` (a name of `SearchConfig.segments`), `price_taste`, `label_taste`, and `taste_CATEGORY` (at least 0)
for each category; a user's number is the row in the file, sorted by segment.

Queries: `query`, the text; `category` that it means and `type` (names of the configuration); and where it is given
`weight` (above 0, 1 without), how often it is typed among those of its category. Words that a text and a category share
count for base relevance.

All: `e0`, `e1`, ... up to `embedding_dim` - 1, an embedding; without, embeddings are drawn.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from zoosim.core.config import build
from zoosim.core.errors import ConfigError, DataError
from zoosim.core.search_config import SearchConfig
from zoosim.core.types import FloatArray, IntArray, frozen
from zoosim.worlds.frames import read_frame
from zoosim.worlds.search.catalogue import Catalogue, per_row
from zoosim.worlds.search.queries import QueryTable
from zoosim.worlds.search.users import Users

LARGEST = 1e9
"""The largest number in a table, in size."""

LEAST = 1e-9
"""The least weight of a query."""

MAX_ID = 2**62
"""The largest id of a product."""


def resolve_files(config: SearchConfig) -> SearchConfig:
    """Return a config whose counts are those of its files, which it names by their whole paths; raises `DataError`."""
    changes: dict[str, Any] = {}
    if config.catalogue_file is not None:
        changes |= {"n_products": len(load_catalogue(config).ids), "catalogue_file": _whole_path(config.catalogue_file)}
    if config.users_file is not None:
        changes |= {"n_users": len(load_users(config).segment), "users_file": _whole_path(config.users_file)}
    if config.queries_file is not None:
        load_query_table(config)
        changes["queries_file"] = _whole_path(config.queries_file)
    return config.model_copy(update=changes)


def read_search_config(config: SearchConfig | Mapping[str, Any] | None) -> SearchConfig:
    """Check a configuration, and read the files that it names; raises `ConfigError` or `DataError`."""
    if config is None or isinstance(config, Mapping):
        config = build(SearchConfig, config or {}, "search")
    if not isinstance(config, SearchConfig):
        raise ConfigError(f"config: got {config!r}, expected a SearchConfig or a mapping such as {{'n_products': 99}}")
    return resolve_files(config)


def _whole_path(file: str) -> str:
    return str(Path(file).resolve())


def digest(config: SearchConfig) -> str:
    """Hash the content of a config's files, for the keys of cached results; empty where it has none."""
    files = {field: hashlib.sha256(Path(file).read_bytes()).hexdigest() for field, file in config.files.items()}
    if not files:
        return ""
    return hashlib.sha256(json.dumps(files).encode()).hexdigest()[:16]


def load_catalogue(config: SearchConfig) -> Catalogue:
    """Return the catalogue of a config's file, with embeddings `(d, 0)` where the file has none."""
    assert config.catalogue_file is not None
    return _read_catalogue(config.catalogue_file, _modified_at(config.catalogue_file), config.model_dump_json())


def load_users(config: SearchConfig) -> Users:
    """Return the users of a config's file, with embeddings `(0, d)` where the file has none."""
    assert config.users_file is not None
    return _read_users(config.users_file, _modified_at(config.users_file), config.model_dump_json())


def load_query_table(config: SearchConfig) -> QueryTable:
    """Return the queries of a config's file, or without one the categories' own words."""
    if config.queries_file is None:
        return QueryTable(
            types=np.zeros(0, np.int64),
            weights=np.zeros(0),
            bounds=np.zeros(len(config.categories) + 1, np.int64),
            embeddings=np.zeros((0, config.embedding_dim)),
            mix=np.zeros((len(config.categories), len(config.query_types))),
            shared=_shared_words([category.words for category in config.categories.values()], config),
        )
    return _read_queries(config.queries_file, _modified_at(config.queries_file), config.model_dump_json())


def _shared_words(texts: list[list[str]], config: SearchConfig) -> FloatArray:
    """Return how many words each of Q texts shares with each category, `(Q, C)`."""
    of_categories = [{word.lower() for word in category.words} for category in config.categories.values()]
    of_texts = [{word.lower() for word in text} for text in texts]
    return np.array([[len(text & category) for category in of_categories] for text in of_texts], float)


def _modified_at(file: str) -> int:
    """Return when a file was last changed, in ns, so that a cached reading can be told stale; 0 for a missing file."""
    try:
        return Path(file).stat().st_mtime_ns
    except OSError:
        return 0


@lru_cache(maxsize=4)
def _read_catalogue(file: str, modified_at: int, config_json: str) -> Catalogue:
    config = SearchConfig.model_validate_json(config_json)
    table = _read_columns(file, ("id", "category", "price", "cm2"), "products")
    category = table.numbers_of_names("category", config.categories)
    strategic = table.numbers("strategic") != 0.0
    if "strategic" not in table.frame.columns:
        strategic = per_row(config.categories, "strategic", category) != 0.0
    return Catalogue(
        ids=frozen(table.ids()),
        category=frozen(category),
        price=frozen(table.numbers("price", low=0.0)),
        cm2=frozen(table.numbers("cm2")),
        discount=frozen(table.numbers("discount", low=0.0, high=1.0)),
        label=frozen((table.numbers("private_label") != 0.0).astype(float)),
        bestseller=frozen(table.numbers("bestseller", low=0.0)),
        strategic=frozen(strategic),
        embeddings=frozen(np.ascontiguousarray(table.embeddings(config.embedding_dim).T)),
    )


@lru_cache(maxsize=4)
def _read_users(file: str, modified_at: int, config_json: str) -> Users:
    config = SearchConfig.model_validate_json(config_json)
    taste_columns = [f"taste_{name}" for name in config.categories]
    table = _read_columns(file, ("segment", "price_taste", "label_taste", *taste_columns), "users")
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
    table = _read_columns(file, ("query", "category", "type"), "queries")
    category = table.numbers_of_names("category", config.categories)
    types = table.numbers_of_names("type", config.query_types)
    weights = np.ones(len(types))
    if "weight" in table.frame.columns:
        weights = table.numbers("weight", low=LEAST)
    mix = np.zeros((len(config.categories), len(config.query_types)))
    np.add.at(mix, (category, types), weights)
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
        mix=frozen(mix / np.maximum(mix.sum(axis=1, keepdims=True), LEAST)),
        shared=frozen(shared[order]),
    )


def _read_columns(file: str, needed: tuple[str, ...], what: str) -> "ShopTable":
    """Read a file that has the columns `needed` and at least a row, or raise `DataError`."""
    frame = read_frame(Path(file))
    missing = [name for name in needed if name not in frame.columns]
    if missing:
        raise DataError(f"{file}: no column {missing[0]}; expected {', '.join(needed)}")
    if not frame.height:
        raise DataError(f"{file}: holds no {what}; give at least one row")
    return ShopTable(file, frame)


@dataclass(frozen=True)
class ShopTable:
    """A table of a shop's own; its columns are checked as they are read, and refused with `DataError`."""

    file: str
    frame: pl.DataFrame

    def _bad_type(self, name: str, expected: str) -> DataError:
        return DataError(f"{self.file}: column {name} holds {self.frame[name].dtype}, expected {expected}")

    def numbers(self, name: str, low: float = -LARGEST, high: float = LARGEST) -> FloatArray:
        """Return a column of numbers `(n,)` from `low` to `high`, 0 where the file has no such column."""
        if name not in self.frame.columns:
            return np.zeros(self.frame.height)
        column = self.frame[name]
        if not (column.dtype.is_numeric() or column.dtype == pl.Boolean):
            raise self._bad_type(name, "numbers")
        values = column.cast(pl.Float64).fill_null(np.nan).to_numpy()
        bad_rows = np.flatnonzero(~((values >= low) & (values <= high)))  # NaN is neither
        if len(bad_rows):
            row = bad_rows[0]
            expected = f"a number from {low:g} to {high:g}"
            raise DataError(f"{self.file}: row {row + 1}, column {name}: got {values[row]:g}, expected {expected}")
        return np.array(values, np.float64)

    def ids(self) -> IntArray:
        """Return the column `id`, `(n,)`: whole numbers of at least 0, each once."""
        column = self.frame["id"]
        if not column.dtype.is_integer():
            raise self._bad_type("id", "whole numbers")
        bad = column.is_null() | (column < 0) | (column > MAX_ID)
        if bad.any():
            row = int(bad.arg_max() or 0)
            raise DataError(f"{self.file}: row {row + 1}, column id: got {column[row]}, expected 0 to 2^62")
        repeated = column.filter(column.is_duplicated())
        if len(repeated):
            raise DataError(f"{self.file}: id {repeated.min()!r} is there more than once; give each product its own")
        return column.cast(pl.Int64).to_numpy()

    def numbers_of_names(self, name: str, known: Mapping[str, Any]) -> IntArray:
        """Return a column of names as their numbers in `known`, `(n,)`."""
        if self.frame[name].dtype.is_nested():
            raise self._bad_type(name, "names")
        numbers: dict[Any, int] = {word: number for number, word in enumerate(known)}
        words = self.frame[name].to_list()
        for row, word in enumerate(words):
            if word not in numbers:
                raise DataError(f"{self.file}: row {row + 1}: unknown {name} {word!r}; known: {', '.join(known)}")
        return np.array([numbers[word] for word in words], np.int64)

    def texts(self, name: str) -> list[str]:
        """Return a column of texts."""
        if self.frame[name].dtype.is_nested() or self.frame[name].dtype == pl.Binary:
            raise self._bad_type(name, "texts")
        words = self.frame[name].to_list()
        if None in words:
            raise DataError(f"{self.file}: row {words.index(None) + 1}, column {name}: is empty, expected a text")
        return [str(word) for word in words]

    def embeddings(self, dim: int, order: Sequence[int] | IntArray | None = None) -> FloatArray:
        """Return embeddings `(n, d)` in some `order` of the rows, or `(0, d)` where the file has none."""
        present = [name for name in self.frame.columns if name[:1] == "e" and name[1:].isdigit()]
        if not present:
            return np.zeros((0, dim))
        expected = [f"e{n}" for n in range(dim)]
        if sorted(present) != sorted(expected):
            came = f"got {len(present)} columns of embeddings"
            raise DataError(f"{self.file}: {came}, expected e0 to e{dim - 1} (embedding_dim)")
        embeddings = np.column_stack([self.numbers(name) for name in expected])
        return embeddings if order is None else embeddings[order]
