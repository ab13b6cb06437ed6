"""An estimate of the time that training on a log of products and judging by the rest will take.

Constants are seconds of one core of a shared server, measured on logs of 100,000 rows of 600 to 30,000 products,
with 4 to 30 visitors' features. Policies without a model of their own here count for what judging them takes.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zoosim.logs.log import Log
    from zoosim.policies.base import Policy

FIXED = 4.0
"""Loading, checks of the log and hashes of its rows."""

A_ROW, A_ROW_AND_PAIR = 25e-6, 52e-9
"""To learn a row row by row, and for each pair of visitors' features beside it."""

A_PAIR, A_PAIR_OF_PAIRS, A_RANK = 6.6e-9, 0.06e-9, 1.4e-9
"""One posterior of a mixed model, for each product and pair of visitors' features: in any case, for each pair of
products' features, and for each row that tells of a product."""

A_PAIR_OF_FEW = 1.8e-9
"""The same for each pair of features of a product that are not 0, where products are added up by these."""

AN_OPERATION = 6e-11
"""To factor and invert the matrix of all pairs of visitors' and products' features, for its size cubed."""

POSTERIORS_A_ROUND, POSTERIORS_OF_DIRECT_METHOD = 3, 21
"""Times that the posterior of a reward is worked out: in each pass over the rows for a policy, and to judge it."""

A_SOLUTION = 5e-6
"""To fit the linear reward models, for each product and pair of features."""

A_REQUEST, A_CANDIDATE, A_CANDIDATE_AND_FEATURE = 250e-6, 25e-9, 0.25e-9
"""To ask a policy for its probabilities."""

LEAST_SECONDS = 5.0
"""Shorter times are not announced."""


def expected_seconds(policies: "Mapping[str, Policy]", earlier: "Log", later: "Log", *, is_judged: bool) -> float:
    """Return about how many seconds it takes to train policies and judge them.

    Args:
        policies: The policies, by name.
        earlier: The rows that they learn from.
        later: The rows that they are judged by.
        is_judged: Whether they are judged.
    """
    from zoosim.core.blocks import block_unique
    from zoosim.core.threads import n_threads
    from zoosim.off_policy.direct_method import MOST_FITTED
    from zoosim.off_policy.models.mixed_model import MOST_WORK
    from zoosim.off_policy.models.reward_model import n_columns
    from zoosim.policies.from_log.mixed_effects import rounds_for
    from zoosim.policies.from_log.traits import MOST_TRAITS
    from zoosim.policies.tabulating import tabulates

    features = earlier.features.shape[1]
    n_products = earlier.n_actions
    rounds = rounds_for(len(block_unique(earlier.actions)))
    seconds = FIXED
    for name, policy in policies.items():
        kind = getattr(policy, "name", name)
        if kind == "adaptive":
            seconds += len(earlier) * (A_ROW + A_ROW_AND_PAIR * (1 + features) ** 2)
        if kind in ("adaptive", "mixed-effects"):
            seconds += _mixed_model(earlier, len(earlier), 1 + features, POSTERIORS_A_ROUND * rounds)
    if not is_judged:
        return seconds
    n_rewards = 1 + len(later.other_rewards)
    is_wide = n_products * (1.0 + features) ** 3 > MOST_WORK
    columns = 1 + (min(MOST_TRAITS, features) if is_wide else features)
    rows = min(len(earlier), MOST_FITTED)
    seconds += _mixed_model(earlier, rows, columns, POSTERIORS_OF_DIRECT_METHOD * n_rewards)
    seconds += n_rewards * A_SOLUTION * n_products * (1 + n_columns(features, n_products)) ** 2
    for policy in policies.values():
        a_request = A_REQUEST + n_products * (A_CANDIDATE + A_CANDIDATE_AND_FEATURE * features)
        # Many requests at once are answered without the interpreter's lock, side by side; others one after another.
        seconds += len(later) * a_request / (n_threads() if tabulates(policy) else 1)
    return seconds


def _mixed_model(log: "Log", n_rows: int, columns: int, posteriors: int) -> float:
    """Return how long a mixed model of so many rows takes, of visitors described by so many columns."""
    from zoosim.core.blocks import block_unique
    from zoosim.core.threads import n_threads
    from zoosim.models.hierarchy import PRODUCTS_AT_ONCE
    from zoosim.models.product_pairs import sparse_products
    from zoosim.policies.from_log.mixed_effects import MOST_COEFFICIENTS, traits_in_blocks

    seen = len(block_unique(log.actions))
    described, _ = traits_in_blocks(log.products, MOST_COEFFICIENTS // columns - 1)
    traits = 1 + described.weights.shape[1]
    pairs = A_PAIR_OF_PAIRS * traits**2
    sparse = sparse_products(log.products, described.mean, described.weights, columns)
    if sparse is not None:
        pairs = A_PAIR_OF_FEW * (len(sparse.values) / len(log.products)) ** 2 / 2.0
    rank = min(n_rows / seen, columns)
    of_products = seen * columns**2 * (A_PAIR + pairs + A_RANK * rank)
    threads = n_threads() if seen > 4 * PRODUCTS_AT_ONCE else 1
    return float(posteriors * (of_products / threads + AN_OPERATION * (columns * traits) ** 3))
