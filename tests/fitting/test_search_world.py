"""A search world fitted to a log: what it simulates, what is written, and what the page says."""

import shutil
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import zoosim
from benchmarks.quality.own_search_shop import write_shop
from tests.logs.own_searches import write_searches
from tests.report.test_report import Shown
from zoosim.cli import app
from zoosim.core.config import read_config
from zoosim.core.errors import DataError
from zoosim.fitting.search_checks import simulate
from zoosim.fitting.search_design import estimate_tastes, query_categories, search_design, shop_sizes
from zoosim.fitting.search_parameters import EstimatedParameters, Layout, parameter_effects
from zoosim.fitting.search_world import FittedSearchWorld, fit_search_world
from zoosim.logs.parse import read_log
from zoosim.worlds.search.behaviour import behaviour_parameters
from zoosim.worlds.search.tables import read_search_config
from zoosim.worlds.search.world import build_search_world


@pytest.fixture(scope="module")
def log_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_searches(tmp_path_factory.mktemp("fit"), 4_000)


class Fitted(NamedTuple):
    """A world fitted to the log, in a folder, which tests only read."""

    world: FittedSearchWorld
    folder: Path


@pytest.fixture(scope="module")
def fitted(log_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Fitted:
    folder = tmp_path_factory.mktemp("fitted") / "world"
    return Fitted(zoosim.fit_world(log_file, folder), folder)


def test_simulated_clicks_are_those_of_the_world(log_file: Path, tmp_path: Path) -> None:
    """By position, over 4,000 searches: within 4.5 standard errors; examination one position off is not."""
    log = read_log(log_file)
    assert log.searches is not None
    design = search_design(log, estimate_tastes(log))
    truth = true_behaviour(tmp_path, log.searches.requests.schema.segments)
    layout = Layout.of(shop_sizes(log.searches), truth.bias.shape[1])
    effects = parameter_effects(design, layout)
    draws = [simulate(effects, layout.pack(truth), design, rng=np.random.default_rng(seed))[0] for seed in range(10)]
    error = np.sqrt(design.clicks.var(axis=0) / len(log)) + 1e-3
    assert (np.abs(np.mean(draws, axis=0).mean(axis=0) - design.clicks.mean(axis=0)) < 4.5 * error).all()
    shifted = layout.pack(truth._replace(bias=np.hstack([truth.bias[:, 1:], truth.bias[:, -1:]])))
    wrong = simulate(effects, shifted, design, rng=np.random.default_rng(0))[0].mean(axis=0)
    assert np.abs((wrong - design.clicks.mean(axis=0)) / error).max() > 4.5


def true_behaviour(folder: Path, segments: list[str]) -> EstimatedParameters:
    """Return the behaviour of the shop that the logs of these tests come from."""
    config = read_search_config(write_shop(folder, products=60, queries=12))
    behaviour = config.behaviour
    bias = [[*query_type.bias, *[query_type.bias[-1]] * 4] for query_type in config.query_types.values()]
    tastes = [config.segments[name] for name in segments]
    zeros = np.zeros(len(segments))
    return EstimatedParameters(
        bias=np.array(bias),
        examination=zeros,
        intercept=zeros + behaviour.intercept,
        segment_category=np.zeros((len(segments), len(config.categories))),
        query_type=np.zeros(len(bias)),
        product=np.zeros(60),
        price=np.array([behaviour.price * taste.price_taste_mean for taste in tastes]),
        label=np.array([behaviour.private_label * taste.label_taste_mean for taste in tastes]),
        score=behaviour.score,
        category=behaviour.category,
        price_sd=0.0,
        examine_satisfaction=behaviour.examine_satisfaction,
        purchase_slope=behaviour.purchase_slope,
        purchase_bias=zeros + behaviour.purchase_bias,
        purchase_price=zeros + behaviour.purchase_price,
    )


@pytest.mark.slow
def test_a_fitted_world_behaves_as_it_was_estimated(fitted: Fitted) -> None:
    """What compiled code adds up for a segment, type, category and product is what was estimated for them, rounded."""
    config = read_search_config(read_config(fitted.folder / "world.yaml")["env"])
    estimates = fitted.world.behaviour.estimates
    behaviour = behaviour_parameters(config)
    utility = np.asarray(estimates.intercept)[:, None] + estimates.segment_category
    assert behaviour.intercept + behaviour.segment_utility == pytest.approx(utility, abs=2e-4)
    assert behaviour.type_intercept == pytest.approx(estimates.query_type, abs=1e-4)
    assert behaviour.segment_examination == pytest.approx(estimates.examination, abs=1e-4)
    shared = (behaviour.purchase_bias, behaviour.purchase_price)
    purchase = np.column_stack([estimates.purchase_bias, estimates.purchase_price])
    assert shared + behaviour.segment_purchase == pytest.approx(purchase, abs=2e-4)
    assert build_search_world(config, seed=0).catalogue.appeal == pytest.approx(estimates.product, abs=1e-4)
    segments = list(config.segments.values())
    assert [behaviour.price * part.price_taste_mean for part in segments] == pytest.approx(estimates.price, abs=1e-3)


def test_a_fitted_world_runs(fitted: Fitted, tmp_path: Path) -> None:
    world = fitted.world
    assert world.warnings == ()
    assert [check.position for check in world.checks] == list(range(1, 13))
    first = world.checks[0]
    assert abs(first.clicks - first.fitted_clicks) < 4 * first.click_error
    assert set(world.estimates["parameter"]) == set(EstimatedParameters._fields)
    result = zoosim.run(
        "continuous-vs-discrete",
        policies=["random-boosts"],
        config=fitted.folder / "world.yaml",
        seeds=1,
        steps=60,
        out=tmp_path / "run",
    )
    rewards = result.rows.group_by("policy").agg(pl.col("reward").mean())["reward"]
    assert (rewards > 1.0).all()


def test_a_fitted_world_can_be_moved(fitted: Fitted, tmp_path: Path) -> None:
    shutil.copytree(fitted.folder, tmp_path / "moved")
    config = read_config(tmp_path / "moved" / "world.yaml")["env"]
    assert read_search_config(config).files["catalogue_file"] == str(tmp_path / "moved" / "catalogue.parquet")
    described = zoosim.describe("search", visits=10, config=tmp_path / "moved" / "world.yaml", out=tmp_path / "page")
    assert described.path.is_file()
    result = zoosim.run(
        "continuous-vs-discrete",
        policies=["random-boosts"],
        config=tmp_path / "moved" / "world.yaml",
        seeds=1,
        steps=10,
        out=tmp_path / "run",
    )
    assert result.failures == ()


def test_the_command_prints_the_check_and_writes_the_world(tmp_path: Path) -> None:
    log_file = write_searches(tmp_path, 1_500)
    done = CliRunner().invoke(app, ["fit-world", str(log_file), "--out", str(tmp_path / "world")])
    assert done.exit_code == 0, done.output
    assert "Per 100 searches" in done.output
    assert "Clicks on a product whose price is 10% higher" in done.output
    assert (tmp_path / "world" / "world.yaml").is_file()
    assert (tmp_path / "world" / "summary.json").is_file()
    page = Shown((tmp_path / "world" / "report.html").read_text(encoding="utf-8")).text
    assert "Page: file://" in done.output
    assert "Later searches earn" in page
    assert "Later searches earn" in done.output
    for words in ("Examination by position", "price is 10% higher", "gourmets", "neutral", "What does not fit, first"):
        assert words in page


def test_what_logged_rankings_earn_is_the_logs_reward(log_file: Path, fitted: Fitted) -> None:
    """The log's own rewards of its latest quarter, which holds no penalty for moved products."""
    world = fitted.world
    rewards = read_log(log_file).in_order().rewards
    later = rewards[int(0.75 * len(rewards)) :]
    assert world.earned.logged.mean == pytest.approx(later.mean())
    assert world.earned.equivalence.agrees is not False
    assert world.templates["neutral"].mean > 0.0


def test_options_of_the_other_world_are_refused(log_file: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["fit-world", str(log_file), "--reward", "click", "--out", str(tmp_path / "world")])
    assert "is a log of searches; leave out --reward and --data" in str(done.exception)


def test_query_categories_are_those_of_most_candidates(log_file: Path) -> None:
    log = read_log(log_file)
    assert log.searches is not None
    found = query_categories(log.searches)
    names = log.searches.requests.schema.categories
    for text, category in found.iter_rows():
        assert text.startswith(names[category].lower())


def test_tastes_by_hand(log_file: Path) -> None:
    """A segment's mean is its share of searches, and a user's expected taste moves towards what the user searched."""
    log = read_log(log_file)
    tastes = estimate_tastes(log)
    assert tastes.taste.sum(axis=1) == pytest.approx(np.ones(len(log)))
    total = tastes.concentrations.sum(axis=1)
    assert total == pytest.approx(np.full(3, total[0]), rel=0.05)
    assert total[0] == pytest.approx(1.0, rel=0.25)  # the shop's users have even concentrations that add up to 1


def test_logs_that_no_world_is_fitted_to(log_file: Path, tmp_path: Path) -> None:
    log = read_log(log_file)
    with pytest.raises(DataError, match="100 searches, expected 200 at least"):
        fit_search_world(log.rows(np.arange(100)), tmp_path)
    assert log.searches is not None
    nothing = log.searches.frame.with_columns(pl.col("clicked", "purchased").list.eval(pl.element() * 0))
    silent = log.rows(np.arange(len(log)))
    object.__setattr__(silent, "searches", type(log.searches)(nothing, log.features, log.searches.requests))
    with pytest.raises(DataError, match="searches has a click, so nothing can be told"):
        fit_search_world(silent, tmp_path)
