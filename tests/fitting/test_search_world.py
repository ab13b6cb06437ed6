"""A search world fitted to a log: its likelihood computed another way, a known truth found again, what is written."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from scipy import integrate
from typer.testing import CliRunner

import zoosim
from benchmarks.quality.own_search_shop import write_shop
from tests.logs.own_searches import write_searches
from tests.report.test_report import Shown
from zoosim.cli import app
from zoosim.core.config import read_config
from zoosim.core.errors import DataError
from zoosim.core.search_config import Behaviour
from zoosim.core.types import FloatArray
from zoosim.fitting.search_behaviour import BehaviourParameters, _log_likelihoods, fit_behaviour
from zoosim.fitting.search_design import SearchDesign, estimate_tastes, query_categories, search_design
from zoosim.fitting.search_world import fit_search_world, simulate
from zoosim.logs.parse import read_log
from zoosim.worlds.search.tables import read_search_config

USUAL = Behaviour()
TRUTH = BehaviourParameters(
    bias=np.array([[1.2, 0.7, 0.3], [0.6, 0.2, 0.0]]),
    price=np.array([-0.5, 0.3]),
    label=np.array([0.4, -0.6]),
    price_sd=0.0,
    examine_satisfaction=0.3,
    intercept=0.2,
    score=0.7,
    category=0.5,
    purchase_slope=1.1,
    purchase_bias=0.1,
    purchase_price=-0.05,
)


def random_design(n: int, length: int, seed: int) -> SearchDesign:
    """Draw rankings of products at random, with clicks and purchases by `TRUTH`."""
    rng = np.random.default_rng(seed)
    design = SearchDesign(
        segment=rng.integers(2, size=n),
        query_type=rng.integers(2, size=n),
        shown=np.ones((n, length)),
        clicks=np.zeros((n, length)),
        purchases=np.zeros((n, length)),
        score=rng.normal(size=(n, length)),
        log_price=rng.uniform(1.0, 4.0, (n, length)),
        label=rng.integers(2, size=(n, length)).astype(float),
        taste=rng.random((n, length)),
    )
    clicks, purchases = simulate(TRUTH, design, rng=rng)
    return design._replace(clicks=clicks, purchases=purchases)


def likelihoods(parameters: BehaviourParameters, design: SearchDesign) -> FloatArray:
    """Return the likelihood of each search, as the fit computes it."""
    arrays = {name: torch.as_tensor(values) for name, values in design._asdict().items()}
    given = BehaviourParameters(*(torch.as_tensor(value) for value in parameters))
    likelihood: FloatArray = np.exp(np.asarray(_log_likelihoods(given, arrays)))
    return likelihood


def sigmoid(x: float) -> float:
    return float(1.0 / (1.0 + np.exp(-x)))


def test_likelihood_of_two_positions_by_quadrature_of_its_own() -> None:
    """The click and purchase at the top are integrated adaptively; the second position is looked at, or not, in vain.

    P = P(look 1) E[click, buy | u1] (1 - P(look 2 | s1) P(click 2)), s1 the satisfaction that the click and purchase
    let expect, .5 E[u1 | click, buy] - 1.2.
    """
    design = random_design(1, 2, 0)._replace(clicks=np.array([[1.0, 0.0]]), purchases=np.array([[1.0, 0.0]]))
    s, t = int(design.segment[0]), int(design.query_type[0])
    means = (
        TRUTH.intercept
        + TRUTH.score * design.score[0]
        + TRUTH.category * design.taste[0]
        + TRUTH.price[s] * design.log_price[0]
        + TRUTH.label[s] * design.label[0]
    )

    def mean_of(function: object, place: int) -> float:
        def weighted(z: float) -> float:
            density = np.exp(-0.5 * z * z) / np.sqrt(2.0 * np.pi)
            return float(density * function(means[place] + USUAL.utility_sd * z))  # type: ignore[operator]

        return float(integrate.quad(weighted, -8.0, 8.0)[0])

    def bought(u: float) -> float:
        odds = TRUTH.purchase_slope * u + TRUTH.purchase_bias + TRUTH.purchase_price * design.log_price[0, 0]
        return sigmoid(u) * sigmoid(odds)

    top = mean_of(bought, 0)
    expected_utility = mean_of(lambda u: u * bought(u), 0) / top
    satisfaction = USUAL.click_satisfaction * expected_utility + USUAL.purchase_satisfaction
    look = sigmoid(TRUTH.bias[t, 1] + TRUTH.examine_satisfaction * satisfaction)
    second = 1.0 - look + look * mean_of(lambda u: 1.0 - sigmoid(u), 1)
    expected = sigmoid(TRUTH.bias[t, 0]) * top * second
    assert likelihoods(TRUTH, design)[0] == pytest.approx(expected, rel=1e-3)


def test_likelihoods_of_all_outcomes_add_up_to_1() -> None:
    """No click, a click or a purchase at each of 3 positions: 27 outcomes of one ranking."""
    one = random_design(1, 3, 1)
    outcomes = np.stack(np.meshgrid(*[range(3)] * 3), axis=-1).reshape(-1, 3)
    repeated: list[Any] = [np.repeat(column, len(outcomes), axis=0) for column in one]
    many = SearchDesign(*repeated)
    many = many._replace(clicks=(outcomes > 0).astype(float), purchases=(outcomes > 1).astype(float))
    assert likelihoods(TRUTH, many).sum() == pytest.approx(1.0, abs=1e-9)


def test_positions_that_were_not_shown_say_nothing() -> None:
    design = random_design(50, 3, 2)
    padded: list[Any] = [np.pad(column, ((0, 0), (0, 2))) if column.ndim == 2 else column for column in design]
    longer = SearchDesign(*padded)
    assert likelihoods(TRUTH, longer) == pytest.approx(likelihoods(TRUTH, design))


@pytest.fixture(scope="module")
def log_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_searches(tmp_path_factory.mktemp("fit"), 4_000)


def test_simulated_clicks_are_those_of_the_world(log_file: Path, tmp_path: Path) -> None:
    """By position, over 4,000 searches: within 4.5 standard errors; examination one position off is not."""
    log = read_log(log_file)
    assert log.searches is not None
    design = search_design(log, estimate_tastes(log))
    truth = true_behaviour(tmp_path, log.searches.requests.schema.segments)
    clicks = np.mean([simulate(truth, design, rng=np.random.default_rng(seed))[0] for seed in range(10)], axis=0)
    error = np.sqrt(design.clicks.var(axis=0) / len(log)) + 1e-3
    assert (np.abs(clicks.mean(axis=0) - design.clicks.mean(axis=0)) < 4.5 * error).all()
    shifted = truth._replace(bias=truth.bias[:, 1:])
    wrong = simulate(shifted, design, rng=np.random.default_rng(0))[0].mean(axis=0)
    assert np.abs((wrong - design.clicks.mean(axis=0)) / error).max() > 4.5


def true_behaviour(folder: Path, segments: list[str]) -> BehaviourParameters:
    """Return the behaviour of the shop that the logs of these tests come from."""
    config = read_search_config(write_shop(folder, products=60, queries=12))
    behaviour = config.behaviour
    bias = [[*query_type.bias, *[query_type.bias[-1]] * 4] for query_type in config.query_types.values()]
    parts = {name: getattr(behaviour, name) for name in BehaviourParameters._fields if hasattr(behaviour, name)}
    tastes = [config.segments[name] for name in segments]
    price = np.array([behaviour.price * taste.price_taste_mean for taste in tastes])
    label = np.array([behaviour.private_label * taste.label_taste_mean for taste in tastes])
    return BehaviourParameters(**{**parts, "bias": np.array(bias), "price": price, "label": label, "price_sd": 0.0})


def test_behaviour_is_found_again(log_file: Path, tmp_path: Path) -> None:
    """Every estimate of the first 5 positions and of the utility within 4 standard errors of the truth; 4,000 searches.

    `python -m benchmarks Q10` says how often intervals hold over many shops.
    """
    log = read_log(log_file)
    assert log.searches is not None
    fitted = fit_behaviour(search_design(log, estimate_tastes(log)), 3, 2)
    truth = true_behaviour(tmp_path, log.searches.requests.schema.segments)
    for name in ("bias", "price", "label", "score", "examine_satisfaction", "purchase_slope"):
        parts = (getattr(part, name) for part in (fitted.estimates, truth, fitted.errors))
        estimate, true, error = (np.asarray(part)[..., :5] if name == "bias" else np.asarray(part) for part in parts)
        gap = estimate - true
        assert (np.abs(gap) < 4.0 * error).all(), name
        assert (error < 0.5).all(), name
    assert (fitted.estimates.price[2] - fitted.estimates.price[0]) > 5 * fitted.errors.price[2]


def test_a_fitted_world_runs(log_file: Path, tmp_path: Path) -> None:
    world = zoosim.fit_search_world(log_file, tmp_path / "world")
    assert world.warnings == ()
    assert [check.position for check in world.checks] == list(range(1, 13))
    first = world.checks[0]
    assert abs(first.clicks - first.fitted_clicks) < 4 * first.click_error
    assert set(world.estimates["parameter"]) == set(BehaviourParameters._fields)
    result = zoosim.run(
        "continuous-vs-discrete",
        policies=["random-boosts"],
        config=tmp_path / "world" / "world.yaml",
        seeds=1,
        steps=60,
        out=tmp_path / "run",
    )
    rewards = result.rows.group_by("policy").agg(pl.col("reward").mean())["reward"]
    assert (rewards > 1.0).all()


def test_a_fitted_world_can_be_moved(log_file: Path, tmp_path: Path) -> None:
    zoosim.fit_search_world(log_file, tmp_path / "world")
    (tmp_path / "world").rename(tmp_path / "moved")
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


def test_the_command_prints_the_check_and_writes_the_world(log_file: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["fit-world", str(log_file), "--out", str(tmp_path / "world")])
    assert done.exit_code == 0, done.output
    assert "Per 100 of the latest quarter" in done.output
    assert "Effect of log(1 + price)" in done.output
    assert (tmp_path / "world" / "world.yaml").is_file()
    assert (tmp_path / "world" / "summary.json").is_file()
    page = Shown((tmp_path / "world" / "report.html").read_text(encoding="utf-8")).text
    assert "Page: file://" in done.output
    assert "On later searches the fitted world" in page
    for words in ("Examination by position", "examination, log odds", "gourmets", "neutral", "the log's rankings"):
        assert words in page


def test_what_logged_rankings_earn_is_the_logs_reward(log_file: Path, tmp_path: Path) -> None:
    """The log's own rewards of its latest quarter, which holds no penalty for moved products."""
    world = zoosim.fit_search_world(log_file, tmp_path / "world")
    rewards = read_log(log_file).in_order().rewards
    later = rewards[int(0.75 * len(rewards)) :]
    assert world.earned.logged.mean == pytest.approx(later.mean())
    assert world.earned.agrees
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
    with pytest.raises(DataError, match="no search has a click"):
        fit_search_world(silent, tmp_path)
