"""A retriever from a table: trained, judged by later rows, written, and used."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import zoosim
from zoosim.core.errors import ConfigError, DataError
from zoosim.retrieval import Retriever

PRODUCTS, NEVER = 120, 10


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Import the table of a shop in which visitors of a country like one category, the younger the cheaper."""
    folder = tmp_path_factory.mktemp("shop")
    rng = np.random.default_rng(0)
    n = 12_000
    categories = rng.integers(0, 4, PRODUCTS)
    price = rng.normal(size=PRODUCTS)
    countries = rng.integers(0, 4, n)
    age = rng.normal(size=n)
    shown = rng.integers(0, PRODUCTS - NEVER, n)
    log_odds = -2.5 + 2.0 * (categories[shown] == countries) + age * price[shown]
    clicked = (rng.random(n) < 1 / (1 + np.exp(-log_odds))).astype(int)
    table = pl.DataFrame(
        {
            "item": [f"p{product}" for product in shown],
            "country": np.array(["de", "fr", "it", "es"])[countries],
            "age": age,
            "clicked": clicked,
            "revenue": clicked * 12.5,
            "propensity": np.full(n, 1 / (PRODUCTS - NEVER)),
        }
    )
    items = pl.DataFrame(
        {"item": [f"p{k}" for k in range(PRODUCTS)], "kind": [f"k{c}" for c in categories], "price": price}
    )
    items.write_csv(folder / "items.csv")
    schema = {
        "columns": {"action": "item", "propensity": "propensity"},
        "rewards": {"click": "clicked", "revenue": "revenue"},
        "features": ["country", "age"],
        "products": {"table": str(folder / "items.csv"), "id": "item", "features": ["kind", "price"]},
    }
    zoosim.import_log(table, schema, folder / "shop.parquet")
    return folder / "shop.parquet"


@pytest.fixture(scope="module")
def trained(log: Path) -> Retriever:
    return zoosim.train_retriever(log, log.with_suffix(".retriever"), progress=None)


def test_it_finds_more_of_later_clicks_than_popularity_and_says_so(trained: Retriever) -> None:
    judged = trained.facts["judged"]
    ways = {way["name"]: way for way in judged["ways"]}
    assert ways["retriever"]["low"] > ways["popularity"]["high"]
    assert ways["retriever"]["log_loss"] < ways["category rule"]["log_loss"] < ways["popularity"]["log_loss"]
    assert judged["k"] == PRODUCTS // 10
    assert judged["weighed"]
    assert trained.facts["passes"] == 10
    assert "popularity" in repr(trained)
    assert (trained.facts["rows"], trained.facts["never_shown"]) == (12_000, NEVER)


def test_products_that_were_never_shown_are_found_for_those_who_would_like_them(trained: Retriever) -> None:
    items = pl.read_csv(Path(trained.facts["log"]).parent / "items.csv")
    kinds = dict(zip(items["item"], items["kind"], strict=True))
    place = {name: number for number, name in enumerate(trained.names)}
    assert sorted(trained.names) == sorted(kinds)
    never = [f"p{number}" for number in range(PRODUCTS - NEVER, PRODUCTS)]
    for number, country in enumerate(["de", "fr", "it", "es"]):
        scores = trained.vectors @ trained.query({"country": country, "age": 0.0})
        likes = [scores[place[name]] for name in never if kinds[name] == f"k{number}"]
        others = [scores[place[name]] for name in never if kinds[name] != f"k{number}"]
        assert not likes or min(likes) > max(others)


def test_the_file_finds_the_same_and_training_again_gives_the_same(log: Path, trained: Retriever) -> None:
    assert Retriever.load(log.with_suffix(".retriever")).version == trained.version
    assert zoosim.train_retriever(log, progress=None).version == trained.version
    assert zoosim.train_retriever(log, passes=10, seed=1, progress=None).version != trained.version


def test_bad_options_are_refused_before_anything_is_read() -> None:
    for option, expected in (
        ({"candidates": 0}, "candidates: got 0"),
        ({"width": 1_000}, "width: got 1000"),
        ({"passes": 0}, "passes: got 0"),
        ({"share": 1.0}, "share: got 1.0"),
        ({"out": "shop.zoosim"}, "shop.zoosim"),
    ):
        with pytest.raises(ConfigError, match=expected):
            zoosim.train_retriever("none.parquet", progress=None, **option)


def test_rewards_that_are_no_clicks_are_refused(log: Path) -> None:
    with pytest.raises(DataError, match=r"got 12.5 as revenue, expected clicks, 0 or 1"):
        zoosim.train_retriever(log, reward="revenue", progress=None)
    with pytest.raises(ConfigError, match="the log has no 'purchase'"):
        zoosim.train_retriever(log, reward="purchase", progress=None)
