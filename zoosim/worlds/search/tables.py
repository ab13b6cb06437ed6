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
from collections.abc import Mapping
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
from zoosim.worlds.search.catalogue import Catalogue
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
    frame = _read_columns(file, ("id", "category", "price", "cm2"), "products")
    ids = _whole_numbers(frame, "id", file)
    category = _numbers_of_names(frame, "category", file, list(config.categories))
    strategic_category = np.array([settings.strategic for settings in config.categories.values()])[category]
    distinct, counts = np.unique(ids, return_counts=True)
    if len(distinct) < len(ids):
        raise DataError(f"{file}: id {distinct[counts > 1][0]} is there more than once; give each product its own")
    return Catalogue(
        ids=frozen(ids),
        category=frozen(category),
        price=frozen(_numbers(frame, "price", file, low=0.0)),
        cm2=frozen(_numbers(frame, "cm2", file)),
        discount=frozen(_numbers(frame, "discount", file, low=0.0, high=1.0)),
        label=frozen((_numbers(frame, "private_label", file) != 0.0).astype(float)),
        bestseller=frozen(_numbers(frame, "bestseller", file, low=0.0)),
        strategic=frozen(
            _numbers(frame, "strategic", file) != 0.0 if "strategic" in frame.columns else strategic_category
        ),
        embeddings=frozen(np.ascontiguousarray(_embeddings(frame, file, config.embedding_dim).T)),
    )


@lru_cache(maxsize=4)
def _read_users(file: str, modified_at: int, config_json: str) -> Users:
    config = SearchConfig.model_validate_json(config_json)
    names = [f"taste_{name}" for name in config.categories]
    frame = _read_columns(file, ("segment", "price_taste", "label_taste", *names), "users")
    segment = _numbers_of_names(frame, "segment", file, list(config.segments))
    order = np.argsort(segment, kind="stable")
    tastes = np.column_stack([_numbers(frame, name, file, low=0.0) for name in names])
    bad_rows = np.flatnonzero(tastes.sum(axis=1) <= 0.0)
    if len(bad_rows):
        raise DataError(f"{file}: row {bad_rows[0] + 1} has no taste for any category; give one a number above 0")
    counts = np.bincount(segment, minlength=len(config.segments))
    missing = [name for name, n in zip(config.segments, counts, strict=True) if not n and any(config.shares_of(name))]
    if missing:
        remedy = "set its share to 0" if config.shares_of(missing[0])[0] else "leave it out of the shifts' segment_mix"
        raise DataError(f"{file}: no user of segment {missing[0]}; add some, or {remedy}")
    embeddings = _embeddings(frame, file, config.embedding_dim)
    return Users(
        segment=frozen(segment[order]),
        price_taste=frozen(_numbers(frame, "price_taste", file)[order]),
        label_taste=frozen(_numbers(frame, "label_taste", file)[order]),
        category_tastes=frozen((tastes / tastes.sum(axis=1, keepdims=True))[order]),
        embeddings=frozen(embeddings[order] if len(embeddings) else embeddings),
        bounds=frozen(np.concatenate([[0], np.cumsum(counts)])),
    )


@lru_cache(maxsize=4)
def _read_queries(file: str, modified_at: int, config_json: str) -> QueryTable:
    config = SearchConfig.model_validate_json(config_json)
    frame = _read_columns(file, ("query", "category", "type"), "queries")
    category = _numbers_of_names(frame, "category", file, list(config.categories))
    types = _numbers_of_names(frame, "type", file, list(config.query_types))
    weights = _numbers(frame, "weight", file, low=LEAST) if "weight" in frame.columns else np.ones(frame.height)
    order = np.argsort(category, kind="stable")
    bounds = np.concatenate([[0], np.cumsum(np.bincount(category, minlength=len(config.categories)))])
    cumulative = [np.cumsum(part) / np.sum(part) for part in np.split(weights[order], bounds[1:-1]) if len(part)]
    embeddings = _embeddings(frame, file, config.embedding_dim)
    shared = _shared_words([re.findall(r"\w+", words) for words in _texts(frame, "query", file)], config)
    mix = np.zeros((len(config.categories), len(config.query_types)))
    np.add.at(mix, (category, types), weights)
    return QueryTable(
        types=frozen(types[order]),
        weights=frozen(np.concatenate(cumulative)),
        bounds=frozen(bounds),
        embeddings=frozen(embeddings[order] if len(embeddings) else embeddings),
        mix=frozen(mix / np.maximum(mix.sum(axis=1, keepdims=True), LEAST)),
        shared=frozen(shared[order]),
    )


def _read_columns(file: str, needed: tuple[str, ...], what: str) -> pl.DataFrame:
    """Read a file that has the columns `needed` and at least a row, or raise `DataError`."""
    frame = read_frame(Path(file))
    missing = [name for name in needed if name not in frame.columns]
    if missing:
        raise DataError(f"{file}: no column {missing[0]}; expected {', '.join(needed)}")
    if not frame.height:
        raise DataError(f"{file}: holds no {what}; give at least one row")
    return frame


def _numbers(frame: pl.DataFrame, name: str, file: str, low: float = -LARGEST, high: float = LARGEST) -> FloatArray:
    """Return a column of numbers `(n,)` within bounds, 0 where the file has no such column, or raise `DataError`."""
    if name not in frame.columns:
        return np.zeros(frame.height)
    if not (frame[name].dtype.is_numeric() or frame[name].dtype == pl.Boolean):
        raise DataError(f"{file}: column {name} holds {frame[name].dtype}, expected numbers")
    values = frame[name].cast(pl.Float64).fill_null(np.nan).to_numpy()
    bad_rows = np.flatnonzero(~(np.isfinite(values) & (values >= low) & (values <= high)))
    if len(bad_rows):
        row = bad_rows[0]
        expected = f"a number from {low:g} to {high:g}"
        raise DataError(f"{file}: row {row + 1}, column {name}: got {values[row]:g}, expected {expected}")
    return np.array(values, np.float64)


def _whole_numbers(frame: pl.DataFrame, name: str, file: str) -> IntArray:
    """Return a column of whole numbers of at least 0, `(n,)`, or raise `DataError`."""
    if not frame[name].dtype.is_integer():
        raise DataError(f"{file}: column {name} holds {frame[name].dtype}, expected whole numbers")
    bad = frame[name].is_null() | (frame[name] < 0) | (frame[name] > MAX_ID)
    if bad.any():
        row = int(bad.arg_max() or 0)
        raise DataError(f"{file}: row {row + 1}, column {name}: got {frame[name][row]}, expected 0 to 2^62")
    return frame[name].cast(pl.Int64).to_numpy()


def _numbers_of_names(frame: pl.DataFrame, name: str, file: str, known: list[str]) -> IntArray:
    """Return a column of names as their numbers in `known`, `(n,)`, or raise `DataError`."""
    numbers: dict[Any, int] = {word: n for n, word in enumerate(known)}
    if frame[name].dtype.is_nested():
        raise DataError(f"{file}: column {name} holds {frame[name].dtype}, expected names")
    words = frame[name].to_list()
    for n, word in enumerate(words):
        if word not in numbers:
            raise DataError(f"{file}: row {n + 1}: unknown {name} {word!r}; known: {', '.join(known)}")
    return np.array([numbers[word] for word in words], np.int64)


def _texts(frame: pl.DataFrame, name: str, file: str) -> list[str]:
    """Return a column of texts, or raise `DataError`."""
    if frame[name].dtype.is_nested() or frame[name].dtype == pl.Binary:
        raise DataError(f"{file}: column {name} holds {frame[name].dtype}, expected texts")
    words = frame[name].to_list()
    if None in words:
        raise DataError(f"{file}: row {words.index(None) + 1}, column {name}: is empty, expected a text")
    return [str(word) for word in words]


def _embeddings(frame: pl.DataFrame, file: str, dim: int) -> FloatArray:
    """Return embeddings `(n, d)`, or `(0, d)` where the file has none."""
    present = [name for name in frame.columns if name[:1] == "e" and name[1:].isdigit()]
    if not present:
        return np.zeros((0, dim))
    expected = [f"e{n}" for n in range(dim)]
    if sorted(present) != sorted(expected):
        raise DataError(f"{file}: got {len(present)} columns of embeddings, expected e0 to e{dim - 1} (embedding_dim)")
    return np.column_stack([_numbers(frame, name, file) for name in expected])
