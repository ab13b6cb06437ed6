"""What an evaluation comes to, in a sentence per policy that someone who runs a shop can act on."""

import math
from typing import TYPE_CHECKING

from zoosim.logs.log import DAYS_PER_MONTH
from zoosim.off_policy.compare import LOGGED, Difference, Lift
from zoosim.off_policy.estimators.single import DIRECT_METHOD
from zoosim.off_policy.evidence import FEW_REWARDS, rewards_in_words
from zoosim.off_policy.verdict import DO_NOT_USE, TRUST, WORDS

if TYPE_CHECKING:
    from zoosim.off_policy.results import Evaluation, Result


def usual_estimator(evaluation: "Evaluation") -> str:
    """Return the estimator that can be used for the most policies, and trusted for the most; the last of several.

    Of several as good it is not the direct method, which rests on a model.
    """
    rows = evaluation.results
    names = list(dict.fromkeys(row.estimator for row in rows))

    def usefulness(name: str) -> tuple[int, int, bool, int]:
        words = [row.verdict for row in rows if row.estimator == name]
        is_by_weights = name != DIRECT_METHOD
        return len(words) - words.count(DO_NOT_USE), words.count(TRUST), is_by_weights, names.index(name)

    return max(names, key=usefulness)


def best_result(evaluation: "Evaluation", policy: str) -> "Result":
    """Return the estimate by which a policy is spoken of: that with the best verdict.

    Of several as good, one that rests on enough rewards to say how much, and of these the usual estimator's.
    """
    usual = usual_estimator(evaluation)
    rows = [row for row in evaluation.results if row.policy == policy]

    def rank(row: "Result") -> tuple[int, bool, bool]:
        return WORDS.index(row.verdict), row.effective_rewards < FEW_REWARDS, row.estimator != usual

    return min(rows, key=rank)


def sentences(evaluation: "Evaluation") -> dict[str, str]:
    """Say of each policy how much more of each reward it earns than the logged choices, and how far to trust that.

    Each reward is spoken of by the estimate that is best for it: how much, how sure, what that is per month, the
    verdict, and on how many rewards it rests. On fewer than `FEW_REWARDS` nothing but that is said.
    """
    said = {}
    for policy in dict.fromkeys(row.policy for row in evaluation.results):
        clauses = [_clause(by_reward, best_result(by_reward, policy)) for by_reward in evaluation.by_reward.values()]
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


def per_month(value: float) -> str:
    """Write what changes in a month with two digits, such as +1,900, and with a fraction only below 10."""
    if value == 0.0:
        return "0"
    rounded = round(value, 1 - math.floor(math.log10(abs(value))))
    return f"{rounded:+,.0f}" if abs(rounded) >= 10.0 else f"{rounded:+.2g}"


def _clause(evaluation: "Evaluation", result: "Result") -> str:
    """Say how much more of one reward a policy earns, and the verdict; nothing where policies were not compared."""
    judged = f"{result.estimator}: {result.verdict}"
    if result.verdict == DO_NOT_USE:
        return f"{evaluation.reward}: the log cannot tell ({judged})"
    if not result.is_comparable:
        rewards = rewards_in_words(result.effective_rewards)
        return f"{evaluation.reward}: too early to say how much, as it rests on {rewards} ({judged})"
    if math.isfinite(result.effective_rewards):
        judged = f"{judged}, rests on {result.effective_rewards:,.0f} rewards"
    earned = _earned(evaluation, result)
    return f"{earned} ({judged})" if earned else ""


def _earned(evaluation: "Evaluation", result: "Result") -> str:
    """Say how much more of one reward a policy earns; nothing where policies were not compared."""
    of_policy = (result.policy, result.estimator)
    lift = next((row for row in evaluation.lifts if (row.policy, row.estimator) == of_policy), None)
    if lift is not None:
        return _lift_clause(evaluation, lift)
    rows = [row for row in evaluation.differences if (row.policy, row.estimator, row.other) == (*of_policy, LOGGED)]
    return _difference_clause(evaluation.reward, rows[0]) if rows else ""


def _lift_clause(evaluation: "Evaluation", lift: Lift) -> str:
    reward = evaluation.reward
    if _is_clear(lift.low, lift.high):
        clause = f"{percent_more(lift.value)} {reward} [{percent_more(lift.low)}, {percent_more(lift.high)}]"
        if evaluation.per_day is None:
            return clause
        visits = evaluation.per_day * DAYS_PER_MONTH
        gain = per_month(lift.value * evaluation.logged.mean * visits)
        return f"{clause}, about {gain} a month at today's {visits:,.0f} visits"
    apart = f"{reward} not told apart from today's: {percent_more(lift.low)} to {percent_more(lift.high)}"
    if lift.held is None:
        return apart
    return f"{apart}, as the log holds {share_held(lift.held)} of the rows that would show {percent_more(lift.value)}"


def _difference_clause(reward: str, row: Difference) -> str:
    """Say how far apart a policy and the logged choices are, where a share of these would mean nothing."""
    ends = [("open" if end is None or not math.isfinite(end) else f"{end:+.3g}") for end in (row.low, row.high)]
    if _is_clear(row.low, row.high):
        return f"{row.value:+.3g} {reward} per visit [{ends[0]}, {ends[1]}]"
    return f"{reward} not told apart from today's: {ends[0]} to {ends[1]} per visit"


def _is_clear(low: float | None, high: float | None) -> bool:
    """Whether an interval lies on one side of 0."""
    return (low is not None and low > 0.0) or (high is not None and high < 0.0)
