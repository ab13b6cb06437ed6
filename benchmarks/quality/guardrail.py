"""Q4: does any decision break the guardrail? 100,000 visits whose policy asks for a corner of the box each time."""

import numpy as np

from studies.held_out import open_shop, spec_of
from zoosim.core.types import Context, FloatArray
from zoosim.policies.boosts.rank_guardrail import RankGuardrail
from zoosim.policies.boosts.simple import RandomBoosts
from zoosim.worlds.search.boosts import context_of

SEEDS, VISITS, LIMIT, TOP = range(1000, 1020), 5_000, 3, 10


class Corners(RandomBoosts):
    """Ask for all boosts at the sides of the box, up or down by chance."""

    name = "corners"

    def select_action(self, context: Context) -> FloatArray:
        """Draw a corner."""
        return self.spec.a_max * np.sign(super().select_action(context))


def main() -> None:
    """Count by the shop's own rankings how many decisions took more than 3 products out of the base ranker's top 10."""
    broken, asked = sum((broken_of(seed, VISITS) for seed in SEEDS), np.zeros(2, np.int64))
    total = len(SEEDS) * VISITS
    print(f"Q4 guardrail: {broken:,} of {total:,} decisions broke it, {asked:,} of the wishes would have")


def broken_of(seed: int, visits: int) -> np.ndarray:
    """Return how many decisions, and how many wishes, broke the limit at the first visits of a seed."""
    shop = open_shop({"n_products": 1_000, "a_max": 0.5}, seed)
    guarded = RankGuardrail.around(Corners(spec_of(shop, visits), np.random.default_rng(seed)), limit=LIMIT, k=TOP)
    counts = np.zeros(2, np.int64)
    for step in range(visits):
        visit = shop.arrive(step)
        action = guarded.select_action(context_of(shop, visit))
        assert guarded.last is not None
        for column, boosts in enumerate((action, guarded.last.asked)):
            counts[column] += TOP - np.isin(visit.baseline[:TOP], shop.rank(visit, boosts)[:TOP]).sum() > LIMIT
    return counts
