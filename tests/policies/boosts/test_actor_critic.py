"""The actor-critic over boosts: the contract while it trains, and a chain of two visits with a known answer."""

import numpy as np
import pytest

from zoosim import Context
from zoosim.core.errors import DataError, PolicyError
from zoosim.core.types import FloatArray
from zoosim.policies.boosts.actor_critic import ActorCritic
from zoosim.policies.boosts.base import BoostSpec
from zoosim.policies.checks.boosts import BOOST_CHECKS
from zoosim.policies.checks.contract import Check, run_check
from zoosim.policies.checks.maker import Maker
from zoosim.policies.checks.sameness import same
from zoosim.policies.checks.search_shop import SMALL

QUICK = {"warm_up": 10, "every": 10, "memory": 30, "options": 4, "hidden": "8", "batch_size": 8}
"""So that it trains, and forgets, within the visits of the checks."""


TRAINED = [check for check in BOOST_CHECKS if check.name in ("refuses", "late", "saves")]
"""Checks that ask a policy that has learned; all are asked of it before it trains, as of every built-in policy."""


@pytest.mark.parametrize("check", TRAINED, ids=[check.name for check in TRAINED])
def test_the_contract_holds_while_it_trains(check: Check) -> None:
    run_check(check, Maker(ActorCritic, QUICK))


TABLE = SMALL.table.rows(np.arange(2))


def at(state: int) -> Context:
    """Return a visit of state 0, the first, or 1; boosts above 0 show product 0, others product 1."""
    return Context(
        user_id=0,
        features=np.eye(2)[state],
        product_ids=np.arange(2),
        base_scores=np.array([0.0, 1e-9]),
        boost_features=np.array([[1.0], [-1.0]]),
        product_table=TABLE,
    )


def lived(discount: float) -> ActorCritic:
    """Return what has met 300 visitors: product 0 earns 1, and product 1 brings the visitor back once, to earn 2."""
    spec = BoostSpec(user_dim=2, product_dim=1, a_max=1.0, k=1)
    policy = ActorCritic(spec, np.random.default_rng(0), discount=discount, warm_up=60)
    for _ in range(300):
        first = policy.select_action(at(0))
        if first[0] > 0.0:
            policy.update(at(0), first, 1.0)
            continue
        policy.update(at(0), first, 0.0, None, at(1))
        policy.update(at(1), policy.select_action(at(1)), 2.0)
    return policy


def test_it_gives_up_a_reward_for_a_larger_one_at_the_next_visit() -> None:
    """And does not where the next visit counts for nothing: the same learner, with discount 0."""
    assert lived(1.0).recommend(at(0))[0] < -0.2
    assert lived(0.0).recommend(at(0))[0] > 0.2


def test_a_broken_next_visit_is_refused_and_moves_nothing() -> None:
    policy = ActorCritic(SMALL.spec, np.random.default_rng(0))
    context = SMALL.context(0)
    broken = Context(**{**context, "features": np.full(8, np.nan)})
    before = policy.state_dict()
    with pytest.raises(DataError, match="actor-critic: features"):
        policy.update(context, np.zeros(4), 1.0, None, broken)
    assert same(before, policy.state_dict())


def test_logs_are_refused() -> None:
    with pytest.raises(PolicyError, match="no log of searches says"):
        ActorCritic(SMALL.spec, np.random.default_rng(0)).fit(None)


def test_the_density_falls_with_the_distance_from_the_boosts_of_the_actor() -> None:
    policy = ActorCritic(SMALL.spec, np.random.default_rng(0), warm_up=1, anywhere=0.5)
    context = SMALL.context(0)
    policy.update(context, np.zeros(4), 1.0)
    centre = policy.recommend(context)
    near, far = (policy.density(context, boosts) for boosts in (centre, _opposite(centre)))
    even = 0.5 * 4.0**-4
    assert near > 10 * far > 0.0
    assert far == pytest.approx(even, rel=0.01)


def _opposite(boosts: FloatArray) -> FloatArray:
    return -2.0 * np.where(boosts >= 0.0, 1.0, -1.0)
