"""The uniformly random policy: the floor of every comparison, and the logging policy with full support."""

from typing import NamedTuple

from zoosim.core.jit import jit
from zoosim.core.types import BoolArray, FloatArray, IntArray
from zoosim.policies.choice import add_share, pick
from zoosim.policies.kernel import Kernel, KernelPolicy, nothing_decided


class RandomPolicyState(NamedTuple):
    """Nothing: there is nothing to learn."""


class NoCandidates(NamedTuple):
    """Nothing: what may be shown is all that counts."""


@jit
def _choose(
    state: RandomPolicyState,
    candidates: NoCandidates,
    user_id: int,
    user: FloatArray,
    available: BoolArray,
    draw: float,
) -> int:
    return pick(available, draw)


@jit
def _distribution(
    state: RandomPolicyState,
    candidates: NoCandidates,
    user_id: int,
    user: FloatArray,
    available: BoolArray,
    out: FloatArray,
) -> None:
    add_share(available, 1.0, out)


@jit
def _learn(
    state: RandomPolicyState, candidates: NoCandidates, user_id: int, user: FloatArray, action: int, reward: float
) -> None:
    pass


class Random(KernelPolicy):
    """Show any available product, each with the same probability."""

    name = "random"
    learns = False
    past_visits = 0
    kernel = Kernel("random", _choose, _distribution, _learn, nothing_decided)

    def _new_state(self) -> RandomPolicyState:
        return RandomPolicyState()

    def _candidates(self, ids: IntArray, products: FloatArray) -> NoCandidates:
        return NoCandidates()
