"""The lazy argmax chooses as a full scan does, and asks for little."""

import numpy as np
import pytest

from zoosim.core.types import FloatArray, IntArray
from zoosim.neural.lazy import lazy_argmax


class Scores:
    """Scores that count how often they are asked for."""

    def __init__(self, scores: FloatArray) -> None:
        self.scores, self.asked = scores, 0

    def __call__(self, which: IntArray) -> FloatArray:
        assert len(np.unique(which)) == len(which)
        self.asked += len(which)
        return self.scores[which]


@pytest.mark.parametrize("size", [1, 2, 9, 64, 1_000])
def test_it_chooses_as_a_full_scan_does(size: int) -> None:
    """300 draws with many ties, among scores rounded to tenths and bounds that are often tight."""
    rng = np.random.default_rng(size)
    for _ in range(300):
        scores = np.round(rng.normal(size=size), 1)
        bounds = scores + np.round(np.maximum(rng.normal(size=size), 0), 1)
        places = rng.permutation(size)
        barred = rng.random(size) < 0.3
        barred[rng.integers(size)] = False
        bounds[barred] = -np.inf
        allowed = np.where(barred, -np.inf, scores)
        best = np.flatnonzero(allowed == allowed.max())
        assert lazy_argmax(bounds, places, Scores(scores)) == best[np.argmin(places[best])]


def test_it_asks_for_few_of_many() -> None:
    rng = np.random.default_rng(0)
    scores = rng.normal(size=50_000)
    counted = Scores(scores)
    assert lazy_argmax(scores + 0.01 * rng.random(50_000), np.arange(50_000), counted) == scores.argmax()
    assert counted.asked < 100


def test_a_bound_below_its_score_would_be_found_out() -> None:
    """The premise: bounds are upper ones. Where one is not, the choice is another than the scan's."""
    scores = np.array([1.0, 0.5] + [0.0] * 19)
    bounds = np.array([-1.0, 0.5] + [0.4] * 19)
    assert lazy_argmax(bounds, np.arange(21), Scores(scores)) == 1


def test_it_ends_where_nothing_may_be_chosen() -> None:
    asked = Scores(np.zeros(3))
    assert lazy_argmax(np.full(3, -np.inf), np.arange(3), asked) == -1
    assert asked.asked == 0
    assert lazy_argmax(np.array([1.0, 1.0, -np.inf]), np.arange(3), lambda which: np.full(len(which), -np.inf)) == -1
