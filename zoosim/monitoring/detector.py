"""The interface of drift detectors in Python; kernels call the compiled functions of each detector's file."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from numbers import Real
from typing import Any, ClassVar

import numpy as np

from zoosim.core.checks import alike
from zoosim.core.errors import ConfigError, DataError
from zoosim.core.limits import first_flaw
from zoosim.core.parameters import check_parameters, shown, written


class Detector(ABC):
    """Watch one stream of numbers from `low` to `high` and report when its mean has changed.

    A subclass declares its parameters, makes the compiled state of one detector, and names the function that observes.
    """

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

    def state_dict(self) -> dict[str, np.ndarray]:
        """Return copies of the arrays that hold what was seen."""
        return {name: array.copy() for name, array in self._arrays().items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what a detector of this class saved; raises `ConfigError` before anything moves if it is not."""
        arrays = self._arrays()
        fits = set(state) == set(arrays) and all(alike(state[name], arrays[name]) for name in arrays)
        broken = f"{type(self).__name__}: the saved state is of another detector, or broken"
        if not fits:
            raise ConfigError(broken)
        flaw = first_flaw("state", self._state._replace(**state))
        if flaw:
            raise ConfigError(f"{broken} ({flaw})")
        for name, array in arrays.items():
            np.copyto(array, state[name])

    def _arrays(self) -> dict[str, np.ndarray]:
        return {name: value for name, value in self._state._asdict().items() if isinstance(value, np.ndarray)}


def _number(x: Any) -> float:
    """Return x as a float, NaN if it is none."""
    try:
        return float(x) if isinstance(x, Real | np.bool_) else math.nan
    except OverflowError:  # an integer too large for a float
        return math.nan
