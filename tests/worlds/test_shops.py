"""Shops drawn at random: what was drawn holds in what visitors do."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import special

import zoosim
from zoosim.api.runs import run
from zoosim.core.config import build
from zoosim.core.errors import ConfigError
from zoosim.worlds.shops.config import ShopsConfig
from zoosim.worlds.shops.draw import draw_kind
from zoosim.worlds.shops.world import ShopWorld, build_shop_world

SEEDS = range(12)


def shop(seed: int, steps: int = 2_000, **settings: Any) -> ShopWorld:
    return build_shop_world(build(ShopsConfig, settings, "env"), seed=seed, steps=steps)


def only(kind: str, name: str) -> dict[str, float]:
    """Return shares of which one is everything."""
    others = {"drift": ("none", "gradual"), "pays": ("click", "revenue")}[name]
    return {**dict.fromkeys(others, 0.0), kind: 1.0}


@pytest.mark.parametrize("seed", SEEDS)
def test_products_shown_at_random_are_clicked_as_often_as_the_kind_says(seed: int) -> None:
    world = shop(seed, pays=only("click", "pays"))
    first = world.visits(0, min(200, *(p.start for p in world.periods if p.start), 2_000))
    standing = world.before()
    tables = [standing.visits(start, start + 100).table.mean() for start in range(0, 2_000, 100)]
    assert first.table.shape == (len(first.visitors), world.kind.n_offered)
    assert np.mean(tables) == pytest.approx(world.kind.click_rate, rel=0.25)


@pytest.mark.parametrize("pays", ["click", "purchase", "revenue", "margin", "mixture"])
def test_the_table_is_the_mean_of_what_is_earned(pays: str) -> None:
    """Over the candidates of some shops, by the standard error of what was drawn."""
    expected, drawn = [], []
    for seed in SEEDS:
        world = shop(seed, pays=only(pays, "pays"), click_rate=[0.1, 0.2], purchase_rate=[0.03, 0.05])
        for period in world.periods:
            visits = world.visits(period.start, period.start + 50)
            expected.append(visits.table.ravel())
            drawn.append(visits.rewards.ravel())
    difference = np.concatenate(drawn) - np.concatenate(expected)
    assert abs(difference.mean()) < 4.0 * difference.std() / np.sqrt(len(difference))
    low, high = world.reward_range
    assert low <= np.concatenate(drawn).min()
    assert np.concatenate(drawn).max() <= high


def test_new_products_are_candidates_only_once_they_are_for_sale() -> None:
    world = shop(3, turnover={"share": 1, "size": [0.5, 0.5]}, visits_per_day=[500, 500])
    born = world.catalogue.born
    assert (born >= 0).any()
    for period in world.periods:
        assert period.offered is not None
        assert (born[period.offered] <= period.start).all()
        assert len(set(period.offered)) == world.kind.n_offered


def test_novelty_wears_off() -> None:
    sizes: tuple[dict[str, Any], ...] = ({"share": 0, "size": [0, 0]}, {"share": 1, "size": [2, 2]})
    turnover = {"share": 1, "size": [0.5, 0.5]}
    common: dict[str, Any] = {"turnover": turnover, "visits_per_day": [500, 500], "pays": only("click", "pays")}
    plain, new = (shop(3, effects={"novelty": size}, **common) for size in sizes)
    for period in new.periods:
        days = (period.start - new.catalogue.born[period.offered]) / 500
        logits = [special.logit(world.visits(period.start, period.start + 1).table[0]) for world in (new, plain)]
        assert logits[0] - logits[1] == pytest.approx(new.behaviour.level - plain.behaviour.level + 2 * np.exp(-days))


@pytest.mark.parametrize("drift", ["none", "gradual", "sudden", "swapped", "seasonal"])
def test_tastes_move_as_the_drift_says(drift: str) -> None:
    world = shop(5, drift={drift: 1.0})
    tastes = world.behaviour.tastes
    described = np.eye(world.kind.n_described)
    at = {step: tastes.logits(described, np.full(len(described), step)) for step in (0, 1, 700, 1_999)}
    moved = {step: float(np.abs(at[step] - at[0]).max()) for step in at}
    jumps = drift in ("sudden", "swapped")
    assert (moved[1_999] > 0.1) == (drift in ("gradual", "sudden", "swapped"))
    assert bool(world.shocks) == jumps
    assert (moved[1] > 0.0) == (drift in ("gradual", "seasonal"))
    assert (moved[700] > 0.0) or drift in ("none", "sudden", "swapped")
    if drift == "swapped":
        assert np.sort(at[1_999], axis=0) == pytest.approx(np.sort(at[0], axis=0))
    standing = world.before().behaviour.tastes
    assert standing.logits(described, np.full(len(described), 1_999)) == pytest.approx(at[0])


def test_each_seed_is_another_kind_of_shop() -> None:
    kinds = [draw_kind(ShopsConfig(), seed) for seed in range(200)]
    assert {kind.pays for kind in kinds} == {"click", "purchase", "revenue", "margin", "mixture"}
    assert {kind.drift for kind in kinds} == {"none", "gradual", "sudden", "swapped", "seasonal"}
    assert 0.3 < np.mean([kind.delay > 0 for kind in kinds]) < 0.7
    assert all(kind.n_categories <= kind.n_products // 2 for kind in kinds)
    assert all(kind.click_rate >= 2.0 * kind.purchase_rate for kind in kinds)
    assert all((kind.purchase_rate > 0.0) == (kind.pays != "click") for kind in kinds)


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"click_rate": [0.1, 0.01]}, "click_rate.*lower end comes first"),
        ({"products": [20]}, "products"),
        ({"drift": {"none": 0.5}}, "drift.*shares add up to 0.5"),
        ({"drift": {"slow": 1.0}}, "drift.*slow"),
        ({"effects": {"habits": {"size": [0, 9]}}}, "habits.size"),
        ({"effects": {"habit": {"size": [0, 1]}}}, "effects.habit"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings: dict[str, Any], match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        build(ShopsConfig, settings, "env")


def test_rewards_come_as_late_as_the_shop_says(tmp_path: Path) -> None:
    """What comes later than the run ends teaches nothing: then the greedy policy never leaves its first choice."""

    def settings(delay: float) -> list[str]:
        return [
            "env.delay.share=1",
            f"env.delay.visits=[{delay},{delay}]",
            "env.products=[20,20]",
            "env.turnover.share=0",
            "env.pays={click: 1}",
        ]

    late = run("shops", seeds=1, steps=300, policies=["greedy"], out=tmp_path / "late", settings=settings(400))
    soon = run("shops", seeds=1, steps=300, policies=["greedy"], out=tmp_path / "soon", settings=settings(1))
    said = ["run.delay=400", "env.delay.share=0", "env.products=[20,20]", "env.turnover.share=0", "env.pays={click: 1}"]
    same = run("shops", seeds=1, steps=300, policies=["greedy"], out=tmp_path / "same", settings=said)
    actions = [result.rows["action"] for result in (late, soon, same)]
    assert not actions[0].equals(actions[1])
    assert actions[0].equals(actions[2])


def test_a_log_of_a_shop_can_be_judged(tmp_path: Path) -> None:
    """Whoever chooses at random is worth what random choices earned, also among candidates that change."""
    run("shops", seeds=[4], steps=1_500, policies=["random"], out=tmp_path, log=True)
    path = tmp_path / "log" / "random" / "4.parquet"
    earned = pl.read_parquet(path)["reward"].mean()
    assert len(shop(4, 1_500).periods) > 1
    (result,) = zoosim.evaluate(path, ["random"], estimators=["ips"]).results
    assert result.value == pytest.approx(earned)
