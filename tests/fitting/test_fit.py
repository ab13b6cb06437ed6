"""Worlds estimated from logs: what a known world's log gives back, and what runs on it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import yaml

import zoosim
from tests.fitting.shops import CLICKS, MIX, by_mix, shop_log
from tests.logs.test_open_bandit import real as real  # a fixture: the real logs
from zoosim.api.runs import write_log
from zoosim.core.config import EnvConfig, build
from zoosim.core.errors import ConfigError, DataError
from zoosim.fitting import FittedWorld, check_fit, fit_world
from zoosim.fitting.drift import find_changes
from zoosim.logs.parse import read_log
from zoosim.off_policy.groups import group_rows
from zoosim.report.fit import build_page


def table(world: FittedWorld) -> dict[tuple[str, str], tuple[float, float, float]]:
    return {(cell.segment, cell.category): cell[5:] for cell in world.cells if cell.start == 0}


def test_the_click_table_of_a_known_world_comes_back_within_its_error() -> None:
    """400 logs of 6,000 rows by a policy that favours what is clicked, seeds 0 to 399: 93 to 97% of 6,000 cells."""
    hits = []
    for seed in range(400):
        log = shop_log(np.random.default_rng(seed), 6_000)
        world = fit_world(log)
        truth = CLICKS[by_mix(log)]
        for cell in world.cells:
            chance = truth[int(cell.segment[8:]) - 1, int(cell.category[9:]) - 1]
            hits.append(cell.low <= chance <= cell.high)
    assert 0.93 < float(np.mean(hits)) < 0.97


def test_a_log_of_a_shop_gives_back_its_world_and_a_run(tmp_path: Path) -> None:
    """20,000 visits of the pet shop, seed 5: cells within 4 standard errors, and the arena runs on the result."""
    write_log(tmp_path / "log.parquet", n=20_000, seed=5, settings=["env.n_products=20"])
    world, fit = zoosim.fit_world(tmp_path / "log.parquet", tmp_path / "world")
    assert (world.category_names, world.changes, world.selected) == (tuple(sorted(EnvConfig().categories)), (), ())
    personas = {tuple(row[c] for c in world.category_names) for row in EnvConfig().personas.values()}
    for segment in world.segment_names:
        row = [table(world)[segment, category] for category in world.category_names]
        low, high = np.array([2 * r[1] - r[0] for r in row]), np.array([2 * r[2] - r[0] for r in row])
        assert any(((low <= persona) & (persona <= high)).all() for persona in np.array(list(personas)))
    assert fit.gain.low is not None
    assert fit.gain.low > 0.0
    text = (tmp_path / "world" / "world.yaml").read_text(encoding="utf-8")
    env: EnvConfig = build(EnvConfig, yaml.safe_load(text)["env"], "env")
    assert (env.n_products, env.category_sizes) == (20, dict.fromkeys(world.category_names, 4))
    config = tmp_path / "world" / "world.yaml"
    run = zoosim.run("gauntlet", config=config, policies=["random"], seeds=1, steps=500, jobs=1, out=tmp_path / "run")
    assert run.notes == ()
    page = (tmp_path / "world" / "report.html").read_text(encoding="utf-8")
    assert "fish_hobbyist" not in page
    assert fit.sentence.split(".")[0] in page


def test_shocks_are_found_when_and_where_they_are() -> None:
    """20 logs of 20,000 rows, seeds 0 to 19: two cells change at 60%; the time is right to 2%; no other is found."""
    later = CLICKS.copy()
    later[0, 3], later[1, 0] = 0.15, 0.45
    for seed in range(20):
        log = shop_log(np.random.default_rng(seed), 20_000, later=later, at=0.6)
        world = fit_world(log)
        [change] = world.changes
        assert abs(change.row - 12_000) < 400
        moved = {(cell.segment, cell.category): cell for cell in world.cells if cell.start}
        assert set(moved) >= {("segment 1", "category 4"), ("segment 2", "category 1")}
        assert len(moved) <= 3
        cell = moved["segment 1", "category 4"]
        assert abs(cell.estimate - 0.15) < (cell.high - cell.low)
        [shock] = world.config["env"]["shocks"]
        assert shock["step"] == change.row
        assert shock["set"]["segment 1"]["category 4"] == round(cell.estimate, 6)


def test_changes_are_seldom_found_where_there_are_none() -> None:
    """300 logs without a change, seeds 0 to 299: 1% false alarms at most are promised; 9 of 300 is 3.5 sd above."""
    alarms = 0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        cells = rng.integers(15, size=5_000)
        alarms += bool(find_changes(cells, (rng.random(5_000) < CLICKS.ravel()[cells]).astype(float), 15))
    assert alarms < 9


def test_a_policy_that_chooses_within_cells_is_named() -> None:
    """Products of one category with different click rates, the better one favoured: weighting moves that cell."""
    rng, n = np.random.default_rng(0), 20_000
    favoured = rng.random(n) < 0.8
    chance = np.where(favoured, 0.4, 0.1)
    changes: dict[str, Any] = {
        "actions": np.where(favoured, 0, 5),  # both of the first category
        "propensities": np.where(favoured, 0.8, 0.2),
        "rewards": (rng.random(n) < chance).astype(float),
    }
    log = shop_log(rng, n, **changes)
    assert {category for _, category in fit_world(log).selected} == {"category 1"}
    assert "weighting by propensity" in build_page(fit_world(log), check_fit(log)).verdict
    assert fit_world(shop_log(rng, n)).selected == ()


def test_patterns_come_before_clusters() -> None:
    rng = np.random.default_rng(0)
    patterns = np.eye(3)[rng.integers(3, size=900)]
    noise = rng.normal(size=(900, 2))
    groups = group_rows(np.hstack([patterns, noise]), 12, 4)
    assert groups.n_groups == 3
    assert groups.how == "patterns of 3 columns; 2 columns of numbers are not used"
    np.testing.assert_array_equal(groups.assign(np.hstack([patterns, noise])), groups.labels)
    apart = noise + 20 * rng.integers(2, size=(900, 1))
    found = group_rows(apart, 12, 2)
    np.testing.assert_array_equal(found.labels == found.labels[0], (apart[:, 0] > 10) == (apart[0, 0] > 10))
    assert group_rows(np.ones((5, 2)), 12, 4).n_groups == 1
    assert group_rows(np.zeros((5, 0)), 12, 4).n_groups == 1


def test_the_fit_on_held_out_rows_is_right_as_often_as_it_says() -> None:
    """200 logs of 4,000 rows, seeds 0 to 199: clicks lie within the range in 91 to 99% of them (4 standard errors)."""
    inside = []
    for seed in range(200):
        share = check_fit(shop_log(np.random.default_rng(seed), 4_000)).shares[0]
        inside.append(share.low <= share.clicks <= share.high)
    assert 0.89 < float(np.mean(inside)) <= 0.995


def test_a_fit_is_not_oversold() -> None:
    rng = np.random.default_rng(0)
    flat = check_fit(shop_log(rng, 8_000, clicks=np.full((3, 5), 0.1)))
    assert "cannot be shown that its segments and categories tell more" in flat.sentence
    rare = check_fit(shop_log(rng, 2_000, clicks=np.full((3, 5), 0.004)))
    assert "too few clicks to tell" in rare.sentence
    later = np.full((3, 5), 0.4)
    jumped = check_fit(shop_log(rng, 8_000, clicks=np.full((3, 5), 0.1), later=later, at=0.75))
    assert "(beyond chance)" in jumped.sentence


def test_held_out_are_whole_days() -> None:
    n, day = 8_000, 86_400_000_000
    times = np.sort(np.random.default_rng(0).integers(7 * day, size=n))[::-1].copy()
    fit = check_fit(shop_log(np.random.default_rng(0), n, times=times))
    assert (fit.days, fit.n) == (2, int((times >= 5 * day).sum()))
    assert [share.name for share in fit.shares if share.kind == "day"] == ["1970-01-06", "1970-01-07"]


def test_mix_and_sizes_are_those_of_the_log() -> None:
    log = shop_log(np.random.default_rng(0), 20_000)
    world = fit_world(log)
    np.testing.assert_allclose(world.mix, MIX, atol=0.02)
    assert sum(world.config["env"]["persona_mix"].values()) == pytest.approx(1.0, abs=1e-9)
    assert world.sizes == (4, 4, 4, 4, 4)
    few = fit_world(replace(log, products=np.zeros((20, 0))))
    assert (few.categories.how, len(few.category_names)) == ("each product its own", 20)


@pytest.mark.parametrize(
    ("changes", "options", "error", "words"),
    [
        ({"rewards": np.full(100, 0.5)}, {}, DataError, "row 0, column reward: got 0.5, expected clicks, 0 or 1"),
        ({}, {"segments": 0}, ConfigError, "segments: got 0, expected a whole number of at least 1"),
        (
            {"products": np.zeros((20, 0))},
            {"categories": 4},
            DataError,
            "20 products, and nothing tells categories of 4",
        ),
    ],
)
def test_what_is_no_log_of_clicks_is_refused(changes: Any, options: Any, error: Any, words: str) -> None:
    log = shop_log(np.random.default_rng(0), 100, **changes)
    with pytest.raises(error, match=words):
        fit_world(log, **options)


def test_a_short_log_is_refused() -> None:
    with pytest.raises(DataError, match="30 rows, expected at least 80, of which the last quarter is held out"):
        check_fit(shop_log(np.random.default_rng(0), 30))


def test_the_real_log_gives_a_world_that_runs(real: Path, tmp_path: Path) -> None:
    world, fit = zoosim.fit_world("open-bandit:random/all", tmp_path / "world", data=real)
    assert (world.n, fit.days, fit.clicks) == (10_000, 2, 9)
    assert "too few clicks to tell" in fit.sentence
    assert sum(cell.clicks for cell in world.cells) == 38
    config = tmp_path / "world" / "world.yaml"
    run = zoosim.run("gauntlet", config=config, policies=["random"], seeds=1, steps=2_000, jobs=1, out=tmp_path / "run")
    assert run.failures == ()


def test_a_catalogue_names_the_categories(tmp_path: Path) -> None:
    write_log(tmp_path / "log.parquet", n=200, settings=["env.n_products=6"])
    log = read_log(tmp_path / "log.parquet")
    assert set(log.categories) == set(EnvConfig().categories)
    assert len(log.categories) == 6


def test_a_last_day_of_few_rows_is_no_reason_to_refuse_a_log() -> None:
    """300 rows of which 3 fall into a second day: the last quarter of the rows is held out."""
    log = replace(shop_log(np.random.default_rng(0), 300), times=np.where(np.arange(300) < 297, 0, 86_400_000_000))
    fit = check_fit(log)
    assert (fit.n, fit.n_fitted, fit.days) == (75, 225, 0)


def test_a_broken_table_of_products_is_refused(tmp_path: Path) -> None:
    write_log(tmp_path / "log.parquet", n=200)
    (table,) = tmp_path.glob("catalogue-*.parquet")
    sound = pl.read_parquet(table)
    for broken, words in (
        (sound.drop("product"), "is no table of products, or broken"),
        (sound.with_columns(category=pl.when(pl.col("category") == "x").then(None)), "lacks a category"),
        (sound.with_columns(product=pl.Series([[np.nan]] * len(sound))), "lacks a category, or a number"),
    ):
        broken.write_parquet(table)
        with pytest.raises(DataError, match=words):
            read_log(tmp_path / "log.parquet")
    table.write_bytes(table.read_bytes()[:100])
    with pytest.raises(DataError, match="is no table of products, or broken"):
        read_log(tmp_path / "log.parquet")


def test_the_page_tells_nothing_of_a_segment_of_few_visits(tmp_path: Path) -> None:
    """19 visits of a pattern that nobody else has: their features stay off the page; 20 are told."""
    for few, told in ((19, False), (20, True)):
        log = shop_log(np.random.default_rng(0), 4_000)
        features = np.hstack([log.features, np.zeros((4_000, 1))])
        features[:few] = [0.0, 0.0, 0.0, 1.0]
        zoosim.fit_world(replace(log, features=features), tmp_path / f"{few}")
        page = (tmp_path / f"{few}" / "report.html").read_text(encoding="utf-8")
        assert ("not told of fewer than 20 visits" in page) == (not told)
        assert ("column 3: 1" in page) == told
