"""Projection of the log to its forecasts, each with what came: the same scores as `zoosim forecasts`, row by row.

Memory is bounded: what decisions earned is kept as sums by groups of visitors, of which the standard error follows as
it does by visitor, up to chance.
"""

import math
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import msgspec
import numpy as np

from zoosim.core.digests import short_hash
from zoosim.core.durations import DAY, MICROSECONDS
from zoosim.core.forecasts import PER_VISIT, UNTIL_FOUND, Forecast
from zoosim.core.types import REWARD
from zoosim.serving.arm_replica import checked_rules
from zoosim.serving.events import Choice, Feedback, Kind, ProductDecision, Row, Start
from zoosim.serving.forecasts import (
    EARLY,
    PER_VISITOR_UNKNOWN,
    UNKNOWN,
    Score,
    forecasts_in,
    score_of_launch,
    score_of_mean,
)
from zoosim.serving.join import Closing, Join
from zoosim.serving.launches.state import launch_in
from zoosim.serving.projection import Projection
from zoosim.serving.rules import Rules

GROUPS = 200
"""Groups of visitors whose rewards are summed up: of so many the standard error is 5% off."""

MOST_ENTRIES = 200
"""Forecasts that are kept, the newest."""

MOST_OPEN = 50_000
"""Decisions whose wait is not over; further ones are left out, whatever they earn."""

LATE = "the console counts from a later row on; `zoosim forecasts` reads the whole log"


class Scored(msgspec.Struct, array_like=True):
    """A forecast, as plain values, and what came of it, as in `Score`.

    Attributes:
        forecast: Its fields by name.
        outcome, decisions, came, error, reason: As in `zoosim.serving.forecasts.Score`.
        time: When it was scored, in microseconds since 1970; 0 for not yet.
    """

    forecast: dict[str, Any]
    outcome: str
    decisions: int = 0
    came: float | None = None
    error: float = 0.0
    reason: str = ""
    time: int = 0


class Tally(msgspec.Struct, array_like=True):
    """Decisions of a forecast that count so far.

    Attributes:
        made: How many were made, their wait over or not.
        first, last: When the first and the newest were made, in microseconds since 1970.
        counts, sums: How many are over, and what they earned, by group of visitors.
    """

    made: int = 0
    first: int = 0
    last: int = 0
    counts: list[int] = msgspec.field(default_factory=lambda: [0] * GROUPS)
    sums: list[float] = msgspec.field(default_factory=lambda: [0.0] * GROUPS)

    @property
    def per_day(self) -> float:
        """Decisions per day, 0 where there are too few to tell."""
        span = self.last - self.first
        return (self.made - 1) * DAY / span if span else 0.0

    def mean_and_error(self) -> tuple[int, float, float]:
        """Return how many decisions are over, what they earned on average, and the standard error of that."""
        counts = np.array(self.counts)
        sums = np.array(self.sums)
        n = int(counts.sum())
        if not n:
            return 0, 0.0, 0.0
        mean = float(sums.sum()) / n
        return n, mean, math.sqrt(float(((sums - mean * counts) ** 2).sum())) / n


class Member(msgspec.Struct, array_like=True):
    """A decision whose wait is not over: its group of visitors, and the forecasts that it counts for."""

    group: int
    keys: list[str]


class Ledger(msgspec.Struct):
    """What a log says of its forecasts up to a position.

    Attributes:
        position: The row up to which it was read.
        entries: The forecasts, by key, the oldest first.
        tallies: What decisions came to of those that are not scored yet.
        members: The decisions that are not over, by the position of their row.
        join: These and their feedback, as `Join.state` has them.
    """

    position: int = 0
    entries: dict[str, Scored] = {}
    tallies: dict[str, Tally] = {}
    members: dict[int, Member] = {}
    join: dict[str, Any] = {}


class LedgerProjection(Projection):
    """Follows the log; the same rows come to the same ledger."""

    def __init__(self, weights: Callable[[], Mapping[str, float]], ledger: Ledger | None = None) -> None:
        """Begin before the first row, or behind the last one of a ledger.

        Args:
            weights: Returns the weight of each reward in the objective.
            ledger: What was read before; raises `ValueError` or `LookupError` for what is none.
        """
        self._weights = weights
        self._ledger = ledger or Ledger()
        self._join = Join(Rules(), dict(weights()))
        if self._ledger.join:
            self._join.load_state(self._ledger.join)
        self._by_model: dict[str, list[str]] = {}
        self._made: dict[str, float] = {}  # when each was made that waits, in microseconds since 1970
        self._list_by_model()

    @property
    def position(self) -> int:
        """The row up to which it was read."""
        return self._ledger.position

    def begin(self, start: Start, position: int) -> None:
        """Begin behind a row, where nothing was read before; what was forecast by then is told to be too late.

        Args:
            start: The newest start by then.
            position: The row.
        """
        self._take(start, LATE)
        self._follow_rules(start)
        self._ledger.position = position

    def apply(self, row: Row) -> None:
        """Read the next row; where nothing waits to be scored, all but starts are passed over."""
        if row.seq <= self._ledger.position:
            return
        if self._by_model or row.kind is Kind.START:
            super().apply(row)
        self._ledger.position = row.seq

    def on_start(self, row: Row, start: Start) -> None:
        """Take in what is forecast, and how a launch stands."""
        self._follow_rules(start)
        self._take(start, "")
        launch = launch_in(start)
        for key, entry in self._ledger.entries.items():
            forecast = _forecast_of(entry)
            if forecast.quantity == UNTIL_FOUND and launch is not None and launch.model == forecast.model:
                self._note(key, score_of_launch(forecast, launch), row.time)

    def _follow_rules(self, start: Start) -> None:
        rules = checked_rules(start)
        if not len(self._join):  # before the first start nobody knows which rewards there are
            self._join = Join(rules, dict(self._weights()))
        self._join.rules = rules

    def on_choice(self, row: Row, choice: Choice) -> None:
        """Enter a decision, where forecasts of its model wait for it."""
        keys = self._by_model.get(choice.model, [])
        if not keys or not isinstance(choice, ProductDecision) or choice.is_forgotten or choice.is_pinned(0):
            return
        keys = [key for key in keys if self._counts(key, row.time)]
        if not keys or len(self._join) >= MOST_OPEN:
            return
        who = choice.visitor_id or f"row {row.seq}"
        self._ledger.members[row.seq] = Member(int.from_bytes(short_hash(who.encode(), 8), "big") % GROUPS, keys)
        for key in keys:
            tally = self._ledger.tallies[key]
            tally.first = tally.first or row.time
            tally.last = row.time
            tally.made += 1
        self._join.decide(row, msgspec.structs.replace(choice, shown=choice.shown[:1]))

    def _counts(self, key: str, time: int) -> bool:
        """Return whether a decision at a time is one of those that a forecast is scored by."""
        horizon = self._ledger.entries[key].forecast["horizon"]
        return bool(self._ledger.tallies[key].made < horizon and time >= self._made[key])

    def on_feedback(self, row: Row, feedback: Feedback) -> None:
        """Enter what a decision earned."""
        if self._join.holds(row, feedback):
            self._join.earn(row, feedback)

    def on_activation(self, row: Row) -> None:
        """Activate a deferred decision."""
        self._join.activate(row)

    def on_tick(self, row: Row) -> None:
        """Count the decisions that are over by now."""
        if not len(self._join):
            return
        for closing in self._join.tick(row.time):
            member = self._ledger.members.pop(closing.seq)
            for key in member.keys:
                if key in self._ledger.tallies:
                    self._count(key, member.group, closing, row.time)
        if len(self._ledger.members) > len(self._join):
            self._drop_inactive()

    def _count(self, key: str, group: int, closing: Closing, time: int) -> None:
        # By the plain values: to check a forecast takes longer than all else here, and each decision comes by.
        plain = self._ledger.entries[key].forecast
        tally = self._ledger.tallies[key]
        tally.counts[group] += 1
        tally.sums[group] += self._earned(plain["reward"], closing)
        if tally.made >= plain["horizon"] and sum(tally.counts) == plain["horizon"]:
            forecast = _forecast_of(self._ledger.entries[key])
            self._note(key, score_of_mean(forecast, *tally.mean_and_error(), tally.per_day), time)

    def _drop_inactive(self) -> None:
        """Drop the decisions that never counted, as nobody activated them: others take their places."""
        still_open = set(self._join.open_rows())
        for seq in [seq for seq in self._ledger.members if seq not in still_open]:
            for key in self._ledger.members.pop(seq).keys:
                if key in self._ledger.tallies:
                    self._ledger.tallies[key].made -= 1

    def scores(self) -> list[Scored]:
        """Return the forecasts, the oldest first, each with what came so far."""
        entries = self._ledger.entries
        return [self._so_far(key, entry) if key in self._ledger.tallies else entry for key, entry in entries.items()]

    def _so_far(self, key: str, entry: Scored) -> Scored:
        tally = self._ledger.tallies[key]
        return _scored(score_of_mean(_forecast_of(entry), *tally.mean_and_error(), tally.per_day), 0)

    def saved(self) -> bytes:
        """Return the ledger as a file holds it."""
        self._ledger.join = self._join.state()
        return msgspec.json.encode(self._ledger)

    def _take(self, start: Start, why_late: str) -> None:
        """Take in the forecasts of a start that are new."""
        entries = self._ledger.entries
        for forecast in forecasts_in(start):
            plain = forecast.plain
            key = short_hash(msgspec.json.encode(plain), 8).hex()
            if key in entries:
                continue
            reason = why_late or self._why_never(forecast)
            entries[key] = Scored(plain, UNKNOWN if reason else EARLY, reason=reason)
            if not reason and forecast.quantity == PER_VISIT:
                self._ledger.tallies[key] = Tally()
        for key in list(entries)[:-MOST_ENTRIES]:
            del entries[key]
            self._ledger.tallies.pop(key, None)
        self._list_by_model()

    def _why_never(self, forecast: Forecast) -> str:
        """Return why a forecast can never be scored; empty where it can."""
        if forecast.quantity == UNTIL_FOUND:
            return ""
        if forecast.quantity != PER_VISIT:
            return PER_VISITOR_UNKNOWN
        weights = self._weights()
        is_known = forecast.reward in weights or forecast.reward.startswith("objective") or forecast.reward == REWARD
        return "" if is_known else f"the log has no reward of this name, but {', '.join(weights)}"

    def _earned(self, reward: str, closing: Closing) -> float:
        """Return what a decision earned of a reward, or of the objective."""
        weighted = {name: weight for name, weight in self._weights().items() if weight}
        parts = dict(closing.parts)
        is_objective = weighted == {reward: 1.0} or reward not in parts
        return closing.reward if is_objective else parts[reward]

    def _note(self, key: str, scored: Score, time: int) -> None:
        entry = _scored(scored, 0 if scored.outcome == EARLY else time)
        before = self._ledger.entries[key]
        if before.outcome != EARLY:
            return
        self._ledger.entries[key] = entry
        if entry.time:
            self._ledger.tallies.pop(key, None)
            self._list_by_model()

    def _list_by_model(self) -> None:
        """List the forecasts that wait for decisions, by model."""
        self._by_model = {}
        self._made = {}
        for key in self._ledger.tallies:
            forecast = self._ledger.entries[key].forecast
            self._by_model.setdefault(forecast["model"], []).append(key)
            self._made[key] = datetime.fromisoformat(forecast["made"]).timestamp() * MICROSECONDS


def load_ledger(content: bytes, position: int) -> Ledger:
    """Return a ledger that was saved.

    Args:
        content: What the file holds.
        position: The row up to which the log is known; a ledger that goes beyond it is of another log.

    Raises:
        ValueError: it is none, or of another log.
    """
    ledger = _decode(content)
    lists = [part for tally in ledger.tallies.values() for part in (tally.counts, tally.sums)]
    if ledger.position > position or any(len(part) != GROUPS for part in lists):
        raise ValueError("of another log")
    if not ledger.tallies.keys() <= ledger.entries.keys():
        raise ValueError("a tally without its forecast")
    for entry in ledger.entries.values():
        _forecast_of(entry)
    return ledger


def _forecast_of(entry: Scored) -> Forecast:
    return Forecast(**entry.forecast)


def _scored(scored: Score, time: int) -> Scored:
    came = scored.came
    return Scored(scored.forecast.plain, scored.outcome, scored.decisions, came, scored.error, scored.reason, time)


_decode = msgspec.json.Decoder(Ledger).decode
