"""Rank the learners whose result files lie in a folder."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from studies.interquartile import interquartile_interval
from studies.result_files import Result, read_results
from studies.session_axes import WORLDS
from zoosim.core.errors import DataError
from zoosim.core.parameters import unknown
from zoosim.core.statistics import Interval
from zoosim.core.types import FloatArray, Progress

RESULTS = "docs/leaderboard"
"""The folder of the results that come with this library."""


@dataclass(frozen=True)
class Standing:
    """How a learner stands: what it reached in % of the optimum, each world's by seed.

    `interquartile` is the interquartile mean over all worlds and seeds with its 95% interval, None for a learner that
    has not learned all worlds. `seconds` is the mean of a run.
    """

    learner: str
    library: str
    version: str
    budget: str
    seeds: list[int]
    percent: dict[str, list[float]]
    interquartile: Interval | None
    seconds: float

    @property
    def worst(self) -> float:
        """The worst seed in any world."""
        return min(min(values) for values in self.percent.values())


def measure(*, data: Any = RESULTS, progress: Progress = lambda line: None) -> list[Standing]:
    """Return the standings of the results in the folder `data`, the best first; those without all worlds come last."""
    standings = []
    for result in read_results(data):
        for name in result.worlds:
            if name not in WORLDS:
                raise DataError(f"leaderboard: {result.learner}: {unknown('unknown world', name, list(WORLDS))}")
        standings.append(_standing(result))
    return sorted(standings, key=_rank)


def _rank(standing: Standing) -> tuple[bool, float]:
    if standing.interquartile is None:
        return True, -float(np.mean([np.mean(values) for values in standing.percent.values()]))
    return False, -standing.interquartile.mean


def _standing(result: Result) -> Standing:
    percent = {name: result.worlds[name].percent for name in WORLDS if name in result.worlds}
    scores: FloatArray = np.array(list(percent.values()))
    interquartile = None
    if len(percent) == len(WORLDS):
        # The same draws for each learner, so that equal results have equal intervals.
        interquartile = interquartile_interval(scores, rng=np.random.default_rng(0))
    return Standing(
        learner=result.learner,
        library=result.library,
        version=result.version,
        budget=result.budget,
        seeds=result.seeds,
        percent=percent,
        interquartile=interquartile,
        seconds=float(np.mean([world.seconds for world in result.worlds.values()])),
    )
