"""Records of the decisions of each action space: which checks they pass, and which arrays they become."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import polars as pl

from zoosim.action_spaces.registry import action_space_names, find_action_space, spaces_with
from zoosim.core.errors import ConfigError, DataError
from zoosim.core.parameters import shown, unknown
from zoosim.core.types import IntArray
from zoosim.logs.checks import (
    Fault,
    bad_probabilities,
    floats,
    id_faults,
    list_faults,
    missing_faults,
    reward_faults,
    time_faults,
)
from zoosim.logs.lives import life_faults
from zoosim.logs.schema import A_MAX, LARGEST_DENSITY, LEAST_DENSITY, LISTED, MARGINAL, OWN_MARGINAL, REQUIRED
from zoosim.logs.sources import distribution_faults, source_faults
from zoosim.policies.boosts.base import BOX

LEAST_PROPENSITY = 1e-30

MOST_ACTIONS = 1_000_000
BOX_EDGE = 1.0 + 1e-6
"""Boosts beyond a_max by no more are at the edge of the box: single precision writes 0.1 as 0.1000000015."""

IN_EVERY_ROW = ("user_id", "user", *LISTED)
"""The columns that are the same in all rows of a visit."""


class Records(ABC):
    """A frame of Records whose columns are of the right types (`check_columns`), in one action space.

    `n_actions` is the number of products, by default one more than the highest index in the frame; `a_max` is the
    largest size of a boost, by default what the frame says.
    """

    visit_column: ClassVar[str | None] = None
    """Rows that share what this column holds are one visit; None where each row is a visit."""

    required: ClassVar[tuple[str, ...]] = (*REQUIRED, "propensity")
    """The columns that a log cannot do without."""

    chooses_lists: ClassVar[bool] = False
    """True if an action is a list of numbers instead of a whole number."""

    def __init__(
        self, frame: pl.DataFrame, source: str, n_actions: int | None = None, a_max: float | None = None
    ) -> None:
        """Take over a frame; raises `DataError` where a column that the action space needs is missing or wrong."""
        self.frame = frame
        self.source = source
        self.n_actions = 0 if self.chooses_lists else n_actions or seen_actions(frame)
        self.a_max = a_max

    def kept(self, columns: Sequence[str]) -> list[str]:
        """Return which columns of numbers to keep where `columns` are asked for."""
        return list(columns)

    def faults(self) -> Iterator[Fault]:
        """Yield what is wrong in the rows."""
        yield from missing_faults(self.frame)
        yield from time_faults(self.frame)
        yield from self._propensity_faults()
        yield from reward_faults(self.frame)
        yield from life_faults(self.frame)
        yield from source_faults(self.frame)
        yield from self._action_faults()
        if "user" in self.frame.columns:
            yield from list_faults(self.frame, "user")
        yield from self._visit_faults()

    @abstractmethod
    def _propensity_faults(self) -> Iterator[Fault]: ...

    @abstractmethod
    def _action_faults(self) -> Iterator[Fault]: ...

    def _visit_faults(self) -> Iterator[Fault]:
        yield from id_faults(self.frame)

    def by_visit(self, rows: pl.DataFrame) -> tuple[pl.DataFrame, tuple[int, ...]]:
        """Return sound rows in the order of visits and positions, and the shape of a column: `(n,)` or `(n, L)`."""
        return rows, (rows.height,)

    @abstractmethod
    def decisions(self, rows: pl.DataFrame, shape: tuple[int, ...]) -> Mapping[str, Any]:
        """Return the actions and what else only logs of this action space have, by field of `Log`."""


class ProductRecords(Records):
    """One row per visit; its action is the index of a product. The log may not know how likely it was."""

    required: ClassVar[tuple[str, ...]] = REQUIRED

    def _propensity_faults(self) -> Iterator[Fault]:
        if "propensity" not in self.frame.columns:
            return
        propensities = self.frame["propensity"]
        yield Fault("propensity", "above 0 and at most 1", bad_probabilities(propensities))
        tiny = floats(propensities) < LEAST_PROPENSITY
        yield Fault("propensity", f"at least {LEAST_PROPENSITY:g}, since what is less likely is never drawn", tiny)

    def _action_faults(self) -> Iterator[Fault]:
        frame = self.frame
        actions = floats(frame["action"])
        yield Fault("action", f"0 to {self.n_actions - 1}", ~((actions >= 0) & (actions < self.n_actions)))
        for name in LISTED:
            if name in frame.columns:
                yield from _candidate_faults(frame, name, self.n_actions)
        if self.visit_column is None:
            yield from distribution_faults(frame)
        if OWN_MARGINAL in frame.columns:
            bad = bad_probabilities(frame[OWN_MARGINAL]) | frame[OWN_MARGINAL].is_null().to_numpy()
            yield Fault(OWN_MARGINAL, "above 0 and at most 1", bad)

    def decisions(self, rows: pl.DataFrame, shape: tuple[int, ...]) -> Mapping[str, Any]:
        """Return the indices of the products and, where the log knows them, their positions."""
        fields: dict[str, Any] = {"actions": _whole(rows["action"])}
        if OWN_MARGINAL in rows.columns:
            fields["marginals"] = floats(rows[OWN_MARGINAL])
        if "position" in rows.columns:
            fields["positions"] = _whole(rows["position"])
        return fields


class RankingRecords(ProductRecords):
    """One row per position; rows of one visit share their `decision_id`, and count their `position` from 0 or 1."""

    visit_column = "decision_id"
    required = Records.required

    def __init__(
        self, frame: pl.DataFrame, source: str, n_actions: int | None = None, a_max: float | None = None
    ) -> None:
        """Take over a frame; raises `DataError` where `decision_id` or `position` is missing."""
        for name in ("decision_id", "position"):
            if name not in frame.columns or frame[name].null_count() == frame.height:
                got = f"column {name} is missing" if name not in frame.columns else f"column {name} holds nothing"
                raise DataError(f"{source}: {got}; rows of a ranking share their decision_id and differ in position")
        super().__init__(frame, source, n_actions)

    def kept(self, columns: Sequence[str]) -> list[str]:
        """Return `columns`, and the marginal probabilities that belong to them or to the log's own."""
        marginals = [MARGINAL + name for name in ("propensity", *columns)]
        return [*columns, *(name for name in marginals if name in self.frame.columns)]

    def _visit_faults(self) -> Iterator[Fault]:
        frame = self.frame
        yield from _position_faults(frame)
        pairs = frame.select(pl.struct("decision_id", "action")).to_series()
        again = pairs.is_duplicated() & ~pairs.is_first_distinct()
        yield Fault("action", "one that the visit does not show at another position", again.to_numpy())
        yield from faults_within_visits(frame, [name for name in IN_EVERY_ROW if name in frame.columns])

    def by_visit(self, rows: pl.DataFrame) -> tuple[pl.DataFrame, tuple[int, ...]]:
        """Sort rows by the first row of their visit and by position."""
        first_row = pl.col("_row").first().over("decision_id").alias("_visit")
        ordered = rows.with_row_index("_row").with_columns(first_row).sort("_visit", "position")
        n_positions = int((ordered["_visit"] == ordered["_visit"][0]).sum())
        return ordered, (ordered.height // n_positions, n_positions)

    def decisions(self, rows: pl.DataFrame, shape: tuple[int, ...]) -> Mapping[str, Any]:
        """Return the indices of the products and, where the log knows them, their marginal probabilities."""
        fields: dict[str, Any] = {"actions": _whole(rows["action"]).reshape(shape)}
        if OWN_MARGINAL in rows.columns:
            fields["marginals"] = floats(rows[OWN_MARGINAL]).reshape(shape)
        return fields


class BoostRecords(Records):
    """One row per visit; its action is a list of boosts, its propensity their density where the log knows it."""

    required = REQUIRED
    chooses_lists = True

    def __init__(
        self, frame: pl.DataFrame, source: str, n_actions: int | None = None, a_max: float | None = None
    ) -> None:
        """Take over a frame; raises `DataError` where its column `a_max` is no box."""
        super().__init__(frame, source, n_actions, a_max)
        if a_max is None:
            self.a_max = self._logged_box()

    def _logged_box(self) -> float | None:
        """Return what the log says of its box, if anything."""
        if A_MAX not in self.frame.columns:
            return None
        values = self.frame[A_MAX].unique()
        a_max = values[0] if len(values) == 1 and values.dtype.is_numeric() else None
        if a_max is None or not BOX[0] <= a_max <= BOX[1]:
            expected = f"one number from {BOX[0]:g} to {BOX[1]:g}"
            raise DataError(f"{self.source}: column {A_MAX}: got {shown(values.to_list())}, expected {expected}")
        return float(a_max)

    def _propensity_faults(self) -> Iterator[Fault]:
        if "propensity" not in self.frame.columns:
            return
        densities = self.frame["propensity"].cast(pl.Float64)
        bad = ~densities.is_between(LEAST_DENSITY, LARGEST_DENSITY).fill_null(False)
        yield Fault("propensity", f"a density from {LEAST_DENSITY:g} to {LARGEST_DENSITY:g}", bad.to_numpy())

    def _action_faults(self) -> Iterator[Fault]:
        yield from list_faults(self.frame, "action")
        if self.a_max is None:
            return
        too_large = pl.element().cast(pl.Float64).abs() > BOX_EDGE * self.a_max
        outside = self.frame["action"].list.eval(too_large).list.any().fill_null(False)
        yield Fault("action", f"boosts from {-self.a_max:g} to {self.a_max:g} (a_max)", outside.to_numpy())

    def decisions(self, rows: pl.DataFrame, shape: tuple[int, ...]) -> Mapping[str, Any]:
        """Return the boosts and their box, by default as large as the largest boost; raises `DataError`."""
        boosts = floats(rows["action"].list.explode()).reshape(rows.height, -1)
        if not boosts.size:
            raise DataError(f"{self.source}: column action: got empty lists alone, expected a number for each boost")
        a_max = float(np.abs(boosts).max()) if self.a_max is None else self.a_max
        if not BOX[0] <= a_max <= BOX[1]:
            got = f"got boosts of {a_max:g} in size at most, expected the largest from {BOX[0]:g} to {BOX[1]:g}"
            raise DataError(f"{self.source}: column action: {got}; name the box (a_max), or scale boosts")
        return {"actions": np.clip(boosts, -a_max, a_max), "a_max": a_max}


def records_of(action_space: str) -> type[Records]:
    """Return the class that reads the decisions of an action space.

    Raises:
        ConfigError: there is no such action space, or logs do not hold its decisions.
    """
    is_known = action_space in action_space_names()
    records: type[Records] | None = find_action_space(action_space).records if is_known else None
    if records is None:
        raise ConfigError(
            unknown("action_space: unknown", f"{action_space}", [space.name for space in spaces_with("records")])
        )
    return records


def _candidate_faults(frame: pl.DataFrame, name: str, n_actions: int) -> Iterator[Fault]:
    """Yield the rows whose list of candidates, or of what is none, holds no products, or speaks against the action."""
    lists = frame[name]
    products = lists.list.explode(keep_nulls=False, empty_as_null=False)
    unknown = np.zeros(frame.height, bool)
    if products.null_count() or not products.is_between(0, n_actions - 1).all():  # which rows, is slow to find out
        outside = pl.element().is_null() | (pl.element() < 0) | (pl.element() >= n_actions)
        unknown = frame.select(pl.col(name).list.eval(outside).list.any().fill_null(False)).to_series().to_numpy()
    yield Fault(name, f"actions from 0 to {n_actions - 1}", unknown)
    is_listed = frame.select(pl.col(name).list.contains(pl.col("action"))).to_series()
    if name == "candidates":
        yield Fault("action", "one of the row's candidates", (~is_listed).fill_null(False).to_numpy())
    else:
        expected = "one of the row's candidates (it is listed as unavailable)"
        yield Fault("action", expected, is_listed.fill_null(False).to_numpy())


def _position_faults(frame: pl.DataFrame) -> Iterator[Fault]:
    """Yield the rows that are no position of a ranking as long as most."""
    yield misplaced_positions(frame)
    usual = int(str(frame.group_by("decision_id").len()["len"].mode().max()))
    odd = frame.select(pl.len().over("decision_id") != usual).to_series()
    yield Fault("decision_id", f"one that {usual} rows share, as in most visits", odd.to_numpy())


def misplaced_positions(frame: pl.DataFrame) -> Fault:
    """Return the rows whose position is not the next one of their visit, which begins at 0 or 1 as most visits do."""
    first = frame.group_by("decision_id").agg(pl.col("position").min())["position"].drop_nulls()
    base = int(np.clip(float(str(first.mode().min() or 0)), 0, 1)) if len(first) else 0
    ordered = frame.select("decision_id", "position").with_row_index("row")
    ordered = ordered.sort("decision_id", "position", maintain_order=True)
    expected = (pl.col("position").shift(1).over("decision_id") + 1).fill_null(base)
    misplaced = ordered.with_columns(bad=(pl.col("position") != expected).fill_null(False)).sort("row")["bad"]
    return Fault("position", f"{base}, {base + 1}, ... in each visit, each once and without gaps", misplaced.to_numpy())


def faults_within_visits(frame: pl.DataFrame, names: Sequence[str]) -> Iterator[Fault]:
    """Yield the rows of rankings where a column of `names` differs from the first row of the visit."""
    for name in names:
        differs = pl.col(name).ne_missing(pl.col(name).first().over("decision_id"))
        yield Fault(name, "the same in all rows of a visit", frame.select(differs).to_series().to_numpy())


def seen_actions(frame: pl.DataFrame) -> int:
    """Return one more than the highest action, below `MOST_ACTIONS`, that a log shows or lists."""
    columns = [frame["action"], *(frame[name].list.explode() for name in LISTED if name in frame.columns)]
    whole = [column.cast(pl.Int64, strict=False) for column in columns]
    # A single mistyped index must not make a million products: it is a bad row then, and named.
    highest = [column.filter(column < MOST_ACTIONS).max() for column in whole]
    return max([int(str(action)) for action in highest if action is not None] + [0]) + 1


def _whole(column: pl.Series) -> IntArray:
    return column.cast(pl.Int64).to_numpy()
