"""Deep Q-learning over visitors' lives (Mnih et al. 2015), double and dueling, with a network that trails."""

from typing import NamedTuple

import numpy as np

from zoosim.core.checks import parse_widths
from zoosim.core.claims import claim
from zoosim.core.id_table import IdTable, claim_slot, find_slot
from zoosim.core.jit import jit
from zoosim.core.parameters import parameter
from zoosim.core.rng import draw_key
from zoosim.core.types import BoolArray, FloatArray
from zoosim.models.q_net import (
    DRAWN,
    QNet,
    forget_kind,
    new_q_net,
    new_transitions,
    next_place,
    train,
    write_kind_values,
)
from zoosim.policies.sessions.base import (
    VISIT,
    Exploration,
    KindCandidates,
    LearningProgress,
    LookAheadPolicy,
    look_ahead_kernel,
    progress_of,
)


class Training(NamedTuple):
    """When the network is trained, and how: see the parameters of `DQN`."""

    every: int
    steps: int
    batch_size: int
    rate: float
    last_rate: float


class DQNState(NamedTuple):
    """The network with its memory, the numbers of kinds, and how far learning has come."""

    net: QNet
    kinds: IdTable
    progress: LearningProgress
    exploration: Exploration
    training: Training
    within_visit: bool


@jit
def _write_values(state: DQNState, candidates: KindCandidates, user: FloatArray, values: FloatArray) -> None:
    kinds = np.empty(values.shape[0], np.int64)
    for r in range(values.shape[0]):
        kinds[r] = find_slot(state.kinds, candidates.ids[r])
    write_kind_values(state.net, user, kinds, values)


@jit
def _learn(
    state: DQNState, candidates: KindCandidates, user_id: int, user: FloatArray, action: int, reward: float
) -> None:
    memory = state.net.memory
    place = _remember(state, candidates, user, action, reward)
    memory.ends[place] = 1
    memory.next_states[place] = 0.0
    memory.next_open[place] = 0
    state.progress.gone[0] += 1
    _train_when_due(state)


@jit
def _follow(
    state: DQNState,
    candidates: KindCandidates,
    user_id: int,
    user: FloatArray,
    action: int,
    reward: float,
    visit_ended: bool,
    next_candidates: KindCandidates,
    next_user: FloatArray,
    next_available: BoolArray,
) -> None:
    memory = state.net.memory
    place = _remember(state, candidates, user, action, reward)
    memory.ends[place] = state.within_visit and visit_ended
    for i in range(next_user.shape[0]):
        memory.next_states[place, i] = next_user[i]
    _enter(state, next_candidates)
    memory.next_open[place] = 0
    for k in range(next_available.shape[0]):
        if next_available[k]:
            kind = next_candidates.kind_of[k]
            memory.next_open[place, find_slot(state.kinds, next_candidates.ids[kind])] = 1
    _train_when_due(state)


@jit
def _enter(state: DQNState, candidates: KindCandidates) -> None:
    """Give all kinds of a request numbers."""
    for r in range(candidates.ids.shape[0]):
        kind, is_new = claim_slot(state.kinds, candidates.ids[r])
        if is_new:
            forget_kind(state.net, kind)


@jit
def _remember(state: DQNState, candidates: KindCandidates, user: FloatArray, action: int, reward: float) -> int:
    """Write a decision to the memory, but for what follows it, and return its place."""
    _enter(state, candidates)
    memory = state.net.memory
    place = next_place(state.net)
    for i in range(user.shape[0]):
        memory.states[place, i] = user[i]
    memory.kinds[place] = find_slot(state.kinds, candidates.ids[candidates.kind_of[action]])
    memory.rewards[place] = reward
    return place


@jit
def _train_when_due(state: DQNState) -> None:
    plan = state.training
    if state.net.counts[DRAWN] % plan.every == 0:
        rate = plan.rate * plan.last_rate ** progress_of(state.progress)
        train(state.net, plan.steps, plan.batch_size, rate)


class DQN(LookAheadPolicy):
    """Learn by a network what a visitor will bring from here on after each kind of product (DQN).

    Decisions are made by the trailing network; the learning rate falls as visitors pass.
    """

    name = "dqn"
    learned = ("net", "kinds", "progress")
    kernel = look_ahead_kernel("dqn", _write_values, _learn, _follow)
    hidden: str = parameter("64-64", help="units of the hidden layers")
    memory: int = parameter(50_000, low=100, high=10_000_000, help="decisions that the replay memory holds")
    batch_size: int = parameter(128, low=1, high=10_000, help="decisions per step of training")
    train_every: int = parameter(64, low=1, high=1_000_000, help="decisions between trainings")
    train_steps: int = parameter(4, low=1, high=10_000, help="steps of a training")
    learning_rate: float = parameter(1e-3, low=1e-7, high=1, help="Adam's learning rate at first")
    last_rate: float = parameter(0.1, low=1e-6, high=1, help="share of it that is left in the end")
    trail: float = parameter(0.01, low=1e-6, high=1, help="share of its way that the trailing network goes in a step")
    longest_error: float = parameter(
        1e6, low=1e-6, high=1e9, help="size of errors from which on a loss grows linearly (Huber's delta)"
    )

    def _new_state(self) -> DQNState:
        widths = parse_widths("dqn.hidden", self.hidden)
        dim = max(1, self.spec.user_dim)
        claim(self.memory * (2 * dim + self.kinds))
        net = new_q_net(
            widths,
            new_transitions(self.memory, dim, self.kinds + 1),
            discount=self.discount,
            trail=self.trail,
            longest_error=self.longest_error,
            key=draw_key(self.rng),
            rng=self.rng,
        )
        return DQNState(
            net=net,
            kinds=self._new_kinds(),
            progress=self._new_progress(),
            exploration=self._new_exploration(),
            training=Training(
                every=self.train_every,
                steps=self.train_steps,
                batch_size=self.batch_size,
                rate=self.learning_rate,
                last_rate=self.last_rate,
            ),
            within_visit=self.horizon == VISIT,
        )
