"""Q18: columns that leak the product shown, or its reward, into visitors' features, and sound columns, at import.

Twenty retail shops of 20,000 visits, which personalise what they show. To each table come 12 columns that nobody knows
before the choice, and 16 that somebody does, among them what the shop itself goes by; none has a name that tells.
Printed is how many of each kind `zoosim import` leaves out, with and without logged propensities, and with them where
each country has an assortment of its own; and what a model earns with one leak in and with it left out.
"""

import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import zoosim
from benchmarks.quality import retail_shops
from benchmarks.quality.retail_shops import RetailShop
from zoosim.core.types import FloatArray, IntArray
from zoosim.schema.schema import infer_schema

SEEDS, VISITS, JUDGED = range(1000, 1020), 20_000, 2_000
OTHER_POLICY = "other policy's probability"
GIVEN = ("country", "age", "device", "member", "favourite", "orders_before")


def main() -> None:
    """Print how many leaks are found, how many sound columns are left out, and what a leak costs a model."""
    print(report(SEEDS, VISITS))
    print(cost_of_a_leak(SEEDS[0], VISITS))


def report(seeds: Iterable[int], visits: int) -> str:
    """Return a line per kind of leak, and one of the sound columns."""
    outcomes: dict[str, dict[str, list[bool]]] = {}
    sound: dict[str, dict[str, list[bool]]] = {}
    for seed in seeds:
        print(f"Q18: shop {seed}", file=sys.stderr)
        table, leaks, fine = make_table(seed, visits)
        by_country, _, _ = make_table(seed, visits, by_country=True)
        logs = {"all products": table, "by country": by_country, "no propensities": table.drop("propensity")}
        for label, log in logs.items():
            features = infer_schema(log)[0].features
            for kind, name in leaks.items():
                outcomes.setdefault(label, {}).setdefault(kind, []).append(name not in features)
            for kind, name in fine.items():
                sound.setdefault(label, {}).setdefault(kind, []).append(name not in features)
    lines = [f"{'leak':<34}" + "".join(f"{label:>20}" for label in outcomes)]
    for kind in outcomes["no propensities"]:
        lines.append(f"{kind:<34}" + "".join(f"{_share(by[kind]):>20}" for by in outcomes.values()))
    lines.append(f"{'all leaks':<34}" + "".join(f"{_share(_all(by)):>20}" for by in outcomes.values()))
    lines.append(f"{'sound columns left out':<34}" + "".join(f"{_share(_all(by)):>20}" for by in sound.values()))
    for kind in sound["no propensities"]:
        if any(any(by[kind]) for by in sound.values()):
            lines.append(f"  {kind:<32}" + "".join(f"{_share(by[kind]):>20}" for by in sound.values()))
    return "\n".join(lines)


def _all(by_kind: dict[str, list[bool]]) -> list[bool]:
    return [one for several in by_kind.values() for one in several]


def _share(outcomes: list[bool]) -> str:
    return f"{sum(outcomes)} of {len(outcomes)} ({100 * np.mean(outcomes):.1f}%)"


def make_table(
    seed: int, visits: int, *, by_country: bool = False
) -> tuple[pl.DataFrame, dict[str, str], dict[str, str]]:
    """Return a shop's table, and the columns that leak and those that do not, by kind.

    Where products differ `by_country`, each country sees 40 to 90% of them.
    """
    shop = retail_shops.draw_shop(seed, visits)
    if by_country:
        shop = replace(shop, propensities=_within_countries(shop, np.random.default_rng([seed, 19])))
    table, customer, shown = retail_shops.draw_visits(shop, visits)
    rng = np.random.default_rng([seed, 18])
    leaking = dict(_leaks(shop, table, customer, shown, rng))
    fine = dict(_sound(shop, table, customer, shown, rng))
    names = {kind: f"x{number:02}" for number, kind in enumerate(rng.permutation([*leaking, *fine]).tolist())}
    columns = {names[kind]: pl.Series(values) for kind, values in {**leaking, **fine}.items()}
    given = {name: name for name in GIVEN}
    table = table.with_columns(**dict(sorted(columns.items())))
    return table, {kind: names[kind] for kind in leaking}, given | {kind: names[kind] for kind in fine}


def _within_countries(shop: RetailShop, rng: np.random.Generator) -> FloatArray:
    """Return the propensities `(n, K)` of a shop that shows each country some of the products only."""
    names, country = np.unique(shop.customers["country"].to_numpy(), return_inverse=True)
    sees = rng.random((len(names), len(shop.products))) < rng.uniform(0.4, 0.9, (len(names), 1))
    within = shop.propensities * sees[country]
    return np.asarray(within / within.sum(axis=1, keepdims=True))


def _leaks(
    shop: RetailShop, table: pl.DataFrame, customer: IntArray, shown: IntArray, rng: np.random.Generator
) -> Iterator[tuple[str, Any]]:
    n = len(shown)
    clicked = table["clicked"].to_numpy().astype(bool)
    revenue = table["revenue"].to_numpy()
    price = shop.products["price"].to_numpy()[shown]
    margin = shop.products["margin"].to_numpy()[shown]
    logged = table["propensity"].to_numpy()
    yield "target, in other words", np.where(clicked, "left", "stayed")
    yield "target with noise", clicked + rng.normal(0.0, 0.4, n)
    yield "clicks of the visitor, later too", np.bincount(customer, clicked, minlength=len(shop.customers))[customer]
    yield OTHER_POLICY, other_policy(shop, rng)[customer, shown]
    rank = (shop.propensities[customer] > logged[:, None]).sum(axis=1)
    yield "position, of what the shop prefers", 1 + rank // 40 + rng.integers(0, 2, n)
    yield "margin of the product, in EUR", np.round(price * margin * rng.choice([0.8, 0.9, 1.0], n), 2)
    yield "price of the product, discounted", np.round(price * rng.choice([0.9, 1.0], n, p=[0.1, 0.9]), 2)
    yield (
        "number that holds the product",
        1_000 * rng.permutation(len(shop.products))[shown] + rng.integers(0, 1_000, n),
    )
    category = shop.products["category"].to_numpy()[shown]
    yield "category of the product", np.where(rng.random(n) < 0.1, "", category)
    bucket = np.where(revenue > 20.0, "large", "small")
    yield "basket, mostly missing without one", np.where((revenue > 0.0) | (rng.random(n) < 0.0005), bucket, "")
    yield "seconds on the page", np.round(np.exp(rng.normal(np.where(clicked, 4.0, 1.8), 0.8)), 1)
    yield "the shop's own probability, rounded", np.round(logged * rng.uniform(0.8, 1.25, n), 5)


def other_policy(shop: RetailShop, rng: np.random.Generator) -> FloatArray:
    """Return the probabilities `(n, K)` of a policy that knows some of what customers like."""
    opinion = 1.5 * np.log(shop.click_rates) + rng.normal(0.0, 0.7, shop.click_rates.shape[1])
    chances = np.exp(opinion - opinion.max(axis=1, keepdims=True))
    return np.asarray(chances / chances.sum(axis=1, keepdims=True))


def _sound(
    shop: RetailShop, table: pl.DataFrame, customer: IntArray, shown: IntArray, rng: np.random.Generator
) -> Iterator[tuple[str, Any]]:
    n, n_customers = len(shown), len(shop.customers)
    clicked = table["clicked"].to_numpy().astype(float)
    seconds = table["shown_at"].dt.epoch("s").to_numpy()
    order, first = _in_order(customer)
    yield "noise", rng.normal(size=n)
    yield "noise, of many words", [f"w{number}" for number in rng.integers(0, n // 8, n)]
    yield "noise, 80% missing", pl.Series(np.where(rng.random(n) < 0.8, np.nan, rng.random(n))).fill_nan(None)
    yield "hour of the day", seconds // 3600 % 24
    yield "day of the week", np.array(["Mo", "Tu", "We", "Th", "Fr", "Sa", "Su"])[seconds // 86_400 % 7]
    yield "days since the shop opened", 400 + (seconds - seconds[0]) // 86_400
    yield "visits before", _before(np.ones(n), order, first)
    yield "clicks before", _before(clicked, order, first)
    previous = np.full(n, -1)
    previous[order[~first]] = order[np.flatnonzero(~first) - 1]
    gone = np.where(previous >= 0, (seconds - seconds[previous]) / 86_400, np.nan)
    yield "days since the visit before", pl.Series(gone).fill_nan(None)
    last = np.where(previous >= 0, shop.products["sku"].to_numpy()[shown[previous]], "")
    yield "product of the visit before", last
    yield "town of the visitor", [f"town {number}" for number in rng.integers(0, 1_500, n_customers)[customer]]
    yield "the visitor's own rate of clicks", np.round((shop.propensities * shop.click_rates).sum(axis=1)[customer], 5)
    yield "how sure the shop is", np.round(-(shop.propensities**2).sum(axis=1)[customer], 6)
    categories = shop.products["category"].to_numpy()
    names = np.unique(categories)
    liked = np.stack([shop.propensities[:, categories == name].sum(axis=1) for name in names], axis=1)
    yield "the category that the shop prefers", names[(liked / liked.mean(axis=0)).argmax(axis=1)][customer]
    preferred = (shop.propensities / shop.propensities.mean(axis=0)).argmax(axis=1)
    yield (
        "the product that the shop prefers",
        shop.products["sku"].to_numpy()[preferred][customer],
    )
    yield "campaign", [f"campaign {number}" for number in rng.integers(0, 40, n)]


def _in_order(customer: IntArray) -> tuple[IntArray, Any]:
    """Return the visits by customer, in order of time, and which of these are a customer's first."""
    order = np.argsort(customer, kind="stable")
    return order, np.r_[True, np.diff(customer[order]) != 0]


def _before(values: FloatArray, order: IntArray, first: Any) -> FloatArray:
    """Return the sum of a customer's values before each visit."""
    sums = np.cumsum(values[order]) - values[order]
    starts = np.maximum.accumulate(np.where(first, np.arange(len(order)), 0))
    before = np.empty(len(order))
    before[order] = sums - sums[starts]
    return before


def cost_of_a_leak(seed: int, visits: int) -> str:
    """Return what `mixed-effects` earns with the other policy's probability among its features, and without."""
    shop = retail_shops.draw_shop(seed, visits)
    table, customer, shown = retail_shops.draw_visits(shop, visits)
    leaking = other_policy(shop, np.random.default_rng([seed, 18]))[customer, shown]
    judged = np.random.default_rng(seed).choice(len(shop.customers), JUDGED)
    values = {}
    with tempfile.TemporaryDirectory() as folder:
        shop.products.write_csv(Path(folder) / "products.csv")
        schema = retail_shops.schema(Path(folder))
        for label, features in (("out", schema["features"]), ("in", {**schema["features"], "p_new": "number"})):
            log = Path(folder) / f"{label}.parquet"
            zoosim.import_log(table.with_columns(p_new=leaking), {**schema, "features": features}, log)
            model = zoosim.train(log, ["mixed-effects"]).model
            place = {sku: row for row, sku in enumerate(shop.products["sku"])}
            rows = shop.customers[judged].to_dicts()
            chosen = [place[model.recommend(row)] for row in rows]
            values[label] = float(shop.click_rates[judged, chosen].mean())
    today = float((shop.propensities * shop.click_rates)[judged].sum(axis=1).mean())
    return (
        f"shop {seed}, true clicks a visit: today {today:.4f}, mixed-effects {values['out']:.4f}, with the "
        f"{OTHER_POLICY} of the product shown among the visitor's columns {values['in']:.4f}"
    )
