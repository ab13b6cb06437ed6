"""Let policies learn a shop of known products, put new ones on sale, and watch what they show."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from studies.small_shops import Effects, clicks_world, draw_effects
from studies.work import rows_by_task
from zoosim.arena.loop import play
from zoosim.arena.past import fit_policy
from zoosim.core.array_cache import kept
from zoosim.core.checks import check_whole
from zoosim.core.types import FloatArray, IntArray, Progress
from zoosim.experiments.request import parse_seeds
from zoosim.policies.registry import make_entry
from zoosim.worlds.table import TableWorld

KNOWN, NEW, CATEGORIES = 1_000, 100, 20
SHOP = Effects(products=KNOWN + NEW, categories=CATEGORIES, base=-2.5)
BETTER = 0.7
"""By how much, as a logit, a new product is better than the best known one of its category."""

BEFORE, AFTER = 20_000, 20_000
"""Visits before the new products come, and after."""

WINDOW = 100
"""Visits of a segment over which its traffic is measured."""

PERIOD = 500
"""Visits that the figure takes together."""

POLICIES = ("adaptive", "linucb", "product-linucb")


@dataclass(frozen=True)
class ColdStart:
    """What came of the new products in the shop of a seed, with a policy.

    Args:
        visits: For each segment the visits to the shop, from the arrival of the new products on, until its best product
            has half of the segment's traffic; None where it never has.
        lost: Clicks that were lost, in expectation, by showing new products in place of the best known one.
        new_shown: How often new products were shown that are not the best of the visitor's segment.
        before, after: % of oracle in the last half of the visits before the new products came, and from then on.
        traffic: Share of visits, in each `PERIOD` since, that were shown the best product of the visitor's segment.
    """

    policy: str
    seed: int
    visits: tuple[int | None, ...]
    lost: float
    new_shown: int
    before: float
    after: float
    traffic: tuple[float, ...]


class Shop(NamedTuple):
    """A shop in which new products come, and when; `rates (S, P)` are its click rates, of the new ones last."""

    world: TableWorld
    arrival: int
    rates: FloatArray


def measure(
    *,
    seeds: Any = "1000:1020",
    jobs: Any = None,
    policies: str | None = None,
    steps: int | None = None,
    progress: Progress = lambda line: None,
) -> list[ColdStart]:
    """Let policies, named with commas between, meet the shop of each seed for so many `steps`, half of them before."""
    names = policies.split(",") if policies else list(POLICIES)
    n_visits = BEFORE + AFTER if steps is None else check_whole("steps", steps, 2 * PERIOD, 10_000_000)
    for name in names:
        make_entry(name)  # a name that is none is refused before anything runs
    tasks = [(name, seed) for seed in parse_seeds(seeds) for name in names]
    work = partial(_rows_of, n_visits)
    return rows_by_task(work, tasks, jobs=jobs, words=lambda task: f"{task[0]}, seed {task[1]}", progress=progress)


def make_shop(seed: int, n_visits: int) -> Shop:
    """Return the shop of a seed, in which new products come after half of the visits.

    In the favourite category of each segment, a new product is better than all known ones.
    """
    shop = draw_effects(SHOP, seed)
    is_new = np.arange(KNOWN + NEW) >= KNOWN
    favourites = np.where(is_new, 0.0, shop.rates).argmax(axis=1)
    for known in favourites:
        newcomers = np.flatnonzero(is_new & (shop.categories == shop.categories[known]))
        shop.own[newcomers[0]] = shop.own[known] + BETTER
    arrival = n_visits // 2
    tables = [(0, shop.rates), (arrival, shop.rates)]
    return Shop(clicks_world(seed, shop.features, tables, [~is_new, np.ones(len(is_new), bool)]), arrival, shop.rates)


def _rows_of(n_visits: int, task: tuple[str, int]) -> list[ColdStart]:
    name, seed = task
    key = (name, make_entry(name).fingerprint, seed, n_visits)
    actions = kept("cold-start", key, ("actions",), partial(_play, name, seed, n_visits))["actions"]
    return [result_of(make_shop(seed, n_visits), name, actions)]


def _play(name: str, seed: int, n_visits: int) -> dict[str, IntArray]:
    world = make_shop(seed, n_visits).world
    policy, _ = fit_policy(make_entry(name), world, n_visits, lambda line: None)
    return {"actions": np.concatenate([block.actions for block in play(world, policy, n_visits)])}


def result_of(shop: Shop, policy: str, actions: IntArray) -> ColdStart:
    """Say what came of new products where `actions (n,)` were shown."""
    world, arrival, rates = shop
    segments = world.segments[world.visitors(0, len(actions))]
    best_known = rates[:, :KNOWN].max(axis=1)[segments]
    best = rates.argmax(axis=1)
    shown_rates = rates[segments, actions]
    of_segment, shown = segments[arrival:], actions[arrival:]
    shows_best = shown == best[of_segment]
    shows_new = shown >= KNOWN
    loss = np.maximum(best_known - shown_rates, 0.0)[arrival:]
    recently = slice(arrival // 2, arrival)
    n_periods = len(shown) // PERIOD
    traffic = shows_best[: n_periods * PERIOD].reshape(n_periods, PERIOD).mean(axis=1)
    return ColdStart(
        policy=policy,
        seed=world.seed,
        visits=tuple(visits_until_half(shows_best, of_segment == segment) for segment in range(len(rates))),
        lost=float(loss[shows_new].sum()),
        new_shown=int((shows_new & ~shows_best).sum()),
        before=float(100.0 * shown_rates[recently].sum() / best_known[recently].sum()),
        after=float(100.0 * shown_rates[arrival:].sum() / rates.max(axis=1)[of_segment].sum()),
        traffic=tuple(float(share) for share in traffic),
    )


def visits_until_half(shows_best: Sequence[bool] | FloatArray, is_segment: FloatArray) -> int | None:
    """Return after how many visits the best product first had half of a segment's last `WINDOW` visits.

    Args:
        shows_best: Whether the best product of the visitor's segment was shown, `(n,)`.
        is_segment: Which of these are visits of the segment, `(n,)`.
    """
    visits = np.flatnonzero(is_segment)
    hits = np.cumsum(np.concatenate([[0], np.asarray(shows_best)[visits]]))
    enough = np.flatnonzero(hits[WINDOW:] - hits[:-WINDOW] >= WINDOW / 2)
    return int(visits[enough[0] + WINDOW - 1]) + 1 if len(enough) else None
