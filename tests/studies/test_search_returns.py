"""The study of searchers who come back: what is worked out by hand, and what a small run says."""

from pathlib import Path

import numpy as np
import pytest

from studies.search_returns import build_page, measure
from studies.search_returns.measuring import LAWS, Law, Segment, left_by_myopia, lives, return_chances
from tests.caches import use_cache


def test_a_life_is_worth_its_visits() -> None:
    # 1 a visit, with a return every other time: 1 + 1/2 + 1/4 + ...
    rewards = np.array([[0.0, 1.5], [2.0, 0.5]])
    returns = np.array([[0.5, 0.0], [0.5, 0.0]])
    np.testing.assert_allclose(lives(rewards, returns), [2.0, 1.0])
    law = Law(base=0.5, by_click=1.0, by_satisfaction=2.0)
    np.testing.assert_allclose(return_chances(law, np.array([0.0, 20.0]), np.array([0.0, -5.0])), [0.5, 0.5])


def test_segments_count_by_their_searchers() -> None:
    rows = [
        Segment("default", 1, "many", 0.75, 1.0, 2.0, 0.3, 0.4, 0.9),
        Segment("default", 1, "few", 0.25, 4.0, 4.0, 0.3, 0.4, 0.9),
    ]
    assert left_by_myopia(rows, "default") == [pytest.approx((0.75 + 1.0) / (1.5 + 1.0))]


def test_a_small_run_ends_up_on_its_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_cache(monkeypatch, tmp_path)
    rows = measure(seeds="3:5", visits=100, jobs=1)
    assert {row.law for row in rows} == set(LAWS)
    assert all(0.0 < row.lowest <= row.highest < 1.0 for row in rows)
    page = build_page(rows)
    assert page.answer.startswith("In search, boosts that are the best of one visit have ")
    assert [row[0] for row in page.tables[0].rows] == list(LAWS)
