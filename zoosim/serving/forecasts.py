"""Forecasts in the log of a service: taken in with a model, and scored by what its decisions earned.

The mean of what decisions earned is itself known up to chance. So a forecast counts as held where the two agree within
the intervals of both, at the forecast's level: at its horizon they are about as wide as each other.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec
import numpy as np
from scipy.special import ndtri

from zoosim.core.action_space import PRODUCTS
from zoosim.core.durations import DAY, MICROSECONDS
from zoosim.core.errors import ConfigError, DataError
from zoosim.core.forecasts import PER_VISIT, UNTIL_FOUND, Forecast, checked_forecasts, forecasts_path, read_forecasts
from zoosim.core.number_format import counted
from zoosim.core.types import FloatArray, IntArray
from zoosim.monitoring.launch import Verdict
from zoosim.serving.events import Kind, Start, unpack
from zoosim.serving.launches.state import Launch, launch_in
from zoosim.serving.projection import rows_of
from zoosim.serving.served_log import read_served_log
from zoosim.serving.store.address import Address, open_store

FORECASTS = "forecasts"
"""The part of the changes in a log that holds forecasts of its models."""

MOST = 100
"""Forecasts of a log that are kept, the newest."""

HELD, MISSED, EARLY, UNKNOWN = "held", "missed", "too early", "cannot be told"
"""What comes of a forecast."""

PER_VISITOR_UNKNOWN = "a log of decisions does not tell what a visitor earns in all"
"""Why a forecast of what a visitor earns is not scored."""


def forecasts_of_file(model_file: Any, digest: str) -> list[Forecast]:
    """Return what is forecast of a model, by the file beside its own; raises `DataError` for what is none.

    Args:
        model_file: The file of the model.
        digest: Its digest. What the file forecasts of others, such as the one that was there before, is left out.
    """
    return [forecast for forecast in read_forecasts(forecasts_path(model_file)) if forecast.model == digest]


def checked_of_model(entries: Any, digest: str) -> list[Forecast]:
    """Return the forecasts of a request; raises `ConfigError` for what is none, or is about another model."""
    forecasts = checked_forecasts(entries, FORECASTS)
    for number, forecast in enumerate(forecasts, 1):
        if forecast.model != digest:
            raise ConfigError(f"forecasts {number}: model: got {forecast.model!r}, expected the launched one, {digest}")
    return forecasts


def forecasts_in(start: Start) -> list[Forecast]:
    """Return the forecasts of a log; those of a release that knows others are left out."""
    forecasts = []
    for entry in json.loads(start.changes).get(FORECASTS, []):
        try:
            forecasts += checked_forecasts([entry], FORECASTS)
        except ConfigError:
            continue
    return forecasts


def with_forecasts(start: Start, new: Sequence[Forecast]) -> Start:
    """Return a start that holds further forecasts; one takes the place of an earlier one of the same."""
    if not new:
        return start
    kept = {forecast.subject: forecast for forecast in forecasts_in(start)}
    for forecast in new:
        kept.pop(forecast.subject, None)
        kept[forecast.subject] = forecast
    changes = {**json.loads(start.changes), FORECASTS: [each.plain for each in kept.values()][-MOST:]}
    return msgspec.structs.replace(start, changes=json.dumps(changes, sort_keys=True).encode())


@dataclass(frozen=True)
class Decided:
    """What the decisions of a model earned, in the order in which they were made.

    Attributes:
        rewards: By name, each `(n,)`.
        times: When they were made, in microseconds since 1970 `(n,)`.
        visitors: Numbers of their visitors `(n,)`.
    """

    rewards: Mapping[str, FloatArray]
    times: IntArray
    visitors: IntArray

    def __len__(self) -> int:
        return len(self.times)

    def since(self, made: str) -> "Decided":
        """Return those that were made after a forecast was, by the time that this holds."""
        after = self.times >= datetime.fromisoformat(made).timestamp() * MICROSECONDS
        rewards = {name: values[after] for name, values in self.rewards.items()}
        return Decided(rewards, self.times[after], self.visitors[after])

    @property
    def per_day(self) -> float:
        """Decisions per day, 0 where there are too few to tell."""
        span = int(self.times[-1] - self.times[0]) if len(self) > 1 else 0
        return (len(self) - 1) * DAY / span if span else 0.0


NOTHING = Decided({}, np.zeros(0, np.int64), np.zeros(0, np.int64))


@dataclass(frozen=True)
class Score:
    """A forecast, and what came of it.

    Attributes:
        forecast: The forecast.
        outcome: One of `HELD`, `MISSED`, `EARLY` and `UNKNOWN`.
        decisions: Decisions, or visitors of a launch, that count so far.
        came: What came, as far as it is known; None where nothing is.
        error: The standard error of that, 0 where it is exact.
        reason: Why it cannot be told, or how long it takes; empty where it is scored.
    """

    forecast: Forecast
    outcome: str
    decisions: int = 0
    came: float | None = None
    error: float = 0.0
    reason: str = ""

    @property
    def sentence(self) -> str:
        """It in words."""
        forecast = self.forecast
        said = f"{forecast.value:.4g} ({forecast.low:.4g} to {forecast.high:.4g})"
        about = f", {forecast.about}" if forecast.about else ""
        came = "" if self.came is None else f"; {self.came:.4g} came"
        why = f": {self.reason}" if self.reason else ""
        subject = forecast.policy or forecast.model[:8]
        return f"{subject}: {forecast.reward}, {forecast.quantity}{about}: {said}{came}: {self.outcome}{why}"

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain values by name."""
        mine = {name: getattr(self, name) for name in ("outcome", "decisions", "came", "error", "reason")}
        return {"forecast": self.forecast.plain, **mine, "sentence": self.sentence}


def score(forecast: Forecast, decided: Decided) -> Score:
    """Return what came of a forecast of a mean reward.

    By the first decisions up to its horizon alone, so that nobody waits until it holds.

    Args:
        forecast: The forecast.
        decided: What its model's decisions earned.
    """
    if forecast.quantity != PER_VISIT:
        return Score(forecast, UNKNOWN, reason=PER_VISITOR_UNKNOWN)
    rewards = decided.rewards.get(forecast.reward)
    if rewards is None and len(decided):
        return Score(forecast, UNKNOWN, reason=f"the log has no reward of this name, but {', '.join(decided.rewards)}")
    n = min(len(decided), forecast.horizon)
    mean = error = 0.0
    if rewards is not None and n:
        mean, error = _mean_and_error(rewards[:n], decided.visitors[:n])
    return score_of_mean(forecast, n, mean, error, decided.per_day)


def score_of_mean(forecast: Forecast, n: int, mean: float, error: float, per_day: float) -> Score:
    """Return what came of a forecast of a mean reward, by the mean of its first decisions.

    Args:
        forecast: The forecast.
        n: How many decisions count, its horizon at most.
        mean, error: What they earned on average, and the standard error of that.
        per_day: Decisions per day, 0 where nobody knows.
    """
    if n < 2:
        return Score(forecast, EARLY, n, reason=_needs(forecast.horizon - n, per_day))
    if n < forecast.horizon:
        return Score(forecast, EARLY, n, mean, error, _needs(forecast.horizon - n, per_day))
    noise = float(ndtri(0.5 + forecast.level / 2.0)) * error
    low = forecast.value - math.hypot(forecast.value - forecast.low, noise)
    high = forecast.value + math.hypot(forecast.high - forecast.value, noise)
    return Score(forecast, HELD if low <= mean <= high else MISSED, n, mean, error)


def score_of_launch(forecast: Forecast, launch: Launch | None) -> Score:
    """Return what came of a forecast of when a launch finds a drop or a lift of some size.

    A larger one is found sooner. So it holds where the launch found one by the upper end of the interval.

    Args:
        forecast: The forecast.
        launch: The newest launch of its model; None where the log has none.
    """
    if launch is None or launch.model != forecast.model:
        return Score(forecast, UNKNOWN, reason="the log has no launch of this model")
    if launch.is_running:
        return Score(forecast, EARLY, reason=f"the launch is {launch.state}")
    expected = Verdict.SHIP if "lift" in forecast.about else Verdict.ROLL_BACK
    if launch.verdict != expected:
        return Score(forecast, UNKNOWN, launch.visitors, reason=f"the launch ended without it: {launch.reason}")
    outcome = HELD if launch.visitors <= forecast.high else MISSED
    return Score(forecast, outcome, launch.visitors, float(launch.visitors))


def _mean_and_error(rewards: FloatArray, visitors: IntArray) -> tuple[float, float]:
    """Return the mean of rewards and its standard error, where those of one visitor may be alike."""
    mean = float(rewards.mean())
    _, places = np.unique(visitors, return_inverse=True)
    by_visitor = np.bincount(places, weights=rewards - mean)
    return mean, math.sqrt(float((by_visitor**2).sum())) / len(rewards)


def _needs(decisions: int, per_day: float) -> str:
    days = f", about {decisions / per_day:,.1f} days" if per_day else ""
    return f"needs {counted(decisions, 'more decision')}{days}"


def scores_in(address: Address) -> list[Score]:
    """Return the forecasts in a log, each with what came of it; raises as reading the log does."""
    starts = _starts(address)
    forecasts = forecasts_in(starts[-1]) if starts else []
    if not forecasts:
        return []
    # As each launch stood last, though others followed.
    launches = {launch.model: launch for start in starts if (launch := launch_in(start)) is not None}
    unreadable = ""
    decided: Mapping[str, Decided] = {}
    try:
        decided = _decided_by_model(address)
    except (ConfigError, DataError) as error:  # none is over yet, or they are on other things than products
        unreadable = str(error)
    scores = []
    for forecast in forecasts:
        if forecast.quantity == UNTIL_FOUND:
            scores.append(score_of_launch(forecast, launches.get(forecast.model)))
        elif unreadable:
            scores.append(Score(forecast, UNKNOWN, reason=unreadable))
        else:
            scores.append(score(forecast, decided.get(forecast.model, NOTHING).since(forecast.made)))
    return scores


def _starts(address: Address) -> list[Start]:
    """Return the starts that a log holds, the oldest first."""
    store = open_store(address, read_only=True)
    try:
        newest = store.last()
        until = 0 if newest is None else newest.seq
        return [unpack(row) for row in rows_of(store, until=until) if row.kind is Kind.START]
    finally:
        store.close()


def _decided_by_model(address: Address) -> dict[str, Decided]:
    """Return what the decisions of each model earned."""
    served = read_served_log(address, action_space=PRODUCTS)
    log = served.log
    rewards = {**log.rewards_by_name, log.objective: log.rewards}
    visitors = np.arange(len(log)) if log.user_ids is None else log.user_ids
    assert log.times is not None
    models = np.array(served.models)
    rows = {model: np.flatnonzero(models == model) for model in set(served.models)}
    return {model: _of_rows(places, rewards, log.times, visitors) for model, places in rows.items()}


def _of_rows(rows: IntArray, rewards: Mapping[str, FloatArray], times: IntArray, visitors: IntArray) -> Decided:
    by_name = {name: values[rows] for name, values in rewards.items()}
    return Decided(by_name, times[rows], visitors[rows])
