"""Values by column that a fitted schema was not made for: columns and levels it does not know, other types, ranges."""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from zoosim.core.parameters import closest, shown
from zoosim.schema.column import DeviationKind, FittedColumn
from zoosim.schema.encoder import Encoder, Reading
from zoosim.schema.values import BLANK, MISSING

LONGEST_NAME = 64
"""Characters of a name up to which the most similar column is looked for, which takes the square of them."""

MOST_LISTED = 10
"""Columns that are listed where none is similar."""

LEFT_OUT = object()
"""Stands for the value of a column that was not given at all."""


class Deviation(NamedTuple):
    """A value that a schema was not made for: its `column`, the `kind` of deviation, and what came, `value`."""

    column: str
    kind: DeviationKind
    value: Any


def deviations(reading: Reading, unexpressed: Mapping[str, Any], *, is_whole: bool = True) -> Iterator[Deviation]:
    """Yield what of a visitor or a product an encoder was not fitted to.

    A level without a feature of its own deviates where nearly all levels of the fit had one; numbers deviate from where
    they lie half of the range beyond it.

    Args:
        reading: The values by column, as the encoder reads them.
        unexpressed: Those of them that its features do not say, as its `unexpressed` returns.
        is_whole: Whether each column must be given, null where nobody knows its value.
    """
    columns = reading.encoder.by_name
    for name, value in unexpressed.items():
        column = columns.get(name)
        kind = DeviationKind.UNKNOWN_COLUMN if column is None else column.deviation_of(value)
        if kind is not None:
            yield Deviation(name, kind, value)
    for column, _ in reading.one_by_one:  # the others are given
        value = reading.values.get(column.name, LEFT_OUT)
        if value is LEFT_OUT:
            if is_whole:
                yield Deviation(column.name, DeviationKind.MISSING, value)
        elif not column.missing and (value is None or (type(value) is str and value.strip(BLANK) in MISSING)):
            yield Deviation(column.name, DeviationKind.MISSING, value)


def describe(deviation: Deviation, encoder: Encoder) -> str:
    """Say in a line what came, and what the encoder expected."""
    column = encoder.by_name.get(deviation.column)
    if column is None:
        return _describe_unknown(deviation.column, tuple(encoder.by_name))
    name = shown_name(deviation.column)
    if deviation.value is LEFT_OUT:
        return f"{name}: was left out, expected {column.expected}; send null where nobody knows it"
    got = "null" if deviation.value is None else shown(deviation.value)
    return f"{name}: got {got}, expected {column.expected}{_near_level(column, deviation.value)}"


def _describe_unknown(name: str, known: tuple[str, ...]) -> str:
    """Say in a line that a model has no column of this name, with the most similar one of those `known`."""
    similar = _most_similar(name, known) if len(name) <= LONGEST_NAME else None
    if similar is not None:
        return f"{shown_name(name)}: is no column of the model; did you mean {shown_name(similar)}?"
    listed = ", ".join(map(shown_name, known[:MOST_LISTED])) + (", ..." if len(known) > MOST_LISTED else "")
    return f"{shown_name(name)}: is no column of the model, which has {listed or 'none'}"


def shown_name(name: str) -> str:
    """Write a column's name in one line: as it is where that can be read, else as Python writes a text."""
    return name if name.isprintable() and 0 < len(name) <= LONGEST_NAME else shown(name)


def _near_level(column: FittedColumn, value: Any) -> str:
    """Say which level is most like a text, if one is."""
    levels = tuple(getattr(column, "levels", ()))
    if not isinstance(value, str) or len(value) > LONGEST_NAME:
        return ""
    similar = _most_similar(value, levels)
    return "" if similar is None else f"; did you mean {shown(similar)}?"


# Kept, as a service is asked with the same mistake a million times, and comparing names takes longer than deciding.
@lru_cache(maxsize=1_000)
def _most_similar(name: str, known: tuple[str, ...]) -> str | None:
    return closest(name, known)
