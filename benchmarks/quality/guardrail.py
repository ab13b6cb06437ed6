"""Q4: does any decision break the guardrail? 100,000 visits whose policy asks for a corner of the box each time.

Once held against the base ranker's top 10, and once against that of the boosts served last to the same segment and
query type, which are kept here as well.
"""

from typing import NamedTuple

import numpy as np

from studies.held_out import open_shop, spec_of
from zoosim.core.types import Context, FloatArray
from zoosim.policies.boosts.rank_guardrail import RankGuardrail
from zoosim.policies.boosts.simple import RandomBoosts
from zoosim.ranking.stability import rank_change
from zoosim.worlds.search.boosts import context_of

SEEDS, VISITS, LIMIT, TOP = range(1000, 1020), 5_000, 3, 10


class Corners(RandomBoosts):
    """Ask for all boosts at the sides of the box, up or down by chance."""

    name = "corners"

    def select_action(self, context: Context) -> FloatArray:
        """Draw a corner."""
        return self.spec.a_max * np.sign(super().select_action(context))


class Counts(NamedTuple):
    """Decisions that broke the limit, wishes that would have, and decisions far from the base ranker's top 10."""

    broken: int
    asked: int
    far: int


def main() -> None:
    """Count by the shop's own rankings how many decisions took more than 3 products out of the top 10."""
    total = len(SEEDS) * VISITS
    for against, whose in (("base", "the base ranker"), ("previous", "the last ranking")):
        counts = np.sum([counts_of(seed, VISITS, against) for seed in SEEDS], axis=0)
        broken, asked, far = (f"{count:,}" for count in counts.tolist())
        print(
            f"Q4 guardrail, {whose}: {broken} of {total:,} decisions broke it, {asked} of the wishes would have; "
            f"{far} took more than {LIMIT} out of the base ranker's top {TOP}"
        )


def counts_of(seed: int, visits: int, against: str) -> Counts:
    """Return how many decisions, and how many wishes, broke the limit at the first visits of a seed."""
    shop = open_shop({"n_products": 1_000, "a_max": 0.5}, seed)
    corners = Corners(spec_of(shop, visits), np.random.default_rng(seed))
    guarded = RankGuardrail.around(corners, limit=LIMIT, k=TOP, against=against)
    last: dict[tuple[int, int], FloatArray] = {}
    counts = np.zeros(3, np.int64)
    for step in range(visits):
        visit = shop.arrive(step)
        pair = (visit.segment, visit.query_type)
        old = visit.baseline
        if against == "previous" and pair in last:
            old = shop.rank(visit, last[pair])
        last[pair] = guarded.select_action(context_of(shop, visit))
        assert guarded.last is not None
        done, asked = (shop.rank(visit, boosts) for boosts in (last[pair], guarded.last.asked))
        # Both tops are full: a product that has left is counted with one that has come.
        changes = [rank_change(*rankings, TOP) for rankings in ((old, done), (old, asked), (visit.baseline, done))]
        counts += np.array(changes) > 2 * LIMIT
    return Counts(*counts.tolist())
