"""S11: IPS, SNIPS and DR of a log with 80 actions, model and 1,000 bootstrap samples, against pandas and numpy.

S13: a policy that draws, trained on the earlier part of a log and judged by the later; then with thousands of products,
as a command (`benchmarks.speed.training`).
"""

import multiprocessing
import resource
import sys
import tempfile
import time
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np

import zoosim
from benchmarks.speed.training import train_large
from zoosim.api.runs import write_log
from zoosim.core.types import FloatArray
from zoosim.logs.candidate_sets import CandidateSets
from zoosim.off_policy import Evaluation, Log, evaluate, read_log

ACTIONS, SEGMENTS, FEATURES, SAMPLES = 80, 20, 5, 1_000
BOTH, LARGE = 1_000_000, 10_000_000
ROWS, PRODUCTS = 50_000, 300
"""Of the log that `adaptive` learns from and is judged by."""

EXACT, MODEL, ENDS = 1e-9, 0.05, 0.1
"""How far the plain figures may be: ips and snips, as a share; dr and the ends of intervals, in widths of those."""


def main() -> None:
    """Print the ratio with both at the same size, then time and memory of ours alone at 10,000,000 rows."""
    try:
        from benchmarks.plain.off_policy import plain_evaluation, plain_frame
    except ImportError:
        sys.exit("S11 is measured against pandas, which is not installed; scripts/setup bench installs it")
    log, segments, table = made(BOTH)
    evaluate(log.rows(np.arange(1_000)), {"new": table[segments[:1_000]]})  # compile
    rows, target = plain_frame(log, segments), table[segments]
    began = time.perf_counter()
    fast = evaluate(log, {"new": target}, samples=SAMPLES)
    middle = time.perf_counter()
    slow = plain_evaluation(rows, table, SAMPLES)
    ended = time.perf_counter()
    apart = gaps(fast, slow)
    same = f"{BOTH:,} rows of {log.n_actions} actions on both sides"
    times = f"{middle - began:.2f} s, plain pandas and numpy {ended - middle:.1f} s"
    print(f"S11 off-policy, {same}: {times}: {(ended - middle) / (middle - began):.0f} times")
    told = ", ".join(f"{name} {gap:.2g}" for name, gap in apart.items())
    print(f"S11 off-policy, largest gaps between the two, in widths of the interval: {told}")
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        seconds, gigabytes = pool.submit(large).result()
    print(f"S11 off-policy, {LARGE:,} rows of {3 * LARGE // 10:,} users: {seconds:.1f} s, {gigabytes:.2f} GB at most")


def trained() -> None:
    """Print how long it takes to train and judge `adaptive` by a shop's log, and by one without two visitors alike."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.parquet"
        write_log(path, n=ROWS, settings=[f"env.n_products={PRODUCTS}"])
        log = read_log(path)
    noise = np.random.default_rng(0).normal(size=(ROWS, FEATURES))
    apart = replace(log, features=np.hstack([log.features, noise]))
    zoosim.evaluate(log.rows(np.arange(1_000)), ["adaptive"], train=True)  # compile
    for what, given in {"of 4 kinds of visitors": log, "each of another visitor": apart}.items():
        lines: list[str] = []
        began, began_cpu = time.perf_counter(), time.process_time()
        found = zoosim.evaluate(given, ["adaptive"], train=True, progress=lines.append)
        seconds, cpu = time.perf_counter() - began, time.process_time() - began_cpu
        size = f"{ROWS:,} rows of {PRODUCTS} products, {what}, {found.n:,} to judge by"
        print(f"S13 adaptive, {size}: {cpu:.1f} s of processor time ({seconds:.1f} s), {len(lines)} lines of progress")
    train_large()


def gaps(fast: Evaluation, slow: Mapping[str, tuple[float, float, float]]) -> dict[str, float]:
    """Return the largest gaps of values and ends, in widths of the interval, and insist that they are small."""
    found = {"values": 0.0, "ends": 0.0}
    for row in fast.results:
        assert row.low is not None
        assert row.high is not None
        value, *ends = slow[row.estimator]
        width = row.high - row.low
        own, other = abs(row.value - value), np.abs(np.subtract(ends, (row.low, row.high))).max()
        assert own < (MODEL * width if row.estimator == "dr" else EXACT * abs(value)), (row.estimator, row.value, value)
        assert other < ENDS * width, (row.estimator, row.low, row.high, ends)
        found = {"values": max(found["values"], own / width), "ends": max(found["ends"], float(other) / width)}
    return found


def large() -> tuple[float, float]:
    """Return seconds, after compiling, and the largest memory in GB of a process that does nothing else."""
    log, segments, table = made(LARGE)
    evaluate(log.rows(np.arange(1_000)), {"new": table[segments[:1_000]]})
    began = time.perf_counter()
    evaluate(log, {"new": lambda log, start, stop: table[segments[start:stop]]}, samples=SAMPLES)
    seconds = time.perf_counter() - began
    return seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2


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
    zeros = np.zeros(n, np.int64)
    users = rng.integers(3 * n // 10, size=n)
    known = (CandidateSets.everything(ACTIONS), zeros, features, zeros, np.zeros((ACTIONS, 0)))
    return Log(actions, logging[segments, actions], rewards, *known, user_ids=users), segments, target
