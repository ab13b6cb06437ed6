"""The table: one step by hand, the values of a known problem, and what is refused."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from zoosim.core.errors import ConfigError, DataError
from zoosim.policies.templates.tabular_q import TabularQFunction


def test_a_step_worked_out_by_hand() -> None:
    """From 2 towards 6 with a step of .25: .75 * 2 + .25 * 6 = 3."""
    Q = TabularQFunction(2, 3, initial_value=2.0)
    Q.update(1, 2, target=6.0, lr=0.25)
    assert Q.get(1, 2) == 3.0
    assert (Q.get_optimal_action(1), Q.get_optimal_value(1)) == (2, 3.0)
    assert (Q.get_optimal_action(0), Q.get_optimal_value(0)) == (0, 2.0)


def test_learned_values_are_near_the_truth() -> None:
    """A step of .1 leaves an error of sd .5 sqrt(.1 / 1.9) = .115; 12 cells stay within 4 of them (seed 42)."""
    rng, Q = np.random.default_rng(42), TabularQFunction(3, 4)
    for _ in range(10_000):
        x, a = int(rng.integers(0, 3)), int(rng.integers(0, 4))
        Q.update(x, a, target=x + a + rng.normal(0, 0.5))
    assert np.abs(Q.Q - np.add.outer(np.arange(3), np.arange(4))).max() < 4 * 0.115
    assert [Q.get_optimal_action(x) for x in range(3)] == [3, 3, 3]


@pytest.mark.parametrize("target", [math.nan, math.inf])
def test_what_is_no_number_leaves_the_table_alone(target: float) -> None:
    Q = TabularQFunction(1, 1, initial_value=7.0)
    with pytest.raises(DataError, match=r"update: got target (nan|inf), expected a finite number"):
        Q.update(0, 0, target)
    assert Q.get(0, 0) == 7.0


def test_refusals() -> None:
    with pytest.raises(ConfigError, match="n_actions: got 0, expected a whole number of at least 1"):
        TabularQFunction(3, 0)
    with pytest.raises(ConfigError, match="initial_value: got nan"):
        TabularQFunction(3, 1, math.nan)
    Q = TabularQFunction(3, 4)
    with pytest.raises(ConfigError, match=r"lr 1.5, expected a number above 0, at most 1"):
        Q.update(0, 0, 1.0, lr=1.5)
    with pytest.raises(DataError, match=r"got context 3 and action 0, expected contexts 0 to 2 and actions 0 to 3"):
        Q.get_optimal_action(3)


@pytest.mark.parametrize("wrong", [math.nan, 1.0, True, "1", None, [0], -1])
def test_what_is_no_context_action_or_number_is_refused_by_name(wrong: Any) -> None:
    Q = TabularQFunction(3, 4)
    calls: list[Callable[[], Any]] = [
        lambda: Q.get(wrong, 0),
        lambda: Q.get(0, wrong),
        lambda: Q.update(wrong, 0, 1.0),
        lambda: Q.update(0, wrong, 1.0),
        lambda: Q.get_optimal_action(wrong),
        lambda: Q.get_optimal_value(wrong),
    ]
    for call in calls:
        with pytest.raises(DataError, match="expected contexts 0 to 2 and actions 0 to 3"):
            call()
    np.testing.assert_array_equal(Q.Q, np.zeros((3, 4)))


@pytest.mark.parametrize("wrong", [math.nan, math.inf, True, "1", None, [0]])
def test_what_is_no_number_is_refused_by_name(wrong: Any) -> None:
    Q = TabularQFunction(3, 4)
    with pytest.raises(DataError, match="update: got target"):
        Q.update(0, 0, wrong)
    with pytest.raises(ConfigError, match="update: got lr"):
        Q.update(0, 0, 1.0, lr=wrong)
    with pytest.raises(ConfigError, match="initial_value: got"):
        TabularQFunction(3, 4, wrong)
    np.testing.assert_array_equal(Q.Q, np.zeros((3, 4)))
