"""What `zoosim schema` writes, `zoosim import` takes; a table of another kind is refused in one line."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tests.schema.shop import write_shop
from zoosim.api.logs import describe_table
from zoosim.api.shops import import_log
from zoosim.core.errors import ConfigError
from zoosim.logs.importing.dates import shorter_order
from zoosim.schema.schema import infer_schema

ITEMS = pl.DataFrame(
    {"item": [f"SKU-{k:02}" for k in range(40)], "brand": ["a", "b"] * 20, "margin": np.arange(40) / 7.0}
)


@pytest.mark.parametrize(
    ("at", "expected"),
    [
        ("2026-03-{:02} 10:00:00", "names no time zone, taken as UTC"),
        ("{:02}/04/2026 10:00", "its dates day-first, as far as their span tells"),
        ("04/{:02}/2026", "its dates month-first, as far as their span tells"),
        ("{}", "left out: "),
        ("soon", "left out: "),
        ("2026-03-{:02}T10:00:00Z", "time"),
    ],
)
def test_import_takes_the_schema_of_any_column_of_times(tmp_path: Path, at: str, expected: str) -> None:
    shop = write_shop(tmp_path, n=200).with_columns(at=pl.Series([at.format(1 + row % 9) for row in range(200)]))
    shop.write_csv(tmp_path / "shop.csv")
    _, notes = describe_table(tmp_path / "shop.csv", out=tmp_path / "shop.yaml")
    assert expected in notes["at"]
    import_log(tmp_path / "shop.csv", tmp_path / "shop.yaml", tmp_path / "log.parquet")
    import_log(tmp_path / "shop.csv", None, tmp_path / "log.parquet")


def test_dates_are_read_in_the_order_in_which_they_span_less() -> None:
    """3 to 5 April is 2 days, 4 March to 4 May 61."""
    assert shorter_order(pl.Series(["03/04/2024", "05/04/2024"])) == "day-first"
    assert shorter_order(pl.Series(["04/03/2024", "04/05/2024"])) == "month-first"
    assert shorter_order(pl.Series(["04/03/2024", "04/13/2024"])) is None  # the 13 settles it
    assert shorter_order(pl.Series(["2024-04-03"])) is None
    assert shorter_order(pl.Series(["03/04/2024", "00/00/0000", "00/05/2024", "05/04/2024"])) == "day-first"
    assert shorter_order(pl.Series(["00/00/0000"])) is None


def test_a_table_of_products_is_no_log_and_a_log_no_table_of_products(tmp_path: Path) -> None:
    shop = write_shop(tmp_path, n=200)
    ITEMS.write_csv(tmp_path / "items.csv")
    with pytest.raises(ConfigError, match=r"items.csv: has one row for each item, .* this one by --products"):
        import_log(tmp_path / "items.csv", None, tmp_path / "log.parquet")
    with pytest.raises(
        ConfigError, match=r"shop.csv: column item holds .* in several rows, .* expected a row per product"
    ):
        import_log(tmp_path / "shop.csv", None, tmp_path / "log.parquet", products=tmp_path / "shop.csv")
    assert not (tmp_path / "log.parquet").exists()
    infer_schema(ITEMS.head(20).with_columns(click=pl.Series([0, 1] * 10)))  # each product was shown once
    assert shop.height == 200


def test_what_a_product_is_worth_is_no_reward(tmp_path: Path) -> None:
    shop = write_shop(tmp_path)
    of_products = shop.join(ITEMS.select("item", "margin"), on="item", how="left")
    inferred, notes = infer_schema(of_products)
    assert inferred.rewards == {"click": "click", "revenue": "gmv"}
    assert "margin" not in inferred.features
    with pytest.raises(ConfigError, match="found no column that looks like a reward"):
        infer_schema(of_products.drop("click", "gmv"))
    assert notes["click"] == "reward, click"


def test_columns_that_do_not_hold_what_their_names_say_are_not_taken_for_it(tmp_path: Path) -> None:
    shop = write_shop(tmp_path, n=200).rename({"p": "chance"})
    odd = shop.with_columns(
        p=pl.Series(np.linspace(5.0, 90.0, 200)),
        position=pl.Series(["top", "side"] * 100),
        order=pl.Series(["first", "second", "third", "fourth"] * 50),
    )
    inferred, _ = infer_schema(odd)
    assert (inferred.columns.propensity, inferred.columns.position) == (None, None)
    assert list(inferred.rewards) == ["click", "revenue"]
    import_log(odd, inferred, tmp_path / "log.parquet")


def test_an_import_takes_the_table_of_products_beside_the_schema(tmp_path: Path) -> None:
    write_shop(tmp_path, n=200)
    ITEMS.write_csv(tmp_path / "items.csv")
    describe_table(tmp_path / "shop.csv", out=tmp_path / "shop.yaml")
    described = tmp_path / "described.yaml"
    describe_table(tmp_path / "shop.csv", tmp_path / "items.csv", described)
    for schema in (None, tmp_path / "shop.yaml"):
        imported = import_log(tmp_path / "shop.csv", schema, tmp_path / "a.parquet", products=tmp_path / "items.csv")
        assert "were never shown: policies know" in imported.facts["products"]
    import_log(tmp_path / "shop.csv", described, tmp_path / "b.parquet")
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()
    with pytest.raises(ConfigError, match="products: got it twice"):
        import_log(tmp_path / "shop.csv", described, tmp_path / "b.parquet", products=tmp_path / "items.csv")
