"""Scores of forecasts: what came of each, by what decisions earned or how a launch ended.

The mean of what decisions earned is itself known up to chance. So a forecast counts as held where the two agree within
the intervals of both, at the forecast's level: at its horizon they are about as wide as each other.
"""

import math
from typing import Any

import msgspec
from scipy.special import ndtri

from zoosim.core.forecasts import Forecast
from zoosim.core.number_format import counted
from zoosim.monitoring.launch import Role, Verdict
from zoosim.serving.launches.state import Launch

HELD, MISSED, EARLY, UNKNOWN = "held", "missed", "too early", "cannot be told"
"""What comes of a forecast."""

PER_VISITOR_UNKNOWN = (
    "the log of a service does not say when a visitor has gone for good, so nothing tells what one earns in all"
)
"""Why a forecast of what a visitor earns is not scored."""


class Score(msgspec.Struct, array_like=True):
    """A forecast, and what came of it.

    Attributes:
        forecast: The fields of the forecast, as plain values by name.
        outcome: One of `HELD`, `MISSED`, `EARLY` and `UNKNOWN`.
        decisions: Decisions, or visitors of a launch, that count so far.
        came: What came, as far as it is known; None where nothing is.
        error: The standard error of that, 0 where it is exact.
        reason: Why it cannot be told, or how long it takes; empty where it is scored.
        time: When it was scored, in microseconds since 1970; 0 for not yet.
    """

    forecast: dict[str, Any]
    outcome: str
    decisions: int = 0
    came: float | None = None
    error: float = 0.0
    reason: str = ""
    time: int = 0

    @property
    def said(self) -> Forecast:
        """The forecast."""
        return Forecast(**self.forecast)

    @property
    def sentence(self) -> str:
        """It in words."""
        forecast = self.said
        said = f"{forecast.value:.4g} ({forecast.low:.4g} to {forecast.high:.4g})"
        about = f", {forecast.about}" if forecast.about else ""
        came = "" if self.came is None else f"; {self.came:.4g} came"
        why = f": {self.reason}" if self.reason else ""
        subject = forecast.policy or forecast.model[:8]
        return f"{subject}: {forecast.reward}, {forecast.quantity}{about}: {said}{came}: {self.outcome}{why}"

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain values by name."""
        mine = {name: getattr(self, name) for name in ("outcome", "decisions", "came", "error", "reason")}
        return {"forecast": self.forecast, **mine, "sentence": self.sentence}


def score_of_mean(forecast: Forecast, n: int, mean: float, error: float, per_day: float) -> Score:
    """Return what came of a forecast of a mean reward, by the mean of its first decisions.

    By these alone, so that nobody waits until it holds.

    Args:
        forecast: The forecast.
        n: How many decisions count, its horizon at most.
        mean, error: What the policy earned by them on average, and the standard error of that.
        per_day: Decisions per day, 0 where nobody knows.
    """
    if n < 2:
        return Score(forecast.plain, EARLY, n, reason=_needs(forecast.horizon - n, per_day))
    if n < forecast.horizon:
        return Score(forecast.plain, EARLY, n, mean, error, _needs(forecast.horizon - n, per_day))
    noise = float(ndtri(0.5 + forecast.level / 2.0)) * error
    low = forecast.value - math.hypot(forecast.value - forecast.low, noise)
    high = forecast.value + math.hypot(forecast.high - forecast.value, noise)
    return Score(forecast.plain, HELD if low <= mean <= high else MISSED, n, mean, error)


def score_of_launch(forecast: Forecast, launch: Launch) -> Score:
    """Return what came of a forecast of when a launch finds a drop or a lift of some size.

    A larger one is found sooner. So it holds where the launch found one by the upper end of the interval. A smaller one
    is found later, which the forecast does not speak of.

    Args:
        forecast: The forecast.
        launch: The newest launch of its model.
    """
    if launch.is_running:
        return Score(forecast.plain, EARLY, reason=f"the launch is {launch.state}")
    expected = Verdict.SHIP if "lift" in forecast.about else Verdict.ROLL_BACK
    if launch.verdict != expected:
        return Score(forecast.plain, UNKNOWN, launch.visitors, reason=f"the launch ended without it: {launch.reason}")
    found = launch.changes.get(forecast.reward)
    if launch.visitors > forecast.high and found is not None and abs(found) < _size_of(forecast, launch, expected):
        reason = f"the launch found a change of {found:+.1%}, which is smaller"
        return Score(forecast.plain, UNKNOWN, launch.visitors, reason=reason)
    outcome = HELD if launch.visitors <= forecast.high else MISSED
    return Score(forecast.plain, outcome, launch.visitors, float(launch.visitors))


def _size_of(forecast: Forecast, launch: Launch, verdict: Verdict) -> float:
    """Return which part of the champion's mean a launch was set to find; 0 where its plan tells no part."""
    is_lift = verdict is Verdict.SHIP
    role = Role.SUCCESS if is_lift else Role.GUARDRAIL
    sizes = [
        each.lift if is_lift else each.drop
        for each in launch.checked_plan().metrics
        if each.reward == forecast.reward and each.role is role and each.relative
    ]
    return max(sizes, default=0.0)


def _needs(decisions: int, per_day: float) -> str:
    days = f", about {decisions / per_day:,.1f} days" if per_day else ""
    return f"needs {counted(decisions, 'more decision')}{days}"
