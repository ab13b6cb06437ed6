"""The results of an evaluation, in a sentence per policy that someone who runs a shop can act on."""

import math
from typing import TYPE_CHECKING

from zoosim.core.statistics import sign_of
from zoosim.logs.log import DAYS_PER_MONTH
from zoosim.off_policy.best_estimates import best_result, over_logged, policies_of
from zoosim.off_policy.compare import Difference, Lift
from zoosim.off_policy.evidence import FEW_REWARDS, rewards_in_words
from zoosim.off_policy.verdict import DO_NOT_USE

if TYPE_CHECKING:
    from zoosim.off_policy.results import Evaluation, Result


def sentences(evaluation: "Evaluation") -> dict[str, str]:
    """Say of each policy how much more of each reward it earns than the logged choices, and how far to trust that.

    Each reward is spoken of by the estimate that is best for it: how much, how sure, what that is per month, the
    verdict, and on how many rewards it rests. On fewer than `FEW_REWARDS` nothing but that is said.
    """
    said = {}
    for policy in policies_of(evaluation):
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


def monthly_gain(evaluation: "Evaluation", gain: Lift | Difference) -> str:
    """Write how much more a policy earns in a month at the log's traffic, such as ", about +1,900 a month".

    Two digits, and a fraction only below 10; nothing where the log has no times.
    """
    if evaluation.per_day is None:
        return ""
    per_visit = gain.value * evaluation.logged.mean if isinstance(gain, Lift) else gain.value
    value = per_visit * evaluation.per_day * DAYS_PER_MONTH
    if value == 0.0:
        return ", about 0 a month"
    rounded = round(value, 1 - math.floor(math.log10(abs(value))))
    written = f"{rounded:+,.0f}" if abs(rounded) >= 10.0 else f"{rounded:+.2g}"
    return f", about {written} a month"


def _clause(evaluation: "Evaluation", result: "Result") -> str:
    """Say how much more of one reward a policy earns, and the verdict; nothing where policies were not compared."""
    judged = f"{result.estimator}: {result.verdict}"
    if result.verdict == DO_NOT_USE:
        return f"{evaluation.reward}: the log cannot tell ({judged})"
    if not result.is_comparable:
        rewards = rewards_in_words(result.effective_rewards)
        return f"{evaluation.reward}: too early to say how much, as it rests on {rewards} ({judged})"
    if math.isfinite(result.effective_rewards):
        judged = f"{judged}, {_evidence(result)}"
    gain = over_logged(evaluation, result)
    if gain is None:
        return ""
    clause = _lift_clause(evaluation, gain) if isinstance(gain, Lift) else _difference_clause(evaluation.reward, gain)
    return f"{clause} ({judged})"


def _evidence(result: "Result") -> str:
    """Say on how many rewards an estimate rests, and where they are few because the policy earns little, on how few."""
    words = f"rests on {result.effective_rewards:,.0f} rewards"
    if result.effective_rewards >= FEW_REWARDS:
        return words
    return f"{words} where today's choices would have {result.expected_rewards:,.0f}"


def _lift_clause(evaluation: "Evaluation", lift: Lift) -> str:
    """Say how much more of one reward a policy earns, as a share of what the logged choices earned."""
    reward = evaluation.reward
    if sign_of(lift.low, lift.high) != 0:
        clause = f"{percent_more(lift.value)} {reward} [{percent_more(lift.low)}, {percent_more(lift.high)}]"
        if evaluation.per_day is None:
            return clause
        visits = evaluation.per_day * DAYS_PER_MONTH
        return f"{clause}{monthly_gain(evaluation, lift)} at today's {visits:,.0f} visits"
    apart = f"{reward} not told apart from today's: {percent_more(lift.low)} to {percent_more(lift.high)}"
    if lift.held is None:
        return apart
    return f"{apart}, as the log holds {share_held(lift.held)} of the rows that would show {percent_more(lift.value)}"


def _difference_clause(reward: str, row: Difference) -> str:
    """Say how far apart a policy and the logged choices are, where a share of these would mean nothing."""
    ends = [("open" if end is None or not math.isfinite(end) else f"{end:+.3g}") for end in (row.low, row.high)]
    if sign_of(row.low, row.high) != 0:
        return f"{row.value:+.3g} {reward} per visit [{ends[0]}, {ends[1]}]"
    return f"{reward} not told apart from today's: {ends[0]} to {ends[1]} per visit"
