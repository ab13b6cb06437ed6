"""The recommendation environment: Gymnasium's contract, the loop's rows, and the order of calls."""

import copy
from collections.abc import Iterator, Sequence
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from tests.envs.eventful import EVENTFUL, any_available, same
from zoosim import Context, Policy
from zoosim.arena.loop import play
from zoosim.core.config import EnvConfig
from zoosim.core.errors import ActionError, ConfigError, OrderError
from zoosim.envs.recommendation_env import RecommendationEnv
from zoosim.envs.recommendation_vector import RecommendationVectorEnv
from zoosim.policies.products.linucb import LinUCB
from zoosim.policies.products.random import Random
from zoosim.worlds.recommendation.world import build_world, resolve_shocks
from zoosim.worlds.table import CHUNK

ID = "zoosim/Recommendation-v0"


class FirstAvailable(Policy):
    """Show the first product that may be shown (a policy without a kernel)."""

    def select_action(self, context: Context) -> int:
        return int(np.flatnonzero(context.available)[0])

    def update(
        self, context: Context, action: int, reward: float, feedback: object = None, next_context: object = None
    ) -> None:
        pass


def visits(env: RecommendationEnv, seed: int | None, actions: Sequence[int]) -> Iterator[tuple[int, int, float]]:
    """Yield (step, user, reward) for `actions`, one visit each."""
    for action in actions:
        context, info = env.reset(seed=seed)
        seed = None
        yield info["step"], context.user_id, env.step(action)[1]


@pytest.mark.parametrize("config", [None, {"n_products": 1, "n_users": 1}, EVENTFUL | {"availability": []}])
def test_gymnasium_finds_nothing_to_say(config: dict[str, Any] | None) -> None:
    check_env(gymnasium.make(ID, config=config).unwrapped)


def test_make_wraps_it_in_the_passive_checker_without_a_warning() -> None:
    env = gymnasium.make(ID)
    assert isinstance(env, gymnasium.wrappers.PassiveEnvChecker)
    env.reset(seed=1)
    for _ in range(3):
        env.step(4)
        env.reset()


def test_a_context_is_in_the_space_read_only_and_a_copy_of_its_own() -> None:
    env = RecommendationEnv(EVENTFUL)
    context, _ = env.reset(seed=0)
    ended = env.step(4)[0]
    assert type(context) is type(ended) is Context
    assert context in env.observation_space
    assert set(context) == set(env.observation_space.keys())  # type: ignore[attr-defined]
    assert same(context, ended)
    assert context.available.dtype == np.bool_
    assert (context.user.shape, context.products.shape, context.available.shape) == ((6,), (12, 6), (12,))
    for name in ("user", "product_ids", "products", "available"):
        assert not context[name].flags.writeable
        assert not np.shares_memory(context[name], ended[name])
        assert not np.shares_memory(context[name], getattr(env.world, {"user": "users"}.get(name, name), ended[name]))


@pytest.mark.parametrize("cls", [FirstAvailable, Random, LinUCB])
def test_a_run_gives_the_rows_of_the_loop(cls: type[Policy]) -> None:
    """Visitors, actions and rewards over 2,500 visits: two shocks, three changes of availability, several chunks."""
    steps, world = 2 * CHUNK + 500, build_world(EnvConfig(**EVENTFUL), seed=11)
    blocks = list(play(world, cls(world.spec(steps), np.random.default_rng(5)), steps))
    env, policy = RecommendationEnv(EVENTFUL), cls(world.spec(steps), np.random.default_rng(5))
    seed: int | None = 11
    rows = []
    for t in range(steps):
        context, info = env.reset(seed=seed)
        assert info == {"step": t}
        seed, action = None, policy.select_action(context)
        _, reward, *_ = env.step(action)
        policy.update(context, action, reward)
        rows.append((context.user_id, action, reward))
    users, actions, rewards = (np.array(column) for column in zip(*rows, strict=True))
    np.testing.assert_array_equal(users, np.concatenate([block.user_ids for block in blocks]))
    np.testing.assert_array_equal(actions, np.concatenate([block.actions for block in blocks]))
    np.testing.assert_array_equal(rewards, np.concatenate([block.rewards for block in blocks]))
    assert 0 < rewards.mean() < 1


def test_a_visit_is_one_episode_that_logs_what_a_shop_would() -> None:
    env = RecommendationEnv()
    env.reset(seed=2)
    clicked = set()
    for t in range(40):
        _, reward, terminated, truncated, info = env.step(7)
        assert (terminated, truncated) == (True, False)
        assert same(info, {"step": t, "feedback": {"shown": np.array([7]), "clicks": np.array([reward == 1.0])}})
        clicked.add(reward)
        env.reset()
    assert clicked == {0.0, 1.0}


def test_a_seed_starts_its_world_again_at_step_0() -> None:
    env, actions = RecommendationEnv(), [3] * 60
    first = list(visits(env, 4, actions))
    assert [step for step, *_ in first] == list(range(60))
    assert list(visits(env, 4, actions)) == first
    assert list(visits(env, 5, actions)) != first
    assert list(visits(RecommendationEnv(), 4, actions)) == first


def test_the_first_reset_without_a_seed_draws_one_that_can_be_used_again() -> None:
    env = RecommendationEnv()
    first = list(visits(env, None, [3] * 60))
    assert first[0][0] == 0
    assert env.world.seed == env.np_random_seed
    assert list(visits(RecommendationEnv(), env.np_random_seed, [3] * 60)) == first
    assert list(visits(RecommendationEnv(), None, [3] * 60)) != first


def test_a_visitor_without_a_choice_leaves_and_still_counts() -> None:
    env = RecommendationEnv()
    env.reset(seed=3)
    env.reset()
    context, info = env.reset()
    assert info["step"] == 2
    assert context.user_id == env.world.visitors(0, 3)[2]
    assert env.step(0)[4]["step"] == 2


@pytest.mark.parametrize("make", [RecommendationEnv, lambda: gymnasium.make(ID)])
def test_a_call_out_of_order_is_refused_and_changes_nothing(make: Any) -> None:
    env = make()
    with pytest.raises(OrderError, match="reset"):
        env.step(0)
    env.reset(seed=1)
    env.step(0)
    with pytest.raises(OrderError, match="reset"):
        env.step(0)
    assert env.reset()[1] == {"step": 1}


def test_the_world_cannot_be_asked_for_before_the_first_reset() -> None:
    with pytest.raises(OrderError, match="reset"):
        _ = RecommendationEnv().world
    with pytest.raises(OrderError, match="reset"):
        _ = RecommendationEnv().ground_truth


@pytest.mark.parametrize("action", [-1, 12, True, np.True_, 2.0, "2", None, np.array([2]), 3])
def test_a_wrong_action_is_refused_and_the_visitor_still_waits(action: Any) -> None:
    """Product 3 appears at step 50 only."""
    env, other = RecommendationEnv(EVENTFUL), RecommendationEnv(EVENTFUL)
    context, _ = env.reset(seed=6)
    other.reset(seed=6)
    with pytest.raises(ActionError, match="not available" if action == 3 else "0 to 11"):
        env.step(action)
    result = env.step(5)
    assert same(result, other.step(5))
    assert same(result[0], context)


@pytest.mark.parametrize("action", [5, np.int32(5), np.int64(5), np.array(5)])
def test_any_integer_is_an_action(action: Any) -> None:
    env = RecommendationEnv()
    env.reset(seed=6)
    assert env.step(action)[4]["feedback"]["shown"] == [5]


def test_availability_shows_in_the_mask() -> None:
    env = RecommendationEnv(EVENTFUL)
    masks = [env.reset(seed=8)[0].available] + [env.reset()[0].available for _ in range(220)]
    toys = env.world.groups == env.world.group_names.index("Cat Toy")
    assert [t for t in range(221) if masks[t][3]] == list(range(50, 200 if toys[3] else 221))
    assert [t for t in range(200) if not masks[t][0]] == list(range(80, 160))
    assert toys.any()
    assert not masks[200][toys].any()
    assert masks[199][toys].all()


def test_ground_truth_follows_the_visit_and_the_shocks() -> None:
    env = RecommendationEnv(EVENTFUL)
    context, _ = env.reset(seed=9)
    seen, rng = set(), np.random.default_rng(0)
    for t in range(300):
        waiting, action = env.ground_truth, any_available(context, rng)
        context, truth = env.step(action)[0], env.ground_truth
        table = env.world.period(t).table
        chances = table[env.world.segments[context.user_id], env.world.groups]
        assert truth.expected_reward(action) == waiting.expected_reward(action) == chances[action]
        allowed = [(-chances[p], p) for p in range(12) if context.available[p]]
        assert truth.best_action == min(allowed)[1]
        seen.add(chances.max())
        context, _ = env.reset()
    assert 0.9 in seen  # the shock at step 100


def test_rewards_average_to_the_expected_reward() -> None:
    """Within 4 standard errors over 4,000 visits, seed 21; the click of a neighbouring product would not be."""
    env, rng = RecommendationEnv(EVENTFUL), np.random.default_rng(21)
    context, _ = env.reset(seed=21)
    chances, rewards = [], []
    for _ in range(4_000):
        action = any_available(context, rng)
        chances.append(env.ground_truth.expected_reward(action))
        rewards.append(env.step(action)[1])
        context, _ = env.reset()
    p, r = np.array(chances), np.array(rewards)
    error = np.sqrt((p * (1 - p)).sum())
    assert abs((r - p).sum()) < 4 * error
    assert abs(((r - p) * (p - p.mean())).sum()) < 4 * np.sqrt((p * (1 - p) * (p - p.mean()) ** 2).sum())


def test_ground_truth_is_nan_for_what_cannot_be_shown() -> None:
    env = RecommendationEnv(EVENTFUL)
    context, _ = env.reset(seed=9)
    assert np.isnan(env.ground_truth.expected_reward(3))
    chances = [env.ground_truth.expected_reward(product) for product in range(12)]
    np.testing.assert_array_equal(np.isnan(chances), ~context.available)


def test_random_shocks_are_spread_over_the_steps() -> None:
    config = {"random_shocks": {"count": 3, "seed": 5}}
    env = RecommendationEnv(config, steps=1_000)
    env.reset(seed=0)
    assert env.world.shocks == build_world(resolve_shocks(EnvConfig(**config), 1_000), seed=0).shocks  # type: ignore[arg-type]
    assert len(env.world.shocks) == 3
    assert all(50 <= step < 950 for step, _ in env.world.shocks)


def test_visits_never_end() -> None:
    env = RecommendationEnv({"random_shocks": {"count": 1}}, steps=10)
    rows = list(visits(env, 0, [0] * (3 * CHUNK + 2)))
    assert [user for _, user, _ in rows] == env.world.visitors(0, 3 * CHUNK + 2).tolist()


def test_a_deep_copy_goes_its_own_way_to_the_same_end() -> None:
    env = RecommendationEnv(EVENTFUL)
    list(visits(env, 1, [5] * 45))
    twin = copy.deepcopy(env)
    assert list(visits(env, None, [5] * 40)) == list(visits(twin, None, [5] * 40))


def test_a_config_is_an_object_or_a_mapping() -> None:
    by_mapping, by_object = RecommendationEnv(EVENTFUL), RecommendationEnv(EnvConfig(**EVENTFUL))
    assert same(by_mapping.reset(seed=1), by_object.reset(seed=1))
    default = RecommendationEnv()
    default.reset(seed=0)
    assert (default.world.n_products, default.world.shocks) == (50, ())


@pytest.mark.parametrize(
    ("config", "steps", "match"),
    [
        ({"products": 9}, 9, "unknown key 'products'"),
        ({"n_products": 0}, 9, "env.n_products: got 0"),
        ("shop.yaml", 9, "config: got 'shop.yaml'"),
        (None, 0, "steps: got 0"),
        (None, True, "steps: got True"),
        (
            {"n_products": 1, "availability": [{"step": 9, "change": "vanish", "products": [0]}]},
            9,
            "nothing is for sale",
        ),
    ],
)
def test_a_wrong_config_is_refused_when_the_environment_is_made(config: Any, steps: Any, match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        RecommendationEnv(config, steps)
    with pytest.raises(ConfigError, match=match):
        RecommendationVectorEnv(2, config, steps)
