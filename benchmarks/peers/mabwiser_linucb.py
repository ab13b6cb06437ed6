"""MABWiser's LinUCB: a ridge regression on visitors' features for each product."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks.peers.inputs import visitor_row
from zoosim import Context, Policy, PolicySpec, parameter


class MABWiserLinUCB(Policy):
    """LinUCB of MABWiser, with its defaults.

    Each product has a `MAB` of its own. One for all products decides alike, but copies all models at each update, and
    predicts for all products that there ever were.
    """

    name = "mabwiser-linucb"
    alpha: float = parameter(1.0, low=0, help="width of the confidence bound")

    def __init__(self, spec: PolicySpec, rng: np.random.Generator, **params: Any) -> None:
        """Make a policy that has learned nothing; see `zoosim.Policy`."""
        super().__init__(spec, rng, **params)
        self._arms: dict[int, Any] = {}
        self._untried = self._make_arm()

    def select_action(self, context: Context) -> int:
        """Return the product of the highest bound."""
        features = visitor_row(context)
        untried_bound = self._untried.predict_expectations(features)[0]
        bounds = np.full(len(context.available), -np.inf)
        for candidate in np.flatnonzero(context.available):
            arm = self._arms.get(int(context.product_ids[candidate]))
            bounds[candidate] = untried_bound if arm is None else arm.predict_expectations(features)[0]
        return int(bounds.argmax())

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
        if product not in self._arms:
            self._arms[product] = self._make_arm()
        self._arms[product].partial_fit([0], [reward], visitor_row(context))

    def _make_arm(self) -> Any:
        """Return a model of a product that was never shown."""
        from mabwiser.mab import MAB, LearningPolicy

        arm = MAB([0], LearningPolicy.LinUCB(alpha=self.alpha))
        arm.fit([0], [0.0], np.zeros((1, self.spec.user_dim + 1)))  # adds nothing: a model has to be fitted first
        return arm
