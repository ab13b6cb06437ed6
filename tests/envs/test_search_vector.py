"""Many search shops at once give what each alone gives."""

from typing import Any

import gymnasium
import numpy as np
import pytest

import zoosim  # noqa: F401 (registers the environments)
from zoosim.core.errors import ActionError, ConfigError, OrderError
from zoosim.envs.search_env import SearchEnv, SearchTemplatesEnv
from zoosim.envs.search_vector import SearchTemplatesVectorEnv, SearchVectorEnv

SMALL = {"n_products": 60, "n_users": 30}


@pytest.mark.parametrize("batch", [1, 2, 4])
def test_the_same_visits_at_every_batch_size(batch: int) -> None:
    actions = np.random.default_rng(0).uniform(-2, 2, (15, batch, 10))
    many = SearchVectorEnv(batch, SMALL)
    many.reset(seed=7)
    steps = [many.step(row) for row in actions]
    for n in range(batch):
        env = SearchEnv(SMALL)
        env.reset(seed=7 + n)
        for t, (context, rewards, *_, info) in enumerate(steps):
            ended, reward, *_, own = env.step(actions[t, n])
            following, _ = env.reset()
            assert rewards[n] == reward
            assert info["final_info"][n]["feedback"]["shown"].tolist() == own["feedback"]["shown"].tolist()
            assert np.array_equal(info["final_obs"][n]["base_scores"], ended["base_scores"])
            for name in ("user_id", "features", "base_scores", "product_ids", "boost_features"):
                assert np.array_equal(context[name][n], following[name]), name
            for name, column in context.product_table._asdict().items():
                assert np.array_equal(column[n], getattr(following.product_table, name)), name


def test_templates_side_by_side() -> None:
    many = SearchTemplatesVectorEnv(2, SMALL)
    many.reset(seed=3)
    _, rewards, *_ = many.step(np.array([4, 0]))
    for n, template in enumerate((4, 0)):
        env = SearchTemplatesEnv(SMALL)
        env.reset(seed=3 + n)
        assert env.step(template)[1] == rewards[n]


@pytest.mark.parametrize("name", ["zoosim/Search-v0", "zoosim/SearchTemplates-v0"])
def test_it_is_found_by_its_name(name: str) -> None:
    many = gymnasium.make_vec(name, num_envs=3, vectorization_mode="vector_entry_point", config=SMALL)
    context, info = many.reset(seed=0)
    assert context in many.observation_space
    assert info["step"].tolist() == [0, 0, 0]
    context, _, terminated, truncated, info = many.step(many.action_space.sample())
    assert context in many.observation_space
    assert (terminated.all(), truncated.any(), info["step"].tolist()) == (True, False, [1, 1, 1])


def test_rows_can_begin_again_alone() -> None:
    many = SearchVectorEnv(2, SMALL)
    first, _ = many.reset(seed=0)
    many.step(np.zeros((2, 10)))
    again, info = many.reset(seed=[0, None])
    assert info["step"].tolist() == [0, 2]
    assert np.array_equal(again["base_scores"][0], first["base_scores"][0])
    assert [world.seed for world in many.worlds] == [0, 1]


def test_refusals_change_nothing() -> None:
    many = SearchVectorEnv(2, SMALL)
    with pytest.raises(OrderError):
        many.step(np.zeros((2, 10)))
    many.reset(seed=0)
    expected = SearchVectorEnv(2, SMALL)
    expected.reset(seed=0)
    bad = np.zeros((2, 10))
    bad[1, 3] = np.nan
    wrong: list[tuple[Any, str]] = [(bad, "row 1: step: got NaN"), (np.zeros((3, 10)), "got 3 actions, expected 2")]
    for actions, message in wrong:
        with pytest.raises(ActionError, match=message):
            many.step(actions)
    assert np.array_equal(many.step(np.ones((2, 10)))[1], expected.step(np.ones((2, 10)))[1])
    for count in (0, True, "2"):
        with pytest.raises(ConfigError, match="num_envs"):
            SearchVectorEnv(count, SMALL)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="got 3 seeds, expected 2"):
        many.reset(seed=[1, 2, 3])
