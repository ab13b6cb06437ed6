"""Projection of the log to its forecasts, each with what came, row by row: for the console, and for `zoosim forecasts`.

A forecast is of a policy, while a service spreads a share of its decisions evenly over the candidates. So each decision
counts by its importance weight, which takes that share off: see `zoosim.serving.forecasts.scoring`. The mean is
self-normalised, sum w r / sum w, and its standard error that of a ratio (Owen 2013, Monte Carlo theory, methods and
examples, 9.2).

Memory is bounded: what decisions earned is kept as sums by groups of visitors, of which the standard error follows as
it does by visitor, up to chance.
"""

import math
from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec
import numpy as np

from zoosim.action_spaces import find_action_space
from zoosim.core.action_space import PRODUCTS, RANKINGS
from zoosim.core.digests import short_hash
from zoosim.core.durations import DAY, MICROSECONDS
from zoosim.core.forecasts import PER_VISIT, UNTIL_FOUND, Forecast
from zoosim.core.types import REWARD
from zoosim.policies.model import Model
from zoosim.serving.arm_replica import checked_rules
from zoosim.serving.events import Choice, Feedback, Kind, Row, Start
from zoosim.serving.forecasts.kept import forecasts_in
from zoosim.serving.forecasts.scores import (
    EARLY,
    PER_VISITOR_UNKNOWN,
    UNKNOWN,
    Score,
    score_of_launch,
    score_of_mean,
)
from zoosim.serving.forecasts.scoring import Scoring
from zoosim.serving.join import NEVER_ACTIVATED, Closing, Join
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


class Tally(msgspec.Struct, array_like=True):
    """Decisions of a forecast that count so far.

    Attributes:
        made: How many were made, their wait over or not.
        first, last: When the first and the newest were made, in microseconds since 1970.
        over: How many are over.
        weights, sums: The importance weights of those, and these times what they earned, summed by group of visitors.
    """

    made: int = 0
    first: int = 0
    last: int = 0
    over: int = 0
    weights: list[float] = msgspec.field(default_factory=lambda: [0.0] * GROUPS)
    sums: list[float] = msgspec.field(default_factory=lambda: [0.0] * GROUPS)

    @property
    def per_day(self) -> float:
        """Decisions per day, 0 where there are too few to tell."""
        span = self.last - self.first
        return (self.made - 1) * DAY / span if span else 0.0

    def mean_and_error(self) -> tuple[int, float, float]:
        """Return how many decisions are over, what the policy earned by them, and the standard error of that."""
        weights = np.array(self.weights)
        sums = np.array(self.sums)
        total = float(weights.sum())
        if not total:
            return 0, 0.0, 0.0
        mean = float(sums.sum()) / total
        return self.over, mean, math.sqrt(float(((sums - mean * weights) ** 2).sum())) / total


class Member(msgspec.Struct, array_like=True):
    """A decision whose wait is not over.

    Attributes:
        group: Its group of visitors.
        weights: Its importance weight for each forecast that it counts for, by key.
        parts: How many of its parts are not over; a search has one.
        earned: What it earned so far, by the same keys.
        worth: What a purchase of each product of a search earns, from the top, and behind these a click.
    """

    group: int
    weights: dict[str, float]
    parts: int
    earned: dict[str, float]
    worth: list[float] = []


class Ledger(msgspec.Struct):
    """What a log says of its forecasts up to a position.

    Attributes:
        position: The row up to which it was read.
        model: The digest of the champion's model; empty before the first start.
        entries: The forecasts, by key, the oldest first.
        tallies: What decisions came to of those that are not scored yet.
        members: The decisions that are not over, by the position of their row.
        join: These and their feedback, as `Join.state` has them.
    """

    position: int = 0
    model: str = ""
    entries: dict[str, Score] = {}
    tallies: dict[str, Tally] = {}
    members: dict[int, Member] = {}
    join: dict[str, Any] = {}


class LedgerProjection(Projection):
    """Follows the log; the same rows come to the same ledger."""

    def __init__(self, models: Callable[[str], Model | None], ledger: Ledger | None = None) -> None:
        """Begin before the first row, or behind the last one of a ledger.

        Args:
            models: Returns the model with a digest; None where it is not at hand. It has those that decide.
            ledger: What was read before; raises `ValueError` or `LookupError` for what is none.
        """
        self._models = models
        self._ledger = ledger or Ledger()
        self._join = self._new_join(Rules())
        if self._ledger.join:
            self._join.load_state(self._ledger.join)
        self._by_model: dict[str, list[str]] = {}
        self._made: dict[str, float] = {}  # when each was made that waits, in microseconds since 1970
        self._list_by_model()

    def _weights(self) -> dict[str, float]:
        """Return the weight of each reward in the objective; none before the first start."""
        model = self._champion()
        return {} if model is None else dict(model.fitted.weights)

    def _champion(self) -> Model | None:
        return self._models(self._ledger.model) if self._ledger.model else None

    def _new_join(self, rules: Rules) -> Join:
        """Return a join of decisions on what the champion decides on."""
        model = self._champion()
        scoring = _scoring_of(PRODUCTS if model is None else model.action_space)
        return scoring.join(rules, self._weights())

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
        self._follow_rules(start)
        self._take(start, LATE)
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
            forecast = entry.said
            if forecast.quantity == UNTIL_FOUND and launch is not None and launch.model == forecast.model:
                self._note(key, score_of_launch(forecast, launch), row.time)

    def _follow_rules(self, start: Start) -> None:
        rules = checked_rules(start)
        self._ledger.model = start.model
        if not len(self._join):  # before the first start nobody knows which rewards there are
            self._join = self._new_join(rules)
        self._join.rules = rules

    def on_choice(self, row: Row, choice: Choice) -> None:
        """Enter a decision, where forecasts of its model wait for it."""
        waiting = self._by_model.get(choice.model, [])
        # What a shop shows itself, while a policy only watches, says nothing of the policy.
        if not waiting or choice.is_forgotten or self._join.rules.mode != "online" or len(self._join) >= MOST_OPEN:
            return
        scoring = _scoring_of(choice.action_space)
        weights = {
            key: weight for key in waiting if (weight := self._weight_for(key, row, choice, scoring)) is not None
        }
        worth = scoring.worth(choice, self._models(choice.model)) if weights else None
        if worth is None:
            return
        if not any(self._is_of_lists(key) for key in weights):
            choice = scoring.top_alone(choice)
        who = choice.visitor_id or f"row {row.seq}"
        group = int.from_bytes(short_hash(who.encode(), 8), "big") % GROUPS
        earned = dict.fromkeys(weights, 0.0)
        self._ledger.members[row.seq] = Member(group, weights, choice.parts, earned, worth)
        for key in weights:
            tally = self._ledger.tallies[key]
            tally.first = tally.first or row.time
            tally.last = row.time
            tally.made += 1
        self._join.decide(row, choice)

    def _weight_for(self, key: str, row: Row, choice: Choice, scoring: Scoring) -> float | None:
        """Return the importance weight of a decision for a forecast; None where it is not scored by it."""
        # By the plain values: to check a forecast takes longer than all else here, and each decision comes by.
        horizon = self._ledger.entries[key].forecast["horizon"]
        if self._ledger.tallies[key].made >= horizon or row.time < self._made[key]:
            return None
        return scoring.weight(choice, self._join.rules.exploration, self._is_of_lists(key))

    def _is_of_lists(self, key: str) -> bool:
        """Return whether a forecast is of what all that a decision shows earns, rather than the top alone."""
        return bool(self._ledger.entries[key].forecast.get("action_space", PRODUCTS) == RANKINGS)

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
        never_activated = self._join.counts[NEVER_ACTIVATED]
        for closing in self._join.tick(row.time):
            member = self._ledger.members[closing.seq]
            member.parts -= 1
            for key in member.weights:
                if key in self._ledger.tallies and (closing.slot == 0 or self._is_of_lists(key)):
                    member.earned[key] += self._earned(key, member, closing)
            if not member.parts:
                del self._ledger.members[closing.seq]
                self._count(member, row.time)
        if self._join.counts[NEVER_ACTIVATED] > never_activated:
            self._drop_inactive()

    def _count(self, member: Member, time: int) -> None:
        """Count a decision that is over for the forecasts that wait for it."""
        for key, weight in member.weights.items():
            tally = self._ledger.tallies.get(key)
            if tally is None:
                continue
            tally.over += 1
            tally.weights[member.group] += weight
            tally.sums[member.group] += weight * member.earned[key]
            entry = self._ledger.entries[key]
            if tally.over == entry.forecast["horizon"]:
                self._note(key, score_of_mean(entry.said, *tally.mean_and_error(), tally.per_day), time)

    def _drop_inactive(self) -> None:
        """Drop the decisions that never counted, as nobody activated them: others take their places."""
        still_open = set(self._join.open_rows())
        for seq in [seq for seq in self._ledger.members if seq not in still_open]:
            for key in self._ledger.members.pop(seq).weights:
                if key in self._ledger.tallies:
                    self._ledger.tallies[key].made -= 1

    def scores(self) -> list[Score]:
        """Return the forecasts, the oldest first, each with what came so far."""
        entries = self._ledger.entries
        return [self._so_far(key, entry) if key in self._ledger.tallies else entry for key, entry in entries.items()]

    def _so_far(self, key: str, entry: Score) -> Score:
        tally = self._ledger.tallies[key]
        return score_of_mean(entry.said, *tally.mean_and_error(), tally.per_day)

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
            entries[key] = Score(plain, UNKNOWN if reason else EARLY, reason=reason)
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
        champion = self._champion()
        if champion is not None and find_action_space(champion.action_space).scoring is None:
            return f"decisions on {champion.action_space} are not scored"
        weights = self._weights()
        is_known = forecast.reward in weights or forecast.reward.startswith("objective") or forecast.reward == REWARD
        return "" if is_known else f"the log has no reward of this name, but {', '.join(weights)}"

    def _earned(self, key: str, member: Member, closing: Closing) -> float:
        """Return what a part of a decision earned of the reward that a forecast is of, or of the objective."""
        if member.worth:
            return sum(member.worth[place] for place in closing.purchased) + member.worth[-1] * len(closing.clicked)
        reward = self._ledger.entries[key].forecast["reward"]
        weighted = {name: weight for name, weight in self._weights().items() if weight}
        parts = dict(closing.parts)
        is_objective = weighted == {reward: 1.0} or reward not in parts
        return closing.reward if is_objective else parts[reward]

    def _note(self, key: str, score: Score, time: int) -> None:
        """Keep a score; only the first that is one."""
        if self._ledger.entries[key].outcome != EARLY:
            return
        is_early = score.outcome == EARLY
        self._ledger.entries[key] = msgspec.structs.replace(score, time=0 if is_early else time)
        if not is_early:
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


def _scoring_of(action_space: str) -> Scoring:
    """Return how decisions of an action space count."""
    kind = find_action_space(action_space).scoring or Scoring
    return kind()


def load_ledger(content: bytes, position: int) -> Ledger:
    """Return a ledger that was saved.

    Args:
        content: What the file holds.
        position: The row up to which the log is known; a ledger that goes beyond it is of another log.

    Raises:
        ValueError: it is none, or of another log.
    """
    ledger = _decode(content)
    lists = [part for tally in ledger.tallies.values() for part in (tally.weights, tally.sums)]
    if ledger.position > position or any(len(part) != GROUPS for part in lists):
        raise ValueError("of another log")
    if not ledger.tallies.keys() <= ledger.entries.keys():
        raise ValueError("a tally without its forecast")
    for entry in ledger.entries.values():
        assert entry.said  # read, so that what is none is refused here
    return ledger


_decode = msgspec.json.Decoder(Ledger).decode
