"""Floors around policies over products: they are kept, with exact propensities, or said not to be possible."""

import warnings
from typing import Any

import numpy as np
import pytest

from zoosim.core.errors import ConfigError, DataError, PolicyError
from zoosim.core.types import Context, PolicySpec
from zoosim.policies.products.constrained import ConstrainedProducts

SPEC = PolicySpec(user_dim=1, product_dim=2, steps=100)
REWARDS, MARGINS = (1.0, 0.6), (0.0, 1.0)
"""Of two products: the first earns most, and has no margin."""


def made(**params: Any) -> ConstrainedProducts:
    return ConstrainedProducts(SPEC, np.random.default_rng(0), **{"policy": "d-linucb", **params})


def context() -> Context:
    ids, products = np.arange(2), np.eye(2)
    return Context(user_id=0, user=np.ones(1), product_ids=ids, products=products, available=np.ones(2, bool))


def play(policy: ConstrainedProducts, visits: int) -> float:
    """Return the mean margin of the last half of some visits."""
    margins = []
    for _ in range(visits):
        action = policy.select_action(context())
        policy.note_decision(context(), action)
        margins.append(MARGINS[action])
        policy.update(context(), action, REWARDS[action], {"reward_parts": {"margin": MARGINS[action]}})
    return float(np.mean(margins[visits // 2 :]))


def test_a_floor_is_kept_and_without_one_the_reward_alone_counts() -> None:
    assert play(made(), 200) < 0.1
    floored = made(floors={"margin": 0.5})
    assert 0.45 < play(floored, 1_000) < 0.55
    assert floored.constraints[0].constraint.name == "margin"
    # A unit of margin makes up for .4 of reward at a price of .4.
    assert 0.35 < floored.prices["margin"] < 0.45


def test_probabilities_are_those_of_the_policy_inside() -> None:
    policy = made(floors={"margin": 0.5})
    play(policy, 50)
    chances = np.asarray(policy.propensities(context()))
    np.testing.assert_array_equal(chances, policy.inside.propensities(context()))
    assert chances.sum() == pytest.approx(1.0)


def test_a_floor_beyond_reach_is_warned_of_once() -> None:
    policy = made(floors={"margin": 5.0})
    with pytest.warns(RuntimeWarning, match=r"constrained: margin: floor 5 per visit, .* cannot be met") as caught:
        play(policy, 1_000)
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        play(policy, 200)


def test_saved_and_loaded_it_goes_on_to_the_bit() -> None:
    policy = made(floors={"margin": 0.5})
    play(policy, 60)
    loaded = made(floors={"margin": 0.5})
    loaded.load_state_dict(policy.state_dict())
    for each in (policy, loaded):
        play(each, 20)
    np.testing.assert_array_equal(policy.propensities(context()), loaded.propensities(context()))
    assert policy.prices == loaded.prices


def test_what_does_not_fit_is_refused_in_one_line() -> None:
    with pytest.raises(PolicyError, match=r"constrained.policy: got item-critic, expected a policy that chooses"):
        made(policy="item-critic")
    with pytest.raises(PolicyError, match=r"constrained.policy: got shared-linucb, which learns from rewards from"):
        made(policy="shared-linucb")
    with pytest.raises(PolicyError, match=r"constrained.policy: got linear, which learns from logs alone"):
        made(policy="linear")
    with pytest.raises(ConfigError, match=r"constrained.floors: got 5, expected numbers by name"):
        made(floors=5)
    policy = made(floors={"margin": 0.5})
    parts = [None, np.nan, 1e200, 10**400]
    wrong: list[Any] = [None, {}, {"reward_parts": None}, *({"reward_parts": {"margin": value}} for value in parts)]
    for feedback in wrong:
        with pytest.raises(DataError, match=r"constrained: reward_parts margin: got .*, expected a number"):
            policy.update(context(), 0, 1.0, feedback)
    assert policy._dual.visits == 0
