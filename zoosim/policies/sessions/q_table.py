"""Tabular Q-learning over visitors' lives (Watkins & Dayan 1992), for states that come back to the bit."""

from typing import Annotated, NamedTuple

import numpy as np

from zoosim.core.id_table import IdTable, claim_slot, find_slot, new_id_table
from zoosim.core.jit import jit
from zoosim.core.limits import SINGLES
from zoosim.core.parameters import parameter
from zoosim.core.types import BoolArray, FloatArray, IntArray
from zoosim.policies.choice import hash_row
from zoosim.policies.sessions.base import (
    VISIT,
    Exploration,
    KindCandidates,
    LearningProgress,
    LookAheadPolicy,
    look_ahead_kernel,
)


class QTableState(NamedTuple):
    """What is known of states: their slots, and of each kind of product the value and how often it was shown.

    `values (C, H)` and `counts (C, H)` by the slots of `states` and `kinds`; slots 0 are those of what was never met.
    """

    states: IdTable
    kinds: IdTable
    values: Annotated[FloatArray, SINGLES]
    counts: IntArray
    progress: LearningProgress
    exploration: Exploration
    power: float
    discount: float
    within_visit: bool


@jit
def _write_values(state: QTableState, candidates: KindCandidates, user: FloatArray, values: FloatArray) -> None:
    row = state.values[find_slot(state.states, hash_row(user))]
    for r in range(values.shape[0]):
        values[r] = row[find_slot(state.kinds, candidates.ids[r])]


@jit
def _learn(
    state: QTableState, candidates: KindCandidates, user_id: int, user: FloatArray, action: int, reward: float
) -> None:
    _move(state, candidates, user, action, reward)
    state.progress.gone[0] += 1


@jit
def _follow(
    state: QTableState,
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
    goal = reward
    if not (state.within_visit and visit_ended):
        row = state.values[find_slot(state.states, hash_row(next_user))]
        most = -np.inf
        for k in range(next_available.shape[0]):
            if next_available[k]:
                most = max(most, row[find_slot(state.kinds, next_candidates.ids[next_candidates.kind_of[k]])])
        goal += state.discount * most
    _move(state, candidates, user, action, goal)


@jit
def _move(state: QTableState, candidates: KindCandidates, user: FloatArray, action: int, goal: float) -> None:
    """Move the value of what was shown towards a goal."""
    kind, is_new = claim_slot(state.kinds, candidates.ids[candidates.kind_of[action]])
    if is_new:
        state.values[:, kind] = 0.0
        state.counts[:, kind] = 0
    slot, is_new = claim_slot(state.states, hash_row(user))
    if is_new:
        state.values[slot] = 0.0
        state.counts[slot] = 0
    state.counts[slot, kind] += 1
    state.values[slot, kind] += (goal - state.values[slot, kind]) / state.counts[slot, kind] ** state.power


class QTable(LookAheadPolicy):
    """Learn in a table what a visitor will bring from here on, by state and kind of product (tabular Q-learning).

    The n-th reward of a state and a kind moves its value by n^-power of the way. States are visitors' features, told
    apart to the bit; when there are more than `states`, the one met longest ago makes room.
    """

    name = "q-table"
    learned = ("states", "kinds", "values", "counts", "progress")
    kernel = look_ahead_kernel("q_table", _write_values, _learn, _follow)
    states: int = parameter(20_000, low=1, high=1_000_000, help="states that are told apart, at most")
    power: float = parameter(0.6, low=0.01, high=1, help="the n-th reward moves a value by n^-power of the way")

    def _new_state(self) -> QTableState:
        shape = (self.states + 1, self.kinds + 1)
        return QTableState(
            states=new_id_table(shape[0]),
            kinds=self._new_kinds(),
            values=np.zeros(shape),
            counts=np.zeros(shape, np.int64),
            progress=self._new_progress(),
            exploration=self._new_exploration(),
            power=self.power,
            discount=self.discount,
            within_visit=self.horizon == VISIT,
        )
