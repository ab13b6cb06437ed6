"""The interface of drift detectors in Python; kernels call the compiled functions of each detector's file."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from numbers import Real
from typing import Any, ClassVar

import numpy as np

from zoosim.core.errors import DataError
from zoosim.core.parameters import check_parameters, shown, written
from zoosim.core.state import Stateful


class Detector(Stateful, ABC):
    """Watch one stream of numbers from `low` to `high` and report when its mean has changed.

    A subclass declares its parameters, makes the compiled state of one detector, and names the function that observes.
    """

    learned: ClassVar = {"": "_state"}
    low: ClassVar[float] = 0.0
    high: ClassVar[float] = 1.0
    _observe: ClassVar[Callable[..., bool]]
    _state: Any

    def __init__(self, **params: Any) -> None:
        """Take parameters by name; raises `ConfigError` when one is unknown or out of range."""
        for name, value in check_parameters(type(self).__name__, type(self), params).items():
            setattr(self, name, value)
        self._state = self._new_state()

    def update(self, x: float) -> bool:
        """Observe x and return whether a change is found; raises `DataError` before anything moves if x is refused."""
        value = _number(x)
        if not self.low <= value <= self.high:
            expected = (
                "finite number" if self.high > 1.0 else f"number from {written(self.low)} to {written(self.high)}"
            )
            raise DataError(f"{type(self).__name__}: got {shown(x)}, expected a {expected}")
        return bool(self._observe(self._state, 0, value))

    @property
    def n_observations(self) -> int:
        """Number of observations that the detector holds: those since the last change it found."""
        return self._held()[0]

    @property
    def mean(self) -> float:
        """The mean of the observations it holds, NaN while there are none."""
        count, mean = self._held()
        return mean if count else math.nan

    @abstractmethod
    def _held(self) -> tuple[int, float]:
        """Return how many observations the detector holds, and their mean or 0."""

    @abstractmethod
    def _new_state(self) -> Any:
        """Make the state of one detector that has seen nothing."""


def _number(x: Any) -> float:
    """Return x as a float, NaN if it is none."""
    try:
        return float(x) if isinstance(x, Real | np.bool_) else math.nan
    except OverflowError:  # an integer too large for a float
        return math.nan
