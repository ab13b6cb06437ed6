"""Changes of a log against its first period: what is told, since when, and that nothing is where nothing changes."""

from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
import pytest

from zoosim.core.errors import ConfigError, DataError
from zoosim.logs import drift
from zoosim.logs.candidate_sets import CandidateSets
from zoosim.logs.drift import Drift, find_drift
from zoosim.logs.log import Log
from zoosim.schema.encoder import fit_encoder
from zoosim.schema.schema import FittedSchema

ROWS, SIZE = 2_400, 400
"""Decisions of a log, of its first period and of each of the five windows behind it."""

Column = Callable[[np.random.Generator, np.ndarray], Any]
CHANGED = 2 * SIZE
"""The decision from which on something changes: the first of the second window."""


def countries(rng: np.random.Generator, numbers: np.ndarray, share: float = 0.2) -> np.ndarray:
    return np.where(rng.random(len(numbers)) < share, "fr", "de").astype(object)


def log_of(seed: int = 0, per_visitor: int = 1, **changes: Column) -> Log:
    """Return a log of three products that are offered to all; a change is made of the rows from `CHANGED` on."""
    rng = np.random.default_rng(seed)
    numbers = np.arange(ROWS)
    columns: dict[str, Any] = {
        "country": np.repeat(countries(rng, numbers), per_visitor)[:ROWS],
        "age": np.repeat(rng.normal(40.0, 10.0, ROWS), per_visitor)[:ROWS],
        "clicks": (rng.random(ROWS) < 0.2).astype(float),
        "propensities": np.full(ROWS, 1.0 / 3.0),
        "sets": np.zeros(ROWS, np.int64),
    }
    fitted = FittedSchema(visitors=fit_encoder(frame_of(columns), {"country": "category", "age": "number"}, "table"))
    for name, change in changes.items():
        columns[name] = columns[name].copy()
        columns[name][CHANGED:] = change(rng, numbers[CHANGED:])
    masks = np.array([[True, True, True, False], [True, True, False, True]])
    return Log(
        actions=rng.integers(2, size=ROWS),
        propensities=columns["propensities"],
        rewards=columns["clicks"],
        candidates=CandidateSets.from_masks(masks),
        candidate_set=columns["sets"],
        features=fitted.visitors.encode(frame_of(columns)),
        positions=np.zeros(ROWS, np.int64),
        products=np.zeros((4, 0)),
        user_ids=numbers // per_visitor,
        times=1_700_000_000_000_000 + numbers * 60_000_000,
        names=("p0", "p1", "p2", "p3"),
        fitted=fitted,
    )


def frame_of(columns: dict[str, Any]) -> pl.DataFrame:
    return pl.DataFrame({"country": pl.Series(columns["country"].tolist(), dtype=pl.String), "age": columns["age"]})


def found(log: Log) -> Drift:
    return find_drift(log, window=SIZE)


def test_nothing_is_told_of_a_log_in_which_nothing_changes() -> None:
    unchanged = found(log_of())
    assert (unchanged.findings, unchanged.n_windows) == ([], 5)
    # Two countries, another, missing; quantiles of ages, missing ages, clicks and propensities; products.
    assert unchanged.n_tests == 4 + 5 + 1 + 5 + 5 + 4
    assert "nothing changed; 5 windows of 400 decisions compared with the first 400" in repr(unchanged)


@pytest.mark.parametrize(
    ("name", "change", "lines"),
    [
        ("country", lambda rng, rows: countries(rng, rows, 0.5), ["country: ", "before, since 2023-11-15 11:33 UTC"]),
        ("country", lambda rng, rows: ["xx"] * len(rows), ["country: another level in 100.0% of visits, 0.0% before"]),
        (
            "age",
            lambda rng, rows: rng.normal(60.0, 10.0, len(rows)),
            ["age: above ", "of visits, "],
        ),
        ("age", lambda rng, rows: np.full(len(rows), np.nan), ["age: above "]),
        ("clicks", lambda rng, rows: rng.random(len(rows)) < 0.05, ["reward: 0.0", "less per 1,000 decisions"]),
        (
            "propensities",
            lambda rng, rows: np.where(rng.random(len(rows)) < 0.9, 0.95, 0.025),
            ["effective decisions of 400, on 400 of 400 before", "raise exploration"],
        ),
        ("sets", lambda rng, rows: 1, ["no longer offered: p2"]),
        ("sets", lambda rng, rows: 1, ["offered, and not before: p3", "the first period says nothing of"]),
    ],
)
def test_a_change_is_told_since_the_window_in_which_it_began(name: str, change: Column, lines: list[str]) -> None:
    changes: dict[str, Any] = {name: change}
    told = "\n".join(map(str, found(log_of(**changes)).findings))
    for line in [*lines, "since 2023-11-15 11:33 UTC"]:
        assert line in told


def test_visits_of_one_visitor_count_once() -> None:
    """The same visitors 40 times each: ten of them a window tell little, 400 visits of as many would."""
    few = log_of(per_visitor=40, clicks=lambda rng, rows: np.repeat(rng.random(len(rows) // 40) < 0.5, 40))
    assert found(few).findings == []
    many = log_of(clicks=lambda rng, rows: rng.random(len(rows)) < 0.5)
    assert [finding.part for finding in found(many).findings] == ["reward"]


def test_false_alarms_are_bounded_where_visitors_come_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten visits each, in 40 logs in which nothing changes: if all counted, many newest windows would differ."""
    logs = [log_of(seed, per_visitor=10) for seed in range(1_000, 1_040)]
    assert sum(bool(found(log).findings) for log in logs) <= 0.05 * 40 + 3.0 * np.sqrt(40 * 0.05 * 0.95)
    monkeypatch.setattr(drift._Search, "_first_of_visitors", lambda self, start: np.arange(start, start + SIZE))
    assert sum(bool(found(log).findings) for log in logs) > 10


def test_a_change_that_is_over_is_told_no_longer() -> None:
    over = log_of(country=lambda rng, rows: np.where(rows < CHANGED + SIZE, "fr", countries(rng, rows)))
    assert found(over).findings == []
    assert find_drift(over.rows(np.arange(CHANGED + SIZE)), window=SIZE).findings


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"window": 10}, "window: got 10, expected a whole number of decisions, at least 100"),
        ({"window": 1.5}, "window: got 1.5"),
        ({"level": 1.0}, "level: got 1.0, expected a probability"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], line: str) -> None:
    with pytest.raises(ConfigError, match=line):
        find_drift(log_of(), **options)


def test_a_log_without_a_whole_window_is_refused() -> None:
    with pytest.raises(
        DataError, match="log: has 2,400 decisions, expected at least 4,000: a first period and a window of 2,000"
    ):
        find_drift(log_of())
