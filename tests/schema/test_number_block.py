"""Columns of numbers that are encoded together."""

import math

import numpy as np
import polars as pl
import pytest

from zoosim.schema.columns import CategoryColumn
from zoosim.schema.encoder import Encoder
from zoosim.schema.number_block import FEWEST
from zoosim.schema.number_columns import NumberColumn

RNG = np.random.default_rng(5)
NUMBERS = [
    NumberColumn(
        name=f"x{number}",
        missing=number % 3 == 0,
        low=0.5 - number % 2,
        high=7.0 + number,
        center=float(number % 2),
        scale=0.7 + number,
        log=number % 2 == 0,
    )
    for number in range(FEWEST + 3)
]
WIDE = NumberColumn(name="wide", low=-1e200, high=1e200, center=0.0, scale=1.0)
ENCODER = Encoder(columns=(*NUMBERS[:4], CategoryColumn(name="country", levels=("de", "fr")), *NUMBERS[4:], WIDE))
USUAL = {column.name: 1.5 for column in NUMBERS}
VALUES = [
    USUAL,
    {**USUAL, "country": "fr"},
    {**USUAL, "country": "xx", "x1": 3, "more": 1.0},
    {**USUAL, "x2": 1e6},
    {**USUAL, "wide": 1e99},
    {**USUAL, "wide": 1e150},
    {**USUAL, "x3": -0.0, "x1": 0.0},
    {**USUAL, "x4": True},
    {**USUAL, "x4": "2.5"},
    {**USUAL, "x4": math.nan},
    {**USUAL, "x4": 1e300},
    {**USUAL, "x4": 10**400},
    {**USUAL, "x4": None},
    {name: value for name, value in USUAL.items() if name != "x5"},
    *({name: float(value) for name, value in zip(USUAL, row, strict=True)} for row in RNG.normal(3.0, 4.0, (20, 11))),
]


@pytest.mark.parametrize("values", VALUES)
def test_what_is_encoded_together_is_to_the_bit_what_columns_say_one_by_one(values: dict[str, object]) -> None:
    one_by_one = [feature for column in ENCODER.columns for feature in column.encode_one(values.get(column.name))]
    reading = ENCODER.read(values)
    assert reading.features().tobytes() == np.array(one_by_one).tobytes()
    clipped = [column.name for column in ENCODER.columns if column.clips(values.get(column.name))]
    assert sorted(reading.clipped()) == sorted(clipped)
    assert list(reading.unexpressed()) == [
        name
        for name, value in values.items()
        if value is not None and (name not in ENCODER.by_name or not ENCODER.by_name[name].expresses(value))
    ]


def test_a_request_is_encoded_as_a_row_of_a_table() -> None:
    frame = pl.DataFrame(VALUES[-20:])
    assert np.array([ENCODER.encode_one(row) for row in frame.to_dicts()]).tobytes() == ENCODER.encode(frame).tobytes()
