"""Find when responses of segments to categories changed in a log, beyond chance."""

from typing import NamedTuple

import numpy as np
from scipy import special

from zoosim.core.blocks import dot
from zoosim.core.types import BoolArray, FloatArray, IntArray
from zoosim.off_policy.intervals.clusters import Clusters

BLOCKS = 200
MOST_CHANGES = 6
FALSE_ALARM = 0.01
LEAST_SHARE = 0.05
"""The shortest period between changes, as a share of the log."""
LEAST_CLICKS = 10.0
"""Clicks that a cell must have, and shows without one, before a change in it is believed."""


class ClickChange(NamedTuple):
    """A change of the click probabilities of `cells` from row `row` on, rows in order of time."""

    row: int
    cells: IntArray


def find_changes(cells: IntArray, rewards: FloatArray, n_cells: int, effect: float = 1.0) -> list[ClickChange]:
    """Find changes in the clicks of `cells (n,)`, rows in order of time, by binary segmentation (Vostrikova 1981).

    Each step takes the time at which the cells' log likelihood ratios, each less what chance may bring, add up to most.
    Chance is bounded for all times and cells at once; `effect` is the design effect by which ratios are divided.
    """
    n = len(cells)
    blocks = min(BLOCKS, len(cells))
    block = np.arange(n) * blocks // max(n, 1)
    cell_block = cells * blocks + block
    counts = (np.bincount(cell_block, values, n_cells * blocks) for values in (np.ones(n), rewards))
    rows, clicks = (np.asarray(count.reshape(n_cells, blocks), float) for count in counts)
    changes: list[ClickChange] = []
    spans = [(0, blocks)]
    # Breadth first, so that one part of the log does not use up all the changes there may be.
    while spans and len(changes) < MOST_CHANGES:
        start, stop = spans.pop(0)
        offset, changed = _strongest(
            rows[:, start:stop], clicks[:, start:stop], effect, max(1, int(LEAST_SHARE * blocks))
        )
        if offset and changed.any():
            first = int(np.searchsorted(block, start + offset))
            changes.append(ClickChange(first, np.flatnonzero(changed)))
            spans += [(start, start + offset), (start + offset, stop)]
    return sorted(changes, key=lambda change: change.row)


def _strongest(rows: FloatArray, clicks: FloatArray, effect: float, min_blocks: int) -> tuple[int, BoolArray]:
    """Return the block before which most changed, 0 for none, and which cells did."""
    n_cells, blocks = rows.shape
    # Not near the ends: with few rows on one side the ratio is far from its chi squared distribution.
    times = np.arange(min_blocks, blocks - min_blocks + 1)
    if not len(times):
        return 0, np.zeros(n_cells, bool)
    before = np.cumsum(rows, axis=1)[:, times - 1], np.cumsum(clicks, axis=1)[:, times - 1]
    # Divided by the design effect, the ratio is again near chi squared with one degree of freedom.
    ratios = _ratios(rows.sum(axis=1), clicks.sum(axis=1), *before) / effect
    # What chance may bring in any cell at any time (Bonferroni); at the time found, in any cell.
    limit = float(special.chdtri(1.0, FALSE_ALARM / (n_cells * len(times))))
    score = np.maximum(ratios - limit, 0.0).sum(axis=0)
    if not score.any():
        return 0, np.zeros(n_cells, bool)
    best = int(score.argmax())
    changed: BoolArray = ratios[:, best] > float(special.chdtri(1.0, FALSE_ALARM / n_cells))
    return int(times[best]), changed


def _ratios(rows: FloatArray, clicks: FloatArray, rows_before: FloatArray, clicks_before: FloatArray) -> FloatArray:
    """Return twice the log likelihood ratios of two rates against one `(cells, times)`; 0 where clicks are too few."""
    whole = _log_likelihood(clicks, rows)[:, None]
    after = _log_likelihood(clicks[:, None] - clicks_before, rows[:, None] - rows_before)
    # Chi squared with one degree of freedom where nothing changed (Wilks 1938): two rates against one.
    ratios = 2.0 * (_log_likelihood(clicks_before, rows_before) + after - whole)
    few = np.minimum(clicks, rows - clicks) < LEAST_CLICKS
    return np.where(few[:, None], 0.0, ratios)


def _log_likelihood(clicks: FloatArray, rows: FloatArray) -> FloatArray:
    """Return the log likelihood of the clicks at their own rate."""
    others = rows - clicks
    return np.asarray(special.xlogy(clicks, clicks) + special.xlogy(others, others) - special.xlogy(rows, rows))


def design_effect(clusters: Clusters, cells: IntArray, rewards: FloatArray, n_cells: int) -> float:
    """Return how much more clicks of a cell vary than independent ones would, 1 at least (Rao & Scott 1992).

    Rows of a group of `clusters` go together; rates of `cells (n,)` are those of the `rewards (n,)`. Rows and clicks
    divided by it can be treated as independent.
    """
    rows = np.bincount(cells, minlength=n_cells)
    rates = np.bincount(cells, rewards, n_cells) / np.maximum(rows, 1)
    independent = float((rows * rates * (1 - rates)).sum())
    # All rates are 0 or 1, or there is one user: nothing tells by how much rows go together.
    if independent == 0.0 or len(clusters.sizes) < 2:
        return 1.0
    # Squares of what each user clicks in a cell beyond its rate: were rows independent, a row would add rate (1 - rate)
    # on average.
    place, inverse = np.unique(clusters.group * n_cells + cells, return_inverse=True)
    sums = np.bincount(inverse.reshape(-1), rewards - rates[cells], len(place)).astype(np.float64)
    return max(1.0, dot(sums, sums) / independent)
