"""Write Records with the table of their products beside them, as `read_log` reads them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from zoosim.core.digests import short_digest
from zoosim.core.parquet import write_parquet
from zoosim.logs.importing.columns import list_column
from zoosim.logs.log import Log
from zoosim.logs.schema import (
    CANDIDATE_PROPENSITIES,
    CANDIDATES,
    OWN_MARGINAL,
    REWARDS,
    SCHEMA_VERSION,
    SOURCE,
    SOURCE_PRODUCTS,
)
from zoosim.schema.schema import FittedSchema

VERSION = {"schema_version": SCHEMA_VERSION}


def write_records(
    records: pl.DataFrame | pl.LazyFrame,
    products: pl.DataFrame,
    path: Path,
    fitted: FittedSchema,
    rewards: Sequence[str],
    *,
    others: pl.DataFrame | None = None,
) -> None:
    """Write Records, and the table of their products as `catalogue-HASH.parquet` beside them.

    Args:
        records: The Records, but for `catalogue`, which is added.
        products: A row per candidate: `product_id`, `product` (features) and, where it is known, `category`.
        path: The file.
        fitted: How visitors and products were encoded.
        rewards: The columns of rewards by name.
        others: As `products`, of those that no row shows or lists, which models are to know, too.
    """
    catalogue = products if others is None else pl.concat([products, others])
    digest = _digest(catalogue, products.height)
    meta = {"schema": "catalogue", "catalogue": digest, CANDIDATES: products.height, **VERSION}
    # The table first: a log whose table is not beside it cannot be read, while a table without a log harms nobody.
    write_parquet(catalogue, path.parent / f"catalogue-{digest}.parquet", meta)
    meta = {REWARDS: list(rewards), "fitted": fitted.model_dump_json()}
    write_parquet(records.with_columns(catalogue=pl.lit(digest)), path, {"schema": "record", **VERSION, **meta})


def to_records(log: Log, by_visit: Mapping[str, Sequence[str]]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return a log of products or rankings as Records, and the table of its products.

    Args:
        log: A log whose products have names.
        by_visit: Columns of words to add, with a value for each visit: `decision_id`, and what else is known.
    """
    length = log.n_positions
    visits = np.repeat(np.arange(len(log)), length)
    columns: dict[str, Any] = {name: pl.Series(values, dtype=pl.String) for name, values in by_visit.items()}
    if log.times is not None:
        columns["time"] = pl.Series(log.times).cast(pl.Datetime("us", "UTC"))
    if log.user_ids is not None:
        columns["user_id"] = log.user_ids
    columns["user"] = list_column("user", log.features)
    if not log.candidates.are_everything:
        name = "unavailable" if log.candidates.are_lacking else "candidates"
        columns[name] = _lists(log)
    if log.candidate_sources is not None:
        names, source, columns[SOURCE[2]], columns[SOURCE_PRODUCTS] = log.candidate_sources
        for name, values in zip(SOURCE[:2], zip(*names, strict=True), strict=True):
            columns[name] = pl.Series(values, dtype=pl.String)[source]
    if log.marginals is not None and log.marginals.ndim == 1:
        columns[OWN_MARGINAL] = log.marginals
    if log.candidate_propensities is not None:
        lengths = log.candidate_lists(0, len(log)).lengths
        ends = np.cumsum(lengths)
        lists = [log.candidate_propensities[end - n : end] for end, n in zip(ends, lengths, strict=True)]
        columns[CANDIDATE_PROPENSITIES] = pl.Series(lists, dtype=pl.List(pl.Float32))
    visit_columns = pl.DataFrame(columns)[visits]
    by_position = {
        "action": log.actions.ravel(),
        "product_id": pl.Series(log.names)[log.actions.ravel()],
        "position": np.tile(np.arange(length, dtype=np.int32), len(log)),
        **({"propensity": log.propensities.ravel()} if log.has_propensities else {}),
        "reward": log.rewards.ravel(),
        **{name: values.ravel() for name, values in log.rewards_by_name.items()},
    }
    products = {"product_id": list(log.names), "product": list_column("product", log.products)}
    if log.categories:
        products["category"] = list(log.categories)
    return visit_columns.hstack(pl.DataFrame(by_position)), pl.DataFrame(products)


def _lists(log: Log) -> pl.Series:
    """Return the list that stands for each visit's candidates."""
    sets = log.candidates
    lists = [sets.products[start:stop] for start, stop in zip(sets.starts[:-1], sets.starts[1:], strict=True)]
    return pl.Series(lists, dtype=pl.List(pl.Int32))[log.candidate_set]


def _digest(products: pl.DataFrame, n_candidates: int) -> str:
    """Hash what is known of the products, so that another description gets another file."""
    described = repr(products.to_dict(as_series=False)) + (f" {n_candidates}" if n_candidates < products.height else "")
    return short_digest(described)
