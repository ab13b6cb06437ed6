"""The common part of all action spaces in which a decision chooses one of the candidates of its request."""

from typing import Any

import numpy as np

from zoosim.action_spaces.base import ActionSpace, Part
from zoosim.core.arrays import as_floats
from zoosim.core.types import BoolArray, Context, FloatArray, PolicySpec
from zoosim.policies.base import Policy
from zoosim.policies.requests import dense_propensities, places_among
from zoosim.policies.retrieving import RetrievingPolicy


class Candidates(ActionSpace):
    """An index into the candidates of a request."""

    context_fields = ("user_id", "user", "product_ids", "products", "available")
    logged_choices = Part("zoosim.arena.recording:candidate_choices")

    def empty(self, steps: int, spec: PolicySpec) -> Any:
        """Return whole numbers `(steps,)`."""
        return np.zeros(steps, np.int64)

    def checked(self, action: Any, context: Context, spec: PolicySpec) -> int:
        """Return an action as the index of an available candidate."""
        return check_action(action, context.available)

    def choose(self, policy: Policy, context: Context, spec: PolicySpec) -> tuple[int, float]:
        """Return the action that a policy selects, and its propensity: 1 where it does not override `propensities`."""
        draws = type(policy).propensities is not Policy.propensities
        if not draws:
            return self.checked(policy.select_action(context), context, spec), 1.0
        # Asked before it chooses, as choosing may move the state that the probabilities follow from.
        chances = check_propensities(dense_propensities(policy, context), context.available)
        action = self.checked(policy.select_action(context), context, spec)
        return action, check_chosen(chances, action)

    def choose_logged(self, policy: Policy, context: Context, spec: PolicySpec) -> tuple[int, float, Context]:
        """Return an action, its propensity, and what a log keeps: of a policy that retrieves, its own candidates."""
        if not isinstance(policy, RetrievingPolicy):
            return super().choose_logged(policy, context, spec)
        decision = policy.decide(context)
        place = int(places_among(context.product_ids, np.array([decision.product_id]))[0])
        action = self.checked(place, context, spec)
        kept = Context(
            user=context.user,
            product_ids=decision.candidates,
            available=np.ones(len(decision.candidates), bool),
            source=decision.source,
            shown=decision.product_id,
            marginal_propensity=decision.marginal_propensity,
        )
        return action, check_chosen(np.array([decision.propensity]), 0), kept

    def any_action(self, context: Context, spec: PolicySpec, *, rng: np.random.Generator) -> int:
        """Return the index of an available candidate."""
        return int(rng.choice(np.flatnonzero(context.available)))

    def logged(self, context: Context) -> Context:
        """Return the visitor, the ids of the candidates, which were available and where they came from."""
        kept = ("user", "product_ids", "available", "source")
        return Context({name: context[name] for name in kept if name in context})


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
    # In this form NaN is refused, too.
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
