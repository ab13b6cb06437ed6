"""Linear policies in bad conditions: one warning, and nothing that is not a number comes near a state."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from zoosim import Context, PolicySpec
from zoosim.arena.loop import play
from zoosim.core.config import EnvConfig
from zoosim.core.errors import PolicyError
from zoosim.core.limits import CONDITION
from zoosim.linear.ridge import variance
from zoosim.policies.registry import find_class
from zoosim.policies.requests import LARGEST
from zoosim.worlds.recommendation.world import build_world

LINEAR = (
    "greedy",
    "linucb",
    "d-linucb",
    "visitor-linucb",
    "adaptive",
    "shared-linucb",
    "shared-lin-ts",
    "product-linucb",
    "product-lin-ts",
)


def made(name: str) -> Any:
    return find_class(name)(PolicySpec(user_dim=2, product_dim=2, steps=1_000), np.random.default_rng(0))


def context(scale: float = 1.0, **fields: Any) -> Context:
    rng = np.random.default_rng(4)
    arrays: dict[str, Any] = {"user": rng.normal(size=2) * scale, "products": rng.normal(size=(3, 2)), **fields}
    return Context(user_id=0, product_ids=np.arange(3), available=np.ones(3, bool), **arrays)


def same(one: Any, two: Any) -> bool:
    return all(np.array_equal(one[key], two[key], equal_nan=True) for key in one)


def walk(policy: Any, here: Context, visits: int) -> None:
    for _ in range(visits):
        action = policy.select_action(here)
        assert 0.0 <= policy.propensities(here)[action] <= 1.0
        policy.update(here, action, 1.0)


@pytest.mark.parametrize("name", [name for name in LINEAR if name != "adaptive"])  # that scales them itself
def test_one_warning_says_to_scale_the_features(name: str) -> None:
    policy, huge = made(name), context(1e8)
    with pytest.warns(RuntimeWarning, match="scale the features") as caught:
        walk(policy, huge, 200)
    assert len(caught) == 1
    assert all(np.isfinite(array).all() for array in policy.state_dict().values())


@pytest.mark.parametrize("regularization", [1e-6, 1.0])
@pytest.mark.parametrize("kind", ["apart", "mixed", "equal"])
@pytest.mark.parametrize("name", [name for name in LINEAR if name != "adaptive"])
def test_the_largest_features_leave_numbers(name: str, kind: str, regularization: float) -> None:
    """Users and products of up to 1e9: nothing is infinite, no bonus negative, and the condition number is noted."""
    rng, spec = np.random.default_rng(1), PolicySpec(user_dim=2, product_dim=2, steps=1_000)
    policy: Any = find_class(name)(spec, np.random.default_rng(0), regularization=regularization)
    products = rng.uniform(-1, 1, (3, 2)) * LARGEST
    users = {
        "apart": rng.uniform(-1, 1, (120, 2)) * LARGEST,
        "mixed": rng.uniform(-1, 1, (120, 2)) * 10 ** rng.uniform(-9, 9, (120, 1)),
        "equal": np.full((120, 2), LARGEST),
    }[kind]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for user in users:
            walk(policy, context(user=user, products=products), 1)
            ridge, x = policy.state.ridge, rng.uniform(-1, 1, policy.state.ridge.b.shape[1]) * LARGEST
            assert all(np.isfinite(array).all() for array in policy.state_dict().values())
            assert all(0.0 <= variance(ridge, m, x, np.arange(len(x))) < np.inf for m in range(min(3, len(ridge.b))))
    assert CONDITION < policy.state.ridge.condition[-1] < np.inf


@pytest.mark.parametrize("name", LINEAR)
def test_features_of_common_scales_give_no_warning(name: str) -> None:
    policy = made(name)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for n in range(300):
            here = context(1.0, user=np.random.default_rng(n).normal(size=2) * 10)
            policy.update(here, policy.select_action(here), float(n % 2))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", LINEAR)
def test_what_is_no_number_is_refused_before_it_touches_state(name: str, value: float) -> None:
    policy = made(name)
    policy.update(context(), 1, 1.0)
    before = policy.state_dict()
    products = context().products.copy()
    products[2, 0] = value
    calls: list[Callable[[], Any]] = [
        lambda: policy.update(context(), 0, value),
        lambda: policy.update(context(user=np.array([0.0, value])), 0, 1.0),
        lambda: policy.select_action(context(user=np.array([0.0, value]))),
        lambda: policy.update(context(products=products), 0, 1.0),
        lambda: policy.propensities(context(products=products)),
    ]
    for call in calls:
        with pytest.raises(PolicyError, match=r"expected (finite features|a finite number|a number from 0 to 1)"):
            call()
        assert same(before, policy.state_dict())


def test_a_world_holds_numbers_only_and_a_compiled_run_refuses_products_that_are_none() -> None:
    world = build_world(EnvConfig(n_products=6), seed=0)
    assert np.isfinite(world.users).all()
    policy = find_class("shared-linucb")(world.spec(100), np.random.default_rng(0))
    before = policy.state_dict()
    broken = world.products.copy()
    broken[0, 0] = np.nan
    object.__setattr__(world, "products", broken)
    with pytest.raises(PolicyError, match="products: got NaN or infinity"):
        list(play(world, policy, 100))
    assert same(before, policy.state_dict())


@pytest.mark.parametrize("field", ["user", "products"])
def test_what_is_no_array_is_refused_in_one_line(field: str) -> None:
    fields: dict[str, Any] = {field: "x"}
    with pytest.raises(PolicyError, match=f"{field}: got 'x', expected an array of numbers"):
        made("linucb").select_action(context(1.0, **fields))
