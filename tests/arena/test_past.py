"""A past to learn from: any policy that learns from rewards may begin with a log of random choices."""

from typing import Any

import numpy as np
import pytest

from zoosim.arena.past import fit_policy, uniform_log
from zoosim.core.config import EnvConfig
from zoosim.core.errors import ConfigError
from zoosim.core.parameters import parameters_of
from zoosim.experiments.plan import make_plan
from zoosim.experiments.request import RunRequest
from zoosim.policies.kernel import DrawingPolicy
from zoosim.policies.registry import BUILT_IN, find_class, make_entry
from zoosim.worlds.recommendation.world import build_world
from zoosim.worlds.table import TableWorld


@pytest.fixture(scope="module")
def world() -> TableWorld:
    return build_world(EnvConfig.model_validate({"n_products": 20, "n_users": 60}), seed=4)


def fitted(world: TableWorld, name: str, **params: Any) -> Any:
    return fit_policy(make_entry(name, params=params), world, 1_000, lambda line: None)[0]


def test_every_policy_that_learns_online_takes_a_past_and_none_by_default() -> None:
    products = [name for name in BUILT_IN if "products" in find_class(name).chooses]
    online = [find_class(name) for name in products if find_class(name).learns_online and find_class(name).learns]
    drawing = [cls for cls in online if issubclass(cls, DrawingPolicy) and cls.name != "static-mlp"]
    assert len(drawing) > 12
    assert {parameters_of(cls)["past_visits"].default for cls in drawing} == {0}
    assert "past_visits" not in parameters_of(find_class("random"))


@pytest.mark.parametrize("name", ["linucb", "neural-ucb"])
def test_a_policy_begins_where_its_log_ends(world: TableWorld, name: str) -> None:
    """A kernel, and a policy that learns context by context."""
    policy = fitted(world, name, past_visits=150)
    own = fitted(world, name)
    own.fit(uniform_log(world, 150))
    one, two = policy.state_dict(), own.state_dict()
    assert all(np.array_equal(one[key], two[key]) for key in one)
    untaught = fitted(world, name)
    assert not all(np.array_equal(one[key], untaught.state_dict()[key]) for key in one)


def test_a_past_is_refused_where_there_is_none() -> None:
    with pytest.raises(ConfigError, match="template-ts-simple: wants a log of the past, and template-bandits has none"):
        make_plan(RunRequest("template-bandits", [0], 10, settings=["policies.template-ts-simple.past_visits=100"]))
