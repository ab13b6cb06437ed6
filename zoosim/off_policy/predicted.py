"""What policies would earn, as a model of the log's rows predicts it: little noise, no propensities."""

from collections.abc import Mapping

import numpy as np

from zoosim.logs.log import Log
from zoosim.off_policy.targets.products import PolicyTarget, spec_of
from zoosim.policies.base import Policy, logged_context
from zoosim.policies.from_log.mixed_effects import MixedEffects

MOST_ROWS = 2_000
"""Visits for which policies are asked, spread evenly over those to judge by."""


def predict_values(policies: Mapping[str, Policy], log: Log, visits: Log) -> dict[str, float]:
    """Return the mean reward per visit that a mixed model of a log predicts for each policy.

    The direct method, far less noisy than importance weights where products are many and rewards rare. The log may hold
    the rows that policies were trained on: the model shrinks effects as far as the log says, so chance that a policy
    took for an effect counts for little, and few clicks are lost. It sees what a mixed model can say, and no more.

    Args:
        policies: Trained policies.
        log: Rows of products to fit the model to; propensities are not needed.
        visits: Rows whose visitors the policies decide for.

    Raises:
        ConfigError: products and features are too many for the model.
        PolicyError: a policy fails.
    """
    judge = MixedEffects(spec_of(log), np.random.default_rng(0))  # which draws nothing
    judge.fit(log)
    rows = np.unique(np.linspace(0, len(visits) - 1, min(len(visits), MOST_ROWS)).astype(np.int64))
    visits = visits.rows(rows)
    available = visits.available(0, len(visits))
    predicted = np.array([judge.predict(logged_context(visits, row, available[row])) for row in range(len(visits))])
    values = {}
    for name, policy in policies.items():
        chances = PolicyTarget(policy, visits).probabilities(visits, 0, len(visits))
        values[name] = float(np.where(chances > 0.0, chances * predicted, 0.0).sum(axis=1).mean())
    return values
