"""The rankings that boosts reach are all of them: by hand, and against boosts that are drawn."""

import numpy as np

from zoosim.core.rng import stream
from zoosim.worlds.lure.rankings import rankings_by, reachable_boosts


def test_two_products_and_one_feature_by_hand() -> None:
    """Product 1 passes product 0 where .5 x > .25."""
    base = np.array([0.25, 0.0])
    features = np.array([[0.0], [0.5]])
    boosts = reachable_boosts(base, features, 2, 1.0)
    np.testing.assert_array_equal(rankings_by(base, features, boosts, 2), [[0, 1], [1, 0]])
    # Out of reach where the box ends before.
    assert len(reachable_boosts(base, features, 2, 0.4)) == 1


def test_two_features_by_hand() -> None:
    """Products on the corners of a triangle around the middle: each order can be made, but not on a line."""
    base = np.zeros(3)
    corners = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]])
    assert len(reachable_boosts(base, corners, 3, 1.0)) == 6
    on_a_line = np.array([[1.0, 0.0], [0.0, 0.0], [-1.0, 0.0]])
    # No boosts leave all tied, by number, which is what boosts along the line give, too.
    assert len(reachable_boosts(base, on_a_line, 3, 1.0)) == 2


def test_no_drawn_boosts_make_another_ranking() -> None:
    rng = stream(0, "lure")
    base = rng.normal(size=7)
    features = rng.normal(size=(7, 3))
    boosts = reachable_boosts(base, features, 3, 1.5)
    found = {tuple(ranking) for ranking in rankings_by(base, features, boosts, 3)}
    assert len(found) == len(boosts)
    # Anywhere, and near those that were found, where small cells are.
    anywhere = rng.uniform(-1.5, 1.5, (50_000, 3))
    near = boosts[rng.integers(len(boosts), size=50_000)] + rng.normal(size=(50_000, 3)) * 0.02
    near = near[(np.abs(near) < 1.5).all(axis=1)]
    for drawn in (anywhere, near):
        others = {tuple(ranking) for ranking in rankings_by(base, features, drawn, 3)}
        assert others <= found
        assert len(others) > len(found) // 2
