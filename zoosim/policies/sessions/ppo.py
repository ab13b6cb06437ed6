"""An actor-critic over visitors' lives: proximal policy optimisation (Schulman et al. 2017) of choices of products."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Annotated, Any, NamedTuple

import numpy as np

from zoosim.core.checks import parse_widths
from zoosim.core.claims import claim
from zoosim.core.errors import PolicyError
from zoosim.core.id_table import IdTable, claim_slot, find_slot, find_slots, new_id_table
from zoosim.core.jit import jit
from zoosim.core.limits import FLAGS, SINGLES
from zoosim.core.parameters import parameter
from zoosim.core.rng import draw_key
from zoosim.core.types import NOBODY, BoolArray, Float32Array, FloatArray, IntArray, PastLog, Progress
from zoosim.linear.dense import copy_vector
from zoosim.models.actor_critic import (
    HELD,
    ActorCritic,
    Improvement,
    Rollout,
    improve,
    new_actor_critic,
    new_rollout,
    write_chances,
    write_scores,
)
from zoosim.models.q_net import forget_number, forget_output
from zoosim.policies.choice import best_of
from zoosim.policies.kernel import Kernel
from zoosim.policies.sessions.base import (
    VISIT,
    KindCandidates,
    KindPolicy,
    LearningProgress,
    number_kinds,
    progress_of,
)


class Decided(NamedTuple):
    """The last decision of each visitor, by slot, whose reward is not known: C slots, the first one of nobody.

    `states (C, d)`; the `kinds (C,)` shown, of those that were `offered (C, H)`; the logarithm of their probability
    then, `log_chances (C,)`; `waits (C,)`, 1 where there is such a decision. `rows (C,)`: 1 + the place in the rollout
    of the visitor's newest decision with a reward, 0 where it has none.
    """

    states: Annotated[Float32Array, SINGLES]
    kinds: IntArray
    offered: Annotated[IntArray, FLAGS]
    log_chances: Annotated[Float32Array, SINGLES]
    waits: Annotated[IntArray, FLAGS]
    rows: IntArray

    def flaws(self) -> Iterator[str]:
        """Yield what does not fit together."""
        if self.kinds.max() >= self.offered.shape[1]:
            yield f"kinds holds {self.kinds.max()}, expected a number below {self.offered.shape[1]}"


class PPOState(NamedTuple):
    """The networks, the rollout and what waits for it, the numbers of kinds and visitors, and how far learning is."""

    net: ActorCritic
    rollout: Rollout
    decided: Decided
    kinds: IdTable
    visitors: IdTable
    progress: LearningProgress
    how: Improvement
    rate: float
    last_rate: float
    within_visit: bool
    is_greedy: bool

    def flaws(self) -> Iterator[str]:
        """Yield what does not fit together."""
        size = len(self.rollout.kinds)
        if self.net.counts[HELD] >= size:
            yield f"net.counts holds {self.net.counts[HELD]} decisions, expected less than {size}"
        if self.decided.rows.max() > size:
            yield f"decided.rows holds {self.decided.rows.max()}, expected at most {size}"


@jit
def _write_kind_scores(state: PPOState, candidates: KindCandidates, user: FloatArray, scores: FloatArray) -> None:
    """Write the score of each kind of a request to `scores (R,)`."""
    numbers = np.empty(scores.shape[0], np.int64)
    find_slots(state.kinds, candidates.ids, numbers)
    of_numbers = np.empty(state.rollout.offered.shape[1])
    write_scores(state.net, user, of_numbers)
    for r in range(scores.shape[0]):
        scores[r] = of_numbers[numbers[r]]


@jit
def _write_product_chances(
    state: PPOState, candidates: KindCandidates, user: FloatArray, available: BoolArray, out: FloatArray
) -> None:
    """Write the probability of each candidate `(K,)`: a softmax over open kinds, evenly over the products of a kind."""
    count = candidates.ids.shape[0]
    scores = np.empty(count)
    _write_kind_scores(state, candidates, user, scores)
    products = np.zeros(count, np.int64)
    for k in range(available.shape[0]):
        products[candidates.kind_of[k]] += available[k]
    first = best_of(scores, candidates.kind_of, available)
    chances = np.empty(count)
    write_chances(scores, products, candidates.kind_of[first], chances)
    for k in range(available.shape[0]):
        r = candidates.kind_of[k]
        out[k] = chances[r] / products[r] if available[k] else 0.0


@jit
def _choose(
    state: PPOState, candidates: KindCandidates, user_id: int, user: FloatArray, available: BoolArray, draw: float
) -> int:
    if state.is_greedy:
        scores = np.empty(candidates.ids.shape[0])
        _write_kind_scores(state, candidates, user, scores)
        # By kinds: a product of a kind of many is drawn less often than one that stands alone.
        return int(best_of(scores, candidates.kind_of, available))
    chances = np.empty(available.shape[0])
    _write_product_chances(state, candidates, user, available, chances)
    chosen = -1
    up_to = 0.0
    for k in range(available.shape[0]):
        # Of those that can be drawn the last one, where rounding leaves the sum below the draw.
        if chances[k] > 0.0:
            chosen = k
            up_to += chances[k]
            if draw < up_to:
                break
    return chosen


@jit
def _distribution(
    state: PPOState, candidates: KindCandidates, user_id: int, user: FloatArray, available: BoolArray, out: FloatArray
) -> None:
    _write_product_chances(state, candidates, user, available, out)


@jit
def _decided(
    state: PPOState, candidates: KindCandidates, user_id: int, user: FloatArray, available: BoolArray, action: int
) -> None:
    """Keep what the decision was drawn from, since the policy may be another one when its reward comes."""
    _enter(state, candidates)
    if user_id == NOBODY:
        return
    slot = _slot_of(state, user_id)
    decided = state.decided
    for i in range(user.shape[0]):
        decided.states[slot, i] = user[i]
    decided.offered[slot] = 0
    for k in range(available.shape[0]):
        if available[k]:
            decided.offered[slot, _number(state, candidates, k)] = 1
    decided.kinds[slot] = _number(state, candidates, action)
    decided.log_chances[slot] = _log_chance(state, user, decided.offered[slot], decided.kinds[slot])
    decided.waits[slot] = 1


@jit
def _learn(
    state: PPOState, candidates: KindCandidates, user_id: int, user: FloatArray, action: int, reward: float
) -> None:
    place = _remember(state, candidates, user_id, user, action, reward)
    state.rollout.ends[place] = 1
    state.rollout.next_states[place] = 0.0
    state.progress.gone[0] += 1
    if user_id != NOBODY:
        state.decided.rows[find_slot(state.visitors, user_id)] = 0
    _improve_when_due(state)


@jit
def _follow(
    state: PPOState,
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
    place = _remember(state, candidates, user_id, user, action, reward)
    state.rollout.ends[place] = state.within_visit and visit_ended
    for i in range(next_user.shape[0]):
        state.rollout.next_states[place, i] = next_user[i]
    if user_id != NOBODY:
        state.decided.rows[_slot_of(state, user_id)] = place + 1
    _improve_when_due(state)


@jit
def _remember(
    state: PPOState, candidates: KindCandidates, user_id: int, user: FloatArray, action: int, reward: float
) -> int:
    """Write a decision to the rollout, but for what follows it, and return its place.

    One that was not kept when it was made counts as made by the policy as it is, from all candidates.
    """
    _enter(state, candidates)
    rollout = state.rollout
    decided = state.decided
    place = state.net.counts[HELD]
    state.net.counts[HELD] += 1
    for i in range(user.shape[0]):
        rollout.states[place, i] = user[i]
    kind = _number(state, candidates, action)
    rollout.kinds[place] = kind
    rollout.rewards[place] = reward
    rollout.following[place] = place
    slot = 0 if user_id == NOBODY else find_slot(state.visitors, user_id)
    if (
        slot > 0
        and decided.waits[slot]
        and decided.kinds[slot] == kind
        and _are_same(decided.states, slot, state, place)
    ):
        decided.waits[slot] = 0
        copy_vector(decided.offered[slot], rollout.offered[place])
        rollout.log_chances[place] = decided.log_chances[slot]
    else:
        rollout.offered[place] = 0
        for k in range(candidates.kind_of.shape[0]):
            rollout.offered[place, _number(state, candidates, k)] = 1
        rollout.log_chances[place] = _log_chance(state, user, rollout.offered[place], kind)
    if slot > 0:
        before = decided.rows[slot] - 1
        # Feedback may come in any order: what led to this decision ended where this one began.
        if 0 <= before < place and not rollout.ends[before] and _are_same(rollout.next_states, before, state, place):
            rollout.following[before] = place
    return int(place)


@jit
def _are_same(states: Float32Array, row: int, state: PPOState, place: int) -> bool:
    """Return whether a row of `states (n, d)` is the state of a decision in the rollout."""
    i = 0
    while i < states.shape[1] and states[row, i] == state.rollout.states[place, i]:
        i += 1
    return bool(i == states.shape[1])


@jit
def _enter(state: PPOState, candidates: KindCandidates) -> None:
    """Give the kinds of a request numbers."""
    for kind in number_kinds(state.kinds, candidates.ids):
        forget_output(state.net.actor[0], state.net.actor_layers[-1], state.rollout.offered.shape[1], kind)
        forget_number(state.rollout.kinds, state.rollout.offered, kind)
        forget_number(state.decided.kinds, state.decided.offered, kind)


@jit
def _number(state: PPOState, candidates: KindCandidates, product: int) -> int:
    """Return the number of a candidate's kind."""
    return find_slot(state.kinds, candidates.ids[candidates.kind_of[product]])


@jit
def _slot_of(state: PPOState, user_id: int) -> int:
    """Return the slot of a visitor, who gets one if there is none."""
    slot, is_new = claim_slot(state.visitors, user_id)
    if is_new:
        state.decided.waits[slot] = 0
        state.decided.rows[slot] = 0
    return slot


@jit
def _log_chance(state: PPOState, user: FloatArray, offered: IntArray, kind: int) -> float:
    """Return the logarithm of the probability of a kind among those `offered (H,)`."""
    scores = np.empty(offered.shape[0])
    write_scores(state.net, user, scores)
    return write_chances(scores, offered, kind, np.empty(offered.shape[0]))


@jit
def _improve_when_due(state: PPOState) -> None:
    """Improve the policy when the rollout is full, and begin a new one."""
    if state.net.counts[HELD] == state.rollout.kinds.shape[0]:
        improve(state.net, state.rollout, state.how, state.rate * state.last_rate ** progress_of(state.progress))
        state.decided.rows[:] = 0


class PPO(KindPolicy):
    """Draw from a softmax over kinds of products, and make likelier what brought visitors more than was expected (PPO).

    After `rollout` decisions a network of the policy climbs their advantages, and one of the value learns what visitors
    bring from a state on; then it begins with new ones. It learns from its own decisions alone, as they are made.
    """

    name = "ppo"
    learned = ("net", "rollout", "decided", "kinds", "visitors", "progress")
    learns_from_logs = False
    learns_by_candidates = True
    kernel = Kernel("ppo", _choose, _distribution, _learn, _decided, _follow)
    hidden: str = parameter("64-64", help="units of the hidden layers, of the policy and of the value")
    rollout: int = parameter(4_096, low=2, high=1_000_000, help="decisions from one improvement to the next")
    epochs: int = parameter(10, low=1, high=1_000, help="passes over these decisions")
    batch_size: int = parameter(512, low=1, high=100_000, help="decisions per step of training")
    learning_rate: float = parameter(2e-3, low=1e-7, high=1, help="Adam's learning rate at first")
    last_rate: float = parameter(0.2, low=1e-6, high=1, help="share of it that is left in the end")
    value_rate: float = parameter(3.0, low=1e-3, high=1e3, help="learning rate of the value, in units of the policy's")
    fading: float = parameter(
        0.95, low=0, high=1, help="weight of errors by one decision of distance in an advantage (GAE's lambda)"
    )
    clip: float = parameter(0.2, low=1e-3, high=10, help="bound of the change of a probability, as a share of it")
    entropy: float = parameter(0.02, low=0, high=10, help="weight of the entropy of what is shown")
    visitors: int = parameter(1_000, low=1, high=10_000_000, help="visitors whose decisions may wait for a reward")

    def fit(self, log: PastLog, progress: Progress = lambda line: None) -> dict[str, float]:
        """Refuse: a log holds decisions of others.

        Raises:
            PolicyError: always.
        """
        raise PolicyError("ppo: learns from its own decisions alone, so that no log can train it; train dqn or iql")

    def _new_state(self) -> PPOState:
        dim = max(1, self.spec.user_dim)
        numbers = self.kinds + 1
        slots = self.visitors + 1
        widths = parse_widths("ppo.hidden", self.hidden)
        weights = sum(n * (m + 1) for m, n in pairwise((dim, *widths, numbers)))
        claim(self.rollout * (2 * dim + numbers) + slots * (dim + numbers) + weights)
        return PPOState(
            net=new_actor_critic(widths, dim, numbers, key=draw_key(self.rng), rng=self.rng),
            rollout=new_rollout(self.rollout, dim, numbers),
            decided=Decided(
                states=np.zeros((slots, dim), np.float32),
                kinds=np.zeros(slots, np.int64),
                offered=np.zeros((slots, numbers), np.int8),
                log_chances=np.zeros(slots, np.float32),
                waits=np.zeros(slots, np.int8),
                rows=np.zeros(slots, np.int64),
            ),
            kinds=self._new_kinds(),
            visitors=new_id_table(slots),
            progress=self._new_progress(),
            how=Improvement(
                discount=self.discount,
                fading=self.fading,
                clip=self.clip,
                entropy=self.entropy,
                epochs=self.epochs,
                batch_size=self.batch_size,
                value_rate=self.value_rate,
            ),
            rate=self.learning_rate,
            last_rate=self.last_rate,
            within_visit=self.horizon == VISIT,
            is_greedy=False,
        )

    def _exploiting(self) -> Any:
        return self.state._replace(is_greedy=True)
