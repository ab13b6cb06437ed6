"""One loop for every world: boosts and templates side by side, a user's own world, and the environments' rows."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import zoosim
from tests.caches import use_cache
from zoosim.arena.loop import play
from zoosim.core.errors import ConfigError, PolicyError, WorldError
from zoosim.core.feedback import FeedbackTiming
from zoosim.core.search_config import SearchConfig
from zoosim.envs.search_env import SearchEnv, SearchTemplatesEnv
from zoosim.logs.parse import read_log
from zoosim.policies.boosts.simple import NormalBoosts
from zoosim.policies.registry import find_class
from zoosim.worlds.search import template_arms
from zoosim.worlds.search.template_arms import TemplateWorld, search_world

ROOT = Path(__file__).parents[2]
BOOKSHOP = f"{ROOT / 'examples' / 'my_world.py'}:Bookshop"
SHOP: dict[str, Any] = {"n_products": 60, "n_users": 40, "k": 5, "a_max": 0.5}
SETTINGS = [f"env.{key}={value}" for key, value in SHOP.items()]

TILT = '''
import numpy as np
from zoosim.policies.boosts.base import BoostPolicy

class Tilt(BoostPolicy):
    """Boost the price, more or less."""

    name = "tilt"

    def select_action(self, context):
        boosts = np.zeros(self.spec.product_dim)
        boosts[5] = self.rng.uniform(0.0, self.spec.a_max)
        return boosts

    def recommend(self, context):
        return np.full(self.spec.product_dim, 0.0)

    def learn(self, context, action, reward, feedback):
        assert feedback["clicks"].shape == (5,)
'''


@pytest.fixture(autouse=True)
def few_visits_apart(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(template_arms, "TRUTH_VISITS", 400)
    use_cache(monkeypatch, tmp_path / "cache")


def tilt(folder: Path) -> str:
    (folder / "own.py").write_text(TILT, encoding="utf-8")
    return f"{folder / 'own.py'}:Tilt"


def test_boosts_templates_and_a_users_policy_compete_in_one_search_experiment(tmp_path: Path) -> None:
    names = ["item-critic", "template-ts", "rank-guardrail"]
    result = zoosim.run(
        "template-bandits",
        policies=[*names, tilt(tmp_path)],
        seeds=2,
        steps=60,
        settings=SETTINGS,
        out=tmp_path / "run",
        jobs=1,
        csv=True,
    )
    assert result.failures == ()
    assert set(result.policies["policy"]) == {*names, "tilt"}
    assert any("boosts may earn more" in note for note in result.notes)
    rows = result.rows
    for name in (*names, "tilt"):
        own = rows.filter(pl.col("policy") == name)
        templates = name == "template-ts"
        assert own["action"].null_count() == (0 if templates else len(own))
        assert own["boosts"].null_count() == (len(own) if templates else 0)
        assert own["gmv"].null_count() == 0
    # The same visits for all: what 100% is does not depend on who plays.
    best = [rows.filter(pl.col("policy") == name)["best_probability"].to_list() for name in (*names, "tilt")]
    assert all(other == best[0] for other in best)
    assert len((tmp_path / "run" / "rows.csv").read_text().splitlines()) == 1 + 4 * 2 * 60
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert len(summary["pairs"]) == 6
    again = zoosim.read_run(tmp_path / "run")
    assert again.summary["policies"] == summary["policies"]
    assert "item-critic" in again.page()


def test_only_what_has_a_density_is_logged(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="item-critic: has no density over boosts"):
        zoosim.run("template-bandits", policies=["item-critic"], seeds=1, steps=20, settings=SETTINGS, log=True)
    zoosim.run(
        "template-bandits",
        policies=["normal-boosts", "template-neutral"],
        seeds=1,
        steps=20,
        settings=SETTINGS,
        log=True,
        out=tmp_path / "run",
        jobs=1,
    )
    log = pl.read_parquet(tmp_path / "run" / "log" / "normal-boosts" / "0.parquet")
    assert log["action"].list.len().unique().to_list() == [10]
    assert (log["propensity"] > 0).all()
    assert not list((tmp_path / "run" / "log" / "normal-boosts").glob("catalogue-*"))


def test_live_templates_and_settled_ones_give_the_same_rows() -> None:
    config = SearchConfig(**SHOP)
    settled = search_world(config, seed=3, steps=40, action_space="templates")
    policy = find_class("template-ts")
    blocks = [
        next(iter(play(world, policy(world.spec(40), np.random.default_rng(1)), 40)))
        for world in (settled, TemplateWorld(_shop(config, 3), template_arms.cell_oracle(config, seed=3)))
    ]
    np.testing.assert_array_equal(blocks[0].actions, blocks[1].actions)
    np.testing.assert_allclose(blocks[0].rewards, blocks[1].rewards, rtol=1e-12)
    np.testing.assert_allclose(blocks[0].best_rewards, blocks[1].best_rewards, rtol=1e-12)
    for name, part in blocks[0].parts.items():
        np.testing.assert_allclose(part, blocks[1].parts[name], rtol=1e-12)


def _shop(config: SearchConfig, seed: int) -> Any:
    from zoosim.worlds.search.shop import SearchShop
    from zoosim.worlds.search.world import build_search_world

    return SearchShop(build_search_world(config, seed=seed))


@pytest.mark.parametrize("kind", ["boosts", "templates"])
def test_an_environment_gives_the_rows_of_the_loop(kind: str) -> None:
    config = SearchConfig(**SHOP)
    env: Any = SearchEnv(config) if kind == "boosts" else SearchTemplatesEnv(config)
    world = search_world(config, seed=5, steps=30, action_space=kind)
    cls: Any = NormalBoosts if kind == "boosts" else find_class("template-linucb")
    loop, own = (cls(world.spec(30), np.random.default_rng(2)) for _ in range(2))
    (block,) = play(world, loop, 30)
    seed: int | None = 5
    for step in range(30):
        context, _ = env.reset(seed=seed)
        seed = None
        action = own.select_action(context)
        truth = env.ground_truth
        _, reward, _, _, info = env.step(action)
        own.update(context, action, reward, info["feedback"] if kind == "boosts" else None)
        np.testing.assert_array_equal(action, block.actions[step])
        assert reward == pytest.approx(block.rewards[step], rel=1e-12)
        if kind == "boosts":
            assert truth.expected_reward(action) == block.expected_rewards[step]
        assert truth.best_reward == block.best_rewards[step]


@pytest.mark.parametrize("make", [SearchEnv, SearchTemplatesEnv, None])
def test_flat_observations_are_the_visitors_features(make: Any) -> None:
    from zoosim.envs.recommendation_env import RecommendationEnv

    config: Any = SHOP if make else {"n_products": 9}
    flat, whole = (
        env(config, flat=value)
        for env, value in ((make or RecommendationEnv, True), (make or RecommendationEnv, False))
    )
    observed, _ = flat.reset(seed=4)
    context, _ = whole.reset(seed=4)
    features = context["features" if make is SearchEnv else "user"]
    assert observed.dtype == np.float32
    assert observed in flat.observation_space
    np.testing.assert_array_equal(observed, features.astype(np.float32))
    action = flat.action_space.sample()
    assert flat.step(action)[1] == whole.step(action)[1]


def test_a_world_of_ones_own_is_run_logged_resumed_and_read_without_its_file(tmp_path: Path) -> None:
    own = tmp_path / "shop.py"
    own.write_text(Path(BOOKSHOP.rpartition(":")[0]).read_text(encoding="utf-8"), encoding="utf-8")
    source = f"{own}:Bookshop"
    options: dict[str, Any] = {"steps": 120, "out": tmp_path / "run", "jobs": 1, "settings": ["env.shelf=5"]}
    first = zoosim.run(source, policies=["random", "linucb"], seeds=2, log=True, **options)
    assert first.failures == ()
    log = zoosim.evaluate(tmp_path / "run" / "log" / "random" / "0.parquet", ["random"])
    assert log.logged.mean == pytest.approx(
        first.rows.filter((pl.col("policy") == "random") & (pl.col("seed") == 0))["reward"].mean()
    )
    before = first.rows
    more = zoosim.run(source, policies=["random", "linucb", "shared-linucb"], seeds=2, **options)
    kept = more.rows.filter(pl.col("policy") != "shared-linucb")
    assert kept.equals(before)
    with pytest.raises(ConfigError, match=r"env\.shelf"):
        zoosim.run(source, policies=["random"], seeds=1, **{**options, "settings": ["env.shelf=6"]})
    own.unlink()
    assert zoosim.read_run(tmp_path / "run").summary["policies"].keys() == more.summary["policies"].keys()
    with pytest.raises(WorldError, match="is not there"):
        zoosim.run(source, policies=["random"], seeds=1, **options)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (
            "    def serve(self, visit, action):\n        return 1 / 0\n",
            r"Own failed, seed 0, step 0 at shop.py:\d+: Zero",
        ),
        ("    def arrive(self, step):\n        raise ValueError('closed')\n", "ValueError: closed"),
        ("    def serve(self, visit, action):\n        return 3\n", "AttributeError"),
    ],
)
def test_a_world_that_fails_is_told_in_one_line(code: str, message: str, tmp_path: Path) -> None:
    example = Path(BOOKSHOP.rpartition(":")[0]).read_text(encoding="utf-8")
    text = f"{example}\n\nclass Own(Bookshop):\n    name = 'Own'\n\n{code}"
    (tmp_path / "shop.py").write_text(text, encoding="utf-8")
    with pytest.raises(WorldError, match=message):
        zoosim.run(f"{tmp_path / 'shop.py'}:Own", policies=["random"], seeds=1, steps=10, jobs=1)


@pytest.mark.parametrize(
    ("settings", "policies", "message"),
    [
        (["env.shelf=1"], ["random"], "shelf"),
        (["env.colour=1"], ["random"], "colour"),
        ([], ["item-critic"], "chooses boosts, and Bookshop asks for products"),
        ([], ["static-mlp"], "wants a log of the past, and Bookshop has none"),
    ],
)
def test_what_does_not_fit_a_world_is_refused(settings: list[str], policies: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        zoosim.run(BOOKSHOP, policies=policies, seeds=1, steps=10, settings=settings)


def test_late_rewards_reach_policies_of_boosts_with_their_feedback(tmp_path: Path) -> None:
    """Rewards of the last 5 visits never come, and those before in the order of their visits."""
    heard: list[tuple[int, float]] = []

    class Listener(NormalBoosts):
        name = "listener"

        def learn(self, context: Any, action: Any, reward: float, feedback: Any) -> None:
            heard.append((int(context.user_id), reward))
            assert set(feedback) >= {"shown", "clicks", "purchases"}

    world = search_world(SearchConfig(**SHOP), seed=1, steps=30, action_space="boosts")
    spec: Any = world.spec(30)
    (block,) = play(world, Listener(spec, np.random.default_rng(0)), 30, feedback=FeedbackTiming(delay=5), judged=False)
    assert heard == list(zip(block.user_ids[:25].tolist(), block.rewards[:25].tolist(), strict=True))
    assert np.isnan(block.best_rewards).all()


def test_policies_that_cannot_learn_from_amounts_are_not_among_the_defaults(tmp_path: Path) -> None:
    example = Path(BOOKSHOP.rpartition(":")[0]).read_text(encoding="utf-8")
    text = f"{example}\n\nclass Priced(Bookshop):\n    reward_range = (0.0, 50.0)\n"
    (tmp_path / "shop.py").write_text(text, encoding="utf-8")
    result = zoosim.run(f"{tmp_path / 'shop.py'}:Priced", seeds=1, steps=30, jobs=1, out=tmp_path / "run")
    assert result.failures == ()
    assert set(result.policies["policy"]) == {"random", "greedy", "linucb", "d-linucb", "adaptive"}
    with pytest.raises(ConfigError, match="shared-linucb: learns from rewards of 0 to 1, and those of Priced are"):
        zoosim.run(f"{tmp_path / 'shop.py'}:Priced", policies=["shared-linucb"], seeds=1, steps=30, jobs=1)


def test_a_world_that_does_not_list_its_products_writes_no_log(tmp_path: Path) -> None:
    example = Path(BOOKSHOP.rpartition(":")[0]).read_text(encoding="utf-8")
    text = f"{example}\n\nclass Unlisted(Bookshop):\n    all_products = zoosim.World.all_products\n"
    (tmp_path / "shop.py").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match="Unlisted does not list its products"):
        zoosim.run(f"{tmp_path / 'shop.py'}:Unlisted", seeds=1, steps=30, jobs=1, log=True, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_trials_of_a_world_that_was_edited_are_not_compared_with_new_ones(tmp_path: Path) -> None:
    own = tmp_path / "shop.py"
    example = Path(BOOKSHOP.rpartition(":")[0]).read_text(encoding="utf-8")
    own.write_text(example, encoding="utf-8")
    options: dict[str, Any] = {"seeds": 1, "steps": 60, "jobs": 1, "out": tmp_path / "run"}
    zoosim.run(f"{own}:Bookshop", policies=["random", "linucb"], **options)
    own.write_text(example.replace("0.30, 0.05", "0.90, 0.85"), encoding="utf-8")
    with pytest.raises(ConfigError, match="trials of linucb in a world whose code has changed since"):
        zoosim.run(f"{own}:Bookshop", policies=["random"], **options)
    both = zoosim.run(f"{own}:Bookshop", policies=["random", "linucb"], **options)
    assert sum("its code has changed" in note for note in both.notes) == 2


def test_the_ids_of_a_world_s_products_are_those_of_its_logs(tmp_path: Path) -> None:
    example = Path(BOOKSHOP.rpartition(":")[0]).read_text(encoding="utf-8")
    text = example.replace('"product_ids": books.copy()', '"product_ids": 1_000 + 7 * books').replace(
        "np.arange(self.n_books), self.features", "1_000 + 7 * np.arange(self.n_books), self.features"
    )
    (tmp_path / "shop.py").write_text(text, encoding="utf-8")
    zoosim.run(
        f"{tmp_path / 'shop.py'}:Bookshop",
        policies=["random"],
        seeds=1,
        steps=50,
        jobs=1,
        log=True,
        out=tmp_path / "run",
    )
    log = read_log(tmp_path / "run" / "log" / "random" / "0.parquet")
    assert log.product_ids[:3].tolist() == [1_000, 1_007, 1_014]


def test_rewards_segments_and_declarations_may_be_of_numpys_types_and_computed(tmp_path: Path) -> None:
    code = """
import functools
import numpy as np

class Own(Bookshop):
    weight = zoosim.parameter(1, low=np.int64(0))

    @functools.cached_property
    def reported_segments(self):
        return ("one", "other")

    def serve(self, visit, action):
        return zoosim.Outcome(np.bool_(self.rng("coin", visit[0]).random() < 0.5), segment=np.int64(1))
"""
    example = Path(BOOKSHOP.rpartition(":")[0]).read_text(encoding="utf-8")
    (tmp_path / "shop.py").write_text(f"{example}\n{code}", encoding="utf-8")
    world = f"{tmp_path / 'shop.py'}:Own"
    comparison = zoosim.run(world, policies=["random"], seeds=1, steps=50, jobs=1, out=tmp_path / "run")
    assert not comparison.failures
    assert set(comparison.rows["reward"].to_list()) == {0.0, 1.0}


@pytest.mark.parametrize(
    ("outcome", "message"),
    [
        ("zoosim.Outcome(2.0)", "reward 2.0 lies outside reward_range, 0 to 1"),
        ("zoosim.Outcome(float('nan'))", "reward nan lies outside reward_range"),
        ("zoosim.Outcome('x')", "the reward is 'x', expected a number"),
        ("zoosim.Outcome(1.0, segment='x')", "the segment is 'x', expected the number of one"),
        ("zoosim.Outcome(1.0, segment=10**30)", "the segment is 1000.*, expected the number of one"),
        ("zoosim.Outcome(1.0, None, {'reward': 7.0})", "a part of the reward is called 'reward'"),
        ("None", "AttributeError"),
    ],
)
def test_outcomes_that_break_the_contract_are_told_of_the_world(outcome: str, message: str, tmp_path: Path) -> None:
    example = Path(BOOKSHOP.rpartition(":")[0]).read_text(encoding="utf-8")
    text = f"{example}\n\nclass Own(Bookshop):\n    def serve(self, visit, action):\n        return {outcome}\n"
    (tmp_path / "shop.py").write_text(text, encoding="utf-8")
    with pytest.raises(WorldError, match=message):
        zoosim.run(f"{tmp_path / 'shop.py'}:Own", policies=["random"], seeds=1, steps=10, jobs=1, out=tmp_path / "run")


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("    def __init__(self, seed, steps, **params):\n        pass\n", "cannot be made for seed 0|has no seed"),
        ("    reward_range = 3\n", "has the reward_range 3, expected"),
        ("    reward_range = (1.0, 0.0)\n", "has the reward_range"),
        ("    def spec(self, steps):\n        return None\n", "spec returned None, expected a zoosim.PolicySpec"),
        ("    def context(self, visit):\n        return None\n", "context returned NoneType, expected zoosim.Context"),
        (
            "    def context(self, visit):\n        return zoosim.Context(user_id=0)\n",
            "the context lacks user, product_ids, products, available",
        ),
        (
            "    def truth(self, visit):\n        return zoosim.Truth(lambda a: 0.0, float('inf'))\n",
            "best_reward is inf",
        ),
        (
            "    def serve(self, visit, action):\n        return zoosim.Outcome(1.0, None, {3: 1.0})\n",
            "a part of the reward is called 3",
        ),
        ("    def all_products(self):\n        return None\n", "all_products returned NoneType"),
        (
            "    def all_products(self):\n        listed = super().all_products()\n"
            "        return zoosim.ProductList(*(column[:5] for column in listed))\n",
            "which all_products does not list",
        ),
    ],
)
def test_a_world_that_breaks_the_contract_is_named(code: str, message: str, tmp_path: Path) -> None:
    example = Path(BOOKSHOP.rpartition(":")[0]).read_text(encoding="utf-8")
    (tmp_path / "shop.py").write_text(f"{example}\n\nclass Own(Bookshop):\n{code}", encoding="utf-8")
    out = tmp_path / "run"
    with pytest.raises(WorldError, match=message):
        zoosim.run(f"{tmp_path / 'shop.py'}:Own", policies=["random"], seeds=1, steps=10, jobs=1, log=True, out=out)
