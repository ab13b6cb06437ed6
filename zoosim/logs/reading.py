"""Read Records into a `Log`."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

from zoosim.core.errors import DataError
from zoosim.core.parameters import unknown
from zoosim.core.types import BoolArray, FloatArray, IntArray
from zoosim.logs.checks import MOST_ACTIONS, check_columns, check_kept, faults, sound_rows
from zoosim.logs.log import Log

READ = (*("decision_id", "time", "user_id", "user", "catalogue"), *("action", "position", "propensity", "reward"))
OWN = {*READ, "unavailable", "product_id", "policy", "policy_version", "seed", "step"}
"""The columns of a Record; other numbers of a log may serve as target probabilities."""


def read_log(path: str | os.PathLike[str], *, skip_bad: bool = False, columns: Sequence[str] = ()) -> Log:
    """Read a Parquet file of Records, as `zoosim log`, `zoosim run --log` and `zoosim import` write them.

    `columns` names further numbers to keep, such as target probabilities. Raises `DataError` naming row and column of
    the first bad row, unless `skip_bad`: then `Log.skipped` tells how many were left out, and why.
    """
    frame = read_records(Path(path), columns)
    products, categories = catalogue_of(frame, Path(path))
    log = to_log(frame, source=str(path), skip_bad=skip_bad, columns=columns, products=products)
    return replace(log, categories=categories)


def read_records(path: Path, columns: Sequence[str] = (), optional: Sequence[str] = ()) -> pl.DataFrame:
    """Read what evaluation needs of a Parquet file, and the `optional` columns that it has, or raise `DataError`."""
    if not path.is_file():
        raise DataError(f"{path}: no such file; give a Parquet file of Records (zoosim import makes one of a table)")
    try:
        known = pl.read_parquet_schema(path)
        missing = [name for name in columns if name not in known]
        if missing:
            raise DataError(f"{path}: {unknown('no column', missing[0], list(known))}")
        return pl.read_parquet(path, columns=[n for n in known if n in {*READ, "unavailable", *columns, *optional}])
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        reason = str(error).splitlines()[0]
        hint = "perhaps truncated" if path.suffix.lower() in (".parquet", ".pq") else "zoosim import reads other tables"
        raise DataError(f"{path}: cannot be read as Parquet, {hint}: {reason}") from None


def to_log(
    frame: pl.DataFrame,
    *,
    source: str = "log",
    skip_bad: bool = False,
    columns: Sequence[str] = (),
    n_actions: int | None = None,
    products: FloatArray | None = None,
) -> Log:
    """Check a frame with the columns of a Record and return it as a `Log`; needs `action`, `propensity`, `reward`.

    The number of actions is that of `products (K, d_p)`, else `n_actions`, else what the log shows. Raises `DataError`
    as `read_log` does.
    """
    frame = with_lists(frame)
    check_columns(frame, source)
    check_kept(frame, columns, source)
    k = len(products) if products is not None else n_actions or seen_actions(frame)
    frame, skipped = sound_rows(frame, faults(frame, k), source, skip_bad)
    candidates, candidate_set = _candidates(frame, k)
    n = frame.height
    return Log(
        actions=frame["action"].cast(pl.Int64).to_numpy(),
        propensities=floats(frame["propensity"]),
        rewards=floats(frame["reward"]),
        candidates=candidates,
        candidate_set=candidate_set,
        features=_features(frame),
        positions=frame["position"].cast(pl.Int64).to_numpy() if "position" in frame.columns else np.zeros(n, np.int64),
        products=products if products is not None else np.zeros((k, 0)),
        user_ids=_users(frame),
        times=frame["time"].dt.epoch("us").to_numpy() if _told(frame, "time") else None,
        columns={name: floats(frame[name]) for name in columns},
        skipped=skipped,
        source=source,
    )


def with_lists(frame: pl.DataFrame) -> pl.DataFrame:
    """Return a frame whose arrays, and lists that are all empty, are lists of numbers."""
    arrays = [name for name, dtype in frame.schema.items() if isinstance(dtype, pl.Array)]
    empty = [name for name, dtype in frame.schema.items() if dtype == pl.List(pl.Null)]
    frame = frame.with_columns(pl.col(name).arr.to_list() for name in arrays)
    frame = frame.with_columns(pl.col(name).cast(pl.List(pl.Int64)) for name in empty)
    if frame.schema.get("unavailable") == pl.List(pl.Float64):
        frame = frame.with_columns(_as_whole(frame["unavailable"]))
    return frame


def _as_whole(lists: pl.Series) -> pl.Series:
    """Return lists of whole numbers that are written as others (2.0), or the lists as they are where some are not."""
    whole = lists.cast(pl.List(pl.Int64), strict=False)
    return whole if whole.cast(pl.List(pl.Float64)).equals(lists) else lists


def _told(frame: pl.DataFrame, name: str) -> bool:
    return name in frame.columns and frame[name].null_count() == 0


def floats(column: pl.Series) -> FloatArray:
    """Return a column of numbers `(n,)`."""
    return np.ascontiguousarray(column.cast(pl.Float64).to_numpy())


def seen_actions(frame: pl.DataFrame) -> int:
    """Return one more than the highest action, below `MOST_ACTIONS`, that a log shows or lists as unavailable."""
    listed = [frame["unavailable"].list.explode()] if "unavailable" in frame.columns else []
    wide = [column.cast(pl.Int64, strict=False) for column in (frame["action"], *listed)]
    seen = [column.filter(column < MOST_ACTIONS).max() for column in wide]
    return max([int(str(value)) for value in seen if value is not None] + [0]) + 1


def _features(frame: pl.DataFrame) -> FloatArray:
    if "user" not in frame.columns:
        return np.zeros((frame.height, 0))
    values = floats(frame["user"].list.explode(keep_nulls=False, empty_as_null=False))
    return values.reshape(frame.height, -1) if len(values) else np.zeros((frame.height, 0))


def _users(frame: pl.DataFrame) -> IntArray | None:
    """Return user ids as whole numbers: words by the order in which they come."""
    if not _told(frame, "user_id"):
        return None
    column = frame["user_id"]
    known = column.cast(pl.Int64, strict=False) if column.dtype.is_integer() else None
    if known is not None and not known.null_count():
        return np.asarray(known.to_numpy())
    return np.asarray(column.cast(pl.String).cast(pl.Categorical).to_physical().cast(pl.Int64).to_numpy())


def _candidates(frame: pl.DataFrame, k: int) -> tuple[BoolArray, IntArray]:
    """Return the different sets of candidates `(s, K)`, and which of them each row has `(n,)`."""
    if "unavailable" not in frame.columns or frame["unavailable"].list.len().max() in (0, None):
        return np.ones((1, k), bool), np.zeros(frame.height, np.int64)
    lists = frame.select("unavailable").with_row_index("row")
    sets = lists.group_by("unavailable", maintain_order=True).agg("row")
    candidates, candidate_set = np.ones((sets.height, k), bool), np.zeros(frame.height, np.int64)
    for number, (gone, rows) in enumerate(zip(sets["unavailable"], sets["row"], strict=True)):
        candidates[number, np.asarray(gone if gone is not None else [], np.int64)] = False
        candidate_set[rows.to_numpy()] = number
    return candidates, candidate_set


def catalogue_of(frame: pl.DataFrame, path: Path) -> tuple[FloatArray | None, tuple[str, ...]]:
    """Return the features `(K, d_p)` and categories of the product table beside a log; nothing where there is none."""
    names = frame["catalogue"].drop_nulls().unique().to_list() if "catalogue" in frame.columns else []
    if len(names) > 1:
        raise DataError(f"{path}: holds actions of {len(names)} catalogues, expected one; evaluate them one by one")
    table = path.parent / f"catalogue-{names[0]}.parquet" if names else path
    if not names or not table.is_file():
        return None, ()
    try:
        products = pl.read_parquet(table)
        lists = products["product"].to_list()
        features = np.array(lists, float).reshape(len(lists), -1)
        categories = tuple(products["category"].cast(pl.String)) if "category" in products.columns else ()
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ValueError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise DataError(
            f"{table}: is no table of products, or broken ({reason}); write or import the log anew"
        ) from None
    if None in categories or not np.isfinite(features).all():
        raise DataError(f"{table}: lacks a category, or a number among its features, for some product; fill it in")
    return features, categories
