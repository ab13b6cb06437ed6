"""What policies would earn, as predicted by a model of rows that they have not seen: little noise, no propensities."""

from collections.abc import Mapping

import numpy as np

from zoosim.logs.log import Log
from zoosim.off_policy.targets.products import PolicyTarget, spec_of
from zoosim.policies.base import Policy, logged_context
from zoosim.policies.from_log.mixed_effects import MixedEffects

MOST_ROWS = 2_000
"""Visits for which policies are asked, spread evenly over the log; the model is fitted to all of them."""


def predict_values(policies: Mapping[str, Policy], log: Log) -> dict[str, float]:
    """Return the mean reward per visit that a mixed model of a log predicts for each policy.

    The direct method with a model of rows that no policy was trained on. Effects are shrunk, so values are too low as
    levels; as an order of policies they are far less noisy than estimates by importance weights where products are many
    and rewards rare.

    Args:
        policies: Trained policies, none of them on this log.
        log: Rows of products; propensities are not needed.

    Raises:
        ConfigError: products and features are too many for the model.
        PolicyError: a policy fails.
    """
    judge = MixedEffects(spec_of(log), np.random.default_rng(0))  # which draws nothing
    judge.fit(log)
    rows = np.unique(np.linspace(0, len(log) - 1, min(len(log), MOST_ROWS)).astype(np.int64))
    visits = log.rows(rows)
    available = visits.available(0, len(visits))
    predicted = np.array([judge.predict(logged_context(visits, row, available[row])) for row in range(len(visits))])
    values = {}
    for name, policy in policies.items():
        chances = PolicyTarget(policy, visits).probabilities(visits, 0, len(visits))
        values[name] = float(np.where(chances > 0.0, chances * predicted, 0.0).sum(axis=1).mean())
    return values
