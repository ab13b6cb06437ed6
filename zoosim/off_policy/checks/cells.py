"""Cells of visitors within which a policy's probabilities are the same."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from zoosim.core.arrays import codes_of, evenly_spread
from zoosim.core.types import FloatArray, IntArray

BINS = 64
SAMPLE = 5_000
"""Limits of each feature that are tried, and rows that they are tried on."""

SPLITS, TRIED_SPLITS = 8, 12
"""Most limits in the end, and most that are tried: the first ones may be needless once others are set."""

SPARE_CELLS = 4
"""Factor by which cells may exceed their largest number before limits are left out."""

ROUNDING = 1e-12
"""Share of the squares of scores whose variance is none."""

UNEXPLAINED = 0.03
"""Share of the variance of probabilities, beside that between products, that may be left within cells."""


class Split(NamedTuple):
    """Split of visitors at a limit of one feature."""

    column: int
    limit: float


def find_cells(features: FloatArray, actions: IntArray, scores: FloatArray, most_cells: int) -> IntArray | None:
    """Return the cell of each visitor, in which an action's score is the same `(n,)`; None where there are no cells.

    Limits of features are chosen one by one, each for all visitors, so that cells are those of a grid.

    Args:
        features: What the policy may go by `(n, d)`.
        actions: The logged actions `(n,)`.
        scores: A number of each logged action, such as the logarithm of its probability `(n,)`.
        most_cells: How many cells there may be.
    """
    rows = evenly_spread(len(actions), SAMPLE)
    few = _Grid(features[rows], actions[rows], scores[rows])
    total = few.variance()
    if total <= ROUNDING * float((scores[rows] ** 2).sum()):
        return np.zeros(len(actions), np.int64)
    while few.variance() > UNEXPLAINED * total:
        split = few.best_split() if len(few.splits) < TRIED_SPLITS else None
        if split is None:
            return None
        few.add(split)
        if few.cells.max() >= SPARE_CELLS * most_cells:
            return None
    few.leave_out_needless(UNEXPLAINED * total)
    cells = _cells_of(features, few.splits)
    return None if len(few.splits) > SPLITS or cells.max() >= most_cells else cells


def _cells_of(features: FloatArray, splits: Sequence[Split]) -> IntArray:
    """Return the number of each visitor's cell `(n,)`."""
    cells = np.zeros(len(features), np.int64)
    for split in splits:
        cells = 2 * cells + (features[:, split.column] > split.limit)
    return codes_of(cells)


class _Grid:
    """Cells of some rows in the making."""

    def __init__(self, features: FloatArray, actions: IntArray, scores: FloatArray) -> None:
        self.features = features
        self.actions = codes_of(actions)
        self.scores = scores
        self.cells = np.zeros(len(actions), np.int64)
        self.splits: list[Split] = []
        self._limits = [_limits(column) for column in features.T]
        self._bins = [np.searchsorted(limits, column) for limits, column in zip(self._limits, features.T, strict=True)]

    @property
    def _groups(self) -> IntArray:
        return np.asarray(self.cells * (int(self.actions.max()) + 1) + self.actions)

    def variance(self) -> float:
        """Return the sum of squares of scores about their means per cell and action."""
        return _within(self._groups, self.scores)

    def best_split(self) -> Split | None:
        """Return the limit that explains most of what is left; None where none explains anything."""
        best = None
        # A gain within rounding is none.
        least = self.variance() * (1.0 - 1e-6)
        groups = codes_of(self._groups)
        for column, (limits, bins) in enumerate(zip(self._limits, self._bins, strict=True)):
            n_bins = len(limits) + 1
            shape = (int(groups.max()) + 1, n_bins)
            index = groups * n_bins + bins
            rows = np.bincount(index, minlength=shape[0] * n_bins).reshape(shape).cumsum(axis=1)
            sums = np.bincount(index, self.scores, shape[0] * n_bins).reshape(shape).cumsum(axis=1)
            # Squares about means are the sum of squares less sum^2 / n of
            # each part; running sums give all limits at once.
            below = sums[:, :-1] ** 2 / np.maximum(rows[:, :-1], 1)
            above = (sums[:, -1:] - sums[:, :-1]) ** 2 / np.maximum(rows[:, -1:] - rows[:, :-1], 1)
            left = float((self.scores**2).sum()) - (below + above).sum(axis=0)
            if len(limits) and left.min() < least:
                place = int(left.argmin())
                best = (column, place)
                least = float(left[place])
        return None if best is None else self._refined(*best)

    def _refined(self, column: int, place: int) -> Split:
        """Return the best limit between the one tried before and the one after."""
        values = self.features[:, column]
        limits = self._limits[column]
        low = limits[place - 1] if place else -np.inf
        high = limits[place + 1] if place + 1 < len(limits) else np.inf
        near = np.unique(values[(values > low) & (values <= high)])
        tried = np.append((near[1:] + near[:-1]) / 2.0, limits[place])
        tried = tried[evenly_spread(len(tried), BINS)]
        groups = self._groups
        left = [_within(2 * groups + (values > limit), self.scores) for limit in tried]
        return Split(column, float(tried[int(np.argmin(left))]))

    def add(self, split: Split) -> None:
        """Part all cells."""
        self.splits.append(split)
        self.cells = codes_of(2 * self.cells + (self.features[:, split.column] > split.limit))

    def leave_out_needless(self, most_variance: float) -> None:
        """Take out limits, the first ones first, as long as no more variance than that is left within cells."""
        for split in list(self.splits):
            others = [other for other in self.splits if other is not split]
            cells = _cells_of(self.features, others)
            if _within(cells * (int(self.actions.max()) + 1) + self.actions, self.scores) <= most_variance:
                self.splits = others
                self.cells = cells


def _limits(values: FloatArray) -> FloatArray:
    distinct = np.unique(values)
    if len(distinct) > BINS:
        distinct = np.unique(np.quantile(values, np.linspace(0.0, 1.0, BINS + 1)))
    return np.asarray((distinct[1:] + distinct[:-1]) / 2.0)


def _within(groups: IntArray, values: FloatArray) -> float:
    sums = np.bincount(groups, values)
    return float((values**2).sum() - (sums**2 / np.maximum(np.bincount(groups), 1)).sum())
