"""Importance weights and model predictions of each row of a log, for a target policy."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from zoosim.core.blocks import empty_rows, row_blocks
from zoosim.core.calls import no_progress
from zoosim.core.distributions import Distributions, draw_products
from zoosim.core.jit import jit
from zoosim.core.threads import map_in_threads
from zoosim.core.types import BoolArray, FloatArray, IntArray, Progress, frozen_parts, frozen_view
from zoosim.logs.log import Log
from zoosim.models.linear_rewards import RewardModel, model_terms
from zoosim.off_policy.direct_method import ACTIONS_A_VISIT
from zoosim.off_policy.targets.products import TOLERANCE, PolicyTarget, Target, check_probabilities

BLOCK, MOST_CELLS = 16_384, 2**24
"""Rows that are asked at once; fewer where they have more probabilities than that."""

PIECES_AT_ONCE = 8
"""So many of them are weighed side by side."""


class WeightsAndPredictions(NamedTuple):
    """Importance weights `(n,)`, and where the target gives all probabilities what else follows from them.

    `predicted (n,)` are a reward model's predictions for the logged products, `expected (n,)` their means under the
    target, `mass (K,)` the target's probabilities of each product, summed over rows; `drawn` is what `draw_products`
    drew for some visits, `mean_shown (n, d)` the mean features of what the target shows. None where they are not known.
    `missed` is the share of the target's choices that could not be shown, where the target tells.
    """

    weights: Any
    predicted: Any = None
    expected: Any = None
    mass: FloatArray | None = None
    drawn: IntArray | None = None
    mean_shown: FloatArray | None = None
    missed: float | None = None


class DrawnVisits(NamedTuple):
    """Visits for which a target's choices are drawn: sorted `rows (v,)`, and uniforms in [0, 1) `(v,)`."""

    rows: IntArray
    uniforms: FloatArray


def weigh_and_predict(
    log: Log,
    target: Target,
    models: Sequence[RewardModel],
    visits: DrawnVisits | None = None,
    shown: FloatArray | None = None,
    progress: Progress = no_progress,
) -> list[WeightsAndPredictions]:
    """Ask the target once for its probabilities, block by block; raises `PolicyError` where they are none.

    Returns one for each of the `models`, which are used where the target gives the probabilities of all products;
    without models, one of weights alone. For `visits` the target's choices are drawn, too. Of the products' features
    `shown (K, d)` the mean over the target's choices is returned. Of a log whose rows are read in blocks, what is
    returned of all rows is, too.
    """
    n = len(log)
    k = log.n_actions
    models = models if target.whole else []
    if visits is None or not target.whole:
        visits = DrawnVisits(np.zeros(0, np.int64), np.zeros(0))
    features = np.zeros((k, 0)) if shown is None else shown
    weights = empty_rows((n,), log.actions)
    mean_shown = np.empty((n if shown is not None else 0, features.shape[1]))
    predictions = [(empty_rows((n,), log.actions), empty_rows((n,), log.actions)) for _ in models]
    drawn = np.empty((len(visits.rows), ACTIONS_A_VISIT), np.int64)
    mass = np.zeros(k)
    for rows in row_blocks(n):
        block = _RowBlock(log, target, rows, models, visits, drawn, features)
        block.weigh(mass)
        weights[rows] = block.weights
        if shown is not None:
            mean_shown[rows] = block.mean_shown
        for arrays, own in zip(predictions, block.predictions, strict=True):
            for array, values in zip(arrays, own, strict=True):
                array[rows] = values
        if log.is_streamed and not isinstance(target, PolicyTarget):  # which tells itself
            progress(f"judged {rows.stop:,} of {n:,} rows")
    if isinstance(target, PolicyTarget):
        target.finish()
    known_mass = mass if target.whole else None
    if not predictions:
        weighed = WeightsAndPredictions(weights, mass=known_mass, drawn=drawn, mean_shown=mean_shown)
        return [weighed._replace(missed=target.missed)]
    return [WeightsAndPredictions(weights, *arrays, known_mass, drawn) for arrays in predictions]


def _pieces(widths: IntArray) -> list[slice]:
    """Cut m rows that take `widths (m,)` probabilities into those that are asked at once."""
    before = np.append(0, np.cumsum(widths))
    pieces = []
    start = 0
    while start < len(widths):
        fitting = int(np.searchsorted(before, before[start] + MOST_CELLS, "right")) - 1
        stop = min(max(fitting, start + 1), start + BLOCK)
        pieces.append(slice(start, stop))
        start = stop
    return pieces


class _RowBlock:
    """A block of a log's `rows`, their weights `(m,)` and for each reward model two arrays of predictions `(m,)`."""

    def __init__(
        self,
        log: Log,
        target: Target,
        rows: slice,
        models: Sequence[RewardModel],
        visits: DrawnVisits,
        drawn: IntArray,
        features: FloatArray,
    ) -> None:
        m = rows.stop - rows.start
        # What is read in blocks is read once here; the target is then asked about the block as a log of its own.
        self._first = 0 if log.is_streamed else rows.start
        self._log = log.rows(rows) if log.is_streamed else log
        self._start = rows.start
        self._target = target
        self._models = [frozen_parts(model.of_rows(rows)) for model in models]
        self._visits = visits
        self._drawn = drawn
        self._features = features
        self.weights = np.empty(m)
        self.mean_shown = np.empty((m, features.shape[1]))
        self.predictions = [(np.empty(m), np.empty(m)) for _ in models]

    def weigh(self, mass: FloatArray) -> None:
        """Ask for all rows, and add to `mass (K,)` what the target gives each product.

        Each piece has a sum of its own, added in order, so that the number of threads changes no bit.
        """
        asked_for = slice(self._first, self._first + len(self.weights))
        pieces = _pieces(self._target.widths(self._log, asked_for))
        at_once = 1 if isinstance(self._target, PolicyTarget) else PIECES_AT_ONCE  # one object, asked in turn
        for first in range(0, len(pieces), at_once):
            for added in map_in_threads(self._weigh_piece, pieces[first : first + at_once]):
                mass += added

    def _weigh_piece(self, place: slice) -> FloatArray:
        """Check and weigh some rows of the block; return what the target gives each product `(K,)`."""
        log = self._log
        rows = slice(self._first + place.start, self._first + place.stop)
        asked = frozen_parts(self._target.distributions(log, rows.start, rows.stop))
        masks = np.zeros((0, 0), bool)
        mask_of = np.zeros(0, np.int64)
        if self._target.whole and asked.are_dense and not log.candidates.are_everything:
            masks, mask_of = log.candidates.distinct_masks(log.candidate_set[rows])
        masks = frozen_view(masks)
        actions = frozen_view(log.actions[rows])
        weights = self.weights[place]
        mass = np.zeros(log.n_actions)
        if not _sound(asked, actions, masks, mask_of, self._target.whole, TOLERANCE, weights, mass):
            check_probabilities(asked, log, rows.start, whole=self._target.whole)
        weights /= self._target.logged(log)[rows]
        start = self._start + place.start
        first, last = np.searchsorted(self._visits.rows, [start, self._start + place.stop])
        if last > first:
            chosen = self._visits.rows[first:last] - start
            draw_products(frozen_parts(asked.rows(chosen)), self._visits.uniforms[first:last], self._drawn[first:last])
        if self._features.shape[1]:
            self.mean_shown[place] = asked.matrix(log.n_actions) @ self._features
        for model, (predicted, expected) in zip(self._models, self.predictions, strict=True):
            model_terms(model, place.start, actions, asked, predicted[place], expected[place])
        return mass


@jit
def _sound(
    asked: Distributions,
    actions: IntArray,
    masks: BoolArray,
    mask_of: IntArray,
    whole: bool,
    tolerance: float,
    chances: FloatArray,
    mass: FloatArray,
) -> bool:
    """Check that m rows are distributions; write what they give to `actions (m,)` to `chances (m,)`, and sum up `mass`.

    Those that are not `whole` need not add up to 1. Where there are `masks`, dense rows keep to theirs.
    """
    sound = True
    is_masked = masks.shape[0] > 0
    is_listed = asked.products.shape[0] > 0
    for i in range(actions.shape[0]):
        row = asked.probabilities[asked.starts[i] : asked.starts[i] + asked.lengths[i]]
        total = 0.0
        least = 0.0
        outside = 0.0
        if is_listed:
            chances[i] = 0.0
            products = asked.products[asked.first[i] : asked.first[i] + asked.lengths[i]]
            for j in range(row.shape[0]):
                total += row[j]
                least = min(least, row[j])
                mass[products[j]] += row[j]
                if products[j] == actions[i]:
                    chances[i] = row[j]
        else:
            chances[i] = row[actions[i]]
            for a in range(row.shape[0]):
                total += row[a]
                least = min(least, row[a])
                mass[a] += row[a]
            if is_masked:
                is_candidate = masks[mask_of[i]]
                for a in range(row.shape[0]):
                    outside = max(outside, 0.0 if is_candidate[a] else row[a])
        excess = abs(total - 1.0) if whole else max(total - 1.0, 0.0)
        if not (excess <= tolerance and least >= 0.0 and outside <= 0.0):  # so that NaN is not sound either
            sound = False
    return sound
