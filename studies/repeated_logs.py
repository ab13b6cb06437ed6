"""Judge repeated logs of several places side by side: what the studies of off-policy estimates share."""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np

from studies.cache import kept_array
from studies.side_by_side import side_by_side
from studies.work import jobs_of
from zoosim.core.types import FloatArray, Progress
from zoosim.experiments.request import parse_seeds

P = TypeVar("P")
Work = Callable[[P, Sequence[int]], FloatArray]
"""What judges logs of a place, a case or a cell for example, one per seed: an array with a row for each."""


class Kept(NamedTuple):
    """Where what was found is kept: under a `study` and a `key`, as long as the code is the same; see `kept_array`."""

    study: str
    key: Sequence[object] = ()


def over_logs(
    work: Work[P],
    places: Sequence[P],
    seeds: Any,
    kept: Kept,
    *,
    chunk: int,
    jobs: Any,
    words: Callable[[P], str] = str,
    progress: Progress = lambda line: None,
) -> list[FloatArray]:
    """Return what `work` finds of each place's logs, one a seed, put together: an array a place.

    `work` is a function of a module, or a `partial` of one, and gets `chunk` seeds at a time; what it found of them
    before comes from the disk. `words` tells of a place that is done. Raises `ConfigError` for wrong `seeds` or `jobs`.
    """
    chosen, n_jobs = parse_seeds(seeds), jobs_of(jobs)
    cut = [tuple(chosen[start : start + chunk]) for start in range(0, len(chosen), chunk)]
    left = Counter({place: len(cut) for place in places})

    def done(task: tuple[P, tuple[int, ...]], _: FloatArray) -> None:
        left[task[0]] -= 1
        if not left[task[0]]:
            finished = sum(not count for count in left.values())
            progress(f"{finished} of {len(places)}: {words(task[0])}")

    tasks = [(place, own) for place in places for own in cut]
    parts = side_by_side(partial(_judge, work, kept), tasks, jobs=n_jobs, done=done)
    return [np.concatenate(parts[i * len(cut) : (i + 1) * len(cut)]) for i in range(len(places))]


def _judge(work: Work[P], kept: Kept, task: tuple[P, tuple[int, ...]]) -> FloatArray:
    place, seeds = task
    found: FloatArray = kept_array(kept.study, (*kept.key, place, *seeds), partial(work, place, seeds))
    return found
