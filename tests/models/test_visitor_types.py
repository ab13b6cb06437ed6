"""Hidden types of visitors: found in lives that were drawn from known ones, and what moves a tally."""

import numpy as np

from zoosim.models.visitor_model import GOES, RETURNS, STAYS
from zoosim.models.visitor_types import (
    MOST_CLICKS,
    Lives,
    Tally,
    Types,
    find_tally,
    fit_types,
    log_beliefs,
    moves_of,
    state_numbers,
    walk,
)

CHANCES = np.array([[0.8, 0.1, 0.5], [0.1, 0.7, 0.5]])
"""Of a click, by type and kind."""


def lives_of(visitors: int, visits: int = 1, decisions: int = 10) -> tuple[Lives, np.ndarray]:
    """Return lives of two types, a third of the second one, who are shown kinds at random, and the types."""
    rng = np.random.default_rng(0)
    types = (rng.random(visitors) < 1 / 3).astype(np.int64)
    numbers = np.repeat(np.arange(visitors), visits * decisions)
    kinds = rng.integers(3, size=len(numbers))
    clicked = rng.random(len(numbers)) < CHANCES[types[numbers], kinds]
    follows = np.where(np.arange(len(numbers)) % decisions == decisions - 1, RETURNS, STAYS)
    follows[visits * decisions - 1 :: visits * decisions] = GOES
    return Lives(numbers, kinds, clicked, follows), types


def test_types_that_made_lives_are_found_again() -> None:
    lives, types = lives_of(400)
    found = fit_types(lives, 2, 3, None, rng=np.random.default_rng(1))
    order = np.argsort(-found.shares)
    np.testing.assert_allclose(found.shares[order], [2 / 3, 1 / 3], atol=0.08)
    np.testing.assert_allclose(found.clicks[order][:, 0], CHANCES, atol=0.12)
    beliefs = log_beliefs(lives, walk(lives, Tally(np.zeros(3, np.int64), 0)).before[:, 0], found)
    assert (order[types] == beliefs.argmax(axis=1)).mean() > 0.93, "ten decisions tell nearly all apart"
    # One pass over other lives: types keep their places.
    again = fit_types(lives, 2, 3, found, rng=np.random.default_rng(2))
    assert abs(again.shares[order[0]] - 2 / 3) < 0.08


def test_beliefs_are_those_of_bayes_rule() -> None:
    types = Types(np.array([0.25, 0.75]), np.repeat(CHANCES[:, np.newaxis], 4, axis=1))
    lives = Lives(np.zeros(2, np.int64), np.array([0, 1]), np.array([True, False]), np.array([STAYS, GOES]))
    logs = log_beliefs(lives, np.array([0, 1]), types)
    # A click on kind 0, then none on kind 1.
    np.testing.assert_allclose(np.exp(logs[0]), [0.25 * 0.8 * 0.9, 0.75 * 0.1 * 0.3])


def test_states_follow_clicks_visits_and_bounds() -> None:
    lives = Lives(
        visitors=np.array([0, 0, 0, 0, 1]),
        kinds=np.array([0, 1, 1, 1, 2]),
        clicked=np.array([True, True, True, False, False]),
        follows=np.array([STAYS, STAYS, RETURNS, GOES, GOES]),
    )
    tally = Tally(np.array([1, -1, 1]), 1)
    walked = walk(lives, tally)
    np.testing.assert_array_equal(walked.before, [[0, 1, 0], [1, 2, 1], [2, 1, 2], [0, 0, 0], [0, 1, 0]])
    np.testing.assert_array_equal(walked.left[:3], [[1, 2, 1], [2, 1, 2], [2, 0, 3]])
    moves = moves_of(tally)
    numbers = state_numbers(walked.before, 3, 1)
    assert moves.after_click[numbers[1], 1] == numbers[2]
    assert moves.after_visit[state_numbers(walked.left[2], 3, 1)] == numbers[3]
    assert len(moves.after_visit) == 4 * 3 * (MOST_CLICKS + 1)


def test_what_brings_visitors_back_moves_the_tally() -> None:
    lives, _ = lives_of(500, visits=4)
    products = np.array([[1.0, 0.0], [0.0, 0.0], [0.0, 1.0]])
    walked = walk(lives, Tally(np.array([1, 1, -1]), 2))
    # Who is at the upper bound mostly comes back, others seldom; the second feature alone tells who is.
    at_end = lives.follows != STAYS
    comes = np.random.default_rng(3).random(len(at_end)) < np.where(walked.left[:, 1] == 4, 0.9, 0.3)
    follows = np.where(at_end & (lives.follows != GOES), np.where(comes, RETURNS, GOES), lives.follows)
    tally = find_tally(lives._replace(follows=follows), products)
    np.testing.assert_array_equal(tally.steps, [1, 1, -1])
