"""The environment of sessions: an episode is a visitor's whole life, with the rows of the world, single and in rows."""

import copy
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from tests.envs.eventful import same
from zoosim import Context, Policy
from zoosim.arena.loop import play
from zoosim.core.errors import ActionError, ConfigError, OrderError
from zoosim.core.types import FloatArray
from zoosim.envs.sessions_env import SessionsEnv
from zoosim.envs.sessions_vector import SessionsVectorEnv
from zoosim.worlds.sessions.simulation import simulate
from zoosim.worlds.sessions.states import policy_table
from zoosim.worlds.sessions.truth import SessionTruth
from zoosim.worlds.sessions.visitors import PERSONA
from zoosim.worlds.sessions.world import Sessions

ID = "zoosim/Sessions-v0"
FISH = {"step": 3, "name": "fish", "set": {"cat_connoisseur": {"Cat Toy": 0.9}}}
SHOCKED: dict[str, Any] = {"observe": "anonymous", "shocks": [FISH]}
VISITORS = 150


class ByFeatures(Policy):
    """Show a product that depends on the observation (a policy without a kernel)."""

    def select_action(self, context: Context) -> int:
        return favourite(context.user)

    def update(
        self, context: Context, action: int, reward: float, feedback: object = None, next_context: object = None
    ) -> None:
        pass


def favourite(features: FloatArray) -> int:
    """Return a product that differs from state to state."""
    return int(np.flatnonzero(features).sum()) % 10


@pytest.mark.parametrize("observe", ["state", "shop", "anonymous", "behaviour"])
@pytest.mark.parametrize("flat", [True, False])
def test_gymnasium_finds_nothing_to_say_of_sessions(observe: str, flat: bool) -> None:
    env = gymnasium.make(ID, config={"observe": observe}, flat=flat)
    check_env(env.unwrapped)
    observation, _ = env.reset(seed=1)
    assert observation in env.observation_space
    assert isinstance(observation, np.ndarray if flat else Context)
    assert env.action_space == gymnasium.spaces.Discrete(10)


@pytest.mark.parametrize("observe", ["shop", "anonymous"])
def test_all_observations_lie_in_the_space(observe: str) -> None:
    env = SessionsEnv({"observe": observe, "comes_back": 0.9, "return_by_satisfaction": 0.0}, max_steps=60)
    observation: Any = env.reset(seed=0)[0]
    for _ in range(400):
        assert observation in env.observation_space
        observation, _, terminated, truncated, _ = env.step(3)
        if terminated or truncated:
            observation, _ = env.reset()


def test_the_environment_has_the_rows_of_a_run() -> None:
    """Visitors, visits, decisions and clicks of 150 visitors, those of the world's own run of the same policy."""
    world = Sessions(11, VISITORS, observe="state")
    policy = ByFeatures(world.spec(VISITORS), np.random.default_rng(0))
    blocks = list(play(world, policy, VISITORS))
    env = SessionsEnv({"observe": "state"})
    rows = []
    seed: int | None = 11
    for _ in range(VISITORS):
        observation, info = env.reset(seed=seed)
        seed = None
        terminated = False
        while not terminated:
            numbers = info["visitor"], info["visit"]
            observation, reward, terminated, truncated, info = env.step(favourite(observation))
            rows.append((*numbers, reward, terminated))
            assert not truncated
    visitor, visit, clicks, ended = (np.array(column) for column in zip(*rows, strict=True))
    lives = [block.lives for block in blocks if block.lives is not None]
    np.testing.assert_array_equal(visitor, np.concatenate([each.visitor for each in lives]))
    np.testing.assert_array_equal(visit, np.concatenate([each.visit for each in lives]))
    np.testing.assert_array_equal(ended, np.concatenate([each.ended for each in lives]))
    np.testing.assert_array_equal(clicks, np.concatenate([block.rewards for block in blocks]))
    # Compiled lives of the same seed under the same policy are the same, too.
    laws = world.truth_of(0).laws
    table = policy_table(laws, lambda observations: np.array([favourite(features) for features in observations]))
    simulated = simulate(laws, table, VISITORS, seed=11)
    np.testing.assert_array_equal(np.bincount(visitor, weights=clicks), simulated.clicks)
    np.testing.assert_array_equal(np.bincount(visitor), simulated.steps)
    assert simulated.visits.max() > 2


def test_the_end_of_a_visit_is_no_end_of_the_episode() -> None:
    env = SessionsEnv({"observe": "state"})
    _, info = env.reset(seed=2)
    assert (info["visitor"], info["visit"], info["step"], info["visit_ended"]) == (0, 0, 0, False)
    returns = 0
    for _ in range(300):
        before = info
        observation, _, terminated, _, info = env.step(4)
        if terminated:
            # Observed last of a visitor who has gone: the last decision.
            assert (info["visit"], info["step"], info["visit_ended"]) == (before["visit"], before["step"], True)
            _, info = env.reset()
            assert (info["visitor"], info["step"], info["visit_ended"]) == (before["visitor"] + 1, 0, False)
            continue
        assert info["step"] == before["step"] + 1
        assert info["visit"] == before["visit"] + info["visit_ended"]
        returns += info["visit_ended"]
        if info["visit_ended"]:
            assert observation[4 + 5] == observation[4 + 6 + 7] == 1.0  # nothing clicked yet in this visit
    assert returns > 5


def test_products_of_a_kind_are_clicked_alike() -> None:
    one, five = SessionsEnv(), SessionsEnv({"per_kind": 5}, flat=False)
    assert five.action_space == gymnasium.spaces.Discrete(50)
    one.reset(seed=4)
    five.reset(seed=4)
    for step in range(200):
        _, reward, terminated, *_ = one.step(step % 10)
        assert five.step(step % 10 + 10 * (step % 5))[1:3] == (reward, terminated)
        if terminated:
            one.reset()
            five.reset()


def test_the_last_step_of_a_visitor_who_is_cut_off_can_be_bootstrapped_from() -> None:
    """The observation is that of the decision which would have come, not that of the next visitor."""
    short, long = SessionsEnv(max_steps=3), SessionsEnv()
    short.reset(seed=5)
    long.reset(seed=5)
    cut_off = 0
    for _ in range(300):
        observation, reward, terminated, truncated, info = short.step(2)
        following = long.step(2)
        assert same((observation, reward, terminated), following[:3])
        assert not (terminated and truncated)
        assert truncated == (info["step"] == 3)
        if terminated or truncated:
            with pytest.raises(OrderError, match="call reset"):
                short.step(2)
            long.reset()
            short.reset()
            cut_off += truncated
    assert cut_off > 10


def test_masks_are_what_maskable_ppo_asks_for() -> None:
    env = gymnasium.make(ID, config={"per_kind": 5})
    _, info = env.reset(seed=0)
    mask = env.get_wrapper_attr("action_masks")()
    assert mask.shape == info["action_mask"].shape == (50,)
    assert mask.all()
    env.action_space.sample(mask=mask)
    rows = SessionsVectorEnv(3)
    rows.reset(seed=0)
    assert rows.action_masks().shape == (3, 10)


def test_what_is_sold_out_is_masked_and_refused() -> None:
    env = SessionsEnv({"sold_out": 0.5})
    rows = SessionsVectorEnv(2, {"sold_out": 0.5})
    env.reset(seed=0)
    rows.reset(seed=[0, 1])
    for _ in range(5):
        masks = rows.action_masks()
        np.testing.assert_array_equal(env.action_masks(), masks[0])
        assert 0 < masks[0].sum() < 10
        missing = int(np.flatnonzero(masks[0] == 0)[0])
        there = masks.argmax(axis=1)
        with pytest.raises(ActionError, match="not available"):
            env.step(missing)
        with pytest.raises(ActionError, match=f"got action {missing} in row 0, a product that is not available"):
            rows.step([missing, there[1]])
        if env.step(int(there[0]))[2]:
            env.reset()
        rows.step(there)


@pytest.mark.parametrize(
    "config", [{"observe": "state"}, {"observe": "shop", "per_kind": 2}, SHOCKED, {"sold_out": 0.5, "per_kind": 2}]
)
@pytest.mark.parametrize("flat", [True, False])
def test_the_vector_form_is_gymnasiums_own_vector_of_single_environments(config: dict[str, Any], flat: bool) -> None:
    """Bit for bit over 250 steps of three rows, resets in the same step and visitors who are cut off among them."""
    sync = SyncVectorEnv([lambda: SessionsEnv(config, 9, flat=flat)] * 3, autoreset_mode=AutoresetMode.SAME_STEP)
    env = gymnasium.make_vec(ID, num_envs=3, config=config, max_steps=9, flat=flat)
    assert env.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    assert env.single_observation_space == sync.single_observation_space
    first = env.reset(seed=1)
    assert same(plain(first), plain(sync.reset(seed=1)))
    info = first[1]
    rng = np.random.default_rng(0)
    over = np.zeros(2, int)
    for _ in range(250):
        masks = info["action_mask"]
        actions = np.array([rng.choice(np.flatnonzero(mask)) for mask in masks])
        ours, theirs = env.step(actions), sync.step(actions)
        assert same(plain(ours), plain(theirs))
        over += ours[2].sum(), ours[3].sum()
        info = ours[4]
    assert (over > 5).all()


def plain(result: Any) -> Any:
    """Return a result with its observation as a plain mapping, whatever mapping it is."""
    observation, *others = result
    return (dict(observation) if isinstance(observation, dict) else observation, *others)


def test_a_transition_that_crosses_a_reset_is_that_of_the_visitor_before() -> None:
    """Transitions as a learner reads them from `final_obs` are those of single episodes, next ones kept apart."""
    env, single = SessionsVectorEnv(1, {"observe": "state"}, 5), SessionsEnv({"observe": "state"}, 5)
    rows, _ = env.reset(seed=7)
    alone, _ = single.reset(seed=7)
    kinds = set()
    for step in range(300):
        action = step % 10
        following, reward, terminated, truncated, info = env.step([action])
        last, *others, last_info = single.step(action)
        assert [reward[0], terminated[0], truncated[0]] == others
        np.testing.assert_array_equal(rows[0], alone)
        is_over = bool(terminated[0] or truncated[0])
        assert ("final_obs" in info) == is_over
        if is_over:
            np.testing.assert_array_equal(info["final_obs"][0], last)
            assert info["final_info"]["step"][0] == last_info["step"]
            alone, _ = single.reset()
            kinds.add((bool(terminated[0]), bool((info["final_obs"][0] != following[0]).any())))
        else:
            alone = last
        rows = following
    assert {(True, True), (False, True)} <= kinds


def test_returned_arrays_never_change_afterwards() -> None:
    env = SessionsVectorEnv(4, max_steps=6)
    kept: list[Any] = [env.reset(seed=0)]
    snapshots = [copy.deepcopy(kept[0])]
    for _ in range(40):
        kept.append(env.step([1, 2, 3, 4]))
        snapshots.append(copy.deepcopy(kept[-1]))
    assert all(same(a, b) for a, b in zip(kept, snapshots, strict=True))


def test_rows_start_at_their_seeds_and_go_on_without_one() -> None:
    env = SessionsVectorEnv(3)
    with pytest.raises(OrderError, match=r"call reset\(\) first"):
        env.step([0, 0, 0])
    env.reset(seed=[5, 9, 5])
    assert [world.seed for world in env.worlds] == [5, 9, 5]
    observations, info = env.reset(seed=[None, 2, None])
    assert info["visitor"].tolist() == [1, 0, 1]
    np.testing.assert_array_equal(observations[0], observations[2])
    np.testing.assert_array_equal(observations[1], SessionsEnv().reset(seed=2)[0])


@pytest.mark.parametrize(
    ("actions", "match"),
    [([5, 10], "action 10 in row 1"), ([-1, 5], "action -1 in row 0"), ([5], "expected 2"), ([1.0, 1.0], "expected 2")],
)
def test_one_wrong_action_changes_no_row_of_sessions(actions: Any, match: str) -> None:
    env, other = SessionsVectorEnv(2), SessionsVectorEnv(2)
    env.reset(seed=0)
    other.reset(seed=0)
    with pytest.raises(ActionError, match=match):
        env.step(actions)
    assert same(env.step([5, 5]), other.step([5, 5]))


@pytest.mark.parametrize(
    ("config", "max_steps", "match"),
    [
        ({"observe": "everything"}, 9, "env.observe: got 'everything'"),
        ({"products": 9}, 9, "unknown key 'products'"),
        ("shop.yaml", 9, "config: got 'shop.yaml'"),
        (None, 0, "max_steps: got 0"),
    ],
)
def test_what_is_no_shop_of_sessions_is_refused(config: Any, max_steps: Any, match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        SessionsEnv(config, max_steps)
    with pytest.raises(ConfigError, match=match):
        SessionsVectorEnv(2, config, max_steps)


def test_ground_truth_is_the_optimum_from_here_on() -> None:
    env = SessionsEnv({"observe": "state"})
    env.reset(seed=0)
    truth = SessionTruth(env.config)
    best = truth.optimal_values[env.visit[PERSONA], truth.start]
    assert env.ground_truth.best_reward == pytest.approx(best.max())
    assert env.ground_truth.best_action == best.argmax()
