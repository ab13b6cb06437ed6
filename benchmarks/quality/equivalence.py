"""Q19: does `fit-world` say "agrees" where it should, and only there? 20 retail shops whose truth is known.

Each shop writes 60,000 rows, to which a world is fitted. What logged and uniform choices earn in it is compared with
the log, as it is and scaled by known factors: worlds that are off on purpose, by up to three times the margin.
"""

import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

import zoosim
from benchmarks.quality.retail_shops import SCHEMA, VISITS, RetailShop, draw_shop, draw_visits
from zoosim.core.statistics import mean_interval
from zoosim.core.types import IntArray
from zoosim.fitting.checks import compare_with_log, logged_values, shop_values
from zoosim.fitting.equivalence import MARGIN, compare_values
from zoosim.fitting.fit import fit_shop, with_reward
from zoosim.logs.load import load_log

SEEDS = range(1000, 1020)
FACTORS = (0.7, 0.76, 0.82, 0.88, 0.94, 1.0, 1.06, 1.12, 1.18, 1.24, 1.3)
"""By which what choices earn in a world is multiplied."""

NAMES = ("logged choices", "uniform choices")


class Answer(NamedTuple):
    """What is said of a world whose value of some choices is `off`, as a share of the logged value, by a `factor`."""

    choices: str
    factor: float
    off: float
    agrees: bool | None


def main(seeds: range = SEEDS, visits: int = VISITS) -> None:
    """Print how often worlds are said to agree, by how far they are off."""
    answers = []
    for number, seed in enumerate(seeds, 1):
        with threadpool_limits(1):
            answers += answers_of(seed, visits)
        print(f"Q19 shop {seed}: {number} of {len(seeds)}", file=sys.stderr)
    report(answers)


def report(answers: list[Answer]) -> None:
    """Print shares of answers, of all worlds and of those that are as they were fitted."""
    for name in NAMES:
        fitted = [row for row in answers if row.choices == name and row.factor == 1.0]
        mean, low, high = mean_interval([row.off for row in fitted])
        agree, differ, untold = (sum(row.agrees is said for row in fitted) for said in (True, False, None))
        said = f"{agree} agree, {differ} differ, {untold} cannot be told"
        print(f"Q19 {name} in {len(fitted)} fitted worlds: off by {mean:+.1%} ({low:+.1%} to {high:+.1%}); {said}")
    for name in (*NAMES, "both"):
        rows = [row for row in answers if name in (row.choices, "both")]
        bounds = {"more than the margin": (MARGIN, np.inf), "a third of the margin to all of it": (MARGIN / 3, MARGIN)}
        for words, (low, high) in {**bounds, "less than a third of the margin": (0.0, MARGIN / 3)}.items():
            within = [row.agrees for row in rows if low <= abs(row.off) < high]
            if not within:
                continue
            shares = [np.mean([said is answer for said in within]) for answer in (True, False, None)]
            said = f"agree {shares[0]:.1%}, differ {shares[1]:.1%}, cannot be told {shares[2]:.1%}"
            print(f"Q19 {name}, worlds off by {words}: {said} of {len(within)}")


def answers_of(seed: int, visits: int = VISITS) -> list[Answer]:
    """Fit a world to a shop's log, and ask whether it and worlds scaled by `FACTORS` agree with the log."""
    shop = draw_shop(seed, visits)
    table, customer, _ = draw_visits(shop, visits)
    products = {"table": shop.products, "id": "sku", "category": "category"}
    schema = {**SCHEMA, "products": {**products, "features": ["category", "brand", "price"]}}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.parquet"
        zoosim.import_log(table, schema, path)
        log = with_reward(load_log(path, columns=["click"]), "click").in_order()
    world = fit_shop(log, reward="click", seed=seed).shop
    logged = logged_values(world, log.actions)
    uniform = shop_values(world, seed=seed).products.mean(axis=1)
    draws = (logged, uniform)
    answers = []
    for row, values, truth in zip(
        compare_with_log(log, *draws, seed=seed), draws, _truths(shop, customer), strict=True
    ):
        assert row.log is not None
        for factor in FACTORS:
            mean, error = (factor * float(part) for part in (values.mean(), values.std() / np.sqrt(len(values))))
            said = compare_values(mean, error, row.log, float(log.rewards.mean()), len(log))
            answers.append(Answer(row.policy, factor, (mean - truth.value) / truth.logged, said.agrees))
    return answers


class Truth(NamedTuple):
    """What some choices earn in truth, and what the logged ones do."""

    value: float
    logged: float


def _truths(shop: RetailShop, customer: IntArray) -> tuple[Truth, Truth]:
    """Return what logged and uniform choices earn for the customers who came, in expectation."""
    shares = np.bincount(customer, minlength=len(shop.customers)) / len(customer)
    logged = float(shares @ (shop.click_rates * shop.propensities).sum(axis=1))
    return Truth(logged, logged), Truth(float(shares @ shop.click_rates.mean(axis=1)), logged)
