"""Dependence of a policy's choices on each column of a shop's tables."""

from dataclasses import replace

import numpy as np

from zoosim.core.arrays import evenly_spread
from zoosim.core.rng import stream
from zoosim.logs.log import Log
from zoosim.off_policy.targets.products import PolicyTarget
from zoosim.policies.base import Policy
from zoosim.schema.encoder import parts

MOST_ROWS = 500
"""Visits for which a policy is asked, spread evenly over the log."""

MOST_QUESTIONS = 20_000
"""Most requests to the policy for all columns together."""


def column_uses(policy: Policy, log: Log) -> dict[str, dict[str, float]]:
    """Return what share of a policy's choices changes when a column is shuffled, of `visitors` and of `products`.

    Visitors get values of other visitors, products those of other products (permutation, Breiman 2001). The share is
    the mean total variation between the policy's probabilities before and after.

    Args:
        policy: A trained policy over products.
        log: An imported log, whose columns are known.
    """
    assert log.fitted is not None
    n_columns = len(log.fitted.visitors.columns) + len(log.fitted.products.columns)
    most = min(MOST_ROWS, max(1, MOST_QUESTIONS // max(1, n_columns)))
    rows = evenly_spread(len(log), most)
    visits = replace(log.rows(rows), user_ids=None)
    usual = _chances(policy, visits)
    uses: dict[str, dict[str, float]] = {}
    for of, encoder, array in (
        ("visitors", log.fitted.visitors, "features"),
        ("products", log.fitted.products, "products"),
    ):
        uses[of] = {}
        for name, part in parts(encoder).items():
            values = getattr(visits, array).copy()
            values[:, part] = values[stream(0, "column-use", of, name).permutation(len(values)), part]
            shuffled = _chances(policy, replace(visits, **{array: values}))
            uses[of][name] = float(np.abs(shuffled - usual).sum() / len(visits) / 2)
    return uses


def _chances(policy: Policy, log: Log) -> np.ndarray:
    return PolicyTarget(policy, log).distributions(log, 0, len(log)).flat()
