"""The contract of a policy, and the base class that makes a first policy two methods."""

import copy
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from zoosim.core.errors import PolicyError
from zoosim.core.parameters import check_parameters
from zoosim.core.types import Context, PolicySpec, Progress


class Policy(ABC):
    """Choose a product for each visitor and learn from the clicks.

    A policy is made by `Class(spec, rng, **params)`; parameters are declared as class attributes with
    `zoosim.parameter`, checked, and then stand on the instance. One object a seed, one context a call. A policy that
    wants a log of the past before its first visit sets `past_visits` and takes it in `fit`.
    """

    name: str = ""
    """How the policy is called on the command line; the class name in kebab case when left empty."""

    past_visits: int = 0
    """How many visits of a uniformly random past `fit` wants; 0 for none."""

    only_for: ClassVar[str] = ""
    """The kind of experiment that the policy is made for; empty for any."""

    needs_user_ids: ClassVar[bool] = False
    """Whether the policy knows visitors by their id, so that it cannot work where they are never recognised."""

    def __init__(self, spec: PolicySpec, rng: np.random.Generator, **params: Any) -> None:
        """Make the policy for the task `spec` with its own generator; raises `ConfigError` on a wrong parameter."""
        self.spec = spec
        self.rng = rng
        for name, value in check_parameters(policy_name(type(self)), type(self), params).items():
            setattr(self, name, value)

    @abstractmethod
    def select_action(self, context: Context) -> Any:
        """Choose an index into `context.product_ids` where `context.available` is true; a `BoostPolicy`, boosts."""

    @abstractmethod
    def update(self, context: Context, action: Any, reward: float, feedback: Mapping[str, Any] | None = None) -> None:
        """Learn that `action` earned `reward`; `feedback` holds what else a shop would log."""

    def propensity(self, context: Context, action: Any) -> float:
        """Return the probability of choosing `action` now, without moving any state.

        The default is right for a policy that decides without chance: 1 for the action it would choose, else 0. A
        policy that draws must give its own.
        """
        return float(action == copy.deepcopy(self).select_action(context))

    def fit(self, log: Mapping[str, Any], progress: Progress = lambda line: None) -> dict[str, float]:
        """Learn from a past log before the first visit: arrays `user_id`, `action`, `reward`, `propensity`, each (n,).

        Returns figures worth keeping, such as a validation loss.
        """
        return {}

    def state_dict(self) -> dict[str, Any]:
        """Return all that the policy has learned, as arrays and plain values."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over a `state_dict` of a policy of the same class, parameters and task: decisions are then equal."""
        if state:
            raise PolicyError(f"{policy_name(type(self))}: got a state of {', '.join(state)}, expected an empty one")


def policy_name(cls: type) -> str:
    """Return how a policy class is called: its `name`, or the class name in kebab case."""
    given = getattr(cls, "name", "")
    if isinstance(given, str) and given:
        return given
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "-", cls.__name__).lower()
