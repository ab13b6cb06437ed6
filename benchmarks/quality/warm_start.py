"""Q20: is `adaptive` that has read a log never worse than the model that the log gives, and better in the end?

ZOOSIM_SHOPS sets another number of shops.
"""

import os
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

import zoosim
from benchmarks.quality.retail_shops import VISITS, draw_visits, schema, write_shop
from zoosim.core.rng import stream
from zoosim.core.statistics import mean_interval
from zoosim.core.types import Context, FloatArray, IntArray, frozen
from zoosim.logs.log import Log
from zoosim.logs.parse import read_log
from zoosim.off_policy.targets.products import spec_of
from zoosim.policies.base import Policy, logged_context
from zoosim.policies.registry import find_class

SHOPS, FIRST = 20, 1_000
HORIZONS = (1_000, 10_000, 30_000)
CONTESTANTS = ("warm adaptive", "cold adaptive")


EVERYTHING = frozen(np.ones(600, bool))
"""The mask of requests in which all products may be shown: a shop has 600 at most."""


class LoggedShop(NamedTuple):
    """A shop's log of n rows, and the true probability of a click of each row's visitor on each product `(n, K)`."""

    log: Log
    customers: IntArray
    rates: FloatArray

    def context(self, row: int) -> Context:
        """Return the request of a row, with the whole catalogue as candidates."""
        return logged_context(self.log, row, EVERYTHING[: self.log.n_actions])

    def rate(self, row: int, action: int) -> float:
        """Return the true probability that the visitor of a row clicks a product."""
        return float(self.rates[self.customers[row], action])


def main() -> None:
    """Print mean rewards as ratios to the fixed model's, over the first visits after a log of 60,000."""
    ratios = {(name, horizon): list[float]() for name in CONTESTANTS for horizon in HORIZONS}
    rewards = []
    shops = int(os.environ.get("ZOOSIM_SHOPS", SHOPS))
    for seed in range(FIRST, FIRST + shops):
        earned = rewards_by_visit(seed, VISITS, HORIZONS[-1])
        rewards.append(earned["mixed-effects"].mean())
        for name, horizon in ratios:
            model = earned["mixed-effects"][:horizon].mean()
            ratios[name, horizon].append(earned[name][:horizon].mean() / model)
        of_shop = ", ".join(f"{name} {of_shops[-1]:.3f}" for (name, _), of_shops in ratios.items())
        print(f"Q20: shop {seed - FIRST + 1} of {shops}: {of_shop}", file=sys.stderr, flush=True)
    print(f"Q20 warm start: mixed-effects earns {np.mean(rewards):.4f} clicks a visit over {shops} shops")
    for (name, horizon), of_shops in ratios.items():
        mean, low, high = mean_interval(of_shops)
        print(
            f"Q20 warm start, {name} over the first {horizon:,} visits: {mean:.3f} of mixed-effects ({low:.3f} to "
            f"{high:.3f}), worst shop {min(of_shops):.3f}"
        )


def rewards_by_visit(seed: int, rows: int, visits: int) -> dict[str, FloatArray]:
    """Return the true expected reward of each visit `(visits,)` after a log of so many rows, by policy.

    All meet the same visitors, and where they show the same, the same clicks.
    """
    shop = logged_shop(seed, rows)
    model, warm, cold = (_new(name, shop.log, seed) for name in ("mixed-effects", "adaptive", "adaptive"))
    model.fit(shop.log)
    warm.fit(shop.log)
    visitors = stream(seed, "visitors").integers(len(shop.log), size=visits)
    clicks = stream(seed, "clicks").random(visits)
    fixed = [shop.rate(row, model.recommend(shop.context(row))) for row in visitors]
    return {
        "mixed-effects": np.array(fixed),
        "warm adaptive": _play(warm, shop, visitors, clicks),
        "cold adaptive": _play(cold, shop, visitors, clicks),
    }


def logged_shop(seed: int, rows: int) -> LoggedShop:
    """Draw a shop and import its log of so many rows, without saying who the visitors are."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shop = write_shop(folder, seed, rows)
        zoosim.import_log(folder / "shop.csv", schema(folder), folder / "shop.parquet")
        log = replace(read_log(folder / "shop.parquet"), user_ids=None)
    _, customers, _ = draw_visits(shop, rows)
    skus = shop.products["sku"].to_list()
    return LoggedShop(log, customers, shop.click_rates[:, [skus.index(name) for name in log.names]])


def _new(name: str, log: Log, seed: int) -> Policy:
    return find_class(name)(spec_of(log), stream(seed, "policy", name))


def _play(policy: Policy, shop: LoggedShop, visitors: IntArray, clicks: FloatArray) -> FloatArray:
    """Let a policy decide and learn, and return the true expected reward of each visit."""
    earned = np.empty(len(visitors))
    for visit, row in enumerate(visitors):
        context = shop.context(row)
        action = int(policy.select_action(context))
        earned[visit] = shop.rate(row, action)
        policy.update(context, action, float(clicks[visit] < earned[visit]))
    return earned
