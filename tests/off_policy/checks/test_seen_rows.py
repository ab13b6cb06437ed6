"""Policies that learned from the rows that judge them, by means of cells, by the best of them or by a regression."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.quality.fooled import learned, pages, sound
from benchmarks.quality.fooled.shop import DAY, START, Case, Rows, Shop, Way, draw_rankings, draw_rows, logistic
from benchmarks.quality.fooled.third_round.same_rows import deep_tree
from tests.off_policy.checks.test_checks import reasons_of
from zoosim.core.rng import stream
from zoosim.core.types import FloatArray, IntArray
from zoosim.off_policy.checks.cells import find_cells
from zoosim.off_policy.checks.preferences import cell_effects
from zoosim.off_policy.checks.probe import Probe
from zoosim.off_policy.checks.seen_rows import _interactions
from zoosim.off_policy.intervals.clusters import make_clusters
from zoosim.off_policy.verdict import TRUST

SEED = 1

FAULTS: list[tuple[Way, str]] = [
    (learned.mean_clicks_of_cells_of_these_rows, "follow the mean rewards of 12 cells closer than chance allows"),
    (learned.best_of_cells_of_these_rows, "the policy prefers what earned most in these rows in"),
    (learned.best_of_many_cells_of_these_rows, "the policy prefers what earned most in these rows in"),
    (learned.ridge_with_noise_of_these_rows, "follow these rows' rewards closer than chance allows"),
    (learned.greedy_ridge_of_these_rows, "the policy prefers what a linear model of these rows does in"),
]


@pytest.mark.parametrize(("way", "reason"), FAULTS, ids=[way.__name__ for way, _ in FAULTS])
def test_a_policy_of_these_rows_is_named_and_never_trusted(way: Way, reason: str) -> None:
    verdict, reasons = reasons_of(way(stream(SEED, "fooled", way.__name__)))
    assert any(reason in each for each in reasons), reasons
    assert verdict != TRUST


def test_a_policy_that_knows_the_truth_is_not_one_of_these_rows() -> None:
    """It always takes what is truly best, where effects are linear on the logit scale."""
    for seed in range(3):
        _, reasons = reasons_of(sound.sure_policy(stream(seed, "fooled", "sure_policy")))
        assert not any("judge it by rows that it has not seen" in each for each in reasons), reasons


def test_effects_of_noise_alone_are_followed_by_who_fits_them() -> None:
    """Rewards of chance alone: the best mean of each cell is followed by one policy, another one by a sound policy."""
    rng = np.random.default_rng(0)
    case = sound.plain(stream(SEED, "fooled", "plain"))
    case.log.rewards[:] = rng.random(len(case.log)) < 0.3
    probe = Probe(case.log, make_clusters(len(case.log)), 1.0)
    cells = rng.integers(20, size=len(case.log))
    effects = cell_effects(probe, cells)
    k = case.log.n_actions
    followed = (np.arange(k) == effects.fitted.argmax(axis=1)[:, None]).astype(float)
    others = (np.arange(k) == rng.integers(k, size=20)[:, None]).astype(float)
    assert effects.are_followed(followed, 0.05)
    assert effects.agreement(followed) == 1.0
    assert not effects.are_followed(others, 0.05)


@pytest.mark.parametrize("way", learned.OF_OTHER_ROWS, ids=[way.__name__ for way in learned.OF_OTHER_ROWS])
def test_a_policy_of_other_rows_is_not(way: Way) -> None:
    _, reasons = reasons_of(way(stream(SEED, "fooled", way.__name__)))
    assert not any("judge it by rows that it has not seen" in each for each in reasons), reasons


def test_the_best_product_of_each_hour_of_the_week_follows_noise_that_no_feature_tells() -> None:
    """Of 84 parts of the week and segments; six rows tell of each product there."""
    for from_these in (True, False):
        shop = Shop(stream(SEED, "fooled", "hours of the week"))
        rows, others = draw_rows(shop), draw_rows(shop)
        means = _mean_clicks(rows if from_these else others, _parts_of_the_week)
        rows.target = _greedy(means[_parts_of_the_week(rows)])
        verdict, reasons = reasons_of(rows.case(0.0))
        assert any("go with rewards beyond what features and actions tell" in each for each in reasons) == from_these
        assert verdict != TRUST or not from_these


def test_five_best_sellers_of_forty_per_segment_are_too_surely_those_of_these_rows() -> None:
    """Some 33 rows tell of each product in a segment: a policy that knows the truth would take other ones, too."""
    for from_these in (True, False):
        shop = Shop(stream(SEED, "fooled", "forty products"), n_actions=40, lean=0.2)
        rows, others = draw_rows(shop), draw_rows(shop)
        means = _mean_clicks(rows if from_these else others, lambda each: each.features[:, :3].argmax(axis=1))
        is_best = means >= np.sort(means, axis=1)[:, -5:-4]
        shares = 0.1 / 40 + 0.9 * is_best / is_best.sum(axis=1, keepdims=True)
        rows.target = shares[rows.features[:, :3].argmax(axis=1)]
        _, reasons = reasons_of(rows.case(0.0))
        assert any("earned most in these rows in 3 cells" in each for each in reasons) == from_these, reasons


def test_a_policy_may_know_effects_that_no_line_tells() -> None:
    """48 cells of visitors differ in what they like, and the policy knows it."""
    shop = Shop(stream(SEED, "fooled", "steps"))
    rows = draw_rows(shop)
    tastes = shop.rng.normal(size=(48, shop.n_actions))
    rates = logistic(-1.5 + tastes)[learned._many_cells(rows.features)]
    rows.rewards = (shop.rng.random(len(rows)) < rates[np.arange(len(rows)), rows.actions]).astype(float)
    rows.target = _greedy(rates)
    _, reasons = reasons_of(rows.case(0.0))
    assert not any("judge it by rows that it has not seen" in each for each in reasons), reasons


def test_lists_follow_the_rows_at_all_their_positions() -> None:
    """Drawn in proportion to mean clicks in each of 48 cells; a visit's clicks are those of its top product in part."""
    for from_these in (True, False):
        shop = Shop(stream(SEED, "fooled", "lists of cells"))
        rows, others = draw_rankings(shop), draw_rankings(shop)
        means = _mean_clicks(rows if from_these else others, lambda each: learned._many_cells(each.features))
        shares = (means + 0.01) / (means + 0.01).sum(axis=1, keepdims=True)
        rows.target = shares[learned._many_cells(rows.features)]
        _, reasons = reasons_of(rows.case(0.0), "cascade-ips")
        found = [reason for reason in reasons if "judge it by rows that it has not seen" in reason]
        assert bool(found) == from_these, reasons
        assert all(reason.endswith("(rows 0-3999)") for reason in found)


def test_a_tree_of_these_rows_is_found_where_the_log_has_nothing_that_tells_rows_apart() -> None:
    case = deep_tree(stream(SEED, "fooled", "deep_tree"))
    for features in (np.zeros((len(case.log), 0)), np.ones_like(case.log.features)):
        times = np.full(len(case.log), START)
        bare = Case(replace(case.log, features=features, times=times), None, case.value)
        verdict, reasons = reasons_of(bare)
        assert any("go with rewards beyond what features and actions tell" in each for each in reasons), reasons
        assert verdict != TRUST


def _parts_of_the_week(rows: Rows) -> IntArray:
    return np.asarray((rows.times - START) % (7 * DAY) // (DAY // 4) * 3 + rows.features[:, :3].argmax(axis=1))


def _mean_clicks(rows: Rows, cells_of: Callable[[Rows], IntArray]) -> FloatArray:
    cells = cells_of(rows)
    shape = (int(cells.max()) + 1, rows.shop.n_actions)
    earned, shown = np.zeros(shape), np.ones(shape)
    for action, reward in zip(
        rows.actions.reshape(len(rows), -1).T, rows.rewards.reshape(len(rows), -1).T, strict=True
    ):
        np.add.at(earned, (cells, action), reward)
        np.add.at(shown, (cells, action), 1.0)
    return np.asarray(earned / shown)


def _greedy(guess: FloatArray) -> FloatArray:
    k = guess.shape[1]
    return np.asarray(0.1 / k + 0.9 * (np.arange(k) == guess.argmax(axis=1)[:, None]))


def test_policies_of_rankings_are_told_by_their_tops() -> None:
    for way, is_fault in ((pages.tops_of_cells_of_these_pages, True), (pages.tops_of_cells_of_other_pages, False)):
        _, reasons = reasons_of(way(stream(SEED, "fooled", way.__name__)), "cascade-ips")
        assert any("judge it by rows that it has not seen" in each for each in reasons) == is_fault


def test_cells_are_those_of_the_policy() -> None:
    """Three towns, and two halves of a number: scores differ in each of the six, by action."""
    rng = np.random.default_rng(0)
    town, number = rng.integers(3, size=4_000), rng.normal(size=4_000)
    true_cell = 2 * town + (number > 0.3)
    actions = rng.integers(4, size=4_000)
    scores = rng.normal(size=(6, 4))[true_cell, actions]
    features = np.column_stack([np.eye(3)[town], number, rng.normal(size=4_000)])
    cells = find_cells(features, actions, scores, 100)
    assert cells is not None
    pairs = np.unique(np.column_stack([cells, true_cell]), axis=0)
    assert cells.max() + 1 == 6
    assert len(pairs) < 12  # but for a few rows at the limit
    assert find_cells(features, actions, rng.normal(size=4_000), 100) is None  # noise has none


def test_limits_that_were_set_too_early_are_left_out() -> None:
    """Quarters of two numbers: the first limit explains most where it lies between two true ones."""
    for seed in (7, 11):
        case = learned.best_of_many_cells_of_these_rows(stream(seed, "fooled", "best_of_many_cells_of_these_rows"))
        scores = np.log(case.log.columns["p_new"])
        cells = find_cells(case.log.features, case.log.actions, scores, 100)
        assert cells is not None
        assert cells.max() + 1 == 48


@pytest.mark.parametrize(("n_cells", "n_actions", "n_pairs"), [(3, 40, 110), (12, 5, 50), (2, 2, 4)])
def test_what_cells_and_actions_earn_as_such_is_taken_off(n_cells: int, n_actions: int, n_pairs: int) -> None:
    """By least squares on indicators of both and what is known, as numpy solves it."""
    rng = np.random.default_rng(0)
    pairs = np.sort(rng.choice(n_cells * n_actions, n_pairs, replace=False))
    cells = np.unique(pairs // n_actions, return_inverse=True)[1]
    actions = np.unique(pairs % n_actions, return_inverse=True)[1]
    weights = np.exp(rng.normal(size=n_pairs))
    known = rng.normal(size=(n_pairs, 2))
    values = rng.normal(size=n_pairs)
    left, rank = _interactions(cells, actions, weights, known, values)
    indicators = np.eye(cells.max() + 1)[cells], np.eye(actions.max() + 1)[actions]
    columns = weights[:, None] * np.column_stack([*indicators, known])
    expected = values - columns @ np.linalg.lstsq(columns, values, rcond=None)[0]
    np.testing.assert_allclose(left, expected, atol=1e-10)
    assert rank == np.linalg.matrix_rank(columns)
