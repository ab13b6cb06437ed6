"""Visitors drawn anew from a log: each with all visits of theirs, at their hours, a period after another."""

from itertools import islice

import numpy as np
import pytest

from zoosim.rehearsal.launches.traffic import traffic_of

USERS = np.array([2, 0, 2, 1, 2])
HOURS = np.array([0.0, 1.0, 2.0, 3.0, 4.0])


def test_each_visitor_brings_all_visits_in_order_and_comes_again_as_another_one() -> None:
    traffic = traffic_of(USERS, HOURS, period=10.0)
    for number, visits in enumerate(islice(traffic.periods(np.random.default_rng(0)), 5)):
        assert (visits.hour == 10.0 * number + HOURS[visits.row]).all()
        lives = np.split(visits.row, np.flatnonzero(visits.is_first)[1:])
        assert {tuple(life) for life in lives} <= {(1,), (3,), (0, 2, 4)}


def test_the_pace_says_how_many_come() -> None:
    traffic = traffic_of(USERS, HOURS, period=10.0, pace=200.0)
    assert traffic.visits_per_hour == 5 * 200.0 / 10.0
    visits = next(traffic.periods(np.random.default_rng(0)))
    assert visits.is_first.sum() == pytest.approx(600, abs=4 * np.sqrt(600))
