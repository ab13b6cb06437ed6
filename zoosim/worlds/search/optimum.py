"""The best that a search shop could do: for each kind of visit its best template and its best boost vector."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from zoosim.core.array_cache import kept
from zoosim.core.errors import ConfigError
from zoosim.core.parameters import shown
from zoosim.core.rng import stream
from zoosim.core.search_config import FEATURES, TEMPLATES, SearchConfig
from zoosim.core.types import FloatArray
from zoosim.optimizers.cem import CEMConfig, cem_optimize
from zoosim.worlds.search.expected_reward import Group, boost_rewards, groups_of, share_of, template_rewards, visits_of
from zoosim.worlds.search.shop import SearchShop
from zoosim.worlds.search.tables import digest, read_search_config
from zoosim.worlds.search.world import build_search_world

FIT, JUDGED, ROOM = 2**41, 2**42, 2**32
"""The first of the visits that boosts are fitted to, and of those that they are judged on: no run gets to them.

ROOM of them lie between those of one segment and the next.
"""

ROUGH_VISITS, FINE_VISITS, JUDGED_VISITS = 512, 4_096, 16_000
"""On so many visits the search begins, ends, and is judged."""


Strata = list[tuple[float, Group]]
"""Parts of a group with their shares."""


class Optimum(NamedTuple):
    """The best of a group of visits: the number of its `template`, its `boosts (10,)`.

    `rewards (9,)` in EUR a visit of the boosts and of each template, with standard `errors (9,)`, on visits that
    nothing was chosen by.
    """

    template: int
    boosts: FloatArray
    rewards: FloatArray
    errors: FloatArray


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
    that nothing was chosen by. The search is by cross-entropy on common random numbers, and its result a lower bound of
    the true optimum. It takes some 30 s a row with 1,000 products, 2 minutes with 10,000, and each row is kept on disk.
    Raises `ConfigError`.
    """
    if by not in ("all", "segment", "cell"):
        raise ConfigError(f"by: got {shown(by)}, expected all, segment or cell")
    world = build_search_world(read_search_config(config), seed=seed)
    shop, market = SearchShop(world), world.market_at(step)
    groups = [group for group in groups_of(shop, by) if share_of(shop, market, group) > 0.0]
    found = [best_of_group(shop, market, group, progress) for group in groups]
    return pl.DataFrame(
        {
            "group": [group.name for group in groups],
            "share": [share_of(shop, market, group) for group in groups],
            "template": [TEMPLATES[best.template] for best in found],
            "template_reward": [best.rewards[1 + best.template] for best in found],
            "template_error": [best.errors[1 + best.template] for best in found],
            "neutral_reward": [best.rewards[1] for best in found],
            "boosts": pl.Series([best.boosts.tolist() for best in found], dtype=pl.List(pl.Float64)),
            "reward": [best.rewards[0] for best in found],
            "error": [best.errors[0] for best in found],
        }
    )


def best_of_group(
    shop: SearchShop, market: int, group: Group, progress: Callable[[str], None] = lambda line: None
) -> Optimum:
    """Return the optimum of a group of visits in a market; from disk where it was computed before."""
    config = shop.world.config.model_copy(update={"context": "simple"})  # what is observed changes nothing else
    sizes = (ROUGH_VISITS, FINE_VISITS, JUDGED_VISITS)
    key = (config.model_dump_json(), digest(config), shop.world.seed, market, group, sizes)

    def make() -> dict[str, Any]:
        return _search(shop, market, group, progress)._asdict()

    saved = kept("optima", key, Optimum._fields, make)
    return Optimum(**{**saved, "template": int(saved["template"])})


def _search(shop: SearchShop, market: int, group: Group, progress: Callable[[str], None]) -> Optimum:
    strata = strata_of(shop, market, group)
    boosts = best_boosts(shop, market, group, strata, progress)
    template = int(_rewards_of(shop, market, strata, FIT, FINE_VISITS, boosts)[0][1:].argmax())
    progress(f"{group.name}: judging by {JUDGED_VISITS:,} visits")
    return Optimum(template, boosts, *_rewards_of(shop, market, strata, JUDGED, JUDGED_VISITS, boosts))


def _rewards_of(
    shop: SearchShop, market: int, strata: Strata, first: int, n: int, boosts: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return what boosts and each template earn in all strata together, `(9,)`, and the standard errors."""
    means, variances = np.zeros(1 + len(TEMPLATES)), np.zeros(1 + len(TEMPLATES))
    for place, (share, part) in enumerate(strata):
        visits = visits_of(shop, market, part, first + place * ROOM, n)
        own = boost_rewards(shop, market, visits, boosts[np.newaxis])
        rewards = np.vstack([own, template_rewards(shop, market, visits)])
        means += share * rewards.mean(axis=1)
        variances += share**2 * rewards.var(axis=1, ddof=1) / rewards.shape[1]
    return means, np.sqrt(variances)


def best_boosts(
    shop: SearchShop, market: int, group: Group, strata: Strata, progress: Callable[[str], None]
) -> FloatArray:
    """Search the boosts `(10,)` that earn most in a group of visits: widely on few visits, then closely on many."""
    a_max, found = shop.world.config.a_max, np.zeros(len(FEATURES))
    wide = CEMConfig(n_samples=64, n_iters=40, a_max=a_max)
    close = CEMConfig(n_samples=40, n_iters=12, a_max=a_max, init_std=0.1 * a_max)
    rng = stream(shop.world.seed, "optimum", group.name)
    for search, n in ((wide, ROUGH_VISITS), (close, FINE_VISITS)):
        progress(f"{group.name}: searching by {n:,} visits")
        fitted = [
            (share, visits_of(shop, market, part, FIT + place * ROOM, n)) for place, (share, part) in enumerate(strata)
        ]

        def objective(actions: FloatArray, fitted: Any = fitted) -> FloatArray:
            worths = [share * boost_rewards(shop, market, queries, actions).mean(axis=1) for share, queries in fitted]
            total: FloatArray = np.sum(worths, axis=0)
            return total

        found = cem_optimize(objective, len(FEATURES), search, rng=rng, init_mean=found).action
    return found


def strata_of(shop: SearchShop, market: int, group: Group) -> Strata:
    """Divide a group of visits by segment, with the share of each: few segments spend most, and vary most."""
    if group.segment is not None:
        return [(1.0, group)]
    shares = [(share_of(shop, market, part), part) for part in groups_of(shop, "segment")]
    return [(share, part) for share, part in shares if share > 0.0]
