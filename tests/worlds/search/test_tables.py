"""A shop's own catalogue, users and queries: what is read, what is drawn beside it, and what is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from zoosim.core.errors import DataError
from zoosim.core.search_config import SearchConfig
from zoosim.envs.search_env import SearchEnv
from zoosim.worlds.search.tables import digest
from zoosim.worlds.search.world import SearchWorld, build_search_world

PRODUCTS: dict[str, list[Any]] = {
    "id": [70, 30, 50],
    "category": ["toys", "litter", "dog_food"],
    "price": [5, 12, 30],
    "cm2": [1.0, -0.4, 3.5],
    "discount": [0.0, 0.2, 0.0],
    "private_label": [True, False, False],
    "bestseller": [0.5, 2.0, 1.0],
}
USERS: dict[str, list[Any]] = {
    "segment": ["premium", "price_hunter", "pl_lover", "litter_heavy", "price_hunter"],
    "price_taste": [1.0, -3.0, -2.0, -1.0, -3.5],
    "label_taste": [-2.0, -1.0, 3.0, 1.0, -1.5],
    "taste_dog_food": [2.0, 1.0, 1.0, 1.0, 0.0],
    "taste_cat_food": [2.0, 1.0, 1.0, 0.0, 0.0],
    "taste_litter": [0.0, 1.0, 1.0, 9.0, 0.0],
    "taste_toys": [0.0, 1.0, 1.0, 0.0, 1.0],
}


QUERIES: dict[str, list[Any]] = {
    "query": ["Cat treats", "dog food dry", "litter!", "cat food"],
    "category": ["cat_food", "dog_food", "litter", "cat_food"],
    "type": ["generic", "category", "brand", "category"],
    "weight": [1.0, 5.0, 1.0, 3.0],
}


def written(folder: Path, columns: dict[str, list[Any]], name: str = "table.csv") -> str:
    frame = pl.DataFrame(columns, strict=False)
    path = folder / name
    if name.endswith(".csv"):
        frame.write_csv(path)
    else:
        frame.write_parquet(path)
    return str(path)


def embeddings(rows: int, dim: int) -> dict[str, list[float]]:
    return {f"e{n}": [float(10 * row + n) for row in range(rows)] for n in range(dim)}


def world(**config: Any) -> SearchWorld:
    return build_search_world(SearchConfig(**config), seed=2)


@pytest.mark.parametrize("name", ["table.csv", "table.parquet"])
def test_a_catalogue_of_ones_own(tmp_path: Path, name: str) -> None:
    shop = world(catalogue_file=written(tmp_path, PRODUCTS | embeddings(3, 4), name), n_users=40, embedding_dim=4)
    c = shop.catalogue
    assert (shop.config.n_products, c.ids.tolist(), c.category.tolist()) == (3, [70, 30, 50], [3, 2, 0])
    assert (c.price.tolist(), c.cm2.tolist(), c.discount.tolist()) == ([5, 12, 30], [1, -0.4, 3.5], [0, 0.2, 0])
    assert (c.label.tolist(), c.strategic.tolist()) == ([1, 0, 0], [False, True, False])
    assert c.embeddings[:, 1].tolist() == [10, 11, 12, 13]


def test_embeddings_are_drawn_where_there_are_none(tmp_path: Path) -> None:
    shop = world(catalogue_file=written(tmp_path, PRODUCTS), users_file=written(tmp_path, USERS, "users.csv"))
    assert (shop.catalogue.embeddings.shape, shop.users.embeddings.shape) == ((16, 3), (5, 16))
    again = world(catalogue_file=str(tmp_path / "table.csv"), users_file=str(tmp_path / "users.csv"))
    assert np.array_equal(shop.catalogue.embeddings, again.catalogue.embeddings)


def test_users_of_ones_own_come_by_segment(tmp_path: Path) -> None:
    shop = world(users_file=written(tmp_path, USERS), n_products=30)
    u = shop.users
    assert (u.segment.tolist(), u.bounds.tolist()) == ([0, 0, 1, 2, 3], [0, 2, 3, 4, 5])
    assert u.price_taste.tolist() == [-3.0, -3.5, -2.0, 1.0, -1.0]
    assert u.category_tastes[3].tolist() == [0.5, 0.5, 0, 0]
    visits = shop.queries(0, 2_000)
    assert set(visits.intents[visits.users == 3]) == {0, 1}
    assert np.mean(u.segment[visits.users] == 0) == pytest.approx(0.35, abs=0.04)


def test_an_environment_shows_ones_own_products(tmp_path: Path) -> None:
    env = SearchEnv({"catalogue_file": written(tmp_path, PRODUCTS), "n_users": 20})
    context, _ = env.reset(seed=0)
    assert context in env.observation_space
    assert sorted(env.step(np.zeros(10))[4]["feedback"]["shown"].tolist()) == [30, 50, 70]


def test_a_file_that_changes_is_read_again(tmp_path: Path) -> None:
    file = written(tmp_path, PRODUCTS)
    before = digest(SearchConfig(catalogue_file=file))
    first = world(catalogue_file=file)
    written(tmp_path, {**PRODUCTS, "price": [6, 12, 30]})
    assert digest(SearchConfig(catalogue_file=file)) != before
    assert (first.catalogue.price[0], world(catalogue_file=file).catalogue.price[0]) == (5, 6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"price": None}, "no column price; expected id, price"),
        ({"id": [1, 2, 1]}, "id 1 is there more than once; give each product its own"),
        ({"id": [1.5, 2, 3]}, "column id holds Float64, expected whole numbers or texts"),
        ({"id": [1, -2, 3]}, "row 2, column id: got -2, expected 0 to 2^62"),
        ({"category": [["toys"], ["toys"], []]}, "column category holds List(String), expected texts"),
        ({"category": ["sofas", None, "lamps"]}, "row 2, column category: is empty, expected a text"),
        ({"category": ["toys", " ", "toys"]}, "row 2, column category: is empty, expected a text"),
        ({"private_label": [0, 1, 2]}, "row 3, column private_label: got 2, expected 0 or 1"),
        ({"cm2": [1.0, 1e200, 1.0]}, "row 2, column cm2: got 1e+200, expected a number from -1e+09 to 1e+09"),
        ({"category": ["toys", "food", "toys"]}, "row 2: unknown category 'food'; known: dog_food, cat_food"),
        ({"price": [5, -1, 30]}, "row 2, column price: got -1, expected a number from 0 to 1e+09"),
        ({"price": [5, None, 30]}, "row 2, column price: got nothing, expected a number from 0 to 1e+09"),
        ({"price": ["a", "b", "c"]}, "column price holds String, expected numbers"),
        ({"discount": [0, 0, 30]}, "row 3, column discount: got 30, expected a number from 0 to 1"),
        ({"e0": [1, 2, 3]}, "got 1 columns of embeddings, expected e0 to e15 (embedding_dim)"),
        ({name: [] for name in PRODUCTS}, "holds no products; give at least one row"),
    ],
)
def test_catalogues_that_are_refused(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    columns = {name: column for name, column in (PRODUCTS | change).items() if column is not None}
    with pytest.raises(DataError) as refusal:
        world(catalogue_file=written(tmp_path, columns, "mine.parquet"))
    assert message in str(refusal.value)
    assert "mine.parquet" in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"taste_toys": None}, "no column taste_toys; expected segment, price_taste, label_taste, taste_dog_food"),
        ({"segment": ["premium"] * 5}, "no user of segment price_hunter; add some, or set its share to 0"),
        ({"segment": ["rich"] * 5}, "row 1: unknown segment 'rich'; known: price_hunter"),
        ({"taste_toys": [0.0] * 5}, "row 5 has no taste for any category"),
        (
            {"price_taste": [1, 2, float("inf"), 4, 5]},
            "row 3, column price_taste: got inf, expected a number from -1e+09 to 1e+09",
        ),
    ],
)
def test_users_that_are_refused(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    columns = {name: column for name, column in (USERS | change).items() if column is not None}
    with pytest.raises(DataError) as refusal:
        world(users_file=written(tmp_path, columns, "mine.parquet"), n_products=30)
    assert message in str(refusal.value)


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file; give a CSV or Parquet file"):
        SearchEnv({"catalogue_file": str(tmp_path / "none.csv")})
    (tmp_path / "broken.parquet").write_bytes(b"PAR1")
    with pytest.raises(DataError, match="cannot be read as Parquet"):
        SearchEnv({"users_file": str(tmp_path / "broken.parquet")})


def test_queries_of_ones_own(tmp_path: Path) -> None:
    """Sorted by category: dog food dry; Cat treats, cat food; litter. Shared words by category: dog and food, ..."""
    shop = world(queries_file=written(tmp_path, QUERIES), n_products=30)
    assert shop.table.types.tolist() == [0, 2, 0, 1]
    np.testing.assert_allclose(shop.table.mix, np.array([[1, 0, 0], [0.75, 0, 0.25], [0, 1, 0], [0, 0, 0]]))
    np.testing.assert_allclose(shop.table.weights, [1.0, 0.25, 1.0, 1.0])
    assert shop.table.shared.tolist() == [[2, 1, 0, 0], [0, 1, 0, 0], [1, 2, 0, 0], [0, 0, 1, 0]]
    visits = shop.queries(0, 4_000)
    assert set(visits.intents) == {0, 1, 2}  # nobody can ask for toys
    assert np.array_equal(visits.types, shop.table.types[visits.rows])
    cats = visits.rows[visits.intents == 1]
    assert np.mean(cats == 2) == pytest.approx(0.75, abs=4 * np.sqrt(0.75 * 0.25 / len(cats)))
    wanted = shop.users.category_tastes[visits.users]
    expected = (wanted[:, 0] / wanted[:, :3].sum(axis=1)).mean()
    assert np.mean(visits.intents == 0) == pytest.approx(expected, abs=4 * np.sqrt(0.25 / 4_000))


def test_embeddings_of_queries_are_those_of_the_file(tmp_path: Path) -> None:
    shop = world(queries_file=written(tmp_path, QUERIES | embeddings(4, 2)), n_products=30, embedding_dim=2)
    visits = shop.queries(0, 50)
    rows = {0: [10.0, 11.0], 1: [0.0, 1.0], 2: [30.0, 31.0], 3: [20.0, 21.0]}
    assert visits.embeddings.tolist() == [rows[row] for row in visits.rows.tolist()]


def test_who_likes_nothing_that_can_be_asked_for_asks_for_something(tmp_path: Path) -> None:
    """The last price hunter likes toys alone, which no query means."""
    shop = world(
        queries_file=written(tmp_path, QUERIES), users_file=written(tmp_path, USERS, "users.csv"), n_products=30
    )
    visits = shop.queries(0, 2_000)
    assert set(visits.intents[visits.users == 1]) == {0, 1, 2}


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"query": ["a"], "category": ["toys"]}, "no column type; expected query, category, type"),
        (QUERIES | {"category": ["cats"] * 4}, "row 1: unknown category 'cats'; known: dog_food"),
        (QUERIES | {"type": ["generic", "vague", "brand", "brand"]}, "row 2: unknown type 'vague'; known: category"),
        (QUERIES | {"weight": [1.0, 2.0, 0.0, 1.0]}, "row 3, column weight: got 0, expected a number from 1e-09"),
        (QUERIES | {"query": ["a", None, "b", "c"]}, "row 2, column query: is empty, expected a text"),
        ({"query": [], "category": [], "type": []}, "holds no queries; give at least one row"),
    ],
)
def test_queries_that_are_refused(tmp_path: Path, columns: dict[str, list[Any]], message: str) -> None:
    with pytest.raises(DataError) as refusal:
        world(queries_file=written(tmp_path, columns), n_products=30)
    assert message in str(refusal.value)


def test_results_of_other_queries_are_not_mixed(tmp_path: Path) -> None:
    first = digest(SearchConfig(queries_file=written(tmp_path, QUERIES)))
    other = QUERIES | {"weight": [2.0, 5.0, 1.0, 3.0]}
    assert first != digest(SearchConfig(queries_file=written(tmp_path, other)))
