"""Judge repeated logs of each case: does the interval hold, and what does the verdict say?"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from studies.ope_verdict.cases import TOTAL, Case
from studies.repeated_logs import Kept, over_logs
from zoosim.core.checks import check_whole
from zoosim.core.errors import DataError
from zoosim.core.types import FloatArray, Progress
from zoosim.off_policy.actions.products import BY_WEIGHTS
from zoosim.off_policy.evaluate import evaluate
from zoosim.off_policy.verdict import DO_NOT_USE, TRUST, WORDS

SAMPLES = 199
SOUND, UNSOUND = 0.92, 0.85
CHUNK = 25


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


def measure(
    *, seeds: Any = "1000:1100", cases: Any = 40, jobs: Any = None, progress: Progress = lambda line: None
) -> list[Judged]:
    """Judge a log a seed of the first so many `cases`, 200 at most; what is measured is kept, so a run can go on.

    Raises `ConfigError` for another number of cases.
    """
    numbers = range(check_whole("ope-verdict: cases", cases, 1, TOTAL))
    told, kept = [Case(number) for number in numbers], Kept("ope-verdict", (SAMPLES,))
    found = over_logs(
        _judge, numbers, seeds, kept, chunk=CHUNK, jobs=jobs, words=lambda n: _words(told[n]), progress=progress
    )
    return [_summed(told[n], name, found[n][:, i]) for n in numbers for i, name in enumerate(BY_WEIGHTS)]


def _words(case: Case) -> str:
    return f"{case.settings.n:,} rows, {case.settings.words}"


def _judge(number: int, seeds: Sequence[int]) -> FloatArray:
    """Return for each log and estimator whether the interval holds, the verdict's number and the error `(s, E, 3)`."""
    case, out = Case(number), np.zeros((len(seeds), len(BY_WEIGHTS), 3))
    for row, seed in enumerate(seeds):
        log, target = case.log(seed)
        try:
            judged = evaluate(
                log, {"target": target}, estimators=list(BY_WEIGHTS), samples=SAMPLES, seed=seed, compare=False
            )
        except DataError:  # the target takes no logged action: refused, which is as good as "do not use"
            out[row] = (0.0, WORDS.index(DO_NOT_USE), 1.0)
            continue
        for estimator, result in enumerate(judged.results):
            low, high = result.low, result.high
            held = (low is None or low <= case.truth) and (high is None or case.truth <= high)
            error = abs(result.value - case.truth) / case.truth
            out[row, estimator] = (held, WORDS.index(result.verdict), error)
    return out


def _summed(case: Case, estimator: str, found: FloatArray) -> Judged:
    held, verdicts = found[:, 0] > 0.0, found[:, 1].astype(int)
    trust, weak, refused = (int((verdicts == number).sum()) for number in range(len(WORDS)))
    return Judged(
        case=case.number,
        words=case.settings.words,
        n=case.settings.n,
        held_out=case.held_out,
        faulty=case.faulty,
        estimator=estimator,
        logs=len(found),
        held=int(held.sum()),
        trust=trust,
        weak=weak,
        do_not_use=refused,
        trusted_held=int((held & (verdicts == WORDS.index(TRUST))).sum()),
        error=float(found[:, 2].mean()),
    )
