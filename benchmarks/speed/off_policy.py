"""S11: IPS, SNIPS and DR of a log with 80 actions, model and 1,000 bootstrap samples included, against plain numpy."""

import resource
import time

import numpy as np

from benchmarks.plain.off_policy import plain_evaluation
from zoosim.core.types import FloatArray
from zoosim.evaluation.off_policy import Log, evaluate

ACTIONS, SEGMENTS, FEATURES, SAMPLES = 80, 20, 5, 1_000


def main() -> None:
    """Print the ratio at 200,000 rows, then time and memory at 10,000,000."""
    log, segments, table = made(200_000)
    evaluate(log.rows(np.arange(1_000)), {"new": table[segments[:1_000]]})  # compile
    began = time.perf_counter()
    fast = evaluate(log, {"new": table[segments]}, samples=SAMPLES)
    middle = time.perf_counter()
    slow = plain_evaluation(log, table[segments], SAMPLES)
    ratio, apart = (time.perf_counter() - middle) / (middle - began), 0.0
    for row in fast.results:
        assert row.low is not None
        assert row.high is not None
        apart = max(apart, abs(row.value - slow[row.estimator][0]) / (row.high - row.low))
    print(
        f"S11 off-policy, 200,000 rows: {middle - began:.2f} s, {ratio:.0f} times as fast as plain numpy; values agree"
    )
    print(f"S11 off-policy, largest gap between the two, in widths of the interval: {apart:.3f}")
    log, segments, table = made(10_000_000)
    began = time.perf_counter()
    evaluate(log, {"new": lambda log, start, stop: table[segments[start:stop]]}, samples=SAMPLES)
    seconds = time.perf_counter() - began
    gigabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
    print(f"S11 off-policy, 10,000,000 rows of 3,000,000 users: {seconds:.1f} s, largest memory {gigabytes:.2f} GB")


def made(n: int) -> tuple[Log, np.ndarray, FloatArray]:
    """Return a log, the segment of each row, and a target policy by segment `(20, 80)`."""
    rng = np.random.default_rng(0)
    target = rng.random((SEGMENTS, ACTIONS)) ** 3
    target /= target.sum(axis=1, keepdims=True)
    logging = 0.5 * target[rng.permutation(SEGMENTS)] + 0.5 / ACTIONS
    segments, draws, actions = rng.integers(SEGMENTS, size=n), rng.random(n), np.empty(n, np.int64)
    for segment, law in enumerate(logging.cumsum(axis=1)):
        here = segments == segment
        actions[here] = np.searchsorted(law, draws[here]).clip(max=ACTIONS - 1)
    features = rng.normal(size=(SEGMENTS, FEATURES))[segments]
    rewards = (rng.random(n) < 0.05 + 0.05 * (actions % 7 == segments % 7)).astype(np.float64)
    zeros, candidates = np.zeros(n, np.int64), np.ones((1, ACTIONS), bool)
    users = rng.integers(3 * n // 10, size=n)
    known = (candidates, zeros, features, zeros, np.zeros((ACTIONS, 0)))
    return Log(actions, logging[segments, actions], rewards, *known, user_ids=users), segments, target
