"""QMDP over hidden types: what is believed of a visitor decides, and is kept for each visitor."""

from typing import Any

import numpy as np
import pytest

from studies.session_curves import Learner, learning_curve
from zoosim.core.errors import ConfigError
from zoosim.core.types import NOBODY, Context, PolicySpec
from zoosim.policies.sessions.qmdp import QMDP

SPEC = PolicySpec(user_dim=1, product_dim=2)
PRODUCTS = np.array([[1.0, 0.0], [0.0, 1.0]])
CHANCES = np.array([[0.9, 0.05], [0.05, 0.9]])


def request(user_id: int) -> Context:
    """Return a request that tells nothing of the visitor but the id."""
    return Context(
        user_id=user_id, user=np.ones(1), product_ids=np.arange(2), products=PRODUCTS, available=np.ones(2, bool)
    )


@pytest.fixture(scope="module")
def taught() -> QMDP:
    """A policy that has met visitors of two types, each of whom likes one of two products, for eight decisions."""
    policy = QMDP(SPEC, np.random.default_rng(0), types=2, visitors=50)
    rng = np.random.default_rng(1)
    for visitor in range(120):
        for decision in range(8):
            product = int(rng.integers(2))
            clicked = rng.random() < CHANCES[visitor % 2, product]
            following = request(visitor) if decision < 7 else None
            policy.update(request(visitor), product, float(clicked), {"visit_ended": decision == 3}, following)
    return policy


def copy_of(policy: QMDP) -> QMDP:
    """Return a policy that was loaded from what another one has learned."""
    other = QMDP(SPEC, np.random.default_rng(5), types=2, visitors=50)
    other.load_state_dict(policy.state_dict())
    return other


def test_clicks_tell_who_comes_and_each_visitor_has_a_belief(taught: QMDP) -> None:
    policy = copy_of(taught)
    for visitor, product in ((500, 0), (501, 1)):
        policy.update(request(visitor), product, 1.0, {}, request(visitor))
    assert policy.recommend(request(500)) == 0
    assert policy.recommend(request(501)) == 1
    # Nobody is known by the id of nobody, and who has gone comes as a new visitor.
    new = policy.action_values(request(900))
    np.testing.assert_array_equal(policy.action_values(request(NOBODY)), new)
    known = policy.action_values(request(500))
    assert known[0] - known[1] > 2.0 * abs(new[0] - new[1])
    policy.update(request(500), 0, 1.0, {"ended": True})
    np.testing.assert_array_equal(policy.action_values(request(500)), new)


def test_the_belief_is_kept_where_a_plan_is_made_anew(taught: QMDP) -> None:
    policy = copy_of(taught)
    for _ in range(3):
        policy.update(request(500), 1, 1.0, {}, request(500))
    before = policy.action_values(request(500))
    policy._plan()
    np.testing.assert_allclose(policy.action_values(request(500)), before, rtol=0.3)
    assert policy.recommend(request(500)) == 1


def test_a_loaded_policy_decides_alike_and_a_broken_one_is_refused(taught: QMDP) -> None:
    other = copy_of(taught)
    np.testing.assert_array_equal(other.action_values(request(7)), taught.action_values(request(7)))
    state = taught.state_dict()
    for name, broken in (
        ("shares", 0.0 * state["shares"]),
        ("clicks", np.ones_like(state["clicks"])),
        ("bound", state["bound"] + 9),
        ("records", state["records"] + 30),
        ("counts", state["counts"] + 1_000),
        ("expected", state["expected"][:, :-1]),
        ("follows", state["follows"] + 3),
    ):
        with pytest.raises(ConfigError, match="the saved state"):
            other.load_state_dict({**state, name: broken})


@pytest.mark.slow
def test_visitors_are_told_apart_who_say_nothing_of_themselves() -> None:
    rows: Any = learning_curve(Learner("qmdp", "qmdp", {}), 1, 1_000, "anonymous")
    # To know all laws and look at the next click brings 58.3%, to plan by the guess 81.8%.
    assert 65.0 < rows[-1].percent < 83.0
