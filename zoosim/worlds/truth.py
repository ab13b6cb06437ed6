"""Ground truth: what each choice would earn in expectation. For regret and for tests; no policy ever holds it."""

import numpy as np

from zoosim.core.types import Context, FloatArray, IntArray
from zoosim.worlds.world import Visits, World


class GroundTruth:
    """The true click probabilities of a world at visit `step`.

    Availability and user are taken from the context, so any context of that time can be asked about.
    """

    def __init__(self, world: World, step: int) -> None:
        self._segments, self._groups = world.segments, world.offered(step).groups
        self._table = world.stretch(step).table

    def probabilities(self, context: Context) -> FloatArray:
        """Return the click probability of every product, `(K,)`; NaN where it is not available."""
        chances = self._table[self._segments[context.user_id], self._groups]
        return np.where(context.available, chances, np.nan)

    def expected_reward(self, context: Context, action: int) -> float:
        """Return the click probability of `action`; NaN when it is not available."""
        return float(self.probabilities(context)[action])

    def best_action(self, context: Context) -> int:
        """Return the available product with the highest click probability, the lowest index on ties."""
        return int(np.nanargmax(self.probabilities(context)))


def chosen_and_best(visits: Visits, actions: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return the true probabilities of the chosen and of the best available product, each `(n,)`."""
    segments = visits.segments[visits.visitors]
    chosen = visits.table[segments, visits.groups[actions]]
    return chosen, best_by_segment(visits.table, visits.groups, visits.available)[segments]


def best_by_segment(table: FloatArray, groups: IntArray, available: np.ndarray) -> FloatArray:
    """Return the highest click probability of each segment over what may be shown: `(S,)`."""
    best: FloatArray = table[:, np.unique(groups[available])].max(axis=1)
    return best
