"""The study of shocks that visitors who come back live through: what is measured, and what its page says."""

import pytest

from studies.session_curves import Learner
from studies.shocks_sessions import build_page, measure
from studies.shocks_sessions.measuring import PERIODS, Followed, followed, visits_until_back
from zoosim.core.errors import ConfigError


@pytest.mark.slow
def test_a_bandit_is_looked_at_before_and_after_each_shock() -> None:
    rows = followed(Learner("a bandit", "linucb", {}), 3, 400)
    first = {row.period: row.percent for row in rows if row.visits == 0}
    assert list(first) == list(PERIODS)
    assert [row.visits for row in rows if row.period == PERIODS[1]] == [0, 100, 300, 600]
    assert all(row.percent < 66.7 for row in rows), "a bandit reaches what the best next click is worth, and no more"


def lives(learner: str, percents: list[float]) -> list[Followed]:
    """Return figures of two seeds, with the same percentages in all periods."""
    return [
        Followed(learner, seed, period, visits, percent)
        for seed in (0, 1)
        for period in PERIODS
        for visits, percent in zip((0, 100, 300), percents, strict=True)
    ]


def test_who_falls_back_again_is_not_back() -> None:
    rows = [row for row in lives("planner", [99.0, 90.0, 96.0]) if (row.seed, row.period) == (0, PERIODS[1])]
    assert visits_until_back(rows) == 300
    assert visits_until_back(rows[:2]) is None


def test_the_page_says_who_is_back_soonest() -> None:
    page = build_page([*lives("dqn", [70.0, 80.0, 94.0]), *lives("planner", [80.0, 96.0, 97.0])])
    assert page.answer.startswith("planner is back at 95% of the optimum within 100 visits of both shocks, all seeds")
    loud, silent = page.tables
    assert [row[-2:] for row in loud.rows] == [("not", "0 of 2"), ("100", "2 of 2")]
    assert "optimum of before 80.8%" in loud.caption
    assert "optimum of the opening 78.9%, myopic 62.2%" in silent.caption
    assert build_page(lives("dqn", [70.0, 80.0, 94.0])).answer.startswith("No learner is back")


def test_learners_that_are_none_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"unknown learner 'planer' \(did you mean planner"):
        measure(seeds=1, learners=["planer"])
