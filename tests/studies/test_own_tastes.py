"""The study of visitors with tastes of their own: its world, whose visit is which, and its page."""

import numpy as np

from studies.own_tastes import build_page
from studies.own_tastes.measuring import COMES, OWN, POLICIES, Filled, Reached, fill, reached_by, visit_numbers
from studies.own_tastes.world import own_tastes


def test_visits_are_numbered_by_visitor() -> None:
    assert visit_numbers(np.array([3, 1, 3, 3, 1, 0])).tolist() == [0, 0, 1, 2, 1, 0]


def test_own_tastes_are_beside_those_of_all() -> None:
    alike, apart = (own_tastes(0, visitors=9, own=own).periods[0].table for own in (0.0, 1.0))
    assert np.array_equal(alike[0], alike[2])  # of one segment
    assert not np.array_equal(alike[0], alike[1])
    assert not np.array_equal(apart[0], apart[2])


def test_deviations_pay_for_those_who_come_back() -> None:
    rows = {name: {row.comes: row.percent for row in reached_by(name, 1, 1.0, 3_000)} for name in POLICIES[2:]}
    assert list(rows["d-linucb"]) == list(COMES)
    assert rows["visitor-linucb"]["10th and later"] > rows["d-linucb"]["10th and later"]
    filled = fill(50)
    assert filled.megabytes > 50 * 8 * 4 * 66 / 1e6
    assert min(filled.decision, filled.update) > 0.0


def test_the_page_tells_gains_by_visit() -> None:
    rows: list[Reached | Filled] = [Filled(100_000, 230.4, 61.0, 90.0)]
    for n, own in enumerate(OWN):
        for policy in POLICIES:
            for place, comes in enumerate(COMES):
                gain = float(n * place) if policy == "visitor-linucb" else 0.0
                rows += [Reached(policy, seed, own, comes, 70.0 + seed + gain) for seed in range(3)]
    page = build_page(rows)
    assert page.answer.startswith("Take visitor-linucb where visitors come back: +6.0 points from the 10th visit on")
    assert "10th and later visit +6.0 (+6.0 to +6.0)" in page.verdict
    assert "100,000 visitors take 230 MB" in page.verdict
    table, memory = page.tables
    assert len(table.rows) == len(OWN) * len(POLICIES)
    assert memory.rows[0] == ("100,000", "230.4", "61", "90")

