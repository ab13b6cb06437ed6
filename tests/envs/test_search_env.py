"""The search shop as an environment: the protocol, what is told and what is not, refusals, and repeatable visits."""

import copy
import pickle
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import zoosim  # noqa: F401 (registers the environments)
from zoosim.core.errors import ActionError, ConfigError, OrderError
from zoosim.core.types import LazyContext
from zoosim.envs.search_env import SearchEnv, SearchTemplatesEnv
from zoosim.worlds.search.boosts import context_of
from zoosim.worlds.search.shop import SearchShop

SMALL = {"n_products": 60, "n_users": 30}
IDS = ("zoosim/Search-v0", "zoosim/SearchTemplates-v0")


def opened(seed: int = 0, **config: Any) -> tuple[SearchEnv, LazyContext]:
    env = SearchEnv({**SMALL, **config})
    return env, env.reset(seed=seed)[0]


def trail(env: Any, seed: int, actions: list[Any]) -> list[Any]:
    """Return what happens in visits with these actions, as plain numbers."""
    found = []
    env.reset(seed=seed)
    for action in actions:
        context, reward, _, _, info = env.step(action)
        feedback = info["feedback"]
        found.append((reward, context["features"].tolist(), feedback["shown"].tolist(), feedback["clicks"].tolist()))
        env.reset()
    return found


@pytest.mark.filterwarnings("ignore:.*symmetric and normalized space")  # the box is [-a_max, a_max], as a shop has it
@pytest.mark.parametrize("name", IDS)
def test_gymnasium_finds_nothing_wrong(name: str) -> None:
    check_env(gymnasium.make(name, config=SMALL).unwrapped)


def test_a_visit_is_an_episode() -> None:
    env, context = opened()
    assert context in env.observation_space
    after, reward, terminated, truncated, info = env.step(np.zeros(10))
    assert (terminated, truncated, info["step"]) == (True, False, 0)
    assert np.array_equal(after["base_scores"], context["base_scores"])
    assert isinstance(reward, float)
    assert env.reset()[1]["step"] == 1


def test_what_a_shop_would_log_stands_apart_from_what_only_the_simulator_knows() -> None:
    env, _ = opened(k=5)
    *_, info = env.step(np.full(10, 0.5))
    feedback = info["feedback"]
    assert set(feedback) == {
        "shown", "products", "boost_features", "base_scores", "clicks", "purchases", "reward_parts",
    }  # fmt: skip
    assert {feedback[name].shape[0] for name in ("shown", "boost_features", "base_scores", "clicks")} == {5}
    assert feedback["products"]["price"].tolist() == env.world.shop.world.catalogue.price[feedback["shown"]].tolist()
    assert set(info["simulator"]) == {"examined", "utilities", "satisfaction"}


def test_rank_change_in_both_counts() -> None:
    env, _ = opened(k=10, reward={"rank_change_at": 4})
    *_, info = env.step(np.r_[np.zeros(5), 5.0, np.zeros(4)])
    before, after = set(info["baseline"][:4].tolist()), set(info["feedback"]["shown"][:4].tolist())
    assert info["rank_change"] == {"left": len(before - after), "symmetric_difference": len(before ^ after)}
    assert len(before - after) > 0
    env.reset(seed=0)
    assert env.step(np.zeros(10))[4]["rank_change"] == {"left": 0, "symmetric_difference": 0}


def test_rank_change_is_paid_for_when_it_has_a_weight() -> None:
    action = np.r_[np.zeros(5), 5.0, np.zeros(4)]
    free = opened()[0].step(action)
    paid = opened(reward={"rank_change": 0.5})[0].step(action)
    assert paid[1] == pytest.approx(free[1] - 0.5 * free[4]["rank_change"]["left"])


@pytest.mark.parametrize("context", ["simple", "rich", "rich-oracle"])
def test_what_is_observed_does_not_change_the_world(context: str) -> None:
    actions = list(np.random.default_rng(0).uniform(-1, 1, (20, 10)))
    plain = trail(SearchEnv({**SMALL, "context": "simple"}), 3, actions)
    other = trail(SearchEnv({**SMALL, "context": context}), 3, actions)
    assert [(row[0], *row[2:]) for row in other] == [(row[0], *row[2:]) for row in plain]
    assert {len(row[1]) for row in other} == {7 if context == "simple" else 17}


def test_only_the_oracle_context_tells_true_tastes() -> None:
    tastes = []
    for context in ("rich", "rich-oracle"):
        env, seen = opened(context=context)
        user = seen["user_id"]
        truth = [env.world.shop.world.users.price_taste[user], env.world.shop.world.users.label_taste[user]]
        tastes.append(np.isin(truth, seen["features"]).all())
    assert tastes == [False, True]


def test_the_past_does_not_move_a_visit() -> None:
    """Visit 9 is the same whatever was shown before, also when visits were left without a ranking."""
    rng = np.random.default_rng(1)
    quiet = trail(SearchEnv(SMALL), 5, [*[np.zeros(10)] * 9, np.ones(10)])[-1]
    loud = trail(SearchEnv(SMALL), 5, [*rng.uniform(-5, 5, (9, 10)), np.ones(10)])[-1]
    env, _ = opened(5)
    for _ in range(9):
        env.reset()
    assert quiet == loud
    assert env.step(np.ones(10))[1] == quiet[0]


def test_templates_are_boosts_by_rule() -> None:
    env = SearchTemplatesEnv({**SMALL, "a_max": 2.0})
    _, info = env.reset(seed=1)
    assert np.array_equal(env.step(0)[4]["feedback"]["shown"], info["baseline"])
    env.reset(seed=1)
    scores = env.visit.base + 2.0 * (env.world.shop.world.catalogue.label > 0)
    assert env.step(2)[4]["feedback"]["shown"].tolist() == np.argsort(-scores, kind="stable")[:20].tolist()


def test_a_small_shop_shows_all_it_has() -> None:
    env, _ = opened(n_products=7)
    assert sorted(env.step(np.zeros(10))[4]["feedback"]["shown"].tolist()) == list(range(7))


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (np.zeros(9), "expected 10 numbers"),
        (np.zeros((1, 10)), "expected 10 numbers"),
        ("up", "got action 'up', expected 10 numbers"),
        (None, "expected 10 numbers"),
        (np.r_[np.zeros(9), np.nan], "got NaN in the action"),
        (np.r_[np.zeros(9), 5.1], "got a boost of size 5.1, expected at most a_max = 5; set clip to true"),
        (np.r_[np.zeros(9), -np.inf], "got a boost of size inf"),
    ],
)
def test_actions_that_are_none(action: Any, message: str) -> None:
    env, context = opened()
    with pytest.raises(ActionError, match=message.replace("(", r"\(")):
        env.step(action)
    assert env.step(np.zeros(10))[0]["user_id"] == context["user_id"], "the visitor is still there"


def test_actions_outside_the_box_are_clipped_if_asked() -> None:
    far, edge = (opened(clip=True)[0].step(np.full(10, size))[4]["feedback"]["shown"] for size in (1e300, 5.0))
    assert np.array_equal(far, edge)


@pytest.mark.parametrize("action", [8, -1, 1.0, True, "cm2", None])
def test_templates_that_are_none(action: Any) -> None:
    env = SearchTemplatesEnv(SMALL)
    env.reset(seed=0)
    with pytest.raises(ActionError, match="expected a whole number from 0 to 7"):
        env.step(action)


def test_calls_out_of_order() -> None:
    env = SearchEnv(SMALL)
    with pytest.raises(OrderError, match=r"call reset\(\) first"):
        env.step(np.zeros(10))
    env.reset(seed=0)
    env.step(np.zeros(10))
    with pytest.raises(OrderError, match="has been served already"):
        env.step(np.zeros(10))


def test_a_config_of_another_kind() -> None:
    with pytest.raises(ConfigError, match="expected a SearchConfig or a mapping"):
        SearchEnv(5)  # type: ignore[arg-type]


def test_large_arrays_are_made_when_they_are_asked_for() -> None:
    env, context = opened()
    assert type(dict.__getitem__(context, "boost_features")).__name__ == "Later"
    expected = context["base_scores"] + context.boost_features @ np.ones(10)
    shown = env.step(np.ones(10))[4]["feedback"]["shown"]
    assert shown.tolist() == np.argsort(-expected, kind="stable")[:20].tolist()


def test_what_the_shop_knows_of_its_products_is_the_same_read_only_table_until_the_market_shifts() -> None:
    shifts = [{"step": 2, "name": "dear toys", "prices": {"toys": 3.0}}]
    env, observed = opened(shifts=shifts)
    shop = SearchShop(env.world.shop.world)
    first, second, third = (context_of(shop, shop.arrive(step)) for step in range(3))
    for name, column in first.product_table._asdict().items():
        assert column is getattr(second.product_table, name)
        assert column.tolist() == getattr(observed.product_table, name).tolist()
        assert column.tolist() == getattr(env.world.shop.world.catalogue, name).tolist()
        assert not column.flags.writeable
        assert not getattr(observed.product_table, name).flags.writeable
    dearer = third.product_table.price > first.product_table.price
    toys = list(env.world.shop.world.config.categories).index("toys")
    assert dearer.tolist() == (first.product_table.category == toys).tolist()
    assert dearer.any()


@pytest.mark.parametrize("ways", ["copy", "pickle", "unpack", "items", "values", "get"])
def test_every_way_into_a_context_makes_its_arrays(ways: str) -> None:
    _, context = opened()
    routes: dict[str, Any] = {
        "copy": lambda: copy.deepcopy(context)["boost_features"],
        "pickle": lambda: pickle.loads(pickle.dumps(context))["boost_features"],
        "unpack": lambda: {**context}["boost_features"],
        "items": lambda: dict(context.items())["boost_features"],
        "values": lambda: list(context.values())[-1],
        "get": lambda: context.get("boost_features"),
    }
    assert routes[ways]().shape == (60, 10)
    assert context.get("colour", 3) == 3
    with pytest.raises(TypeError, match="read-only"):
        context["features"] = 1
