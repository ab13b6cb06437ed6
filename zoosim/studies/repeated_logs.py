"""Judge repeated logs of several places side by side: what the studies of off-policy estimates share."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from zoosim.core.checks import check_whole
from zoosim.core.types import FloatArray, Progress
from zoosim.evaluation.workers import default_jobs, side_by_side

P = TypeVar("P")
Chunk = tuple[P, tuple[int, ...]]
"""A place, a case or a cell for example, and the seeds of some of its logs."""


def over_logs(
    work: Callable[[Chunk[P]], FloatArray],
    places: Sequence[P],
    seeds: Sequence[int],
    *,
    chunk: int,
    jobs: Any,
    words: Callable[[P], str],
    progress: Progress,
) -> list[FloatArray]:
    """Return what `work` finds of each place's logs, one a seed, put together: an array a place.

    `work` is a function of a module and gets `chunk` seeds at a time; `jobs` processes share it, one a core for None.
    `words` tells of a place that is done. Raises `ConfigError` for another number of jobs.
    """
    n_jobs = check_whole("jobs", default_jobs() if jobs is None else jobs, 1, 1_024)
    cut = [tuple(seeds[start : start + chunk]) for start in range(0, len(seeds), chunk)]
    left = Counter({place: len(cut) for place in places})

    def done(task: Chunk[P], _: FloatArray) -> None:
        left[task[0]] -= 1
        if not left[task[0]]:
            finished = sum(not count for count in left.values())
            progress(f"{finished} of {len(places)}: {words(task[0])}")

    parts = side_by_side(work, [(place, own) for place in places for own in cut], jobs=n_jobs, done=done)
    return [np.concatenate(parts[i * len(cut) : (i + 1) * len(cut)]) for i in range(len(places))]
