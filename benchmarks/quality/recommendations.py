"""Q21: what `zoosim recommend` puts first, deployed in the true shop, beside the best of its line-up deployed likewise.

Retail shops with a known truth (`retail_shops`). A recommendation sees a log of 20,000 visits. Then each policy of its
line-up meets new visits of the true shop, as it would be deployed: those that were trained on the log begin with the
model that the recommendation wrote. The regret is how much more the best of them earns over the horizon than what the
recommendation puts first, as a share of what the best earns. ZOOSIM_SHOPS sets another number of shops.
"""

import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

import zoosim
from benchmarks.quality.retail_shops import RetailShop, draw_visits, schema, write_shop
from zoosim.api.recommend import REHEARSAL, Recommendation
from zoosim.arena.loop import play
from zoosim.arena.store import RunFolder
from zoosim.core.arrays import evenly_spread
from zoosim.core.rng import stream, stream_key
from zoosim.core.statistics import mean_interval
from zoosim.core.types import Context, FloatArray, IntArray, frozen
from zoosim.experiments.plan import finished_plan
from zoosim.logs.load import load_log
from zoosim.logs.log import Log
from zoosim.policies.base import Policy
from zoosim.policies.registry import make_entry
from zoosim.rehearsal.advice import FIRST, TEST, advise
from zoosim.rehearsal.figures import rehearsal_figures
from zoosim.worlds.fitted.world import Fitted
from zoosim.worlds.table import Period, TableWorld

SHOPS, FIRST_SHOP = 20, 1_000
HORIZONS = (1_000, 10_000, 100_000)
VISITS = 20_000
"""Visits in a shop's log."""
REHEARSED, REHEARSAL_SEEDS = 10_000, 3
POLICIES = ("adaptive", "mixed-effects", "linear", "linucb")
TODAY = "today's choices"


class Deployed(NamedTuple):
    """A shop's outcome: what is put `first` at each horizon, and what each policy truly earns per visit over it.

    Each is by horizon; `earned` then by policy.
    """

    first: dict[int, str]
    earned: dict[int, dict[str, float]]

    def regret(self, horizon: int) -> float:
        """Return how much more the best policy earns than the first, as a share of what the best earns."""
        earned = self.earned[horizon]
        best = max(earned.values())
        return (best - earned[self.first[horizon]]) / best


def main() -> None:
    """Print the regret at each horizon over the shops, with its interval and the worst shop."""
    shops = {}
    for seed in range(FIRST_SHOP, FIRST_SHOP + int(os.environ.get("ZOOSIM_SHOPS", SHOPS))):
        shops[seed] = deploy(seed)
        print(f"Q21 {_progress(seed, shops[seed])}", file=sys.stderr, flush=True)
    for line in summary(shops):
        print(f"Q21 {line}")


def summary(shops: Mapping[int, Deployed]) -> list[str]:
    """Return lines on the regret of what is put first, and on what it earns beside today's choices and the best."""
    lines = []
    for horizon in next(iter(shops.values())).earned:
        regrets = {seed: shop.regret(horizon) for seed, shop in shops.items()}
        worst = max(regrets, key=lambda seed: regrets[seed])
        firsts = [shop.first[horizon] for shop in shops.values()]
        counts = ", ".join(f"{name} in {firsts.count(name)}" for name in dict.fromkeys(firsts))
        lines.append(
            f"{horizon:,} visits, {len(shops)} shops: regret {_percent(list(regrets.values()))} of the best, "
            f"{regrets[worst]:.1%} in the worst shop ({worst}); put first: {counts}"
        )
        gains = [
            earned[shop.first[horizon]] / earned[TODAY] - 1.0
            for shop in shops.values()
            for earned in [shop.earned[horizon]]
        ]
        lines.append(f"{horizon:,} visits: what is put first earns {_percent(gains)} more than {TODAY}")
        for name in next(iter(shops.values())).earned[horizon]:
            by_shop = [shop.earned[horizon] for shop in shops.values() if name in shop.earned[horizon]]
            shares = [earned[name] / max(earned.values()) for earned in by_shop]
            lines.append(f"{horizon:,} visits: {name} earns {_percent(shares)} of the best")
    return lines


def _percent(values: list[float]) -> str:
    mean, low, high = mean_interval(values)
    interval = "" if low is None or high is None else f" ({low:.1%} to {high:.1%})"
    return f"{mean:.1%}{interval}"


def _progress(seed: int, shop: Deployed) -> str:
    parts = [f"{horizon:,}: {shop.first[horizon]}, regret {shop.regret(horizon):.1%}" for horizon in shop.earned]
    return f"shop {seed}: {'; '.join(parts)}"


def deploy(
    seed: int,
    *,
    horizons: Sequence[int] = HORIZONS,
    visits: int = VISITS,
    rehearsed: int = REHEARSED,
    rehearsal_seeds: int = REHEARSAL_SEEDS,
    policies: Sequence[str] = POLICIES,
) -> Deployed:
    """Ask for a recommendation by the log of a shop, then deploy each policy of its line-up in the true shop."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shop = write_shop(folder, seed, visits)
        _, customers, _ = draw_visits(shop, visits)
        zoosim.import_log(folder / "shop.csv", schema(folder), folder / "log.parquet")
        started = time.monotonic()
        recommendation = zoosim.recommend(
            folder / "log.parquet",
            policies=policies,
            horizon=max(horizons),
            visits=rehearsed,
            seeds=rehearsal_seeds,
            jobs=1,
            out=folder / "advice",
        )
        log = load_log(folder / "log.parquet")
        first = {horizon: put_first(recommendation, log, horizon) for horizon in horizons}
        took = time.monotonic() - started
        world = true_world(shop, log, customers)
        curves = {name: true_rewards(world, recommendation, name, max(horizons)) for name in _line_up(recommendation)}
    print(
        f"Q21 shop {seed}: recommend {took:.0f} s, true visits {time.monotonic() - started - took:.0f} s",
        file=sys.stderr,
        flush=True,
    )
    today = float((shop.propensities * shop.click_rates)[np.unique(customers)].sum(axis=1).mean())
    earned = {
        horizon: {TODAY: today, **{name: float(curve[:horizon].mean()) for name, curve in curves.items()}}
        for horizon in horizons
    }
    return Deployed(first, earned)


def _line_up(recommendation: Recommendation) -> list[str]:
    """Return who would be deployed: trained models, of which some are named nowhere without a rehearsal, and others."""
    rehearsed = [] if recommendation.rehearsal is None else list(recommendation.rehearsal.values)
    return list(dict.fromkeys([*recommendation.models, *rehearsed]))


def put_first(recommendation: Recommendation, log: Log, horizon: int) -> str:
    """Return the policy that is put first for a horizon, by the rehearsal of a longer one."""
    evidence = recommendation.evidence
    if evidence.rehearsal is not None:
        run = RunFolder(recommendation.path / REHEARSAL)
        plan = finished_plan(run.read_config())
        assert isinstance(plan.any_world, Fitted)
        actions = log.in_order().actions[evenly_spread(len(log), plan.any_world.shop.n_rows)]
        figures = rehearsal_figures(plan, run.path, list(evidence.rehearsal.values), plan.seeds, actions, horizon)
        evidence = evidence._replace(rehearsal=figures)
    named = [each.policy for each in advise(evidence) if each.place in (FIRST, TEST)]
    return named[0] if named else TODAY


def true_world(shop: RetailShop, log: Log, customers: IntArray) -> TableWorld:
    """Return the true shop as a world of new visits by the customers of its log `(n,)`, encoded as in the log."""
    known, rows = np.unique(customers, return_index=True)
    place = {sku: number for number, sku in enumerate(shop.products["sku"])}
    products = np.array([place[name] for name in log.names])
    n_customers, n_products = len(known), len(products)
    rates = frozen(shop.click_rates[np.ix_(known, products)])
    return TableWorld(
        seed=shop.seed,
        users=frozen(np.array(log.features[rows])),
        segments=np.arange(n_customers),
        products=frozen(np.array(log.products)),
        groups=np.arange(n_products),
        periods=(Period(0, rates, frozen(np.ones(n_products, bool))),),
        segment_names=(),
        group_names=(),
        visit_key=stream_key(shop.seed, "true visits"),
        click_key=stream_key(shop.seed, "true clicks"),
        ids=frozen(np.array(log.product_ids)),
    )


def true_rewards(world: TableWorld, recommendation: Recommendation, name: str, visits: int) -> FloatArray:
    """Return what a policy's choices earn in expectation at each visit of the true shop `(visits,)`."""
    model = recommendation.models.get(name)
    entry = make_entry(name if model is None else str(model))
    policy = entry.make(world.spec(visits), stream(world.seed, "policy", name))
    if entry.cls.learns_online:
        return np.concatenate([block.expected_rewards for block in play(world, policy, visits)])
    return np.full(visits, _constant_value(world, policy))


def _constant_value(world: TableWorld, policy: Policy) -> float:
    """Return the expected reward per visit of a policy that does not change, over all customers."""
    period = world.periods[0]
    total = 0.0
    for customer, user in enumerate(world.users):
        context = Context(
            user_id=customer,
            user=user,
            product_ids=world.product_ids,
            products=world.products,
            available=period.available,
        )
        total += float(policy.propensities(context) @ period.table[customer])
    return total / world.n_users
