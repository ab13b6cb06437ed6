"""What of a visitor's values a schema was not fitted to, by kind, and the line that says so."""

from typing import Any

import polars as pl
import pytest

from zoosim.schema.column import DeviationKind
from zoosim.schema.deviations import describe, deviations
from zoosim.schema.encoder import Encoder, fit_encoder

TABLE = pl.DataFrame(
    {
        "country": ["de", "fr", "it", "de"] * 50,
        "age": [float(18 + number % 63) for number in range(200)],
        "income": [None if number % 4 == 0 else float(number) for number in range(200)],
        "member": ["yes", "no"] * 100,
        "city": [f"town {number}" for number in range(200)],
        "at": ["2024-01-01T12:00:00", "2024-01-02T13:00:00"] * 100,
        "text": [[0.5, float(number % 7)] for number in range(200)],
    }
)
TYPES = {"country": "category", "age": "number", "income": "number", "member": "yes/no", "city": "category"}
FITTING: dict[str, Any] = {
    "country": "fr",
    "age": 33,
    "income": None,
    "member": True,
    "city": "town 3",
    "at": "2025-05-05T05:05:00",
    "text": [1, 2],
}


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return fit_encoder(TABLE, {**TYPES, "at": "time", "text": "vector"}, "table")


def found(encoder: Encoder, values: dict[str, Any], **options: Any) -> list[tuple[str, DeviationKind]]:
    reading = encoder.read(values)
    return [(each.column, each.kind) for each in deviations(reading, reading.unexpressed(), **options)]


def test_values_like_those_of_the_fit_do_not_deviate(encoder: Encoder) -> None:
    assert found(encoder, FITTING) == []
    # Half of the range beyond its end is near; of a column of which most levels share features none is new.
    assert found(encoder, {**FITTING, "age": 110.0, "city": "no town"}) == []


@pytest.mark.parametrize(
    ("column", "value", "kind", "line"),
    [
        ("countri", "de", DeviationKind.UNKNOWN_COLUMN, "countri: is no column of the model; did you mean country?"),
        ("Country ", "de", DeviationKind.UNKNOWN_COLUMN, "Country : is no column of the model; did you mean country?"),
        ("xyz", 1, DeviationKind.UNKNOWN_COLUMN, "xyz: is no column of the model, which has country, age, income, "),
        ("\x00" * 9, 1, DeviationKind.UNKNOWN_COLUMN, r"'\x00\x00\x00\x00\x00\x00\x00\x00\x00': is no column"),
        (
            "country",
            "DE",
            DeviationKind.NEW_LEVEL,
            "country: got 'DE', expected one of 'de', 'fr', 'it'; did you mean 'de'",
        ),
        ("country", ["de"], DeviationKind.OTHER_TYPE, "country: got ['de'], expected one of 'de', 'fr', 'it'"),
        ("age", 800, DeviationKind.OUT_OF_RANGE, "age: got 800, expected a number from 18 to 80"),
        ("age", "old", DeviationKind.OTHER_TYPE, "age: got 'old', expected a number from 18 to 80"),
        ("member", 7, DeviationKind.OTHER_TYPE, "member: got 7, expected true or false"),
        ("at", "noon", DeviationKind.OTHER_TYPE, "at: got 'noon', expected a time"),
        ("text", [1.0], DeviationKind.OTHER_TYPE, "text: got [1.0], expected a list of 2 numbers"),
        ("age", None, DeviationKind.MISSING, "age: got null, expected a number from 18 to 80"),
        ("country", " n/a", DeviationKind.MISSING, "country: got ' n/a', expected one of 'de', 'fr', 'it'"),
    ],
)
def test_each_kind_is_told(encoder: Encoder, column: str, value: Any, kind: DeviationKind, line: str) -> None:
    values = {**FITTING, column: value}
    reading = encoder.read(values)
    (deviation,) = deviations(reading, reading.unexpressed())
    assert deviation[:2] == (column, kind)
    assert describe(deviation, encoder).startswith(line)


def test_a_column_that_is_left_out_deviates_and_null_does_where_no_value_was_missing(encoder: Encoder) -> None:
    values = {name: value for name, value in FITTING.items() if name not in ("income", "member")}
    assert found(encoder, values) == [("income", DeviationKind.MISSING), ("member", DeviationKind.MISSING)]
    assert found(encoder, values, is_whole=False) == []
    left_out = next(deviations(encoder.read(values), {}))
    line = "income: was left out, expected a number from 1 to 199; send null where nobody knows it"
    assert describe(left_out, encoder) == line
