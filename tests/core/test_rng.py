"""Named streams and counter-based draws: known numbers, independence of place, uniformity."""

import numpy as np
import pytest
from scipy import stats

from zoosim.core.rng import beta, draw_key, gamma, mix, stream, stream_key, uniform, uniforms
from zoosim.core.types import FloatArray, IntArray

KEY = np.uint64(0x0123456789ABCDEF)
GOLDEN = 0x9E3779B97F4A7C15


def draws(key: np.uint64, count: int) -> FloatArray:
    """Return the draws of (key, i, j) for i and j below `count`, one row an i."""
    i, j = np.divmod(np.arange(count * count), count)
    return uniforms(key, i, j).reshape(count, count)


@pytest.mark.parametrize(
    ("step", "expected"),
    [(0, 0xE220A8397B1DCDAF), (1, 0x6E789E6AA1B965F4), (2, 0x06C45D188009454F), (3, 0xF88BB8A8724C81EC)],
)
def test_mix_is_the_published_generator(step: int, expected: int) -> None:
    """The first outputs of SplitMix64 from state 0, whose state grows by the golden ratio's bits."""
    assert int(mix(np.uint64(step * GOLDEN % 2**64))) == expected


def test_uniform_is_its_hash_over_two_to_the_53() -> None:
    """Worked with Python's integers: mix(mix(key ^ mix(i)) ^ j), its upper 53 bits."""

    def by_hand(z: int) -> int:
        z = (z + GOLDEN) % 2**64
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
        return z ^ (z >> 31)

    for i, j in [(0, 0), (1, 0), (0, 1), (40_000, 49), (2**31, 99_999)]:
        assert uniform(KEY, i, j) == (by_hand(by_hand(int(KEY) ^ by_hand(i)) ^ j) >> 11) / 2**53


def test_draws_depend_on_their_place_alone() -> None:
    i, j = np.array([5, 3, 5, 0]), np.array([1, 2, 1, 9])
    together = uniforms(KEY, i, j)
    assert together.shape == (4,)
    assert together.tolist() == [uniform(KEY, a, b) for a, b in zip(i.tolist(), j.tolist(), strict=True)]
    assert together[0] == together[2]
    assert uniform(KEY, 3, 5) != uniform(KEY, 5, 3)


def test_draws_look_uniform_and_unrelated() -> None:
    """Moments within 4 standard errors, n = 250,000, and no correlation between neighbours either way or keys."""
    grid, other = draws(KEY, 500), draws(np.uint64(int(KEY) + 1), 500)
    n = grid.size
    assert grid.min() >= 0
    assert grid.max() < 1
    assert abs(grid.mean() - 0.5) < 4 * np.sqrt(1 / 12 / n)
    counts = np.bincount((grid.ravel() * 100).astype(int), minlength=100)
    assert ((counts - n / 100) ** 2 / (n / 100)).sum() < 99 + 4 * np.sqrt(2 * 99)  # chi-squared, 99 degrees
    for a, b in [(grid[1:], grid[:-1]), (grid[:, 1:], grid[:, :-1]), (grid, grid.T), (grid, other)]:
        off = ~np.eye(500, dtype=bool) if a is grid and b is not other else np.ones(a.shape, bool)
        assert abs(np.corrcoef(a[off], b[off])[0, 1]) < 4 * np.sqrt(2 / n)


def first(seed: int, *names: str) -> IntArray:
    return stream(seed, *names).integers(0, 2**62, 4)


def test_streams_are_told_apart_by_seed_and_names() -> None:
    assert np.array_equal(first(3, "catalog"), first(3, "catalog"))
    names = [("catalog",), ("users",), (), ("catalog", "users"), ("users", "catalog")]
    places: list[tuple[int, tuple[str, ...]]] = [(4, ("catalog",)), *((3, each) for each in names)]
    assert len({tuple(first(seed, *each)) for seed, each in places}) == len(places)
    keys = {int(stream_key(seed, *each)) for seed, each in places}
    assert len(keys) == len(places)
    assert stream_key(3, "clicks") == stream_key(3, "clicks")


def test_streams_stay_what_they_were() -> None:
    """Kept numbers: a change here moves every figure of every run."""
    assert int(stream_key(0, "visits")) == 554_137_209_280_926_844
    assert stream(0, "catalog").integers(0, 1000, 5).tolist() == [337, 122, 657, 228, 418]


def test_a_stream_leaves_the_global_generator_and_other_streams_alone() -> None:
    one, two = stream(1, "a"), stream(1, "b")
    expected = stream(1, "b").random(3)
    one.random(100)
    assert np.array_equal(two.random(3), expected)


def test_draw_key_uses_all_64_bits_and_moves_its_generator() -> None:
    rng = np.random.default_rng(0)
    keys = [int(draw_key(rng)) for _ in range(200)]
    assert len(set(keys)) == 200
    assert np.bitwise_or.reduce(np.array(keys, np.uint64)) == 2**64 - 1
    assert np.bitwise_and.reduce(np.array(keys, np.uint64)) == 0


@pytest.mark.parametrize("shape", [0.3, 1.0, 2.5, 400.0])
def test_gamma_draws_follow_their_law(shape: float) -> None:
    """Kolmogorov-Smirnov over 4,000 draws: a wrong shape must be found out."""
    sample = np.array([gamma(KEY, i, 0, shape)[0] for i in range(4_000)])
    assert stats.kstest(sample, stats.gamma(shape).cdf).pvalue > 1e-3
    assert stats.kstest(sample, stats.gamma(1.2 * shape).cdf).pvalue < 1e-3


@pytest.mark.parametrize(("a", "b"), [(0.2, 0.4), (1.0, 1.0), (60.0, 3.0)])
def test_beta_draws_follow_their_law(a: float, b: float) -> None:
    sample = np.array([beta(KEY, i, 7, a, b)[0] for i in range(4_000)])
    assert stats.kstest(sample, stats.beta(a, b).cdf).pvalue > 1e-3
    assert stats.kstest(sample, stats.beta(1.2 * a, b).cdf).pvalue < 1e-3


def test_draws_in_a_row_use_uniforms_of_their_own() -> None:
    first, j = beta(KEY, 3, 0, 2.0, 5.0)
    second, after = beta(KEY, 3, j, 2.0, 5.0)
    assert j >= 6  # two gamma draws of at least three uniforms each
    assert after > j
    assert first != second
    assert beta(KEY, 3, 0, 2.0, 5.0) == (first, j)


def test_a_beta_of_next_to_nothing_stays_in_its_range() -> None:
    sample = np.array([beta(KEY, i, 0, 1e-8, 1e-8)[0] for i in range(200)])
    assert ((sample >= 0) & (sample <= 1)).all()
