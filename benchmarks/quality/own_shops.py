"""Q8: what policies trained on a shop's log are really worth, beside what other libraries make of the same features.

Twenty shops of `examples/shop`, of which the truth is known: 50,000 impressions of 300 products, 4% clicked. What is
trained on the earliest 40,000 decides for 2,000 later visits, by its best guess, without exploring.
"""

import sys
import tempfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

import zoosim
from benchmarks.peers import on_logs
from benchmarks.peers.on_logs import Scores
from examples.shop import shop as example
from zoosim.api.logs import new_policy
from zoosim.core.statistics import mean_interval
from zoosim.core.types import Context, FloatArray
from zoosim.logs.load import load_log
from zoosim.logs.log import Log
from zoosim.off_policy.training import earlier_and_later

SEEDS, VISITS, SHARE = range(1000, 1020), 2_000, 0.8
PICKED = "what `train` picks"
POLICIES = ("mixed-effects", "linear", "linucb", "adaptive")
PEERS = {
    "logistic regression": on_logs.logistic_regression,
    "LightGBM": on_logs.lightgbm,
    "Vowpal Wabbit": on_logs.vowpal_wabbit,
}


class Shop(NamedTuple):
    """A shop's log, the part to train on, visitors to decide for `(m, d_u)`, and their true click rates `(m, K)`."""

    table: Path
    log: Log
    earlier: Log
    visitors: FloatArray
    rates: FloatArray


def main() -> None:
    """Print the true click rate of what each learns, as a share of the best choice of each visit, over the shops."""
    shares: dict[str, list[float]] = {}
    picked: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        for seed in SEEDS:
            visits = example.make_log(example.make_shop(seed), seed + 1)[:VISITS]
            shop = open_shop(Path(folder), seed, visits)
            values = {name: _value(shop, train_policy(shop, name)) for name in POLICIES}
            pick = zoosim.train(shop.table, POLICIES).policy
            picked.append(values[pick] / max(values.values()))
            values[PICKED] = values[pick]
            values |= {name: _value(shop, fit(shop.earlier)) for name, fit in PEERS.items()}
            best = float(shop.rates.max(axis=1).mean())
            for name, value in values.items():
                shares.setdefault(name, []).append(value / best)
            shown = ", ".join(f"{name} {value / best:.3f}" for name, value in values.items())
            print(f"Q8 shop {seed} of {SEEDS[-1]}: picked {pick}; {shown}", file=sys.stderr, flush=True)
    for name, of_shops in shares.items():
        print(f"Q8 {name}: {_interval(of_shops)} of the best choice's clicks")
    for name in PEERS:
        gains = [ours - theirs for ours, theirs in zip(shares[PICKED], shares[name], strict=True)]
        print(f"Q8 {PICKED} less {name}, paired over {len(gains)} shops: {_interval(gains)}")
    print(f"Q8 {PICKED}, beside the best of {len(POLICIES)}: {_interval(picked)}, at least {min(picked):.1%}")


def _interval(values: list[float]) -> str:
    mean, low, high = mean_interval(values)
    return f"{mean:.1%} ({low:.1%} to {high:.1%})"


def open_shop(folder: Path, seed: int, visits: pl.DataFrame) -> Shop:
    """Make a shop's tables, import its log, and encode the visitors of later `visits` as the log's are."""
    example.make(folder, seed)
    schema = {
        "columns": {"action": "item", "propensity": "propensity", "time": "at", "user_id": "customer"},
        "rewards": {"click": "click", "revenue": "revenue"},
        "features": {"country": "category", "age": "number", "member": "yes/no", "device": "category"},
        "products": {
            "table": str(folder / "products.csv"),
            "id": "item",
            "category": "category",
            "features": ["category", "brand", "price"],
        },
    }
    table, later = folder / "log.parquet", folder / "later.csv"
    zoosim.import_log(folder / "shop.csv", schema, table)
    truth = example.make_shop(seed)
    visits.write_csv(later)
    zoosim.import_log(later, schema, folder / "later.parquet", like=table)
    log = load_log(table)
    visitor_rows = _places(truth.visitors["customer"], visits["customer"])
    product_rows = _places(truth.products["item"], log.names)
    rates = truth.click_rates[np.ix_(visitor_rows, product_rows)]
    return Shop(table, log, earlier_and_later(log, SHARE)[0], load_log(folder / "later.parquet").features, rates)


def _places(names: Iterable[str], wanted: Iterable[str]) -> list[int]:
    """Return where each of the `wanted` names stands among `names`."""
    place = {name: number for number, name in enumerate(names)}
    return [place[name] for name in wanted]


def _value(shop: Shop, scores: Scores) -> float:
    """Return the true click rate of the products with the highest scores."""
    kinds, kind = np.unique(shop.visitors, axis=0, return_inverse=True)
    chosen = scores(kinds).argmax(axis=1)[kind]
    return float(shop.rates[np.arange(len(chosen)), chosen].mean())


def train_policy(shop: Shop, name: str) -> Scores:
    """Train one of our policies on the earlier rows; its recommendation scores 1."""
    policy = new_policy(name, name, shop.log, 0)
    policy.fit(replace(shop.earlier, user_ids=None))
    n_products = shop.log.n_actions
    candidates = {"product_ids": shop.log.product_ids, "products": shop.log.products}

    def scores(visitors: FloatArray) -> FloatArray:
        available = np.ones(n_products, bool)
        contexts = (Context(user_id=0, user=user, available=available, **candidates) for user in visitors)
        return np.eye(n_products)[[policy.recommend(context) for context in contexts]]

    return scores
