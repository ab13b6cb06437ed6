"""Has the mean of a stream changed (detectors of drift), and may a new policy stay (guardrails of a launch)?"""

from zoosim.monitoring.adwin import ADWIN
from zoosim.monitoring.detector import Detector
from zoosim.monitoring.difference import BETTER, HARM, NOT_WORSE, DifferenceTest, Estimate, Reward
from zoosim.monitoring.glr import GLR
from zoosim.monitoring.launch import (
    Event,
    Judgement,
    Metric,
    Role,
    State,
    Verdict,
    judge,
    new_tests,
    next_event,
    next_state,
    said_beforehand,
)
from zoosim.monitoring.page_hinkley import PageHinkley
from zoosim.monitoring.sample_size import events_needed
from zoosim.monitoring.split import SplitTest

__all__ = [
    "ADWIN",
    "BETTER",
    "GLR",
    "HARM",
    "NOT_WORSE",
    "Detector",
    "DifferenceTest",
    "Estimate",
    "Event",
    "Judgement",
    "Metric",
    "PageHinkley",
    "Reward",
    "Role",
    "SplitTest",
    "State",
    "Verdict",
    "events_needed",
    "judge",
    "new_tests",
    "next_event",
    "next_state",
    "said_beforehand",
]
