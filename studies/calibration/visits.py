"""Visits to a search shop under random boosts, as arrays: what an ensemble of boosts learns from."""

from typing import NamedTuple

import numpy as np

from zoosim.core.rng import stream
from zoosim.core.search_names import FEATURES
from zoosim.core.types import FloatArray, IntArray
from zoosim.worlds.search.shop import SearchShop


class Visits(NamedTuple):
    """What was observed `(n, 17)`, boosts `(n, 10)`, uniform in the box, `rewards (n,)` in EUR, `segments (n,)`."""

    states: FloatArray
    actions: FloatArray
    rewards: FloatArray
    segments: IntArray

    def part(self, start: int, end: int) -> "Visits":
        """Return visits `start` to `end - 1`."""
        chosen = slice(start, end)
        return Visits(self.states[chosen], self.actions[chosen], self.rewards[chosen], self.segments[chosen])


def random_visits(shop: SearchShop, n: int, seed: int) -> Visits:
    """Serve the first n visitors of a shop with boosts drawn for `seed`."""
    a_max = shop.world.config.a_max
    actions = stream(seed, "boosts").uniform(-a_max, a_max, (n, len(FEATURES)))
    states, rewards, segments = np.empty((n, shop.n_features)), np.empty(n), np.empty(n, np.int64)
    for step, action in enumerate(actions):
        visit = shop.arrive(step)
        states[step], segments[step] = shop.features(visit), visit.segment
        rewards[step] = shop.serve(visit, shop.rank(visit, action)).reward
    return Visits(states, actions, rewards, segments)
