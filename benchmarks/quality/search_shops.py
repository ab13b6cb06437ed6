"""Q14: boost policies in 20 search shops drawn at random, in % of what the best boosts of each segment earn."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from studies.boost_curves.learners import LEARNERS
from studies.held_out import best_vectors, draw_held_out, scores_of, serve, view_of
from zoosim.core.config import build
from zoosim.core.rng import stream
from zoosim.core.statistics import mean_interval
from zoosim.core.types import FloatArray
from zoosim.policies.registry import PolicyEntry, make_entry
from zoosim.worlds.search.optimum import SearchBudget
from zoosim.worlds.search.shop import SearchShop
from zoosim.worlds.search.world import build_search_world
from zoosim.worlds.search_shops.config import SearchShopsConfig
from zoosim.worlds.search_shops.draw import draw_search_shop

SEEDS, VISITS = range(1000, 1020), 1_000
CHECKPOINTS = (0, 100, 300, 1_000)
"""After how many visits policies are scored."""

SIZES = SearchBudget(256, 1_536, 200)
"""Visits per segment by which the best boosts are searched."""

POLICIES = ("item-critic", "q-ensemble", "template-ts", "constant-boosts")


class Standing(NamedTuple):
    """What the recommendations of a policy earn after so many visits, and the best boosts, in EUR a held-out visit."""

    visits: int
    reward: float
    optimum: float


def main() -> None:
    """Print for each policy its share of the optimum at each checkpoint, and the worst shop."""
    shares: dict[str, list[FloatArray]] = {name: [] for name in POLICIES}
    for seed in SEEDS:
        shop = open_search_shop(seed, VISITS)
        best = best_vectors(shop, SIZES)
        for name in POLICIES:
            standings = play(shop, entry_of(name), CHECKPOINTS, best)
            shares[name].append(np.array([row.reward / row.optimum for row in standings]))
            print(f"Q14 shop {seed}, {name}: {100 * shares[name][-1][-1]:.1f}%", flush=True)
    for name, rows in shares.items():
        for visits, column in zip(CHECKPOINTS, np.array(rows).T, strict=True):
            mean, low, high = (100 * (value or np.nan) for value in mean_interval(column))
            print(
                f"Q14 {name}, {visits:,} visits: {mean:.1f}% ({low:.1f} to {high:.1f}), worst {100 * column.min():.1f}%"
            )


def entry_of(name: str) -> PolicyEntry:
    """Return a policy as the study of boost learning sets it."""
    return LEARNERS[name].entry(name) if name in LEARNERS else make_entry(name, name, {})


def open_search_shop(seed: int, visits: int, settings: Mapping[str, Any] | None = None) -> SearchShop:
    """Return the drawn search shop of a seed, for a run of so many visits."""
    config: SearchShopsConfig = build(SearchShopsConfig, settings or {}, "env")
    return SearchShop(build_search_world(draw_search_shop(config, seed=seed, steps=visits), seed=seed))


def play(shop: SearchShop, entry: PolicyEntry, checkpoints: Sequence[int], best: FloatArray) -> list[Standing]:
    """Let a policy serve visits; `best (S, 10)` are the segments' best boosts in the last market.

    Recommendations are scored in that market.
    """
    world = view_of(shop, entry.cls, entry.params)
    policy = entry.make(world.spec(max(checkpoints)), stream(world.seed, "policy", entry.name))
    held_out = draw_held_out(shop, best)
    standings = []
    for step in range(max(checkpoints) + 1):
        if step in checkpoints:
            everybody = next(scores_of(world, policy, held_out, step))
            standings.append(Standing(step, everybody.reward, everybody.optimum))
        if step < max(checkpoints):
            serve(world, policy, world.arrive(step))
    return standings
