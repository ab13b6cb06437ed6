"""The plan of a launch: its shares, for how long each, and by which rewards it goes on, waits, or is taken back."""

from typing import Annotated, Any

from pydantic import Field, field_validator, model_validator

from zoosim.core.config import Strict
from zoosim.core.durations import DAY, HOUR
from zoosim.core.parameters import unknown
from zoosim.monitoring.difference import Reward
from zoosim.monitoring.launch import Metric, Role, new_tests

OBJECTIVE = "objective"
"""The name of what the policy learns: the weighted sum of rewards by name."""

STEPS = (0.01, 0.05, 0.20, 0.50)
"""The shares of a launch by default."""

WAIT = 600.0
"""Seconds after a decision in which its feedback counts by default; also the window of a plan that names none."""

Share = Annotated[float, Field(gt=0, lt=1)]


class MetricPlan(Strict):
    """A reward of a visitor and what it decides.

    Args:
        reward: The name of the reward, or "objective".
        role: "success": to ship, one has to improve; "guardrail": the launch is taken back where it is worse than the
            margin, and ships once all are shown not to be; "signal": a fall holds the launch until it is gone.
        margin: By how much the new model may be worse.
        drop: The drop that the launch is set to find, above the margin.
        lift: The improvement that it is set to find.
        relative: Whether these are parts of the champion's mean, or in units of the reward.
        low, high: The range of the reward of a visitor; what is beyond is cut.
    """

    reward: str = OBJECTIVE
    role: Role = Role.GUARDRAIL
    margin: Annotated[float, Field(ge=0)] = 0.02
    drop: Annotated[float, Field(gt=0)] = 0.2
    lift: Annotated[float, Field(gt=0)] = 0.1
    relative: bool = True
    low: Annotated[float, Field(le=0)] = 0.0
    high: Annotated[float, Field(gt=0)] = 1.0

    @field_validator("role", mode="before")
    @classmethod
    def _role(cls, value: Any) -> Any:
        if value in list(Role):
            return Role(value)
        raise ValueError(unknown("unknown", str(value), [*Role]))

    @property
    def metric(self) -> Metric:
        """The metric, as tests take it; raises `ConfigError`."""
        reward = Reward(self.reward, self.low, self.high, self.margin, self.drop, self.lift, self.relative)
        return Metric(reward, self.role)


def _objective() -> list[MetricPlan]:
    return [MetricPlan(role=Role.SUCCESS), MetricPlan(role=Role.GUARDRAIL)]


class Plan(Strict):
    """Plan by which a model is launched.

    Args:
        steps: The shares of the new model, growing.
        hours: Hours that each share stays at least, one number for all or one per share.
        least: Visitors that each share takes at least, of the new model and of the champion.
        window: Seconds in which what a visitor earns counts, from the first decision on; 0 for the wait of the rules.
        metrics: Rewards and what they decide.
        holdback: The share of an arm that stays as the champion is now, and learns nothing, where there is none yet; 0
            for none.
        level: Probability of ever taking back what is not worse than any margin, and of shipping what is worse than
            that of a reward that is no success.
        ship_level: Probability of ever shipping what improves nothing; with one success, also of shipping what lowers
            that.
        most_days: Days that the last share takes at most before it can be told; then the launch is taken back. 0 for as
            long as it takes.
        slow: Seconds from which on a decision of a policy is slow; where the slowest hundredth of the champion's takes
            longer, those that do.
    """

    steps: Annotated[list[Share], Field(min_length=1, max_length=20, default_factory=lambda: [*STEPS])]
    hours: float | list[float] = 1.0
    least: Annotated[int, Field(ge=0, le=10**9)] = 100
    window: Annotated[float, Field(ge=0, le=604_800)] = 0.0
    metrics: Annotated[list[MetricPlan], Field(min_length=1, max_length=20, default_factory=_objective)]
    holdback: Annotated[float, Field(ge=0, le=0.5)] = 0.05
    level: Annotated[float, Field(gt=0, lt=0.5)] = 0.01
    ship_level: Annotated[float, Field(gt=0, lt=0.5)] = 0.1
    most_days: Annotated[float, Field(ge=0, le=10_000)] = 0.0
    slow: Annotated[float, Field(gt=0, le=3_600)] = 0.05

    @model_validator(mode="after")
    def _is_possible(self) -> "Plan":
        if sorted(set(self.steps)) != self.steps:
            raise ValueError(f"steps: got {self.steps}, expected shares that grow")
        durations = self.hours if isinstance(self.hours, list) else [self.hours]
        if len(durations) not in (1, len(self.steps)) or min(durations) < 0 or max(durations) > 10_000:
            raise ValueError(f"hours: got {self.hours}, expected one number from 0 on, or one per share")
        new_tests([each.metric for each in self.metrics], level=self.level, ship_level=self.ship_level)
        return self

    def duration(self, step: int) -> int:
        """Return how long a share stays at least, in microseconds."""
        hours = self.hours[step] if isinstance(self.hours, list) else self.hours
        return round(hours * HOUR)

    def is_expired(self, passed: int) -> bool:
        """Return whether so many microseconds are more than the last share may take before it can be told."""
        return bool(self.most_days) and passed >= self.duration(len(self.steps) - 1) + self.most_days * DAY
