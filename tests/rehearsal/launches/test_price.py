"""The price of knowing: days and costs of telling a change."""

import numpy as np
import pytest

from zoosim.monitoring.launch_plan import Plan
from zoosim.monitoring.sample_size import events_needed
from zoosim.rehearsal.launches.price import LIFTS, SHARES, in_days, price_list

PLAN = Plan.model_validate({"holdback": 0.1})
CLICKS = np.repeat([1.0, 0.0], [100, 900])


def test_days_follow_from_visitors_and_costs_from_all_that_is_earned() -> None:
    prices = {(price.lift, price.share): price for price in price_list(PLAN, CLICKS, 1_000.0, 300.0)}
    assert len(prices) == len(LIFTS) * len(SHARES)
    price = prices[0.1, 0.5]
    needed = events_needed(0.01, 0.09, 0.5, PLAN.ship_level)
    assert price.days == pytest.approx(needed / 900.0)
    assert price.a_day == pytest.approx(0.5 * 0.9 * 0.1 * 300.0)
    assert price.in_all == pytest.approx(price.days * price.a_day)
    assert prices[0.2, 0.5].days == pytest.approx(price.days / 4.0)


def test_where_nothing_is_earned_nothing_can_be_priced() -> None:
    assert price_list(PLAN, np.zeros(100), 1_000.0, 0.0) == []


def test_times_are_hours_at_first() -> None:
    assert in_days(1.5) == "36 hours"
    assert in_days(41.2) == "41 days"
    assert in_days(np.inf) == "never"
