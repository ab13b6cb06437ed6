"""Logs of the world of sessions whose targets' worth is known exactly, drawn in compiled code."""

from functools import cached_property
from typing import NamedTuple

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.rng import stream_key, uniform
from zoosim.core.types import BoolArray, FloatArray, IntArray
from zoosim.logs.candidate_sets import CandidateSets
from zoosim.logs.lives import Lives
from zoosim.logs.log import Log
from zoosim.off_policy.targets.products import Probabilities
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

BANDIT = "bandit, eps .3"
"""The writer of logs where nobody says which."""

NO_TEASERS_FOR_TEN, NO_TEASERS_FOR_HALF = "no teasers for 10% of visitors", "no teasers for 50% of visitors"
RANDOM_FOR_TEN = "random for 10% of visitors"
RANDOM = "random"

NEAR = "bandit, eps .15"
FAR = ("no teasers, eps .3", "optimum, eps .1")
TARGETS = (NEAR, *FAR)
MOST_ROWS = 100
"""Decisions of a visitor for which room is made, on average: far more than the logging policy sees."""


class Writers(NamedTuple):
    """The two who write a log, as tables `(P, states, kinds)`: `other` decides throughout for a `share` of visitors."""

    main: FloatArray
    other: FloatArray
    share: float


class SessionLogs:
    """A shop of sessions, who may write its logs, and the policies that are judged, as tables of states.

    A bandit shows what is clicked most now, and in 30% or 10% of its decisions any kind: it knows all laws.
    """

    def __init__(self, config: SessionConfig | None = None) -> None:
        """Make a shop, by default that of the world of sessions with one product of a kind."""
        self._config = config or SessionConfig(per_kind=1)

    @cached_property
    def truth(self) -> SessionTruth:
        """The exact values of the shop."""
        return SessionTruth(self._config)

    @cached_property
    def writers(self) -> dict[str, Writers]:
        """Who may write a log, by name. Both who share the visitors of one show any kind in 10% of their decisions."""
        noisy = _mixed(self.truth.myopic, 0.3)
        bandit = _mixed(self.truth.myopic, 0.1)
        no_teasers = _mixed(self.truth.rungs["no teasers"], 0.1)
        random = self.truth.rungs["random"]
        return {
            "bandit, eps .1": Writers(bandit, bandit, 0.0),
            BANDIT: Writers(noisy, noisy, 0.0),
            RANDOM_FOR_TEN: Writers(bandit, random, 0.1),
            NO_TEASERS_FOR_TEN: Writers(bandit, no_teasers, 0.1),
            NO_TEASERS_FOR_HALF: Writers(bandit, no_teasers, 0.5),
            RANDOM: Writers(random, random, 0.0),
        }

    def worth_of_writing(self, writers: str) -> float:
        """Return the exact clicks of a new visitor while a log is written."""
        main, other, share = self.writers[writers]
        return (1.0 - share) * self.truth.value(main) + share * self.truth.value(other)

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

    def draw(self, visitors: int, seed: int, writers: str = BANDIT, visits: int | None = None) -> tuple[Log, IntArray]:
        """Draw a log of whole lives. Returns it, and the persona and the state at each decision `(n, 2)`.

        It has so many visitors, or as many of them as make so many visits. Propensities are those given all that was
        shown to the visitor before, and not which of the two writes.
        """
        room = visitors * MOST_ROWS
        numbers = np.empty((room, 6), np.int64)
        clicks = np.empty(room)
        ended = np.empty(room, np.bool_)
        arrays = one_period(self.truth.laws, seed)
        main, other, share = self.writers[writers]
        up_to = np.stack([added_up(main), added_up(other)])
        keys = np.array([stream_key(seed, "shown"), stream_key(seed, "writers")])
        most = np.array([visitors, visitors * MOST_ROWS if visits is None else visits])
        n = _record(arrays, up_to, share, keys, most, numbers, clicks, ended)
        visitor, visit, step, persona, state, kind = numbers[:n].T
        chances = np.stack([main[persona, state, kind], other[persona, state, kind]])
        places = np.column_stack([persona, state])
        kinds = self.truth.laws.kinds
        log = Log(
            actions=kind.copy(),
            propensities=_mixed_chances(chances, share, step == 0),
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

    def policy(self, name: str) -> Probabilities:
        """Return a target as a function of a log's visitors, whose features are the states that they are in."""
        shape = self._observations.shape
        # Features are 0 or 1, so that each state is a number of as many bits.
        bits = 1 << np.arange(shape[2])
        codes = (self._observations.reshape(-1, shape[2]) @ bits).astype(np.int64)
        order = np.argsort(codes)
        table = self.targets[name].reshape(len(codes), -1)

        def chances(log: Log, start: int, stop: int) -> FloatArray:
            asked = (log.features[start:stop] @ bits).astype(np.int64)
            return np.asarray(table[order[np.searchsorted(codes[order], asked)]])

        return chances

    @cached_property
    def _observations(self) -> FloatArray:
        return all_observations(self.truth.laws)


def _mixed(table: FloatArray, share: float) -> FloatArray:
    """Return the policy that shows any kind in a share of its decisions, else what the table says."""
    return np.asarray((1.0 - share) * table + share / table.shape[2])


def _mixed_chances(chances: FloatArray, share: float, is_first: BoolArray) -> FloatArray:
    """Return how likely each decision was given those before it, by `chances (2, n)` under either who may decide.

    The more of what a visitor saw is like the one, the likelier it is that the rest is, too: probabilities of all
    decisions up to each, averaged over the two, are divided by those up to the one before.
    """
    starts = np.flatnonzero(is_first)
    visitor = np.cumsum(is_first) - 1
    up_to_each = np.cumsum(np.log(chances), axis=1)
    before_visitor = np.where(starts > 0, up_to_each[:, starts - 1], 0.0)[:, visitor]
    before_each = up_to_each - np.log(chances) - before_visitor
    odds = np.array([1.0 - share, share])[:, np.newaxis] * np.exp(before_each - before_each.max(axis=0))
    return np.asarray((odds * chances).sum(axis=0) / odds.sum(axis=0))


@jit
def _record(
    arrays: VisitorArrays,
    up_to: FloatArray,
    share: float,
    keys: np.ndarray,
    most: IntArray,
    numbers: IntArray,
    clicks: FloatArray,
    ended: BoolArray,
) -> int:
    """Write a row per decision: visitor, visit, step, persona, state and kind; return how many there are.

    No visitor comes any more once there are as many visitors, or visits, as `most (2,)` says.
    """
    place = np.zeros(PLACE_SIZE, np.int64)
    row = 0
    visits = 0
    for visitor in range(most[0]):
        if visits >= most[1]:
            break
        arrive(arrays, visitor, place)
        writer = np.int64(uniform(keys[1], visitor, 0) < share)
        for step in range(MOST_STEPS):
            state = state_of(arrays, place)
            kind = shown_kind(up_to[writer, place[PERSONA], state], keys[0], visitor, step)
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
        visits += numbers[row - 1, 1] + 1
    return row
