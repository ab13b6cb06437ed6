"""Read Records of rankings: rows of one visit share `decision_id` and differ in `position`."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

from zoosim.core.errors import DataError
from zoosim.core.types import FloatArray
from zoosim.logs.checks import Fault, bad_probabilities, check_columns, check_kept, faults, sound_rows
from zoosim.logs.ranking_log import RankingLog
from zoosim.logs.reading import catalogue_of, read_records, seen_actions, to_log, with_lists

MARGINAL = "marginal_"
"""`marginal_propensity` is the log's own; `marginal_NAME` belongs to target probabilities in the column NAME."""

VISIT = ("decision_id", "position")
ALIKE = ("user_id", "user", "unavailable")
"""What all rows of a visit share."""


def read_rankings(path: str | os.PathLike[str], *, skip_bad: bool = False, columns: Sequence[str] = ()) -> RankingLog:
    """Read a Parquet file of Records whose visits show rankings; as `read_log`, with whole visits skipped."""
    frame = read_records(Path(path), columns, optional=_marginals(columns))
    products, categories = catalogue_of(frame, Path(path))
    log = to_rankings(frame, source=str(path), skip_bad=skip_bad, columns=columns, products=products)
    return replace(log, categories=categories)


def to_rankings(
    frame: pl.DataFrame,
    *,
    source: str = "log",
    skip_bad: bool = False,
    columns: Sequence[str] = (),
    n_actions: int | None = None,
    products: FloatArray | None = None,
) -> RankingLog:
    """Check a frame with the columns of a Record and return its visits as a `RankingLog`.

    Needed are `decision_id`, `position` (from 0 or from 1 on), `action`, `propensity` (given those above) and `reward`
    (of the position); `marginal_propensity` serves the independent estimators. Raises `DataError` naming row and
    column of the first bad row, unless `skip_bad`: then its whole visit is left out.
    """
    kept, frame = [*columns, *(name for name in _marginals(columns) if name in frame.columns)], with_lists(frame)
    _check(frame, kept, source)
    k = len(products) if products is not None else n_actions or seen_actions(frame)
    found = [*faults(frame, k, rankings=True), *visit_faults(frame)]
    frame, skipped = sound_rows(frame, found, source, skip_bad, together="decision_id")
    began = pl.col("_row").first().over("decision_id").alias("_began")
    frame = frame.with_row_index("_row").with_columns(began).sort("_began", "position")
    length = int((frame["_began"] == frame["_began"][0]).sum())
    visits = to_log(frame.gather_every(length).drop(VISIT), source=source, n_actions=k, products=products)

    def wide(name: str) -> FloatArray:
        return np.ascontiguousarray(frame[name].cast(pl.Float64).to_numpy().reshape(-1, length))

    own = f"{MARGINAL}propensity"
    return RankingLog(
        actions=wide("action").astype(np.int64),
        propensities=wide("propensity"),
        rewards=wide("reward"),
        candidates=visits.candidates,
        candidate_set=visits.candidate_set,
        features=visits.features,
        products=visits.products,
        marginals=wide(own) if own in frame.columns else None,
        user_ids=visits.user_ids,
        times=visits.times,
        columns={name: wide(name) for name in kept},
        skipped=skipped,
        source=source,
    )


def _marginals(columns: Sequence[str]) -> list[str]:
    return [MARGINAL + name for name in ("propensity", *columns)]


def _check(frame: pl.DataFrame, kept: Sequence[str], source: str) -> None:
    check_columns(frame, source)
    for name in VISIT:
        if name not in frame.columns or frame[name].null_count() == frame.height:
            got = f"column {name} is missing" if name not in frame.columns else f"column {name} holds nothing"
            raise DataError(f"{source}: {got}; rows of a ranking share their decision_id and differ in position")
    check_kept(frame, kept, source)


def visit_faults(frame: pl.DataFrame) -> Iterator[Fault]:
    """Yield what is wrong in how rows make up visits."""
    visits = frame.group_by("decision_id").agg(least=pl.col("position").min(), length=pl.len())
    base = 0 if not visits.height else int(np.clip(int(str(visits["least"].mode().min() or 0)), 0, 1))
    place = base + pl.col("position").rank("ordinal").over("decision_id").cast(pl.Int64) - 1
    order = frame.select((pl.col("position").cast(pl.Int64) != place).fill_null(False)).to_series()
    yield Fault("position", f"{base}, {base + 1}, ... in each visit, each once and without gaps", order.to_numpy())
    usual = int(str(visits["length"].mode().max()))
    lengths = frame.select(pl.len().over("decision_id") != usual).to_series()
    yield Fault("decision_id", f"one that {usual} rows share, as in most visits", lengths.to_numpy())
    pairs = frame.select(pl.struct("decision_id", "action")).to_series()
    again = pairs.is_duplicated() & ~pairs.is_first_distinct()
    yield Fault("action", "one that the visit does not show at another position", again.to_numpy())
    yield from alike_faults(frame, [name for name in ALIKE if name in frame.columns])
    for name in (name for name in frame.columns if name == f"{MARGINAL}propensity"):
        yield Fault(name, "above 0 and at most 1", bad_probabilities(frame[name]) | frame[name].is_null().to_numpy())


def alike_faults(frame: pl.DataFrame, names: Sequence[str]) -> Iterator[Fault]:
    """Yield the rows where a column of `names` differs within a visit."""
    for name in names:
        differs = pl.col(name).ne_missing(pl.col(name).first().over("decision_id"))
        yield Fault(name, "the same in all rows of a visit", frame.select(differs).to_series().to_numpy())
