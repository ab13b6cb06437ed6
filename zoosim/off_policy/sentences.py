"""The results of an evaluation, in a sentence per policy that someone who runs a shop can act on."""

import math
from typing import TYPE_CHECKING

from zoosim.core.number_format import COUNTED, Written, counted, in_percent, unit_of, with_interval
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
    verdict, and on how many rewards it rests. Of an estimate that is not comparable nothing but that is said.
    """
    said = {}
    for policy in policies_of(evaluation):
        clauses = [_clause(by_reward, best_result(by_reward, policy)) for by_reward in evaluation.by_reward.values()]
        clauses = [clause for clause in clauses if clause]
        if clauses:
            said[policy] = "; ".join(clauses)
    return said


def share_held(value: float) -> str:
    """Write the share of the rows it takes that a log holds."""
    return f"{100.0 * value:,.0f}%" if value >= 0.01 else "less than 1%"


def gain_in_words(evaluation: "Evaluation", gain: Lift | Difference) -> str:
    """Write how much more of the reward a policy earns, such as "+22% clicks (+10% to +35%)"."""
    written = _written(gain)
    unit = unit_of(evaluation.reward) if isinstance(gain, Lift) else evaluation.value_unit
    return f"{written.value} {unit} ({written.interval})"


def monthly_gain(evaluation: "Evaluation", gain: Lift | Difference) -> str:
    """Write how much more a policy earns in a month at the log's traffic, such as ", about 1,900 clicks more a month".

    Two digits, and a fraction only below 10; nothing where the log has no times.
    """
    if evaluation.per_day is None:
        return ""
    a_visit = gain.value * evaluation.logged.mean if isinstance(gain, Lift) else gain.value
    value = a_visit * evaluation.per_day * DAYS_PER_MONTH
    if value == 0.0:
        return ", about 0 a month"
    rounded = abs(round(value, 1 - math.floor(math.log10(abs(value)))))
    size = f"{rounded:,.0f}" if rounded >= 10.0 else f"{rounded:.2g}"
    unit = unit_of(evaluation.reward)
    if unit == evaluation.reward:  # a name, such as margin, and nothing that is counted
        return f", about {'+' if value > 0.0 else '-'}{size} a month"
    less = "fewer" if unit in COUNTED else "less"
    return f", about {size} {unit} {'more' if value > 0.0 else less} a month"


def _clause(evaluation: "Evaluation", result: "Result") -> str:
    """Say how much more of one reward a policy earns, and the verdict; nothing where policies were not compared."""
    judged = f"{result.estimator}: {result.verdict}"
    if result.verdict == DO_NOT_USE:
        return f"{unit_of(evaluation.reward)}: the log cannot tell ({judged})"
    if not result.is_comparable:
        rewards = rewards_in_words(result.effective_rewards)
        return f"{unit_of(evaluation.reward)}: too early to say how much, as it rests on {rewards} ({judged})"
    if math.isfinite(result.effective_rewards):
        judged = f"{judged}, {_evidence(result)}"
    gain = over_logged(evaluation, result)
    if gain is None:
        return ""
    return f"{_gain_clause(evaluation, gain)} ({judged})"


def _evidence(result: "Result") -> str:
    """Say on how many rewards an estimate rests, and where they are few because the policy earns little, on how few."""
    words = f"rests on {counted(result.effective_rewards, 'reward')}"
    if result.effective_rewards >= min(FEW_REWARDS, result.expected_rewards):
        return words
    return f"{words} where today's choices would have {result.expected_rewards:,.0f}"


def _gain_clause(evaluation: "Evaluation", gain: Lift | Difference) -> str:
    """Say how much more of one reward a policy earns, or that it is not told apart, and how many rows would."""
    if sign_of(gain.low, gain.high) != 0:
        clause = gain_in_words(evaluation, gain)
        if evaluation.per_day is None:
            return clause
        visits = evaluation.per_day * DAYS_PER_MONTH
        return f"{clause}{monthly_gain(evaluation, gain)} at today's {visits:,.0f} {evaluation.case}s"
    written = _written(gain)
    apart = f"{unit_of(evaluation.reward)} not told apart from today's: {written.interval}"
    if not isinstance(gain, Lift):
        return f"{apart} per {evaluation.case}"
    is_zero = not any(digit in written.value for digit in "123456789")
    if gain.held is None or is_zero:
        return apart
    return f"{apart}, as the log holds {share_held(gain.held)} of the rows that would show {written.value}"


def _written(gain: Lift | Difference) -> Written:
    """Write a gain with its interval, in percent where it is a share."""
    if isinstance(gain, Lift):
        return in_percent(gain.value, gain.low, gain.high, signed=True, suffix="%")
    return with_interval(gain.value, gain.low, gain.high, signed=True)
