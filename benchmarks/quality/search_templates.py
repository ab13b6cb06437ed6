"""Q2: what each static template earns a visit, against the published figures: 36 catalogues of 1,000 products."""

import numpy as np

from zoosim.core.search_config import SearchConfig
from zoosim.core.search_names import FEATURES, TEMPLATES
from zoosim.core.types import FloatArray
from zoosim.worlds.search.shop import SearchShop
from zoosim.worlds.search.world import build_search_world

SEEDS, VISITS = range(1000, 1036), 3_000

PUBLISHED = {
    "neutral": (5.18, 0.04),
    "cm2": (4.88, 0.04),
    "private-label": (6.73, 0.04),
    "popularity": (4.70, 0.14),
    "premium": (7.39, 0.06),
    "budget": (3.12, 0.03),
    "discount": (4.78, 0.10),
    "strategic": (4.57, 0.04),
    "price at full weight": (11.17, 0.18),
}
"""Mean reward a visit and its standard error over catalogues."""


def main() -> None:
    """Print each mean, its standard error, the published one, and the difference in standard errors."""
    table = np.array([_means(seed) for seed in SEEDS])
    means, errors = table.mean(axis=0), table.std(axis=0, ddof=1) / np.sqrt(len(table))
    for (name, (mean, error)), own, own_error in zip(PUBLISHED.items(), means, errors, strict=True):
        off = (own - mean) / np.hypot(error, own_error)
        print(f"Q2 {name}: {own:.2f} (se {own_error:.2f}), published {mean:.2f} (se {error:.2f}): {off:+.1f} se")


def _means(seed: int) -> FloatArray:
    """Return the mean reward of each policy over the visits of a shop."""
    shop, total = SearchShop(build_search_world(SearchConfig(n_products=1_000), seed=seed)), np.zeros(len(PUBLISHED))
    price = np.where(np.array(FEATURES) == "price", 5.0, 0.0)
    for step in range(VISITS):
        visit = shop.arrive(step)
        rankings = [shop.rank_by_template(visit, template) for template in range(len(TEMPLATES))]
        total += [shop.serve(visit, shown).reward for shown in (*rankings, shop.rank(visit, price))]
    return total / VISITS
