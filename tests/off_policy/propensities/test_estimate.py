"""Estimated propensities: who tells of whom, how often intervals hold, and what is refused."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.off_policy.test_evaluate import drawn
from tests.off_policy.worlds import TableWorld
from zoosim.core.action_space import BOOSTS, RANKINGS
from zoosim.core.errors import ConfigError, DataError
from zoosim.logs.candidate_sets import CandidateSets
from zoosim.logs.log import Log
from zoosim.off_policy.evaluate import evaluate
from zoosim.off_policy.intervals.clusters import make_clusters
from zoosim.off_policy.propensities import estimate
from zoosim.off_policy.propensities.estimate import choices_of, estimate_propensities
from zoosim.report.evaluation import build_page

WORLD = TableWorld(0, 0.5)


def unknown(log: Log) -> Log:
    """The log without its propensities."""
    return replace(log, propensities=np.full(len(log), np.nan))


def test_estimates_are_near_the_truth_and_calibrated() -> None:
    """40,000 rows of 4 contexts and 10 products: a cell has 1,000 rows, and a share's relative error is 3%."""
    log = drawn(WORLD, 40_000)
    found = estimate_propensities(unknown(log), make_clusters(len(log)))
    assert np.abs(np.log(found.values / log.propensities)).mean() < 0.06
    figures = found.figures
    assert (figures.features, figures.folds, figures.confident) == (4, 5, 0.0)
    assert figures.choices < figures.choices_by_share < 10.0
    assert sum(each.shown for each in figures.bins) == 40_000
    for each in figures.bins:  # within four errors of a count
        assert abs(each.shown - each.expected) < 4.0 * np.sqrt(each.expected + 1.0)
    assert found.figures.plain["bins"][0] == figures.bins[0]._asdict()


def test_no_rows_chance_comes_from_a_model_that_has_seen_its_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other choices of one fold move the models of all others, and not its own."""
    monkeypatch.setattr(estimate, "STRENGTHS", (10.0,))
    monkeypatch.setattr(estimate, "CALIBRATION", (0.999, 1.0))
    log = unknown(drawn(WORLD, 1_000))
    clusters = make_clusters(len(log), np.arange(1_000) // 4)
    in_fold = clusters.group % 5 == 2
    turned = replace(log, actions=np.where(in_fold, 9 - log.actions, log.actions))
    before, after = (estimate_propensities(each, clusters).models for each in (log, turned))
    same = [np.allclose(a.own, b.own, atol=1e-9) for a, b in zip(before, after, strict=True)]
    assert same == [False, False, True, False, False]


@pytest.mark.slow
@pytest.mark.parametrize(("logs", "least"), [(20, 17), (50, 43)])
def test_intervals_hold_and_take_the_error_of_probabilities_in(logs: int, least: int) -> None:
    """Logs of 500 rows: 95% intervals hold on so many or more (three binomial standard errors, .854 and .857).

    The same values have other intervals where the estimates are taken for the truth.
    """
    held = dict.fromkeys(("snips", "dr"), 0)
    for seed in range(logs):
        log = unknown(drawn(WORLD, 500, seed))
        target = log.features @ WORLD.target
        found = evaluate(log, {"new": target}, propensity_model="multinomial", samples=199, seed=seed, compare=False)
        for row in found.results:
            assert row.verdict != "trust"
            assert row.low is not None
            assert row.high is not None
            held[row.estimator] += row.low <= WORLD.value <= row.high
    assert min(held.values()) >= least, held
    values = estimate_propensities(log, make_clusters(500)).values
    taken = evaluate(replace(log, propensities=values), {"new": target}, estimators=["dr"], samples=199, seed=seed)
    assert taken.results[0].value == pytest.approx(found.results[1].value, abs=1e-12)
    assert taken.results[0][3:5] != found.results[1][3:5]


def test_a_hidden_preference_is_never_trusted() -> None:
    """Whoever likes product 0 is shown it and clicks: by the log it looks far better than it is. 20,000 rows."""
    rng = np.random.default_rng(0)
    likes = rng.random(20_000) < 0.5
    log = unknown(drawn(WORLD, 20_000))
    actions = np.where(rng.random(20_000) < np.where(likes, 0.8, 0.2), 0, 1)
    rewards = (rng.random(20_000) < np.where(likes & (actions == 0), 0.5, 0.1)).astype(float)
    two = replace(log, actions=actions, rewards=rewards, candidates=CandidateSets.everything(2), products=np.eye(2))
    found = evaluate(two, {"always 0": np.array([1.0, 0.0])}, propensity_model="multinomial")
    assert all(row.value > 0.35 for row in found.results)  # the truth is .5 x .5 + .5 x .1 = .3
    assert {row.verdict for row in found.results} == {"weak"}
    assert "went by the log's features and by chance" in found.results[0].reasons[0]


def test_it_is_said_everywhere() -> None:
    log = unknown(drawn(WORLD))
    found = evaluate(log, {"new": np.full(10, 0.1)}, propensity_model="multinomial", overlap=True)
    assert [row.estimator for row in found.results] == ["snips", "dr"]
    assert found.summary["propensities"]["model"] == "multinomial"
    assert "probabilities were estimated from the log: multinomial by 4 features" in found.summary["remarks"][0]
    page = build_page(found)
    assert "Estimated probabilities" in [table.heading for table in page.tables]
    notes = next(table for table in page.tables if table.heading == "Notes")
    assert any("robabilities were estimated from the log" in note for _, note in notes.rows)
    column = evaluate(log, {"seen": "column:p_new"}, propensity_model="multinomial")
    assert [row.estimator for row in column.results] == ["snips"]


def test_what_does_not_go_together_is_refused() -> None:
    log = drawn(WORLD, 500)
    cases: list[tuple[Log, dict[str, Any], type[Exception], str]] = [
        (unknown(log), {}, DataError, "without propensities, .* or estimate it: --propensity-model multinomial"),
        (log, {"propensity_model": "multinomial"}, ConfigError, "has propensities, which are better than any estimate"),
        (unknown(log), {"propensity_model": "multinominal"}, ConfigError, "unknown propensity_model 'multinominal'"),
        (unknown(log), {"propensity_model": "multinomial", "interval": "bernstein"}, ConfigError, "take bootstrap"),
        (unknown(log), {"propensity_model": "multinomial", "estimators": ["ips"]}, ConfigError, "got ips, which needs"),
    ]
    for each, options, kind, words in cases:
        with pytest.raises(kind, match=words):
            evaluate(each, {"new": np.full(10, 0.1)}, **options)


@pytest.mark.parametrize("space", [RANKINGS, BOOSTS])
def test_other_logs_than_of_products_have_no_model(space: str) -> None:
    """Nor are they advised to take one."""
    log = replace(unknown(drawn(WORLD, 100)), action_space=space)
    with pytest.raises(ConfigError, match=rf"propensity_model: .* is a log of {space}, expected one of products"):
        evaluate(log, {"new": np.full(10, 0.1)}, propensity_model="multinomial")
    with pytest.raises(DataError, match=rf"how likely each of its {space} was; let the shop log it from now on$"):
        evaluate(log, {"new": np.full(10, 0.1)})


def test_squares_and_products_of_features_stand_beside_them() -> None:
    """A number, a yes or no, and a column that does not vary: 1, two features, one square, one product."""
    log = unknown(drawn(WORLD, 200))
    rng = np.random.default_rng(0)
    features = np.column_stack([rng.normal(size=200), rng.random(200) < 0.5, np.ones(200)]).astype(float)
    contexts = choices_of(replace(log, features=features)).contexts
    inputs = contexts.inputs
    assert (contexts.n_plain, inputs.shape) == (3, (200, 5))
    assert inputs[:, 1:].mean(axis=0) == pytest.approx(np.zeros(4), abs=1e-12)
    assert inputs[:, 1:].std(axis=0) == pytest.approx(np.ones(4))
    assert abs(np.corrcoef(inputs[:, 3], features[:, 0] ** 2)[0, 1]) == pytest.approx(1.0)
    assert abs(np.corrcoef(inputs[:, 4], features[:, 0] * features[:, 1])[0, 1]) == pytest.approx(1.0)
