"""What the learner tells of a launch: how its metrics stand, which checks fail, and whether feedback comes at all."""

import math
from typing import Any

import msgspec

from zoosim.monitoring.health import Action, Finding
from zoosim.monitoring.launch import Verdict


class MetricReport(msgspec.Struct, array_like=True):
    """State of a metric: the difference of the new model to the champion per visitor, with its interval."""

    reward: str
    role: str
    difference: float
    low: float
    high: float
    champion: float
    margin: float


class FailedCheck(msgspec.Struct, array_like=True):
    """A check that fails: its name, what is done about it, and what it says."""

    check: str
    action: Action
    sentence: str


def failed(finding: Finding) -> FailedCheck:
    """Return a finding as a report tells it."""
    return FailedCheck(finding.check, finding.action, str(finding))


class LaunchReport(msgspec.Struct, array_like=True):
    """State of a launch at a row of the log.

    Attributes:
        number: The number of the launch.
        step: The place of its share, when this was told.
        verdict: What the metrics say together.
        sentence: Why.
        remaining: Visitors until it can be told, infinity where nobody knows.
        visitors: Visitors of the new model and of the champion that count so far, and since its share began.
        metrics: How each metric stands.
        checks: The checks that fail.
        per_hour: Such visitors who come per hour, 0 where nobody knows.
        champion: Origin of the champion that the new model is compared with.
    """

    number: int
    step: int
    verdict: Verdict
    sentence: str
    remaining: float
    visitors: int
    step_visitors: int
    metrics: list[MetricReport]
    checks: list[FailedCheck]
    per_hour: float = 0.0
    champion: str = ""


def described(report: LaunchReport) -> dict[str, Any]:
    """Return a report as plain values by name, without numbers that JSON lacks."""
    plain = {name: getattr(report, name) for name in LaunchReport.__struct_fields__}
    for name in ("metrics", "checks"):
        plain[name] = [
            {field: _plain(getattr(each, field)) for field in each.__struct_fields__} for each in plain[name]
        ]
    return {name: _plain(value) for name, value in plain.items()}


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
