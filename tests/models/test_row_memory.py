"""The memory of distinct rows: sums by row, forgetting, and who makes room."""

import numpy as np

from zoosim.core.types import FloatArray
from zoosim.models.row_memory import WAYS, RowMemory, fade, new_row_memory, remember


def held(memory: RowMemory) -> dict[tuple[float, ...], tuple[float, float]]:
    """Return (weight, sum of rewards) by (features..., head)."""
    used = np.flatnonzero(memory.seen)
    keys = [(*memory.xs[slot].tolist(), float(memory.heads[slot])) for slot in used]
    assert len(set(keys)) == len(keys)
    return {key: (float(memory.counts[s]), float(memory.sums[s])) for key, s in zip(keys, used, strict=True)}


def observations(n: int, seed: int = 0) -> list[tuple[FloatArray, int, float]]:
    rng = np.random.default_rng(seed)
    pool = rng.normal(size=(5, 3)) * (rng.random((5, 3)) < 0.7)
    return [(pool[rng.integers(5)], int(rng.integers(3)), float(rng.random())) for _ in range(n)]


def test_sums_are_those_of_each_distinct_row_and_head() -> None:
    memory, expected = new_row_memory(200, 3), dict[tuple[float, ...], tuple[float, float]]()
    for time, (x, head, reward) in enumerate(observations(400), 1):
        remember(memory, x, head, reward, time)
        n, total = expected.get((*x.tolist(), float(head)), (0.0, 0.0))
        expected[*x.tolist(), float(head)] = n + 1, total + reward
    assert len(expected) == 15
    assert held(memory) == expected


def test_rows_that_differ_in_one_bit_are_two() -> None:
    memory = new_row_memory(16, 2)
    for x in ([0.1 + 0.2, 0.0], [0.3, 0.0], [0.0, 0.3], [0.3, 0.0]):
        remember(memory, np.array(x), 0, 1.0, 1)
    assert sorted(n for n, _ in held(memory).values()) == [1, 1, 2]


def test_fading_multiplies_and_forgets_what_weighs_too_little() -> None:
    memory = new_row_memory(64, 1)
    for time in range(1, 5):
        remember(memory, np.array([1.0]), 0, 0.5, time)
    remember(memory, np.array([2.0]), 0, 1.0, 5)
    slots = fade(memory, 0.5, 0.6)
    assert held(memory) == {(1.0, 0.0): (2.0, 1.0)}
    assert memory.xs[slots].tolist() == [[1.0]]
    remember(memory, np.array([2.0]), 0, 1.0, 6)  # comes back without its past
    assert held(memory)[2.0, 0.0] == (1.0, 1.0)


def test_a_full_set_forgets_what_was_seen_longest_ago() -> None:
    memory = new_row_memory(1, 1)
    assert len(memory.seen) == WAYS  # one set, so all rows meet in it
    for time in range(WAYS):
        remember(memory, np.array([float(time)]), 0, 1.0, time + 1)
    remember(memory, np.array([0.0]), 0, 1.0, WAYS + 1)
    remember(memory, np.array([99.0]), 0, 1.0, WAYS + 2)
    assert (1.0, 0.0) not in held(memory)
    assert held(memory)[0.0, 0.0] == (2.0, 2.0)
    assert len(held(memory)) == WAYS


def test_rows_spread_over_the_sets() -> None:
    """2,000 rows into 512 sets of 8: by Poisson's law of mean 3.9 about 3% of the sets overflow."""
    memory = new_row_memory(4096, 4)
    for time, x in enumerate(np.random.default_rng(0).normal(size=(2_000, 4)), 1):
        remember(memory, x, 0, 1.0, time)
    assert np.count_nonzero(memory.seen) > 1_950
