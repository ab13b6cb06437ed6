"""The optimum of a search shop: best template and best boost vector of each kind of visit, with expected rewards."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from zoosim.core.array_cache import kept
from zoosim.core.errors import ConfigError
from zoosim.core.parameters import shown
from zoosim.core.rng import stream
from zoosim.core.search_config import SearchConfig
from zoosim.core.search_names import FEATURES
from zoosim.core.templates import LIBRARIES
from zoosim.core.types import FloatArray
from zoosim.optimizers.cem import CEMConfig, cem_optimize
from zoosim.worlds.search.expected_reward import (
    VisitGroup,
    boost_rewards,
    groups_of,
    share_of,
    template_rewards,
    visits_of,
)
from zoosim.worlds.search.shop import SearchShop
from zoosim.worlds.search.tables import digest, read_search_config
from zoosim.worlds.search.world import build_search_world

FIT_START = 2**41
"""The first of the visits that boosts are fitted to: no run gets there."""

JUDGED_START = 2**42
"""The first of the visits that the fitted boosts are judged on."""

STRATUM_SPACING = 2**32
"""From the first of these visits of one segment to the first of the next."""

Strata = list[tuple[float, VisitGroup]]
"""Parts of a group with their shares."""


class SearchBudget(NamedTuple):
    """Visits per segment on which a search begins, on which it ends, and on which its result is judged."""

    rough: int
    fine: int
    judged: int


USUAL = SearchBudget(512, 4_096, 16_000)


class Optimum(NamedTuple):
    """The best of a group of visits: the number of its `template`, its `boosts (10,)`.

    `rewards (2 + T,)` in EUR per visit of the boosts, of none, and of each template, with standard `errors (2 + T,)`,
    on visits that neither was chosen on.
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
    """Return the best template and the best boosts in [-a_max, a_max]^10 of each kind of visit, one row per kind.

    The search is by cross-entropy on common random numbers, and its result a lower bound of the true optimum. It takes
    some 30 s per row with 1,000 products, 2 minutes with 10,000, and each row is kept on disk.

    Args:
        config: The search shop.
        seed: The seed of its world.
        by: What makes a kind of visit: "cell" (a segment with a query type), "segment", or "all" (a single row).
        step: The visit whose market is searched, where the market shifts.
        progress: Called with a line about each step of the search.

    Returns:
        Columns `group`, `share` of the visits; `template`, `template_reward`, `template_error`, `neutral_reward`;
        `boosts` (a list of 10), `reward`, `error`. Rewards are expected EUR per visit, estimated on visits that neither
        template nor boosts were chosen on.

    Raises:
        ConfigError: the config or `by` is invalid.
    """
    if by not in ("all", "segment", "cell"):
        raise ConfigError(f"by: got {shown(by)}, expected all, segment or cell")
    world = build_search_world(read_search_config(config), seed=seed)
    shop = SearchShop(world)
    market = world.market_at(step)
    groups = [group for group in groups_of(shop, by) if share_of(shop, market, group) > 0.0]
    names = tuple(world.config.templates)
    optima = [best_of_group(shop, market, group, progress) for group in groups]
    return pl.DataFrame(
        {
            "group": [group.name for group in groups],
            "share": [share_of(shop, market, group) for group in groups],
            "template": [names[best.template] for best in optima],
            "template_reward": [best.rewards[2 + best.template] for best in optima],
            "template_error": [best.errors[2 + best.template] for best in optima],
            "neutral_reward": [best.rewards[1] for best in optima],
            "boosts": pl.Series([best.boosts.tolist() for best in optima], dtype=pl.List(pl.Float64)),
            "reward": [best.rewards[0] for best in optima],
            "error": [best.errors[0] for best in optima],
        }
    )


def best_of_group(
    shop: SearchShop,
    market: int,
    group: VisitGroup,
    progress: Callable[[str], None] = lambda line: None,
    sizes: SearchBudget | None = None,
) -> Optimum:
    """Return the optimum of a group of visits in a market; from disk where it was computed before.

    Args:
        shop: The shop.
        market: Number of the market.
        group: The group.
        progress: Called with a line about each stage.
        sizes: Numbers of visits that the search and the judging take; None for the usual ones.
    """
    sizes = sizes or USUAL

    def make() -> dict[str, Any]:
        return _search(shop, market, group, progress, sizes)._asdict()

    saved = kept("optima", _key(shop, market, group, sizes), Optimum._fields, make)
    return Optimum(**{**saved, "template": int(saved["template"])})


def _search(
    shop: SearchShop, market: int, group: VisitGroup, progress: Callable[[str], None], sizes: SearchBudget
) -> Optimum:
    strata = strata_of(shop, market, group)
    boosts = _kept_boosts(shop, market, group, strata, progress, sizes)
    fit_rewards, _ = _rewards_of(shop, market, strata, FIT_START, sizes.fine, boosts)
    # Chosen on visits that it is not judged on: the highest of several estimates is too high on the same ones.
    template = int(fit_rewards[2:].argmax())
    progress(f"{group.name}: judging by {sizes.judged:,} visits")
    rewards, errors = _rewards_of(shop, market, strata, JUDGED_START, sizes.judged, boosts)
    return Optimum(template, boosts, rewards, errors)


def _rewards_of(
    shop: SearchShop, market: int, strata: Strata, first: int, n: int, boosts: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the mean rewards of `Optimum` over all strata, `(2 + T,)`, and their standard errors."""
    means = np.zeros(2 + len(shop.templates.boosts))
    with_and_without = np.stack([boosts, np.zeros_like(boosts)])
    variances = np.zeros_like(means)
    for number, (share, part) in enumerate(strata):
        visits = visits_of(shop, market, part, first + number * STRATUM_SPACING, n)
        of_boosts = boost_rewards(shop, market, visits, with_and_without)
        rewards = np.vstack([of_boosts, template_rewards(shop, market, visits)])
        means += share * rewards.mean(axis=1)
        # Stratified: the variance of sum share_s mean_s over independent strata.
        variances += share**2 * rewards.var(axis=1, ddof=1) / rewards.shape[1]
    return means, np.sqrt(variances)


def _kept_boosts(
    shop: SearchShop,
    market: int,
    group: VisitGroup,
    strata: Strata,
    progress: Callable[[str], None],
    sizes: SearchBudget,
) -> FloatArray:
    """Return `best_boosts`, from disk where they were searched before, beside whatever templates."""

    def make() -> dict[str, Any]:
        return {"boosts": best_boosts(shop, market, group, strata, progress, sizes)}

    key = _key(shop, market, group, sizes, templates=LIBRARIES["rules"])
    boosts: FloatArray = kept("optimum-boosts", key, ("boosts",), make)["boosts"]
    return boosts


def _key(shop: SearchShop, market: int, group: VisitGroup, sizes: SearchBudget, **changes: Any) -> tuple[Any, ...]:
    """Return the key by which results are kept on disk; what is observed changes none of them."""
    config = shop.world.config.model_copy(update={"context": "simple", **changes})
    return config.model_dump_json(), digest(config), shop.world.seed, market, group, tuple(sizes)


def best_boosts(
    shop: SearchShop,
    market: int,
    group: VisitGroup,
    strata: Strata,
    progress: Callable[[str], None],
    sizes: SearchBudget,
) -> FloatArray:
    """Search the boosts `(10,)` that earn most in a group of visits: widely on few visits, then closely on many.

    Args:
        shop: The shop.
        market: Number of the market.
        group: The group.
        strata: Its parts and their shares.
        progress: Called with a line about each stage.
        sizes: Numbers of visits of the two stages.
    """
    a_max = shop.world.config.a_max
    # No boosts at first: the base ranker's own ranking.
    best = np.zeros(len(FEATURES))
    wide = CEMConfig(n_samples=64, n_iters=40, a_max=a_max)
    close = CEMConfig(n_samples=40, n_iters=12, a_max=a_max, init_std=0.1 * a_max)
    rng = stream(shop.world.seed, "optimum", group.name)
    for search, n in ((wide, sizes.rough), (close, sizes.fine)):
        progress(f"{group.name}: searching by {n:,} visits")
        parts = [
            (share, visits_of(shop, market, part, FIT_START + number * STRATUM_SPACING, n))
            for number, (share, part) in enumerate(strata)
        ]

        def objective(actions: FloatArray, parts: Any = parts) -> FloatArray:
            rewards = [share * boost_rewards(shop, market, queries, actions).mean(axis=1) for share, queries in parts]
            total: FloatArray = np.sum(rewards, axis=0)
            return total

        best = cem_optimize(objective, len(FEATURES), search, rng=rng, init_mean=best).action
    return best


def strata_of(shop: SearchShop, market: int, group: VisitGroup) -> Strata:
    """Divide a group of visits by segment, which lowers the variance of means (stratification).

    A few segments spend most, and their rewards vary most.

    Args:
        shop: The shop.
        market: Number of the market.
        group: The group.

    Returns:
        Each part with its share of the market's visits, above 0; of a group of one segment (1, the group).
    """
    if group.segment is not None:
        return [(1.0, group)]
    shares = [(share_of(shop, market, part), part) for part in groups_of(shop, "segment")]
    return [(share, part) for share, part in shares if share > 0.0]
