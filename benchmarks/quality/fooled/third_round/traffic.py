"""Visitors with ids: when they come, in which sessions, and what they like."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from benchmarks.quality.fooled.shop import DAY, DAYS, START, VISITORS, Case, Rows, Shop, draw_rankings, draw_rows
from zoosim.core.types import BoolArray, FloatArray, IntArray

SECOND = 1_000_000
HOUR = DAY // 24
SPREAD = 1.0
"""Standard deviation of a visitor's own taste, on the logit scale."""

Book = Callable[["Visits", FloatArray], FloatArray]
"""What the log books as rewards, from the visits and their true rewards `(n,)` or `(n, L)`."""


class Visits(NamedTuple):
    """Of `n` visits in order of time, the user, the session and the time of each `(n,)`."""

    users: IntArray
    sessions: IntArray
    times: IntArray

    @property
    def n_users(self) -> int:
        """Count the users."""
        return int(self.users.max()) + 1

    @property
    def n_sessions(self) -> int:
        """Count the sessions."""
        return int(self.sessions.max()) + 1

    @property
    def days(self) -> IntArray:
        """Return the day of each visit `(n,)`, from 0."""
        return np.asarray((self.times - START) // DAY)

    @property
    def user_of_session(self) -> IntArray:
        """Return the user of each session `(n_sessions,)`."""
        return self.users[self.first_of_session()]

    def last_of_session(self) -> IntArray:
        """Return where each session's last visit stands `(n_sessions,)`."""
        return self._ends(np.maximum, -1)

    def first_of_session(self) -> IntArray:
        """Return where each session's first visit stands `(n_sessions,)`."""
        return self._ends(np.minimum, len(self.users))

    def by_session(self, values: FloatArray) -> FloatArray:
        """Sum `values (n,)` or `(n, L)` over the visits of each session `(n_sessions,)` or `(n_sessions, L)`."""
        sums = np.zeros((self.n_sessions, *values.shape[1:]))
        np.add.at(sums, self.sessions, values)
        return sums

    def next_of_user(self) -> IntArray:
        """Return where the user's next visit stands `(n,)`, -1 after the last."""
        order = np.lexsort((self.times, self.users))
        following = np.full(len(order), -1)
        is_same = self.users[order][1:] == self.users[order][:-1]
        following[order[:-1][is_same]] = order[1:][is_same]
        return following

    def _ends(self, choose: Any, start: int) -> IntArray:
        ends = np.full(self.n_sessions, start)
        choose.at(ends, self.sessions, np.arange(len(self.users)))
        return ends


def come(
    rng: np.random.Generator,
    n_users: int,
    sessions: tuple[int, int] = (1, 1),
    visits: tuple[int, int] = (3, 6),
    span: int = DAYS * DAY,
    gap: float = 40.0,
) -> Visits:
    """Draw users who each have some sessions of some visits, from the least to the most, `gap` seconds apart."""
    session_user = np.repeat(np.arange(n_users), rng.integers(sessions[0], sessions[1] + 1, size=n_users))
    starts = rng.integers(span, size=len(session_user))
    counts = rng.integers(visits[0], visits[1] + 1, size=len(session_user))
    session = np.repeat(np.arange(len(counts)), counts)
    since = np.cumsum((SECOND * rng.gamma(4.0, gap / 4.0, size=len(session))).astype(np.int64))
    first = np.concatenate([[0], np.cumsum(counts)[:-1]])
    times = START + starts[session] + since - since[first][session]
    order = np.argsort(times, kind="stable")
    return Visits(session_user[session][order], session[order], times[order])


def open_shop(rng: np.random.Generator, is_even: bool = True, **settings: Any) -> Shop:
    """Draw a shop, by default one that leans but a little, so that weights are light, those of rankings too."""
    return Shop(rng, lean=0.25, **settings) if is_even else Shop(rng, **settings)


def visit(shop: Shop, visits: Visits, spread: float = SPREAD, shift: Any = 0.0, *, has_rankings: bool = False) -> Rows:
    """Draw what users see and click, who have tastes of their own and ids that say nothing else."""
    rng = shop.rng
    features = shop.visitors(visits.n_users)[visits.users]
    taste = spread * rng.normal(size=visits.n_users)
    draw_visits = draw_rankings if has_rankings else draw_rows
    rows = draw_visits(shop, features=features, shift=taste[visits.users][:, None] + shift, times=visits.times)
    return replace(rows, users=named(rng, visits.users))


def named(rng: np.random.Generator, users: IntArray) -> IntArray:
    """Return ids `(n,)` in place of whole numbers `(n,)`: the same for the same user, and random."""
    known, place = np.unique(users, return_inverse=True)
    ids = rng.choice(900_000_000, size=len(known), replace=False) + 100_000_000
    return np.asarray(ids[place.reshape(-1)])


def worth(rows: Rows, spread: float | FloatArray = SPREAD) -> float:
    """Return what the policy truly earns per visit of any user, whose taste has a standard deviation of `spread`."""
    shift = spread * rows.shop.rng.normal(size=(VISITORS, 1))
    return rows.shop.ranked_value(shift) if rows.actions.ndim > 1 else rows.shop.value(shift)


def judged(rows: Rows, spread: float | FloatArray = SPREAD, scale: float = 1.0) -> Case:
    """Return the log with the policy's value, in which a click is worth `scale`."""
    return rows.case(scale * worth(rows, spread))


def some(rng: np.random.Generator, rows: Rows, share: FloatArray | BoolArray) -> Rows:
    """Keep each row with a probability of `share (n,)`."""
    return rows.take(rng.random(len(rows)) < share)
