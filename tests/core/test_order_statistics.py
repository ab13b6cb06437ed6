"""Order statistics of rows that are read in blocks are those of the same rows in memory."""

import numpy as np
import pytest

from zoosim.core import blocks, order_statistics
from zoosim.core.blocks import RowArray
from zoosim.core.order_statistics import largest, order_statistic

N = 3_000


def streamed(values: np.ndarray) -> RowArray:
    return RowArray(values.shape, values.dtype, lambda start, stop: values[start:stop])


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK_ROWS", 256)


@pytest.mark.parametrize("few", [0, 10, 10_000], ids=["by bits alone", "few sorted", "one pass"])
@pytest.mark.parametrize("kind", ["signed", "ties", "nearly alike", "whole", "times"])
def test_every_rank(monkeypatch: pytest.MonkeyPatch, few: int, kind: str) -> None:
    monkeypatch.setattr(order_statistics, "FEW", few)
    rng = np.random.default_rng(0)
    values = {
        "signed": rng.normal(size=N) * 10.0 ** rng.integers(-300, 300, size=N),
        "ties": rng.integers(-2, 3, size=N).astype(float),
        "nearly alike": 1.0 + 1e-15 * rng.integers(0, 4, size=N),
        "whole": rng.integers(-(2**62), 2**62, size=N),
        "times": 1_700_000_000_000_000 + rng.integers(0, 1_000, size=N),
    }[kind]
    ordered = np.sort(values)
    for rank in (0, 1, N // 2, N - 1):
        assert order_statistic(streamed(values), rank) == ordered[rank]
        assert order_statistic(values, rank) == ordered[rank]


@pytest.mark.parametrize("k", [1, 7, 300, N, N + 5])
def test_the_largest(k: int) -> None:
    values = np.random.default_rng(1).integers(0, 50, size=N).astype(float)
    for given in (values, streamed(values)):
        np.testing.assert_array_equal(np.sort(largest(given, k)), np.sort(values)[-k:])
