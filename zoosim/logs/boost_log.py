"""The log of continuous boosts that off-policy evaluation reads, as arrays."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl

from zoosim.core.checks import check_number
from zoosim.core.errors import DataError
from zoosim.core.parameters import shown
from zoosim.core.types import FloatArray, IntArray
from zoosim.logs.checks import (
    Fault,
    check_columns,
    check_kept,
    id_faults,
    list_faults,
    missing_faults,
    reward_faults,
    sound_rows,
)
from zoosim.logs.reading import floats, read_records, to_log, with_lists
from zoosim.policies.boosts.base import BOX

LEAST_DENSITY, LARGEST_DENSITY = 1e-60, 1e60
"""Beyond these, sums of fourth powers of weights overflow, or come to 0."""
A_MAX = "a_max"
EDGE = 1.0 + 1e-6
"""Boosts beyond a_max by no more are at the edge of the box: single precision writes 0.1 as 0.1000000015."""


@dataclass(frozen=True)
class BoostLog:
    """`n` checked visits whose action is a vector of boosts; `read_boosts` and `to_boosts` make one.

    `actions (n, d)` lie in the box [-`a_max`, `a_max`]^d, `densities (n,)` are above 0 there; `rewards (n,)`. The rest
    is as in `Log`; `columns` may hold target densities.
    """

    actions: FloatArray
    densities: FloatArray
    rewards: FloatArray
    features: FloatArray
    a_max: float
    user_ids: IntArray | None = None
    times: IntArray | None = None
    columns: Mapping[str, FloatArray] = field(default_factory=dict)
    skipped: Mapping[str, int] = field(default_factory=dict)
    source: str = "log"

    def __len__(self) -> int:
        return len(self.actions)

    @property
    def earned(self) -> FloatArray:
        """Return what each visit earned `(n,)`: its reward."""
        return self.rewards


def read_boosts(
    path: str | os.PathLike[str], *, skip_bad: bool = False, columns: Sequence[str] = (), a_max: float | None = None
) -> BoostLog:
    """Read a Parquet file of Records whose actions are lists of numbers; as `to_boosts`."""
    frame = read_records(Path(path), columns, optional=[A_MAX])
    return to_boosts(frame, source=str(path), skip_bad=skip_bad, columns=columns, a_max=a_max)


def to_boosts(
    frame: pl.DataFrame,
    *,
    source: str = "log",
    skip_bad: bool = False,
    columns: Sequence[str] = (),
    a_max: float | None = None,
) -> BoostLog:
    """Check a frame with the columns of a Record and return it as a `BoostLog`.

    `action` is a list of d numbers in [-`a_max`, `a_max`], by default what the column `a_max` says, or the largest
    boost of the log where there is none; `propensity` is its density, above 0. Raises `DataError` naming row and
    column of the first bad row, unless `skip_bad`.
    """
    if a_max is not None:
        check_number(A_MAX, a_max, *BOX)
    frame = with_lists(frame)
    check_columns(frame, source, boosts=True)
    check_kept(frame, columns, source)
    a_max = _told(frame, source) if a_max is None else a_max
    frame, skipped = sound_rows(frame, _faults(frame, a_max), source, skip_bad)
    actions = np.ascontiguousarray(frame["action"].list.explode().cast(pl.Float64).to_numpy().reshape(frame.height, -1))
    rest = frame.with_columns(action=pl.lit(0), propensity=pl.lit(1.0)).drop("unavailable", "position", strict=False)
    known = to_log(rest, source=source)
    if not actions.size:
        raise DataError(f"{source}: column action: got empty lists alone, expected a number for each boost")
    box = float(np.abs(actions).max()) if a_max is None else a_max
    if not BOX[0] <= box <= BOX[1]:
        got = f"got boosts of {box:g} in size at most, expected the largest from {BOX[0]:g} to {BOX[1]:g}"
        raise DataError(f"{source}: column action: {got}; name the box (a_max), or scale boosts")
    return BoostLog(
        actions=np.clip(actions, -box, box),
        densities=floats(frame["propensity"]),
        rewards=known.rewards,
        features=known.features,
        a_max=box,
        user_ids=known.user_ids,
        times=known.times,
        columns={name: floats(frame[name]) for name in columns},
        skipped=skipped,
        source=source,
    )


def _told(frame: pl.DataFrame, source: str) -> float | None:
    """Return what a log says of its box, if anything."""
    if A_MAX not in frame.columns:
        return None
    values = frame[A_MAX].unique()
    a_max = values[0] if len(values) == 1 and values.dtype.is_numeric() else None
    if a_max is None or not BOX[0] <= a_max <= BOX[1]:
        expected = f"one number from {BOX[0]:g} to {BOX[1]:g}"
        raise DataError(f"{source}: column {A_MAX}: got {shown(values.to_list())}, expected {expected}")
    return float(a_max)


def _faults(frame: pl.DataFrame, a_max: float | None) -> Iterator[Fault]:
    yield from missing_faults(frame)
    densities = frame["propensity"].cast(pl.Float64)
    bad = ~densities.is_between(LEAST_DENSITY, LARGEST_DENSITY).fill_null(False)
    yield Fault("propensity", f"a density from {LEAST_DENSITY:g} to {LARGEST_DENSITY:g}", bad.to_numpy())
    yield from reward_faults(frame)
    yield from id_faults(frame)
    yield from list_faults(frame, "action")
    if a_max is not None:
        outside = (
            frame["action"].list.eval(pl.element().cast(pl.Float64).abs() > EDGE * a_max).list.any().fill_null(False)
        )
        yield Fault("action", f"boosts from {-a_max:g} to {a_max:g} (a_max)", outside.to_numpy())
    if "user" in frame.columns:
        yield from list_faults(frame, "user")
