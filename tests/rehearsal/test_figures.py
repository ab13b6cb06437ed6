"""What policies earn against today's choices: by hand, and by a table of the whole shop."""

import numpy as np
import pytest

from tests.fitting.shops import shop_log
from zoosim.core.arrays import evenly_spread
from zoosim.core.durations import DAY
from zoosim.fitting.fit import fit_shop
from zoosim.rehearsal.figures import break_even, mean_over_horizon, todays_rewards
from zoosim.rehearsal.shop import describe_horizon, measure_delay, months_visits
from zoosim.worlds.fitted.world import build_fitted_world

SECOND = 1_000_000


@pytest.mark.parametrize(
    ("ahead", "visits"),
    [
        ([0.1, 0.2, 0.3], 0),
        ([-0.1, 0.2, 0.3], 1),
        ([0.1, -0.2, 0.0], 2),
        ([-0.1, -0.2, -0.3], None),
        ([0.5, 0.2, -0.1], None),
    ],
)
def test_the_visit_from_which_on_a_policy_is_not_behind(ahead: list[float], visits: int | None) -> None:
    assert break_even(np.array(ahead)) == visits


def test_what_is_not_rehearsed_of_a_horizon_earns_as_the_last_fifth() -> None:
    """Ten visits earn 0, ..., 9, the last two 8.5 on average; ten more make (45 + 85) / 20."""
    rewards = np.array([np.arange(10.0), np.ones(10)])
    np.testing.assert_allclose(mean_over_horizon(rewards, 20), [6.5, 1.0])
    np.testing.assert_allclose(mean_over_horizon(rewards, 10), [4.5, 1.0])


def test_todays_choices_earn_what_the_shop_pays_for_them_at_the_same_visits() -> None:
    log = shop_log(np.random.default_rng(0), 400)
    world = build_fitted_world(fit_shop(log).shop, seed=3, steps=60)
    rows = world.schedule_of_rows
    table = world.shop.expected_rewards(world.draw, rows)
    chosen = table[np.arange(60), log.actions[rows]]
    np.testing.assert_allclose(todays_rewards(world, log.actions), chosen, rtol=1e-12)


def test_rows_that_a_smaller_shop_keeps() -> None:
    assert evenly_spread(4, 9).tolist() == [0, 1, 2, 3]
    assert evenly_spread(9, 3).tolist() == [0, 4, 8]


def test_the_delay_of_rewards_in_seconds_and_in_visits() -> None:
    """A visit a second; rewards of visits 0, 2 and 4 come 3, 5 and 100 seconds later: after 3, 5 and 5 visits."""
    log = shop_log(np.random.default_rng(0), 10, times=np.arange(10) * SECOND)
    delays = np.full(10, np.nan)
    delays[[0, 2, 4]] = 3.0, 5.0, 100.0
    assert measure_delay(log, delays) == (5.0, 5, 3)
    assert measure_delay(log, np.full(10, np.nan)) is None


def test_a_horizon_is_said_with_the_time_that_it_takes() -> None:
    """300 visits in two days are 150 a day, 4,500 a month."""
    log = shop_log(np.random.default_rng(0), 300, times=np.linspace(0, 2 * DAY, 300).astype(np.int64))
    assert months_visits(log) == 4_500
    assert months_visits(shop_log(np.random.default_rng(0), 300)) == 300
    assert describe_horizon(4_500, 150.0) == "the next 4,500 visits (30 days)"
    assert describe_horizon(25, 150.0) == "the next 25 visits (4 hours)"
    assert describe_horizon(25, None) == "the next 25 visits"
