"""Policies that value kinds by networks, which learn from decisions that are drawn from a memory, or from a log."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from zoosim.core.checks import parse_widths
from zoosim.core.claims import claim
from zoosim.core.id_table import find_slot, find_slots
from zoosim.core.jit import bind, jit
from zoosim.core.parameters import parameter
from zoosim.core.rng import draw_key
from zoosim.core.types import BoolArray, FloatArray, IntArray, PastLog, Progress
from zoosim.models.q_net import (
    DRAWN,
    QNet,
    Transitions,
    averaged,
    new_q_net,
    new_transitions,
    next_place,
    write_kind_values,
)
from zoosim.policies.base import FIT_CHUNK
from zoosim.policies.requests import checked_past_features, checked_reward
from zoosim.policies.sessions.base import (
    VISIT,
    KindCandidates,
    LookAheadKernel,
    LookAheadPolicy,
    kinds_among,
    known_decisions,
    look_ahead_kernel,
    number_kinds,
    progress_of,
)

STEPS_PER_LINE = 100
"""Steps of a fit between two lines of progress."""


class Training(NamedTuple):
    """When networks are trained, and how: see the parameters of `ReplayPolicy`."""

    every: int
    steps: int
    batch_size: int
    rate: float
    last_rate: float


@dataclass(frozen=True, kw_only=True)
class ReplayKernel(LookAheadKernel):
    """The compiled functions of a policy with a replay memory; see `replay_kernel`."""

    train: Callable[..., None]
    enter: Callable[..., None]


# `replay_kernel` puts a policy's own functions in the place of these.
train: Any = None
forget: Any = None
enter: Any = None
remember: Any = None
train_when_due: Any = None


def replay_kernel(
    name: str,
    train: Callable[..., None],
    forget: Callable[..., None],
    write_scores: Callable[..., None] | None = None,
) -> ReplayKernel:
    """Return the kernel of a policy whose state has a `QNet` as `net`, and all that `ReplayPolicy` names.

    Args:
        name: The policy's.
        train: `(state, steps, rate)` takes some steps at a learning rate.
        forget: `(state, kind)` lets the number of a kind that is new tell nothing of the one that had it before.
        write_scores: See `look_ahead_kernel`.
    """
    enter = bind(_enter, f"enter_{name}", forget=forget)
    own: dict[str, Callable[..., Any]] = {
        "enter": enter,
        "remember": bind(_remember, f"remember_{name}", enter=enter),
        "train_when_due": bind(_train_when_due, f"train_{name}", train=train),
    }
    learn = bind(_learn, f"learn_{name}", **own)
    follow = bind(_follow, f"follow_{name}", **own)
    looking_ahead = look_ahead_kernel(name, _write_values, learn, follow, write_scores)
    return ReplayKernel(**vars(looking_ahead), train=train, enter=enter)


@jit
def _write_values(state: Any, candidates: KindCandidates, user: FloatArray, values: FloatArray) -> None:
    kinds = np.empty(values.shape[0], np.int64)
    find_slots(state.kinds, candidates.ids, kinds)
    write_kind_values(state.net, user, kinds, values)


def _learn(state: Any, candidates: KindCandidates, user_id: int, user: FloatArray, action: int, reward: float) -> None:
    memory = state.net.memory
    place = remember(state, candidates, user, action, reward)
    memory.ends[place] = 1
    memory.next_states[place] = 0.0
    memory.next_open[place] = 0
    state.progress.gone[0] += 1
    train_when_due(state)


def _follow(
    state: Any,
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
    place = remember(state, candidates, user, action, reward)
    memory.ends[place] = state.within_visit and visit_ended
    for i in range(next_user.shape[0]):
        memory.next_states[place, i] = next_user[i]
    enter(state, next_candidates)
    memory.next_open[place] = 0
    for k in range(next_available.shape[0]):
        if next_available[k]:
            kind = next_candidates.kind_of[k]
            memory.next_open[place, find_slot(state.kinds, next_candidates.ids[kind])] = 1
    train_when_due(state)


def _enter(state: Any, candidates: KindCandidates) -> None:
    """Give the kinds of a request numbers."""
    for kind in number_kinds(state.kinds, candidates.ids):
        forget(state, kind)


def _remember(state: Any, candidates: KindCandidates, user: FloatArray, action: int, reward: float) -> int:
    """Write a decision to the memory, but for what follows it, and return its place."""
    enter(state, candidates)
    memory = state.net.memory
    place = next_place(state.net)
    for i in range(user.shape[0]):
        memory.states[place, i] = user[i]
    memory.kinds[place] = find_slot(state.kinds, candidates.ids[candidates.kind_of[action]])
    memory.rewards[place] = reward
    memory.offered[place] = 0
    for r in range(candidates.ids.shape[0]):
        memory.offered[place, find_slot(state.kinds, candidates.ids[r])] = 1
    return place


def _train_when_due(state: Any) -> None:
    plan = state.training
    if state.net.counts[DRAWN] % plan.every == 0:
        train(state, plan.steps, plan.rate * plan.last_rate ** progress_of(state.progress))


class ReplayPolicy(LookAheadPolicy):
    """Base of policies that value kinds by networks.

    A subclass sets `kernel` to a `replay_kernel`, and its state has `net`, a `QNet`, `kinds`, `progress`,
    `exploration`, `training` and `within_visit`.
    """

    kernel: ReplayKernel
    random_last: float = parameter(0.1, low=0, high=1, help="the share that it falls to")
    hidden: str = parameter("128", help="units of the hidden layers, such as 128 or 64-64")
    memory: int = parameter(50_000, low=100, high=10_000_000, help="decisions that the replay memory holds")
    batch_size: int = parameter(128, low=1, high=10_000, help="decisions per step of training")
    train_every: int = parameter(64, low=1, high=1_000_000, help="decisions between trainings")
    train_steps: int = parameter(4, low=1, high=10_000, help="steps of a training")
    fit_steps: int = parameter(8_000, low=1, high=100_000_000, help="steps of training by which a log is learned")
    learning_rate: float = parameter(1e-3, low=1e-7, high=1, help="Adam's learning rate at first")
    last_rate: float = parameter(0.1, low=1e-6, high=1, help="share of it that is left in the end")
    trail: float = parameter(0.01, low=1e-6, high=1, help="share of its way that the trailing network goes in a step")
    averaging: float = parameter(
        3e-4,
        low=1e-6,
        high=1,
        help="share of its way that the averaged network of values goes in a step, more in the first ones",
    )
    weight_decay: float = parameter(
        0.03, low=0, high=1, help="share of the weights that a step takes off, times the learning rate (AdamW)"
    )
    longest_error: float = parameter(
        1e6, low=1e-6, high=1e9, help="size of errors from which on a loss grows linearly (Huber's delta)"
    )

    def fit(self, log: PastLog, progress: Progress = lambda line: None) -> dict[str, float]:
        """Train on decisions drawn from the whole log, `fit_steps` steps at a falling learning rate.

        Without lives in the log each decision is a visitor's last one. Decisions of which nobody knows what followed
        are left out. The memory holds the last of the others afterwards.
        """
        users = checked_past_features(log, self.spec)
        for reward in (log.rewards.min(), log.rewards.max()) if len(log) else ():
            checked_reward(float(reward), *self.rewards)
        transitions = self._transitions_of(log, users)
        if not len(transitions.kinds):
            return {}
        self._keep(transitions)
        of_log = self.state._replace(net=self.state.net._replace(memory=transitions))
        for done in range(0, self.fit_steps, STEPS_PER_LINE):
            steps = min(STEPS_PER_LINE, self.fit_steps - done)
            self.kernel.train(of_log, steps, self.learning_rate * self.last_rate ** (done / self.fit_steps))
            progress(f"took {done + steps:,} of {self.fit_steps:,} steps of training")
        return {}

    def _transitions_of(self, log: PastLog, users: FloatArray) -> Transitions:
        """Return the decisions of a log as transitions; the kinds of its products get numbers."""
        rows, next_rows, visit_ended = known_decisions(log)
        candidates = kinds_among(np.ascontiguousarray(log.products, float))
        kind_of = self._number_kinds(candidates, log.actions)[candidates.kind_of]
        transitions = new_transitions(len(rows), self._dim, self.kinds + 1)
        offered = _kinds_offered(log, kind_of, self.kinds + 1)
        has_gone = next_rows < 0
        transitions.states[:, : users.shape[1]] = users[rows]
        transitions.next_states[:, : users.shape[1]] = np.where(has_gone[:, np.newaxis], 0.0, users[next_rows])
        transitions.kinds[:] = kind_of[log.actions[rows]]
        transitions.rewards[:] = log.rewards[rows]
        transitions.ends[:] = has_gone | (visit_ended & self.state.within_visit)
        transitions.offered[:] = offered[rows]
        transitions.next_open[:] = np.where(has_gone[:, np.newaxis], 0, offered[next_rows])
        self.state.progress.gone[0] += int(has_gone.sum())
        return transitions

    def _number_kinds(self, candidates: KindCandidates, actions: IntArray) -> IntArray:
        """Give the kinds of a log numbers `(R,)`, 0 to those shown least if there are more than `kinds`."""
        shown = np.bincount(candidates.kind_of[actions], minlength=len(candidates.ids))
        # The first ones that come get numbers.
        most_first = candidates.ids[np.argsort(-shown, kind="stable")]
        self.kernel.enter(self.state, KindCandidates(most_first, candidates.kind_of))
        numbers = np.empty(len(candidates.ids), np.int64)
        find_slots(self.state.kinds, candidates.ids, numbers)
        return numbers

    def _keep(self, transitions: Transitions) -> None:
        """Put the last transitions into the memory, in the places that single ones would have gone to."""
        taken = len(transitions.kinds)
        counts = self.state.net.counts
        places = (int(counts[DRAWN]) + np.arange(taken))[-self.memory :] % self.memory
        held: Transitions = self.state.net.memory
        for kept, new in zip(held._asdict().values(), transitions._asdict().values(), strict=True):
            kept[places] = new[-self.memory :]
        counts[DRAWN] += taken

    def _exploiting(self) -> Any:
        # `choose` goes by the trailing network: from decisions by the average, which changes late, less is learned.
        exploiting = super()._exploiting()
        return exploiting._replace(net=averaged(exploiting.net))

    @property
    def _dim(self) -> int:
        return max(1, self.spec.user_dim)

    @property
    def _widths(self) -> tuple[int, ...]:
        return parse_widths(f"{self.name}.hidden", self.hidden)

    def _new_net(self, pessimism: float) -> QNet:
        weights = sum(n * (m + 1) for m, n in pairwise((self._dim, *self._widths, self.kinds)))
        claim(self.memory * (2 * self._dim + 2 * self.kinds) + weights)
        return new_q_net(
            self._widths,
            new_transitions(self.memory, self._dim, self.kinds + 1),
            discount=self.discount,
            trail=self.trail,
            averaging=self.averaging,
            weight_decay=self.weight_decay,
            longest_error=self.longest_error,
            pessimism=pessimism,
            key=draw_key(self.rng),
            rng=self.rng,
        )

    def _state_parts(self) -> dict[str, Any]:
        """Return the fields of a state beside its networks."""
        return {
            "kinds": self._new_kinds(),
            "progress": self._new_progress(),
            "exploration": self._new_exploration(),
            "training": Training(
                every=self.train_every,
                steps=self.train_steps,
                batch_size=self.batch_size,
                rate=self.learning_rate,
                last_rate=self.last_rate,
            ),
            "within_visit": self.horizon == VISIT,
        }


def _kinds_offered(log: PastLog, kind_of: IntArray, kinds: int) -> np.ndarray:
    """Return which of so many kinds could be shown in each row of a log `(n, kinds)`, as flags."""
    of_products = np.eye(kinds, dtype=np.float32)[kind_of]
    offered = np.empty((len(log), kinds), np.int8)
    for start in range(0, len(log), FIT_CHUNK):
        stop = min(start + FIT_CHUNK, len(log))
        offered[start:stop] = log.available(start, stop) @ of_products > 0.0
    return offered
