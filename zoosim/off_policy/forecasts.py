"""What an evaluation forecasts of a policy: the mean of each reward, with the interval of the estimate that speaks."""

import math
from typing import Any

import numpy as np
from scipy.special import ndtri

from zoosim.core.blocks import block_sum, mapped, row_blocks
from zoosim.core.digests import joint_digest
from zoosim.core.forecasts import PER_VISIT, PER_VISITOR, Forecast, decisions_to_score, made_now
from zoosim.core.number_format import VISIT
from zoosim.logs.log import Log
from zoosim.off_policy.best_estimates import best_result, policies_of
from zoosim.off_policy.results import Evaluation
from zoosim.off_policy.verdict import DO_NOT_USE


def forecasts_of(evaluation: Evaluation, policy: str, log: Log, *, by: str, version: str, model: str) -> list[Forecast]:
    """Return what an evaluation forecasts of a policy, a forecast per reward whose estimate can be used.

    Each can be scored after as many decisions as make the mean of what they earned as exact as the forecast is.

    Args:
        evaluation: The evaluation.
        policy: The policy's name in it.
        log: The rows that it rests on.
        by: The command that made it.
        version: That of zoosim.
        model: The digest of the policy's model.
    """
    if policy not in policies_of(evaluation):
        return []
    forecasts = []
    reach = float(ndtri(0.5 + evaluation.level / 2.0))
    by_name = {evaluation.reward: log.visit_rewards} | {
        name: log.for_reward(name).visit_rewards for name in evaluation.others
    }
    for reward, figures in evaluation.by_reward.items():
        result = best_result(figures, policy)
        if result.verdict == DO_NOT_USE or result.low is None or result.high is None:
            continue
        deviation = _deviation(by_name[reward])
        forecasts.append(
            Forecast(
                quantity=PER_VISIT if evaluation.case == VISIT else PER_VISITOR,
                reward=reward,
                value=float(result.value),
                low=float(result.low),
                high=float(result.high),
                level=evaluation.level,
                horizon=decisions_to_score(deviation, (result.high - result.low) / 2.0, reach),
                made=made_now(),
                by=by,
                version=version,
                policy=policy,
                model=model,
                log=evaluation.source[-300:],
                log_digest=digest_of(log),
                rows=len(log),
                verdict=result.verdict,
                action_space=log.action_space,
            )
        )
    return forecasts


def digest_of(log: Log) -> str:
    """Return a digest of what a log chose and what it earned, by which the same rows are known again."""
    arrays = (log.actions, log.propensities, log.rewards)
    blocks = (array[rows] for array in arrays for rows in row_blocks(len(log)))
    return joint_digest(np.ascontiguousarray(block).tobytes() for block in blocks)[:16]


def _deviation(rewards: Any) -> float:
    """Return the standard deviation of `rewards (n,)`."""
    n = len(rewards)
    mean = block_sum(rewards) / n
    return math.sqrt(block_sum(mapped(lambda block: (block - mean) ** 2, rewards)) / n)
