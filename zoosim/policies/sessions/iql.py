"""Implicit Q-learning over visitors' lives (Kostrikov, Nair & Levine 2022): made for logs of others."""

from typing import NamedTuple

import numpy as np

from zoosim.core.id_table import IdTable, find_slots
from zoosim.core.jit import jit
from zoosim.core.parameters import parameter
from zoosim.core.types import FloatArray
from zoosim.models.expectile_net import ExpectileNet, new_expectile_net, train_all, write_kind_scores
from zoosim.models.q_net import QNet, forget_kind, forget_output
from zoosim.policies.sessions.base import Exploration, KindCandidates, LearningProgress
from zoosim.policies.sessions.replay import ReplayPolicy, Training, replay_kernel


class IQLState(NamedTuple):
    """The networks with their memory, the numbers of kinds, and how far learning has come."""

    net: QNet
    nets: ExpectileNet
    kinds: IdTable
    progress: LearningProgress
    exploration: Exploration
    training: Training
    within_visit: bool


@jit
def _write_scores(state: IQLState, candidates: KindCandidates, user: FloatArray, scores: FloatArray) -> None:
    kinds = np.empty(scores.shape[0], np.int64)
    find_slots(state.kinds, candidates.ids, kinds)
    write_kind_scores(state.nets, user, kinds, scores)


@jit
def _train(state: IQLState, steps: int, rate: float) -> None:
    train_all(state.net, state.nets, steps, state.training.batch_size, rate)


@jit
def _forget(state: IQLState, kind: int) -> None:
    forget_kind(state.net, kind)
    forget_output(state.nets.actor[0], state.nets.actor_layers[-1], state.net.memory.offered.shape[1], kind)


class IQL(ReplayPolicy):
    """Imitate the better decisions of a log, by what followed them and without asking what nobody tried (IQL).

    A state is worth an expectile of what was shown there. Decisions are the most likely ones of a policy that imitates
    each of the log's by exp(`sharpness` x advantage). It learns online, too, but is made for logs.
    """

    name = "iql"
    learned = ("net", "nets", "kinds", "progress")
    kernel = replay_kernel("iql", _train, _forget, _write_scores)
    expectile: float = parameter(
        0.7,
        low=0.5,
        high=0.999,
        help="expectile of what was shown that a state is worth: .5 its mean, towards 1 the best",
    )
    sharpness: float = parameter(
        3.0,
        low=0,
        high=1e4,
        help="weight of an advantage in the exponent by which decisions are imitated; 0 for all alike",
    )

    def _new_state(self) -> IQLState:
        net = self._new_net(0.0)
        nets = new_expectile_net(
            self._widths,
            self._dim,
            self.kinds + 1,
            expectile=self.expectile,
            sharpness=self.sharpness,
            rng=self.rng,
        )
        return IQLState(net=net, nets=nets, **self._state_parts())
