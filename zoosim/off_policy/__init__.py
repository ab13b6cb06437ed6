"""Off-policy evaluation: what a policy would have earned, from a log that another one wrote."""

from zoosim.action_spaces import ActionSpace
from zoosim.logs.candidate_sets import CandidateSets
from zoosim.logs.log import Log
from zoosim.logs.parse import read_log, to_log
from zoosim.off_policy.actions.products import ESTIMATORS
from zoosim.off_policy.compare import Difference
from zoosim.off_policy.estimators.terms import Terms
from zoosim.off_policy.evaluate import evaluate
from zoosim.off_policy.intervals.intervals import bernstein_interval
from zoosim.off_policy.intervals.sequences import confidence_sequence
from zoosim.off_policy.results import Evaluation, Result
from zoosim.off_policy.targets.products import spec_of
from zoosim.schema.schema import Schema

__all__ = [
    "ESTIMATORS",
    "ActionSpace",
    "CandidateSets",
    "Difference",
    "Evaluation",
    "Log",
    "Result",
    "Schema",
    "Terms",
    "bernstein_interval",
    "confidence_sequence",
    "evaluate",
    "read_log",
    "spec_of",
    "to_log",
]
