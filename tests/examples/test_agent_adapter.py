"""Agents of another interface in the arena: they decide as the built-in policy of their formula does."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sklearn.preprocessing import OneHotEncoder

import zoosim
from examples.agent_adapter import AgentPolicy, DisjointLinUCB, FeatureEngineer, Simulator
from zoosim.core.types import frozen

PUBLISHED = {"name": "built-in", "type": "linucb", "alpha": 0.2}


def test_an_agent_decides_as_the_built_in_policy_of_its_formula(tmp_path: Path) -> None:
    """Both are LinUCB by product with alpha .2 and a ridge of 1, so they meet, show and earn the same."""
    shop: dict[str, Any] = {"seeds": 1, "steps": 800, "jobs": 1}
    built_in = zoosim.run("gauntlet", config={"policies": [PUBLISHED]}, out=tmp_path / "built-in", **shop)
    adapted = zoosim.run("gauntlet", policies=[DisjointLinUCB], out=tmp_path / "adapted", **shop)
    assert not adapted.failures
    columns = ["seed", "step", "action", "reward"]
    assert adapted.rows.select(columns).equals(built_in.rows.select(columns))
    assert adapted.rows["reward"].to_numpy().mean() > 0.3


def test_features_are_those_of_an_encoder_that_reads_the_same_shop() -> None:
    """scikit-learn's encoder, given personas and categories as agents give them, makes the same columns."""
    sim, context = _shop()
    sim.meet(context)
    encoder = OneHotEncoder(sparse_output=False).fit(sim.products["category"].unique().reshape(-1, 1))
    features = FeatureEngineer(sim).create_features(context.user_id, sim)
    np.testing.assert_array_equal(features[:, 4:], encoder.transform(sim.products["category"].values.reshape(-1, 1)))
    np.testing.assert_array_equal(features[:, :4], np.tile([0.0, 0.0, 1.0, 0.0], (6, 1)))


@pytest.mark.parametrize("changed", [{"available": frozen(np.arange(6) > 0)}, {"product_ids": frozen(np.arange(1, 7))}])
def test_products_that_come_and_go_are_refused(changed: dict[str, Any]) -> None:
    sim, context = _shop()
    with pytest.raises(ValueError, match="6 arms needs all of these products"):
        sim.meet(zoosim.Context({**context, **changed}))


def test_the_policy_itself_makes_no_agent() -> None:
    _, context = _shop()
    with pytest.raises(NotImplementedError):
        AgentPolicy(_spec(), np.random.default_rng(0)).select_action(context)


@pytest.mark.parametrize("arm", [2.7, float("nan"), "2", None])
def test_an_arm_that_is_no_whole_number_is_refused(arm: Any) -> None:
    class Nonsense(AgentPolicy):
        def make_agent(self, sim: Simulator) -> Any:
            return SimpleNamespace(predict=lambda user_id, sim: arm)

    with pytest.raises(TypeError, match="cannot be interpreted as an integer"):
        Nonsense(_spec(), np.random.default_rng(0)).select_action(_shop()[1])


def _shop() -> tuple[Simulator, zoosim.Context]:
    context = zoosim.Context(
        user_id=7,
        user=frozen(np.eye(4)[2]),
        product_ids=frozen(np.arange(6)),
        products=frozen(np.eye(3)[[2, 0, 1, 1, 0, 2]]),
        available=frozen(np.ones(6, dtype=bool)),
    )
    return Simulator(_spec(), context), context


def _spec() -> zoosim.PolicySpec:
    return zoosim.PolicySpec(user_dim=4, product_dim=3, n_users=10, steps=100)
