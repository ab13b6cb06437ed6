"""Records: what a shop would log, one row an interaction, without the truth."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import zoosim
from zoosim.api.runs import write_log
from zoosim.arena.block import Block
from zoosim.arena.loop import play
from zoosim.arena.recording import catalogue_hash, record_frames, to_records, write_records
from zoosim.core.config import EnvConfig
from zoosim.logs.parse import read_log
from zoosim.policies.registry import find_class
from zoosim.worlds.recommendation.world import build_world
from zoosim.worlds.table import TableWorld

STEPS = 600
CONFIG: dict[str, Any] = {
    "n_products": 6,
    "n_users": 20,
    "noise_features": {"user": 1, "product": 2},
    "shocks": [],
    "availability": [{"step": 250, "change": "run-out", "products": [1, 4], "until": 400}],
}
SCHEMA = {
    "decision_id": pl.String,
    "time": pl.Datetime("us", "UTC"),
    "user_id": pl.Int64,
    "user": pl.List(pl.Float64),
    "catalogue": pl.String,
    "unavailable": pl.List(pl.Int64),
    "action": pl.Int64,
    "product_id": pl.Int64,
    "position": pl.Int32,
    "propensity": pl.Float64,
    "reward": pl.Float64,
    "click": pl.Int8,
    "policy": pl.String,
    "policy_version": pl.String,
    "seed": pl.Int64,
    "step": pl.Int64,
}


def world(seed: int = 3) -> TableWorld:
    return build_world(EnvConfig.model_validate(CONFIG), seed=seed)


def blocks(name: str = "random", seed: int = 3) -> list[Block]:
    policy = find_class(name)(world(seed).spec(STEPS), np.random.default_rng(1))
    return list(play(world(seed), policy, STEPS, logged=True))


@pytest.fixture(scope="module")
def frame() -> pl.DataFrame:
    return pl.concat(record_frames(world(), blocks(), "random", "v1"))


def test_columns_are_the_documented_ones(frame: pl.DataFrame) -> None:
    assert dict(frame.schema) == SCHEMA
    assert list(frame.schema) == list(SCHEMA)
    assert frame.null_count().sum_horizontal().item() == 0


def test_the_truth_is_not_in_it(frame: pl.DataFrame) -> None:
    assert not [name for name in frame.columns if "probab" in name or "best" in name or "segment" in name]


def test_rows_are_the_visits_in_order(frame: pl.DataFrame) -> None:
    """Of three blocks, cut where what is on sale changes."""
    made = blocks()
    assert [block.start for block in made] == [0, 250, 400]
    assert frame["step"].to_list() == [*range(STEPS)]
    assert frame["decision_id"].to_list() == [f"random-3-{step}" for step in range(STEPS)]
    for column, field in [("action", "actions"), ("reward", "rewards"), ("propensity", "propensities")]:
        assert np.array_equal(frame[column].to_numpy(), np.concatenate([getattr(block, field) for block in made]))
    assert np.array_equal(frame["click"].to_numpy(), frame["reward"].to_numpy())
    assert frame["product_id"].to_list() == frame["action"].to_list()
    assert set(frame["position"]) == {0}
    assert (set(frame["policy"]), set(frame["policy_version"]), set(frame["seed"])) == ({"random"}, {"v1"}, {3})


def test_the_user_is_who_came(frame: pl.DataFrame) -> None:
    visitors = world().visitors(0, STEPS)
    assert np.array_equal(frame["user_id"].to_numpy(), visitors)
    assert np.array_equal(np.array(frame["user"].to_list()), world().users[visitors])


def test_visits_are_a_second_apart_from_1970_on(frame: pl.DataFrame) -> None:
    assert frame["time"].dt.epoch("us").to_list() == [1_000_000 * step for step in range(STEPS)]


def test_unavailable_products_are_listed_and_not_shown(frame: pl.DataFrame) -> None:
    gone = [[1, 4] if 250 <= step < 400 else [] for step in range(STEPS)]
    assert frame["unavailable"].to_list() == gone
    assert not any(action in out for action, out in zip(frame["action"], gone, strict=True))


def test_propensities_are_those_of_the_policy(frame: pl.DataFrame) -> None:
    """Uniform: 1 of 6 products, 1 of 4 while two are out. A policy that does not draw has 1."""
    assert frame["propensity"].to_list() == [1 / 4 if 250 <= step < 400 else 1 / 6 for step in range(STEPS)]
    certain = pl.concat(record_frames(world(), blocks("linucb"), "linucb", "v1"))
    assert set(certain["propensity"]) == {1.0}
    # epsilon / n for a product that was drawn, that and 1 - epsilon for the best one
    greedy = pl.concat(record_frames(world(), blocks("greedy"), "greedy", "v1"))
    assert set(greedy["propensity"].round(9)) == {
        round(p, 9) for p in (0.05 / 6, 0.95 + 0.05 / 6, 0.05 / 4, 0.95 + 0.05 / 4)
    }


def test_weighting_by_propensity_finds_the_value_of_each_product(frame: pl.DataFrame) -> None:
    """Inverse propensity weighting of a product's clicks against its true mean probability, 4 standard errors."""
    here = world()
    visitors, tables = here.visitors(0, STEPS), [here.period(step).table for step in range(STEPS)]
    weights = (frame["action"] == 0).to_numpy() / frame["propensity"].to_numpy() * frame["reward"].to_numpy()
    true = np.array([table[here.segments[v], here.groups[0]] for table, v in zip(tables, visitors, strict=True)])
    assert abs(weights.mean() - true.mean()) < 4 * weights.std(ddof=1) / np.sqrt(STEPS)


def test_a_log_lies_beside_its_product_table(tmp_path: Path) -> None:
    write_records(tmp_path / "log.parquet", world(), record_frames(world(), blocks(), "random", "v1"))
    name = f"catalogue-{catalogue_hash(world().all_products())}.parquet"
    assert sorted(path.name for path in tmp_path.iterdir()) == [name, "log.parquet"]
    log, table = pl.read_parquet(tmp_path / "log.parquet"), pl.read_parquet(tmp_path / name)
    assert dict(log.schema) == SCHEMA
    assert {f"catalogue-{value}.parquet" for value in log["catalogue"]} == {name}
    assert dict(table.schema) == {"product_id": pl.Int64, "category": pl.String, "product": pl.List(pl.Float64)}
    assert table["product_id"].to_list() == [*range(6)]
    assert table["category"].to_list() == [world().group_names[group] for group in world().groups]
    assert np.array_equal(np.array(table["product"].to_list()), world().products)


def test_the_schema_version_is_in_the_metadata(tmp_path: Path) -> None:
    write_records(tmp_path / "log.parquet", world(), record_frames(world(), blocks(), "random", "v1"))
    for path in tmp_path.iterdir():
        meta = json.loads(pl.read_parquet_metadata(path)["zoosim"])
        assert meta["schema_version"] == 1
        assert meta["schema"] == ("record" if path.name == "log.parquet" else "catalogue")


def test_catalogues_are_told_apart_by_their_products(tmp_path: Path) -> None:
    """Two seeds have two tables, two policies of one seed share one."""
    for policy, seed in [("random", 3), ("linucb", 3), ("random", 4)]:
        frames = record_frames(world(seed), blocks(policy, seed), policy, "v1")
        write_records(tmp_path / f"{policy}-{seed}.parquet", world(seed), frames)
    assert len(list(tmp_path.glob("catalogue-*.parquet"))) == 2


def test_a_block_is_logged_by_itself() -> None:
    middle = to_records(world(), blocks()[1], "random", "v1")
    assert middle["step"].to_list() == [*range(250, 400)]
    assert dict(middle.schema) == SCHEMA


def test_a_run_keeps_the_log_of_each_trial(tmp_path: Path) -> None:
    """The same visits as the rows; the version tells parameters apart."""
    versions = set()
    for epsilon in (0.05, 0.2):
        settings = [f"policies.greedy.epsilon={epsilon}"]
        result = zoosim.run(
            "gauntlet",
            policies=["greedy", "random"],
            seeds=2,
            steps=STEPS,
            config={"env": CONFIG},
            settings=settings,
            jobs=1,
            out=tmp_path / str(epsilon),
            log=True,
        )
        logs = {path.relative_to(result.path / "log") for path in result.path.glob("log/*/[0-9]*.parquet")}
        assert logs == {Path(name) / f"{seed}.parquet" for name in ("greedy", "random") for seed in (0, 1)}
        log = pl.read_parquet(result.path / "log" / "greedy" / "1.parquet")
        rows = result.rows.filter(policy="greedy", seed=1)
        assert log["action"].to_list() == rows["action"].to_list()
        assert log["reward"].to_list() == rows["reward"].to_list()
        versions |= set(log["policy_version"])
    assert len(versions) == 2


def test_policies_are_trained_on_the_log_of_a_simulated_shop_and_decide_for_its_columns(tmp_path: Path) -> None:
    write_log(tmp_path / "log.parquet", n=2_000, settings=["env.n_products=6", "env.n_users=50"])
    training = zoosim.train(tmp_path / "log.parquet", ["linear"], tmp_path / "shop.zoosim")
    assert training.evaluation is not None
    assert training.evaluation.reward == "click"

    model = zoosim.load(tmp_path / "shop.zoosim")
    personas = list(EnvConfig.model_validate({}).personas)
    assert model.fitted.visitors.names == personas
    assert sum(model.propensities({personas[0]: 1.0}, ["0", "1", "5"]).values()) == pytest.approx(1.0)
    log = read_log(tmp_path / "log.parquet")
    visitor = dict(zip(personas, log.features[0], strict=True))
    assert model.fitted.visitors.encode_one(visitor).tolist() == log.features[0].tolist()
    assert model.catalogue.features.tolist() == log.products.tolist()
