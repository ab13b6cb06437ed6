"""The vector form: each row is the single environment of its seed, in the shape of Gymnasium's own vectors."""

import copy
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import MultiDiscrete
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from tests.envs.eventful import EVENTFUL, any_available, same
from zoosim import Context
from zoosim.core.errors import ActionError, ConfigError, OrderError
from zoosim.envs.recommendation_env import RecommendationEnv
from zoosim.envs.recommendation_vector import RecommendationVectorEnv
from zoosim.worlds.table import TableWorld

ID = "zoosim/Recommendation-v0"


def singles(seeds: Sequence[int]) -> list[RecommendationEnv]:
    envs = [RecommendationEnv(EVENTFUL) for _ in seeds]
    for env, seed in zip(envs, seeds, strict=True):
        env.reset(seed=seed)
    return envs


def row(context: Any, n: int) -> dict[str, Any]:
    return {name: context[name][n] for name in context}


def agree(a: Any, b: Any) -> bool:
    """Tell whether two contexts hold the same bits, whatever kind of integer the user id is."""
    return set(a) == set(b) and all(np.array_equal(a[name], b[name]) for name in a)


def test_make_vec_makes_the_vector_form() -> None:
    env = gymnasium.make_vec(ID, num_envs=3, config=EVENTFUL)
    assert isinstance(env, RecommendationVectorEnv)
    assert env.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    assert env.single_observation_space == RecommendationEnv(EVENTFUL).observation_space
    assert env.action_space == MultiDiscrete([12, 12, 12])
    context, _ = env.reset(seed=1)
    assert context in env.observation_space
    assert (context["user"].shape, context["products"].shape, context["available"].shape) == (
        (3, 6),
        (3, 12, 6),
        (3, 12),
    )


def test_rows_are_single_environments_bit_for_bit() -> None:
    """300 steps over a shock and four changes of availability."""
    env, alone, rng = RecommendationVectorEnv(4, EVENTFUL), singles([7, 8, 9, 10]), np.random.default_rng(0)
    context, _ = env.reset(seed=7)
    for _ in range(300):
        actions = [any_available(row_context, rng) for row_context in map(Context, (row(context, n) for n in range(4)))]
        context, rewards, terminated, truncated, info = env.step(np.array(actions))
        assert terminated.all()
        assert not truncated.any()
        for n, single in enumerate(alone):
            ended, reward, _, _, final = single.step(actions[n])
            following, after = single.reset()
            assert rewards[n] == reward
            assert same(info["final_obs"][n], ended)
            assert info["final_info"]["step"][n] == final["step"]
            for name, value in final["feedback"].items():
                assert same(info["final_info"]["feedback"][name][n], value)
            assert agree(row(context, n), following)
            assert info["step"][n] == after["step"]


def test_results_have_the_form_of_gymnasiums_own_vector_environment() -> None:
    sync = SyncVectorEnv([lambda: RecommendationEnv(EVENTFUL)] * 3, autoreset_mode=AutoresetMode.SAME_STEP)
    env = RecommendationVectorEnv(3, EVENTFUL)
    (ours, our_info), (theirs, their_info) = env.reset(seed=1), sync.reset(seed=1)
    assert same(dict(ours), theirs)
    assert same(our_info, their_info)
    for _ in range(120):
        result, expected = env.step([4, 5, 6]), sync.step(np.array([4, 5, 6]))
        assert same(dict(result[0]), expected[0])
        assert same(result[1:], expected[1:])


def test_returned_batches_never_change_afterwards() -> None:
    env = RecommendationVectorEnv(2, EVENTFUL)
    kept = [env.reset(seed=0)[0]]
    snapshots = [copy.deepcopy(kept[0])]
    for _ in range(90):
        kept.append(env.step([4, 5])[0])
        snapshots.append(copy.deepcopy(kept[-1]))
    env.reset(seed=5)
    assert all(same(a, b) for a, b in zip(kept, snapshots, strict=True))
    with pytest.raises(ValueError, match="read-only"):
        kept[0]["user"][0, 0] = 9


def test_a_list_of_seeds_starts_each_row_and_none_goes_on() -> None:
    env = RecommendationVectorEnv(3, EVENTFUL)
    env.reset(seed=[5, 9, 5])
    assert [world.seed for world in env.worlds] == [5, 9, 5]
    env.step([4, 4, 4])
    context, info = env.reset(seed=[None, 2, None])
    assert [world.seed for world in env.worlds] == [5, 2, 5]
    assert info["step"].tolist() == [2, 0, 2]
    assert agree(row(context, 1), singles([2])[0].step(4)[0])
    assert agree(row(context, 0), row(context, 2))


def test_the_first_vector_reset_without_seeds_draws_different_ones() -> None:
    env = RecommendationVectorEnv(3)
    env.reset()
    seeds = {world.seed for world in env.worlds}
    assert len(seeds) == 3
    env.reset()
    assert {world.seed for world in env.worlds} == seeds


@pytest.mark.parametrize("seed", [[1, 2], [1, 2, 3, 4], [1, 2, -3], [1, 2, "3"], -9])
def test_wrong_seeds_are_refused(seed: Any) -> None:
    env = RecommendationVectorEnv(3)
    with pytest.raises((ConfigError, gymnasium.error.Error), match=r"[Ss]eed"):
        env.reset(seed=seed)


@pytest.mark.parametrize(
    ("actions", "match"),
    [
        ([5, 12], "action 12 in row 1"),
        ([-1, 5], "action -1 in row 0"),
        ([5, 3], "product 3 of row 1 is not available"),
        ([5], "expected 2 whole numbers"),
        ([5.0, 5.0], "expected 2 whole numbers"),
        ([True, False], "expected 2 whole numbers"),
    ],
)
def test_one_wrong_action_changes_no_row(actions: Any, match: str) -> None:
    env, other = RecommendationVectorEnv(2, EVENTFUL), RecommendationVectorEnv(2, EVENTFUL)
    env.reset(seed=0)
    other.reset(seed=0)
    with pytest.raises(ActionError, match=match):
        env.step(actions)
    assert same(env.step([5, 5]), other.step([5, 5]))


def test_a_vector_call_out_of_order_is_refused() -> None:
    env = RecommendationVectorEnv(2)
    with pytest.raises(OrderError, match="reset"):
        env.step([0, 0])
    with pytest.raises(OrderError, match="reset"):
        _ = env.worlds
    with pytest.raises(ConfigError, match="num_envs: got 0"):
        RecommendationVectorEnv(0)


def test_vector_ground_truth_is_each_rows_own() -> None:
    env, alone = RecommendationVectorEnv(2, EVENTFUL), singles([3, 4])
    context, _ = env.reset(seed=3)
    for n, single in enumerate(alone):
        own: TableWorld = single.world
        chances = own.period(0).table[own.segments[context["user_id"][n]], own.groups]
        assert env.ground_truths[n].expected_reward(5) == chances[5]
