"""A model of visitors who come back: the parts of states, what moves them, and the values that follow."""

import numpy as np

from zoosim.models.visitor_model import GOES, RETURNS, STAYS, Decisions, find_parts, make_plan, values_of_parts


def test_parts_are_groups_of_features_of_which_one_is_1() -> None:
    rows = np.array([[1, 0, 0, 0, 1], [0, 1, 0, 0, 1], [0, 1, 0, 1, 0]], float)
    starts = find_parts(rows)
    # Feature 2 was never 1: it belongs to the group before it.
    np.testing.assert_array_equal(starts, [0, 3, 5])
    np.testing.assert_array_equal(values_of_parts(rows, starts), [[0, 1], [1, 1], [1, 0]])
    np.testing.assert_array_equal(values_of_parts(np.array([[0, 0, 1, 0, 0.0]]), starts), [[2, -1]])


def test_other_features_are_not_told_apart() -> None:
    for rows in (np.array([[0.5, 1.0]]), np.array([[1.0, 1.0], [1.0, 0.0]]), np.zeros((0, 2)), np.zeros((3, 2))):
        assert len(find_parts(rows)) == 0
    np.testing.assert_array_equal(values_of_parts(np.array([[0.5, 1.0]]), np.zeros(0, int)), [[0]])


def decided(n: int, rng: np.random.Generator) -> tuple[Decisions, np.ndarray]:
    """Return decisions of visitors at two levels with two kinds of product, and the exact values `(2, 2)`.

    Kind 0 is clicked with .3, kind 1 with .6; kind 1 takes a visitor to level 0 if it is clicked, kind 0 to level 1. A
    visit ends with .5, and a visitor then comes back with .2 from level 0, .8 from level 1, staying there.
    """
    chances, back = np.array([0.3, 0.6]), np.array([0.2, 0.8])
    levels, kinds = rng.integers(2, size=n), rng.integers(2, size=n)
    clicked = rng.random(n) < chances[kinds]
    left = np.where(clicked, np.where(kinds == 1, 0, 1), levels)
    comes = rng.random(n) < back[left]
    follows = np.where(rng.random(n) < 0.5, STAYS, np.where(comes, RETURNS, GOES))
    after = np.where((follows == GOES)[:, np.newaxis], 0.0, np.eye(2)[left])
    values = np.zeros((2, 2))
    for _ in range(2_000):
        onwards = (0.5 + 0.5 * back) * values.max(axis=1)
        values = np.array(
            [[p * (1 + onwards[to]) + (1 - p) * onwards[level] for p, to in ((0.3, 1), (0.6, 0))] for level in (0, 1)]
        )
    return Decisions(np.eye(2)[levels], after, kinds, clicked, follows), values


def test_values_are_those_of_the_best_policy_over_visits() -> None:
    decisions, exact = decided(40_000, np.random.default_rng(1))
    assert exact[1].argmax() == 0, "to give up a click today pays"
    starts = find_parts(decisions.before)
    plan = make_plan(decisions, starts, np.eye(2), rng=np.random.default_rng(2))
    np.testing.assert_allclose(plan.expected, exact, rtol=0.08)
    np.testing.assert_array_equal(plan.expected.argmax(axis=1), exact.argmax(axis=1))
    np.testing.assert_allclose(plan.drawn, exact, rtol=0.2)
    assert (plan.drawn != plan.expected).any()
    # A visit taken for all there is: the myopic product.
    alone = decisions._replace(follows=np.where(decisions.follows == RETURNS, GOES, decisions.follows))
    myopic = make_plan(alone, starts, np.eye(2), rng=np.random.default_rng(2)).expected
    np.testing.assert_array_equal(myopic.argmax(axis=1), [1, 1])


def test_what_was_never_seen_moves_as_far_as_what_was() -> None:
    """Four levels of which three were seen: a click moves one level up, no click none, and the last one stays."""
    levels = np.array([0, 1, 1, 2, 3, 0, 1])
    clicked = np.array([1, 1, 0, 0, 1, 0, 1], bool)
    after = np.minimum(levels + clicked, 3)
    rows = Decisions(np.eye(4)[levels], np.eye(4)[after], np.zeros(7, int), clicked, np.full(7, STAYS))
    rows.follows[-1] = GOES
    values = make_plan(rows, find_parts(rows.before), np.zeros((1, 1)), rng=np.random.default_rng(0)).expected
    assert values.shape == (4, 1)
    assert np.isfinite(values).all()
    assert (values > 0.0).all()
