"""The outcome of a rehearsed launch: what it brings, what not knowing costs, and which rewards come in time."""

from dataclasses import dataclass

import numpy as np
import pytest

from zoosim.core.types import FloatArray, IntArray
from zoosim.monitoring.launch import State
from zoosim.monitoring.launch_plan import Plan
from zoosim.rehearsal.launches.outcome import Delays, Outcome, Terms, arrivals_of_a_period, rehearse_once
from zoosim.rehearsal.launches.traffic import Traffic, traffic_of

AT_ONCE = Delays(np.zeros(0))


@dataclass
class Rates:
    """A shop whose visits all click alike."""

    today: FloatArray
    new: FloatArray

    def draw(self, rows: IntArray, is_new: bool, rng: np.random.Generator) -> FloatArray:
        rates = self.new if is_new else self.today
        return (rng.random(len(rows)) < rates[rows]).astype(float)


def rates(new: float, n: int = 2_000) -> Rates:
    return Rates(np.full(n, 0.2), np.full(n, new))


def traffic(n: int = 2_000) -> Traffic:
    return traffic_of(np.arange(n), np.arange(n) / n * 24.0, 24.0)


def terms(delays: Delays = AT_ONCE, days: float = 5.0) -> Terms:
    return Terms(Plan.model_validate({}), 0.5, 24.0 * days, delays)


def outcome_of(new: float) -> Outcome:
    return rehearse_once(0, rates(new), traffic(), terms(), np.random.default_rng(0))


def test_a_better_model_ships_and_brings_what_it_earns_more() -> None:
    outcome = outcome_of(0.4)
    assert outcome.state is State.COMPLETED
    assert outcome.effect == pytest.approx(1.0)
    assert outcome.baseline == pytest.approx(0.2 * 2_000 * 5)
    # At least the holdback of 5% is not earned, and the visitors before it shipped.
    assert outcome.net + outcome.asking == pytest.approx(0.2 * 2_000 * 5)
    assert outcome.asking > 0.05 * 0.2 * 2_000 * 5
    assert not outcome.is_regretted(0.0)


def test_a_worse_model_is_taken_back_and_costs_what_its_visitors_earn_less() -> None:
    outcome = outcome_of(0.02)
    assert outcome.state is State.ROLLED_BACK
    assert outcome.net == pytest.approx(-outcome.asking)
    assert outcome.is_regretted(0.0)
    assert not outcome.is_regretted(-outcome.net / outcome.baseline + 1e-9)


def test_what_comes_later_than_the_window_does_not_count() -> None:
    late = terms(Delays(np.array([0.1, 0.9])))
    earned = [
        arrivals_of_a_period(Rates(np.ones(2_000), np.ones(2_000)), traffic(), each, np.random.default_rng(0))
        for each in (terms(), late)
    ]
    assert earned[0].today.mean() == 1.0
    assert earned[1].today.mean() == pytest.approx(0.5, abs=0.05)


def test_a_visitor_counts_once_with_what_all_visits_within_the_window_earn() -> None:
    users = np.repeat(np.arange(1_000), 2)
    hours = np.repeat(np.arange(1_000) / 50.0, 2) + np.tile([0.0, 0.3], 1_000)
    far = hours + np.tile([0.0, 0.3], 1_000)
    for apart, each in ((hours, 2.0), (far, 1.0)):
        both = traffic_of(users, apart, 24.0)
        counted = arrivals_of_a_period(Rates(np.ones(2_000), np.ones(2_000)), both, terms(), np.random.default_rng(0))
        assert set(counted.today) == {each}
        assert len(counted.hour) == pytest.approx(1_000, abs=150)
        assert (np.diff(counted.hour) >= 0.0).all()
