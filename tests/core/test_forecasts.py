"""Forecasts are kept beside a model, and read without trusting the file."""

import json
from pathlib import Path
from typing import Any

import pytest

from zoosim.core.errors import ConfigError, DataError
from zoosim.core.forecasts import (
    MOST,
    Forecast,
    add_forecasts,
    checked_forecasts,
    decisions_to_score,
    forecasts_path,
    read_forecasts,
    write_forecasts,
)

FIELDS: dict[str, Any] = {
    "quantity": "reward per visit",
    "reward": "click",
    "value": 0.1,
    "low": 0.09,
    "high": 0.12,
    "level": 0.95,
    "horizon": 1_000,
    "made": "2026-11-28T12:00:00+00:00",
    "by": "zoosim train",
}


def forecast(**fields: Any) -> Forecast:
    return Forecast(**{**FIELDS, **fields})


def test_forecasts_come_back_as_they_were_written(tmp_path: Path) -> None:
    path = forecasts_path(tmp_path / "shop.zoosim")
    assert path.name == "shop.forecasts.jsonl"
    assert read_forecasts(path) == []
    written = [forecast(policy="a\u2028b\n"), forecast(reward="margin", value=-3, low=-4, high=2, verdict="weak")]
    write_forecasts(path, written)
    assert read_forecasts(path) == written
    write_forecasts(path, [])
    assert not path.exists()


def test_a_later_forecast_of_the_same_takes_the_place_of_the_earlier(tmp_path: Path) -> None:
    path = tmp_path / "shop.forecasts.jsonl"
    add_forecasts(path, [forecast(), forecast(reward="margin")])
    add_forecasts(path, [forecast(value=0.11)])
    assert [(each.reward, each.value) for each in read_forecasts(path)] == [("margin", 0.1), ("click", 0.11)]
    add_forecasts(path, [forecast(reward=f"reward {number}") for number in range(2 * MOST)])
    assert [each.reward for each in read_forecasts(path)] == [f"reward {number}" for number in range(MOST, 2 * MOST)]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("not json", "line 1: got 'not json', expected a forecast as JSON"),
        ("[" * 100_000, "line 1: got "),
        ("9" * 10_000, "line 1: got "),
        ("[1]", r"line 1: got \[1\], expected the fields of a forecast by name"),
        ("{}", "line 1.quantity: missing"),
        ({"value": "__import__('os')"}, "line 1.value: got .__import__"),
        ({"value": 1e999}, "line 1.value: got inf"),
        ({"low": 0.5}, "the interval 0.5 to 0.12, expected the lower end first"),
        ({"level": 1.0}, "line 1.level: got 1.0"),
        ({"horizon": -1}, "line 1.horizon: got -1"),
        ({"horizon": 1e6}, "line 1.horizon: got 1000000.0"),
        ({"made": "yesterday"}, "got 'yesterday', expected a time"),
        ({"made": "2026-11-28T12:00:00"}, "a time with its zone"),
        ({"model": "../../etc"}, "line 1.model: got '../../etc'"),
        ({"policy": "x" * 301}, "line 1.policy: "),
        ({"quantity": "profit"}, "line 1.quantity: got 'profit'"),
        ({"colour": "red"}, "line 1: unknown key 'colour'"),
    ],
)
def test_a_file_that_holds_something_else_is_refused_in_one_line(tmp_path: Path, line: Any, message: str) -> None:
    path = tmp_path / "shop.forecasts.jsonl"
    path.write_text(line if isinstance(line, str) else json.dumps({**FIELDS, **line}))
    with pytest.raises(DataError, match=message) as refused:
        read_forecasts(path)
    assert "\n" not in str(refused.value)
    assert str(refused.value).endswith("mend or remove the file")


@pytest.mark.parametrize("content", [b"\xff\xfe", b"x" * 300_000])
def test_what_is_no_text_or_too_large_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "shop.forecasts.jsonl"
    path.write_bytes(content)
    with pytest.raises(DataError, match="cannot be read"):
        read_forecasts(path)


@pytest.mark.parametrize("entries", [None, "x", {}, [FIELDS] * (MOST + 1)])
def test_what_is_no_short_list_is_refused(entries: Any) -> None:
    with pytest.raises(ConfigError, match=f"forecasts: got .*, expected a list of at most {MOST} forecasts"):
        checked_forecasts(entries, "forecasts")


def test_a_mean_is_scored_once_it_is_as_exact_as_its_forecast() -> None:
    # Clicks at 10% deviate by .3; 1.96 x .3 / sqrt(n) is .01 at n = 3,457.4.
    assert decisions_to_score(0.3, 0.01, 1.96) == 3_458
    assert decisions_to_score(0.3, 1.0, 1.96) == 100
    assert decisions_to_score(0.3, 0.0, 1.96) == 100
    assert decisions_to_score(0.3, 1e-300, 1.96) == 900_000_000
