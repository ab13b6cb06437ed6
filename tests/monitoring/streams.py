"""Streams with and without a change, and what detectors make of them."""

from collections.abc import Callable
from typing import Any

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.types import BoolArray, FloatArray, IntArray
from zoosim.monitoring import Detector

Observe = Callable[[Any, int, float], bool]
PAST, FUTURE = 1000, 1500
"""Observations before and after a change."""


def clicks(p: float, shape: tuple[int, ...], seed: int) -> FloatArray:
    return np.asarray((np.random.default_rng(seed).random(shape) < p).astype(np.float64))


def alarms(detector: Detector, stream: FloatArray) -> IntArray:
    """Return the places at which a detector finds a change."""
    return np.flatnonzero([detector.update(x) for x in stream.tolist()])


@jit
def _watch(observe: Observe, state: Any, streams: FloatArray, found: BoolArray) -> None:
    """Write where each of n detectors finds a change in its own stream `(n, length)`."""
    for i in range(streams.shape[0]):
        for t in range(streams.shape[1]):
            found[i, t] = observe(state, i, streams[i, t])


def false_alarms(observe: Observe, state: Any, p: float, length: int = 5000, seed: int = 1) -> IntArray:
    """Return how many changes each of the state's 200 detectors finds in a constant stream of its own."""
    streams, found = clicks(p, (200, length), seed), np.zeros((200, length), np.bool_)
    _watch(observe, state, streams, found)
    return np.asarray(found.sum(axis=1))


def check_delays(observe: Observe, state: Any, before: float, after: float, expected: float, seed: int = 2) -> None:
    """Hold 200 detectors' median delay to the expected one and a quarter, and every single one to five times it."""
    streams = np.hstack([clicks(before, (200, PAST), seed), clicks(after, (200, FUTURE), seed + 1)])
    found = np.zeros(streams.shape, np.bool_)
    _watch(observe, state, streams, found)
    late = found[:, PAST:]
    delays = np.where(late.any(axis=1), late.argmax(axis=1) + 1, np.inf)
    assert np.median(delays) <= 1.25 * expected
    assert delays.max() <= 5 * expected
