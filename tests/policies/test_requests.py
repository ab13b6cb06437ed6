"""What comes in with a request or a log and is no array of real numbers is refused, by every policy over products."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from zoosim.core.errors import ZoosimError
from zoosim.core.types import Context
from zoosim.policies.checks.shop import SMALL
from zoosim.policies.registry import find_class

SPOILED: dict[str, Callable[[np.ndarray], Any]] = {
    "complex": lambda array: array + 1j,
    "words": lambda array: np.full(array.shape, "x"),
    "NaN": lambda array: np.where(True, np.nan, array),
    "objects": lambda array: np.full(array.shape, None),
    "numbers whose squares overflow": lambda array: np.full(array.shape, 1e200),
}


@pytest.mark.parametrize("how", SPOILED)
@pytest.mark.parametrize("key", ["user", "products", "available", "product_ids"])
def test_requests_hold_real_numbers(key: str, how: str) -> None:
    context = SMALL.context(0)
    spoiled = Context({**context, key: SPOILED[how](context[key])})
    for name in ("linucb", "adaptive", "neural-ucb"):
        policy = find_class(name)(SMALL.spec, np.random.default_rng(0))
        for call in (policy.select_action, policy.propensities, policy.recommend):
            with pytest.raises(ZoosimError, match=key):
                call(spoiled)


@pytest.mark.parametrize("key", ["user_id", "user", "products", "available", "product_ids"])
def test_what_a_request_lacks_is_named_beside_what_it_has(key: str) -> None:
    fields = {name: value for name, value in SMALL.context(0).items() if name != key}
    policy = find_class("linucb")(SMALL.spec, np.random.default_rng(0))
    with pytest.raises((AttributeError, KeyError), match=f"a context has no field {key}; it has {', '.join(fields)}"):
        policy.propensities(Context(fields))


@pytest.mark.parametrize("how", SPOILED)
@pytest.mark.parametrize("key", ["features", "products"])
@pytest.mark.parametrize("name", ["linucb", "adaptive", "linear", "mixed-effects"])
def test_logs_hold_real_numbers(name: str, key: str, how: str) -> None:
    log = SMALL.log(50)
    policy = find_class(name)(SMALL.spec, np.random.default_rng(0))
    with pytest.raises(ZoosimError, match=key):
        policy.fit(replace(log, **{key: SPOILED[how](getattr(log, key))}))


@pytest.mark.parametrize("user_id", [2**63, -(2**63) - 1, 2**64])
def test_a_visitors_number_has_64_bits(user_id: int) -> None:
    context = Context({**SMALL.context(0), "user_id": user_id})
    policy = find_class("linucb")(SMALL.spec, np.random.default_rng(0))
    with pytest.raises(ZoosimError, match="expected a whole number of 64 bits"):
        policy.update(context, 0, 1.0)
