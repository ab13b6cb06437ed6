"""The context that a policy sees: a mapping and a record at once, which nothing can change."""

import copy
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from typing import Any

import numpy as np
import pytest

from zoosim import Context, PolicySpec
from zoosim.core.errors import ConfigError

FIELDS = {"user_id", "user", "product_ids", "products", "available"}


@pytest.fixture
def context() -> Context:
    return Context(
        user_id=7,
        user=np.array([1.0, 0.5]),
        product_ids=np.arange(3),
        products=np.eye(3),
        available=np.array([True, False, True]),
    )


def test_fields_are_keys_and_attributes(context: Context) -> None:
    assert set(context) == FIELDS
    assert all(getattr(context, name) is context[name] for name in FIELDS)
    assert isinstance(context, dict)


def _set_attribute(context: Any) -> None:
    context.user_id = 8


def _new_attribute(context: Any) -> None:
    context.clicks = 1


def _delete_attribute(context: Any) -> None:
    del context.user_id


def _delete_item(context: Any) -> None:
    del context["user"]


def _merge(context: Any) -> None:
    context |= {"user_id": 8}


@pytest.mark.parametrize(
    "change",
    [
        _set_attribute,
        _new_attribute,
        _delete_attribute,
        _delete_item,
        _merge,
        lambda c: c.__setitem__("user_id", 8),
        lambda c: c.update(user_id=8),
        lambda c: c.setdefault("clicks", 8),
        lambda c: c.pop("user"),
        lambda c: c.popitem(),
        lambda c: c.clear(),
    ],
)
def test_nothing_changes_a_context(change: Callable[[Context], Any], context: Context) -> None:
    with pytest.raises(TypeError, match="a context is read-only"):
        change(context)
    assert set(context) == FIELDS
    assert context.user_id == 7


def test_an_unknown_field_is_named_with_those_there_are(context: Context) -> None:
    told = "a context has no field colour; it has user_id, user, product_ids, products, available"
    with pytest.raises(AttributeError, match=told):
        _ = context.colour
    with pytest.raises(KeyError, match=told):
        _ = context["colour"]


@pytest.mark.parametrize("again", [lambda c: pickle.loads(pickle.dumps(c)), copy.copy, copy.deepcopy])
def test_a_context_pickles_and_copies_as_one(again: Callable[[Context], Context], context: Context) -> None:
    other = again(context)
    assert type(other) is Context
    assert set(other) == FIELDS
    assert all(np.array_equal(other[name], context[name]) for name in FIELDS)
    with pytest.raises(TypeError, match="read-only"):
        other["user_id"] = 8


def test_a_spec_is_frozen() -> None:
    spec: Any = PolicySpec(user_dim=2, product_dim=2)
    assert (spec.n_users, spec.steps) == (0, 0)
    with pytest.raises(FrozenInstanceError):
        spec.steps = 5


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        (
            {"user_dim": -1, "product_dim": 2},
            "PolicySpec.user_dim: got -1, expected a whole number from 0 to 1,000,000",
        ),
        ({"user_dim": 1, "product_dim": 2, "steps": -1}, "PolicySpec.steps: got -1, expected a whole number from 0 to"),
        ({"user_dim": float("nan"), "product_dim": 2}, "PolicySpec.user_dim: got nan, expected a whole number"),
        (
            {"user_dim": 1, "product_dim": 10**30},
            "PolicySpec.product_dim: got 1000000000000000000000000000000, expected",
        ),
        ({"user_dim": 1, "product_dim": 2, "n_users": 2**60}, "PolicySpec.n_users: got 1152921504606846976, expected"),
        (
            {"user_dim": 1, "product_dim": 2, "templates": ("a", "a")},
            r"PolicySpec.templates: got \('a', 'a'\), expected different names",
        ),
        ({"user_dim": 1, "product_dim": 2, "templates": "ab"}, "PolicySpec.templates: got 'ab', expected different"),
        ({"user_dim": 0, "product_dim": 0}, "PolicySpec: got user_dim 0 and product_dim 0, expected at least 1 of one"),
    ],
)
def test_a_task_with_nothing_to_see_is_refused(sizes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        PolicySpec(**sizes)
    assert PolicySpec(user_dim=0, product_dim=1).n_users == PolicySpec(user_dim=1, product_dim=0).n_users
