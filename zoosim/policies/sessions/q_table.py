"""Tabular Q-learning over visitors' lives (Watkins & Dayan 1992), for states that come back to the bit.

With two tables it is double Q-learning (van Hasselt 2010): a coin says which one moves, and the other one says what the
best that follows by the table that moves is worth.
"""

from typing import Annotated, NamedTuple

import numpy as np

from zoosim.core.claims import claim
from zoosim.core.id_table import IdTable, claim_slot, find_slot, new_id_table
from zoosim.core.jit import jit
from zoosim.core.limits import SINGLES
from zoosim.core.parameters import parameter
from zoosim.core.rng import draw_key, uniform
from zoosim.core.types import BoolArray, FloatArray, IntArray
from zoosim.policies.choice import hash_row
from zoosim.policies.kernel import DecisionDraws, new_draws
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

    `values (T, C, H)` and `counts (T, C, H)` of one table or two, by the slots of `states` and `kinds`; slots 0 are
    those of what was never met. `coins` say which of two tables moves.
    """

    states: IdTable
    kinds: IdTable
    values: Annotated[FloatArray, SINGLES]
    counts: IntArray
    coins: DecisionDraws
    progress: LearningProgress
    exploration: Exploration
    power: float
    discount: float
    within_visit: bool


@jit
def _write_values(state: QTableState, candidates: KindCandidates, user: FloatArray, values: FloatArray) -> None:
    slot = find_slot(state.states, hash_row(user))
    tables = state.values.shape[0]
    for r in range(values.shape[0]):
        kind = find_slot(state.kinds, candidates.ids[r])
        values[r] = 0.0
        for table in range(tables):
            values[r] += state.values[table, slot, kind] / tables


@jit
def _learn(
    state: QTableState, candidates: KindCandidates, user_id: int, user: FloatArray, action: int, reward: float
) -> None:
    _move(state, _next_table(state), candidates, user, action, reward)
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
    table = _next_table(state)
    goal = reward
    if not (state.within_visit and visit_ended):
        slot = find_slot(state.states, hash_row(next_user))
        best = 0
        most = -np.inf
        for k in range(next_available.shape[0]):
            if next_available[k]:
                kind = find_slot(state.kinds, next_candidates.ids[next_candidates.kind_of[k]])
                if state.values[table, slot, kind] > most:
                    best = kind
                    most = state.values[table, slot, kind]
        # Of two tables the other one: it does not know by which errors this one chose. Of one, the same.
        goal += state.discount * state.values[state.values.shape[0] - 1 - table, slot, best]
    _move(state, table, candidates, user, action, goal)


@jit
def _next_table(state: QTableState) -> int:
    """Return the table that the next reward moves, of two either one with the same chance."""
    if state.values.shape[0] == 1:
        return 0
    draw = uniform(state.coins.key[0], state.coins.decisions[0], 0)
    state.coins.decisions[0] += 1
    return int(draw < 0.5)


@jit
def _move(
    state: QTableState, table: int, candidates: KindCandidates, user: FloatArray, action: int, goal: float
) -> None:
    """Move the value of what was shown towards a goal."""
    kind, is_new = claim_slot(state.kinds, candidates.ids[candidates.kind_of[action]])
    if is_new:
        state.values[:, :, kind] = 0.0
        state.counts[:, :, kind] = 0
    slot, is_new = claim_slot(state.states, hash_row(user))
    if is_new:
        state.values[:, slot] = 0.0
        state.counts[:, slot] = 0
    counts = state.counts[table, slot]
    counts[kind] += 1
    values = state.values[table, slot]
    values[kind] += (goal - values[kind]) / counts[kind] ** state.power


class QTable(LookAheadPolicy):
    """Learn in a table what a visitor will bring from here on, by state and kind of product (tabular Q-learning).

    The n-th reward of a state and a kind moves its value by n^-power of the way. States are visitors' features, told
    apart to the bit; when there are more than `states`, the one met longest ago makes room. With `double` two tables
    learn, and decisions are made by their mean.
    """

    name = "q-table"
    learned = ("states", "kinds", "values", "counts", "coins", "progress")
    kernel = look_ahead_kernel("q_table", _write_values, _learn, _follow)
    states: int = parameter(20_000, low=1, high=1_000_000, help="states that are told apart, at most")
    power: float = parameter(0.6, low=0.01, high=1, help="the n-th reward moves a value by n^-power of the way")
    double: bool = parameter(
        False, help="whether two tables learn, each of what the other one knows (double Q-learning)"
    )

    def reseed(self, rng: np.random.Generator) -> None:
        """Draw from `rng` from now on, which table moves, too; what was learned stays."""
        super().reseed(rng)
        if self.double:
            self.state.coins.key[:] = draw_key(rng)

    def _new_state(self) -> QTableState:
        shape = (2 if self.double else 1, self.states + 1, self.kinds + 1)
        nothing_to_draw = DecisionDraws(np.zeros(1, np.uint64), np.zeros(1, np.int64))
        claim(2 * shape[0] * shape[1] * shape[2])
        return QTableState(
            states=new_id_table(self.states + 1),
            kinds=self._new_kinds(),
            values=np.zeros(shape),
            counts=np.zeros(shape, np.int64),
            coins=new_draws(self.rng) if self.double else nothing_to_draw,
            progress=self._new_progress(),
            exploration=self._new_exploration(),
            power=self.power,
            discount=self.discount,
            within_visit=self.horizon == VISIT,
        )
