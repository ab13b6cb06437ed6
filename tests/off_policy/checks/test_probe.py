"""What checks share: orders, keys, and what features explain."""

import numpy as np
import pytest

from zoosim.off_policy.checks.probe import fit_residuals, is_measured, row_keys, runs_of_rows, sure_errors
from zoosim.off_policy.checks.tails import check_tail
from zoosim.off_policy.verdict import DO_NOT_USE, TRUST, VerdictReasons


def test_measured_numbers_are_told_from_scales() -> None:
    rng = np.random.default_rng(0)
    ages = rng.integers(18, 90, size=2_000).astype(np.float64)
    assert not is_measured(ages)
    assert not is_measured((ages - ages.mean()) / ages.std())
    assert not is_measured(0.1 * ages)
    assert not is_measured(np.ones(2_000))
    assert not is_measured(rng.normal(size=5)[rng.integers(5, size=2_000)])  # five segments
    assert is_measured(rng.normal(size=2_000))
    assert is_measured(rng.normal(size=60)[rng.integers(60, size=2_000)])  # sixty visitors


def test_keys_tell_rows_apart() -> None:
    rows = np.array([[0.0, 1.0], [1.0, 0.0], [0.0, 1.0]])
    keys = row_keys(rows)
    assert keys[0] == keys[2] != keys[1]
    assert len(set(row_keys(np.array([1, 2, 1]), keys))) == 3 - 1  # 0 and 2 are alike in both


def test_residuals_are_what_actions_and_inputs_leave() -> None:
    rng = np.random.default_rng(0)
    actions = rng.integers(3, size=30_000)
    inputs = rng.normal(size=(30_000, 2))
    noise = rng.normal(size=30_000)
    values = np.array([1.0, 2.0, 5.0])[actions] + inputs @ [0.5, -1.0] + noise
    left = fit_residuals([inputs], actions, values[:, None], 3, np.arange(0, 30_000, 10))[:, 0]
    assert abs(left.std() - 1.0) < 0.02  # slopes of 3,000 rows
    assert np.corrcoef(left, noise)[0, 1] > 0.999


def test_limits_grow_with_the_number_of_tests() -> None:
    assert sure_errors(1) == pytest.approx(3.4808, abs=1e-4)  # two-sided p = .0005
    assert sure_errors(100) > sure_errors(10) > sure_errors(1)


def test_runs_are_spread_over_the_log() -> None:
    assert runs_of_rows(5, 2, 10).tolist() == [0, 1, 2, 3, 4]
    assert runs_of_rows(100, 3, 6).tolist() == [0, 1, 49, 50, 98, 99]


@pytest.mark.parametrize(("index", "word"), [(1.0, DO_NOT_USE), (4.0, TRUST)])
def test_the_tail_index_is_that_of_the_distribution(index: float, word: str) -> None:
    """Quantiles of a Pareto distribution, whose tail index is known."""
    rewards = (1.0 - np.arange(10_000) / 10_000.0) ** (-1.0 / index)
    findings = VerdictReasons()
    check_tail(findings, rewards, np.arange(10_000))
    assert findings.verdict().word == word
    if word == DO_NOT_USE:
        assert "a tail of index 1.0" in findings.verdict().reasons[0]
        assert findings.verdict().reasons[0].endswith("(rows 9499-9999)")


def test_clicks_have_no_tail() -> None:
    findings = VerdictReasons()
    check_tail(findings, np.repeat([0.0, 1.0], 500), np.arange(1_000))
    assert findings.verdict().word == TRUST
