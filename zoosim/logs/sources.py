"""Columns of a log on its candidates: where they came from, and how likely each was."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from zoosim.core.blocks import RowArray, StoredRows
from zoosim.core.types import CATALOGUE, REQUEST, BoolArray, Float32Array, IntArray
from zoosim.logs.checks import Fault, bad_probabilities, floats
from zoosim.logs.schema import CANDIDATE_PROPENSITIES, SOURCE, SOURCE_PRODUCTS

SUM_TOLERANCE, OWN_TOLERANCE = 1e-5, 1e-4
"""Largest errors of the sum of a row's distribution, and, as a share of `propensity`, of its entry for the action."""

ROWS_AT_ONCE = 10_000


class CandidateSources(NamedTuple):
    """Sources of the candidates of n visits; arrays are in memory, or read in blocks.

    `names` are the sources that occur, each with its version, and `source (n,)` says which each visit had;
    `propensities (n,)` are the probabilities with which the visit's candidates came from that source. `products (n,)`
    counts the products that could be shown to the visitor, 0 where the log does not say.
    """

    names: tuple[tuple[str, str], ...]
    source: Any
    propensities: Any
    products: Any

    def taken(self, take: Callable[[Any], Any]) -> "CandidateSources":
        """Return the sources of some visits, which `take` returns of each array."""
        return CandidateSources(self.names, take(self.source), take(self.propensities), take(self.products))

    def lists_all(self, visit: int) -> bool:
        """Return whether a visit's candidates are all that could be shown."""
        return self.names[self.source[visit]][0] in (REQUEST, CATALOGUE)


class SourceNumbers:
    """Numbers the sources of `n_rows` rows that are read in blocks, as they come."""

    def __init__(self, n_rows: int) -> None:
        self._of_row = StoredRows((n_rows,), np.int64)
        self._numbers: dict[tuple[str, str], int] = {}

    def add(self, start: int, frame: pl.DataFrame, is_sound: BoolArray) -> None:
        """Take in rows from `start` on, of which those that are not sound have source 0."""
        numbers = np.zeros(frame.height, np.int64)
        sound = np.flatnonzero(is_sound)
        named, of_row = _numbered(frame.filter(is_sound))
        first = [self._numbers.setdefault(name, len(self._numbers)) for name in named]
        numbers[sound] = np.array(first, np.int64)[of_row]
        self._of_row[start : start + frame.height] = numbers

    def with_columns(self, propensities: RowArray, products: RowArray) -> CandidateSources:
        """Return the sources of all rows."""
        return CandidateSources(tuple(self._numbers), self._of_row, propensities, products)


def has_sources(frame: pl.DataFrame) -> bool:
    """Return whether a frame of Records says where candidates came from."""
    return set(SOURCE) <= set(frame.columns)


def source_faults(frame: pl.DataFrame) -> Iterator[Fault]:
    """Yield the rows that do not say where their candidates came from, or with which probability, where others do."""
    if has_sources(frame):
        for name in SOURCE:
            yield Fault(name, "a value", frame[name].is_null().to_numpy())
        yield Fault(SOURCE[2], "above 0 and at most 1", bad_probabilities(frame[SOURCE[2]]))
        if SOURCE_PRODUCTS in frame.columns:
            yield Fault(SOURCE_PRODUCTS, "0 or more", (frame[SOURCE_PRODUCTS] < 0).fill_null(False).to_numpy())


def sources_of(visits: pl.DataFrame) -> CandidateSources | None:
    """Return where candidates came from; None where the log does not say."""
    if not has_sources(visits):
        return None
    names, source = _numbered(visits)
    products = np.zeros(visits.height, np.int64)
    if SOURCE_PRODUCTS in visits.columns:
        products = visits[SOURCE_PRODUCTS].fill_null(0).cast(pl.Int64).to_numpy()
    return CandidateSources(names, source, floats(visits[SOURCE[2]]), products)


def _numbered(visits: pl.DataFrame) -> tuple[tuple[tuple[str, str], ...], IntArray]:
    """Return the sources with their versions, in the order in which they come, and the number of each row's `(n,)`."""
    pairs = visits.select(pl.col(name).cast(pl.String) for name in SOURCE[:2])
    distinct = pairs.unique(maintain_order=True).with_row_index("number")
    numbers = pairs.join(distinct, on=SOURCE[:2], how="left", maintain_order="left")["number"]
    return tuple(distinct.select(SOURCE[:2]).iter_rows()), numbers.cast(pl.Int64).to_numpy()


def distribution_faults(frame: pl.DataFrame) -> Iterator[Fault]:
    """Yield the rows whose column of candidates' propensities is no distribution, or speaks against `propensity`."""
    if CANDIDATE_PROPENSITIES not in frame.columns:
        return
    lists = frame["candidates"]
    column = frame[CANDIDATE_PROPENSITIES]
    is_other = (column.list.len() != lists.list.len()).fill_null(True)
    yield Fault(CANDIDATE_PROPENSITIES, "one number for each of the row's candidates", is_other.to_numpy())
    twice = (lists.list.n_unique() < lists.list.len()).fill_null(False)
    yield Fault("candidates", "each product once", twice.to_numpy())
    alike = ~is_other.to_numpy()
    is_bad, is_off, differs = np.zeros((3, frame.height), bool)
    for start in range(0, frame.height, ROWS_AT_ONCE):
        rows = start + np.flatnonzero(alike[start : start + ROWS_AT_ONCE])  # a list of another length says nothing
        part = frame.slice(start, ROWS_AT_ONCE).filter(alike[start : start + ROWS_AT_ONCE])
        owner = np.repeat(np.arange(part.height), part["candidates"].list.len())
        values = floats(part[CANDIDATE_PROPENSITIES].list.explode(keep_nulls=False, empty_as_null=False))
        # Not `values < 0.0`, which is false of NaN.
        is_bad[rows] = np.bincount(owner, ~(values >= 0.0), part.height) > 0
        is_off[rows] = ~(np.abs(np.bincount(owner, values, part.height) - 1.0) <= SUM_TOLERANCE)
        if "propensity" in frame.columns:
            products = part["candidates"].list.explode(keep_nulls=False, empty_as_null=False).to_numpy()
            is_own = products == part["action"].to_numpy()[owner]
            own = np.bincount(owner[is_own], values[is_own], part.height)
            logged = floats(part["propensity"])
            differs[rows] = np.abs(own - logged) > OWN_TOLERANCE * logged
    yield Fault(CANDIDATE_PROPENSITIES, "numbers from 0", is_bad)
    yield Fault(CANDIDATE_PROPENSITIES, "probabilities that add up to 1", is_off)
    yield Fault(CANDIDATE_PROPENSITIES, "the row's propensity for its action", differs)


def candidate_propensities(visits: pl.DataFrame) -> Float32Array | None:
    """Return the propensities of all candidates, one row after another `(c,)`; None where the log does not say."""
    if CANDIDATE_PROPENSITIES not in visits.columns:
        return None
    flat = visits[CANDIDATE_PROPENSITIES].list.explode(keep_nulls=False, empty_as_null=False)
    return np.asarray(flat.cast(pl.Float32).to_numpy())
