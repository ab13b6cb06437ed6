"""A schema is inferred, written, corrected and fitted; one visitor has the same bits through every door."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import zoosim
from tests.schema.shop import schema, write_shop
from zoosim.api.logs import describe_table
from zoosim.cli import app
from zoosim.core.errors import ConfigError, DataError
from zoosim.logs.parse import read_log
from zoosim.off_policy.targets.products import spec_of
from zoosim.policies.model import Catalogue, Model
from zoosim.policies.registry import find_class
from zoosim.schema.schema import FittedSchema, Schema, infer_schema, read_schema


def test_the_schema_of_a_csv_is_inferred_and_comes_back_from_yaml(tmp_path: Path) -> None:
    write_shop(tmp_path)
    text, notes = describe_table(tmp_path / "shop.csv", out=tmp_path / "shop.yaml")
    assert (tmp_path / "shop.yaml").read_text(encoding="utf-8") == text
    inferred = read_schema(tmp_path / "shop.yaml")
    assert inferred.columns.model_dump(exclude_none=True) == {
        "action": "item",
        "propensity": "p",
        "time": "at",
        "user_id": "customer",
    }
    assert inferred.rewards == {"click": "click", "revenue": "gmv"}
    assert inferred.weights == {"click": 1.0}
    assert inferred.features == {"country": "category", "age": "number", "member": "yes/no"}
    assert notes == {
        "item": "action",
        "p": "propensity",
        "click": "reward, click",
        "gmv": "reward, revenue",
        "customer": "user id",
        "at": "time",
        "country": "feature, category: 3 different texts",
        "age": notes["age"],
        "member": "feature, yes/no: no and yes",
    }
    assert Schema.model_validate(yaml.safe_load(inferred.to_yaml())) == inferred
    full = Schema.model_validate(
        schema(tmp_path, objective={"click": 1.0, "revenue": 0.5}, keep=["p"], time_zone="UTC")
    )
    assert Schema.model_validate(yaml.safe_load(full.to_yaml())) == full


def test_a_log_is_the_same_with_the_inferred_schema_as_without_one(tmp_path: Path) -> None:
    write_shop(tmp_path, n=200)
    describe_table(tmp_path / "shop.csv", out=tmp_path / "shop.yaml")
    zoosim.import_log(tmp_path / "shop.csv", tmp_path / "shop.yaml", tmp_path / "a.parquet")
    zoosim.import_log(tmp_path / "shop.csv", None, tmp_path / "b.parquet")
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()


def test_a_table_with_one_reward_called_reward_is_inferred(tmp_path: Path) -> None:
    inferred, notes = infer_schema(pl.DataFrame({"item": ["a", "b"], "reward": [1, 0], "other": [1, 2]}))
    assert (inferred.columns.reward, inferred.rewards) == ("reward", {})
    assert notes["reward"] == "reward"


def leaky(table: pl.DataFrame) -> pl.DataFrame:
    """Return a log with columns that tell what was shown, or what came of it, next to a rare yes of visitors."""
    n = table.height
    rng = np.random.default_rng(1)
    click = table["click"].to_numpy()
    number = table["item"].str.slice(4).cast(pl.Int64)
    return table.with_columns(
        clicked=table["click"],
        sku=table["item"],
        price=(number * 1.5).cast(pl.String),
        maker=pl.when(pl.int_range(n) % 100 == 0).then(pl.lit("?")).otherwise("maker " + (number % 3).cast(pl.String)),
        add_to_cart=pl.Series(np.where(click & (rng.random(n) < 0.4), "yes", "no")),
        dwell_ms=pl.Series([str(rng.integers(9_999)) if one else "" for one in click]),
        bounced=1 - table["click"],
        earned_cents=100 * table["gmv"] + rng.random(n),
        staff=pl.Series(np.where(rng.random(n) < 0.02, "yes", "no")),
    )


def test_what_nobody_knows_before_the_choice_is_no_feature(tmp_path: Path) -> None:
    table = leaky(write_shop(tmp_path))
    inferred, notes = infer_schema(table)
    assert inferred.features.keys() == {"country", "age", "member", "staff"}
    assert notes["clicked"] == "left out: named like another click"
    assert notes["sku"] == "left out: named like another action"
    for name in ("price", "maker"):
        assert notes[name] == "left out: has one value for each item, so it describes the product"
    for name in ("add_to_cart", "dwell_ms", "bounced", "earned_cents"):
        assert notes[name] == "left out: follows from click, so nobody knows it before the product is chosen"


def test_named_features_that_nobody_knows_before_the_choice_are_noted(tmp_path: Path) -> None:
    table = leaky(write_shop(tmp_path))
    features = ["country", "price", "clicked", "staff"]
    notes = zoosim.import_log(table, schema(tmp_path, features=features), tmp_path / "log.parquet").notes
    assert notes.keys() == {"price", "clicked"}
    assert notes["clicked"].startswith("is a feature of the visitor, but follows from click")
    columns = zoosim.import_log(table, None, tmp_path / "log.parquet").columns
    assert {name: columns[name] for name in ("price", "clicked")} == {
        name: infer_schema(table)[1][name] for name in ("price", "clicked")
    }


def test_import_prints_what_it_inferred(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_shop(tmp_path, n=200)
    monkeypatch.chdir(tmp_path)
    printed = CliRunner().invoke(app, ["import", "shop.csv", "shop.parquet"])
    assert printed.exit_code == 0
    lines = dict(line.split(maxsplit=1) for line in printed.stdout.splitlines() if line.strip() and line[0] != " ")
    assert lines["rows"].startswith("200 rows, ")
    assert lines["item"] == "product shown"
    assert lines["country"].startswith("feature, category, 3 values")
    assert all(len(line) <= 80 for line in printed.stdout.splitlines())


def test_the_objective_is_a_weighted_sum_of_rewards(tmp_path: Path) -> None:
    """Rewards of the first rows: clicks are worth 1 and revenue, 2.5 per click, .2: 1.5 for each click."""
    table = write_shop(tmp_path, n=200)
    both = {"click": 1.0, "revenue": 0.2}
    zoosim.import_log(table, schema(tmp_path, objective=both), tmp_path / "log.parquet")
    records = pl.read_parquet(tmp_path / "log.parquet")
    np.testing.assert_allclose(records["reward"], 1.5 * table["click"])
    assert records["revenue"].to_list() == table["gmv"].to_list()
    log = read_log(tmp_path / "log.parquet")
    assert log.fitted is not None
    assert log.fitted.weights == both
    # A log like it keeps the objective, which the new schema may leave out or repeat, and needs the rewards.
    other = schema(tmp_path, objective={"click": 1.0, "revenue": 0.5})
    with pytest.raises(ConfigError, match=r"objective: got .*0\.5}, expected {'click': 1\.0, 'revenue': 0\.2} as in"):
        zoosim.import_log(table, other, tmp_path / "like.parquet", like=tmp_path / "log.parquet")
    zoosim.import_log(table, schema(tmp_path, objective=both), tmp_path / "like.parquet", like=tmp_path / "log.parquet")
    zoosim.import_log(table, schema(tmp_path), tmp_path / "like.parquet", like=tmp_path / "log.parquet")
    assert pl.read_parquet(tmp_path / "like.parquet")["reward"].equals(records["reward"])
    one = schema(tmp_path, rewards={"click": "click"})
    with pytest.raises(ConfigError, match="got no revenue, which the earlier log's objective needs; name its column"):
        zoosim.import_log(table, one, tmp_path / "like.parquet", like=tmp_path / "log.parquet")


def test_a_log_like_another_describes_its_products(tmp_path: Path) -> None:
    table = write_shop(tmp_path, n=200)
    zoosim.import_log(table, schema(tmp_path), tmp_path / "log.parquet")
    like = tmp_path / "log.parquet"
    for lacking in (schema(tmp_path, products=None), None):
        with pytest.raises(ConfigError, match="missing, but the earlier log has products' brand, price; name their"):
            zoosim.import_log(table, lacking, tmp_path / "like.parquet", like=like)
    items = pl.read_csv(tmp_path / "items.csv")
    new = items.with_columns(brand=pl.when(pl.int_range(12) == 3).then(pl.lit("new")).otherwise("brand"))
    products = {**schema(tmp_path)["products"], "table": new.drop("price")}
    with pytest.raises(DataError, match="price"):
        zoosim.import_log(table, schema(tmp_path, products=products), tmp_path / "like.parquet", like=like)
    products["table"] = new
    drift = zoosim.import_log(table, schema(tmp_path, products=products), tmp_path / "like.parquet", like=like).drift
    assert drift == {"brand (products)": "1 of 12 values are new (new)"}


def test_inferred_columns_of_unreadable_types_are_left_out(tmp_path: Path) -> None:
    table = write_shop(tmp_path, n=200).with_columns(
        struct=pl.struct("p"),
        binary=pl.col("customer").cast(pl.Binary),
        things=pl.Series([object() for _ in range(200)], dtype=pl.Object),
    )
    notes = zoosim.import_log(table, None, tmp_path / "log.parquet").columns
    for name, kind in (("struct", "Struct"), ("binary", "Binary"), ("things", "Object")):
        assert notes[name].startswith(f"left out: holds values of type {kind}")


def test_the_objective_may_be_too_large_or_lack_a_reward(tmp_path: Path) -> None:
    table = write_shop(tmp_path, n=200)
    first = int(table["click"].arg_max() or 0)
    with pytest.raises(DataError, match=rf"row {first}, column reward: got 1e\+300, expected at most 1e\+15 in size"):
        zoosim.import_log(table, schema(tmp_path, objective={"click": 1e300}), tmp_path / "log.parquet")
    lacking = table.with_columns(gmv=pl.when(pl.int_range(200) == 5).then(None).otherwise(pl.col("gmv")))
    with pytest.raises(DataError, match="row 5, column gmv: got nothing, expected a value"):
        zoosim.import_log(lacking, schema(tmp_path), tmp_path / "log.parquet")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"columns": 3}, r"schema.columns: got 3, expected keys with values: action, propensity"),
        ({"objective": {"clik": 1}}, "objective: got the reward 'clik', expected one of click, revenue"),
        ({"objective": {"click": 0}}, "objective: got weights of 0 alone, expected one that is not"),
        ({"rewards": {}}, "expected either columns.reward, the one reward, or rewards by name"),
        ({"features": 3}, "features: got 3, expected names of columns, or a type for each"),
        ({"features": {"age": "nmber"}}, "age.type: got 'nmber', expected 'number', 'yes/no', 'category', 'words'"),
        ({"features": {"age": {"typ": "number"}}}, "age: unknown key 'typ' .did you mean type"),
        ({"features": {"age": {"most_levels": "many"}}}, "age.most_levels: got 'many', expected a valid integer"),
        ({"features": {"at": {"type": "time", "time_zone": "Mars"}}}, "at.time_zone: got 'Mars', expected a name such"),
        ({"features": ["age", "click"]}, "features: got 'click', which nobody knows before a product is chosen"),
        ({"time_zone": "Mars"}, "time_zone: got 'Mars', expected a name such as Europe/Berlin"),
        ({"featurs": ["age"]}, "unknown key 'featurs' .did you mean features"),
    ],
)
def test_what_is_wrong_with_a_schema_is_said_in_one_line(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    table = write_shop(tmp_path, n=10)
    with pytest.raises(ConfigError, match=message) as caught:
        zoosim.import_log(table, schema(tmp_path, **changes), tmp_path / "log.parquet")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "log.parquet").exists()


def test_a_schema_is_never_written_over_a_table(tmp_path: Path) -> None:
    write_shop(tmp_path, n=10)
    before = (tmp_path / "shop.csv").read_bytes()
    for out in (tmp_path / "shop.csv", tmp_path / "none" / "shop.yaml", tmp_path):
        with pytest.raises(ConfigError, match=r"expected a file that ends in \.yaml, in a folder that is there"):
            describe_table(tmp_path / "shop.csv", out=out)
    assert (tmp_path / "shop.csv").read_bytes() == before


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("", DataError, "cannot be read as a table"),
        ("item,click\n", DataError, "got no rows, expected at least one interaction"),
        ("item\na\nb\n", ConfigError, "found no column that looks like a reward, such as click, among item; name it"),
        ("x,click\na,1\n", ConfigError, "found no column that looks like the product shown, such as item, among x"),
        ("item,click,item\na,1,b\n", DataError, "calls two columns 'item', expected each name once"),
    ],
)
def test_tables_of_which_no_schema_can_be_inferred_are_refused(
    tmp_path: Path, text: str, error: type[Exception], message: str
) -> None:
    (tmp_path / "shop.csv").write_text(text, encoding="utf-8")
    with pytest.raises(error, match=message):
        describe_table(tmp_path / "shop.csv")
    with pytest.raises(error, match=message):
        zoosim.import_log(tmp_path / "shop.csv", None, tmp_path / "log.parquet")


def test_a_fitted_schema_is_known_by_its_fingerprint(tmp_path: Path) -> None:
    table = write_shop(tmp_path, n=200)
    fitted = []
    for name, rows in (("a", table), ("b", table), ("c", table.head(150))):
        zoosim.import_log(rows, schema(tmp_path), tmp_path / f"{name}.parquet")
        fitted.append(read_log(tmp_path / f"{name}.parquet").fitted)
    first, again, other = fitted
    assert first is not None
    assert again is not None
    assert other is not None
    assert first.fingerprint == again.fingerprint != other.fingerprint
    assert FittedSchema.from_json(first.model_dump_json(), "log").fingerprint == first.fingerprint
    for text in ("{}}", "[]", '{"visitors": 3}', '{"visitors": {"columns": [{"type": "number", "name": "x"}]}}'):
        with pytest.raises(DataError, match=r"log: its schema is broken .*; write or import the file anew"):
            FittedSchema.from_json(text, "log")


WORDS = st.text(st.characters(codec="utf-8", exclude_characters='\x00\r\n"'), max_size=5)
COUNTRY = st.one_of(st.none(), st.sampled_from(["de", "fr", "it", " de ", "NaN"]), WORDS)
AGE = st.one_of(st.none(), st.integers(-(2**40), 2**40), st.floats(allow_nan=False), st.sampled_from([17, 55.5, 91]))
MEMBER = st.one_of(st.none(), st.sampled_from(["yes", "no", "Y", "FALSE", "perhaps"]))
VISITORS = st.lists(st.fixed_dictionaries({"country": COUNTRY, "age": AGE, "member": MEMBER}), min_size=10, max_size=40)


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shop")
    zoosim.import_log(write_shop(folder, n=400), schema(folder), folder / "log.parquet")
    return folder


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(visitors=VISITORS)
@example(visitors=[{"country": None, "age": None, "member": None}])
def test_a_visitor_has_the_same_bits_through_every_door(imported: Path, visitors: list[dict[str, Any]]) -> None:
    """Alone in a model's decision; in bulk by `import --like` from a data frame, and as CSV writes it."""
    log = read_log(imported / "log.parquet")
    assert log.fitted is not None
    policy = find_class("random")(spec_of(log), np.random.default_rng(0))
    model = Model(policy, log.fitted, Catalogue(log.names, log.products))
    alone = np.array([model._request(visitor, None)[1].user for visitor in visitors])
    rows = pl.DataFrame(visitors, schema={"country": pl.String, "age": pl.Float64, "member": pl.String}, strict=False)
    table = rows.with_columns(
        item=pl.lit("SKU-00"), p=1.0, click=0, gmv=0.0, customer=pl.lit("c"), at=pl.lit("2026-01-01T00:00:00Z")
    )
    table.write_csv(imported / "again.csv")
    for given_table in (table, imported / "again.csv"):
        zoosim.import_log(given_table, schema(imported), imported / "like.parquet", like=imported / "log.parquet")
        assert read_log(imported / "like.parquet").features.tobytes() == alone.tobytes()


def test_the_logs_own_rows_have_the_bits_of_its_visitors(imported: Path) -> None:
    log = read_log(imported / "log.parquet")
    assert log.fitted is not None
    rows = pl.read_csv(imported / "shop.csv").rows(named=True)
    texts = pl.read_csv(imported / "shop.csv", infer_schema=False).rows(named=True)
    for given_rows in (rows, texts):
        alone = np.array([log.fitted.visitors.encode_one(row) for row in given_rows])
        assert alone.tobytes() == log.features.tobytes()
