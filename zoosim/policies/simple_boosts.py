"""Boosts that learn nothing: the floor, the author of logs, and one vector for everybody."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from zoosim.core.checks import check_array, check_generator_state
from zoosim.core.errors import ConfigError
from zoosim.core.parameters import parameter, shown
from zoosim.core.types import Context, FloatArray
from zoosim.policies.boosts import BoostPolicy, BoostSpec


class RandomBoosts(BoostPolicy):
    """Draw boosts uniformly from the box; recommends the base ranker's own ranking."""

    name = "random-boosts"

    def select_action(self, context: Context) -> FloatArray:
        """Draw from the box."""
        return self.rng.uniform(-self.spec.a_max, self.spec.a_max, self.spec.product_dim)

    def recommend(self, context: Context) -> FloatArray:
        """Return no boosts."""
        return np.zeros(self.spec.product_dim)

    def learn(self, context: Context, action: FloatArray, reward: float, feedback: Mapping[str, Any] | None) -> None:
        """Learn nothing."""

    def propensity(self, context: Context, action: Any) -> float:
        """Return the density, the same everywhere in the box and 0 outside."""
        boosts = check_array("random-boosts: action", action, (self.spec.product_dim,))
        inside = bool((np.abs(boosts) <= self.spec.a_max).all())
        return float(inside) * (2.0 * self.spec.a_max) ** -self.spec.product_dim

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the generator."""
        return {"rng": self.rng.bit_generator.state}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over the state of a generator; raises `DataError` for what is none."""
        found = state.get("rng") if isinstance(state, Mapping) else state
        self.rng.bit_generator.state = check_generator_state("random-boosts: the saved state", found)


class ConstantBoosts(BoostPolicy):
    """Boost alike for everybody."""

    name = "constant-boosts"
    boosts: str = parameter("0", help="numbers with spaces between, in units of a_max; one stands for all")

    def __init__(self, spec: BoostSpec, rng: np.random.Generator, **params: Any) -> None:
        """Read the boosts; raises `ConfigError` where they do not fit the box."""
        super().__init__(spec, rng, **params)
        self._boosts = read_boosts("constant-boosts.boosts", self.boosts, spec)

    def select_action(self, context: Context) -> FloatArray:
        """Return the boosts."""
        return self._boosts.copy()

    def recommend(self, context: Context) -> FloatArray:
        """Return the boosts."""
        return self._boosts.copy()

    def learn(self, context: Context, action: FloatArray, reward: float, feedback: Mapping[str, Any] | None) -> None:
        """Learn nothing."""


def read_boosts(label: str, text: str, spec: BoostSpec) -> FloatArray:
    """Return boosts `(product_dim,)` written in units of a_max, one number for all or each its own.

    Raises `ConfigError` where they do not fit the box.
    """
    try:
        numbers = np.array([float(part) for part in text.split()])
    except ValueError:
        numbers = np.zeros(0)
    if len(numbers) not in (1, spec.product_dim) or not (np.abs(numbers) <= 1.0).all():
        expected = f"{spec.product_dim} numbers from -1 to 1, or one for all"
        raise ConfigError(f"{label}: got {shown(text)}, expected {expected}")
    boosts: FloatArray = spec.a_max * np.broadcast_to(numbers, spec.product_dim)
    return boosts
