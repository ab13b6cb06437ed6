"""Exploration by visitor: who is whose, and that propensities are those of what visitors were shown in all."""

from typing import Any

import numpy as np
import pytest

from zoosim.core.errors import PolicyError
from zoosim.core.types import NOBODY, Context, PolicySpec
from zoosim.policies.base import Policy
from zoosim.policies.products.by_visitor import ByVisitor

SPEC = PolicySpec(user_dim=1, product_dim=2, steps=10)
STEPS = 6


class First(Policy):
    """Show the first product in 8 of 10 decisions."""

    chances = np.array([0.8, 0.1, 0.1])

    def select_action(self, context: Context) -> int:
        """Draw a product."""
        return int(self.rng.choice(3, p=self.chances))

    def propensities(self, context: Context) -> Any:
        """Return the probabilities, the same for all."""
        return self.chances

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Learn nothing."""


class Last(First):
    """Show the last product in 6 of 10 decisions, never the first."""

    chances = np.array([0.0, 0.4, 0.6])


def made(seed: int = 0, share: float = 0.25, **params: Any) -> ByVisitor:
    """Return a policy of these two."""
    policy = ByVisitor(SPEC, np.random.default_rng(seed), share=share, **params)
    policy.main, policy.aside = First(SPEC, np.random.default_rng(1)), Last(SPEC, np.random.default_rng(2))
    return policy


def request(visitor: int) -> Context:
    """Return a request of a visitor."""
    return Context(
        user_id=visitor,
        user=np.zeros(1),
        product_ids=np.arange(3),
        products=np.eye(3, 2),
        available=np.ones(3, bool),
    )


def shown_to(policy: ByVisitor, visitor: int) -> tuple[list[int], float]:
    """Let a policy decide some times for a visitor; return what was shown, and the product of the propensities."""
    actions = []
    chance = 1.0
    for _ in range(STEPS):
        context = request(visitor)
        before = policy.propensities(context)
        actions.append(policy.select_action(context))
        chance *= before[actions[-1]]
    return actions, chance


def test_propensities_of_a_visitors_decisions_make_up_the_average_of_both_policies() -> None:
    policy = made()
    for visitor in range(20):
        actions, chance = shown_to(policy, visitor)
        of_both = 0.75 * First.chances[actions].prod() + 0.25 * Last.chances[actions].prod()
        assert chance == pytest.approx(of_both, rel=1e-9)


def test_a_share_of_visitors_is_the_others_and_stays_so() -> None:
    policy = made()
    others = [visitor for visitor in range(2_000) if policy.is_aside(visitor)]
    # 5 standard errors of 2,000 draws of 1 in 4.
    assert abs(len(others) - 500) < 5 * np.sqrt(2_000 * 0.25 * 0.75)
    assert not policy.is_aside(NOBODY)
    for visitor in others[:20]:
        assert 0 not in shown_to(policy, visitor)[0]
    loaded = made(seed=5)
    assert [visitor for visitor in range(2_000) if loaded.is_aside(visitor)] != others, "another salt, others"
    loaded.salt = policy.salt
    assert [visitor for visitor in range(2_000) if loaded.is_aside(visitor)] == others


def test_weights_of_a_log_by_visitor_tell_what_the_other_policy_is_worth() -> None:
    # What is shown of the last product, in all, counted for the other policy: .6 of the decisions.
    policy = made(share=0.1)
    weighted = []
    for visitor in range(2_000):
        actions, chance = shown_to(policy, visitor)
        weighted.append(Last.chances[actions].prod() / chance * actions.count(2))
    assert max(weighted) <= STEPS / 0.1, "a weight is 1/share at most"
    error = np.std(weighted) / np.sqrt(len(weighted))
    assert abs(np.mean(weighted) - 0.6 * STEPS) < 4 * error
    assert error < 0.2 * 0.6 * STEPS, "the test can fail"


class OwnAlone(First):
    """Learn from its own decisions alone."""

    learns_from_logs = False

    def __init__(self, *args: Any) -> None:
        """Make a policy that was told of nobody."""
        super().__init__(*args)
        self.told: list[int] = []

    def update(self, context: Context, *args: Any, **kwargs: Any) -> None:
        """Note whose decision it is told of."""
        self.told.append(context.user_id)


def test_a_policy_that_learns_from_its_own_decisions_is_told_those_of_its_visitors() -> None:
    policy = made()
    policy.main = own = OwnAlone(SPEC, np.random.default_rng(1))
    for visitor in range(100):
        policy.update(request(visitor), 0, 1.0)
    assert own.told == [visitor for visitor in range(100) if not policy.is_aside(visitor)]
    assert 50 < len(own.told) < 100


def test_nobody_in_particular_is_decided_for_by_the_first_policy() -> None:
    np.testing.assert_array_equal(made().propensities(request(NOBODY)), First.chances)


def test_a_policy_that_shows_no_products_is_refused() -> None:
    for name in ("q-ensemble", "by-visitor"):
        with pytest.raises(PolicyError, match=f"by-visitor.other: got {name}, expected a policy that chooses products"):
            ByVisitor(SPEC, np.random.default_rng(0), other=name)
