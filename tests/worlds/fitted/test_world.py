"""Fitted worlds: the contract, the compiled loop against the plain one, their file, and the way to the real shop."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import zoosim
from tests.fitting.shops import CLICKS, shop_log
from zoosim.api.runs import write_log
from zoosim.arena.loop import _play_visits, play
from zoosim.core.errors import ConfigError, DataError
from zoosim.core.feedback import AT_ONCE
from zoosim.core.types import IntArray
from zoosim.fitting.fit import fit_shop
from zoosim.logs.parse import read_log
from zoosim.policies.registry import find_class
from zoosim.terminal.experiments import print_experiment
from zoosim.worlds.check import CHECKS, check_worlds_of
from zoosim.worlds.fitted.file import load_world, save_world
from zoosim.worlds.fitted.shop import FittedShop
from zoosim.worlds.fitted.world import FittedWorld, build_fitted_world, visits_in_time

STEPS = 4_000


def made_log(**changes: Any) -> Any:
    """Return a log of visitors who come again, whose clicks change at 60%."""
    later = CLICKS.copy()
    later[0, 3] = 0.1
    return shop_log(np.random.default_rng(0), 6_000, later=later, at=0.6, rows_a_user=4, **changes)


@pytest.fixture(scope="module")
def shop() -> FittedShop:
    return fit_shop(made_log()).shop


@pytest.fixture(scope="module")
def paying() -> FittedShop:
    log = made_log()
    amounts = np.exp(np.random.default_rng(1).normal(2.0, 0.5, len(log)))
    return fit_shop(replace(log, rewards=log.rewards * amounts), reward="revenue").shop


@pytest.fixture(params=["shop", "paying"])
def either(request: pytest.FixtureRequest) -> FittedShop:
    made: FittedShop = request.getfixturevalue(request.param)
    return made


def test_fitted_worlds_keep_the_contract(either: FittedShop) -> None:
    results = check_worlds_of(FittedWorld, lambda seed: build_fitted_world(either, seed=seed, steps=STEPS))
    assert [(result.name, result.message) for result in results if not result.ok] == []
    assert len(results) == len(CHECKS)


@pytest.mark.parametrize("name", ["linucb", "random"])
def test_the_compiled_loop_gives_the_rows_of_the_plain_one(either: FittedShop, name: str) -> None:
    rows = []
    for is_compiled in (True, False):
        world = build_fitted_world(either, seed=3, steps=1_500)
        policy = find_class(name)(world.spec(1_500), np.random.default_rng(0))
        options: Any = {"feedback": AT_ONCE, "logged": True, "judged": True}
        blocks = list((play if is_compiled else _play_visits)(world, policy, 1_500, **options))
        columns = ("actions", "rewards", "propensities", "expected_rewards", "best_rewards", "user_ids")
        rows.append([np.concatenate([getattr(block, column) for block in blocks]) for column in columns])
    for compiled, plain in zip(*rows, strict=True):
        np.testing.assert_allclose(compiled, plain, rtol=1e-12)


def test_visits_come_in_order_and_as_often_as_in_the_log(shop: FittedShop) -> None:
    drawn = visits_in_time(shop, 100_000, np.random.default_rng(0))
    assert (np.diff(drawn) >= 0).all()
    counts = np.bincount(drawn, minlength=shop.n_rows)
    assert counts.var() == pytest.approx(100_000 / shop.n_rows, rel=0.1)  # Poisson
    [change] = shop.changes
    world = build_fitted_world(shop, seed=0, steps=1_000)
    [(step, _)] = world.shocks
    rows = world.visitors(0, 1_000)
    assert (rows[:step] < change.row).all()
    assert (rows[step:] >= change.row).all()
    assert (world.before().visitors(0, 1_000) < change.row).all()


def test_seeds_are_other_shops_and_their_mean_is_that_of_the_draws(shop: FittedShop) -> None:
    rows = np.arange(200)
    first, second, again = (shop.chances(shop.draw(number), rows) for number in (0, 1, 0))
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - second).mean() > 0.005
    pairs = shop.chances_of(shop.draw(1), rows, np.full(200, 7))
    np.testing.assert_allclose(pairs, second[:, 7])


def test_a_saved_world_is_the_same_world(either: FittedShop, tmp_path: Path) -> None:
    loaded = load_world(save_world(either, tmp_path / "shop.world"))
    ours, theirs = (build_fitted_world(shop, seed=5, steps=100).visits(0, 100) for shop in (either, loaded))
    np.testing.assert_array_equal(ours.table, theirs.table)
    np.testing.assert_array_equal(ours.rewards, theirs.rewards)
    assert loaded.facts == either.facts
    again = save_world(loaded, tmp_path / "again.world")
    assert again.read_bytes() == (tmp_path / "shop.world").read_bytes()


def test_broken_files_are_refused(shop: FittedShop, tmp_path: Path) -> None:
    whole = save_world(shop, tmp_path / "shop.world").read_bytes()
    broken = tmp_path / "broken.world"
    rng = np.random.default_rng(0)
    for position in [0, 20, 80, *rng.choice(len(whole), 30).tolist()]:
        flipped = bytearray(whole)
        flipped[position] ^= 4
        broken.write_bytes(flipped)
        with pytest.raises(DataError, match=r"broken\.world: is no fitted world, or broken; fit it anew"):
            load_world(broken)
    broken.write_bytes(whole[:-1])
    with pytest.raises(DataError, match="is no fitted world, or broken"):
        zoosim.run(str(broken), policies=["random"], seeds=1, steps=100)
    save_world(replace(shop, users=shop.users[:-1]), broken)
    with pytest.raises(DataError, match=r"is no fitted world, or broken \(.*users"):
        load_world(broken)
    with pytest.raises(DataError, match="no such file; zoosim fit-world writes them"):
        zoosim.run(str(tmp_path / "none.world"))
    with pytest.raises(ConfigError, match=r"expected a file in a folder that is there, ending in \.world"):
        save_world(shop, tmp_path / "shop.zip")


def test_a_run_is_resumed_and_told_again_without_the_file(paying: FittedShop, tmp_path: Path) -> None:
    world = save_world(paying, tmp_path / "shop.world")
    options: Any = {"seeds": 2, "steps": 400, "jobs": 1, "out": tmp_path / "run"}
    result = zoosim.run(str(world), policies=["random"], **options)
    assert result.summary["policies"]["random"]["reward"]["mean"] > 0.0
    more = zoosim.run(str(world), policies=["greedy"], **options)
    assert set(more.policies["policy"]) == {"random", "greedy"}
    with pytest.raises(ConfigError, match="learns from rewards of 0 to 1"):
        zoosim.run(str(world), policies=["shared-linucb"], seeds=1, steps=100)
    world.unlink()
    told = zoosim.read_run(tmp_path / "run")
    assert told.summary["policies"] == more.summary["policies"]
    assert len(told.plan.phases) == 1 + len(paying.changes)


def test_a_thinned_shop_keeps_its_visitors_and_changes(shop: FittedShop) -> None:
    thinned = shop.thinned(1_000)
    kept = np.linspace(0, shop.n_rows - 1, 1_000).astype(np.int64)
    np.testing.assert_array_equal(thinned.features, shop.features[kept])
    users = np.unique(shop.users[kept])
    np.testing.assert_array_equal(thinned.visitors.target, shop.visitors.target[users])
    assert thinned.changes[0].row == pytest.approx(shop.changes[0].row / 6, abs=1)
    assert thinned.n_users == len(users)


def shop_table(n: int, rng: np.random.Generator) -> tuple[pl.DataFrame, pl.DataFrame, IntArray]:
    """Return a shop's log and products: visitors click what is sold in their country's brand."""
    country, item = rng.integers(3, size=n), rng.integers(12, size=n)
    clicked = rng.random(n) < np.where(item % 3 == country, 0.4, 0.1)
    revenue = np.where(clicked, np.exp(rng.normal(2.0, 0.3, n)) * (1 + item), 0.0)
    table = pl.DataFrame(
        {
            "item": [f"SKU-{number}" for number in item],
            "p": np.full(n, 1 / 12),
            "click": clicked.astype(int),
            "revenue": revenue.round(2),
            "at": [f"2026-01-{1 + row * 20 // n:02}T12:00:00Z" for row in range(n)],
            "customer": [f"c{number}" for number in rng.integers(500, size=n)],
            "country": np.array(["de", "fr", "it"])[country],
        }
    )
    products = pl.DataFrame({"item": [f"SKU-{k}" for k in range(12)], "brand": [f"brand {k % 3}" for k in range(12)]})
    return table, products, country


def test_keys_of_a_fitted_world_are_facts_of_its_file(
    paying: FittedShop, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    print_experiment(str(save_world(paying, tmp_path / "shop.world")))
    printed = capsys.readouterr().out
    assert "  pays     amounts (clicks, amounts): what a visit earns\n" in printed
    assert "--set" not in printed


def test_what_is_trained_in_a_fitted_world_decides_in_the_real_shop(tmp_path: Path) -> None:
    """4,000 rows of a shop, seed 0; a model trained on 4,000 simulated ones chooses the visitor's brand."""
    table, products, _ = shop_table(4_000, np.random.default_rng(0))
    schema = {
        "columns": {"action": "item", "propensity": "p", "time": "at", "user_id": "customer"},
        "rewards": {"click": "click", "revenue": "revenue"},
        "features": {"country": "category"},
        "products": {"table": products, "id": "item", "category": "brand", "features": ["brand"]},
    }
    zoosim.import_log(table, schema, tmp_path / "real.parquet")
    _, checks = zoosim.fit_world(tmp_path / "real.parquet", tmp_path / "world")
    assert all(comparison.agrees for comparison in checks.comparisons)
    write_log(tmp_path / "simulated.parquet", n=4_000, seed=1, world=tmp_path / "world" / "shop.world")
    real, simulated = (read_log(tmp_path / f"{name}.parquet") for name in ("real", "simulated"))
    assert simulated.fitted == real.fitted
    assert simulated.names == real.names
    np.testing.assert_array_equal(simulated.product_ids, real.product_ids)
    np.testing.assert_array_equal(simulated.products, real.products)
    assert {row.tobytes() for row in simulated.features} <= {row.tobytes() for row in real.features}
    model = zoosim.train(tmp_path / "simulated.parquet", ["linear"], tmp_path / "m.zoosim").model
    for number, country in enumerate(("de", "fr", "it")):
        assert int(model.recommend({"country": country}).removeprefix("SKU-")) % 3 == number
    [judged] = zoosim.evaluate(tmp_path / "real.parquet", {"m": model}, estimators=["snips"]).results
    assert judged.low is not None
    assert judged.low > 0.3
    revenue, _ = zoosim.fit_world(tmp_path / "real.parquet", reward="revenue")
    best = revenue.expected_rewards(revenue.draw(0), np.arange(300)).argmax(axis=1)
    assert np.mean([int(revenue.names[product].removeprefix("SKU-")) > 8 for product in best]) > 0.9
