"""Logs of searches: what a world writes is what policies would have seen, and bad rows are named."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from benchmarks.quality.own_search_shop import write_shop
from tests.logs.own_searches import write_searches
from zoosim.core.errors import DataError
from zoosim.core.parquet import read_meta, write_parquet
from zoosim.logs.parse import read_log
from zoosim.logs.searches import Ragged, has_searches
from zoosim.worlds.search.boosts import BoostWorld
from zoosim.worlds.search.shop import SearchShop
from zoosim.worlds.search.tables import read_search_config
from zoosim.worlds.search.world import build_search_world


@pytest.fixture(scope="module")
def log_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_searches(tmp_path_factory.mktemp("searches"), 300)


def rewritten(log_file: Path, change: Any) -> Path:
    """Write the log anew with changed rows, beside its catalogue."""
    path = log_file.with_name("changed.parquet")
    write_parquet(change(pl.read_parquet(log_file)), path, read_meta(log_file))
    return path


def test_contexts_and_feedback_are_those_of_the_world_to_the_bit(log_file: Path, tmp_path: Path) -> None:
    config = read_search_config(write_shop(tmp_path, products=60, queries=12))
    world = BoostWorld(SearchShop(build_search_world(config, seed=0)))
    log = read_log(log_file)
    assert log.searches is not None
    for row in range(len(log)):
        visit = world.arrive(row)
        expected, feedback = world.context(visit), world.serve(visit, log.actions[row]).feedback
        context, logged = log.searches.visit(row)
        assert feedback is not None
        for name in ("features", "product_ids", "base_scores", "boost_features"):
            assert np.array_equal(getattr(context, name), getattr(expected, name)), name
        for ours, theirs in zip(context.product_table, expected.product_table, strict=True):
            assert np.array_equal(ours, theirs)
        for name in ("shown", "base_scores", "boost_features", "clicks", "purchases"):
            assert np.array_equal(logged[name], feedback[name]), name
        ranking = log.searches.requests.ranking(context, log.actions[row])
        assert np.array_equal(context.product_ids[ranking], feedback["shown"])


def test_rows_of_a_log_keep_their_searches(log_file: Path) -> None:
    log = read_log(log_file)
    part = log.rows(np.array([7, 3]))
    mask = log.rows(np.arange(len(log)) >= 298)
    assert part.searches is not None
    assert log.searches is not None
    assert mask.searches is not None
    assert np.array_equal(part.searches.context(1).base_scores, log.searches.context(3).base_scores)
    assert np.array_equal(mask.searches.context(1).features, log.features[299])


def test_a_ragged_column_by_hand() -> None:
    lists = Ragged.of(pl.Series([[1, 2, 3], [], [4]]))
    assert lists.row(0).tolist() == [1, 2, 3]
    assert lists.row(1).tolist() == []
    assert lists.padded(2, -1).tolist() == [[1, 2], [-1, -1], [4, -1]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            pl.col("shown").list.reverse().list.concat(pl.lit([0, 0])).alias("shown"),
            "column shown: .*each product once",
        ),
        (pl.col("shown").list.eval(pl.element() + 60).alias("shown"), "column shown: .*rows of the catalogue, 0 to 59"),
        (pl.col("clicked").list.head(2).alias("clicked"), "column clicked: .*as many as shown"),
        (pl.col("base_scores").list.tail(2).alias("base_scores"), "column base_scores: .*as many as candidates"),
        (pl.col("clicked").list.eval(pl.element() + 2).alias("clicked"), "column clicked: .*0 or 1"),
        (
            pl.col("candidates").list.tail(1).alias("candidates"),
            "expected (as many as candidates|products that are among)",
        ),
        (pl.lit("whales").alias("segment"), "column segment: got 'whales', expected one of"),
        (pl.col("signs").list.head(2).alias("signs"), "column signs: .*three numbers"),
    ],
)
def test_bad_rows_are_named(log_file: Path, change: pl.Expr, message: str) -> None:
    def spoil(frame: pl.DataFrame) -> pl.DataFrame:
        return (
            frame.with_row_index("n")
            .with_columns(
                pl.when(pl.col("n") == 5)
                .then(change)
                .otherwise(pl.col(change.meta.output_name()))
                .alias(change.meta.output_name())
            )
            .drop("n")
        )

    path = rewritten(log_file, spoil)
    with pytest.raises(DataError, match=f"row 5, .*{message}"):
        read_log(path)
    log = read_log(path, skip_bad=True)
    assert len(log) == 299
    assert log.searches is not None
    assert len(log.searches.frame) == 299


def test_a_log_without_its_catalogue_is_refused(log_file: Path, tmp_path: Path) -> None:
    alone = tmp_path / "log.parquet"
    alone.write_bytes(log_file.read_bytes())
    assert has_searches(alone)
    with pytest.raises(DataError, match=r"is no catalogue of the searches in .*move both"):
        read_log(alone)


def test_other_files_hold_no_searches(tmp_path: Path) -> None:
    other = tmp_path / "other.parquet"
    pl.DataFrame({"action": [1]}).write_parquet(other)
    assert not has_searches(other)
    assert not has_searches(tmp_path / "none.parquet")
