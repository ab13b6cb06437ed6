"""The best that a search shop could do: for each kind of visit its best template and its best boost vector."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from zoosim.core.array_cache import kept
from zoosim.core.errors import ConfigError
from zoosim.core.parameters import shown
from zoosim.core.rng import stream
from zoosim.core.search_config import FEATURES, SearchConfig
from zoosim.core.types import FloatArray
from zoosim.envs.search_env import read_config
from zoosim.envs.search_shop import SearchShop
from zoosim.envs.search_value import Group, boost_rewards, groups_of, template_rewards, visits_of
from zoosim.optimizers.cem import CEMConfig, cem_optimize
from zoosim.ranking.templates import TEMPLATES
from zoosim.world.search import build_search_world
from zoosim.world.tables import digest

ROOMS = ("core", "world", "ranking", "dynamics", "envs", "optimizers")
"""The rooms that the optimum depends on."""

FIT, JUDGED = 2**41, 2**42
"""The first of the visits that boosts are fitted to, and of those that they are judged on: no run gets to them."""

ROUGH_VISITS, FINE_VISITS, JUDGED_VISITS = 512, 4_096, 16_000
"""On so many visits the search begins, ends, and is judged."""


class Optimum(NamedTuple):
    """The best of G groups of visits: `boosts (G, 10)`; `templates (G,)`, the lowest number on ties.

    `boost_rewards (G,)` and `template_rewards (G, 8)` in EUR a visit, each with its standard `_errors`, on visits that
    nothing was fitted to.
    """

    boosts: FloatArray
    boost_rewards: FloatArray
    boost_errors: FloatArray
    template_rewards: FloatArray
    template_errors: FloatArray


def search_optimum(
    config: SearchConfig | Mapping[str, Any] | None = None,
    *,
    seed: int,
    by: str = "cell",
    step: int = 0,
    progress: Callable[[str], None] = lambda line: None,
) -> pl.DataFrame:
    """Return the best template and the best boosts in [-a_max, a_max]^10 of each kind of visit, a row each.

    A kind is a segment with a query type (`by` "cell"), a segment, or "all" visits; the world is that of `seed` in the
    market of visit `step`. Columns: `group`, `share` of the visits; `template`, `template_reward`, `template_error`,
    `neutral_reward`; `boosts` (a list of 10), `reward`, `error`. Rewards are expected EUR a visit, estimated on visits
    that nothing was fitted to. The search is by cross-entropy on common random numbers, and its result a lower bound of
    the true optimum. It takes some 20 s a row with 1,000 products, and is kept on disk. Raises `ConfigError`.
    """
    if by not in ("all", "segment", "cell"):
        raise ConfigError(f"by: got {shown(by)}, expected all, segment or cell")
    world = build_search_world(read_config(config), seed=seed)
    shop, market = SearchShop(world), world.market_at(step)
    found, groups = best_of_groups(shop, market, by, progress), groups_of(shop, by)
    best = found.template_rewards.argmax(axis=1)
    rows = np.arange(len(groups))
    return pl.DataFrame(
        {
            "group": [group.name for group in groups],
            "share": [_share(shop, market, group) for group in groups],
            "template": [TEMPLATES[template] for template in best],
            "template_reward": found.template_rewards[rows, best],
            "template_error": found.template_errors[rows, best],
            "neutral_reward": found.template_rewards[:, 0],
            "boosts": pl.Series(found.boosts.tolist(), dtype=pl.List(pl.Float64)),
            "reward": found.boost_rewards,
            "error": found.boost_errors,
        }
    )


def best_of_groups(
    shop: SearchShop, market: int, by: str, progress: Callable[[str], None] = lambda line: None
) -> Optimum:
    """Return the optimum of each of `groups_of` a shop in a market; from disk where it was computed before."""
    config = shop.world.config.model_copy(update={"context": "simple"})  # what is observed changes nothing else
    groups, key = groups_of(shop, by), (config.model_dump_json(), digest(config), shop.world.seed, market, by)

    def make() -> dict[str, FloatArray]:
        rows = []
        for number, group in enumerate(groups, start=1):
            progress(f"{number} of {len(groups)}: {group.name}")
            rows.append(best_of_group(shop, market, group))
        return dict(zip(Optimum._fields, map(np.array, zip(*rows, strict=True)), strict=True))

    return Optimum(**kept("optima", key, ROOMS, Optimum._fields, make))


def best_of_group(shop: SearchShop, market: int, group: Group) -> tuple[Any, ...]:
    """Return the fields of `Optimum` for one group of visits."""
    strata = strata_of(shop, market, group)
    boosts = best_boosts(shop, market, group, strata)
    means, variances = np.zeros(1 + len(TEMPLATES)), np.zeros(1 + len(TEMPLATES))
    for share, part in strata:
        judged = visits_of(shop, shop.world.markets[market], part, JUDGED, JUDGED + JUDGED_VISITS)
        own = boost_rewards(shop, market, judged, boosts[np.newaxis])
        rewards = np.vstack([own, template_rewards(shop, market, judged)])
        means += share * rewards.mean(axis=1)
        variances += share**2 * rewards.var(axis=1, ddof=1) / JUDGED_VISITS
    errors = np.sqrt(variances)
    return boosts, means[0], errors[0], means[1:], errors[1:]


def best_boosts(shop: SearchShop, market: int, group: Group, strata: list[tuple[float, Group]]) -> FloatArray:
    """Search the boosts `(10,)` that earn most in a group of visits: widely on few visits, then closely on many."""
    a_max, found = shop.world.config.a_max, np.zeros(len(FEATURES))
    wide = CEMConfig(n_samples=64, n_iters=40, a_max=a_max)
    close = CEMConfig(n_samples=40, n_iters=12, a_max=a_max, init_std=0.1 * a_max)
    rng = stream(shop.world.seed, "optimum", group.name)
    for search, visits in ((wide, ROUGH_VISITS), (close, FINE_VISITS)):
        fitted = [
            (share, visits_of(shop, shop.world.markets[market], part, FIT, FIT + visits)) for share, part in strata
        ]

        def objective(actions: FloatArray, fitted: Any = fitted) -> FloatArray:
            worths = [share * boost_rewards(shop, market, queries, actions).mean(axis=1) for share, queries in fitted]
            total: FloatArray = np.sum(worths, axis=0)
            return total

        found = cem_optimize(objective, len(FEATURES), search, rng=rng, init_mean=found).action
    return found


def strata_of(shop: SearchShop, market: int, group: Group) -> list[tuple[float, Group]]:
    """Divide a group of visits by segment, with the share of each: few segments spend most, and vary most."""
    if group.segment is not None:
        return [(1.0, group)]
    shares = {part.name: _share(shop, market, part) for part in groups_of(shop, "segment")}
    return [(shares[part.name], part) for part in groups_of(shop, "segment") if shares[part.name] > 0.0]


def _share(shop: SearchShop, market: int, group: Group) -> float:
    shares = shop.world.markets[market].shares
    parts = [np.diff(part, prepend=0.0) for part in shares]
    chosen = [1.0 if place is None else float(part[place]) for part, place in zip(parts, group[1:], strict=True)]
    return chosen[0] * chosen[1]
