"""Columns that depend on the product shown, or tell its reward, are found; what the shop goes by is none of these."""

from typing import Any

import numpy as np
import polars as pl
import pytest

from benchmarks.quality import leaks
from zoosim.core.types import FloatArray
from zoosim.schema.leaks import ERRORS, LogSample, _levels, dependence, known_too_late, sample_log, separation
from zoosim.schema.schema import infer_schema

K = 20


def make_log(n: int = 6_000, seed: int = 0, strength: float = 2.0) -> tuple[pl.DataFrame, FloatArray]:
    """Return a log of a shop that personalises by `taste`, and the probabilities of all products `(n, K)`."""
    rng = np.random.default_rng(seed)
    visitor = rng.integers(0, n // 4, n)
    taste = rng.normal(size=n // 4)[visitor]
    logits = strength * taste[:, None] * np.linspace(-1.0, 1.0, K) + rng.normal(size=K)
    chances = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    chances = 0.8 * chances + 0.2 / K
    shown = (chances.cumsum(axis=1) < rng.random(n)[:, None]).sum(axis=1)
    click = rng.random(n) < 0.05
    columns = {"item": shown, "p": chances[np.arange(n), shown], "click": click.astype(int), "taste": taste}
    return pl.DataFrame({"customer": visitor, **columns, "noise": rng.normal(size=n)}), chances


def sample(log: pl.DataFrame, **columns: Any) -> LogSample:
    made = sample_log(log, "item", ["click"], **{"propensity": "p", "visitor": "customer", **columns})
    assert made is not None
    return made


def errors(log: pl.DataFrame, column: pl.Series) -> float:
    return dependence(*_levels(column), sample(log))


def test_what_the_shop_goes_by_does_not_depend_on_the_product_beyond_its_probability() -> None:
    """Over 20 logs the statistics of sound columns have about mean 0 (the larger of two: .6) and spread 1; with
    probabilities that are wrong, the shop's own column stands out by far."""
    sound, wrong = [], []
    for seed in range(20):
        log, _ = make_log(seed=seed)
        sound += [errors(log, log["taste"]), errors(log, log["noise"])]
        wrong.append(errors(log.with_columns(p=pl.lit(1.0 / K)), log["taste"]))
    assert max(sound) < ERRORS
    assert -0.2 < np.mean(sound) < 1.2
    assert min(wrong) > 10.0


def test_another_policys_probability_of_the_product_shown_is_found() -> None:
    log, chances = make_log()
    rng = np.random.default_rng(1)
    other = np.roll(chances, 5, axis=1)[np.arange(log.height), log["item"].to_numpy()] * rng.uniform(
        0.7, 1.3, log.height
    )
    reason = known_too_late(pl.Series("p_new", other), sample(log))
    assert reason.startswith("depends on the item shown beyond its probability (")
    assert known_too_late(log["taste"], sample(log)) == ""


def test_products_that_come_and_go_leave_columns_of_time_sound() -> None:
    """Half of the products are for sale in the first half of the rows alone, so that time and product go together."""
    log, _ = make_log(strength=0.0)
    rng = np.random.default_rng(2)
    n = log.height
    item = rng.integers(0, K // 2, n) + np.where(np.arange(n) < n // 2, 0, K // 2)
    day = pl.Series("day", np.arange(n) // 100)
    changing = log.with_columns(item=pl.Series(item), p=pl.lit(2.0 / K))
    assert known_too_late(day, sample(changing)) == ""


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("noisy", "tells click too well to be known before the product is chosen (AUC 0."),
        ("counter", "changes with click at the same visit (AUC "),
        ("copy", "follows from click"),
        ("missing", "follows from click"),
        ("price", "has one value for each item"),
    ],
)
def test_what_tells_a_reward_or_the_product_is_found(kind: str, words: str) -> None:
    log, _ = make_log(n=12_000)
    rng = np.random.default_rng(3)
    click = log["click"].to_numpy()
    order, first = leaks._in_order(log["customer"].to_numpy())
    until = leaks._before(click.astype(float), order, first) + click
    columns = {
        "noisy": click + rng.normal(0.0, 0.5, len(click)),
        "counter": 40.0 * rng.integers(0, 50, 3_000)[log["customer"].to_numpy()] + until,
        "copy": np.where(click, "left", "stayed"),
        "missing": np.where(click, rng.integers(1, 9, len(click)).astype(str), ""),
        "price": 1.5 * log["item"].to_numpy(),
    }
    assert words in known_too_late(pl.Series(columns[kind]), sample(log))
    before = leaks._before(click.astype(float), order, first)
    assert known_too_late(pl.Series(before), sample(log)) == ""


def test_the_area_is_that_of_pairs_in_order() -> None:
    """A level of which all rows are rewarded, and one of which none is: 1; levels by chance are too few to say: 0."""
    log, _ = make_log()
    rewarded = log["click"].to_numpy().astype(bool)
    assert separation(rewarded.astype(np.int64), rewarded, sample(log)) == 1.0
    assert separation(np.arange(log.height) % 7, rewarded, sample(log)) == 0.0


def test_without_propensities_only_what_the_product_nearly_settles_is_found() -> None:
    log, _ = make_log()
    rng = np.random.default_rng(4)
    bare = sample(log, propensity=None)
    price = log["item"].to_numpy() * rng.choice([0.9, 1.0], log.height)
    assert known_too_late(pl.Series("price", price), bare).startswith("is settled by the item shown (9")
    assert known_too_late(log["taste"], bare) == ""


def test_long_tables_are_tested_by_some_of_their_visitors() -> None:
    """120,000 rows: a copy of the reward and a number by product are found, a feature of the visitor is not taken."""
    rng = np.random.default_rng(0)
    log = pl.DataFrame(
        {
            "item": rng.integers(50, size=120_000),
            "click": (rng.random(120_000) < 0.04).astype(int),
            "customer": rng.integers(0, 30_000, 120_000),
            "age": rng.integers(18, 80, 120_000),
        }
    )
    some = sample(log, propensity=None)
    assert 20_000 < len(some.rows) < 30_000
    assert (some.previous >= 0).mean() > 0.6
    assert known_too_late(log["click"].alias("bought"), some).startswith("follows from click")
    assert known_too_late((log["item"] * 3).alias("shelf"), some).startswith("has one value for each item")
    assert known_too_late(log["age"], some) == ""


def test_the_benchmark_finds_leaks_and_leaves_sound_columns() -> None:
    table, leaking, fine = leaks.make_table(0, 6_000)
    features = infer_schema(table)[0].features
    assert len(leaking) == 12
    assert not [kind for kind, name in leaking.items() if name in features]
    assert not [kind for kind, name in fine.items() if name not in features]


def test_the_benchmark_leaves_sound_columns_where_countries_see_products_of_their_own() -> None:
    table, _, fine = leaks.make_table(0, 6_000, by_country=True)
    features = infer_schema(table)[0].features
    assert not [kind for kind, name in fine.items() if name not in features]


def test_rows_that_name_no_visitor_are_of_visitors_of_their_own() -> None:
    log, _ = make_log()
    anonymous = log.with_columns(customer=pl.when(pl.int_range(pl.len()) % 2 == 0).then(None).otherwise("customer"))
    made = sample(anonymous)
    assert len(set(made.visitors)) == log.height // 2 + log["customer"].gather_every(2, 1).n_unique()
    assert (made.previous[::2] == -1).all()
    assert known_too_late(log["taste"], made) == ""


@pytest.mark.parametrize("how", ["by country", "by country and member", "by nothing that the log has"])
def test_columns_are_sound_where_products_are_shown_to_some_visitors_only(how: str) -> None:
    """Each country, or each country's members, see products of their own: 40 to 60 of 70, each as often; the price of
    the product shown, at a discount, is a leak nevertheless."""
    log = assortments_log(how)
    features = infer_schema(log)[0].features
    assert {"country", "member", "town", "age"} <= features.keys()
    assert "paid" not in features


def assortments_log(how: str, n: int = 20_000) -> pl.DataFrame:
    """Return a log of a shop that shows each segment all of its products alike."""
    rng = np.random.default_rng(5)
    country, member = rng.integers(0, 3, n), rng.random(n) < 0.4
    segment = {"by country": country, "by country and member": 2 * country + member}.get(how, rng.integers(0, 6, n))
    sees = np.zeros((6, 70), bool)
    for row, size in zip(sees, (60, 40, 40, 50, 45, 55), strict=True):
        row[rng.choice(70, size, replace=False)] = True
    chances = sees[segment] / sees[segment].sum(axis=1, keepdims=True)
    item = (chances.cumsum(axis=1) < rng.random(n)[:, None] - 1e-9).sum(axis=1)
    return pl.DataFrame(
        {
            "item": item,
            "propensity": chances[np.arange(n), item],
            "click": (rng.random(n) < 0.05).astype(int),
            "user_id": np.arange(n),
            "country": np.array(["DE", "AT", "CH"])[country],
            "member": np.where(member, "yes", "no"),
            "town": [f"town {number}" for number in 3 * rng.integers(0, 200, n) + country],
            "age": np.where(rng.random(n) < 0.1, np.nan, np.round(rng.normal(40.0 + 5.0 * country, 12.0))),
            "paid": np.round(rng.lognormal(3.0, 0.5, 70)[item] * rng.uniform(0.7, 1.3, n), 2),
        }
    )


def test_long_tables_of_hardly_any_visitors_are_tested_too() -> None:
    """60,000 rows of guests: other rows than all of some visitors are tested, and halves of the rows compared."""
    log, chances = make_log(n=60_000)
    guests = log.with_columns(customer=pl.lit("guest"))
    made = sample(guests)
    assert len(made.rows) == 25_000
    other = np.roll(chances, 5, axis=1)[np.arange(log.height), log["item"].to_numpy()]
    assert known_too_late(pl.Series("p_new", other), made).startswith("depends on the item shown")
    assert known_too_late(guests["taste"], made) == ""
