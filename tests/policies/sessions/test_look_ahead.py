"""Policies that look ahead: what they learn of a decision that others follow, and how exploration falls."""

from typing import Any

import numpy as np
import pytest

from zoosim.core.types import Context, PolicySpec
from zoosim.logs.lives import Lives
from zoosim.policies.sessions.dqn import DQN
from zoosim.policies.sessions.q_table import QTable

SPEC = PolicySpec(user_dim=1, product_dim=1, steps=4)
IDS = np.array([7, 9, 11])
# The first two products are of one kind.
PRODUCTS = np.array([[1.0], [1.0], [0.0]])


def request(state: float, available: tuple[bool, ...] = (True, True, True)) -> Context:
    """Return a request of a visitor in a state."""
    return Context(user_id=0, user=np.array([state]), product_ids=IDS, products=PRODUCTS, available=np.array(available))


def table(**params: Any) -> QTable:
    """Return a table that takes over each goal at once: the n-th moves a value by 1/n, and each is met once."""
    return QTable(SPEC, np.random.default_rng(0), power=1.0, random_last=0.0, **params)


def value(policy: QTable, state: float, product: int) -> float:
    """Return the value of a product at a state, 0 where that was never met."""
    return float(policy.action_values(request(state))[product])


def test_a_last_decision_is_worth_its_reward_and_one_before_the_best_that_follows() -> None:
    policy = table()
    policy.update(request(1.0), 0, 3.0)
    policy.update(request(1.0), 2, 5.0)
    policy.update(request(0.0), 0, 1.0, {"visit_ended": True}, request(1.0))
    assert value(policy, 1.0, 1) == 3.0, "products of one kind share a value"
    assert value(policy, 0.0, 0) == 1.0 + 5.0
    # Where the best may not be shown next, it does not count.
    policy.update(request(0.0), 2, 1.0, {}, request(1.0, (True, True, False)))
    assert value(policy, 0.0, 2) == 1.0 + 3.0


def test_the_visit_and_the_discount_limit_what_counts() -> None:
    within = table(horizon="visit")
    within.update(request(1.0), 0, 3.0)
    within.update(request(0.0), 0, 1.0, {"visit_ended": True}, request(1.0))
    assert value(within, 0.0, 0) == 1.0
    within.update(request(0.0), 2, 1.0, {"visit_ended": False}, request(1.0))
    assert value(within, 0.0, 2) == 1.0 + 3.0
    discounted = table(discount=0.5)
    discounted.update(request(1.0), 0, 3.0)
    discounted.update(request(0.0), 0, 1.0, {}, request(1.0))
    assert value(discounted, 0.0, 0) == 1.0 + 0.5 * 3.0


@pytest.mark.parametrize("cls", [QTable, DQN])
def test_exploration_falls_with_the_visitors_who_have_gone(cls: Any) -> None:
    policy = cls(SPEC, np.random.default_rng(0), random_first=0.8, random_last=0.2, random_fall=0.5)
    shares = []
    for _ in range(4):
        shares.append(3 * float(policy.propensities(request(0.0)).min()))
        policy.update(request(0.0), 0, 1.0, {}, request(1.0))
        policy.update(request(1.0), 0, 1.0)
    # 4 visitors are planned: from .8 to .2 over the first half of them.
    np.testing.assert_allclose(shares, [0.8, 0.5, 0.2, 0.2])


def test_the_state_met_longest_ago_makes_room() -> None:
    policy = table(states=2)
    for state in (0.0, 1.0, 2.0):
        policy.update(request(state), 0, 4.0)
    assert value(policy, 2.0, 0) == 4.0
    assert value(policy, 1.0, 0) == 4.0
    assert value(policy, 0.0, 0) == 0.0


def test_a_kind_that_makes_room_leaves_nothing_to_the_next_one() -> None:
    policy = DQN(SPEC, np.random.default_rng(0), kinds=2, train_every=1, batch_size=8, learning_rate=0.01)
    for _ in range(50):
        policy.update(request(0.0), 0, 5.0)
        policy.update(request(0.0), 2, 0.0)
    others = Context(
        user_id=0,
        user=np.zeros(1),
        product_ids=np.array([1, 2]),
        products=np.array([[3.0], [4.0]]),
        available=np.ones(2, bool),
    )
    policy.update(others, 0, 1.0, {}, others)
    state = policy.state
    weights = state.net.target.reshape(-1)
    assert np.isfinite(weights).all()
    assert int(state.kinds.counts[0]) == 3, "two kinds and the unknown one"


class LifeLog:
    """A log of three visitors, the first and the last cut off, whose rows stand in no order."""

    actions = np.array([2, 0, 0, 2, 0, 2])
    rewards = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    propensities = np.full(6, 0.5)
    features = np.array([[1.0], [0.0], [0.0], [1.0], [2.0], [2.0]])
    products = PRODUCTS
    user_ids = None
    product_ids = IDS
    # Visitor 0: row 5, then cut off. Visitor 1: rows 1, 3 and, in another visit, 2, where it ended. Visitor 2: rows 4
    # and 0, then cut off.
    lives = Lives(
        visitor=np.array([2, 1, 1, 1, 2, 0]),
        visit=np.array([1, 0, 1, 0, 0, 0]),
        step=np.array([1, 0, 2, 1, 0, 0]),
        ended=np.array([False, False, True, False, False, False]),
        censored=np.array([True, False, False, False, False, True]),
    )

    def __len__(self) -> int:
        return 6

    def available(self, start: int, stop: int) -> np.ndarray:
        """Return that everything may be shown, but product 2 in row 3."""
        masks = np.ones((stop - start, 3), bool)
        masks[:, 2] = start != 3
        return masks


@pytest.mark.parametrize("cls", [QTable, DQN])
@pytest.mark.parametrize("horizon", ["lifetime", "visit"])
def test_a_log_of_lives_teaches_what_these_decisions_would(cls: Any, horizon: str) -> None:
    logged, taught = (cls(SPEC, np.random.default_rng(0), horizon=horizon) for _ in range(2))
    logged.fit(LifeLog())
    end, same, other = {"ended": True}, {"visit_ended": False}, {"visit_ended": True}
    taught.update(request(0.0), 0, 2.0, same, request(1.0, (True, True, False)))
    taught.update(request(1.0), 2, 4.0, other, request(0.0))
    taught.update(request(0.0), 0, 3.0, end)
    taught.update(request(2.0), 0, 5.0, other, request(1.0))
    expected = taught.state_dict()
    for name, array in logged.state_dict().items():
        np.testing.assert_array_equal(array, expected[name], err_msg=name)
