"""Map a user's own table onto Records, by a small YAML file.

    columns: {action: item, propensity: p, reward: click, time: at, user_id: customer}   # Record's name: theirs
    features: [age, country]      # what the shop knows of the visitor: numbers, or words, which become one column each
    keep: [p_new]                 # further numbers, such as target probabilities
    time_zone: Europe/Berlin      # of times that name none
    actions: [A1, B7]             # the candidates, in order; those that were shown or listed when left out
    products: {table: items.csv, id: item, category: brand, features: [price, colour]}   # relative to the mapping
    rankings: true                # rows that share their decision_id are a visit's ranking and differ in position
    separator: "|"                # between the words of `candidates` or `unavailable`, where they are no lists

`action`, `propensity` and `reward` are needed; `decision_id`, `time`, `user_id`, `position` are not. `candidates` lists
the products that could be shown in a row, or `unavailable` those that could not.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import polars as pl
from pydantic import Field, model_validator

from zoosim.core.action_space import ActionSpace
from zoosim.core.config import Strict, build, read_yaml
from zoosim.core.errors import ConfigError, DataError
from zoosim.core.parameters import shown, unknown
from zoosim.logs.checks import Fault, sound_rows
from zoosim.logs.importing.candidates import Listed, read_lists, unavailable
from zoosim.logs.importing.encoding import encoded, numbers, plain, unusable
from zoosim.logs.importing.products import Products, ProductTable
from zoosim.logs.importing.times import read_times
from zoosim.logs.records import RECORDS, faults_within_visits
from zoosim.logs.schema import OWN


class Columns(Strict):
    """Which column of the table holds what."""

    action: str
    propensity: str
    reward: str
    decision_id: str | None = None
    time: str | None = None
    user_id: str | None = None
    position: str | None = None
    candidates: str | None = None
    unavailable: str | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> "Columns":
        if self.candidates and self.unavailable:
            raise ValueError("got candidates and unavailable, expected one of them: each follows from the other")
        return self

    @property
    def listed(self) -> str | None:
        """The column that lists products, those that could be shown or those that could not."""
        return self.candidates or self.unavailable


class LogMapping(Strict):
    """How a table becomes Records."""

    columns: Columns
    features: list[str] = Field(default_factory=list)
    keep: list[str] = Field(default_factory=list)
    actions: Annotated[list[str | int], Field(min_length=1)] | None = None
    products: Products | None = None
    rankings: bool = False
    separator: Annotated[str, Field(min_length=1)] = "|"
    time_zone: str | None = None
    epoch: Literal["s", "ms", "us"] | None = None
    policy: str = "logged"

    @model_validator(mode="after")
    def _visits_are_told(self) -> "LogMapping":
        if self.rankings and not (self.columns.decision_id and self.columns.position):
            raise ValueError("rankings: got no column of decision_id or position, expected both in columns")
        return self


class Imported(NamedTuple):
    """`records`; `products`, a row a candidate in the order of the actions: `product_id`, `product` (features) and,
    where it is known, `category`; and how many rows were `skipped`, by reason.
    """

    records: pl.DataFrame
    products: pl.DataFrame
    skipped: dict[str, int]


def read_mapping(path: str | os.PathLike[str]) -> LogMapping:
    """Read a mapping file, whose paths are relative to it; raises `ConfigError`."""
    mapping: LogMapping = build(LogMapping, read_yaml(Path(path)), str(path))
    if mapping.products is None or not isinstance(mapping.products.table, str):
        return mapping
    table = Path(path).parent / mapping.products.table
    return mapping.model_copy(update={"products": mapping.products.model_copy(update={"table": table})})


def to_records(table: pl.DataFrame, mapping: LogMapping, *, source: str = "table", skip_bad: bool = False) -> Imported:
    """Return a table as Records, with what is known of the products.

    Raises `DataError` for a column that is missing, and for a bad row, naming row and column, unless `skip_bad`.
    """
    _check_names(table, mapping, source)
    table = _plain(table, mapping, source)
    described = ProductTable(mapping.products) if mapping.products is not None else None
    named = {own: theirs for own, theirs in mapping.columns.model_dump().items() if theirs}
    listed = read_lists(table[mapping.columns.listed], mapping.separator) if mapping.columns.listed else None
    names = _action_names(table[named["action"]], mapping, listed, described)
    products = described.describe(names) if described is not None else _nameless(names)
    frame = pl.DataFrame(list(_columns(table, mapping, named, names, source)))
    wanted = _wanted_action(names, described)
    found = list(_lost(table, frame, mapping, wanted))
    if listed is not None:
        column, wrong = _candidates(listed, names, frame, mapping, wanted)
        frame, found = frame.with_columns(column), [*found, *wrong]
    space = ActionSpace.RANKINGS if mapping.rankings else ActionSpace.PRODUCTS
    records = RECORDS[space](frame.drop("user", strict=False), source, len(names))
    found += records.faults()
    if mapping.rankings:
        features = table.select(mapping.features).with_columns(frame["decision_id"])
        found += faults_within_visits(features, mapping.features)
    found = [fault._replace(column=named.get(fault.column, fault.column)) for fault in found]
    sound, skipped = sound_rows(frame, found, source, skip_bad, table=table, together=records.visit_column)
    return Imported(_complete(sound, mapping), products, skipped)


def _plain(table: pl.DataFrame, mapping: LogMapping, source: str) -> pl.DataFrame:
    """Return the table with what its columns hold as numbers, times and words; raises `DataError` for other columns."""
    columns = mapping.columns
    ids = [name for name in (columns.action, columns.user_id, columns.decision_id, columns.listed) if name]
    told = [name for name in columns.model_dump().values() if name]
    return plain(table, [*told, *mapping.features, *mapping.keep], source, ids=ids, lists=columns.listed)


def _nameless(names: list[str]) -> pl.DataFrame:
    """Return products of which nothing is known: each is a category of its own."""
    nothing = pl.Series([[]] * len(names), dtype=pl.List(pl.Float64))
    return pl.DataFrame({"product_id": names, "product": nothing, "category": names})


def _wanted_action(names: Sequence[str], described: ProductTable | None) -> str:
    listed = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
    known = "" if described is None else f" and a row of {described.source}, column {described.told.id}"
    return f"one of the {len(names)} candidates ({listed}){known}"


def _candidates(
    listed: Listed, names: Sequence[str], frame: pl.DataFrame, mapping: LogMapping, wanted: str
) -> tuple[pl.Series, list[Fault]]:
    """Return the column `unavailable`, and the rows whose lists are wrong or lack the logged action."""
    own = "candidates" if mapping.columns.candidates else "unavailable"
    column, strange, empty = unavailable(listed, names, frame.height, are_candidates=own == "candidates")
    found = [Fault(own, f"a list of products, each {wanted}", strange), Fault(own, "at least one product", empty)]
    if own == "candidates":
        gone = pl.DataFrame([column, frame["action"]]).select(pl.col("unavailable").list.contains(pl.col("action")))
        outside = (gone.to_series().fill_null(False) & frame["action"].is_not_null()).to_numpy()
        found.append(Fault("action", f"one of the row's {mapping.columns.candidates}", outside))
    return column, found


def _check_names(table: pl.DataFrame, mapping: LogMapping, source: str) -> None:
    actions = [str(name) for name in mapping.actions or ()]
    described = mapping.products.features if mapping.products is not None else []
    parts = {"actions": actions, "keep": mapping.keep, "features": mapping.features, "products.features": described}
    for part, given in parts.items():
        twice = [name for number, name in enumerate(given) if name in given[:number]]
        if twice:
            raise ConfigError(f"mapping.{part}: got {shown(twice[0])} twice, expected each once")
    own = [name for name in mapping.keep if name in OWN]
    if own:
        raise ConfigError(f"mapping.keep: got {shown(own[0])}, a name that Records use themselves; rename the column")
    wanted = [name for name in mapping.columns.model_dump().values() if name]
    for name in [*wanted, *mapping.features, *mapping.keep]:
        if name not in table.columns:
            raise DataError(f"{source}: {unknown('no column', name, table.columns)}; correct the mapping")
    if not table.height:
        raise DataError(f"{source}: got no rows, expected at least one interaction")


def _action_names(
    column: pl.Series, mapping: LogMapping, listed: Listed | None, described: ProductTable | None
) -> list[str]:
    """Return the candidates' names: those of the mapping, else those shown or listed that the products' table knows.

    Numbers come by size, words by letters.
    """
    if mapping.actions is not None:
        return [str(name) for name in mapping.actions]
    found = set(column.drop_nulls().unique().cast(pl.String)) | (listed.all_names() if listed else set())
    seen = pl.Series(sorted(found & described.known if described is not None else found), dtype=pl.String)
    numbers = seen.cast(pl.Int64, strict=False)
    return list(seen if numbers.null_count() else seen.gather(numbers.arg_sort()))


def _columns(
    table: pl.DataFrame, mapping: LogMapping, named: dict[str, str], names: Sequence[str], source: str
) -> Iterator[pl.Series]:
    """Yield the columns of the Records; what cannot be read is null."""
    index = pl.DataFrame({"name": pl.Series(names, dtype=pl.String), "action": np.arange(len(names))})
    shown_names = table.select(pl.col(named["action"]).cast(pl.String).alias("name"))
    yield shown_names.join(index, on="name", how="left", maintain_order="left")["action"]
    for own in ("propensity", "reward"):
        yield numbers(table[named[own]]).alias(own)
    if "position" in named:
        yield table[named["position"]].cast(pl.Int32, strict=False).alias("position")
    for own in ("decision_id", "user_id"):
        if own in named:
            column = table[named[own]]
            keep = own == "user_id" and column.dtype.is_integer()
            yield (column if keep else column.cast(pl.String)).alias(own)
    if "time" in named:
        yield read_times(table[named["time"]], mapping.time_zone, mapping.epoch, source).alias("time")
    for name in mapping.keep:
        yield numbers(table[name])
    if mapping.features:
        parts = np.hstack([encoded(table[name], source) for name in mapping.features])
        yield pl.Series("user", parts).cast(pl.List(pl.Float64))


def _lost(table: pl.DataFrame, frame: pl.DataFrame, mapping: LogMapping, wanted: str) -> Iterator[Fault]:
    """Yield the rows where a value stands in the table that cannot be read, and where a needed one is missing."""
    expected = {"action": wanted, "time": "a time", "position": "a number"}
    for own, theirs in mapping.columns.model_dump(exclude={"candidates", "unavailable"}, exclude_none=True).items():
        unread = (frame[own].is_null() & table[theirs].is_not_null()).to_numpy()
        yield Fault(own, expected.get(own, "a number"), unread)
        yield Fault(own, "a value", table[theirs].is_null().to_numpy())
    for name in mapping.features:
        yield Fault(name, *unusable(table[name]))
    for name in mapping.keep:
        yield Fault(name, "a number", (frame[name].is_null() & table[name].is_not_null()).to_numpy())


def _complete(frame: pl.DataFrame, mapping: LogMapping) -> pl.DataFrame:
    """Fill in what Records have and the table does not: ids by the row, the position 0."""
    n = frame.height
    given: dict[str, Any] = {
        "decision_id": pl.Series([f"row-{row}" for row in range(n)], dtype=pl.String),
        "position": pl.Series(np.zeros(n, np.int32)),
        "user": pl.Series([[]] * n, dtype=pl.List(pl.Float64)),
        "policy": pl.Series([mapping.policy] * n),
    }
    return frame.with_columns(series.alias(name) for name, series in given.items() if name not in frame.columns)
