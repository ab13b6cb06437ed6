"""Model-based planning: what it learns of few visitors, and what it does where it knows nothing."""

from typing import Any

import numpy as np
import pytest

from studies.session_curves import Learner, learning_curve
from zoosim.core.errors import ConfigError
from zoosim.core.rng import stream
from zoosim.core.types import Context, PolicySpec
from zoosim.policies.sessions.planner import Planner
from zoosim.worlds.sessions.world import Sessions


def test_few_visits_are_enough_to_look_ahead() -> None:
    row = learning_curve(Learner("planner", "planner", {}), 1, 300)[-1]
    assert 75.0 < row.percent < 100.5, "what a bandit can reach is 66.5"


def met(visitors: int) -> tuple[Sessions, Planner]:
    """Return a world and a planner that has met some of its visitors."""
    world = Sessions(4, visitors, observe="state")
    policy = Planner(world.spec(visitors), stream(4, "policy"))
    for visitor in range(visitors):
        visit: Any = world.arrive(visitor)
        while visit is not None:
            context = world.context(visit)
            action = policy.select_action(context)
            outcome = world.serve(visit, action)
            visit = outcome.next.visit if outcome.next else None
            feedback = {"visit_ended": not (outcome.next and outcome.next.same_visit)}
            policy.update(context, action, outcome.reward, feedback, None if visit is None else world.context(visit))
    return world, policy


def test_a_saved_planner_decides_alike_and_a_broken_one_is_refused() -> None:
    world, policy = met(15)
    context = world.context(world.arrive(3))
    assert policy.propensities(context).max() > 0.5
    other = Planner(world.spec(15), np.random.default_rng(9))
    np.testing.assert_allclose(other.propensities(context), 1 / 50)
    state = policy.state_dict()
    other.load_state_dict(state)
    np.testing.assert_array_equal(other.propensities(context), policy.propensities(context))
    np.testing.assert_array_equal(other.action_values(context), policy.action_values(context))
    for name, broken in (
        ("starts", state["starts"][::-1].copy()),
        ("expected", state["expected"][:-1]),
        ("drawn", np.full_like(state["drawn"], np.nan)),
        ("counts", state["counts"] + 1_000),
        ("shown", state["shown"] + 70),
        ("follows", state["follows"] + 3),
    ):
        with pytest.raises(ConfigError, match="the saved state"):
            other.load_state_dict({**state, name: broken})


def test_products_of_a_kind_beyond_those_there_is_room_for_are_not_learned_from() -> None:
    policy = Planner(PolicySpec(user_dim=1, product_dim=1), np.random.default_rng(0), kinds=1)
    request = Context(
        user_id=0,
        user=np.ones(1),
        product_ids=np.arange(2),
        products=np.array([[0.0], [1.0]]),
        available=np.ones(2, bool),
    )
    for _ in range(40):
        policy.update(request, 0, 1.0)
        policy.update(request, 1, 0.0)
    assert policy.action_values(request)[0] > 0.5
    assert policy.recommend(request) == 0


def test_chances_of_before_a_change_are_forgotten() -> None:
    policy = Planner(PolicySpec(user_dim=1, product_dim=1), np.random.default_rng(0))
    request = Context(
        user_id=0,
        user=np.ones(1),
        product_ids=np.arange(2),
        products=np.array([[0.0], [1.0]]),
        available=np.ones(2, bool),
    )
    for visitor in range(400):
        liked = 0 if visitor < 300 else 1
        # In four of five decisions the one that is liked is clicked, in one of ten the other one.
        policy.update(request, liked, float(visitor % 5 != 0))
        policy.update(request, 1 - liked, float(visitor % 10 == 0))
    # All told, product 0 was clicked in 62% of its decisions, and product 1 in 28%.
    assert policy.recommend(request) == 1
    np.testing.assert_allclose(policy.action_values(request), [0.1, 0.8], atol=0.08)
