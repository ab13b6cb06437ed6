"""The study of values by served logs: its page, and in its long form one service."""

import pytest

from studies.served_values import build_page, measure
from studies.served_values.measuring import ESTIMATORS, TARGETS, Row


def test_the_page_counts_intervals_that_hold() -> None:
    rows = [
        Row(seed, policy, estimator, 0.1, 0.05, 0.15, "trust" if seed else "weak", truth, 100.0)
        for seed, truth in ((0, 0.1), (1, 0.1), (2, 0.2))
        for policy in TARGETS
        for estimator in ESTIMATORS
    ]
    page = build_page(rows)
    assert page.answer == "10 of 15 intervals by IPS hold the truth; of all that are given `trust` 15 of 30 (50.0%)."
    coverage, by_verdict = page.tables
    assert [row[2] for row in coverage.rows] == ["2 of 3 (1 of 2)"] * len(TARGETS)
    assert [row[:3] for row in by_verdict.rows] == [("trust", "30", "15"), ("weak", "15", "15")]


@pytest.mark.slow
def test_a_service_is_judged_by_its_log() -> None:
    rows = measure(seeds="0:1", visitors=1_000)
    assert [(row.policy, row.estimator) for row in rows[:3]] == [("random", name) for name in ESTIMATORS]
    assert sum(row.holds for row in rows) > len(rows) // 2
