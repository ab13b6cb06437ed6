"""A shop's own table of searches becomes the log that its world would have written; bad rows are named."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import yaml
from typer.testing import CliRunner

from benchmarks.quality.own_search_shop import write_shop
from tests.logs.own_searches import write_searches
from zoosim.cli import app
from zoosim.core.errors import ConfigError, DataError
from zoosim.logs.importing.summary import Imported
from zoosim.logs.parse import read_log
from zoosim.worlds.search.import_searches import describes_searches, import_searches

COLUMNS = {
    **{"search": "search_id", "position": "rank", "product": "sku", "query": "query", "clicked": "clicked"},
    **{"purchased": "bought", "segment": "segment", "user_id": "customer", "time": "at", "density": "p"},
    "boosts": [f"b{number}" for number in range(10)],
}


class Shop:
    """The folder of a shop's tables, with a log of searches as Parquet and as the shop's own CSV."""

    def __init__(self, folder: Path, searches: int = 120) -> None:
        self.folder = folder
        self.log = write_searches(folder, searches)
        frame = pl.read_parquet(self.log)
        names = pl.read_csv(folder / "catalogue.csv")["id"]
        lists = ["shown", "clicked", "purchased"]
        rows = frame.select(
            "decision_id", "time", "user_id", "segment", "query", "propensity", "action", *lists
        ).explode(lists)
        self.table = rows.select(
            search_id="decision_id",
            rank=pl.int_range(pl.len()).over("decision_id") + 1,
            sku=names[rows["shown"].to_numpy()],
            query="query",
            clicked="clicked",
            bought="purchased",
            segment="segment",
            customer="user_id",
            at=pl.col("time").dt.to_string("iso:strict"),
            p="propensity",
            **{f"b{number}": pl.col("action").list.get(number) for number in range(10)},
        )

    def schema(self, **columns: Any) -> Path:
        path = self.folder / "searches.yaml"
        shop = {
            name: Path(str(file)).name
            for name, file in write_shop(self.folder, products=60, queries=12).items()
            if str(name).endswith("_file")
        }
        kept = {role: name for role, name in {**COLUMNS, **columns}.items() if name is not None}
        values = {"shop": {**shop, "k": 12, "a_max": 1.0}, "columns": kept}
        path.write_text(yaml.safe_dump(values), encoding="utf-8")
        return path

    def imported(self, table: pl.DataFrame | None = None, *, skip_bad: bool = False, **columns: Any) -> Imported:
        return import_searches(
            self.table if table is None else table,
            self.schema(**columns),
            self.folder / "own.parquet",
            skip_bad=skip_bad,
        )


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    return Shop(tmp_path_factory.mktemp("import"))


def test_the_log_is_that_of_the_world(shop: Shop) -> None:
    csv = shop.folder / "searches.csv"
    shop.table.sample(fraction=1.0, shuffle=True, seed=1).write_csv(csv)  # rows in any order
    assert import_searches(csv, shop.schema(), shop.folder / "own.parquet").skipped == {}
    ours, theirs = read_log(shop.folder / "own.parquet").in_order(), read_log(shop.log).in_order()
    assert ours.searches is not None
    assert theirs.searches is not None
    assert ours.actions == pytest.approx(theirs.actions)
    assert ours.propensities == pytest.approx(theirs.propensities)
    assert ours.rewards == pytest.approx(theirs.rewards)
    assert ours.times is not None
    assert ours.times.tolist() == (theirs.times if theirs.times is not None else np.zeros(0)).tolist()
    for row in range(len(ours)):
        mine, logged = ours.searches.visit(row), theirs.searches.visit(row)
        assert np.array_equal(mine.feedback["shown"], logged.feedback["shown"])
        assert np.array_equal(mine.feedback["clicks"], logged.feedback["clicks"])
        assert np.array_equal(mine.feedback["purchases"], logged.feedback["purchases"])
        assert np.array_equal(mine.context.base_scores, logged.context.base_scores)


def test_it_says_what_it_understood(shop: Shop) -> None:
    """Counted here from the table alone."""
    imported = shop.imported(shop.table.with_columns(pl.lit(1).alias("extra")))
    table, facts = shop.table, imported.facts
    searches, visitors = table["search_id"].n_unique(), table["customer"].n_unique()
    each = table.height / searches
    assert facts["rows"] == f"{searches:,} searches, {each:.3g} products shown in each, {visitors:,} visitors"
    assert facts["products"] == f"{table['sku'].n_unique():,} shown, of 60 in the catalogue"
    assert facts["reward click"].startswith(f"{table['clicked'].sum() / searches:.3g} a search; at least one in ")
    assert facts["boosts"] == "logged with their densities: other boosts can be learned and judged"
    [most, *_] = (
        table.group_by("search_id").agg(pl.col("segment").first())["segment"].value_counts(sort=True)["segment"]
    )
    assert facts["segments"].startswith(f"{most} ")
    assert imported.columns["sku"] == "product shown"
    assert imported.columns["extra"] == "not used"


@pytest.mark.parametrize(
    ("left_out", "words"), [("density", "learned, but not judged"), ("boosts", "none: what others would earn")]
)
def test_it_says_what_boosts_can_be_learned(shop: Shop, left_out: str, words: str) -> None:
    columns: dict[str, Any] = {"density": None} if left_out == "density" else {"boosts": None, "density": None}
    assert words in shop.imported(**columns).facts["boosts"]


def test_the_command_prints_it_and_refuses_what_a_table_of_searches_has_not(shop: Shop) -> None:
    csv, out = shop.folder / "searches.csv", shop.folder / "own.parquet"
    shop.table.write_csv(csv)
    command = ["import", str(csv), str(shop.schema()), str(out)]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0
    for words in ("products shown in each", "reward click", "segments", "customer"):
        assert words in done.output
    refused = CliRunner().invoke(app, [*command, "--products", str(csv)])
    assert "leave out --products and --like" in str(refused.exception)


def test_without_boosts_and_segments(shop: Shop) -> None:
    shop.imported(boosts=None, density=None, segment=None, time=None, user_id=None, purchased=None)
    log = read_log(shop.folder / "own.parquet")
    assert not log.actions.any()
    assert not log.has_propensities
    assert log.searches is not None
    assert log.searches.requests.schema.segments == ["all"]
    assert log.features.shape == (120, 3)  # the segment, and two types of queries


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("sku", "SKU-9999", "row 3, column sku: got 'SKU-9999', expected a product of the catalogue"),
        ("query", "tv", "row 3, column query: got 'tv', expected a query of queries_file"),
        ("query", None, "row 3, column query: got nothing, expected a value"),
        ("clicked", 7, "row 3, column clicked: got 7, expected 0 or 1"),
        ("b4", 1.5, "row 3, column b4: got 1.5, expected a boost from -1 to 1"),
        ("p", -1.0, "row 3, column p: got -1.0, expected a density above 0"),
        ("rank", 1, "row 0, column rank: got 1, expected another one for each product of a search"),
        ("rank", 0, "row 3, column rank: got 0, expected 1, 2, ... in each visit, each once and without gaps"),
        ("rank", 99, "row 3, column rank: got 99, expected 1, 2, ... in each visit, each once and without gaps"),
        ("segment", "regulars?", "row 3, column segment: .*expected the same in all rows of a visit"),
    ],
)
def test_bad_rows_are_named_and_skipped(shop: Shop, column: str, value: Any, message: str) -> None:
    bad = pl.when(pl.int_range(pl.len()) == 3).then(pl.lit(value)).otherwise(pl.col(column)).alias(column)
    table = shop.table.with_columns(bad)
    with pytest.raises(DataError, match=message):
        shop.imported(table)
    shop.imported(table, skip_bad=True)
    assert len(read_log(shop.folder / "own.parquet")) == 119


@pytest.mark.parametrize(
    ("row", "value", "message"),
    [
        (3, "high", "row 3, column taste: got 'high', expected a number; 1 of"),
        (0, None, "row 0, column taste: got nothing, expected a number, as other rows of the search have"),
    ],
)
def test_tastes_that_are_no_numbers_are_named(shop: Shop, row: int, value: Any, message: str) -> None:
    taste = pl.when(pl.int_range(pl.len()) == row).then(pl.lit(value)).otherwise(pl.lit("0.5"))
    table = shop.table.with_columns(taste=taste)
    with pytest.raises(DataError, match=message):
        shop.imported(table, price_taste="taste")
    nobody = shop.table.with_columns(taste=pl.lit(None, pl.String))
    assert shop.imported(nobody, price_taste="taste").skipped == {}


def test_a_purchase_needs_a_click(shop: Shop) -> None:
    table = shop.table.with_columns(clicked=0, bought=1)
    with pytest.raises(DataError, match="column bought: got 1, expected a click before a purchase"):
        shop.imported(table)


def test_schemas_that_are_refused(shop: Shop) -> None:
    with pytest.raises(DataError, match="no column 'skew'"):
        shop.imported(product="skew")
    with pytest.raises(ConfigError, match="boosts: got 2, expected 10 columns or none"):
        shop.imported(boosts=["b0", "b1"])
    with pytest.raises(ConfigError, match="no scores_file; name the table"):
        import_searches(shop.table, {"shop": {}, "columns": COLUMNS}, shop.folder / "own.parquet")
    with pytest.raises(ConfigError, match="expected a file that ends in \\.parquet"):
        import_searches(shop.table, shop.schema(), shop.folder / "own.csv")


def test_which_schemas_describe_searches(shop: Shop, tmp_path: Path) -> None:
    other = tmp_path / "other.yaml"
    other.write_text("columns: {action: item}\n", encoding="utf-8")
    assert describes_searches(str(shop.schema()))
    assert not describes_searches(str(other))
    assert not describes_searches({"columns": {}})
    assert not describes_searches(str(tmp_path / "none.yaml"))
