"""Warnings about a search shop whose figures make no business: nobody buys, or nothing earns."""

import numpy as np

from zoosim.core.search_config import SearchConfig
from zoosim.core.types import FloatArray
from zoosim.worlds.search.expected_reward import VisitGroup, groups_of, visits_of
from zoosim.worlds.search.shop import SearchShop
from zoosim.worlds.search.template_arms import Earnings, serve_templates
from zoosim.worlds.search.world import build_search_world

VISITS = 400
"""Visits of each segment that are looked at."""

CENT = 0.005
OUT_OF_REACH = -4.0
"""A utility below which a product is clicked in less than 2 of 100 looks."""

LEFT_ALONE = ("categories", "segments", "query_types", "behaviour", "reward", "relevance")
"""The parts of a configuration that make economics; a shop that changes none of them is not looked at."""


def absurd_economics(config: SearchConfig) -> tuple[str, ...]:
    """Return a line for each thing that makes no business in a shop; none for the built-in figures.

    Every segment is served the base ranker's ranking and each template at some visits of seed 0.
    """
    usual = SearchConfig()
    if not config.files and all(getattr(config, part) == getattr(usual, part) for part in LEFT_ALONE):
        return ()
    shop = SearchShop(build_search_world(config, seed=0))
    warnings = []
    if (shop.world.catalogue.cm2 < 0.0).all():
        warnings.append("every product's CM2 is below 0, so every purchase loses money")
    earned = {group.name: _earned(shop, group) for group in groups_of(shop, "segment")}
    if not any(parts.purchases.any() for parts in earned.values()):
        warnings.append(f"no purchases at all, in {VISITS * len(earned):,} visits under every template")
        # Said of all at once; a line per segment would only repeat it.
        earned = {}
    for name, parts in earned.items():
        reason = _out_of_budget(shop, name)
        # The first template is neutral: it shows the base ranker's own ranking.
        if abs(float(parts.gmv[:, 0].mean())) < CENT:
            warnings.append(f"segment {name} earns 0.00 a visit from the base ranking{reason}")
    return tuple(warnings)


def _earned(shop: SearchShop, group: VisitGroup) -> Earnings:
    return serve_templates(shop, 0, visits_of(shop, 0, group, 0, VISITS))


def _out_of_budget(shop: SearchShop, name: str) -> str:
    """Say whether prices alone keep a segment from everything."""
    segment = list(shop.world.config.segments).index(name)
    users = shop.world.users
    tastes: FloatArray = users.price_taste[users.segment == segment]
    utility = shop.world.config.behaviour.price * float(np.median(tastes)) * np.log1p(shop.world.catalogue.price)
    return ": every product is out of its budget" if (utility < OUT_OF_REACH).all() else ""
