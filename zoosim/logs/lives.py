"""Logs of visitors who come back: which visitor each row is of, and where in the visitor's life it stands."""

from collections.abc import Iterator
from typing import NamedTuple

import polars as pl

from zoosim.core.types import BoolArray, IntArray
from zoosim.logs.checks import Fault
from zoosim.logs.schema import LIFE


class Lives(NamedTuple):
    """Place of each of n decisions in its visitor's life, each array `(n,)`.

    `visitor` numbers visitors, `visit` the visits of each, and `step` the decisions of each, in order. `ended` is true
    where the visitor then had gone for good, and `censored` where nobody knows, since the world or the log ends there.
    A visitor's return is the sum of the rewards of all rows; it is known where the last one ended.
    """

    visitor: IntArray
    visit: IntArray
    step: IntArray
    ended: BoolArray
    censored: BoolArray


def has_lives(frame: pl.DataFrame) -> bool:
    """Return whether a frame of Records says where in a visitor's life each row stands."""
    return set(LIFE) <= set(frame.columns)


def life_faults(frame: pl.DataFrame) -> Iterator[Fault]:
    """Yield the rows that stand nowhere in a visitor's life."""
    if not has_lives(frame):
        return
    for name in LIFE:
        yield Fault(name, "a value", frame[name].is_null().to_numpy())
    for name in ("visit", "step"):
        yield Fault(name, "a number from 0", (frame[name] < 0).fill_null(False).to_numpy())
    places = frame.select(pl.struct("visitor", "visit", "step", *({"position"} & set(frame.columns)))).to_series()
    again = places.is_duplicated() & ~places.is_first_distinct()
    yield Fault("step", "one that no earlier row of the visit has", again.to_numpy())
    yield Fault("censored", "false where the visitor has ended", (frame["ended"] & frame["censored"]).to_numpy())
    is_last_visit = pl.col("visit") == pl.col("visit").max().over("visitor")
    is_last = is_last_visit & (pl.col("step") == pl.col("step").max().over("visitor", "visit"))
    goes_on = frame.select((pl.col("ended") | pl.col("censored")) & ~is_last).to_series().fill_null(False)
    yield Fault("ended", "true, as censored, in a visitor's last row alone", goes_on.to_numpy())


def lives_of(visits: pl.DataFrame) -> Lives | None:
    """Return where in a visitor's life each visit of a log stands; None where each visitor came for one decision."""
    if not has_lives(visits) or (visits["ended"].all() and visits["visitor"].n_unique() == visits.height):
        return None
    return Lives(
        visits["visitor"].rank("dense").cast(pl.Int64).to_numpy(),
        visits["visit"].cast(pl.Int64).to_numpy(),
        visits["step"].cast(pl.Int64).to_numpy(),
        visits["ended"].to_numpy(),
        visits["censored"].to_numpy(),
    )
