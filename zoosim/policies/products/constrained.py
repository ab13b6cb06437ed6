"""Floors for policies over products: the policy inside learns the reward plus what the floors' quantities are worth.

Each visit's quantities are the parts of its reward by name, as a world with several rewards or a service reports them.
They are priced by the multipliers in force when the visit is learned (Lagrangian payoffs, as in Immorlica et al. 2019,
https://arxiv.org/abs/1811.11881), so any policy that learns from a number can be inside, and its probabilities are
those of the decision. One that forgets follows prices soonest, as it learned earlier rewards at earlier prices.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from zoosim.core.errors import DataError, PolicyError
from zoosim.core.parameters import parameter, shown
from zoosim.core.types import Context, Distribution, FloatArray, PastLog, PolicySpec, Progress
from zoosim.policies.base import Policy
from zoosim.policies.constraints import Constrained
from zoosim.policies.registry import find_class
from zoosim.policies.requests import LARGEST


class ConstrainedProducts(Constrained):
    """Wrap a policy over products so that visits bring, on average, the floors of several rewards."""

    name = "constrained"
    learns_by_candidates = True
    learned = ("inside",)
    policy: str = parameter("d-linucb", help="who decides: a policy over products by name, with its own defaults")

    def __init__(self, spec: PolicySpec, rng: np.random.Generator, **params: Any) -> None:
        """Make the policy inside.

        Args:
            spec: The dimensions of the task.
            rng: The source of its random draws.
            **params: Values of declared parameters; the others take their defaults.

        Raises:
            ConfigError: a parameter is unknown, of another type or out of range.
            PolicyError: `policy` chooses no products, has floors itself, or learns from logs or from rewards of a range
                alone.
        """
        super().__init__(spec, rng, **params)
        cls = find_class(self.policy)
        if "products" not in cls.chooses or issubclass(cls, Constrained):
            raise PolicyError(f"constrained.policy: got {self.policy}, expected a policy that chooses products")
        if not cls.learns_online:
            raise PolicyError(
                f"constrained.policy: got {self.policy}, which learns from logs alone and would not follow prices; "
                "expected one that learns from rewards, such as d-linucb"
            )
        low, high = getattr(cls, "rewards", (-LARGEST, LARGEST))
        if low > -LARGEST or high < LARGEST:
            raise PolicyError(
                f"constrained.policy: got {self.policy}, which learns from rewards from {low:g} to {high:g} alone; "
                "expected one that learns from any, such as adaptive or linucb"
            )
        self.inside: Policy = cls(spec, rng)
        self.looks_ahead = self.inside.looks_ahead
        self._constrain()

    def select_action(self, context: Context) -> int:
        """Decide by the policy inside."""
        return int(self.inside.select_action(context))

    def note_decision(self, context: Context, action: Any, is_confirmed: bool = True) -> None:
        """Move what a decision moves, for one that was made elsewhere; see `Policy.note_decision`."""
        self.inside.note_decision(context, action, is_confirmed)

    def propensities(self, context: Context) -> FloatArray | Distribution:
        """Return the probabilities of the policy inside, which has learned the prices so far."""
        return self.inside.propensities(context)

    def recommend(self, context: Context) -> int:
        """Return what the policy inside takes for best."""
        return int(self.inside.recommend(context))

    def update(
        self,
        context: Context,
        action: int,
        reward: float,
        feedback: Mapping[str, Any] | None = None,
        next_context: Context | None = None,
    ) -> None:
        """Teach the policy inside the priced reward, and move the multipliers.

        Raises:
            DataError: `feedback["reward_parts"]` lacks a quantity that has a floor.
        """
        values = self._parts_of(feedback)
        self.inside.update(context, action, self._priced(reward, values), feedback, next_context)
        # Last, since the policy inside refuses what is wrong before anything is learned.
        self._ascend(float(reward), values)

    def _parts_of(self, feedback: Mapping[str, Any] | None) -> FloatArray:
        parts = feedback.get("reward_parts") if isinstance(feedback, Mapping) else None
        if not isinstance(parts, Mapping):
            parts = {}
        for constraint in self._dual.constraints:
            value = parts.get(constraint.name)
            if not isinstance(value, int | float | np.number) or not -LARGEST <= value <= LARGEST:
                raise DataError(
                    f"constrained: reward_parts {constraint.name}: got {shown(value)}, expected a number from "
                    f"{-LARGEST:g} to {LARGEST:g} for its floor"
                )
        return self._quantities(parts)

    def fit(self, log: PastLog, progress: Progress = lambda line: None) -> dict[str, float]:
        """Teach the policy inside by a log; multipliers stay, since a log's decisions are those of another policy."""
        return self.inside.fit(log, progress)

    def reseed(self, rng: np.random.Generator) -> None:
        """Draw from `rng` from now on; what was learned stays."""
        super().reseed(rng)
        self.inside.reseed(rng)

    def prepare(self) -> None:
        """Compile what the policy inside needs."""
        self.inside.prepare()
