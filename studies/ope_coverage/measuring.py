"""Judge simulated logs of each cell: how often does each interval hold, and how often where the verdict is trust?"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from studies.boost_logs import BoostLogs
from studies.ope_coverage.cells import CELLS, Cell, Logs, draw, logs_of, sound
from studies.repeated_logs import Kept, over_logs
from studies.search_logs import read_shifting_shop, shop_key
from studies.shops import ShopChanges
from zoosim.core.checks import check_whole
from zoosim.core.search_config import SearchConfig
from zoosim.core.types import FloatArray, Progress
from zoosim.off_policy.actions.products import BY_WEIGHTS
from zoosim.off_policy.evaluate import evaluate
from zoosim.off_policy.intervals.clusters import make_clusters
from zoosim.off_policy.intervals.intervals import bernstein_interval
from zoosim.off_policy.intervals.sequences import confidence_sequence
from zoosim.off_policy.verdict import TRUST

SAMPLES = 399
CHUNK = 50
BOOTSTRAP, BERNSTEIN, SEQUENCE = "bootstrap", "bernstein", "sequence"
ROWS = (*((BOOTSTRAP, name) for name in BY_WEIGHTS), (BERNSTEIN, "any"), (SEQUENCE, "any"))


@dataclass(frozen=True)
class Covered:
    """One interval on `logs` logs of a cell, for one estimator, or for any.

    `held` counts the logs whose interval holds the truth (a confidence sequence: after every row); of the others the
    truth was `below` or `above`. `promised` tells whether it should hold: the log is sound, or the interval's own
    conditions are met. `effective` rows in expectation, None for kernels; `width` is the median of width / truth, None
    if infinite; `trusted` counts the logs with the verdict trust, `trusted_held` those of them whose interval holds.
    """

    cell: int
    world: str
    n: int
    distance: float
    effective: float | None
    interval: str
    estimator: str
    promised: bool
    logs: int
    held: int
    below: int
    above: int
    width: float | None
    trusted: int
    trusted_held: int

    @property
    def coverage(self) -> float:
        """How often the interval holds."""
        return self.held / self.logs


def measure(
    *,
    seeds: Any = "1000:1400",
    cells: Any = 31,
    jobs: Any = None,
    config: ShopChanges = None,
    progress: Progress = lambda line: None,
) -> list[Covered]:
    """Judge a log a seed in each of the first so many `cells`; what is measured is kept, so a run can go on.

    `config` changes the search shop. Raises `ConfigError` for another number of cells.
    """
    shop = read_shifting_shop(config)
    places = CELLS[: check_whole("ope-coverage: cells", cells, 1, len(CELLS))]
    found = ends_of(shop, places, seeds, jobs=jobs, words=_words, progress=progress)
    return [row for number, cell in enumerate(places) for row in rows_of(shop, number, cell, found[number])]


def ends_of(shop: SearchConfig, places: Sequence[Cell], seeds: Any, **how: Any) -> list[FloatArray]:
    """Judge a log a seed in each of the `places`: the ends of each of `ROWS`, and trust, `(s, 5, 3)` each.

    `how` is what `over_logs` takes.
    """
    kept = Kept("ope-coverage", (SAMPLES, *shop_key(shop)))
    return over_logs(partial(_found, shop), places, seeds, kept, chunk=CHUNK, **how)


def _words(cell: Cell) -> str:
    return f"{cell.world}, {cell.n:,} rows, distance {cell.distance:g}"


def rows_of(shop: SearchConfig, number: int, cell: Cell, found: FloatArray) -> list[Covered]:
    """Sum up what `ends_of` finds of the logs of a cell."""
    rows = [(name, found[:, i]) for i, name in enumerate(ROWS) if not np.isnan(found[:, i]).any()]
    logs = logs_of(cell, shop)
    return [_summed(number, cell, logs, name, values) for name, values in rows]


def _found(shop: SearchConfig, cell: Cell, seeds: Sequence[int]) -> FloatArray:
    logs = logs_of(cell, shop)
    return np.stack([_judge(logs, *draw(cell, logs, seed), seed) for seed in seeds])


def _judge(logs: Logs, log: Any, target: FloatArray, seed: int) -> FloatArray:
    """Return the ends of each of `ROWS`, and whether the verdict is trust `(5, 3)`; NaN where there is none."""
    out, names = np.full((len(ROWS), 3), np.nan), [f"{logs.family}{name}" for name in BY_WEIGHTS]
    judged = evaluate(log, {"target": target}, estimators=names, samples=SAMPLES, seed=seed, compare=False)
    results = judged.results
    for row, result in enumerate(results):
        low = -math.inf if result.low is None else result.low
        out[row] = (low, math.inf if result.high is None else result.high, result.verdict == TRUST)
    if isinstance(logs, BoostLogs) or logs.reward_range is None:
        return out
    weights, rewards = logs.bounded(log, target)
    units = make_clusters(len(log), log.user_ids, max_groups=len(log))
    bounds = bernstein_interval(weights, rewards, logs.reward_range, units)
    out[len(results)] = (bounds.low, bounds.high, 0.0)
    if logs.alike:  # ends only ever close in, so the last interval holds if all do
        ends = confidence_sequence(weights, rewards, logs.reward_range)
        out[len(results) + 1] = (ends.low[-1], ends.high[-1], 0.0)
    return out


def _summed(number: int, cell: Cell, logs: Logs, name: tuple[str, str], found: FloatArray) -> Covered:
    interval, estimator = name
    below, above, trusted = logs.truth < found[:, 0], logs.truth > found[:, 1], found[:, 2] > 0.0
    held, width = ~(below | above), float(np.median(found[:, 1] - found[:, 0]) / logs.truth)
    return Covered(
        cell=number,
        world=cell.world,
        n=cell.n,
        distance=cell.distance,
        effective=logs.effective,
        interval=interval,
        estimator=estimator,
        promised=sound(logs) if interval == BOOTSTRAP else not logs.misrecorded,
        logs=len(found),
        held=int(held.sum()),
        below=int(below.sum()),
        above=int(above.sum()),
        width=width if math.isfinite(width) else None,
        trusted=int(trusted.sum()),
        trusted_held=int((trusted & held).sum()),
    )
