"""Normal draws by place: against the mathematics library, their law, and their independence of what is beside them."""

import numpy as np
import pytest
from scipy import stats

from zoosim.core.normals import BLOCK, fill_normals, new_remembered, remember
from zoosim.core.rng import mix
from zoosim.core.types import FloatArray

KEY = np.uint64(0x0123456789ABCDEF)
GOLDEN, WORD = 0x9E3779B97F4A7C15, 2**64


def draws(i: int, n: int) -> FloatArray:
    out = np.empty(n)
    fill_normals(KEY, i, out)
    return out


@pytest.mark.parametrize("place", [0, 1, 255, 256, 300, 511, 512, 1_000, 99_999])
def test_they_are_box_and_muller_of_the_published_hash(place: int) -> None:
    """Worked with Python's integers and numpy's functions; sine and cosine of a hash lie 256 places apart."""
    block, j = divmod(place, 2 * BLOCK)
    row = int(mix(np.uint64(int(KEY) ^ int(mix(np.uint64(7))))))
    number = 2 * BLOCK * block + j % BLOCK
    h = int(mix(np.uint64((row + (number - 1) * GOLDEN) % WORD)))  # mix adds the golden ratio's bits itself
    radius = np.sqrt(-2 * np.log(((h >> 32) + 0.5) * 2.0**-32))
    angle = 2 * np.pi * (h & 0xFFFFFFFF) * 2.0**-32
    expected = radius * (np.cos(angle) if j < BLOCK else np.sin(angle))
    assert draws(7, 100_000)[place] == pytest.approx(expected, abs=2e-9)


def test_their_law_is_normal() -> None:
    """A million draws, Kolmogorov-Smirnov at .001, with moments; squares of them must fail the same test."""
    values = np.concatenate([draws(i, 10_000) for i in range(100)])
    assert stats.kstest(values, "norm").pvalue > 1e-3
    assert stats.kstest(np.abs(values), "norm").pvalue < 1e-3
    assert values.mean() == pytest.approx(0, abs=4e-3)
    assert values.std() == pytest.approx(1, abs=3e-3)
    assert stats.kurtosis(values) == pytest.approx(0, abs=0.02)


def test_neighbours_and_visits_are_independent() -> None:
    """Correlations over 100,000 pairs stay within 4 standard errors, .0126: beside, a block apart, visits apart."""
    table = np.stack([draws(i, 1_024) for i in range(100)])
    pairs = [(table[:, 1:], table[:, :-1]), (table[:, BLOCK:], table[:, :-BLOCK]), (table[1:], table[:-1])]
    for left, right in pairs:
        assert abs(np.corrcoef(left.ravel(), right.ravel())[0, 1]) < 0.0126


def test_a_draw_does_not_depend_on_how_many_there_are() -> None:
    many = draws(3, 5_000)
    for n in (0, 1, 100, 256, 257, 512, 700):
        assert np.array_equal(draws(3, n), many[:n])


def test_remembered_numbers_are_those_of_each_row_however_many_are_asked_for() -> None:
    normals = new_remembered(4 * 30)
    asked = [
        (5, 100, 4, 3),
        (5, 100, 4, 20),
        (5, 100, 4, 7),
        (5, 101, 4, 7),
        (5, 101, 3, 7),
        (6, 101, 3, 7),
        (6, 101, 4, 30),
    ]
    for key, first, rows, count in asked:
        assert remember(normals, np.uint64(key), first, rows, count)
        known = int(normals.known[0])
        assert known >= count
        for r in range(rows):
            alone = np.empty(count)
            fill_normals(np.uint64(key), first + r, alone)
            assert normals.numbers[r * known : r * known + count].tolist() == alone.tolist()
    assert not remember(normals, np.uint64(6), 8, 4, 31)
    assert normals.known[0] == 30  # and those that were known are kept
