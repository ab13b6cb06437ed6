"""The study of schedules of optimism: what is measured, and what its page says of made-up rewards."""

import pytest

from studies.optimism import build_page
from studies.optimism.measuring import FALLING, GREEDY, GROWING, PERIODS, RENEWED, SCHEDULES, Earned, earned_by
from studies.optimism.page import best_constant, paired


def made_up(gain_when_new: float) -> list[Earned]:
    """Return rewards that rise with beta in a new catalogue, and fall with it elsewhere."""
    rows = []
    for seed in range(4):
        for n, schedule in enumerate(SCHEDULES):
            for period in PERIODS:
                gain = gain_when_new if period == RENEWED else -1.0
                rows.append(Earned(schedule, seed, period, 10.0 + seed + gain * n))
    return rows


@pytest.mark.slow
def test_rewards_are_those_of_the_periods() -> None:
    periods = {"first": (0, 3), "all": (0, 120)}
    greedy, growing = (earned_by(name, 3, periods) for name in (GREEDY, GROWING))
    assert [row.period for row in greedy] == ["first", "all"]
    assert greedy[0].reward == growing[0].reward  # random boosts of the same draws
    assert greedy[1].reward != growing[1].reward


def test_the_page_says_whether_new_products_ask_for_more_optimism() -> None:
    page = build_page(made_up(1.0))
    assert page.answer.startswith("Raise beta where the catalogue is new: beta 4 earns 4.00")
    assert build_page(made_up(-1.0)).answer.startswith("Leave beta as it is where the catalogue is new: ")
    assert best_constant(made_up(1.0), RENEWED) == "beta 4"
    assert paired(made_up(1.0), FALLING, GREEDY, RENEWED).mean == pytest.approx(5.0)
    rewards, gains = page.tables
    assert [row[0] for row in rewards.rows] == list(SCHEDULES)
    assert [row[0] for row in gains.rows] == list(SCHEDULES)[1:]
