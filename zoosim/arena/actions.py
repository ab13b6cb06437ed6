"""What each action space asks of a policy's answers: is the action one that can be taken, and how likely was it?"""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from zoosim.core.action_space import ActionSpace
from zoosim.core.arrays import as_floats
from zoosim.core.errors import PolicyError
from zoosim.core.parameters import shown
from zoosim.core.types import BoolArray, Context, FloatArray, PolicySpec
from zoosim.logs.schema import LARGEST_DENSITY, LEAST_DENSITY
from zoosim.policies.base import Policy


class ActionRules(ABC):
    """The actions of a world, as a run checks and keeps them."""

    column: str
    """The column that holds the actions in the rows of a run."""

    @abstractmethod
    def empty(self, steps: int, spec: PolicySpec) -> Any:
        """Return an array for the actions of a run."""

    @abstractmethod
    def checked(self, action: Any, context: Context, spec: PolicySpec) -> Any:
        """Return what `select_action` returned as an action, or raise `ValueError`."""

    @abstractmethod
    def choose(self, policy: Policy, context: Context, spec: PolicySpec) -> tuple[Any, float]:
        """Let a policy choose; return the action and its propensity, or raise `ValueError`."""

    @abstractmethod
    def logged(self, context: Context) -> Context:
        """Return what a log keeps of a context, without the large arrays."""

    def has_propensity(self, policy_class: type[Policy]) -> bool:
        """Whether policies of a class can say how likely their actions are."""
        return True


class Candidates(ActionRules):
    """An index into the candidates of a request, which are products or templates."""

    column = "action"

    def empty(self, steps: int, spec: PolicySpec) -> Any:
        """Return whole numbers `(steps,)`."""
        return np.zeros(steps, np.int64)

    def checked(self, action: Any, context: Context, spec: PolicySpec) -> int:
        """Return an action as the index of an available candidate."""
        return check_action(action, context.available)

    def logged(self, context: Context) -> Context:
        """Return the visitor, the ids of the candidates and which were available."""
        return Context(user=context.user, product_ids=context.product_ids, available=context.available)

    def choose(self, policy: Policy, context: Context, spec: PolicySpec) -> tuple[int, float]:
        """Let a policy choose; one that does not override `propensities` chooses without chance."""
        draws = type(policy).propensities is not Policy.propensities
        if not draws:
            return self.checked(policy.select_action(context), context, spec), 1.0
        chances = check_propensities(policy.propensities(context), context.available)
        action = self.checked(policy.select_action(context), context, spec)
        return action, check_chosen(chances, action)


class Boosts(ActionRules):
    """A boost in [-a_max, a_max] for each boost feature, whose propensity is a density."""

    column = "boosts"

    def empty(self, steps: int, spec: PolicySpec) -> Any:
        """Return boosts `(steps, product_dim)`."""
        return np.zeros((steps, spec.product_dim))

    def checked(self, action: Any, context: Context, spec: PolicySpec) -> FloatArray:
        """Return boosts `(product_dim,)`; the world says whether they lie in the box."""
        try:
            boosts = as_floats(action).copy()
        except (TypeError, ValueError):
            boosts = np.zeros(0)
        if boosts.shape != (spec.product_dim,) or not np.isfinite(boosts).all():
            raise ValueError(f"select_action returned {shown(action)}, expected {spec.product_dim} numbers")
        return boosts

    def logged(self, context: Context) -> Context:
        """Return the features of the visit."""
        return Context(features=context.features)

    def choose(self, policy: Any, context: Context, spec: PolicySpec) -> tuple[FloatArray, float]:
        """Let a policy choose, and ask for the density of its choice."""
        action = self.checked(policy.select_action(context), context, spec)
        density = policy.density(context, action)
        known = isinstance(density, int | float | np.number) and LEAST_DENSITY <= density <= LARGEST_DENSITY
        if not known:
            expected = f"one number from {LEAST_DENSITY:g} to {LARGEST_DENSITY:g}"
            raise PolicyError(f"gives {shown(density)} as the density of what it chose, expected {expected}")
        return action, float(density)

    def has_propensity(self, policy_class: type[Policy]) -> bool:
        """Whether a class has a density of its own."""
        return policy_class.density is not Policy.density


ACTION_SPACES: dict[str, ActionRules] = {
    ActionSpace.PRODUCTS: Candidates(),
    ActionSpace.TEMPLATES: Candidates(),
    ActionSpace.BOOSTS: Boosts(),
}


def check_action(action: Any, available: BoolArray) -> int:
    """Return a policy's action as an index of an available product, or raise `ValueError`."""
    if isinstance(action, bool) or not isinstance(action, int | np.integer):
        raise ValueError(f"select_action returned {action!r}, expected an integer from 0 to {len(available) - 1}")
    if not 0 <= action < len(available):
        raise ValueError(f"select_action returned {int(action)}, expected 0 to {len(available) - 1}")
    if not available[action]:
        raise ValueError(f"select_action returned {int(action)}, which is not available (see context.available)")
    return int(action)


def check_propensities(value: Any, available: BoolArray) -> FloatArray:
    """Return a policy's propensities `(K,)`, or raise `ValueError`: they are probabilities of what is available."""
    chances = as_floats(value)
    if chances.shape != available.shape:
        raise ValueError(f"propensities returned shape {chances.shape}, expected {available.shape}")
    if not ((chances >= 0) & (chances <= 1 + 1e-9)).all():
        raise ValueError("propensities returned a number outside [0, 1]")
    if abs(chances.sum() - 1) > 1e-9:
        raise ValueError(f"propensities add up to {chances.sum():.10g}, expected 1")
    if chances[~available].any():
        raise ValueError("propensities give a product a chance that is not available (see context.available)")
    return chances


def check_chosen(chances: FloatArray, action: int) -> float:
    """Return the propensity of the chosen action, or raise `ValueError` where it is 0."""
    if not chances[action] > 0:
        raise ValueError(f"propensities give 0 to {action}, which select_action then chose")
    return float(chances[action])
