"""LinUCB with deviations of visitors: its posterior beside the plain one, what it learns of visitors, its memory."""

import numpy as np
import pytest

from zoosim.core.rng import stream
from zoosim.core.types import NOBODY, Context, FloatArray, PolicySpec
from zoosim.policies.products import visitor_linear
from zoosim.policies.products.shared_linear import DiscountedLinUCB
from zoosim.policies.products.visitor_linear import VisitorLinUCB
from zoosim.policies.products.visitor_memory import (
    EVIDENCE,
    RATIOS,
    VisitorMemory,
    add_deviation,
    bytes_per_visitor,
    new_memory,
    ratio_of,
    remember,
)

USERS, PRODUCTS, DIM = 2, 6, 3
SPEC = PolicySpec(user_dim=USERS, product_dim=DIM, n_users=100, steps=1_000)


def context(user_id: int, products: FloatArray, user: FloatArray | None = None) -> Context:
    return Context(
        user_id=user_id,
        user=np.zeros(USERS) if user is None else user,
        product_ids=np.arange(len(products)),
        products=products,
        available=np.ones(len(products), bool),
    )


def told(memory: VisitorMemory, ratio: float) -> VisitorMemory:
    """Let the memory be sure of a ratio."""
    errors = np.full(len(RATIOS), 2.0 * EVIDENCE)
    errors[np.flatnonzero(ratio == RATIOS)[0]] = 0.1
    return memory._replace(errors=errors, predictions=np.array([100.0]))


@pytest.mark.parametrize("visits", [1, 3, 4, 7])
def test_the_posterior_is_that_of_the_visitors_own_sums(visits: int) -> None:
    """A = X'X + I / rho and b = X'e over the last four visits, in numpy."""
    rng = np.random.default_rng(visits)
    theta = rng.normal(size=(1 + USERS) * (1 + DIM))
    memory = new_memory(5, 4, USERS + DIM)
    user = rng.normal(size=USERS).astype(np.float32).astype(float)
    rows = np.hstack([np.ones((visits, 1)), rng.normal(size=(visits, DIM)).astype(np.float32)])
    rewards = rng.normal(size=visits).astype(np.float32).astype(float)
    for row, reward in zip(rows, rewards, strict=True):
        remember(memory, 12, user, row, reward, theta)
    memory = told(memory, 0.25)
    assert ratio_of(memory) == 0.25
    held = rows[-4:]
    residuals = rewards[-4:] - held @ (np.append(1.0, user) @ theta.reshape(1 + USERS, -1))
    inverse = np.linalg.inv(held.T @ held + np.eye(1 + DIM) / 0.25)
    mean = np.ones(1 + DIM)
    add_deviation(memory, 12, theta, mean)
    np.testing.assert_allclose(mean - 1.0, inverse @ held.T @ residuals, rtol=1e-9)
    for stranger in (7, NOBODY):
        mean = np.ones(1 + DIM)
        add_deviation(memory, stranger, theta, mean)
        assert (mean == 1.0).all()


def play(policy: VisitorLinUCB | DiscountedLinUCB, own: float, visitors: int = 40, visits: int = 1_200) -> FloatArray:
    """Let visitors whose tastes scatter by `own` come at random; return what was shown less what is best, in reward."""
    rng = stream(3, "visitors")
    tastes = rng.normal(size=DIM) + own * rng.normal(size=(visitors, DIM))
    products = rng.normal(size=(PRODUCTS, DIM))
    lost = np.empty(visits)
    for n in range(visits):
        visitor = int(rng.integers(visitors))
        request = context(visitor, products)
        action = policy.select_action(request)
        worth = products @ tastes[visitor]
        lost[n] = worth.max() - worth[action]
        policy.update(request, action, worth[action] + 0.3 * rng.normal())
    return lost


def made(cls: type[VisitorLinUCB | DiscountedLinUCB]) -> VisitorLinUCB | DiscountedLinUCB:
    return cls(SPEC, np.random.default_rng(0), alpha=0.5)


@pytest.mark.slow
def test_visitors_who_differ_are_told_apart_and_others_are_not() -> None:
    own = made(VisitorLinUCB)
    shared = play(made(DiscountedLinUCB), 1.0)
    assert play(own, 1.0)[600:].mean() < 0.5 * shared[600:].mean()
    assert ratio_of(own.state.visitors) > 0.0
    alike = made(VisitorLinUCB)
    play(alike, 0.0)
    assert ratio_of(alike.state.visitors) < 0.01


def test_where_nobody_says_who_comes_it_is_the_shared_model() -> None:
    rng = np.random.default_rng(1)
    # 3 x 4 weights, so that both keep .999 of an observation.
    own = VisitorLinUCB(SPEC, np.random.default_rng(0), memory=1_000 / 12)
    assert own.discount == pytest.approx(0.999, rel=1e-15)
    shared = DiscountedLinUCB(SPEC, np.random.default_rng(0), discount=own.discount)
    for _ in range(60):
        request = context(NOBODY, rng.normal(size=(PRODUCTS, DIM)), rng.normal(size=USERS))
        action = own.select_action(request)
        assert action == shared.select_action(request)
        reward = float(rng.normal())
        own.update(request, action, reward)
        shared.update(request, action, reward)
    assert own.state.visitors.table.counts[0] == 1


def test_the_visitor_rewarded_longest_ago_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visitor_linear, "MAX_BYTES", 5 * bytes_per_visitor(8, USERS + DIM))
    policy = made(VisitorLinUCB)
    products = np.random.default_rng(0).normal(size=(PRODUCTS, DIM))
    for visitor in (1, 2, 3, 4, 1, 5):
        policy.update(context(visitor, products), 0, 1.0)
    memory = policy.state.visitors
    assert len(memory.counts) == 5
    assert sorted(memory.table.ids[1:].tolist()) == [1, 3, 4, 5]
    assert sorted(memory.counts[1:].tolist()) == [1, 1, 1, 2]
    again = made(VisitorLinUCB)
    again.load_state_dict(policy.state_dict())
    for visitor in (1, 2, 3):
        request = context(visitor, products)
        np.testing.assert_array_equal(again.propensities(request), policy.propensities(request))


@pytest.mark.filterwarnings("ignore:visitor-linucb. the condition number")
def test_a_state_that_saw_the_largest_features_loads() -> None:
    """Some values of rho then predict by rounding errors alone, whose squares would overflow."""
    rng = np.random.default_rng(1)
    policy = made(VisitorLinUCB)
    for step in range(100):
        products = 1e9 * rng.choice([-1.0, 0.5, 1.0], (PRODUCTS, DIM))
        request = context(step % 3, products, 1e9 * rng.choice([-1.0, 1.0], USERS))
        policy.update(request, policy.select_action(request), rng.choice([-1e9, 1e9]))
    made(VisitorLinUCB).load_state_dict(policy.state_dict())
