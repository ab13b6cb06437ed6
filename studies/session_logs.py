"""Logs of the world of sessions whose targets' worth is known exactly, drawn in compiled code."""

from functools import cached_property

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.rng import stream_key
from zoosim.core.types import BoolArray, FloatArray, IntArray
from zoosim.logs.candidate_sets import CandidateSets
from zoosim.logs.lives import Lives
from zoosim.logs.log import Log
from zoosim.worlds.compiled import GONE
from zoosim.worlds.episodes import MOST_STEPS
from zoosim.worlds.sessions.config import SessionConfig
from zoosim.worlds.sessions.simulation import added_up, shown_kind
from zoosim.worlds.sessions.states import all_observations
from zoosim.worlds.sessions.truth import SessionTruth
from zoosim.worlds.sessions.visitors import (
    PERSONA,
    PLACE_SIZE,
    VISIT,
    VisitorArrays,
    arrive,
    one_period,
    serve,
    state_of,
)

LOGGING = 0.3
"""Share of its decisions in which the bandit that writes the logs shows any kind."""

NEAR = "bandit, eps .15"
FAR = ("no teasers, eps .3", "optimum, eps .1")
TARGETS = (NEAR, *FAR)
MOST_ROWS = 100
"""Decisions of a visitor for which room is made, on average: far more than the logging policy sees."""


class SessionLogs:
    """A shop of sessions, the bandit that writes its logs, and the policies that are judged, as tables of states.

    The bandit shows what is clicked most now, and in 30% of its decisions any kind: it knows all laws.
    """

    @cached_property
    def truth(self) -> SessionTruth:
        """The exact values of the shop."""
        return SessionTruth(SessionConfig(per_kind=1))

    @cached_property
    def logging(self) -> FloatArray:
        """The policy that writes the logs, `(P, states, kinds)`."""
        return _mixed(self.truth.myopic, LOGGING)

    @cached_property
    def targets(self) -> dict[str, FloatArray]:
        """The policies that are judged, by name, each `(P, states, kinds)`."""
        tables = (
            _mixed(self.truth.myopic, 0.15),
            _mixed(self.truth.rungs["no teasers"], 0.3),
            _mixed(self.truth.optimum, 0.1),
        )
        return dict(zip(TARGETS, tables, strict=True))

    @cached_property
    def worth(self) -> dict[str, float]:
        """The exact clicks of a new visitor under each of the targets."""
        return {name: self.truth.value(table) for name, table in self.targets.items()}

    def draw(self, visitors: int, seed: int) -> tuple[Log, IntArray]:
        """Draw a log of whole lives. Returns it, and the persona and the state at each decision `(n, 2)`."""
        room = visitors * MOST_ROWS
        numbers = np.empty((room, 6), np.int64)
        clicks = np.empty(room)
        ended = np.empty(room, np.bool_)
        arrays = one_period(self.truth.laws, seed)
        n = _record(arrays, added_up(self.logging), stream_key(seed, "shown"), visitors, numbers, clicks, ended)
        visitor, visit, step, persona, state, kind = numbers[:n].T
        places = np.column_stack([persona, state])
        kinds = self.truth.laws.kinds
        log = Log(
            actions=kind.copy(),
            propensities=self.logging[persona, state, kind],
            rewards=clicks[:n],
            candidates=CandidateSets.everything(kinds),
            candidate_set=np.zeros(n, np.int64),
            features=self._observations[persona, state],
            positions=np.zeros(n, np.int64),
            products=np.column_stack([np.eye(kinds // 2)[np.arange(kinds) // 2], np.arange(kinds) % 2.0]),
            user_ids=visitor.copy(),
            lives=Lives(visitor.copy(), visit.copy(), step.copy(), ended[:n], np.zeros(n, np.bool_)),
        )
        return log, places

    def chances(self, name: str, places: IntArray) -> FloatArray:
        """Return a target's probabilities of all kinds at the decisions of a log `(n, kinds)`."""
        table = self.targets[name]
        return np.asarray(table[places[:, 0], places[:, 1]])

    @cached_property
    def _observations(self) -> FloatArray:
        return all_observations(self.truth.laws)


def _mixed(table: FloatArray, share: float) -> FloatArray:
    """Return the policy that shows any kind in a share of its decisions, else what the table says."""
    return np.asarray((1.0 - share) * table + share / table.shape[2])


@jit
def _record(
    arrays: VisitorArrays,
    up_to: FloatArray,
    key: np.uint64,
    visitors: int,
    numbers: IntArray,
    clicks: FloatArray,
    ended: BoolArray,
) -> int:
    """Write a row per decision: visitor, visit, step, persona, state and kind; return how many there are."""
    place = np.zeros(PLACE_SIZE, np.int64)
    row = 0
    for visitor in range(visitors):
        arrive(arrays, visitor, place)
        for step in range(MOST_STEPS):
            state = state_of(arrays, place)
            kind = shown_kind(up_to[place[PERSONA], state], key, visitor, step)
            numbers[row, 0] = visitor
            numbers[row, 1] = place[VISIT]
            numbers[row, 2] = step
            numbers[row, 3] = place[PERSONA]
            numbers[row, 4] = state
            numbers[row, 5] = kind
            clicks[row], follows = serve(arrays, place, kind)
            ended[row] = follows == GONE
            row += 1
            if follows == GONE:
                break
    return row
