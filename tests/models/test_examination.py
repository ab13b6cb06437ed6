"""Which positions were looked at: against every path that a visitor may take, and tables by hand."""

from itertools import product

import numpy as np
import pytest

from zoosim.core.types import BoolArray, FloatArray
from zoosim.models.examination import count_looks, look_table, looked_at


def by_paths(clicks: BoolArray, chances: FloatArray, look: FloatArray) -> FloatArray:
    """Weigh each number of positions that a visitor may have looked at by the chance of it and of the clicks."""
    m, total, seen = len(clicks), 0.0, np.zeros(len(clicks))
    for reached in range(m + 1):  # looked at the first so many, then left, or came to the end
        weight = float(np.prod(look[:reached]) * (1 - look[reached] if reached < m else 1.0))
        for n in range(m):
            p = chances[n] if n < reached else 0.0
            weight *= p if clicks[n] else 1 - p
        total += weight
        seen[:reached] += weight
    return seen / total


def found(clicks: BoolArray, chances: FloatArray, look: FloatArray) -> FloatArray:
    out = np.full(len(clicks), np.nan)
    looked_at(clicks, chances, look, out)
    return out


@pytest.mark.parametrize("m", range(1, 6))
def test_looks_are_those_of_all_paths_for_every_pattern_of_clicks(m: int) -> None:
    rng = np.random.default_rng(m)
    for pattern in product([False, True], repeat=m):
        chances, look, clicks = rng.uniform(0.05, 0.95, m), rng.uniform(0.05, 0.95, m), np.array(pattern)
        seen = found(clicks, chances, look)
        np.testing.assert_allclose(seen, by_paths(clicks, chances, look), rtol=1e-12)
        assert (np.diff(seen) <= 0).all(), "nobody looks at what is below without having looked at what is above"


def test_looks_by_hand() -> None:
    """A click on the first; the second: .5 looked and .6 no click = .3, or .5 left: .3 / .8 = .375."""
    seen = found(np.array([True, False]), np.array([0.2, 0.4]), np.array([0.9, 0.5]))
    np.testing.assert_allclose(seen, [1.0, 0.375])


def test_the_certain_and_the_impossible() -> None:
    none, half = np.zeros(3, bool), np.full(3, 0.5)
    np.testing.assert_array_equal(found(none, half, np.zeros(3)), [0.0, 0.0, 0.0])
    np.testing.assert_array_equal(found(none, half, np.ones(3)), [1.0, 1.0, 1.0])
    # who looks for certain and clicks for certain, but did not click: it cannot be; no division by 0
    np.testing.assert_array_equal(found(none, np.ones(3), np.ones(3)), [0.0, 0.0, 0.0])
    # where nothing is ever clicked, silence tells nothing: .8, .8^2, .8^3
    np.testing.assert_allclose(found(none, np.zeros(3), np.full(3, 0.8)), [0.8, 0.64, 0.512])


def test_looks_are_counted() -> None:
    """Position n is reached by who has looked at the one above; the first by everybody."""
    counts = np.zeros((3, 2))
    count_looks(np.array([0.9, 0.5, 0.2]), counts)
    count_looks(np.array([1.0, 1.0]), counts)
    np.testing.assert_allclose(counts, [[2.0, 1.9], [1.9, 1.5], [0.5, 0.2]])


def test_the_table_by_hand() -> None:
    """Two types, two positions. All: (4 + 14) / (6 + 24) = .6.

    Position 0: (5 * .6 + 9) / (5 + 15) = .6; type 0: (8 + 10 * .6) / (10 + 10) = .7; type 1: (1 + 6) / (5 + 10) = 7/15.
    Position 1: (5 * .6 + 5) / (5 + 9) = 4/7; type 0: (5 + 40/7) / (9 + 10); type 1, which never got there: 4/7.
    """
    counts = np.array([[[10.0, 8.0], [9.0, 5.0]], [[5.0, 1.0], [0.0, 0.0]]])
    out = np.empty((2, 2))
    look_table(counts, np.array([6.0, 4.0]), 5.0, 10.0, out)
    np.testing.assert_allclose(out, [[0.7, (5 + 40 / 7) / 19], [7 / 15, 4 / 7]])


def test_the_table_before_anything_is_seen_is_the_prior() -> None:
    out = np.empty((3, 4))
    look_table(np.zeros((3, 4, 2)), np.array([4.0, 2.4]), 15.0, 10.0, out)
    np.testing.assert_allclose(out, 0.6)


def test_expectation_and_maximisation_find_the_table_that_visits_came_from() -> None:
    """20,000 visits, seed 0: within 4 standard errors, .01 at the fourth position, which 8,600 reach."""
    rng, look, m = np.random.default_rng(0), np.array([0.9, 0.8, 0.6, 0.7]), 4
    chances = rng.uniform(0.2, 0.8, (20_000, m))
    going = np.cumprod(rng.random((20_000, m)) < look, axis=1).astype(bool)
    clicks = going & (rng.random((20_000, m)) < chances)
    table, seen = np.full((1, m), 0.5), np.empty(m)
    for _ in range(30):
        counts = np.zeros((1, m, 2))
        for row in range(20_000):
            looked_at(clicks[row], chances[row], table[0], seen)
            count_looks(seen, counts[0])
        look_table(counts, np.array([1.0, 0.5]), 1e-6, 1e-6, table)
    np.testing.assert_allclose(table[0], look, atol=0.04)
    ignoring = clicks.mean(axis=0) / chances.mean(axis=0)
    assert np.abs(ignoring - look).max() > 0.1, "clicks by position alone must not do"
