"""Q6: do policies draw their actions from the distribution that they tabulate?

Each policy learns from 180 visits to a shop of 4 segments and 6 categories. Then 1,000,000 actions are drawn for
one visitor, without learning in between, and counted against `propensities` by Pearson's chi-square. A policy that
decides without chance gets a floor of .1.
"""

from functools import cached_property
from typing import Any

import numpy as np
from scipy import stats

from zoosim.core.jit import bind
from zoosim.core.rng import uniforms
from zoosim.core.types import BoolArray, Context, FloatArray, IntArray
from zoosim.policies.checks.maker import Maker
from zoosim.policies.checks.shop import VISITS, Shop
from zoosim.policies.kernel import DrawingPolicy, KernelPolicy, floored_choice
from zoosim.policies.registry import BUILT_IN, FIXED, find_class
from zoosim.policies.requests import checked_request

DRAWS, LEAST_P, FLOOR = 1_000_000, 0.001, 0.1


class OneHotShop(Shop):
    """A shop whose visitors and products are told apart by one-hot features, in which all policies that sample do."""

    @cached_property
    def _arrays(self) -> tuple[FloatArray, FloatArray, IntArray, BoolArray, FloatArray]:
        _, _, visitors, masks, rewards = super()._arrays
        return np.eye(self.n_users), np.eye(self.n_products), visitors, masks, rewards


SHOP = OneHotShop("a shop of 6 categories", n_products=6, user_dim=4, product_dim=6, n_users=4, seed=5)


def main() -> None:
    """Print the p value of each policy over products or templates that draws."""
    for name in BUILT_IN:
        cls = find_class(name)
        if name not in FIXED and issubclass(cls, DrawingPolicy):
            policy = taught(cls)
            request = SHOP.everything(0)
            suffix = ""
            if np.count_nonzero(policy.propensities(request)) == 1:
                policy = taught(cls, floor=FLOOR)
                suffix = f" with floor {FLOOR:g}"
            propensities = policy.propensities(request)
            p = p_value(drawn(policy, request, DRAWS), propensities)
            verdict = "as tabulated" if p > LEAST_P else "NOT AS TABULATED"
            actions = np.count_nonzero(propensities)
            print(f"Q6 {name}{suffix}: {DRAWS:,} draws over {actions} actions: p = {p:.3f}, {verdict}", flush=True)


def taught(cls: type[DrawingPolicy], **params: Any) -> Any:
    """Return a policy that has learned from three rounds of the shop's visits."""
    policy: Any = Maker(cls, params).ready(SHOP, 0)
    for visit in range(3 * VISITS):
        context = SHOP.context(visit)
        action = policy.select_action(context)
        policy.update(context, action, *SHOP.feedback(visit, action))
    return policy


def drawn(policy: Any, context: Context, draws: int) -> IntArray:
    """Return how often each candidate `(K,)` is chosen by the draws of the policy's next decisions."""
    request = checked_request(context, policy.spec)
    candidates = policy.attach(context)
    first = int(policy.draws.decisions[0]) + 1
    numbers = uniforms(policy.draws.key[0], np.arange(first, first + draws), np.zeros(draws, np.int64))
    counts = np.zeros(len(request.available), np.int64)
    if isinstance(policy, KernelPolicy):
        choose = floored_choice(policy.kernel)
        bind(_count, "count", choose=choose)(policy.state, candidates, *request, policy.floor, numbers, counts)
        return counts
    for number in numbers:
        counts[policy._draw_action(request, candidates, number)] += 1
    return counts


choose: Any = None  # `bind` puts a policy's own in its place


def _count(
    state: Any,
    candidates: Any,
    user_id: int,
    user: FloatArray,
    available: BoolArray,
    floor: float,
    numbers: FloatArray,
    counts: IntArray,
) -> None:
    for number in numbers:
        counts[choose(state, candidates, user_id, user, available, floor, number)] += 1


def p_value(counts: IntArray, propensities: FloatArray) -> float:
    """Return the p value of Pearson's chi-square; 0 where an action of propensity 0 was drawn."""
    possible = propensities > 0.0
    if counts[~possible].any():
        return 0.0
    return float(stats.chisquare(counts[possible], counts.sum() * propensities[possible]).pvalue)
