"""Numbers as they are written: an interval with two significant digits, its value with as many decimals."""

import math

import pytest

from zoosim.core.number_format import (
    counted,
    decimals,
    fixed,
    in_percent,
    per_visit,
    plain,
    shared_decimals,
    significant,
    with_interval,
)


@pytest.mark.parametrize(
    ("value", "low", "high", "written"),
    [
        (0.0804123, 0.0771456, 0.0836789, ("0.0804", "0.0771 to 0.0837")),  # half-width .0033
        (0.0231, 0.0131, 0.0331, ("0.023", "0.013 to 0.033")),  # .010
        (0.02310, 0.01315, 0.03306, ("0.023", "0.013 to 0.033")),  # .00996 rounds to .010
        (-0.7, -1.0, -0.39, ("-0.70", "-1.00 to -0.39")),
        (1234.5678, 1200.0, 1270.0, ("1,235", "1,200 to 1,270")),  # .35 x 10^2
        (1234567.8, 1200000.0, 1270000.0, ("1,234,568", "1,200,000 to 1,270,000")),
        (1.5, None, None, ("1.50", "open to open")),
        (0.2, 0.15, None, ("0.200", "0.150 to open")),  # .05 on the side that is known
        (0.2, 0.15, math.inf, ("0.200", "0.150 to open")),
        (math.nan, None, None, ("none", "open to open")),
        (0.0, 0.0, 0.0, ("0", "0 to 0")),
        (-0.00001, -0.01, 0.01, ("0.000", "-0.010 to 0.010")),
    ],
)
def test_an_interval_has_two_digits(
    value: float, low: float | None, high: float | None, written: tuple[str, str]
) -> None:
    assert with_interval(value, low, high) == written


def test_differences_have_signs() -> None:
    assert with_interval(0.0056, 0.0051, 0.0062, signed=True) == ("+0.00560", "+0.00510 to +0.00620")
    assert with_interval(0.3, 0.0004, 0.6, signed=True) == ("+0.3000", "+0.0004 to +0.6000")  # apart from 0
    assert with_interval(0.3, -0.0004, 0.6, signed=True) == ("+0.30", "+0.00 to +0.60")


def test_shares_are_written_in_percent() -> None:
    assert in_percent(0.984, 0.981, 0.987) == ("98.40", "98.10 to 98.70")
    assert in_percent(0.22, 0.1, None, signed=True, suffix="%") == ("+22%", "+10% to open")


@pytest.mark.parametrize(
    ("values", "places"),
    [([0.05, 0.04, 0.02], 4), ([0.05412, 0.04871], 5), ([12.0, 2.0], 1), ([0.5, 0.5], 3), ([None, math.nan], 0)],
)
def test_a_column_without_intervals_tells_figures_apart(values: list[float | None], places: int) -> None:
    """The spread has three significant digits: .03 has 4 decimals, .00541 five, 10 one."""
    assert shared_decimals(values) == places


def test_what_is_missing_is_named() -> None:
    assert fixed(None, 2, missing="-") == "-"
    assert decimals(math.nan) == 0


@pytest.mark.parametrize(("reward", "unit"), [("click", "clicks per visit"), ("margin", "margin per visit")])
def test_rewards_have_units(reward: str, unit: str) -> None:
    assert per_visit(reward) == unit


def test_numbers_without_an_interval_have_no_exponents() -> None:
    assert [plain(value) for value in (86_400.0, 1_234.5, 12.34, 0.01234)] == ["86,400", "1,234", "12.3", "0.0123"]


@pytest.mark.parametrize(
    ("value", "digits", "expected"),
    [(2.0, 3, "2"), (0.75, 3, "0.75"), (30_123.4, 3, "30,123"), (0.000031, 2, "0.000031"), (-86_400.0, 4, "-86,400")],
)
def test_significant_digits_are_written_without_exponents(value: float, digits: int, expected: str) -> None:
    assert significant(value, digits) == expected


def test_one_thing_is_singular() -> None:
    written = [counted(number, "row") for number in (0, 0.7, 1, 2_000, math.nan)]
    assert written == ["0 rows", "1 row", "1 row", "2,000 rows", "nan rows"]
    assert counted(1, "user or row", "users or rows") == "1 user or row"
    assert counted(2, "user or row", "users or rows") == "2 users or rows"
