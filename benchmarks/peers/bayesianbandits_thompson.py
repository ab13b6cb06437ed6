"""Thompson sampling of bayesianbandits: a Bayesian regression on visitors' features for each product."""

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks.peers.inputs import draw_seed, visitor_row
from zoosim import Context, Policy, PolicySpec, parameter
from zoosim.core.types import FloatArray

DRAWS = 200
"""Decisions that propensities are counted in."""


class BayesianBanditsThompson(Policy):
    """Thompson sampling by a `ContextualAgent` with a normal-inverse-gamma regression per product, as documented."""

    name = "bayesianbandits-ts"
    prior: float = parameter(1.0, low=0.001, help="precision of the weights before anything is learned")

    def __init__(self, spec: PolicySpec, rng: np.random.Generator, **params: Any) -> None:
        """Make a policy that has learned nothing; see `zoosim.Policy`."""
        super().__init__(spec, rng, **params)
        self._arms: dict[int, Any] = {}
        self._agent: Any = None
        self._offered: list[int] = []

    def select_action(self, context: Context) -> int:
        """Draw a product."""
        candidates = np.flatnonzero(context.available)
        products = context.product_ids[candidates].tolist()
        self._offer(products)
        [product] = self._agent.pull(visitor_row(context))
        return int(candidates[products.index(product)])

    def propensities(self, context: Context) -> FloatArray:
        """Return about how probable each candidate is `(K,)`, by decisions of a copy."""
        twin = copy.deepcopy(self)
        chosen = [twin.select_action(context) for _ in range(DRAWS)]
        return np.bincount(chosen, minlength=len(context.available)) / DRAWS

    def update(
        self,
        context: Context,
        action: int,
        reward: float,
        feedback: Mapping[str, Any] | None = None,
        next_context: Context | None = None,
    ) -> None:
        """Learn what a product earned."""
        product = int(context.product_ids[action])
        if product not in self._offered:
            self._offer([*self._offered, product])
        self._agent.select_for_update(product)
        self._agent.update(visitor_row(context), np.array([reward]))

    def _offer(self, products: list[int]) -> None:
        """Let the agent choose among these products; each keeps its model."""
        from bayesianbandits import Arm, ContextualAgent, NormalInverseGammaRegressor, ThompsonSampling

        if products == self._offered:
            return
        for product in products:
            if product not in self._arms:
                self._arms[product] = Arm(product, learner=NormalInverseGammaRegressor(lam=self.prior))
        arms = [self._arms[product] for product in products]
        seed = draw_seed(self.rng)
        self._agent = ContextualAgent(arms, ThompsonSampling(), random_seed=seed)
        self._offered = list(products)
