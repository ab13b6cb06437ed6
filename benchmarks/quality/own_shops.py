"""Q8: what policies trained on a shop's log are really worth, beside what other libraries make of the same features.

Twenty shops of `examples/shop`, of which the truth is known: 50,000 impressions of 300 products, 4% clicked. What is
trained on the earliest 40,000 decides for 2,000 later visits, by its best guess, without exploring.
"""

import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

import zoosim
from benchmarks.quality import peers
from benchmarks.quality.peers import Scores
from examples.shop import shop as example
from zoosim.api.logs import new_policy
from zoosim.core.statistics import mean_interval
from zoosim.core.types import Context, FloatArray
from zoosim.logs.load import load_log
from zoosim.logs.log import Log
from zoosim.off_policy.training import earlier_and_later

SEEDS, VISITS, SHARE = range(1000, 1020), 2_000, 0.8
POLICIES = ("mixed-effects", "linear", "linucb", "adaptive")
PEERS = {
    "logistic regression": (peers.logistic_regression, len(SEEDS)),
    "LightGBM": (peers.lightgbm, len(SEEDS)),
    "Vowpal Wabbit": (peers.vowpal_wabbit, 4),
}
"""How each peer is fitted, and to how many of the shops: Vowpal Wabbit takes two minutes for one."""


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
            shop = open_shop(Path(folder), seed)
            values = {name: _value(shop, _policy(shop, name)) for name in POLICIES}
            pick = zoosim.train(shop.table, POLICIES).policy
            picked.append(values[pick] / max(values.values()))
            fitted = {name: fit for name, (fit, shops) in PEERS.items() if seed - SEEDS[0] < shops}
            values |= {name: _value(shop, fit(shop.earlier)) for name, fit in fitted.items()}
            best = float(shop.rates.max(axis=1).mean())
            for name, value in values.items():
                shares.setdefault(name, []).append(value / best)
            shown = ", ".join(f"{name} {value / best:.3f}" for name, value in values.items())
            print(f"Q8 shop {seed} of {SEEDS[-1]}: picked {pick}; {shown}", file=sys.stderr, flush=True)
    for name, of_shops in shares.items():
        print(f"Q8 {name}: {_interval(of_shops)} of the best choice's clicks")
    for name in PEERS:
        gains = [ours - theirs for ours, theirs in zip(shares["mixed-effects"], shares[name], strict=False)]
        print(f"Q8 mixed-effects less {name}, paired over {len(gains)} shops: {_interval(gains)}")
    print(f"Q8 what `train` picks, beside the best of {len(POLICIES)}: {_interval(picked)}, at least {min(picked):.1%}")


def _interval(values: list[float]) -> str:
    mean, low, high = mean_interval(values)
    return f"{mean:.1%} ({low:.1%} to {high:.1%})"


def open_shop(folder: Path, seed: int) -> Shop:
    """Make a shop's tables, import its log, and encode the visitors to decide for as the log's are."""
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
    visits = example.make_log(truth, seed + 1)[:VISITS]
    visits.write_csv(later)
    zoosim.import_log(later, schema, folder / "later.parquet", like=table)
    log = load_log(table)
    rows = pl.Series(truth.visitors["customer"]).to_list()
    products = truth.products["item"].to_list()
    visitor_rows = [rows.index(customer) for customer in visits["customer"]]
    product_rows = [products.index(name) for name in log.names]
    rates = truth.click_rates[np.ix_(visitor_rows, product_rows)]
    return Shop(table, log, earlier_and_later(log, SHARE)[0], load_log(folder / "later.parquet").features, rates)


def _value(shop: Shop, scores: Scores) -> float:
    """Return the true click rate of the products with the highest scores."""
    kinds, kind = np.unique(shop.visitors, axis=0, return_inverse=True)
    chosen = scores(kinds).argmax(axis=1)[kind]
    return float(shop.rates[np.arange(len(chosen)), chosen].mean())


def _policy(shop: Shop, name: str) -> Scores:
    """Train one of our policies; its recommendation scores 1."""
    policy = new_policy(name, name, shop.log, 0)
    policy.fit(replace(shop.earlier, user_ids=None))
    n_products = shop.log.n_actions
    candidates = {"product_ids": shop.log.product_ids, "products": shop.log.products}

    def scores(visitors: FloatArray) -> FloatArray:
        available = np.ones(n_products, bool)
        contexts = (Context(user_id=0, user=user, available=available, **candidates) for user in visitors)
        return np.eye(n_products)[[policy.recommend(context) for context in contexts]]

    return scores
