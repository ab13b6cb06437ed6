"""A world in which a visitor sees two products side by side."""

from itertools import combinations

import numpy as np

import zoosim
from tests.action_spaces.pairs import JOINT, register
from zoosim.core.types import FloatArray

register()

NAMES = ("bread", "cheese", "grapes", "wine")
PAIRS = tuple(combinations(range(len(NAMES)), 2))


class Shelf(zoosim.World):
    """Sell two products side by side to visitors who like some things together."""

    action_space = "pairs"
    default_steps = 400

    def __init__(self, seed: int, steps: int, **params: float) -> None:
        super().__init__(seed, steps, **params)
        features = np.eye(len(NAMES))
        self.features = np.array([features[first] + features[second] for first, second in PAIRS])
        self.ids = np.arange(len(PAIRS))
        self.available = np.ones(len(PAIRS), bool)
        self.tastes = self.rng("tastes").uniform(0.0, 0.5, (2, len(NAMES)))
        for array in (self.features, self.ids, self.available):
            array.setflags(write=False)

    def spec(self, steps: int) -> zoosim.PolicySpec:
        return zoosim.PolicySpec(user_dim=2, product_dim=len(NAMES), steps=steps)

    def arrive(self, step: int) -> tuple[int, int]:
        return step, int(self.rng("visitor", step).integers(2))

    def context(self, visit: tuple[int, int]) -> zoosim.Context:
        user = np.eye(2)[visit[1]]
        user.setflags(write=False)
        return zoosim.Context(
            user_id=visit[0], user=user, product_ids=self.ids, products=self.features, available=self.available
        )

    def serve(self, visit: tuple[int, int], action: int) -> zoosim.Outcome:
        clicked = self.rng("click", visit[0]).random() < self.rates(visit)[action]
        return zoosim.Outcome(float(clicked))

    def truth(self, visit: tuple[int, int]) -> zoosim.Truth:
        return zoosim.truth_of_candidates(self.rates(visit))

    def rates(self, visit: tuple[int, int]) -> FloatArray:
        """Return the click rate of each pair `(6,)`."""
        rates: FloatArray = self.features @ self.tastes[visit[1]]
        return rates

    def all_products(self) -> zoosim.ProductList:
        names = tuple(JOINT.join(NAMES[place] for place in pair) for pair in PAIRS)
        return zoosim.ProductList(self.ids, self.features, ("pair",) * len(PAIRS), names)
