"""The shadows of a learner: each follows the log behind it, in a part of its time.

Reports hang on rows alone, whenever they are read: a learner that is busy tells of earlier rows, and of no others.
"""

import math
from collections.abc import Callable, Sequence

from zoosim.serving.events import SHADOW, Arm, Row, Start, start_key
from zoosim.serving.join import FindRows
from zoosim.serving.replica import Replica
from zoosim.serving.shadows.follower import ShadowFollower
from zoosim.serving.shadows.report import ShadowReport

PART = 0.1
"""The largest part of the learner's time that shadows take."""

SLICE = 0.02
"""Seconds for which they work without a pause: rewards that come meanwhile are learned that much later."""

SECONDS_BETWEEN_REPORTS = 1.0
"""Between two reports on shadows."""


class ShadowWatch:
    """Reads the log for each shadow of a replica, never beyond what the replica has read."""

    def __init__(
        self,
        replica: Replica,
        read: Callable[[int], Sequence[Row]],
        find: Callable[[bytes], Row | None],
        find_rows: FindRows,
        passed: Callable[[], float],
    ) -> None:
        """Begin without shadows.

        Args:
            replica: What was learned, which goes on ahead.
            read: Returns some of the rows behind a position.
            find: Returns the row with a key, None where it is gone.
            find_rows: As in `Replica`.
            passed: Returns the seconds that have passed.
        """
        self._replica = replica
        self._read = read
        self._find = find
        self._find_rows = find_rows
        self._passed = passed
        self._start: Start | None = None
        self._followers: dict[str, ShadowFollower] = {}
        self._rows: dict[str, list[Row]] = {}
        self._rests_until = self._reported_at = -math.inf
        self._is_new = False

    def step(self) -> None:
        """Read on, where it is time, for as long as that may take at once."""
        self._take_shadows()
        began = self._passed()
        if began < self._rests_until:
            return
        for name, follower in self._followers.items():
            self._read_on(name, follower, began + SLICE)
        self._rests_until = began + (self._passed() - began) / PART

    def reports(self) -> list[ShadowReport] | None:
        """Return how shadows stand; None where that was told just now."""
        if not self.has_news:
            return None
        self._reported_at = self._passed()
        self._is_new = False
        return [follower.report() for follower in self._followers.values()]

    @property
    def has_news(self) -> bool:
        """True if there is something to tell."""
        return self._is_new and self._passed() - self._reported_at >= SECONDS_BETWEEN_REPORTS

    def _take_shadows(self) -> None:
        """Follow the shadows of the newest start; those of before go on."""
        start = self._replica.start
        if start is None or start is self._start:
            return
        self._start = start
        before = self._followers
        self._followers = {}
        for arm in start.arms:
            if arm.role == SHADOW:
                old = before.get(arm.name)
                is_same = old is not None and old.origin == f"{arm.model}/{arm.turn}"
                self._followers[arm.name] = old if old is not None and is_same else self._follower_of(arm, start)
        self._rows = {}
        self._is_new |= self._followers != before

    def _follower_of(self, arm: Arm, start: Start) -> ShadowFollower:
        """Return a follower of the rows from the start on that began a shadow, as far as the log goes back."""
        begin = self._find(start_key(arm.turn))
        position = 0 if begin is None else begin.seq - 1
        return ShadowFollower(
            self._replica.arms[arm.name], lambda: self._replica.champion, self._find_rows, start, position
        )

    def _read_on(self, name: str, follower: ShadowFollower, until: float) -> None:
        """Read rows for a follower up to a time, one at least."""
        while follower.position < self._replica.position:
            rows = self._rows.get(name) or list(self._read(follower.position))
            if not rows or rows[0].seq > self._replica.position:
                return
            follower.apply(rows.pop(0))
            self._rows[name] = rows
            self._is_new = True
            if self._passed() >= until:
                return
