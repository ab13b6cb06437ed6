"""The projection onto ball and box: by hand, by its optimality conditions, and against a general solver."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize

from zoosim.core.errors import ConfigError
from zoosim.optimizers import project_trust_region

Floats = NDArray[np.float64]


def test_inside_nothing_moves() -> None:
    a = np.array([0.1, -0.2])
    assert project_trust_region(a, np.zeros(2), 0.5, 0.5).tolist() == a.tolist()


def test_the_ball_alone_scales() -> None:
    """(3, 4) is 5 from 0: the nearest point at 1 is a fifth of it, as the chapter's function returns."""
    assert project_trust_region(np.array([3.0, 4.0]), np.zeros(2), 1.0) == pytest.approx([0.6, 0.8])
    assert project_trust_region(np.array([4.0, 6.0]), np.array([1.0, 2.0]), 1.0) == pytest.approx([1.6, 2.8])


def test_the_box_alone_clips() -> None:
    assert project_trust_region(np.array([3.0, -0.1]), np.zeros(2), 9.0, 0.5).tolist() == [0.5, -0.1]


def test_ball_and_box_by_hand() -> None:
    """From (.5, 0) towards (2, 1) with radius .5 in the box of .6: x stops at .6, .1 away, so y = sqrt(.25 - .01).

    Clipping to the box, (.6, .6), and then scaling to the ball ends at (.582, .493), which is .04 further away.
    """
    got = project_trust_region(np.array([2.0, 1.0]), np.array([0.5, 0.0]), 0.5, 0.6)
    assert got == pytest.approx([0.6, np.sqrt(0.24)])


def cases(d: int) -> tuple[Floats, Floats, float, float]:
    rng = np.random.default_rng(d)
    centre = rng.uniform(-0.5, 0.5, d)
    centre[0] = 0.5  # on a side of the box
    return rng.normal(0, 1, (200, d)) * 10 ** rng.uniform(-1, 1, (200, 1)), centre, 0.3 * d**0.5, 0.5


@pytest.mark.parametrize("d", [1, 2, 3, 10, 40])
def test_optimality_conditions_hold(d: int) -> None:
    """The nearest point x of a convex set has (a - x)'(y - x) <= 0 for every y of the set, and lies in it."""
    points, centre, radius, a_max = cases(d)
    got = project_trust_region(points, centre, radius, a_max)
    assert np.abs(got).max() <= a_max
    assert np.linalg.norm(got - centre, axis=1).max() <= radius * (1 + 1e-12)
    others = np.random.default_rng(0).uniform(-a_max, a_max, (500, d))
    others = project_trust_region(others, centre, radius, a_max)
    slopes = np.einsum("nd,nmd->nm", points - got, others[np.newaxis] - got[:, np.newaxis])
    assert slopes.max() <= 1e-9
    outside = np.abs(points - got).max(axis=1) > 1e-12
    on_edge = (np.abs(got) == a_max).any(axis=1) | (np.abs(np.linalg.norm(got - centre, axis=1) - radius) < 1e-12)
    assert outside.any()
    assert on_edge[outside].all()


@pytest.mark.parametrize("d", [2, 5])
def test_a_general_solver_agrees(d: int) -> None:
    points, centre, radius, a_max = cases(d)
    for a in points[:20]:
        ball = {"type": "ineq", "fun": lambda x: radius**2 - ((x - centre) ** 2).sum()}
        start = centre + 0.5 * (np.clip(a, -a_max, a_max) - centre) * min(1, radius)
        limits = [(-a_max, a_max)] * d
        solved = minimize(lambda x, a=a: ((x - a) ** 2).sum(), start, bounds=limits, constraints=[ball], tol=1e-12)
        got = project_trust_region(a, centre, radius, a_max)
        assert got == pytest.approx(solved.x, abs=1e-5)
        # The solver may end outside the ball by its own tolerance, where points are nearer than any inside.
        step = solved.x - centre
        inside = centre + step * min(1.0, radius / np.linalg.norm(step))
        assert ((got - a) ** 2).sum() <= ((inside - a) ** 2).sum() + 1e-12


def test_clipping_and_scaling_is_further_away() -> None:
    points, centre, radius, a_max = cases(10)
    got = project_trust_region(points, centre, radius, a_max)
    clipped = np.clip(points, -a_max, a_max) - centre
    naive = centre + clipped * np.minimum(1, radius / np.linalg.norm(clipped, axis=1))[:, np.newaxis]
    gain = np.linalg.norm(naive - points, axis=1) - np.linalg.norm(got - points, axis=1)
    assert gain.min() > -1e-12
    assert gain.max() > 0.1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.array([np.nan, 0]), np.zeros(2), 1.0), "a: got array"),
        ((np.zeros((2, 2, 2)), np.zeros(2), 1.0), "a: got an array of shape"),
        ((np.zeros(2), np.zeros(3), 1.0), "a_prev: got an array of shape"),
        ((np.zeros(2), np.array([0.0, 0.7]), 1.0, 0.5), "a_prev: got a coordinate of size 0.7, expected at most a_max"),
        ((np.zeros(2), np.zeros(2), 0.0), "delta: got 0.0, expected finite numbers of at least 1e-09"),
        ((np.zeros(2), np.zeros(2), "wide"), "delta: got 'wide', expected an array of numbers"),
    ],
)
def test_what_does_not_fit_is_refused(arguments: tuple[Floats, Floats, float], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        project_trust_region(*arguments)
