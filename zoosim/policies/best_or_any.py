"""Policies that show what seems best, and in a share of their decisions any candidate."""

from abc import abstractmethod
from typing import Any

import numpy as np

from zoosim.core.rng import uniform
from zoosim.core.types import Context, Distribution, PolicySpec
from zoosim.policies.base import Policy
from zoosim.policies.choice import pick
from zoosim.policies.kernel import new_draws
from zoosim.policies.requests import CheckedRequest, checked_request


class BestOrAny(Policy):
    """Show the candidate that seems best, and in a share of decisions any of them, evenly (epsilon-greedy)."""

    explore: float
    """Share of decisions that is spread evenly, a parameter of each such policy."""

    def __init__(self, spec: PolicySpec, rng: np.random.Generator, **params: Any) -> None:
        """Make a policy that has decided nothing.

        Args:
            spec: The dimensions of its task.
            rng: The key of its draws is taken from it.
            **params: Values of declared parameters; the others take their defaults.

        Raises:
            ConfigError: a parameter is unknown, of another type or out of range.
        """
        super().__init__(spec, rng, **params)
        self.draws = new_draws(rng)

    @abstractmethod
    def _best(self, context: Context, request: CheckedRequest, explores: bool) -> int:
        """Return the candidate that seems best; where it `explores`, what is less known may seem better."""

    @property
    def _spread(self) -> float:
        """The share of decisions that is spread evenly now."""
        return self.explore

    def select_action(self, context: Context) -> int:
        """Draw a candidate."""
        request = checked_request(context, self.spec)
        draw = uniform(self.draws.key[0], int(self.draws.decisions[0]) + 1, 0)
        self.draws.decisions[0] += 1
        if draw < self._spread:
            return pick(request.available, draw / self._spread)
        return self._best(context, request, explores=True)

    def propensities(self, context: Context) -> Distribution:
        """Return the probabilities that `select_action` draws from; moves no state."""
        best = self._best(context, checked_request(context, self.spec), explores=True)
        return Distribution(np.asarray(context.product_ids)[[best]], np.array([1.0 - self._spread]), self._spread)

    def recommend(self, context: Context) -> int:
        """Return the candidate that seems best, without exploring; moves no state."""
        return self._best(context, checked_request(context, self.spec), explores=False)

    def reseed(self, rng: np.random.Generator) -> None:
        """Draw from `rng` from now on; what was learned stays."""
        super().reseed(rng)
        self.draws = new_draws(rng)
