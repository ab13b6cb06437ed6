"""Multipliers that adapt online: steps by hand, the known solution of a small problem, words, and saved states."""

import numpy as np
import pytest

from zoosim.core.errors import ConfigError
from zoosim.optimizers.dual_ascent import EARLY, FIRST, LEAST, MOST, Constraint, DualAscent, Standing

CM2 = Constraint("cm2", 2.0)
RANKS = Constraint("rank_change", 3.0, is_floor=False)


def test_one_visit_moves_the_multipliers_as_the_formula_says() -> None:
    dual = DualAscent([CM2, RANKS], step=8.0)
    assert dual.prices().tolist() == [0.0, 0.0]  # no reward so far, so nothing is known of its unit
    dual.update(10.0, np.array([1.0, 6.0]))
    # Mean |R| = 10; sizes max(2, 1) and max(3, 6); gaps at the first visit 2 - 1 and 6 - 3, by the sizes then.
    levels = FIRST * np.exp(8.0 / EARLY * np.array([(2.0 - 1.0) / 2.0, (6.0 - 3.0) / 6.0]))
    expected = (levels - LEAST) * 10.0 / np.array([2.0, 6.0])
    np.testing.assert_allclose(dual.prices(), expected * [1.0, -1.0], rtol=1e-12)


def play(dual: DualAscent, visits: int, *, rng: np.random.Generator) -> list[float]:
    """Let visits choose x in [0, 1] that maximises 1 - x^2 / 2 + price x, and bring x on average; returns the x."""
    chosen = []
    for _ in range(visits):
        x = float(np.clip(dual.prices()[0], 0.0, 1.0))
        dual.update(1.0 - x * x / 2.0, np.array([rng.exponential(2.0 * x) if rng.random() < 0.5 else 0.0]))
        chosen.append(x)
    return chosen


def test_it_finds_the_least_multiplier_that_keeps_the_floor() -> None:
    # The Lagrangian's maximum is at x = price, so that the floor .5 is kept from the price .5 on.
    ends = []
    for seed in range(20):
        dual = DualAscent([Constraint("x", 0.5)], step=8.0)
        ends.append(play(dual, 2_000, rng=np.random.default_rng(seed))[-1])
    # Of 20 runs: standard deviation of one below .1, so of the mean below .023.
    assert abs(np.mean(ends) - 0.5) < 3 * 0.023
    assert np.std(ends) < 0.1


def test_a_floor_beyond_reach_is_said_in_words_and_one_that_is_slack_costs_nothing() -> None:
    rng = np.random.default_rng(0)
    beyond = DualAscent([Constraint("x", 1.5)], step=8.0)
    slack = DualAscent([Constraint("x", 0.0)], step=8.0)
    first = beyond.reports()[0]
    assert first.standing == Standing.UNKNOWN
    assert first.sentence == "x: floor 1.5 per visit, too few visits to tell"
    play(beyond, 3_000, rng=rng)
    report = beyond.reports()[0]
    assert report.standing == Standing.IMPOSSIBLE
    assert abs(report.mean - 1.0) < 0.2  # the most that x can be
    assert "cannot be met" in report.sentence
    for _ in range(2_000):
        slack.update(1.0, np.array([rng.exponential(1.0)]))
    assert slack.prices()[0] == 0.0
    assert slack.reports()[0].standing == Standing.MET


def test_a_floor_that_is_missed_for_the_moment_is_not_called_impossible() -> None:
    dual = DualAscent([CM2], step=0.01)
    for _ in range(200):
        dual.update(1.0, np.array([1.0]))
    assert dual.reports()[0].standing == Standing.RISING


def test_wild_visits_leave_levels_within_their_limits() -> None:
    dual = DualAscent([CM2, RANKS], step=100.0)
    for wild in (1e9, -1e9, 0.0):
        dual.update(wild, np.array([wild, wild]))
        levels = dual.state_dict()["levels"]
        assert np.isfinite(dual.prices()).all()
        assert levels.min() >= LEAST
        assert levels.max() <= MOST


def test_saved_and_loaded_it_goes_on_to_the_bit_and_refuses_what_is_broken() -> None:
    one = DualAscent([CM2], step=8.0)
    other = DualAscent([CM2], step=8.0)
    one.update(3.0, np.array([0.3]))
    other.load_state_dict(one.state_dict())
    for dual in (one, other):
        dual.update(2.0, np.array([1.7]))
    assert one.prices().tobytes() == other.prices().tobytes()
    assert one.reports() == other.reports()
    with pytest.raises(ConfigError, match="levels"):
        one.load_state_dict({**one.state_dict(), "levels": np.array([MOST + 1.0])})
    with pytest.raises(ConfigError, match="variance below 0"):
        one.load_state_dict({**one.state_dict(), "recent": np.array([[0.0], [-1.0]])})
