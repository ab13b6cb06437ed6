"""Makes policies for made-up shops, and lets them decide and learn there."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from zoosim.core.parameters import parameters_of
from zoosim.policies.base import Policy
from zoosim.policies.checks.search_shop import BoostShop
from zoosim.policies.checks.shop import VISITS, Shop

MadeUpShop = Shop | BoostShop


@dataclass(frozen=True)
class Maker:
    """Makes policies of one class; a parameter `past_visits` that is not 0 by default is set low."""

    cls: type[Policy]
    params: Mapping[str, Any] = field(default_factory=dict)

    def fresh(self, shop: MadeUpShop, seed: int) -> Any:
        """Make a policy that has seen nothing."""
        declared = parameters_of(self.cls).get("past_visits")
        params = dict(self.params)
        if declared is not None and declared.default:
            params.setdefault("past_visits", max(VISITS, int(declared.low or 0)))
        return self.cls(shop.spec, np.random.default_rng(seed), **params)

    def ready(self, shop: Any, seed: int = 0) -> Any:
        """Make a policy that can decide: one that wants a past has learned from a short one, `shop.log`."""
        policy = self.fresh(shop, seed)
        if policy.past_visits:
            policy.fit(shop.log(min(policy.past_visits, 10 * VISITS)))
        return policy


def walk(policy: Policy, shop: MadeUpShop, visits: Iterable[int] | None = None) -> list[Any]:
    """Play some visits with a policy, which decides and learns at each.

    Args:
        policy: The policy.
        shop: The shop of the visits.
        visits: Their numbers; by default all that the shop's spec plans.

    Returns:
        The actions.
    """
    actions = []
    for visit in range(shop.spec.steps) if visits is None else visits:
        context = shop.context(visit)
        action = policy.select_action(context)
        policy.update(context, action, *shop.feedback(visit, action))
        actions.append(action)
    return actions
