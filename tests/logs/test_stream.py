"""A log that is read in blocks holds what it holds in memory, and is refused for the same reasons."""

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from zoosim.core import blocks
from zoosim.core.blocks import RowArray
from zoosim.core.errors import DataError
from zoosim.logs import stream, stream_ids
from zoosim.logs.log import Log
from zoosim.logs.parse import read_log
from zoosim.logs.stream import stream_log

N, PRODUCTS = 1_000, 6


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK_ROWS", 64)
    monkeypatch.setattr(stream, "BLOCK_ROWS", 64)
    monkeypatch.setattr(stream, "LARGEST_WINDOW", 192)
    monkeypatch.setattr(stream_ids, "AT_ONCE", 300)


def frame() -> pl.DataFrame:
    """Return a log whose rows are not in order of time."""
    rng = np.random.default_rng(0)
    columns = {
        "decision_id": [f"d{number}" for number in range(N)],
        "time": pl.Series(1_700_000_000_000_000 + rng.permutation(N)).cast(pl.Datetime("us", "UTC")),
        "user_id": rng.integers(300, size=N),
        "user": rng.normal(size=(N, 2)).tolist(),
        "unavailable": [[5] if number % 3 else [4, 5] for number in range(N)],
        "action": rng.integers(PRODUCTS - 2, size=N),
        "position": rng.integers(2, size=N),
        "propensity": rng.uniform(0.1, 1.0, size=N),
        "reward": rng.integers(2, size=N).astype(float),
        "target": rng.random(N),
    }
    return pl.DataFrame(columns)


CHANGES: dict[str, Callable[[pl.DataFrame], pl.DataFrame]] = {
    "as it is": lambda log: log,
    "words for users": lambda log: log.with_columns(user_id=pl.format("u{}", "user_id")),
    "some users unnamed": lambda log: log.with_columns(user_id=pl.when(pl.int_range(pl.len()) % 7 > 0).then("user_id")),
    "nobody named": lambda log: log.with_columns(user_id=pl.lit(None, pl.Int64)),
    "everything on offer": lambda log: log.drop("unavailable"),
    "candidates": lambda log: log.drop("unavailable").with_columns(
        candidates=pl.when(pl.int_range(pl.len()) % 2 == 0).then(pl.lit([0, 1, 2, 3])).otherwise([3, 2, 1, 0, 5])
    ),
    "required columns alone": lambda log: log.select("action", "reward", "target"),
    "rising numbers of decisions": lambda log: log.with_columns(decision_id=pl.int_range(pl.len())),
}


def written(tmp_path: Path, log: pl.DataFrame, group: int = 150) -> Path:
    path = tmp_path / "log.parquet"
    log.write_parquet(path, row_group_size=group)
    return path


def assert_same(streamed: Log, whole: Log) -> None:
    """Insist that each field of a log holds the same, row for row."""
    assert len(streamed) == len(whole)
    pairs: list[tuple[str, Any, Any]] = []
    for field in fields(Log):
        ours, theirs = getattr(streamed, field.name), getattr(whole, field.name)
        if field.name in ("columns", "rewards_by_name"):
            assert list(ours) == list(theirs)
            pairs += [(name, ours[name], theirs[name]) for name in ours]
        elif field.name != "numbers":
            pairs.append((field.name, ours, theirs))
    for name, ours, theirs in pairs:
        if isinstance(ours, RowArray):
            np.testing.assert_array_equal(ours[0 : len(whole)], theirs, err_msg=name)
            assert ours.dtype == theirs.dtype, name
        elif name == "candidates":
            np.testing.assert_array_equal(ours.masks(np.arange(len(ours))), theirs.masks(np.arange(len(theirs))))
        elif isinstance(ours, np.ndarray):
            np.testing.assert_array_equal(ours, theirs)
        else:
            assert ours == theirs, name


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_rows_are_those_in_memory(tmp_path: Path, change: Callable[[pl.DataFrame], pl.DataFrame]) -> None:
    path = written(tmp_path, change(frame()))
    streamed = stream_log(path, columns=["target"])
    assert streamed.is_streamed
    assert_same(streamed, read_log(path, columns=["target"]))


def bad_rows(log: pl.DataFrame, name: str) -> pl.DataFrame:
    """Return a log with two bad rows far apart, the first of which alone has its user and its candidates."""
    row = pl.int_range(pl.len())
    log = log.with_columns(
        user_id=pl.format("u{}", pl.when(row == 250).then(N).otherwise("user_id")),
        unavailable=pl.when(row == 250).then(pl.lit([4])).otherwise("unavailable"),
    )
    values = {"propensity": 1.5, "action": -1, "reward": float("nan"), "decision_id": "d3"}
    return log.with_columns(pl.when(row.is_in([250, 777])).then(pl.lit(values[name])).otherwise(name).alias(name))


@pytest.mark.parametrize("name", ["propensity", "action", "reward", "decision_id"])
def test_bad_rows_are_refused_by_the_first_and_left_out_where_asked(tmp_path: Path, name: str) -> None:
    path = written(tmp_path, bad_rows(frame(), name))
    with pytest.raises(DataError, match=f"row 250, column {name}: got .*; 2 of 1,000 rows are bad"):
        stream_log(path)
    with pytest.raises(DataError, match=f"row 250, column {name}: got .*; 2 of 1,000 rows are bad"):
        read_log(path)
    streamed, whole = stream_log(path, skip_bad=True), read_log(path, skip_bad=True)
    assert_same(streamed, whole)
    np.testing.assert_array_equal(streamed.row_numbers[0:998], whole.row_numbers)
    assert list(streamed.skipped.values()) == [2]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda log: log.with_columns(action=pl.lit([0.5])), "is a log of boosts"),
        (lambda log: log.drop("reward"), "column reward is missing"),
        (lambda log: log.head(0), "got no rows"),
        (lambda log: log.with_columns(visitor=1, visit=0, step=0, ended=True, censored=False), "who come back"),
        (
            lambda log: log.with_columns(user=pl.when(pl.int_range(pl.len()) < 500).then("user").otherwise([1.0])),
            "got lists of 1 numbers in column user from row 576 on, 2 before",
        ),
        (
            lambda log: log.with_columns(time=pl.when(pl.int_range(pl.len()) < 192).then("time")),
            "column time holds nothing in some of the rows around row 192",
        ),
    ],
    ids=["boosts", "no reward", "empty", "lives", "lengths", "times"],
)
def test_what_cannot_be_read_in_blocks_is_refused(
    tmp_path: Path, change: Callable[[pl.DataFrame], pl.DataFrame], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        stream_log(written(tmp_path, change(frame())))


def test_too_many_lists_and_users_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_ids, "MOST_USERS", 100)
    with pytest.raises(DataError, match="names more than 100 users by words; number them"):
        stream_log(written(tmp_path, CHANGES["words for users"](frame())))
    monkeypatch.setattr("zoosim.logs.stream_sets.MOST_LISTS", 1)
    with pytest.raises(DataError, match="column unavailable holds more than 1 different lists"):
        stream_log(written(tmp_path, frame()))


def test_missing_names_of_decisions_are_bad_rows(tmp_path: Path) -> None:
    is_unnamed = pl.int_range(pl.len()) == 500
    path = written(tmp_path, frame().with_columns(decision_id=pl.when(~is_unnamed).then("decision_id")))
    for read in (read_log, stream_log):
        with pytest.raises(DataError, match="row 500, column decision_id"):
            read(path)


def test_rows_of_two_catalogues_are_refused_wherever_they_stand(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        frame().with_columns(
            catalogue=pl.when(pl.int_range(pl.len()) < 900).then(pl.lit("aa")).otherwise(pl.lit("bb"))
        ),
    )
    for read in (read_log, stream_log):
        with pytest.raises(DataError, match="2 catalogues"):
            read(path)


def test_sources_of_candidates_are_numbered_as_they_come(tmp_path: Path) -> None:
    n = frame().height
    names = ["nearest" if row % 3 else "pool" for row in range(n)]
    names[0] = "left out"
    columns: dict[str, Any] = {
        "source": names,
        "source_version": [str(row // 500) for row in range(n)],
        "source_propensity": [2.0 if row == 0 else 0.5 for row in range(n)],  # no probability: a bad row
        "marginal_propensity": [0.1 + 0.2 * (row % 2) for row in range(n)],
    }
    path = written(tmp_path, frame().with_columns(**{name: pl.Series(values) for name, values in columns.items()}))
    whole, streamed = (read(path, skip_bad=True) for read in (read_log, stream_log))
    assert whole.candidate_sources is not None
    assert streamed.candidate_sources is not None
    assert streamed.candidate_sources.names == whole.candidate_sources.names
    for one, other in zip(streamed.candidate_sources[1:], whole.candidate_sources[1:], strict=True):
        np.testing.assert_array_equal(one[:], other)
    assert streamed.marginals is not None
    np.testing.assert_array_equal(streamed.marginals[:], whole.marginals)


def test_columns_of_other_types_are_refused_in_a_line(tmp_path: Path) -> None:
    for name, values in {"user": pl.lit(3), "user_id": pl.lit([1]), "unavailable": pl.lit(2)}.items():
        path = written(tmp_path, frame().with_columns(values.alias(name)))
        with pytest.raises(DataError, match=f"column {name} holds values of type"):
            stream_log(path)
