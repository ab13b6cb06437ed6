"""Boost policies that learn nothing: uniform, normal and constant boosts."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from zoosim.core.checks import check_array
from zoosim.core.errors import ConfigError
from zoosim.core.parameters import parameter, shown
from zoosim.core.types import Context, FloatArray
from zoosim.policies.boosts.base import BoostPolicy, BoostSpec


class CutNormal:
    """Independent normal distributions, cut to the box.

    Args:
        centre: Their means before the cut, `(d,)`.
        scale: Their standard deviation before the cut.
        a_max: Half the width of the box [-a_max, a_max]^d.
    """

    def __init__(self, centre: FloatArray, scale: float, a_max: float) -> None:
        self._centre = centre
        self._scale = scale
        self._a_max = a_max
        self._below, above = (ndtr((end - centre) / scale) for end in (-a_max, a_max))
        self._inside = above - self._below

    def draw(self, *, rng: np.random.Generator) -> FloatArray:
        """Draw by inversion, `(d,)`."""
        # u even on [F(-a_max), F(a_max)], then F^-1(u): one uniform per boost, with no draw rejected.
        drawn = ndtri(self._below + self._inside * rng.random(len(self._centre)))
        # Rounding may end just outside.
        boosts: FloatArray = np.clip(self._centre + self._scale * drawn, -self._a_max, self._a_max)
        return boosts

    def density(self, boosts: FloatArray) -> float:
        """Return the density of `boosts (d,)`, 0 outside the box."""
        inside = bool((np.abs(boosts) <= self._a_max).all())
        law = np.exp(-0.5 * ((boosts - self._centre) / self._scale) ** 2) / (np.sqrt(2.0 * np.pi) * self._scale)
        return float(inside) * float((law / self._inside).prod())


class RandomBoosts(BoostPolicy):
    """Draw boosts uniformly from the box; recommends the base ranker's own ranking."""

    name = "random-boosts"
    learns = False
    learned = ("rng",)

    def select_action(self, context: Context) -> FloatArray:
        """Draw from the box."""
        return self.rng.uniform(-self.spec.a_max, self.spec.a_max, self.spec.product_dim)

    def recommend(self, context: Context) -> FloatArray:
        """Return no boosts."""
        return np.zeros(self.spec.product_dim)

    def learn(self, context: Context, action: FloatArray, reward: float, feedback: Mapping[str, Any] | None) -> None:
        """Learn nothing."""

    def density(self, context: Context, action: Any) -> float:
        """Return the density, the same everywhere in the box and 0 outside."""
        boosts = check_array("random-boosts: action", action, (self.spec.product_dim,))
        inside = bool((np.abs(boosts) <= self.spec.a_max).all())
        return float(inside) * (2.0 * self.spec.a_max) ** -self.spec.product_dim


class NormalBoosts(RandomBoosts):
    """Draw each boost from a normal distribution cut to the box; recommends its centre."""

    name = "normal-boosts"
    boosts: str = parameter("0", help="the centre: numbers with spaces between, in units of a_max; one stands for all")
    spread: float = parameter(0.3, low=0.01, high=100, help="the standard deviation, in units of a_max, before the cut")

    def __init__(self, spec: BoostSpec, rng: np.random.Generator, **params: Any) -> None:
        """Read the centre.

        Args:
            spec: The dimensions of its task.
            rng: The source of its random draws.
            **params: Values of declared parameters; the others take their defaults.

        Raises:
            ConfigError: a parameter is unknown or out of range, or the centre does not fit the box.
        """
        super().__init__(spec, rng, **params)
        self._centre = read_boosts("normal-boosts.boosts", self.boosts, spec)
        self._distribution = CutNormal(self._centre, self.spread * spec.a_max, spec.a_max)

    def select_action(self, context: Context) -> FloatArray:
        """Draw by inversion."""
        return self._distribution.draw(rng=self.rng)

    def recommend(self, context: Context) -> FloatArray:
        """Return the centre."""
        return self._centre.copy()

    def density(self, context: Context, action: Any) -> float:
        """Return the density, 0 outside the box."""
        return self._distribution.density(check_array("normal-boosts: action", action, (self.spec.product_dim,)))


class ConstantBoosts(BoostPolicy):
    """Give every visit the same boosts."""

    name = "constant-boosts"
    learns = False
    boosts: str = parameter("0", help="numbers with spaces between, in units of a_max; one stands for all")

    def __init__(self, spec: BoostSpec, rng: np.random.Generator, **params: Any) -> None:
        """Read the boosts.

        Args:
            spec: The dimensions of its task.
            rng: Not used.
            **params: Values of declared parameters; the others take their defaults.

        Raises:
            ConfigError: a parameter is unknown, or the boosts do not fit the box.
        """
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
    """Read boosts `(product_dim,)` written in units of a_max.

    Args:
        label: Name of the parameter, for messages.
        text: Numbers from -1 to 1 with spaces between: one for all, or one per boost.
        spec: The task, which says how many boosts there are and how large they may be.

    Raises:
        ConfigError: the text is anything else.
    """
    try:
        numbers = np.array([float(part) for part in text.split()])
    except ValueError:
        numbers = np.zeros(0)
    if len(numbers) not in (1, spec.product_dim) or not (np.abs(numbers) <= 1.0).all():
        expected = f"{spec.product_dim} numbers from -1 to 1 with spaces between, or one for all"
        raise ConfigError(f"{label}: got {shown(text)}, expected {expected}")
    boosts: FloatArray = spec.a_max * np.broadcast_to(numbers, spec.product_dim)
    return boosts
