"""Values of policies as the direct method predicts them, on a log that has no propensities to evaluate by."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from zoosim.core.distributions import draw_products
from zoosim.core.types import frozen_parts
from zoosim.logs.log import Log
from zoosim.off_policy.direct_method import ACTIONS_A_VISIT, DirectMethod
from zoosim.off_policy.intervals.clusters import make_clusters
from zoosim.off_policy.targets.products import PolicyTarget
from zoosim.policies.base import Policy


def predict_values(policies: Mapping[str, Policy], later: Log, earlier: Log | None = None) -> dict[str, float]:
    """Return the mean reward per visit that the direct method predicts for each policy.

    Args:
        policies: Trained policies, which are not told who the visitors are.
        later: n visits of products, on which predictions are calibrated, and for whose visitors policies decide.
        earlier: The rows that policies learned from, to which the model is fitted. Default: halves of `later`.

    Raises:
        PolicyError: a policy fails.
    """
    method = DirectMethod(later, make_clusters(len(later), later.user_ids), earlier)
    visits = replace(later.rows(method.visits), user_ids=None)
    values = {}
    for name, policy in policies.items():
        drawn = np.empty((len(visits), ACTIONS_A_VISIT), np.int64)
        asked = PolicyTarget(policy, visits).distributions(visits, 0, len(visits))
        draw_products(frozen_parts(asked), method.uniforms, drawn)
        estimates = method.estimate(drawn)
        values[name] = float(estimates[0].terms.value)
    return values
