"""Parameters: declared, found along the bases, checked to the type and the range."""

import math
from typing import Any

import numpy as np
import pytest

from zoosim import parameter
from zoosim.core.errors import ConfigError
from zoosim.core.parameters import (
    Parameter,
    check_parameters,
    numbers_by_name,
    parameters_of,
    shown,
    unknown,
    written,
)


class Base:
    alpha: float = parameter(0.2, low=0, high=1, help="width")
    size: int = parameter(32, low=1)
    kind: str = parameter("fast")


class Child(Base):
    alpha: float = parameter(0.5, low=0)
    fading: bool = parameter(False)
    size = 8  # no parameter any more


def refusal(given: dict[str, Any], cls: type = Base) -> str:
    with pytest.raises(ConfigError) as caught:
        check_parameters("mine", cls, given)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_defaults_and_given_values_together_are_complete() -> None:
    assert check_parameters("mine", Base, {"size": 5}) == {"alpha": 0.2, "size": 5, "kind": "fast"}


def test_a_child_changes_adds_and_drops_parameters() -> None:
    assert list(parameters_of(Base)) == ["alpha", "size", "kind"]
    assert check_parameters("mine", Child, {}) == {"alpha": 0.5, "kind": "fast", "fading": False}
    assert check_parameters("mine", Child, {"alpha": 3.0})["alpha"] == 3.0
    assert "unknown parameter 'size'" in refusal({"size": 8}, Child)


def test_an_integer_is_a_float_where_one_is_wanted() -> None:
    value = check_parameters("mine", Base, {"alpha": 1})["alpha"]
    assert value == 1.0
    assert type(value) is float


def test_an_integer_is_words_where_some_are_wanted() -> None:
    """YAML reads `hidden=64` as a number."""
    assert check_parameters("mine", Base, {"kind": 64})["kind"] == "64"
    assert refusal({"kind": 10**400}) == "mine.kind: got " + shown(10**400) + ", expected text"


@pytest.mark.parametrize("value", [0.0, 1.0, 0, 1])
def test_the_ends_of_a_range_belong_to_it(value: float) -> None:
    assert check_parameters("mine", Base, {"alpha": value})["alpha"] == value


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"alpha": 1.0000001}, "mine.alpha: got 1.0000001, expected 0 to 1"),
        ({"alpha": -1}, "mine.alpha: got -1.0, expected 0 to 1"),
        ({"alpha": math.nan}, "mine.alpha: got nan, expected 0 to 1"),
        ({"alpha": "0.5"}, "mine.alpha: got '0.5', expected a number, 0 to 1"),
        ({"alpha": True}, "mine.alpha: got True, expected a number, 0 to 1"),
        ({"alpha": None}, "mine.alpha: got None, expected a number, 0 to 1"),
        ({"alpha": [0.5]}, "mine.alpha: got [0.5], expected a number, 0 to 1"),
        ({"size": 0}, "mine.size: got 0, expected at least 1"),
        ({"size": 2.0}, "mine.size: got 2.0, expected a whole number, at least 1"),
        ({"size": True}, "mine.size: got True, expected a whole number, at least 1"),
        ({"kind": 3.5}, "mine.kind: got 3.5, expected text"),
        ({"kind": True}, "mine.kind: got True, expected text"),
        ({"kind": None}, "mine.kind: got None, expected text"),
        ({"alfa": 0.5}, "mine: unknown parameter 'alfa' (did you mean alpha?); known: alpha, size, kind"),
        ({"zzz": 0.5}, "mine: unknown parameter 'zzz'; known: alpha, size, kind"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(given: dict[str, Any], message: str) -> None:
    assert refusal(given) == message


@pytest.mark.parametrize("value", [math.inf, -math.inf, 10**400, -(10**400)])
def test_infinity_is_refused_without_a_range(value: float) -> None:
    class Open:
        rate: float = parameter(1.0)

    assert "mine.rate: got " in refusal({"rate": value}, Open)
    assert refusal({"rate": value}, Open).endswith("inf, expected a finite number")


def test_a_class_without_parameters_takes_none() -> None:
    assert check_parameters("mine", object, {}) == {}
    assert refusal({"alpha": 1}, object) == "mine: unknown parameter 'alpha'; known: none"


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [(0, 1, "0 to 1"), (1, None, "at least 1"), (None, 0.5, "at most 0.5"), (None, None, "any"), (1, 10**8, "")],
)
def test_a_range_is_said_in_words(low: float | None, high: float | None, words: str) -> None:
    assert Parameter(1.0, low, high, "").range == (words or "1 to 100,000,000")


def test_values_are_written_for_people() -> None:
    assert [written(value) for value in (40_000, 1e-06, 0.999875, True, "fast")] == [
        "40,000",
        "1e-06",
        "0.999875",
        "True",
        "fast",
    ]


def test_what_came_is_shown_in_one_short_line() -> None:
    assert shown("a\n  b") == "'a\\n b'"
    assert shown(np.ones((2, 2))) == "array([[1., 1.], [1., 1.]])"
    assert shown("x" * 99) == f"'{'x' * 96}..."
    assert len(shown("x" * 10**6)) == 100
    assert shown(10**5000) == "a int too long to print"


def test_a_list_that_holds_itself_is_shown() -> None:
    endless: list[Any] = []
    endless.append(endless)
    assert shown(endless) == "[[[[...]]]]"


def test_of_what_grows_without_bound_the_beginning_is_shown() -> None:
    """2**60 words in 60 lists, of which only a few are written before the text is cut."""
    doubled: list[Any] = ["x"]
    for _ in range(60):
        doubled = [doubled, doubled]
    assert shown(doubled) == "[[[[...], [...]], [[...], [...]]], [[[...], [...]], [[...], [...]]]]"
    assert shown({"b": 1, "a": [1, 2]}) == "{'b': 1, 'a': [1, 2]}"
    assert shown({n: n for n in range(10**6)}).startswith("{0: 0, 1: 1, ")


def test_unknown_names_the_closest_and_the_whole_list() -> None:
    assert unknown("colour", "gren", ["red", "green"]) == "colour 'gren' (did you mean green?); known: red, green"
    assert unknown("colour", "xyz", {}) == "colour 'xyz'; known: none"


class Coloured:
    colour: str = parameter("red", choices=("red", "green", "blue"), help="what it looks like")
    only: str = parameter("this", choices=["this"])
    bright: bool = parameter(True)


def test_words_are_checked_against_their_choices() -> None:
    assert check_parameters("mine", Coloured, {"colour": "blue"}) == {"colour": "blue", "only": "this", "bright": True}
    assert refusal({"colour": "gren"}, Coloured) == "mine.colour: got 'gren', expected one of red, green or blue"
    assert refusal({"colour": 3}, Coloured) == "mine.colour: got 3, expected one of red, green or blue"
    assert refusal({"colour": None}, Coloured) == "mine.colour: got None, expected one of red, green or blue"
    assert refusal({"only": "that"}, Coloured) == "mine.only: got 'that', expected this"


def test_a_flag_is_true_or_false() -> None:
    assert refusal({"bright": 1}, Coloured) == "mine.bright: got 1, expected true or false"


def test_numbers_by_name_come_as_a_mapping_or_as_text_and_stay_text() -> None:
    floors = Parameter("", None, None, "", by_name=True)
    assert floors.check("mine.floors", {"cm2": 1, "strategic": 0.3}) == "cm2=1.0, strategic=0.3"
    assert floors.check("mine.floors", "cm2 = 1,strategic=0.30") == "cm2=1.0, strategic=0.3"
    assert floors.check("mine.floors", "") == ""
    assert numbers_by_name("cm2=1.0, strategic=0.3") == {"cm2": 1.0, "strategic": 0.3}
    unwritable = ({"a": 10**400}, {"a=b": 1}, {"a,b": 1}, {" ": 1}, "=1", "a=1, a=2")
    for wrong in (None, 5, "cm2", "a=b", {"a": math.inf}, {1: 2.0}, {"a": True}, ["a"], *unwritable):
        with pytest.raises(ConfigError, match=r"mine.floors: got .*, expected numbers by name, such as"):
            floors.check("mine.floors", wrong)
