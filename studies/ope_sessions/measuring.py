"""Judge policies by repeated logs of lives: errors, intervals that hold, and verdicts."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from studies.repeated_logs import Kept, over_logs
from studies.session_logs import TARGETS, SessionLogs
from zoosim.core.checks import check_whole
from zoosim.core.types import FloatArray, Progress
from zoosim.off_policy.actions.lives import ESTIMATORS
from zoosim.off_policy.evaluate import evaluate
from zoosim.off_policy.verdict import TRUST, WORDS

SAMPLES = 999
CHUNK = 10


@dataclass(frozen=True)
class Judged:
    """A target by one estimator, over `logs` logs of known truth.

    `bias` is the median of value / truth - 1, `error` the root of its mean square. `held` counts the logs whose
    interval holds the truth, `trusted_held` those of them with the verdict `trust`. `mean_weight` and `ess` are
    medians of the mean weight of whole lives and of the least effective number of visitors.
    """

    target: str
    estimator: str
    truth: float
    logs: int
    bias: float
    error: float
    held: int
    trust: int
    weak: int
    do_not_use: int
    trusted_held: int
    mean_weight: float
    ess: float


def measure(
    *, seeds: Any = "1000:1200", visitors: Any = 3_000, jobs: Any = None, progress: Progress = lambda line: None
) -> list[Judged]:
    """Judge each target by a log of so many `visitors` per seed; what is measured is kept, so a run can go on.

    Raises `ConfigError` for another number of visitors than 100 to 100,000.
    """
    count = check_whole("ope-sessions: visitors", visitors, 100, 100_000)
    kept = Kept("ope-sessions", (SAMPLES, ESTIMATORS, TARGETS))
    found = over_logs(
        _judge, [count], seeds, kept, chunk=CHUNK, jobs=jobs, words=lambda n: f"logs of {n:,}", progress=progress
    )[0]
    worth = _logs().worth
    return [
        summed(target, estimator, worth[target], found[:, t, e])
        for t, target in enumerate(TARGETS)
        for e, estimator in enumerate(ESTIMATORS)
    ]


@cache
def _logs() -> SessionLogs:
    return SessionLogs()


def _judge(visitors: int, seeds: Sequence[int]) -> FloatArray:
    """Return for each log, target and estimator value, interval, verdict, mean weight and least size `(s, T, E, 6)`."""
    logs = _logs()
    out = np.empty((len(seeds), len(TARGETS), len(ESTIMATORS), 6))
    for number, seed in enumerate(seeds):
        log, _ = logs.draw(visitors, seed)
        targets = {name: logs.policy(name) for name in TARGETS}
        with threadpool_limits(1):
            judged = evaluate(log, targets, estimators=ESTIMATORS, samples=SAMPLES, seed=seed, compare=False)
        figures = [
            (
                row.value,
                -np.inf if row.low is None else row.low,
                np.inf if row.high is None else row.high,
                WORDS.index(row.verdict),
                row.mean_weight,
                row.ess,
            )
            for row in judged.results
        ]
        out[number] = np.reshape(figures, out.shape[1:])
    return out


def summed(target: str, estimator: str, truth: float, found: FloatArray) -> Judged:
    """Return the figures of one target and estimator.

    Args:
        target: The target's name.
        estimator: The estimator's name.
        truth: The target's exact value.
        found: Value, ends of the interval, the verdict's number, mean weight and least size of each log `(s, 6)`.
    """
    value, low, high, verdict, mean_weight, ess = found.T
    off = value / truth - 1.0
    holds = (low <= truth) & (truth <= high)
    trust, weak, refused = (int((verdict == word).sum()) for word in range(len(WORDS)))
    return Judged(
        target=target,
        estimator=estimator,
        truth=truth,
        logs=len(found),
        bias=float(np.median(off)),
        error=float(np.sqrt((off**2).mean())),
        held=int(holds.sum()),
        trust=trust,
        weak=weak,
        do_not_use=refused,
        trusted_held=int((holds & (verdict == WORDS.index(TRUST))).sum()),
        mean_weight=float(np.median(mean_weight)),
        ess=float(np.median(ess)),
    )
