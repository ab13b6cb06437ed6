"""Bad logs are refused with row and column, or their bad rows skipped and counted; logs of our own are read whole."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import zoosim
from zoosim.api.runs import write_log
from zoosim.core.action_space import BOOSTS, PRODUCTS, RANKINGS
from zoosim.core.errors import ConfigError, DataError
from zoosim.logs.importing.tables import read_table
from zoosim.logs.parse import read_log, to_log

N = 20


def frame(**changes: Any) -> pl.DataFrame:
    """A sound log of 20 rows among 4 actions; a change is a whole column, or {row: value}."""
    columns: dict[str, Any] = {
        "decision_id": [f"d{i}" for i in range(N)],
        "time": [datetime(2026, 1, 1, 0, 0, i, tzinfo=UTC) for i in range(N)],
        "user_id": [i % 5 for i in range(N)],
        "user": [[i / 10, 1.0] for i in range(N)],
        "unavailable": [[3] if i % 2 else [] for i in range(N)],
        "action": [i % 3 for i in range(N)],
        "propensity": [0.25] * N,
        "reward": [float(i % 2) for i in range(N)],
    }
    for name, change in changes.items():
        for row, value in change.items():
            columns[name][row] = value
    return pl.DataFrame(columns)


@pytest.mark.parametrize(
    ("column", "row", "value", "expected"),
    [
        ("propensity", 7, 0.0, "got 0.0, expected above 0"),
        ("propensity", 7, -0.1, "got -0.1, expected above 0"),
        ("propensity", 7, 1.0000001, "expected above 0 and at most 1"),
        ("propensity", 0, float("nan"), "got nan"),
        ("propensity", 19, float("inf"), "got inf"),
        ("propensity", 3, None, "got nothing, expected a value"),
        ("reward", 4, float("nan"), "got nan, expected a finite number"),
        ("reward", 4, float("-inf"), "got -inf"),
        ("reward", 4, None, "got nothing"),
        ("action", 5, -1, "got -1, expected 0 to 3"),
        ("action", 5, 3, "got 3, expected one of the row's candidates"),
        ("action", 5, None, "got nothing"),
        ("decision_id", 9, "d2", "got 'd2', expected an id that no earlier row has"),
        ("decision_id", 9, None, "got nothing"),
        ("time", 9, None, "got nothing"),
        ("user", 9, [1.0], "expected a list of 2 numbers"),
        ("user", 9, [1.0, float("nan")], "expected finite numbers"),
        ("user", 9, None, "got nothing"),
    ],
)
def test_a_bad_row_is_named_and_skipped_only_when_asked(column: str, row: int, value: Any, expected: str) -> None:
    bad = frame(**{column: {row: value}})
    with pytest.raises(DataError, match=rf"^log: row {row}, column {column}: ") as caught:
        to_log(bad)
    assert expected in str(caught.value)
    assert "1 of 20 rows is bad" in str(caught.value)
    log = to_log(bad, skip_bad=True)
    assert len(log) == N - 1
    assert sum(log.skipped.values()) == 1
    assert next(iter(log.skipped)).startswith(column)
    kept = np.delete(np.arange(N), row)
    assert np.array_equal(log.rewards, np.array([i % 2 for i in kept], float))


def test_a_sound_log_is_read_whole() -> None:
    log = to_log(frame())
    assert (len(log), log.n_actions, log.features.shape, dict(log.skipped)) == (N, 4, (N, 2), {})
    assert log.user_ids is not None
    assert log.times is not None
    assert log.user_ids.tolist() == [i % 5 for i in range(N)]
    assert np.diff(log.times).tolist() == [1_000_000] * (N - 1)
    assert np.array_equal(log.available(0, 2), [[True] * 4, [True, True, True, False]])
    assert np.array_equal(log.rows(np.array([3, 4])).available(0, 2), [[True, True, True, False], [True] * 4])


def test_the_action_space_is_named_or_seen_in_the_actions() -> None:
    """A word does as well as the constant; lists of numbers are boosts."""
    assert to_log(frame()).action_space == PRODUCTS
    assert to_log(frame(), action_space="products").action_space == PRODUCTS
    boosts = frame().drop("unavailable").with_columns(action=pl.Series([[0.5, -1.0]] * N), decision_id=pl.lit(None))
    log = to_log(boosts)
    assert (log.action_space, log.actions.shape, log.a_max, log.n_actions) == (BOOSTS, (N, 2), 1.0, 0)
    with pytest.raises(DataError, match=r"column action holds values of type List.*, expected whole numbers"):
        to_log(boosts, action_space="products")
    visits = {"decision_id": pl.Series([f"v{i // 2}" for i in range(N)]), "position": pl.Series([0, 1] * (N // 2))}
    shown = frame().drop("time", "user_id", "user", "unavailable").with_columns(**visits)
    ranked = to_log(shown, action_space="rankings")
    assert (ranked.action_space, ranked.actions.shape) == (RANKINGS, (N // 2, 2))
    assert ranked.visit_rewards.tolist() == [1.0] * (N // 2)
    for unknown in ("templates", "ranking"):
        with pytest.raises(ConfigError, match=f"action_space: unknown '{unknown}'"):
            to_log(frame(), action_space=unknown)


def test_features_may_be_a_two_dimensional_array() -> None:
    """As a data frame made of numpy arrays holds them."""
    features = np.random.default_rng(0).normal(size=(N, 3))
    log = to_log(frame().with_columns(user=pl.Series(features)))
    assert np.array_equal(log.features, features)


def test_an_action_above_those_that_are_known_is_outside() -> None:
    with pytest.raises(DataError, match="row 2, column action: got 2, expected 0 to 1; 6 of 20 rows are bad"):
        to_log(frame().drop("unavailable"), n_actions=2)


def test_what_is_missing_or_of_a_wrong_type_is_named() -> None:
    with pytest.raises(DataError, match="column reward is missing, a log has action, reward"):
        to_log(frame().drop("reward"))
    with pytest.raises(DataError, match="column reward holds values of type String, expected numbers"):
        to_log(frame().with_columns(pl.col("reward").cast(pl.String)))
    with pytest.raises(DataError, match=r"column time holds values of type .*, expected times with a time zone"):
        to_log(frame().with_columns(pl.col("time").dt.replace_time_zone(None)))
    with pytest.raises(DataError, match="got no rows"):
        to_log(frame().head(0))
    with pytest.raises(DataError, match="every one of 20 rows is bad"):
        to_log(frame().with_columns(pl.lit(2.0).alias("propensity")), skip_bad=True)
    with pytest.raises(DataError, match="column p_new is no column of numbers"):
        to_log(frame(), columns=["p_new"])


def test_a_log_says_nothing_of_users_and_times_when_it_knows_none() -> None:
    log = to_log(frame().select("action", "propensity", "reward"))
    assert log.user_ids is None
    assert log.times is None
    assert log.features.shape == (N, 0)
    assert log.n_actions == 3


def test_a_log_without_propensities_teaches_and_judges_nothing() -> None:
    log = to_log(frame().drop("propensity"))
    assert not log.has_propensities
    assert np.isnan(log.propensities).all()
    assert to_log(frame()).has_propensities
    with pytest.raises(DataError, match="log: got a log without propensities, expected a column propensity"):
        zoosim.evaluate(log, ["random"])


def test_a_truncated_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    frame().write_parquet(path)
    whole = path.read_bytes()
    for size in (0, 3, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(DataError, match="perhaps truncated"):
            read_log(path)
    with pytest.raises(DataError, match="no such file"):
        read_log(tmp_path / "other.parquet")


def test_one_bad_row_of_a_million_is_found() -> None:
    n, row = 1_000_000, 765_432
    propensities = np.full(n, 0.5)
    propensities[row] = np.nan
    many = pl.DataFrame({"action": np.arange(n) % 2, "propensity": propensities, "reward": np.zeros(n)})
    with pytest.raises(DataError, match=f"row {row}, column propensity: got nan.* 1 of 1,000,000 rows is bad"):
        to_log(many)
    log = to_log(many, skip_bad=True)
    assert (len(log), sum(log.skipped.values())) == (n - 1, 1)


def test_a_log_of_a_simulated_shop_is_read_with_its_products(tmp_path: Path) -> None:
    change = "env.availability=[{step: 250, change: run-out, products: [1, 4], until: 400}]"
    write_log(tmp_path / "log.parquet", n=600, settings=[change, "env.n_products=6"])
    log = read_log(tmp_path / "log.parquet")
    assert (log.n_actions, log.products.shape[0], len(log)) == (6, 6, 600)
    assert log.available(0, 600).sum(axis=1).tolist() == [4 if 250 <= i < 400 else 6 for i in range(600)]
    assert np.allclose(log.propensities, 1 / log.available(0, 600).sum(axis=1))


@pytest.mark.parametrize(
    ("column", "value", "expected"),
    [
        ("propensity", 1e-200, "got 1e-200, expected at least 1e-30"),
        ("reward", -1e200, "expected at most 1e.15 in size; scale rewards"),
        ("user", [1e200, 1.0], "expected finite numbers, 1e.100 at most"),
        ("unavailable", [4, 10**9], "expected actions from 0 to 4"),
        ("unavailable", [4, None], "expected actions from 0 to 4"),
        ("unavailable", [4, -1], "expected actions from 0 to 4"),
        ("action", 10**12, "got 1000000000000, expected 0 to 4"),
    ],
)
def test_numbers_that_no_sum_holds_are_bad_rows_too(column: str, value: Any, expected: str) -> None:
    changes: dict[str, Any] = {"unavailable": {0: [4]}} | {column: {7: value}}
    bad = frame(**changes)
    with pytest.raises(DataError, match=rf"^log: row 7, column {column}: .*{expected}.*; 1 of 20 rows is bad"):
        to_log(bad)
    log = to_log(bad, skip_bad=True)
    assert (len(log), log.n_actions) == (N - 1, 5)


def test_lists_and_ids_come_in_many_kinds() -> None:
    plain = to_log(frame())
    users = np.array([[i / 10, 1.0] for i in range(N)])
    others = [
        frame().with_columns(user=pl.Series(users)),
        frame().with_columns(pl.col("unavailable").cast(pl.List(pl.Float64))),
        frame().with_columns(pl.col("user_id").cast(pl.String).cast(pl.Categorical)),
        frame().with_columns(pl.col("user_id").cast(pl.Int128) + 2**70),
        frame().with_columns(pl.col("user_id").cast(pl.UInt64) + 2**63),
    ]
    for other in map(to_log, others):
        assert np.array_equal(other.features, plain.features)
        assert np.array_equal(other.available(0, N), plain.available(0, N))
        assert other.user_ids is not None
        assert len(np.unique(other.user_ids)) == 5
    nothing = to_log(frame().with_columns(unavailable=pl.Series([[]] * N)))
    assert nothing.available(0, N).all()
    with pytest.raises(
        DataError, match=r"column unavailable holds values of type List\(Float64\), expected lists of wh"
    ):
        to_log(frame().with_columns(unavailable=pl.Series([[0.5]] * N)))


class Timestamp(datetime):
    """As pandas hands times out."""


class NAType:
    """As pandas marks what is missing."""


class Frame:
    """A data frame of another library: columns by name, of numpy objects."""

    def __init__(self, **columns: list[Any]) -> None:
        self.data, self.columns = columns, list(columns)

    def __getitem__(self, name: str) -> np.ndarray:
        column = np.empty(N, object)
        column[:] = self.data[name]
        return column


def test_columns_of_objects_are_read_as_what_they_hold() -> None:
    columns: dict[str, list[Any]] = {"action": [0, 1] * 10, "propensity": [0.5] * N, "reward": [1.0] * N}
    columns["time"] = [Timestamp(2026, 1, 1, 0, 0, i, tzinfo=UTC) for i in range(N)]
    columns["user"] = [[1, 2], np.array([1.5, 2])] * 10
    columns["note"] = [1, "mixed"] * 10
    log = to_log(read_table(Frame(**columns))[0])
    assert log.features.tolist() == [[1.0, 2.0], [1.5, 2.0]] * 10
    assert log.times is not None
    assert np.diff(log.times).tolist() == [1_000_000] * (N - 1)
    for missing in (None, np.nan, NAType()):
        frame = read_table(Frame(**columns, user_id=["ann"] * 5 + [missing] + ["bob"] * 14))[0]
        users = to_log(frame).user_ids
        assert users is not None
        assert [np.flatnonzero(users == user).tolist() for user in dict.fromkeys(users)] == [
            [0, 1, 2, 3, 4],
            [5],
            list(range(6, 20)),
        ]
    with pytest.raises(DataError, match="column user_id holds values of type Object"):
        to_log(read_table(Frame(**columns, user_id=["ann", 1] * 10))[0])
    with pytest.raises(DataError, match="got a LazyFrame"):
        read_table(pl.LazyFrame())


@pytest.mark.parametrize("kind", [pl.UInt8, pl.Int8, pl.UInt16, pl.Int16, pl.UInt64])
def test_actions_may_be_whole_numbers_of_any_size(kind: Any) -> None:
    told = frame().with_columns(pl.col("action").cast(kind), unavailable=pl.Series([[5]] * frame().height))
    told = told.with_columns(pl.col("unavailable").cast(pl.List(kind)))
    assert to_log(told).n_actions == 6
