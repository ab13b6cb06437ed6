"""Deep Q-learning over visitors' lives (Mnih et al. 2015), double and dueling, with a network that trails."""

from typing import NamedTuple

from zoosim.core.id_table import IdTable
from zoosim.core.jit import jit
from zoosim.core.parameters import parameter
from zoosim.models.q_net import QNet, forget_kind, train
from zoosim.policies.sessions.base import Exploration, LearningProgress
from zoosim.policies.sessions.replay import ReplayPolicy, Training, replay_kernel


class DQNState(NamedTuple):
    """The network with its memory, the numbers of kinds, and how far learning has come."""

    net: QNet
    kinds: IdTable
    progress: LearningProgress
    exploration: Exploration
    training: Training
    within_visit: bool


@jit
def _train(state: DQNState, steps: int, rate: float) -> None:
    train(state.net, steps, state.training.batch_size, rate)


@jit
def _forget(state: DQNState, kind: int) -> None:
    forget_kind(state.net, kind)


class DQN(ReplayPolicy):
    """Learn by a network what a visitor will bring from here on after each kind of product (DQN).

    It decides by the trailing network, and recommends by an average of the weights over the last steps of training; its
    learning rate falls as visitors pass. With `pessimism` it is conservative Q-learning (CQL(H), Kumar et al. 2020, eq.
    4), made for logs of others: what they do not show is held to be worth less.
    """

    name = "dqn"
    learned = ("net", "kinds", "progress")
    kernel = replay_kernel("dqn", _train, _forget)
    pessimism: float = parameter(
        0.0, low=0, high=1e6, help="weight in the loss of what is not shown being worth as much (CQL's alpha)"
    )

    def _new_state(self) -> DQNState:
        return DQNState(net=self._new_net(self.pessimism), **self._state_parts())
