"""Judge repeated logs of each case: does the interval hold, and what does the verdict say?"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from zoosim.core.array_cache import kept
from zoosim.core.errors import ConfigError, DataError
from zoosim.core.types import FloatArray, Progress
from zoosim.evaluation.off_policy.actions import DEFAULT
from zoosim.evaluation.off_policy.evaluate import evaluate
from zoosim.evaluation.off_policy.verdict import DO_NOT_USE, TRUST, WORDS
from zoosim.experiments.request import parse_seeds
from zoosim.studies.ope_verdict.cases import TOTAL, Case

SAMPLES = 199
SOUND, UNSOUND = 0.92, 0.85
CHUNK = 25
ROOMS = ("core", "evaluation", "studies/known_logs.py", "studies/ope_verdict")
"""Rooms of the package that figures depend on."""


@dataclass(frozen=True)
class Judged:
    """One estimator on `logs` logs of one case: how many of its intervals hold, and how many logs get which verdict.

    `faulty` tells that the log is at fault: wrong propensities, or actions missing. `trusted_held` counts the logs with
    `trust` whose interval holds; `error` is the mean of |value - truth| / truth.
    """

    case: int
    words: str
    n: int
    held_out: bool
    faulty: bool
    estimator: str
    logs: int
    held: int
    trust: int
    weak: int
    do_not_use: int
    trusted_held: int
    error: float

    @property
    def coverage(self) -> float:
        """How often the interval holds."""
        return self.held / self.logs

    @property
    def kind(self) -> str:
        """Say whether the case is sound for the estimator: `sound`, `unsound`, or `between`."""
        return "sound" if self.coverage >= SOUND else "unsound" if self.coverage < UNSOUND else "between"


def measure(*, seeds: Any = "1000:1100", cases: Any = 40, progress: Progress = lambda line: None) -> list[Judged]:
    """Judge a log a seed of the first so many `cases`, 200 at most; what is measured is kept, so a run can go on.

    Raises `ConfigError` for another number of cases.
    """
    logs = parse_seeds(seeds)
    if isinstance(cases, bool) or not isinstance(cases, int) or not 1 <= cases <= TOTAL:
        raise ConfigError(f"ope-verdict: cases: got {cases!r}, expected a whole number from 1 to {TOTAL}")
    rows: list[Judged] = []
    for number in range(cases):
        case = Case(number)
        progress(f"case {number + 1} of {cases}: {case.settings.n:,} rows, {case.settings.words}")
        rows += judged(case, logs)
    return rows


def judged(case: Case, seeds: Sequence[int]) -> list[Judged]:
    """Judge the logs of a case, those that were judged before from the disk."""
    parts = []
    for start in range(0, len(seeds), CHUNK):
        chunk = seeds[start : start + CHUNK]
        parts.append(kept("ope-verdict", (case.number, *chunk), ROOMS, ("found",), partial(_found, case, chunk)))
    found = np.concatenate([part["found"] for part in parts])
    return [_summed(case, name, found[:, i]) for i, name in enumerate(DEFAULT)]


def _found(case: Case, seeds: Sequence[int]) -> dict[str, FloatArray]:
    return {"found": _judge(case, seeds)}


def _judge(case: Case, seeds: Sequence[int]) -> FloatArray:
    """Return for each log and estimator whether the interval holds, the verdict's number and the error `(s, E, 3)`."""
    out = np.zeros((len(seeds), len(DEFAULT), 3))
    for row, seed in enumerate(seeds):
        log, target = case.log(seed)
        try:
            results = evaluate(log, {"target": target}, samples=SAMPLES, seed=seed, compare=False).results
        except DataError:  # the target takes no logged action: refused, which is as good as "do not use"
            out[row] = (0.0, WORDS.index(DO_NOT_USE), 1.0)
            continue
        for number, result in enumerate(results):
            low, high = result.low, result.high
            held = (low is None or low <= case.truth) and (high is None or case.truth <= high)
            error = abs(result.value - case.truth) / case.truth
            out[row, number] = (held, WORDS.index(result.verdict), error)
    return out


def _summed(case: Case, estimator: str, found: FloatArray) -> Judged:
    held, verdicts = found[:, 0] > 0.0, found[:, 1].astype(int)
    trust, weak, refused = (int((verdicts == number).sum()) for number in range(len(WORDS)))
    return Judged(
        case=case.number,
        words=case.settings.words,
        n=case.settings.n,
        held_out=case.held_out,
        faulty=case.settings.wrong > 0.0 or case.settings.missing > 0,
        estimator=estimator,
        logs=len(found),
        held=int(held.sum()),
        trust=trust,
        weak=weak,
        do_not_use=refused,
        trusted_held=int((held & (verdicts == WORDS.index(TRUST))).sum()),
        error=float(found[:, 2].mean()),
    )
