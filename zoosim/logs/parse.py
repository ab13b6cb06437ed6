"""Parse Records into a `Log`: a Parquet file, or a frame with the columns of `zoosim.logs.schema`."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from zoosim.action_spaces.registry import find_action_space, spaces_with
from zoosim.core.checks import check_number
from zoosim.core.errors import ConfigError, DataError
from zoosim.core.parameters import shown, unknown
from zoosim.core.parquet import UNREADABLE, check_parquet, decode_parquet, decoding, read_meta, read_parquet
from zoosim.core.types import FloatArray, IntArray
from zoosim.logs.candidate_sets import CandidateSets
from zoosim.logs.checks import Fault, check_columns, check_names, check_numeric, floats, reward_faults, sound_rows
from zoosim.logs.importing.columns import whole_numbers
from zoosim.logs.lives import has_lives, lives_of
from zoosim.logs.log import Log
from zoosim.logs.records import Records, records_of
from zoosim.logs.schema import A_MAX, ACTION_SPACE, CANDIDATES, LISTED, MARGINAL, READ, REQUIRED, REWARDS
from zoosim.logs.searches import COLUMNS as SEARCH_COLUMNS
from zoosim.logs.searches import Searches, faults_of_searches, read_requests
from zoosim.logs.sources import candidate_propensities, sources_of
from zoosim.policies.boosts.base import BOX
from zoosim.ranking.search_requests import SearchRequests
from zoosim.schema.schema import FittedSchema
from zoosim.schema.values import ids_of, product_key, visitor_ids

ROW = "_row of the source"
"""A column of numbers from 0 that goes with rows while bad ones are left out."""


def read_log(
    path: str | os.PathLike[str],
    *,
    action_space: str | None = None,
    skip_bad: bool = False,
    columns: Sequence[str] = (),
    a_max: float | None = None,
) -> Log:
    """Read a Parquet file of Records, as `zoosim log`, `zoosim run --log` and `zoosim import` write them.

    Args:
        path: The file; the table of its products, `catalogue-HASH.parquet`, lies beside it.
        action_space: What a visit chooses: "products", "rankings" or "boosts". By default what the file says; where it
            says nothing, boosts where actions are lists of numbers, else products.
        skip_bad: Leave bad rows out, a ranking whole; `Log.skipped` then says how many, and why.
        columns: Further columns of numbers to keep, such as target probabilities.
        a_max: The largest size of a boost; by default what the column `a_max` says, or the largest boost of the log.

    Raises:
        ConfigError: `action_space` is unknown, or `a_max` out of range.
        DataError: the file cannot be read, is damaged, lacks a column or the table of its products, or has a bad row,
            the first of which is named.
    """
    # Before polars reads any of it: a damaged file may ask it for any amount of memory, or end the process.
    _check_file(Path(path))
    action_space = action_space or named_action_space(Path(path))
    rewards = [str(name) for name in read_meta(Path(path)).get(REWARDS, [])]
    frame = _read_columns(Path(path), [*columns, *rewards])
    catalogue = _Catalogue()
    if find_action_space(_space_of(frame, action_space)).has_catalogue:
        catalogue = catalogue_of(frame, Path(path))
    requests = read_requests(Path(path)) if set(SEARCH_COLUMNS) <= set(frame.columns) else None
    log = to_log(
        frame,
        action_space=action_space,
        source=str(path),
        skip_bad=skip_bad,
        columns=columns,
        rewards=rewards,
        a_max=a_max,
        products=catalogue.products,
        requests=requests,
    )
    fitted = encoding_of(Path(path), log.features.shape[1])
    return replace(
        log,
        categories=catalogue.categories,
        ids=catalogue.ids,
        names=catalogue.names,
        other_names=catalogue.other_names,
        other_products=catalogue.other_products,
        fitted=fitted,
    )


def to_log(
    frame: pl.DataFrame,
    *,
    action_space: str | None = None,
    source: str = "log",
    skip_bad: bool = False,
    columns: Sequence[str] = (),
    rewards: Sequence[str] = (),
    a_max: float | None = None,
    n_actions: int | None = None,
    products: FloatArray | None = None,
    requests: SearchRequests | None = None,
) -> Log:
    """Check a frame with the columns of Records, of which it needs `action` and `reward`; return a `Log`.

    Args:
        frame: One row per visit, or per position of a ranking; see `zoosim.logs.schema`.
        source: What messages call the log.
        rewards: The columns of rewards, beside `reward`.
        n_actions: The number of products; by default that of `products`, else one more than the highest action.
        products: The features of the products `(K, d_p)`.
        requests: The shop of a log of searches, whose columns are then kept.
        action_space, skip_bad, columns, a_max: As in `read_log`.

    Raises:
        ConfigError: `action_space` is unknown, or `a_max` out of range.
        DataError: as `read_log`.
    """
    if a_max is not None:
        check_number(A_MAX, a_max, *BOX)
    frame = normalized(frame)
    space = _space_of(frame, action_space)
    records_class = records_of(space)
    check_columns(frame, source, records_class.required, lists=records_class.chooses_lists)
    records: Records = records_class(frame, source, n_actions if products is None else len(products), a_max)
    kept = records.kept(columns)
    check_numeric(frame, [*kept, *rewards], source)

    faults = [*faults_of(records, rewards), *(faults_of_searches(frame, requests) if requests is not None else ())]
    frame = frame.with_columns(pl.int_range(pl.len()).alias(ROW))
    # A life with a gap tells of what never followed, so that it is left out whole.
    together = records.visit_column or ("visitor" if has_lives(frame) else None)
    sound, skipped = sound_rows(frame, faults, source, skip_bad, together=together)
    rows, shape = records.by_visit(sound)
    # The first row of each visit, from which all is read that is of the whole visit.
    visits = rows.gather_every(rows.height // shape[0])
    candidates, candidate_set = _candidates(visits, records.n_actions)
    features = _features(visits)
    shared = {
        "propensities": _propensities(rows, shape),
        "rewards": floats(rows["reward"]).reshape(shape),
        "candidates": candidates,
        "candidate_set": candidate_set,
        "features": features,
        "positions": np.zeros(visits.height, np.int64),
        "products": np.zeros((records.n_actions, 0)) if products is None else products,
        "user_ids": _user_ids(visits),
        "lives": lives_of(visits),
        "candidate_sources": sources_of(visits),
        "candidate_propensities": candidate_propensities(visits) if records.visit_column is None else None,
        "times": visits["time"].dt.epoch("us").to_numpy() if _is_known(visits, "time") else None,
        "columns": {name: floats(rows[name]).reshape(shape) for name in kept},
        "rewards_by_name": {name: floats(rows[name]).reshape(shape) for name in rewards},
        "skipped": skipped,
        "source": source,
        "action_space": space,
        "numbers": visits[ROW].to_numpy() if skipped or visits.height < frame.height else None,
        "searches": None if requests is None else Searches(visits.select(SEARCH_COLUMNS), features, requests),
    }
    return Log(**{**shared, **records.decisions(rows, shape)})


def faults_of(records: Records, rewards: Sequence[str]) -> Iterator[Fault]:
    """Yield what is wrong in the rows of Records, and in the columns of rewards beside `reward`."""
    yield from records.faults()
    for name in rewards:
        yield from reward_faults(records.frame, name)
        yield Fault(name, "a value", records.frame[name].is_null().to_numpy())


def named_action_space(path: Path) -> str | None:
    """Return the action space that a log file names, None for one that names none; raises `DataError`."""
    name = read_meta(path).get(ACTION_SPACE)
    if name is None:
        return None
    try:
        records_of(name)
    except ConfigError as error:
        raise DataError(f"{path}: {error}; import the package of its action space, or mend it") from None
    return str(name)


def _space_of(frame: pl.DataFrame, action_space: str | None) -> str:
    """Return the action space that was named, else the first whose actions the column `action` looks like."""
    if action_space is not None:
        records_of(action_space)  # refuses what is none
        return action_space
    are_lists = isinstance(frame.schema.get("action"), pl.List | pl.Array)
    return next(space.name for space in spaces_with("records") if space.records.chooses_lists == are_lists)


def _check_file(path: Path) -> None:
    if not path.is_file():
        raise DataError(f"{path}: no such file; give a Parquet file of Records (zoosim import makes one of a table)")
    check_parquet(path)


def _read_columns(path: Path, columns: Sequence[str]) -> pl.DataFrame:
    """Read the columns that a log consists of, and `columns`; raises `DataError`."""
    wanted = {*READ, *columns, A_MAX, *SEARCH_COLUMNS, *(MARGINAL + name for name in ("propensity", *columns))}
    try:
        with decoding():
            known = pl.scan_parquet(path, glob=False).collect_schema().names()
        check_names(known, str(path), REQUIRED)
        missing = [name for name in columns if name not in known]
        if not missing:
            return decode_parquet(path, [name for name in known if name in wanted])
    except DataError:
        raise
    except UNREADABLE as error:
        reason = str(error).splitlines()[0]
        raise DataError(f"{path}: cannot be read as Parquet, perhaps truncated: {reason}") from None
    raise DataError(f"{path}: {unknown('no column', missing[0], known)}")


def normalized(frame: pl.DataFrame) -> pl.DataFrame:
    """Return a frame whose arrays, and lists that are all empty, are lists of numbers, and 2.0 in ids is 2."""
    arrays = [name for name, dtype in frame.schema.items() if isinstance(dtype, pl.Array)]
    empty = [name for name, dtype in frame.schema.items() if dtype == pl.List(pl.Null)]
    frame = frame.with_columns(pl.col(name).arr.to_list() for name in arrays)
    frame = frame.with_columns(pl.col(name).cast(pl.List(pl.Int64)) for name in empty)
    whole = [name for name in (*LISTED, "position", "user_id") if name in frame.columns]
    if frame.schema.get("action") in (pl.Float32, pl.Float64):  # lists of numbers are boosts
        whole.append("action")
    frame = frame.with_columns(whole_numbers(frame[name]) for name in whole)
    texts = [name for name in ("user_id", "decision_id") if frame.schema.get(name) == pl.String]
    return frame.with_columns(ids_of(frame[name]) for name in texts)


def _propensities(rows: pl.DataFrame, shape: tuple[int, ...]) -> FloatArray:
    """Return the logged propensities, NaN where the log has none."""
    return floats(rows["propensity"]).reshape(shape) if "propensity" in rows.columns else np.full(shape, np.nan)


def _is_known(frame: pl.DataFrame, name: str) -> bool:
    return name in frame.columns and frame[name].null_count() == 0


def _features(frame: pl.DataFrame) -> FloatArray:
    if "user" not in frame.columns:
        return np.zeros((frame.height, 0))
    values = floats(frame["user"].list.explode(keep_nulls=False, empty_as_null=False))
    return values.reshape(frame.height, -1) if len(values) else np.zeros((frame.height, 0))


def _user_ids(frame: pl.DataFrame) -> IntArray | None:
    """Return user ids as whole numbers, words by the order in which they come; None where no row names a user.

    A row that names none is of a user of its own.
    """
    if "user_id" not in frame.columns or frame["user_id"].null_count() == frame.height:
        return None
    column = frame["user_id"]
    if column.dtype.is_integer() and not column.null_count():
        whole = column.cast(pl.Int64, strict=False)
        if not whole.null_count():
            return np.asarray(whole.to_numpy())
    return np.asarray(visitor_ids(column).cast(pl.Categorical).to_physical().cast(pl.Int64).to_numpy())


def _candidates(frame: pl.DataFrame, n_actions: int) -> tuple[CandidateSets, IntArray]:
    """Return the different sets of candidates, and which of them each row has `(n,)`."""
    listed = [name for name in LISTED if name in frame.columns]
    if not n_actions or not listed or (listed == ["unavailable"] and not frame["unavailable"].list.len().sum()):
        return CandidateSets.everything(n_actions), np.zeros(frame.height, np.int64)
    name = listed[0]
    lists = frame.select(pl.col(name).cast(pl.List(pl.Int32))).with_row_index("row")
    # Most rows of a log share their list with many others: each is kept, and later turned into a mask, once.
    sets = lists.group_by(name, maintain_order=True).agg("row")
    # A row that says nothing could show everything.
    unlisted = [] if name == "unavailable" else list(range(n_actions))
    products = sets[name]
    if products.null_count():
        products = sets.select(pl.coalesce(name, pl.lit(pl.Series([unlisted], dtype=pl.List(pl.Int32))))).to_series()
    products = products.list.unique(maintain_order=True)  # a product that is listed twice is one candidate
    starts = np.concatenate([[0], products.list.len().cast(pl.Int64).cum_sum().to_numpy()])
    candidate_set = np.empty(frame.height, np.int64)
    candidate_set[sets["row"].explode().to_numpy()] = np.repeat(np.arange(sets.height), sets["row"].list.len())
    flat = products.list.explode(keep_nulls=False, empty_as_null=False).to_numpy()
    return CandidateSets(starts, flat, n_actions, are_lacking=name == "unavailable"), candidate_set


class _Catalogue(NamedTuple):
    """Candidates of a log, and other products, as the table beside it describes them; empty where there is none."""

    products: FloatArray | None = None
    categories: tuple[str, ...] = ()
    ids: IntArray | None = None
    names: tuple[str, ...] = ()
    other_names: tuple[str, ...] = ()
    other_products: FloatArray = np.zeros((0, 0))


def catalogue_of(frame: pl.DataFrame, path: Path) -> _Catalogue:
    """Return features `(K, d_p)`, categories, ids and names of the product table beside a log."""
    digests = frame["catalogue"].drop_nulls().unique().to_list() if "catalogue" in frame.columns else []
    if len(digests) > 1:
        raise DataError(f"{path}: holds actions of {len(digests)} catalogues, expected one; evaluate them one by one")
    if not digests:
        return _Catalogue()
    table = path.parent / f"catalogue-{digests[0]}.parquet"
    if not table.is_file():
        raise DataError(
            f"{path}: the table of its products is not beside it; copy {table.name} to its folder, "
            "or save the log without its column catalogue to do without what the table says"
        )
    products = read_parquet(table)
    if read_meta(table).get("catalogue", digests[0]) != digests[0]:
        raise DataError(f"{table}: holds the products of another log than {path}; copy the one that belongs to it")
    try:
        lists = products["product"].cast(pl.List(pl.Float64))
        if lists.list.len().n_unique() > 1:
            raise ValueError("products have lists of different lengths")
        features = floats(lists.list.explode(keep_nulls=False, empty_as_null=False)).reshape(len(lists), -1)
        categories = tuple(products["category"].cast(pl.String)) if "category" in products.columns else ()
    except (*UNREADABLE, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise DataError(
            f"{table}: is no table of products, or broken ({reason}); write or import the log anew"
        ) from None
    if None in categories or not np.isfinite(features).all():
        raise DataError(f"{table}: lacks a category, or a number among its features, for some product; fill it in")
    names = tuple(map(str, products["product_id"])) if "product_id" in products.columns else ()
    ids = np.array([product_key(name) for name in names], np.int64)
    # Policies keep what they learn by these numbers, so two products must never share one.
    if len(set(ids.tolist())) < len(lists):  # products that nothing tells apart are known by their place
        return _Catalogue(features, categories)
    n = _count_of_candidates(table, len(names))
    return _Catalogue(features[:n], categories[:n], ids[:n], names[:n], names[n:], features[n:])


def _count_of_candidates(table: Path, n_products: int) -> int:
    """Return how many of a catalogue's products, its first, are candidates; raises `DataError` for a wrong count."""
    count = read_meta(table).get(CANDIDATES, n_products)
    if not isinstance(count, int) or not 0 < count <= n_products:
        raise DataError(f"{table}: says that {shown(count)} of its {n_products:,} products are candidates; import anew")
    return count


def fitted_schema(path: Path) -> FittedSchema | None:
    """Return the schema that a log was encoded with, None where nobody encoded it; raises `DataError`."""
    check_parquet(path)
    return _fitted_schema(path)


def encoding_of(path: Path, width: int) -> FittedSchema | None:
    """Return the schema that a log whose visitors have `width` features was encoded with, None where nobody did.

    Raises `DataError` where it speaks of another number of features.
    """
    fitted = _fitted_schema(path)
    if fitted is not None and fitted.visitors.width != width:
        widths = f"{fitted.visitors.width} features of visitors, its rows hold {width}"
        raise DataError(f"{path}: its schema has {widths}; import the log anew")
    return fitted


def _fitted_schema(path: Path) -> FittedSchema | None:
    text = read_meta(path).get("fitted")
    return FittedSchema.from_json(text, str(path)) if isinstance(text, str) else None
