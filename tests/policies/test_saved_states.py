"""A saved state is taken over whole, or refused before anything has moved: compiled code trusts what it reads."""

from typing import Any

import numpy as np
import pytest

from zoosim.core.errors import ConfigError
from zoosim.policies.checks.maker import Maker
from zoosim.policies.checks.shop import SMALL
from zoosim.policies.kernel import KernelPolicy
from zoosim.policies.registry import BUILT_IN, find_class

KERNELS = [name for name in BUILT_IN if issubclass(find_class(name), KernelPolicy)]


def walked(name: str, visits: int = 30, **params: Any) -> Any:
    policy = find_class(name)(SMALL.spec, np.random.default_rng(2), **params)
    for visit in range(visits):
        context = SMALL.context(visit)
        policy.update(context, visit % 5, *SMALL.feedback(visit, visit % 5))
    return policy


def refuses(policy: Any, *states: Any) -> None:
    before = policy.state_dict()
    for state in states:
        with pytest.raises(ConfigError, match="the saved state is of another policy, task or parameters, or broken"):
            policy.load_state_dict(state)
    assert all(map(np.array_equal, before.values(), policy.state_dict().values()))


LEARNING = [name for name in KERNELS if name not in ("random", "static-mlp")]


@pytest.mark.parametrize("name", LEARNING)
def test_a_broken_state_changes_nothing(name: str) -> None:
    """Each array in turn, the last ones too: NaN, text, None, another shape, a negative count."""
    policy, good = walked(name), walked(name, visits=50).state_dict()
    for key, array in good.items():
        if not array.size:  # nothing in it can be broken
            continue
        broken: list[Any] = ["text", None, [[1.0], []], array[..., :-1], np.full(array.shape, "a")]
        if array.dtype.kind == "f":
            broken += [np.full(array.shape, np.nan), np.where(array == array.flat[-1], np.inf, array)]
        if array.dtype.kind == "i":
            broken.append(array + 0.5)
        if array.dtype.kind == "i" and not key.endswith("ids"):  # ids may be any whole numbers
            broken.append(np.full(array.shape, -1))
        refuses(policy, *({**good, key: value} for value in broken))
    refuses(policy, None, "text", [], {}, {**good, "more": np.zeros(1)}, {key: good[key] for key in list(good)[1:]})
    policy.load_state_dict(good)
    after = policy.state_dict()
    assert all(np.array_equal(array, after[key]) for key, array in good.items())


@pytest.mark.parametrize("name", ["shared-linucb", "product-lin-ts", "adaptive"])
def test_more_segments_or_categories_than_there_is_room_for_are_refused(name: str) -> None:
    policy = walked(name)
    good = policy.state_dict()
    for key in (key for key in good if key.endswith(".found")):
        room = len(good[key.replace("found", "patterns")])
        refuses(policy, {**good, key: np.array([room + 1])})
        policy.load_state_dict({**good, key: np.array([min(room, 8)])})


def test_numbers_of_models_that_are_not_there_are_refused() -> None:
    policy = walked("shared-linucb")
    good = policy.state_dict()
    models = np.full_like(good["widths.first_model"], len(good["ridge.b"]))
    refuses(policy, {**good, "widths.first_model": models})
    policy.load_state_dict({**good, "widths.first_model": models - 1})


def test_what_earlier_releases_saved_beside_is_read_over() -> None:
    policy = walked("shared-linucb")
    good = policy.state_dict()
    policy.load_state_dict({**good, "weights": np.ones((3, 1)), "window.reward": np.zeros((1, 1))})
    assert policy.state_dict().keys() == good.keys()
    refuses(policy, {**good, "weigths": np.ones((3, 1))})


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("template-linucb", "moments", -1.0),
        ("adaptive", "losses", -1.0),
        ("adaptive", "paid", 31),
        ("adaptive", "effects.own_var", -1.0),
        ("adaptive", "effects.own_var", 3.1),
        ("adaptive", "effects.own_time", 1e6),
        ("adaptive", "effects.priors", 1e-300),
        ("adaptive", "curves.priors", 0.1),
        ("adaptive", "columns.block_of", 9),
        ("adaptive", "cells.filters", 0.0),
        ("neural-linear", "levels", -1.0),
        ("neural-linear", "learner.memory.heads", 12),
        ("neural-linear", "learner.memory.heads", 2**40),
        ("neural-linear", "learner.trained", -1.0),
        ("dropout-ts", "learner.memory.heads", 64),
        ("dropout-ts", "learner.trained", -1.0),
        ("product-linucb", "turns", 64),
        ("linucb", "products.counts", 65),
        ("linucb", "products.ids", 7),
        ("linucb", "widths.first_model", 64),
        ("neural-linear-stable", "memory.order", 0),
    ],
)
def test_numbers_beyond_what_is_declared_are_refused(name: str, key: str, value: float) -> None:
    policy = walked(name)
    good = policy.state_dict()
    refuses(policy, {**good, key: np.full_like(good[key], value)})


def test_ids_and_moments_may_be_as_large_as_they_get() -> None:
    policy = Maker(find_class("static-mlp")).ready(SMALL)
    good = policy.state_dict()
    policy.load_state_dict({**good, "product_ids": good["product_ids"] - 2**62})
    policy = walked("neural-linear-stable", visits=60)
    good = policy.state_dict()
    moments = good["trained"] + np.array([[0.0], [0.0], [1e30]], np.float32)
    policy.load_state_dict({**good, "trained": moments})


def test_a_state_of_another_policy_or_memory_is_refused() -> None:
    """Each pair has arrays of the same names and shapes."""
    pairs: list[tuple[str, dict[str, Any], str, dict[str, Any]]] = [
        ("shared-linucb", {"memory": "all"}, "shared-linucb", {"memory": "discount"}),
        ("shared-linucb", {}, "shared-lin-ts", {}),
        ("greedy", {}, "d-linucb", {}),
    ]
    for one, of_one, two, of_two in pairs:
        first, second = walked(one, **of_one), walked(two, **of_two)
        refuses(second, first.state_dict())
        assert np.shape(first.state_dict()["ridge.b"]) == np.shape(second.state_dict()["ridge.b"])


def test_a_state_may_come_from_an_archive_or_from_narrower_numbers() -> None:
    policy, good = walked("linucb"), walked("linucb", visits=50).state_dict()
    policy.load_state_dict(
        {**good, "ridge.b": good["ridge.b"].tolist(), "ridge.age": good["ridge.age"].astype(np.int32)}
    )
    assert all(np.array_equal(array, policy.state_dict()[key]) for key, array in good.items())
