"""A shop whose visitors have tastes of their own, beside those of their segment."""

from typing import Any

import numpy as np

import zoosim
from zoosim.core.types import FloatArray, IntArray, frozen

SEGMENTS = 2
BASE = -1.5
"""The logit of a click on a product that a visitor neither likes nor dislikes."""


class OwnTastes(zoosim.World):
    """Show one of 50 products to visitors who come at random, ten times each on average.

    A click on a product x has the logit `BASE` + x'(tastes of all + tastes of the segment + `own` x tastes of one's
    own). The tastes of all scatter by 1 over products, those of segments by .5, those of one's own by `own`.
    """

    name = "own-tastes"
    visitors: int = zoosim.parameter(10_000, low=1, high=10_000_000, help="visitors, each as likely to come")
    features: int = zoosim.parameter(64, low=1, high=1_000, help="features of a product")
    products: int = zoosim.parameter(50, low=2, high=10_000, help="products")
    own: float = zoosim.parameter(1.0, low=0, high=10, help="how much visitors differ beyond their segment")

    def __init__(self, seed: int, steps: int, **params: Any) -> None:
        """Draw products, tastes, and who comes.

        Args:
            seed: The world's seed.
            steps: Visits.
            **params: Values of declared parameters.

        Raises:
            ConfigError: a parameter is unknown, of another type or out of range.
        """
        super().__init__(seed, steps, **params)
        # Rows of length 1 on average, so that tastes of independent features scatter by 1 over products.
        shelf = self.rng("products").normal(size=(self.products, self.features)) / np.sqrt(self.features)
        self._shelf = frozen(shelf)
        self._ids = frozen(np.arange(self.products))
        self._open = frozen(np.ones(self.products, bool))
        self._tastes = self.rng("tastes").normal(size=(1 + SEGMENTS, self.features)) * [[1.0], *[[0.5]] * SEGMENTS]
        self._own = self.rng("own").normal(size=(self.visitors, self.features)).astype(np.float32)
        self.coming: IntArray = self.rng("coming").integers(self.visitors, size=steps)
        self._users = [frozen(row) for row in np.eye(SEGMENTS)]

    def spec(self, steps: int) -> zoosim.PolicySpec:
        """Return the task's dimensions."""
        return zoosim.PolicySpec(user_dim=SEGMENTS, product_dim=self.features, n_users=self.visitors, steps=steps)

    def arrive(self, step: int) -> tuple[int, int]:
        """Return the visit's number and who comes."""
        return step, int(self.coming[step])

    def context(self, visit: tuple[int, int]) -> zoosim.Context:
        """Return who comes, of which segment, and the products."""
        _, visitor = visit
        user = self._users[visitor % SEGMENTS]
        return zoosim.Context(
            user_id=visitor, user=user, product_ids=self._ids, products=self._shelf, available=self._open
        )

    def chances(self, visitor: int) -> FloatArray:
        """Return the chance of a click on each product, `(products,)`."""
        tastes = self._tastes[0] + self._tastes[1 + visitor % SEGMENTS] + self.own * self._own[visitor]
        chances: FloatArray = 1.0 / (1.0 + np.exp(-BASE - self._shelf @ tastes))
        return chances

    def serve(self, visit: tuple[int, int], action: int) -> zoosim.Outcome:
        """Return 1.0 for a click, by a draw that does not depend on the product."""
        step, visitor = visit
        return zoosim.Outcome(float(self.rng("click", step).random() < self.chances(visitor)[action]))

    def truth(self, visit: tuple[int, int]) -> zoosim.Truth:
        """Return the chance of a click on each product."""
        return zoosim.truth_of_candidates(self.chances(visit[1]))
