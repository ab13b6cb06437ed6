"""Ground truth: what each choice would earn in expectation. For regret and for tests; no policy ever holds it."""

import numpy as np

from zoosim.core.types import FloatArray, IntArray
from zoosim.world.world import Stretch, Visits, World


class GroundTruth:
    """The true click probabilities of a world."""

    def __init__(self, world: World) -> None:
        self._world = world

    def probabilities(self, step: int, user_id: int) -> FloatArray:
        """Return the click probability `(K,)` of every product for `user_id` at visit `step`; NaN where unavailable."""
        stretch = self._world.stretch(step)
        chances = stretch.table[self._world.segments[user_id], self._world.groups]
        return np.where(stretch.available, chances, np.nan)

    def expected_reward(self, step: int, user_id: int, action: int) -> float:
        """Return the click probability of `action` for `user_id` at visit `step`."""
        return float(self.probabilities(step, user_id)[action])

    def best_action(self, step: int, user_id: int) -> int:
        """Return the available product with the highest click probability, the lowest index on ties."""
        return int(np.nanargmax(self.probabilities(step, user_id)))


def chosen_and_best(visits: Visits, actions: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return the true probabilities of the chosen and of the best available product, each `(n,)`."""
    segments = visits.segments[visits.visitors]
    chosen = visits.table[segments, visits.groups[actions]]
    return chosen, best_by_segment(visits.table, visits.groups, visits.available)[segments]


def best_by_segment(table: FloatArray, groups: IntArray, available: np.ndarray) -> FloatArray:
    """Return the highest click probability of each segment over what may be shown: `(S,)`."""
    best: FloatArray = table[:, np.unique(groups[available])].max(axis=1)
    return best


def oracle_value(world: World, stretch: Stretch) -> float:
    """Return the expected click of always showing the best product in `stretch`."""
    best = best_by_segment(stretch.table, world.groups, stretch.available)
    return float(best[world.segments].mean())
