"""Q(x, a) as a table: learning values is regression on (context, action, reward), with a constant step.

The warm-up to `zoosim.policies.q_ensemble`, which puts networks in the place of the table.
"""

import math
from typing import Any

import numpy as np

from zoosim.core.errors import ConfigError, DataError
from zoosim.core.parameters import shown
from zoosim.core.types import FloatArray


class TabularQFunction:
    """A table of values, `Q (n_contexts, n_actions)`.

    All methods raise `DataError` for what is no context or no action.
    """

    def __init__(self, n_contexts: int, n_actions: int, initial_value: float = 0.0) -> None:
        """Make the table.

        Args:
            n_contexts, n_actions: Its size, at least 1 each.
            initial_value: The value that all entries start at, finite.

        Raises:
            ConfigError: an argument is invalid.
        """
        for name, value in (("n_contexts", n_contexts), ("n_actions", n_actions)):
            if not _is_whole(value) or value < 1:
                raise ConfigError(f"{name}: got {shown(value)}, expected a whole number of at least 1")
        if not _is_finite(initial_value):
            raise ConfigError(f"initial_value: got {shown(initial_value)}, expected a finite number")
        self.n_contexts = n_contexts
        self.n_actions = n_actions
        self.Q: FloatArray = np.full((n_contexts, n_actions), float(initial_value))

    def get(self, x: int, a: int) -> float:
        """Return Q(x, a)."""
        self._check(x, a)
        return float(self.Q[x, a])

    def update(self, x: int, a: int, target: float, lr: float = 0.1) -> None:
        """Set Q(x, a) to (1 - lr) Q(x, a) + lr target: a gradient step on (Q - target)^2 / 2.

        Args:
            x, a: The context and the action.
            target: The value to move to, finite.
            lr: Size of the step, in (0, 1].

        Raises:
            ConfigError: `lr` is out of range.
            DataError: there is no such context or action, or `target` is no finite number.
        """
        self._check(x, a)
        if not _is_finite(target):
            raise DataError(f"update: got target {shown(target)}, expected a finite number")
        if not _is_finite(lr) or not 0 < lr <= 1:
            raise ConfigError(f"update: got lr {shown(lr)}, expected a number above 0, at most 1")
        self.Q[x, a] = (1 - lr) * self.Q[x, a] + lr * target

    def get_optimal_action(self, x: int) -> int:
        """Return the action of the highest value in context x, the first of equals."""
        self._check(x, 0)
        return int(self.Q[x].argmax())

    def get_optimal_value(self, x: int) -> float:
        """Return the highest value in context x."""
        self._check(x, 0)
        return float(self.Q[x].max())

    def _check(self, x: Any, a: Any) -> None:
        known = _is_whole(x) and _is_whole(a)
        if not known or not (0 <= x < self.n_contexts and 0 <= a < self.n_actions):
            size = f"contexts 0 to {self.n_contexts - 1} and actions 0 to {self.n_actions - 1}"
            raise DataError(f"got context {shown(x)} and action {shown(a)}, expected {size}")


def _is_whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _is_finite(value: Any) -> bool:
    return (_is_whole(value) or isinstance(value, float | np.floating)) and math.isfinite(value)
