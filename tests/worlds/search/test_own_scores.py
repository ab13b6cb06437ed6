"""A shop with base scores of its own: its candidates, its names, what is refused, and economics that make no sense."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from benchmarks.quality.own_search_shop import CATEGORIES, TYPES, write_shop
from zoosim.core.errors import ConfigError, DataError
from zoosim.schema.values import product_key
from zoosim.worlds.search.boosts import BoostWorld
from zoosim.worlds.search.economics import absurd_economics
from zoosim.worlds.search.expected_reward import template_rewards
from zoosim.worlds.search.shop import SearchShop
from zoosim.worlds.search.tables import read_search_config
from zoosim.worlds.search.template_arms import earnings, reward_of
from zoosim.worlds.search.world import build_search_world

SMALL = {"products": 30, "queries": 6}


def shop_of(values: dict[str, Any], seed: int = 3) -> SearchShop:
    return SearchShop(build_search_world(read_search_config(values), seed=seed))


def changed(folder: Path, name: str, change: Any) -> None:
    frame = pl.read_csv(folder / name)
    change(frame).write_csv(folder / name)


def test_categories_and_query_types_are_those_of_the_tables(tmp_path: Path) -> None:
    config = read_search_config(write_shop(tmp_path, **SMALL))
    assert sorted(config.categories) == sorted(CATEGORIES)
    assert sorted(config.query_types) == sorted(TYPES)
    assert config.categories["Coffee & Tea"].words == ["Coffee", "Tea"]
    assert sum(category.share for category in config.categories.values()) == pytest.approx(1.0)
    assert config.segments["savers"].concentrations(config.categories) == [1 / 6] * 6


def test_only_a_querys_candidates_are_ranked_by_its_own_scores(tmp_path: Path) -> None:
    shop = shop_of({**write_shop(tmp_path, **SMALL), "k": 25})
    scores = pl.read_csv(tmp_path / "scores.csv")
    names = pl.read_csv(tmp_path / "catalogue.csv")["id"].to_list()
    world = BoostWorld(shop)
    texts = set()
    for step in range(40):
        visit = world.arrive(step)
        context = world.context(visit)
        candidates = shop.candidates(visit)
        assert candidates is not None
        listed = {names[p]: score for p, score in zip(candidates, context.base_scores, strict=True)}
        [text] = (
            scores.group_by("query")
            .agg("product", "score")
            .filter(pl.col("product").list.sort() == pl.Series([sorted(listed)]))["query"]
        )
        texts.add(text)
        expected = dict(scores.filter(query=text).select("product", "score").iter_rows())
        assert listed == expected
        shown = world.rank(visit, np.zeros(10))
        assert [names[p] for p in shown] == sorted(expected, key=lambda name: (-expected[name], name))[:25]
        assert len(shown) == min(25, len(expected))
        assert context.product_ids.tolist() == [product_key(name) for name in listed]
        assert np.isfinite(context.boost_features).all()
        assert not context.boost_features[:, 3].any()  # without embeddings nobody matches
    assert len(texts) > 3


def test_templates_earn_what_they_serve(tmp_path: Path) -> None:
    """Expected rewards by replicates agree with served rewards, 2,000 visits, within 4 standard errors."""
    shop = shop_of(write_shop(tmp_path, products=60, queries=12))
    served = reward_of(shop.world.config, earnings(shop, 0, 2_000))
    expected = template_rewards(shop, 0, shop.world.queries(0, 2_000), 2)
    gap = served.mean(axis=0) - expected.mean(axis=1)
    error = np.sqrt(served.var(axis=0) / 2_000 + expected.var(axis=1) / 2_000)
    assert (np.abs(gap) < 4 * error).all()


def test_the_base_score_draws_clicks(tmp_path: Path) -> None:
    values = write_shop(tmp_path, products=60, queries=12)
    clicks = []
    for weight in (0.0, 1.5):
        shop = shop_of({**values, "behaviour": {**values["behaviour"], "score": weight}})
        visits = [shop.arrive(step) for step in range(600)]
        clicks.append(np.mean([shop.serve(visit, visit.baseline).outcome.clicks[0] for visit in visits]))
    assert clicks[1] > clicks[0] + 0.2


def test_columns_that_are_not_there_have_defaults(tmp_path: Path) -> None:
    values = write_shop(tmp_path, **SMALL)
    changed(tmp_path, "catalogue.csv", lambda frame: frame.select("id", "price"))
    config = read_search_config(values)
    catalogue = build_search_world(config, seed=0).catalogue
    assert list(config.categories) == ["all"]
    assert catalogue.cm2 == pytest.approx(0.1 * catalogue.price)
    assert not catalogue.label.any()
    assert not catalogue.discount.any()
    assert not catalogue.bestseller.any()


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("scores.csv", lambda f: f.drop("score"), "no column score; expected query, product, score"),
        (
            "scores.csv",
            lambda f: f.with_columns(product=pl.lit("SKU-9")),
            "unknown product 'SKU-9'; list it in the cat",
        ),
        (
            "scores.csv",
            lambda f: f.with_columns(pl.col("query").replace("wine 0", "tv")),
            "unknown query 'tv'; list it in",
        ),
        ("scores.csv", lambda f: pl.concat([f, f.head(1)]), "query and product are there more than once"),
        ("scores.csv", lambda f: f.filter(pl.col("query") != "wine 0"), "no candidate for the query 'wine 0'"),
        ("scores.csv", lambda f: f.with_columns(score=None), "column score holds String, expected numbers"),
        ("queries.csv", lambda f: pl.concat([f, f.head(1)]), "a query is there more than once; list each once"),
        ("queries.csv", lambda f: f.with_columns(type=pl.lit("brand")).head(6), ""),
        ("catalogue.csv", lambda f: pl.concat([f, f.head(1)]), "id SKU-0000 is there more than once"),
    ],
)
def test_tables_that_are_refused(tmp_path: Path, name: str, change: Any, message: str) -> None:
    values = write_shop(tmp_path, **SMALL)
    changed(tmp_path, name, change)
    if not message:
        read_search_config(values)  # a built-in type of query, which needs no entry
        return
    with pytest.raises(DataError, match=message):
        build_search_world(read_search_config(values), seed=0)


def test_scores_need_products_and_queries(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="scores_file: needs the products and queries that it scores"):
        read_search_config({"scores_file": write_shop(tmp_path, **SMALL)["scores_file"]})


def test_a_sound_shop_has_sound_economics(tmp_path: Path) -> None:
    assert absurd_economics(read_search_config(write_shop(tmp_path, products=60, queries=12))) == ()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"behaviour": {"purchase_bias": -60.0}}, "no purchases at all"),
        ({"behaviour": {"intercept": -60.0}}, "no purchases at all"),
        (
            {"segments": {"a": {"share": 0.5}, "b": {"share": 0.5, "price_taste_mean": -9.0}}},
            "segment b earns 0.00 a visit from the base ranking: every product is out of its budget",
        ),
        (
            {"categories": {"x": {"cm2_slope": -0.3}}, "segments": {"a": {}}},
            "every product's CM2 is below",
        ),
    ],
)
def test_absurd_economics_are_told(change: dict[str, Any], message: str) -> None:
    config = read_search_config({"n_products": 60, "cm2_sd": 0.0, **change})
    assert any(line.startswith(message) for line in absurd_economics(config))


def test_the_built_in_shop_has_a_segment_that_earns_nothing() -> None:
    """It is as the page of keys says, and is told as soon as a figure changes, here a weight that moves no purchase."""
    assert absurd_economics(read_search_config({"n_products": 1_000})) == ()
    served = absurd_economics(read_search_config({"n_products": 1_000, "reward": {"strategic": 1.0}}))
    assert served == ("segment price_hunter earns 0.00 a visit from the base ranking",)
