"""Q10: are behaviour and policies' values found again from a log of searches? In shops of own tables with known truth.

Each seed has a shop of 180 products and 40 queries, and a log of 10,000 searches with random boosts. A search world is
fitted to it, and `item-critic` trained on the first 8,000 searches, judged by the others, and valued in the true shop.
Then come shops that no search world can express (`foreign_search_fit`).
"""

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

import zoosim
from benchmarks.quality import foreign_search_fit
from benchmarks.quality.own_search_shop import SEGMENTS, write_shop
from zoosim.api.runs import write_log
from zoosim.core.search_config import Behaviour, QueryType, SearchConfig
from zoosim.core.statistics import mean_interval
from zoosim.core.types import FloatArray
from zoosim.fitting.search_world import FittedSearchWorld
from zoosim.policies.boost_model import BoostModel
from zoosim.worlds.search.boosts import BoostWorld
from zoosim.worlds.search.expected_reward import template_rewards
from zoosim.worlds.search.shop import SearchShop
from zoosim.worlds.search.tables import read_search_config
from zoosim.worlds.search.world import build_search_world

SEEDS = range(1000, 1012)
SEARCHES = 10_000
VALUED = 2_000
"""Searches, beyond those of the log, by which values in a shop are computed."""

REPLICATES = 4
TASTE_SD = 0.25
"""How much users of a segment differ in their taste for price."""

POSITIONS = 5
"""Positions whose examination is compared: few visitors come further."""


class Recovery(NamedTuple):
    """What was found again in one shop.

    `estimates`, `errors` and `truths (P,)` of behaviour by name; the rewards of the templates `(8,)` in the `true` and
    in the `fitted` shop; what the log earned, and of the trained model the estimated value with its interval, and the
    true one.
    """

    names: tuple[str, ...]
    estimates: FloatArray
    errors: FloatArray
    truths: FloatArray
    true: FloatArray
    fitted: FloatArray
    logged: float
    value: float
    interval: tuple[float, float]
    model: float


def main() -> None:
    """Print estimates against truths, and values in fitted shops and by the log against those in the true ones."""
    found = []
    for seed in SEEDS:
        found.append(recover(seed))
        print(f"Q10 shop {seed}: {len(found)} of {len(SEEDS)}", file=sys.stderr)
    report(found)
    foreign_search_fit.main()


def report(found: Sequence[Recovery]) -> None:
    """Print what was found again in some shops, with 95% intervals over them."""
    for number, name in enumerate(found[0].names):
        gaps = np.array([(row.estimates - row.truths)[number] for row in found])
        errors = np.array([row.errors[number] for row in found])
        mean, low, high = mean_interval(gaps.tolist())
        held = np.mean(np.abs(gaps) <= 1.96 * errors)
        off = f"off by {mean:+.3f} ({low:+.3f} to {high:+.3f})"
        print(f"Q10 {name}: truth {found[0].truths[number]:.2f}, {off}, covered {held:.0%}")
    gaps = np.concatenate([np.abs(row.estimates - row.truths) / row.errors for row in found])
    print(f"Q10 all of them: covered {np.mean(gaps <= 1.96):.1%} of {len(gaps)}")
    tau = mean_interval([float(stats.kendalltau(row.true, row.fitted).statistic) for row in found])
    print(f"Q10 order of 8 templates in the fitted shop: Kendall's tau {tau[0]:.2f} ({tau[1]:.2f} to {tau[2]:.2f})")
    gap = mean_interval([float(np.mean(row.fitted / row.true - 1.0)) for row in found])
    print(f"Q10 what templates earn there: {gap[0]:+.1%} ({gap[1]:+.1%} to {gap[2]:+.1%}) of the truth")
    lift = mean_interval([row.model / row.logged - 1.0 for row in found])
    print(
        f"Q10 item-critic trained on the log earns {lift[0]:+.1%} ({lift[1]:+.1%} to {lift[2]:+.1%}) of what it logged"
    )
    inside = sum(row.interval[0] <= row.model <= row.interval[1] for row in found)
    print(f"Q10 its interval by snips holds its true value in {inside} of {len(found)} shops")


def recover(seed: int) -> Recovery:
    """Make a shop and its log, fit a world, train a model, and compare."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        values = write_shop(folder, seed=seed)
        values["segments"] = {key: {**part, "price_taste_sd": TASTE_SD} for key, part in SEGMENTS.items()}
        log = folder / "log.parquet"
        write_log(log, n=SEARCHES, policy="random-boosts", seed=seed, config={"env": values})
        world = zoosim.fit_world(log, folder / "world")
        training = zoosim.train(log, ["item-critic"])
        true_shop = _shop(read_search_config(values), seed)
        fitted_config = read_search_config(dict(world.env) | _files(folder / "world"))
        judged = training.evaluation.table.row(by_predicate=_is_snips(), named=True) if training.evaluation else {}
        assert isinstance(training.model, BoostModel)
        names, estimates, errors, truths = _behaviour(world, read_search_config(values))
        return Recovery(
            names,
            estimates,
            errors,
            truths,
            _template_values(true_shop),
            _template_values(_shop(fitted_config, seed)),
            float(training.evaluation.logged.mean) if training.evaluation else float("nan"),
            judged["value"],
            (judged["low"], judged["high"]),
            _model_value(true_shop, training.model),
        )


def _is_snips() -> Any:
    import polars as pl

    return pl.col("estimator") == "snips"


def _files(folder: Path) -> dict[str, str]:
    return {f"{name}_file": str(folder / f"{name}.parquet") for name in ("catalogue", "queries", "scores")}


def _shop(config: SearchConfig, seed: int) -> SearchShop:
    return SearchShop(build_search_world(config, seed=seed))


def _template_values(shop: SearchShop) -> FloatArray:
    queries = shop.world.queries(SEARCHES, SEARCHES + VALUED)
    values: FloatArray = template_rewards(shop, 0, queries, REPLICATES).mean(axis=1)
    return values


def _model_value(shop: SearchShop, model: BoostModel) -> float:
    """Return what a model that explores earns in the true shop, per visit."""
    world = BoostWorld(shop)
    policy = model.exploring()
    rewards = []
    for step in range(SEARCHES, SEARCHES + VALUED):
        visit = world.arrive(step)
        rewards.append(world.truth(visit).expected_reward(policy.select_action(world.context(visit))))
    return float(np.mean(rewards))


def _behaviour(
    world: FittedSearchWorld, truth: SearchConfig
) -> tuple[tuple[str, ...], FloatArray, FloatArray, FloatArray]:
    """Return names, estimates, errors and truths of the behaviour that a log tells of."""
    usual = Behaviour()
    fitted, errors = world.behaviour.estimates, world.behaviour.errors
    rows: list[tuple[str, float, float, float]] = []
    bias = QueryType().bias
    for number, query_type in enumerate(world.query_types):
        for place in range(POSITIONS):
            name = f"examination, {query_type}, position {place + 1}"
            rows.append((name, fitted.bias[number, place], errors.bias[number, place], bias[place]))
    for number, name in enumerate(world.segments):
        segment = truth.segments[name]
        price = usual.price * segment.price_taste_mean
        label = usual.private_label * segment.label_taste_mean
        rows.append((f"price, {name}", fitted.price[number], errors.price[number], price))
        rows.append((f"private label, {name}", fitted.label[number], errors.label[number], label))
        for key in ("intercept", "purchase_bias", "purchase_price"):
            parts = (getattr(part, key)[number] for part in (fitted, errors))
            rows.append((f"{key}, {name}", *parts, getattr(truth.behaviour, key)))
    price_sd = usual.price * next(iter(truth.segments.values())).price_taste_sd
    rows.append(("price, between visitors", float(fitted.price_sd), float(errors.price_sd), price_sd))
    for name in ("score", "category", "examine_satisfaction", "purchase_slope"):
        rows.append((name, float(getattr(fitted, name)), float(getattr(errors, name)), getattr(truth.behaviour, name)))
    names, estimates, spreads, truths = zip(*rows, strict=True)
    return tuple(names), np.array(estimates), np.array(spreads), np.array(truths)
