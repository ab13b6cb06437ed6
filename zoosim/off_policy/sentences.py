"""What an evaluation comes to, in a sentence per policy that someone who runs a shop can act on."""

import math
from typing import TYPE_CHECKING

from zoosim.off_policy.compare import LOGGED, Difference, Lift
from zoosim.off_policy.verdict import DO_NOT_USE, TRUST, WORDS

if TYPE_CHECKING:
    from zoosim.off_policy.results import Evaluation, Result


def usual_estimator(evaluation: "Evaluation") -> str:
    """Return the estimator that can be used for the most policies, and trusted for the most; the last of several."""
    rows = evaluation.results
    names = list(dict.fromkeys(row.estimator for row in rows))

    def usefulness(name: str) -> tuple[int, int, int]:
        words = [row.verdict for row in rows if row.estimator == name]
        return len(words) - words.count(DO_NOT_USE), words.count(TRUST), names.index(name)

    return max(names, key=usefulness)


def best_result(evaluation: "Evaluation", policy: str) -> "Result":
    """Return a policy's estimate with the best verdict, by the usual estimator where that is as good."""
    usual = usual_estimator(evaluation)
    rows = [row for row in evaluation.results if row.policy == policy]
    return min(rows, key=lambda row: (WORDS.index(row.verdict), row.estimator != usual))


def sentences(evaluation: "Evaluation") -> dict[str, str]:
    """Say of each policy how much more of each reward it earns than the logged choices, and how far to trust that.

    All rewards are judged by the estimator that is best for the objective, each with a verdict of its own.
    """
    said = {}
    for policy in dict.fromkeys(row.policy for row in evaluation.results):
        estimator = best_result(evaluation, policy).estimator
        clauses = [_clause(by_reward, policy, estimator) for by_reward in evaluation.by_reward.values()]
        clauses = [clause for clause in clauses if clause]
        if clauses:
            said[policy] = "; ".join(clauses)
    return said


def percent_more(value: float | None) -> str:
    """Write .22 as +22%, and an end that the log leaves open as "open"."""
    if value is None or not math.isfinite(value):
        return "open"
    digits = 1 if abs(value) < 0.0995 else 0
    return f"{100.0 * value:+,.{digits}f}%"


def share_held(value: float) -> str:
    """Write the share of the rows it takes that a log holds."""
    return f"{100.0 * value:,.0f}%" if value >= 0.01 else "less than 1%"


def _clause(evaluation: "Evaluation", policy: str, estimator: str) -> str:
    """Say how much more of one reward a policy earns, and the verdict; nothing where policies were not compared."""
    result = next(row for row in evaluation.results if (row.policy, row.estimator) == (policy, estimator))
    judged = f"(by {estimator}: {result.verdict})"
    if result.verdict == DO_NOT_USE:
        return f"{evaluation.reward}: the log cannot tell {judged}"
    earned = _earned(evaluation, policy, estimator)
    return f"{earned} {judged}" if earned else ""


def _earned(evaluation: "Evaluation", policy: str, estimator: str) -> str:
    """Say how much more of one reward a policy earns; nothing where policies were not compared."""
    lift = next((row for row in evaluation.lifts if (row.policy, row.estimator) == (policy, estimator)), None)
    if lift is not None:
        return _lift_clause(evaluation.reward, lift)
    of_policy = (policy, estimator, LOGGED)
    rows = [row for row in evaluation.differences if (row.policy, row.estimator, row.other) == of_policy]
    return _difference_clause(evaluation.reward, rows[0]) if rows else ""


def _lift_clause(reward: str, lift: Lift) -> str:
    if _is_clear(lift.low, lift.high):
        return f"{percent_more(lift.value)} {reward} [{percent_more(lift.low)}, {percent_more(lift.high)}]"
    apart = f"{reward} not told apart from today's: {percent_more(lift.low)} to {percent_more(lift.high)}"
    if lift.held is None:
        return apart
    return f"{apart} (the log holds {share_held(lift.held)} of the rows it takes to tell {percent_more(lift.value)})"


def _difference_clause(reward: str, row: Difference) -> str:
    """Say how far apart a policy and the logged choices are, where a share of these would mean nothing."""
    ends = [("open" if end is None or not math.isfinite(end) else f"{end:+.3g}") for end in (row.low, row.high)]
    if _is_clear(row.low, row.high):
        return f"{row.value:+.3g} {reward} a visit [{ends[0]}, {ends[1]}]"
    return f"{reward} not told apart from today's: {ends[0]} to {ends[1]} a visit"


def _is_clear(low: float | None, high: float | None) -> bool:
    """Whether an interval lies on one side of 0."""
    return (low is not None and low > 0.0) or (high is not None and high < 0.0)
