"""The likelihood ratio by hand, against a plain loop over the same splits and over all, and against its promise."""

import math

import numpy as np
import pytest

from tests.monitoring.streams import PAST, alarms, check_delays, clicks, false_alarms
from zoosim.core.types import FloatArray
from zoosim.monitoring import GLR
from zoosim.monitoring.glr import kl, new_glr, observe, ratio


def test_kl_by_hand() -> None:
    assert kl(0.5, 0.25) == pytest.approx(0.5 * math.log(2) + 0.5 * math.log(2 / 3))
    assert kl(0.0, 0.25) == pytest.approx(math.log(4 / 3))
    assert kl(1.0, 0.25) == pytest.approx(math.log(4))
    assert kl(0.3, 0.3) == 0.0
    assert kl(1.0 + 1e-15, 0.25) == kl(1.0, 0.25)


def test_ratio_by_hand() -> None:
    # 10 zeros and then 10 ones: every observation is certain after the split and a coin toss without it, 20 ln 2.
    assert ratio(10.0, 0.0, 20.0, 10.0) == pytest.approx(20 * math.log(2))


def test_zeros_and_then_ones_by_hand() -> None:
    # At the true split the ratio is n ln n - 20 ln 20 - k ln k after k ones. Three: 8.9 < beta(23, .01) = 10.4;
    # four: 10.81 >= beta(24, .01) = 10.47.
    assert alarms(GLR(delta=0.01), np.repeat([0.0, 1.0], 20))[0] == 23


def splits(n: int, rings: int, size: int) -> set[int]:
    """Return the splits that are kept before observation n: the last `size` multiples of each power of two."""
    return {split for r in range(rings) for split in range(2**r, n, 2**r)[-size:]}


def kl_plain(p: FloatArray, q: float) -> FloatArray:
    p = np.clip(p, 1e-300, 1 - 1e-16)
    return np.asarray(p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q)))


def changed(seen: list[float], at: set[int], delta: float) -> bool:
    n, mean = len(seen), float(np.mean(seen))
    n0 = np.array(sorted(at), np.int64)
    if not len(n0) or not 0 < mean < 1:
        return False
    before, after = np.cumsum(seen)[n0 - 1] / n0, np.cumsum(seen[::-1])[n - n0 - 1] / (n - n0)
    ratios = n0 * kl_plain(before, mean) + (n - n0) * kl_plain(after, mean)
    return bool(ratios.max() >= math.log(3 * n * math.sqrt(n) / delta))


def changing(seed: int, real: bool) -> FloatArray:
    """Return 1,000 observations with three changes."""
    rng = np.random.default_rng(seed)
    p = np.repeat([0.02, 0.6, 0.98, 0.1], [300, 300, 100, 300])
    return np.asarray(rng.beta(2 * p, 2 * (1 - p)) if real else (rng.random(1000) < p).astype(np.float64))


@pytest.mark.parametrize("real", [False, True], ids=["clicks", "real numbers"])
@pytest.mark.parametrize(("rings", "size", "delta"), [(18, 32, 0.01), (6, 4, 0.01), (2, 8, 1.0), (1, 1, 1.0)])
def test_every_kept_split_is_tried_after_every_observation(rings: int, size: int, delta: float, real: bool) -> None:
    state, seen, found = new_glr(1, delta, rings, size), list[float](), 0
    for x in changing(12, real).tolist():
        seen.append(x)
        expected = changed(seen, splits(len(seen), rings, size), delta)
        assert observe(state, 0, x) == expected
        if expected:
            seen, found = [], found + 1
    assert found >= {18: 3, 6: 3, 2: 1, 1: 0}[rings]


@pytest.mark.parametrize("n", [40, 1000, 5001, 1_000_000])
def test_a_split_lies_within_a_sixteenth_of_every_lag(n: int) -> None:
    kept = np.array(sorted(splits(n, 18, 32)))
    changes = np.unique(np.linspace(1, n - 1, 5000).astype(int))
    nearest = np.abs(kept[None] - changes[:, None]).min(axis=1)
    assert (nearest <= (n - changes) / 16).all()
    assert len(kept) <= 18 * 32


@pytest.mark.parametrize("p", [0.1, 0.9])
def test_thinning_costs_little(p: float) -> None:
    """All splits find a change at most an eighth sooner."""
    for seed in range(5):
        stream = np.concatenate([clicks(0.5, (300,), seed), clicks(p, (100,), seed + 50)])
        full = next(n for n in range(301, 400) if changed(stream[:n].tolist(), set(range(1, n)), 0.01))
        thinned = int(alarms(GLR(), stream)[0]) + 1
        assert 0 <= thinned - full <= (full - 300) / 8


@pytest.mark.parametrize(("delta", "p"), [(0.01, 0.5), (0.01, 0.05), (0.1, 0.5), (0.1, 0.05)])
def test_false_alarms_are_as_rare_as_promised(delta: float, p: float) -> None:
    """200 streams of 5,000, seed 1: a part of delta of them may hold one, and 3 standard errors."""
    streams = int((false_alarms(observe, new_glr(200, delta), p) > 0).sum())
    assert streams <= 200 * delta + 3 * math.sqrt(200 * delta * (1 - delta))


@pytest.mark.parametrize(("before", "after"), [(0.4, 0.15), (0.55, 0.35), (0.2, 0.8), (0.02, 0.75)])
def test_a_change_is_found_in_time(before: float, after: float) -> None:
    """A new observation is worth kl(after, before): beta / kl is 109, 201, 19 and 6 observations."""
    expected = math.log(3 * PAST**1.5 / 0.01) / kl(after, before)
    check_delays(observe, new_glr(200), before, after, expected)
