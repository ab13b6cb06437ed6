"""Off-policy evaluation: what a policy would have earned, from a log that another one wrote."""

from zoosim.evaluation.off_policy.actions import ESTIMATORS
from zoosim.evaluation.off_policy.evaluate import Difference, Evaluation, Result, evaluate
from zoosim.evaluation.off_policy.importing import import_log
from zoosim.evaluation.off_policy.intervals import bernstein_interval
from zoosim.evaluation.off_policy.log import Log
from zoosim.evaluation.off_policy.mapping import LogMapping
from zoosim.evaluation.off_policy.open_bandit import read_open_bandit
from zoosim.evaluation.off_policy.reading import read_log, to_log
from zoosim.evaluation.off_policy.sequences import confidence_sequence
from zoosim.evaluation.off_policy.targets import spec_of
from zoosim.evaluation.off_policy.terms import Terms

__all__ = [
    "ESTIMATORS",
    "Difference",
    "Evaluation",
    "Log",
    "LogMapping",
    "Result",
    "Terms",
    "bernstein_interval",
    "confidence_sequence",
    "evaluate",
    "import_log",
    "read_log",
    "read_open_bandit",
    "spec_of",
    "to_log",
]
