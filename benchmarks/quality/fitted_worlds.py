"""Q11: is a world fitted to a log the shop that wrote it? 20 shops of examples/shop, whose truth is known."""

import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
from scipy import stats
from threadpoolctl import threadpool_limits

from examples.shop import shop as example
from zoosim.api.shops import import_log
from zoosim.core.statistics import mean_interval
from zoosim.core.types import Context, FloatArray, IntArray
from zoosim.fitting.checks import logged_values, shop_values
from zoosim.fitting.fit import fit_shop
from zoosim.logs.load import load_log
from zoosim.logs.log import Log
from zoosim.off_policy import spec_of
from zoosim.policies.from_log.linear import Linear
from zoosim.schema.schema import infer_products, infer_schema
from zoosim.worlds.fitted.shop import FittedShop

SEEDS = range(1000, 1020)
VISITS, DRAWS = 2_000, 40
"""Visits and draws of the fitted world by which policies are valued."""

NOISE = 0.5
"""Standard deviation of what is added to true logits for a policy that is good but not the best."""

TAILS = (0.025, 0.975)
POLICIES = ("uniform", "logged", "most clicked product", "best category of a country", "linear", "truth and noise")


class Fitted(NamedTuple):
    """What a shop's fitted world says: true and fitted values of `POLICIES` and of the oracle, which intervals hold."""

    truth: FloatArray
    values: FloatArray
    holds: tuple[bool, bool, bool]
    oracle: tuple[float, float]


def main(seeds: range = SEEDS) -> None:
    """Print how the order of policies, their values and the oracle in fitted worlds compare with the true ones."""
    shops = []
    for seed in seeds:
        with threadpool_limits(1):
            shops.append(compare(seed))
        print(f"Q11 shop {seed}: {len(shops)} of {len(seeds)}", file=sys.stderr)
    taus = [float(stats.kendalltau(shop.truth, shop.values).statistic) for shop in shops]
    mean, low, high = mean_interval(taus)
    print(f"Q11 order of {len(POLICIES)} policies, Kendall's tau: {mean:.3f} ({low:.3f} to {high:.3f})")
    for place, name in enumerate(POLICIES):
        ratios = [shop.values[place] / shop.truth[place] for shop in shops]
        mean, low, high = mean_interval(ratios)
        true_mean = np.mean([shop.truth[place] for shop in shops])
        print(f"Q11 {name}: true {true_mean:.4f}, fitted over true {mean:.3f} ({low:.3f} to {high:.3f})")
    ratios = [fitted / true for fitted, true in (shop.oracle for shop in shops)]
    print("Q11 oracle: fitted over true {:.3f} ({:.3f} to {:.3f})".format(*mean_interval(ratios)))
    for place, name in enumerate(("uniform", "logged", "oracle")):
        count = sum(shop.holds[place] for shop in shops)
        bounds = stats.binomtest(count, len(shops)).proportion_ci()
        held = f"{count} of {len(shops)} ({bounds.low:.0%} to {bounds.high:.0%})"
        print(f"Q11 95% interval of {name} holds the true value: {held}")


def compare(seed: int) -> Fitted:
    """Fit a world to a shop's log, and compare it with the truth."""
    shop = example.make_shop(seed)
    table = example.make_log(shop, seed)
    log = _imported(shop, table)
    fitted = fit_shop(log, seed=seed).shop
    true_rates = _by_log_products(shop.click_rates, shop, log)
    visitor = {name: row for row, name in enumerate(shop.visitors["customer"])}
    visitors = np.array([visitor[name] for name in table["customer"]])
    visits = np.random.default_rng(seed).choice(len(log), VISITS, replace=False)
    chances = _policies(log, visits, visitors, true_rates, _by_log_products(example.logging_policy(shop), shop, log))
    truth = np.array([(chance * true_rates[visitors[visits]]).sum(axis=1).mean() for chance in chances])
    values = np.mean([_values(fitted, chances, visits, number) for number in range(DRAWS)], axis=0)
    world = shop_values(fitted, seed=seed)
    of_visits = true_rates[visitors]
    # The log fixed what was shown, so the truth of the logged choices is that of these very rows.
    true_values = (of_visits.mean(), of_visits[np.arange(len(log)), log.actions].mean(), of_visits.max(axis=1).mean())
    draws = (world.products.mean(axis=1), logged_values(fitted, log.actions), world.best)
    holds = [bool(_holds(of_draws, float(true))) for of_draws, true in zip(draws, true_values, strict=True)]
    return Fitted(truth, values, (holds[0], holds[1], holds[2]), (float(world.best.mean()), float(true_values[2])))


def _holds(draws: FloatArray, true: float) -> bool:
    low, high = np.quantile(draws, TAILS)
    return bool(low <= true <= high)


def _values(fitted: FittedShop, chances: list[FloatArray], visits: IntArray, number: int) -> FloatArray:
    """Return what each policy earns in a draw of a fitted world."""
    rewards = fitted.expected_rewards(fitted.draw(number), visits)
    return np.array([(chance * rewards).sum(axis=1).mean() for chance in chances])


def _policies(
    log: Log, visits: IntArray, visitors: IntArray, true_rates: FloatArray, logging: FloatArray
) -> list[FloatArray]:
    """Return how likely each of `POLICIES` shows each product at some visits `(n, K)`."""
    n, n_products = len(visits), log.n_actions
    counts = np.bincount(log.actions, minlength=n_products)
    clicks = np.bincount(log.actions, log.rewards, n_products)
    rates = (clicks + 2.0) / (counts + 2.0 / log.rewards.mean())
    most_clicked = np.tile(np.eye(n_products)[rates.argmax()], (n, 1))
    policy = Linear(spec_of(log), np.random.default_rng(0))
    policy.fit(log.rows(np.arange(len(log)) < len(log) // 2))
    linear = np.array([policy.propensities(_context(log, visit)) for visit in visits])
    noise = np.random.default_rng(1).normal(0.0, NOISE, true_rates.shape)
    noisy = (np.log(true_rates) + noise)[visitors[visits]].argmax(axis=1)
    return [
        np.full((n, n_products), 1.0 / n_products),
        logging[visitors[visits]],
        most_clicked,
        _best_category(log, visits),
        linear,
        np.eye(n_products)[noisy],
    ]


def _context(log: Log, visit: int) -> Context:
    """Return a visit as policies see it."""
    return Context(
        user_id=0,
        user=log.features[visit],
        product_ids=log.product_ids,
        products=log.products,
        available=np.ones(log.n_actions, bool),
    )


def _best_category(log: Log, visits: IntArray) -> FloatArray:
    """Return a policy that shows any product of the category that was clicked most often in the visitor's country."""
    is_country = [number for number, name in enumerate(log.visitor_features) if name.startswith("country ")]
    country = log.features[:, is_country].argmax(axis=1)
    names, category = np.unique(log.categories, return_inverse=True)
    cells = country * len(names) + category[log.actions]
    size = len(is_country) * len(names)
    rates = np.bincount(cells, log.rewards, size) / np.maximum(np.bincount(cells, minlength=size), 1)
    best = rates.reshape(len(is_country), -1).argmax(axis=1)
    members = (category[None, :] == best[:, None]).astype(float)
    return np.asarray((members / members.sum(axis=1, keepdims=True))[country[visits]])


def _imported(shop: example.Shop, table: pl.DataFrame) -> Log:
    """Return the log of a shop as `zoosim import` makes it."""
    schema, _ = infer_schema(table)
    columns, _ = infer_products(shop.products, "products", "products")
    schema = schema.model_copy(update={"products": columns.model_copy(update={"table": shop.products})})
    with tempfile.TemporaryDirectory() as folder:
        import_log(table, schema, Path(folder) / "log.parquet")
        return load_log(Path(folder) / "log.parquet")


def _by_log_products(values: FloatArray, shop: example.Shop, log: Log) -> FloatArray:
    """Return values of a shop's products `(n, K)` in the order of a log's products."""
    names = list(shop.products["item"])
    return np.asarray(values[:, [names.index(name) for name in log.names]])
