"""A log of boosts: Records of visits to a search shop, whose action is a list of boosts and whose propensity a density.

Boosts lie in [-`a_max`, `a_max`]. The other columns are those of `zoosim.logs.schema`, less `product_id`,
`catalogue` and `unavailable`: what is chosen is no product.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl

from zoosim.arena.players import BoostPlayer
from zoosim.core.blame import blamed
from zoosim.core.errors import PolicyError
from zoosim.core.parameters import shown
from zoosim.envs.search_env import info_of
from zoosim.logs.records import LARGEST_DENSITY, LEAST_DENSITY
from zoosim.logs.schema import MICROSECONDS
from zoosim.policies.boosts.base import BoostPolicy
from zoosim.worlds.search.shop import SearchShop

SCHEMA: dict[str, Any] = {
    "decision_id": pl.String,
    "time": pl.Int64,
    "user_id": pl.Int64,
    "user": pl.List(pl.Float64),
    "action": pl.List(pl.Float64),
    "a_max": pl.Float64,
    "position": pl.Int32,
    "propensity": pl.Float64,
    "reward": pl.Float64,
    "gmv": pl.Float64,
    "cm2": pl.Float64,
    "strategic": pl.Int32,
    "click": pl.Int32,
    "rank_change": pl.Int32,
    "purchases": pl.Int32,
    "policy": pl.String,
    "policy_version": pl.String,
    "seed": pl.Int64,
    "step": pl.Int64,
}


def boost_records(shop: SearchShop, policy: BoostPolicy, name: str, version: str, n: int) -> pl.DataFrame:
    """Let a policy serve visits 0 to `n - 1`, learn from them, and return the Records.

    Raises `PolicyError` for a policy that has no density over boosts, and for one whose own code fails, with the step.
    """
    frame = pl.DataFrame(list(_rows(shop, policy, name, version, n)), schema=SCHEMA, orient="row")
    return frame.with_columns(pl.col("time").cast(pl.Datetime("us", "UTC")))


def _rows(shop: SearchShop, policy: BoostPolicy, name: str, version: str, n: int) -> Iterator[tuple[Any, ...]]:
    player, seed = BoostPlayer(shop, policy), shop.world.seed
    for step in range(n):
        visit = shop.arrive(step)
        context = player.context(visit)
        with blamed(f"policy {name}: step {step}: "):
            action = policy.select_action(context)
            ranked = player.rank(visit, action)
            density = _density(policy.density(context, action))
        result = shop.serve(visit, ranked)
        yield (
            *(f"{name}-{seed}-{step}", step * MICROSECONDS, visit.user, context.features.tolist(), action.tolist()),
            *(policy.spec.a_max, 0, density, result.reward, *result.parts, int(result.outcome.purchases.sum())),
            *(name, version, seed, step),
        )
        with blamed(f"policy {name}: step {step}: "):
            policy.update(context, action, result.reward, info_of(shop, visit, result)["feedback"])


def _density(value: Any) -> float:
    known = isinstance(value, int | float | np.number) and LEAST_DENSITY <= value <= LARGEST_DENSITY
    if not known:
        expected = f"one number from {LEAST_DENSITY:g} to {LARGEST_DENSITY:g}"
        raise PolicyError(f"gives {shown(value)} as the density of what it chose, expected {expected}")
    return float(value)
