"""The floor of every comparison, and the policy that writes the best logs."""

from typing import Any, NamedTuple

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.rng import draw_key, uniform
from zoosim.core.types import BoolArray, FloatArray, IntArray
from zoosim.policies.kernel import Kernel, KernelPolicy, pick, share


class State(NamedTuple):
    """The key of the draws and how many were made, each (1,)."""

    key: np.ndarray
    draws: IntArray


@jit
def _choose(state: State, user_id: int, user: FloatArray, available: BoolArray) -> int:
    state.draws[0] += 1
    return pick(available, uniform(state.key[0], state.draws[0], 0))


@jit
def _learn(state: State, user_id: int, user: FloatArray, action: int, reward: float) -> None:
    pass


@jit
def _probability(state: State, user_id: int, user: FloatArray, available: BoolArray, action: int) -> float:
    return share(available, action)


class Random(KernelPolicy):
    """Show any available product, each with the same probability."""

    name = "random"
    kernel = Kernel("random", _choose, _learn, _probability)
    learned = ("key", "draws")

    def _new_state(self) -> State:
        return State(np.array([draw_key(self.rng)]), np.zeros(1, np.int64))

    def _with_products(self, products: FloatArray) -> Any:
        return self.state
