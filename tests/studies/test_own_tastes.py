"""The study of visitors with tastes of their own: its world, whose visit is which, and its page."""

from typing import Any

import numpy as np
import pytest

from studies.own_tastes import build_page, measure
from studies.own_tastes.measuring import (
    COMES,
    COMPARED,
    OWN,
    POLICIES,
    Filled,
    Reached,
    fill,
    reached_by,
    visit_numbers,
)
from studies.own_tastes.world import own_tastes
from zoosim.core.errors import ConfigError


def test_visits_are_numbered_by_visitor() -> None:
    assert visit_numbers(np.array([3, 1, 3, 3, 1, 0])).tolist() == [0, 0, 1, 2, 1, 0]


def test_own_tastes_are_beside_those_of_all() -> None:
    alike, apart = (own_tastes(0, visitors=9, own=own).periods[0].table for own in (0.0, 1.0))
    assert np.array_equal(alike[0], alike[2])  # of one segment
    assert not np.array_equal(alike[0], alike[1])
    assert not np.array_equal(apart[0], apart[2])


@pytest.mark.slow
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
    assert page.answer.endswith(
        "brings more than linucb: +8.0 at own tastes 1, +4.0 at own tastes 0.5, +0.0 at own tastes 0."
    )
    assert "10th and later +6.0 (+6.0 to +6.0)" in page.verdict
    assert "100,000 visitors take 230 MB" in page.verdict
    some = [row for row in rows if isinstance(row, Filled) or (row.policy in COMPARED and row.own == 1.0)]
    assert len(build_page(some).tables[0].rows) == len(COMPARED)
    table, memory = page.tables
    assert len(table.rows) == len(OWN) * len(POLICIES)
    assert memory.rows[0] == ("100,000", "230.4", "61", "90")


@pytest.mark.parametrize(
    "options", [{"own": [2]}, {"own": 1}, {"policies": ["visitor-linucb"]}, {"policies": "linucb"}]
)
def test_what_is_no_choice_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"own-tastes: (own|policies): got .*, expected a list of some of"):
        measure(seeds="0:1", **options)
