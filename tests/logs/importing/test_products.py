"""Products' features and candidates of a user's tables: read, refused by row and column, and used."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import yaml
from typer.testing import CliRunner

import zoosim
from zoosim.api.shops import import_log
from zoosim.cli import app
from zoosim.core.errors import ConfigError, DataError
from zoosim.core.parquet import read_meta, write_parquet
from zoosim.logs.log import Log
from zoosim.logs.parse import read_log
from zoosim.models.linear_rewards import FOLDS, ScaledRows, fit_linear_model, shared_first, sum_moments
from zoosim.off_policy.targets.products import PolicyTarget, spec_of
from zoosim.policies.from_log.traits import find_traits, traits_of
from zoosim.policies.registry import find_class
from zoosim.worlds.fitted.file import load_world

COLUMNS = {"action": "item", "propensity": "p", "reward": "click"}
PRODUCTS = {"table": "items.csv", "id": "item", "category": "brand", "features": ["price", "colour"]}
ITEMS = "item,brand,price,colour\nB7,acme,2.5,red\nX0,other,,\nA1,zen,1,blue\nC2,acme,4,red\n"
ROWS = "item,p,click,shown,gone\nB7,0.5,1,A1|B7,C2\nA1,0.25,0,A1 | B7|C2,\nC2,0.5,0,C2|A1,B7\n"


def written(folder: Path, mapping: dict[str, Any], rows: str = ROWS, items: str = ITEMS) -> tuple[Path, Path, Path]:
    (folder / "log.csv").write_text(rows, encoding="utf-8")
    (folder / "maps").mkdir(exist_ok=True)
    (folder / "maps" / "items.csv").write_text(items, encoding="utf-8")
    (folder / "maps" / "map.yaml").write_text(
        yaml.safe_dump({"columns": COLUMNS, **mapping}, sort_keys=False), encoding="utf-8"
    )
    return folder / "log.csv", folder / "maps" / "map.yaml", folder / "log.parquet"


def test_products_get_their_features_and_categories(tmp_path: Path) -> None:
    """Words become a column each, and others one more; a row of no candidate is not looked at, whatever it lacks."""
    import_log(*written(tmp_path, {"products": PRODUCTS}))
    log = read_log(tmp_path / "log.parquet")
    assert log.categories == ("zen", "acme", "acme")
    prices = (np.array([1.0, 2.5, 4.0]) - 2.5) / np.sqrt(1.5)  # a mean of 2.5, a variance of 1.5
    np.testing.assert_allclose(log.products[:, 0], prices)
    assert log.products[:, 1:].tolist() == [[1, 0, 0], [0, 1, 0], [0, 1, 0]]
    assert log.names == ("A1", "B7", "C2")
    frames = {"table": pl.read_csv(tmp_path / "maps" / "items.csv"), "id": "item", "features": ["colour", "price"]}
    import_log(tmp_path / "log.csv", {"columns": COLUMNS, "products": frames}, tmp_path / "other.parquet")
    other = read_log(tmp_path / "other.parquet")
    assert other.products.tolist() == log.products[:, [1, 2, 3, 0]].tolist()
    assert other.categories == ()
    assert read_log(tmp_path / "log.parquet").products.tolist() == log.products.tolist()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("C2,acme,4,red", "B7,acme,4,red", r"items.csv: row 3, column item: got 'B7', expected an id that no earlier"),
        ("A1,zen", "A1,", "items.csv: row 2, column brand: got nothing, expected a value"),
        (
            "C2,acme,4,red",
            "C3,acme,4,red",
            r"log.csv: row 2, column item: got 'C2', .* a row of .*items.csv, column item",
        ),
        ("price", "prize", r"items.csv: no column 'price' .did you mean prize"),
    ],
)
def test_a_bad_table_of_products_is_named_by_row_and_column(tmp_path: Path, old: str, new: str, message: str) -> None:
    files = written(tmp_path, {"products": PRODUCTS}, items=ITEMS.replace(old, new))
    with pytest.raises(DataError, match=message):
        import_log(*files)
    assert not files[2].exists()


@pytest.mark.parametrize("price", ["", "inf", "cheap"])
def test_a_feature_that_a_product_lacks_is_one_of_its_own(tmp_path: Path, price: str) -> None:
    described = {**PRODUCTS, "features": {"price": "number", "colour": "category"}}
    items = ITEMS.replace("A1,zen,1", f"A1,zen,{price}").replace("4,red", "4,")
    import_log(*written(tmp_path, {"products": described}, items=items))
    log = read_log(tmp_path / "log.parquet")
    assert log.fitted is not None
    features = (
        "price",
        "price is missing",
        "colour is blue",
        "colour is red",
        "colour is another",
        "colour is missing",
    )
    assert log.fitted.products.features == features
    assert log.products[:, 1:].tolist() == [[1, 1, 0, 0, 0], [0, 0, 1, 0, 0], [0, 0, 0, 0, 1]]
    assert log.products[0, 0] == 0


def test_what_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none.csv: no such file"):
        import_log(*written(tmp_path, {"products": {**PRODUCTS, "table": "none.csv"}}))
    with pytest.raises(ConfigError, match=r"products\.id: missing; give it a value"):
        import_log(*written(tmp_path, {"products": {"table": "items.csv"}}))
    with pytest.raises(DataError, match=r"items.csv: column item has no row for D4; describe every candidate"):
        import_log(*written(tmp_path, {"products": PRODUCTS, "actions": ["A1", "B7", "C2", "D4"]}))
    with pytest.raises(DataError, match=r"log.csv: no column 'shwn' .did you mean shown"):
        import_log(*written(tmp_path, {"columns": {**COLUMNS, "candidates": "shwn"}}))
    with pytest.raises(ConfigError, match="got candidates and unavailable, expected one of them"):
        import_log(*written(tmp_path, {"columns": {**COLUMNS, "candidates": "shown", "unavailable": "gone"}}))


def test_a_product_without_a_description_is_skipped_when_asked(tmp_path: Path) -> None:
    table, mapping, out = written(tmp_path, {"products": PRODUCTS}, rows=ROWS + "D4,0.5,1,,\n")
    with pytest.raises(DataError, match=r"row 3, column item: got 'D4', .*; 1 of 4 rows is bad"):
        import_log(table, mapping, out)
    assert sum(import_log(table, mapping, out, skip_bad=True).skipped.values()) == 1
    assert (len(read_log(out)), read_log(out).n_actions) == (3, 3)


@pytest.mark.parametrize("column", ["candidates", "unavailable"])
@pytest.mark.parametrize("as_lists", [False, True])
def test_candidates_change_from_row_to_row(tmp_path: Path, column: str, as_lists: bool) -> None:
    theirs = {"candidates": "shown", "unavailable": "gone"}[column]
    table, mapping, out = written(tmp_path, {"columns": {**COLUMNS, column: theirs}})
    frame: Any = table
    if as_lists:
        cells = pl.col(theirs).fill_null("").str.replace_all(" ", "").str.split("|").list.drop_nulls()
        frame = pl.read_csv(table).with_columns(cells.list.filter(pl.element() != ""))
    import_log(frame, mapping, out)
    log = read_log(out)
    assert log.available(0, 3).tolist() == [[True, True, False], [True, True, True], [True, False, True]]


@pytest.mark.parametrize(
    ("old", "new", "column", "message"),
    [
        ("A1|B7", "A1|C2", "candidates", "column item: got 'B7', expected one of the row's shown"),
        (",C2\n", ",B7\n", "unavailable", r"column item: got 'B7', expected one of the row's candidates"),
        ("A1|B7", "", "candidates", "column shown: got nothing, expected at least one product"),
    ],
)
def test_a_logged_action_must_be_among_the_candidates(
    tmp_path: Path, old: str, new: str, column: str, message: str
) -> None:
    theirs = {"candidates": "shown", "unavailable": "gone"}[column]
    files = written(tmp_path, {"columns": {**COLUMNS, column: theirs}}, rows=ROWS.replace(old, new, 1))
    with pytest.raises(DataError, match=f"log.csv: row 0, {message}.*; 1 of 3 rows is bad"):
        import_log(*files)
    assert sum(import_log(*files, skip_bad=True).skipped.values()) == 1
    assert len(read_log(files[2])) == 2


class Foreign(dict[str, Any]):
    """A data frame of another library: columns by name, missing words as NaN, lists as objects."""

    columns = property(lambda self: list(self))


def test_other_data_frames_may_hold_lists_and_missing_words(tmp_path: Path) -> None:
    shown = np.empty(3, object)
    shown[:] = [["A1", "B7"], np.array(["A1", "B7", "C2"]), float("nan")]
    frame = Foreign(item=np.array(["B7", "A1", float("nan")], object), p=np.ones(3), click=np.zeros(3), shown=shown)
    with pytest.raises(DataError, match="table: row 2, column item: got nothing, expected a value"):
        import_log(frame, {"columns": {**COLUMNS, "candidates": "shown"}}, tmp_path / "log.parquet")
    import_log(frame, {"columns": {**COLUMNS, "candidates": "shown"}}, tmp_path / "log.parquet", skip_bad=True)
    log = read_log(tmp_path / "log.parquet")
    assert log.available(0, 2).tolist() == [[True, True, False], [True, True, True]]


def test_a_list_names_candidates_alone(tmp_path: Path) -> None:
    """Listed products are candidates, shown or not; with `actions` in the mapping, those alone."""
    rows = ROWS.replace("A1|B7", "A1|B7|E5")
    files = written(tmp_path, {"columns": {**COLUMNS, "candidates": "shown"}}, rows=rows)
    import_log(*files)
    assert read_log(files[2]).n_actions == 4
    files = written(tmp_path, {"columns": {**COLUMNS, "candidates": "shown"}, "actions": ["A1", "B7", "C2"]}, rows=rows)
    with pytest.raises(
        DataError, match=r"row 0, column shown: got 'A1\|B7\|E5', expected a list of products, each one"
    ):
        import_log(*files)


def shop(folder: Path, n: int = 6_000, k: int = 40) -> tuple[Path, Path, float]:
    """Write a shop where visitors click products of their own colour; return the best policy's click rate, too."""
    rng = np.random.default_rng(3)
    colours, price = np.array(["red", "blue", "gold", "jade"])[np.arange(k) % 4], rng.uniform(1.0, 9.0, k).round(2)
    visitors, there = rng.integers(4, size=n), rng.random((n, k)) < 0.8
    actions = np.array([rng.choice(np.flatnonzero(row)) for row in there])
    clicks = rng.random(n) < np.where(actions % 4 == visitors, 0.35, 0.05)
    log = {"item": [f"P{a}" for a in actions], "p": 1.0 / there.sum(axis=1), "click": clicks.astype(int)}
    listed = ["|".join(f"P{a}" for a in np.flatnonzero(row)) for row in there]
    kinds = [("ann", "bob", "cid", "dan")[v] for v in visitors]
    pl.DataFrame({**log, "shown": listed, "kind": kinds}).write_csv(folder / "log.csv")
    brands = [f"{colour} brand" for colour in colours]
    items = {"item": [f"P{a}" for a in range(k)], "brand": brands, "price": price, "colour": colours}
    pl.DataFrame(items).write_csv(folder / "items.csv")
    mapping = {"columns": {**COLUMNS, "candidates": "shown"}, "features": ["kind"], "products": PRODUCTS}
    (folder / "map.yaml").write_text(yaml.safe_dump(mapping), encoding="utf-8")
    return folder / "log.csv", folder / "map.yaml", 0.9 * 0.35 + 0.1 * 0.125


def test_from_a_table_to_a_verdict_and_a_world(tmp_path: Path) -> None:
    table, mapping, best = shop(tmp_path)
    out, page = tmp_path / "log.parquet", tmp_path / "page"
    for line in (
        ["import", str(table), str(mapping), str(out)],
        ["evaluate", str(out), "--train", "--policy", "linucb", "--policy", "linear", "--out", str(page)],
        ["fit-world", str(out), "--out", str(tmp_path / "world")],
    ):
        done = CliRunner().invoke(app, line)
        assert done.exit_code == 0, done.output
    assert "Overlap by category" in (page / "report.html").read_text(encoding="utf-8")
    world = load_world(tmp_path / "world" / "shop.world")
    assert set(world.category_names) == {f"{colour} brand" for colour in ("blue", "gold", "jade", "red")}
    assert np.bincount(world.categories).tolist() == [10] * 4
    assert len(world.facts["segments"]) == 4
    found = zoosim.evaluate(out, ["linear", "mlp"], train=True, estimators=["snips"], samples=99)
    for row in found.results:
        assert row.low is not None
        assert row.high is not None
        assert row.low < best < row.high
        assert row.value > 0.2  # logged: 0.125


@pytest.mark.parametrize(("kind", "times"), [("linear", 40), pytest.param("mlp", 100, marks=pytest.mark.slow)])
def test_learning_uses_what_products_have_in_common(tmp_path: Path, kind: str, times: int) -> None:
    """200 rows of 40 products, many times: features of products are worth clicks, 3 standard errors and more.

    Truth is known: a visitor clicks products of the own colour at 35%, others at 5%. One network learns so little from
    200 rows that a single run moves by more than the gain with another seed or rounding, hence the many. Learning that
    ignores features gains exactly 0; learning that takes them for those of other products loses, and must fail.
    """
    import_log(*shop(tmp_path, n=200 * times)[:2], tmp_path / "log.parquet")
    log = read_log(tmp_path / "log.parquet")
    mixed_up = replace(log, products=np.random.default_rng(0).permutation(log.products))
    order = np.array([int(name[1:]) for name in sorted_names(tmp_path)])
    bare, told, misled = (click_rates(part, kind, order) for part in (without(log), log, mixed_up))
    assert standard_errors_above_zero(told - bare) > 3.0  # 5.0 of 50 and 100
    assert standard_errors_above_zero(misled - bare) < 0.0  # -2.4 for mlp, -4.2 for linear


def click_rates(log: Log, kind: str, order: np.ndarray) -> np.ndarray:
    """Learn a policy from each 200 rows in turn, the network of each from another seed; return true click rates."""
    parts = [log.rows(np.arange(start, start + 200)) for start in range(0, len(log), 200)]
    return np.array([earned(learned(part, kind, seed=seed), log, order) for seed, part in enumerate(parts)])


def learned(log: Log, kind: str, seed: int) -> Any:
    policy = find_class(kind)(spec_of(log), np.random.default_rng(seed))
    policy.fit(log)
    return policy


def standard_errors_above_zero(gains: np.ndarray) -> float:
    return float(gains.mean() / (gains.std(ddof=1) / np.sqrt(len(gains))))


def sorted_names(folder: Path) -> list[str]:
    [table] = folder.glob("catalogue-*.parquet")
    return list(pl.read_parquet(table)["product_id"])


def without(log: Log) -> Log:
    return replace(log, products=np.zeros((log.n_actions, 0)))


def earned(policy: Any, log: Log, order: np.ndarray) -> float:
    """Return the policy's true click rate over the first 60 rows."""
    found = PolicyTarget(policy, log).distributions(log, 0, 60).matrix(log.n_actions)
    kind = log.features[:60].argmax(axis=1)
    return float((found * np.where(order[None, :] % 4 == kind[:, None], 0.35, 0.05)).sum(axis=1).mean())


def test_the_shared_model_is_a_ridge_of_visitors_times_traits() -> None:
    rng, n, k = np.random.default_rng(0), 300, 7
    traits, features = rng.normal(size=(k, 2)), rng.normal(size=(n, 3))
    actions = rng.integers(k, size=n)
    rewards = rng.normal(size=n)
    moments = sum_moments(ScaledRows(features, np.zeros(3), np.ones(3), actions % 2, actions), rewards, 2, k)
    x, z = np.hstack([np.ones((n, 1)), features]), np.hstack([np.ones((k, 1)), traits])
    joint = np.einsum("np,ni->npi", z[actions], x).reshape(n, -1)
    plain = np.linalg.solve(joint.T @ joint + np.eye(12), joint.T @ rewards).reshape(3, 4)
    shared = shared_first(traits).shared(moments.gram.sum(axis=0), moments.cross.sum(axis=0))
    np.testing.assert_allclose(shared, z @ plain, atol=1e-10)
    bare, by_traits = (
        fit_linear_model(features, actions, [rewards], k, np.arange(n) % FOLDS, FOLDS, shared_first(known)).coefficients
        for known in (None, traits)
    )
    assert np.abs(bare - by_traits).max() > 1e-3


def test_traits_are_what_products_differ_in() -> None:
    assert traits_of(np.zeros((5, 0))) is None
    assert traits_of(np.ones((5, 3))) is None
    line = np.arange(4.0)
    found = traits_of(np.stack([line, -3.0 * line, np.ones(4)], axis=1))
    assert found is not None
    np.testing.assert_allclose(found, (1.5 - line)[:, None] / line.std())  # the first product is on the positive side


def test_traits_of_one_size_depend_on_the_products_alone() -> None:
    """Ten products that have nothing in common have nine components of one size; of these any rotation would do.

    By hand: rows of traits, before the cut to 8, have length 3, and any two a product of -1. So the first one is
    (3, 0, ...), and the second (-1/3, sqrt(9 - 1/9), 0, ...). Rounding errors as of another processor change nothing.
    """
    found = traits_of(np.eye(10))
    assert found is not None
    assert found.shape == (10, 8)
    np.testing.assert_allclose(found[0], [3.0, *np.zeros(7)], atol=1e-12)
    np.testing.assert_allclose(found[1], [-1 / 3, np.sqrt(9 - 1 / 9), *np.zeros(6)], atol=1e-12)
    rounding = 1e-14 * np.random.default_rng(0).normal(size=(10, 10))
    np.testing.assert_allclose(traits_of(np.eye(10) + rounding), found, atol=1e-11)  # type: ignore[arg-type]


def test_traits_of_other_products_follow_from_their_features() -> None:
    """Of the same products they are the same; halfway between two of them, halfway between theirs."""
    products = np.random.default_rng(0).normal(size=(30, 12)) * np.logspace(-3, 6, 12)
    products[:, 3] = 7.0
    traits = find_traits(products)
    np.testing.assert_allclose((products - traits.mean) @ traits.weights, traits.scores, atol=1e-9)
    between = (products[0] + products[1]) / 2
    wanted = (traits.scores[0] + traits.scores[1]) / 2
    np.testing.assert_allclose((between - traits.mean) @ traits.weights, wanted, atol=1e-9)
    assert find_traits(np.ones((5, 3))).scores.shape == (5, 0)


def own_table(**changes: Any) -> pl.DataFrame:
    """Six rows of three items with numbers for names."""
    columns = {"item": [1, 2, 3] * 2, "p": [0.5] * 6, "click": [0, 1] * 3, "age": [30, 40, 50] * 2, "p_new": [0.5] * 6}
    return pl.DataFrame({**columns, **changes})


def own_items(**changes: Any) -> pl.DataFrame:
    return pl.DataFrame({"item": [1, 2, 3], "brand": ["a", "a", "b"], "price": [1.0, 2.0, 3.0], **changes})


def mapped(items: pl.DataFrame, **columns: str) -> dict[str, Any]:
    products = {"table": items, "id": "item", "category": "brand", "features": ["price"]}
    return {"columns": {**COLUMNS, **columns}, "features": ["age"], "keep": ["p_new"], "products": products}


STRANGE = pl.Series([object()] * 3, dtype=pl.Object)


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ({"price": [{"a": 1}] * 3}, "products: column price holds values of type Struct.*, expected numbers, words"),
        ({"price": STRANGE}, "products: column price holds values of type Object, expected numbers, words, times or"),
        ({"price": [b"a"] * 3}, "products: column price holds values of type Binary"),
        ({"brand": [["a"]] * 3}, "products: column brand holds values of type List"),
        ({"item": [{"a": 1}] * 3}, "products: column item holds values of type Struct"),
    ],
)
def test_columns_of_products_that_are_no_numbers_or_words_are_refused(
    tmp_path: Path, items: dict[str, Any], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        import_log(own_table(), mapped(own_items(**items)), tmp_path / "log.parquet")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"item": [[1]] * 6}, "table: column item holds values of type List.*, expected numbers or words"),
        ({"click": [[1]] * 6}, "table: column click holds values of type List"),
        ({"age": pl.Series([object()] * 6, dtype=pl.Object)}, "table: column age holds values of type Object"),
        ({"shown": [[[1]]] * 6}, "table: column shown holds values of type List.*expected numbers or words, or lists"),
        ({"item": [None] * 6}, "table: row 0, column item: got nothing, expected a value; 6 of 6 rows are bad"),
        ({"p_new": ["high", *["0.5"] * 5]}, "table: row 0, column p_new: got 'high', expected a number; 1 of 6"),
    ],
)
def test_columns_of_a_table_that_are_no_numbers_or_words_are_refused(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    columns = {"candidates": "shown"} if "shown" in changes else {}
    with pytest.raises(DataError, match=message):
        import_log(own_table(**changes), mapped(own_items(), **columns), tmp_path / "log.parquet")


def test_an_empty_table_of_products_is_refused_and_so_are_features_named_twice(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="products: got no rows, expected one for each product"):
        import_log(own_table(), mapped(own_items().head(0)), tmp_path / "log.parquet")
    for twice in ({"features": ["age", "age"]}, {"products": {**PRODUCTS, "features": ["price", "price"]}}):
        with pytest.raises(ConfigError, match=r"features: got '(age|price)' twice, expected each once"):
            import_log(own_table(), {**mapped(own_items()), **twice}, tmp_path / "log.parquet")


def test_whole_numbers_that_are_written_as_others_name_the_same_products(tmp_path: Path) -> None:
    """Other libraries write 2 as 2.0, and what is missing as NaN, which is no product and no user."""
    table = own_table(item=[1.0, 2.0, 3.0] * 2, shown=[[1.0, 2.0, 3.0]] * 6, user=[7.0, 8.0] * 3)
    columns = {"candidates": "shown", "user_id": "user"}
    import_log(table, mapped(own_items(), **columns), tmp_path / "log.parquet")
    found = pl.read_parquet(tmp_path / "log.parquet")
    assert found["product_id"].to_list() == ["1", "2", "3"] * 2
    assert found["user_id"].to_list() == [7, 8] * 3
    lacking = table.with_columns(item=pl.Series([float("nan"), 2.0, 3.0] * 2))
    with pytest.raises(DataError, match="row 0, column item: got nothing, expected a value"):
        import_log(lacking, mapped(own_items(), **columns), tmp_path / "log.parquet")


def test_a_row_that_names_no_visitor_is_of_one_of_its_own(tmp_path: Path) -> None:
    table = own_table(item=[1, 2, 3] * 2, shown=[[1, 2, 3]] * 6, user=[float("nan"), 8.0] * 3)
    columns = {"candidates": "shown", "user_id": "user"}
    imported = import_log(table, mapped(own_items(), **columns), tmp_path / "log.parquet")
    assert imported.facts["rows"].endswith("1 visitor, 3 rows without a visitor, each counted as a visitor of its own")
    users = read_log(tmp_path / "log.parquet").user_ids
    assert users is not None
    assert users[1] == users[3] == users[5]
    assert len(set(users)) == 1 + 3


def test_words_of_few_kinds_are_words(tmp_path: Path) -> None:
    items = own_items(price=pl.Series(["low", "low", "high"], dtype=pl.Categorical))
    import_log(own_table(), mapped(items), tmp_path / "log.parquet")
    assert read_log(tmp_path / "log.parquet").products.tolist() == [[0, 1, 0], [0, 1, 0], [1, 0, 0]]


SOLD = pl.DataFrame(
    {
        "item": ["A1", "B7", "C2"],
        "from": [None, "2026-03-02", "2026-03-01T12:00:00"],
        "until": ["2026-03-03T00:00:00", "", None],
    }
)
VISITS = pl.DataFrame(
    {
        "item": ["A1", "C2", "B7", "C2"],
        "click": [0, 1, 0, 1],
        "at": ["2026-03-01T11:59:59Z", "2026-03-01T12:00:00Z", "2026-03-02T00:00:00Z", "2026-03-03T00:00:00Z"],
    }
)
SALE: dict[str, Any] = {
    "columns": {"action": "item", "reward": "click", "time": "at"},
    "products": {"table": SOLD, "id": "item", "sold_from": "from", "sold_until": "until"},
}


def test_products_are_candidates_while_they_are_for_sale(tmp_path: Path) -> None:
    import_log(VISITS, SALE, tmp_path / "log.parquet")
    log = read_log(tmp_path / "log.parquet")
    assert log.names == ("A1", "B7", "C2")
    assert log.available(0, 4).tolist() == [
        [True, False, False],
        [True, False, True],
        [True, True, True],
        [False, True, True],
    ]


def test_what_was_not_for_sale_cannot_have_been_shown(tmp_path: Path) -> None:
    early = VISITS.with_columns(item=pl.Series(["C2", "A1", "B7", "C2"]))
    with pytest.raises(
        DataError, match="row 0, column item: got 'C2', expected one of the row's products that were for"
    ):
        import_log(early, SALE, tmp_path / "log.parquet")
    bad = {**SALE, "products": {**SALE["products"], "table": SOLD.with_columns(until=pl.lit("soon"))}}
    with pytest.raises(DataError, match="until"):
        import_log(VISITS, bad, tmp_path / "log.parquet")
    without_times = {**SALE, "columns": {"action": "item", "reward": "click"}}
    with pytest.raises(ConfigError, match="got no column of time"):
        import_log(VISITS, without_times, tmp_path / "log.parquet")


def test_products_that_no_row_shows_are_known_to_models_but_are_no_candidates_of_the_log(tmp_path: Path) -> None:
    """12 products are shown in 400 rows; of the 30 that the table describes a model knows all, and a log judges 12."""
    rng = np.random.default_rng(0)
    table = pl.DataFrame(
        {
            "item": [f"SKU-{k:02}" for k in rng.integers(12, size=400)],
            "p": np.full(400, 1 / 12),
            "click": rng.integers(2, size=400),
            "age": rng.integers(18, 80, 400),
        }
    )
    items = pl.DataFrame(
        {"item": [f"SKU-{k:02}" for k in range(30)], "category": ["a", "b"] * 15, "price": range(1, 31)}
    )
    stray = pl.DataFrame({"item": ["SKU-29", None, "SKU-99"], "category": ["a", "a", None], "price": [1, 2, 3]})
    imported = import_log(
        table, None, tmp_path / "log.parquet", products=pl.concat([items, stray], how="vertical_relaxed")
    )
    assert imported.facts["products"].startswith("12 shown; 18 more products of the table were never shown")

    log = read_log(tmp_path / "log.parquet")
    assert (log.n_actions, len(log.names), log.other_names[0], log.other_names[-1]) == (12, 12, "SKU-12", "SKU-29")
    trained = zoosim.train(tmp_path / "log.parquet", ["mixed-effects", "linucb"], tmp_path / "shop.zoosim")
    assert trained.evaluation is not None
    model = zoosim.load(tmp_path / "shop.zoosim")
    assert len(model.catalogue.names) == 30
    assert sum(model.propensities({"age": 30}, ["SKU-25", "SKU-01"]).values()) == pytest.approx(1.0)
    row = items.row(25, named=True)
    described = {"id": "SKU-25", "category": row["category"], "price": row["price"]}
    assert model.product_features("SKU-25").tolist() == model.product_features(described).tolist()


def test_a_catalogue_that_counts_its_candidates_wrongly_is_refused(tmp_path: Path) -> None:
    table = pl.DataFrame({"item": ["a", "b"] * 10, "p": [0.5] * 20, "click": [0, 1] * 10})
    import_log(table, {"columns": {"action": "item", "propensity": "p", "reward": "click"}}, tmp_path / "log.parquet")
    (catalogue,) = tmp_path.glob("catalogue-*.parquet")
    meta = read_meta(catalogue) | {"candidates": 3}
    write_parquet(pl.read_parquet(catalogue), catalogue, meta)
    with pytest.raises(DataError, match=r"says that 3 of its 2 products are candidates; import anew"):
        read_log(tmp_path / "log.parquet")
