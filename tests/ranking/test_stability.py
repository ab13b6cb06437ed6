"""How far boosts may move a ranking: counts by hand, and the largest scale and radius against plain searches."""

import numpy as np
import pytest

from zoosim.core.errors import ConfigError, DataError
from zoosim.core.types import FloatArray
from zoosim.ranking.stability import adaptive_radius, largest_scale, products_leaving, rank_change, scaled_back

BASE = np.array([5.0, 4.0, 3.0, 2.0, 1.0])
ONE = np.array([[0.0], [0.0], [0.0], [2.0], [8.0]])


def shop(seed: int, n: int = 60) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return base scores `(n,)`, boost features `(n, 4)` and boosts `(4,)`."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=n), rng.normal(size=(n, 4)), rng.uniform(-1.0, 1.0, 4)


def left_plainly(base: FloatArray, features: FloatArray, boosts: FloatArray, k: int = 10) -> int:
    """Count by sorting twice."""
    before = set(np.argsort(-base)[:k].tolist())
    return len(before - set(np.argsort(-(base + features @ boosts))[:k].tolist()))


def test_rank_change_is_the_symmetric_difference_of_both_tops() -> None:
    # tops of 3: {4, 7, 1} and {7, 9, 2}; 4, 1, 9 and 2 are in one of them
    assert rank_change([4, 7, 1, 9], np.array([7, 9, 2, 4]), k=3) == 4
    assert rank_change(["a", "b"], ["b", "a"], k=2) == 0, "order within the top does not count"
    assert rank_change(["a"], ["a", "b", "c"], k=10) == 2, "a top that is shorter lacks what the other has"
    assert rank_change([], [], k=1) == 0


@pytest.mark.parametrize("seed", range(5))
def test_rank_change_is_twice_what_leaves(seed: int) -> None:
    base, features, boosts = shop(seed)
    old, new = np.argsort(-base), np.argsort(-(base + features @ boosts))
    assert rank_change(old, new) == 2 * products_leaving(base, features, boosts)


def test_products_leave_by_hand() -> None:
    # top 2 is {0, 1}; with a boost of .3 scores are 5 4 3 2.6 3.4; with .45: 5 4 3 2.9 4.6; with 2: 5 4 3 6 17
    assert [products_leaving(BASE, ONE, np.array([a]), k=2) for a in (0.0, 0.3, 0.45, 2.0)] == [0, 0, 1, 2]


def test_largest_scale_by_hand() -> None:
    # product 4 passes product 1 at 3/8, product 0 at 4/8; product 3 passes 1 at 2/2 and 0 at 3/2
    assert largest_scale(BASE, ONE, np.array([2.0]), 0, k=2) == pytest.approx(3 / 8 / 2)
    assert largest_scale(BASE, ONE, np.array([2.0]), 1, k=2) == pytest.approx(3 / 2 / 2)
    assert largest_scale(BASE, ONE, np.array([2.0]), 2, k=2) == 1.0
    assert largest_scale(BASE, ONE, np.array([-2.0]), 0, k=2) == 1.0


@pytest.mark.parametrize("seed", range(40))
def test_counts_and_scales_are_those_of_a_plain_search(seed: int) -> None:
    base, features, boosts = shop(seed)
    assert products_leaving(base, features, boosts) == left_plainly(base, features, boosts)
    for limit in (0, 1, 3, 6):
        scale = largest_scale(base, features, boosts, limit)
        changes = [left_plainly(base, features, s * boosts) for s in np.linspace(0.0, 1.0, 2_001)]
        assert changes == sorted(changes), "products that have left do not come back"
        harmless = np.linspace(0.0, 1.0, 2_001)[np.array(changes) <= limit].max()
        assert harmless <= scale + 1e-6
        assert scale <= harmless + 1 / 2_000 + 1e-6
        assert products_leaving(base, features, scale * boosts) <= limit


def test_many_boosts_are_scaled_back_as_each_would_be_alone() -> None:
    base, features, _ = shop(5)
    boosts = np.random.default_rng(2).uniform(-2.0, 2.0, (20, 4))
    alone = [largest_scale(base, features, row, 3) * row for row in boosts]
    np.testing.assert_array_equal(scaled_back(base, features, boosts, 3), alone)


def test_boosts_are_brought_back_towards_others_as_from_a_ranking_of_theirs() -> None:
    base, features, start = shop(5)
    boosts = np.random.default_rng(2).uniform(-2.0, 2.0, (20, 4))
    under_start = base + features @ start
    alone = [start + largest_scale(under_start, features, row - start, 3) * (row - start) for row in boosts]
    kept = scaled_back(base, features, boosts, 3, start=start)
    np.testing.assert_array_equal(kept, alone)
    old = np.argsort(-under_start)
    assert max(rank_change(old, np.argsort(-(base + features @ row))) for row in kept) == 6
    from_none = scaled_back(base, features, boosts, 3)
    assert max(rank_change(old, np.argsort(-(base + features @ row))) for row in from_none) > 6


def test_ties_within_rounding_count_as_left_and_leave_room() -> None:
    base, features = np.array([1.0, 0.5, 0.0]), np.array([[0.0], [0.0], [1.0]])
    assert products_leaving(base, features, np.array([1.0]), k=1) == 1
    scale = largest_scale(base, features, np.array([1.0]), 0, k=1)
    assert 1.0 - 1e-5 < scale < 1.0
    assert products_leaving(base, features, np.array([scale]), k=1) == 0


def test_no_more_than_the_whole_top_can_leave() -> None:
    base, features, boosts = shop(3, n=4)
    assert largest_scale(base, features, 100.0 * boosts, 0) == 1.0, "four products, all of them in the top ten"


def test_radii_follow_the_spread() -> None:
    radii = adaptive_radius(np.array([0.0, 1.0, 2.0, 9.0]), full=2.0, narrow=0.1, wide=0.8)
    np.testing.assert_allclose(radii, [0.1, 0.4, 0.8, 0.8])


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: products_leaving(BASE, ONE, np.zeros(2)),
            DataError,
            r"boosts: got an array of shape \(2,\), expected",
        ),
        (
            lambda: products_leaving(BASE, ONE[:4], np.zeros(1)),
            DataError,
            r"boost_features: got an array of shape \(4, 1\)",
        ),
        (lambda: products_leaving(BASE, ONE, np.array([np.nan])), DataError, "boosts: got nan"),
        (lambda: products_leaving(BASE, ONE, np.zeros(1), k=0), ConfigError, "k: got 0, expected a whole number, 1 to"),
        (lambda: rank_change([1, 2], [2, 2]), DataError, "new: got product 2 twice, expected each product once"),
        (lambda: rank_change(np.eye(2, dtype=int), [1]), DataError, r"old: got .*, expected a list of the ids of"),
        (lambda: rank_change([1], "ab"), DataError, "new: got 'ab', expected a list of the ids of products"),
        (lambda: rank_change([1], [1], k=0), ConfigError, "k: got 0, expected a whole number, 1 to"),
        (lambda: largest_scale(BASE, ONE, np.zeros(1), -1), ConfigError, "limit: got -1, expected a whole number"),
        (lambda: adaptive_radius(1.0, 1.0, 0.5, 0.2), ConfigError, "wide: got 0.2, expected a number, 0.5 to"),
    ],
)
def test_bad_arguments_are_refused(call: object, error: type[Exception], message: str) -> None:
    assert callable(call)
    with pytest.raises(error, match=message):
        call()
