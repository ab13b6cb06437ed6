"""River's contextual bandit: a Bayesian regression on visitors' features for each product."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks.peers.inputs import draw_seed
from zoosim import Context, Policy, PolicySpec, parameter


class RiverLinUCB(Policy):
    """`LinUCBDisjoint` of river, with its defaults."""

    name = "river-linucb"
    beta: float = parameter(1.0, low=0.001, help="precision of the noise; the higher, the less it explores")

    def __init__(self, spec: PolicySpec, rng: np.random.Generator, **params: Any) -> None:
        """Make a policy that has learned nothing; see `zoosim.Policy`."""
        from river.bandit import LinUCBDisjoint

        super().__init__(spec, rng, **params)
        self._library: Any = LinUCBDisjoint(beta=self.beta, seed=draw_seed(rng))

    def select_action(self, context: Context) -> int:
        """Return the product of the highest bound."""
        candidates = np.flatnonzero(context.available)
        products = context.product_ids[candidates].tolist()
        product = self._library.pull(products, context=_features(context))
        return int(candidates[products.index(product)])

    def update(
        self,
        context: Context,
        action: int,
        reward: float,
        feedback: Mapping[str, Any] | None = None,
        next_context: Context | None = None,
    ) -> None:
        """Learn what a product earned."""
        self._library.update(int(context.product_ids[action]), _features(context), reward)


def _features(context: Context) -> dict[str, float]:
    """Return the visitor's features by name, and a constant."""
    return {"constant": 1.0, **{f"x{number}": value for number, value in enumerate(context.user.tolist())}}
