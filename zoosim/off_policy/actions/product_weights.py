"""Importance weights and model predictions of each row of a log, for a target policy."""

from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from functools import partial
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
from zoosim.off_policy.targets.products import PolicyTarget, Target, check_probabilities
from zoosim.policies.requests import SUM_TOLERANCE

BLOCK, MOST_CELLS = 16_384, 2**24
"""Rows that are asked at once; fewer where they have more probabilities than that."""

BLOCK_PARTS = 4
"""Parts of a block of rows about which a policy is asked at once, so that few rows keep many workers busy.

Of other targets whole blocks are weighed, by pieces side by side.
"""

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

    def within(self, rows: slice) -> slice:
        """Return which of the visits lie among some rows."""
        first, last = np.searchsorted(self.rows, [rows.start, rows.stop])
        return slice(int(first), int(last))

    def inside(self, rows: slice) -> "DrawnVisits":
        """Return the visits among some rows, counted from the first of these."""
        here = self.within(rows)
        return DrawnVisits(self.rows[here] - rows.start, self.uniforms[here])


def weigh_and_predict(
    log: Log,
    target: Target,
    models: Sequence[RewardModel],
    visits: DrawnVisits | None = None,
    shown: FloatArray | None = None,
    progress: Progress = no_progress,
    spread: "Spread | None" = None,
) -> list[WeightsAndPredictions]:
    """Ask the target once for its probabilities, block by block; raises `PolicyError` where they are none.

    Returns one for each of the `models`, which are used where the target gives the probabilities of all products;
    without models, one of weights alone. For `visits` the target's choices are drawn, too. Of the products' features
    `shown (K, d)` the mean over the target's choices is returned. Of a log whose rows are read in blocks, what is
    returned of all rows is, too. `spread` has blocks weighed elsewhere.
    """
    n = len(log)
    k = log.n_actions
    models = models if target.whole else []
    if visits is None or not target.whole:
        visits = DrawnVisits(np.zeros(0, np.int64), np.zeros(0))
    features = np.zeros((k, 0)) if shown is None else shown
    weighing = Weighing(log, target, models, visits, features)
    blocks = list(row_blocks(n, BLOCK_PARTS if isinstance(target, PolicyTarget) else 1))
    weights = empty_rows((n,), log.actions)
    mean_shown = np.empty((n if shown is not None else 0, features.shape[1]))
    predictions = [(empty_rows((n,), log.actions), empty_rows((n,), log.actions)) for _ in models]
    drawn = np.empty((len(visits.rows), ACTIONS_A_VISIT), np.int64)
    mass = np.zeros(k if target.whole else 0)
    early: dict[
        int, FloatArray
    ] = {}  # what blocks add to it whose turn has not come: the order of a sum is in its bits
    n_added = 0
    counts = np.empty((len(blocks), len(target.counts)))
    with closing((spread or weigh_here)(weighing, blocks, progress)) as weighed_blocks:
        for number, block in weighed_blocks:
            rows = blocks[number]
            weights[rows] = block.weights
            if shown is not None:
                mean_shown[rows] = block.mean_shown
            for arrays, own in zip(predictions, block.predictions, strict=True):
                for array, values in zip(arrays, own, strict=True):
                    array[rows] = values
            drawn[visits.within(rows)] = block.drawn
            early[number] = block.mass
            while n_added in early:
                mass += early.pop(n_added)
                n_added += 1
            counts[number] = block.counts
    target.counts = counts.sum(axis=0)
    if isinstance(target, PolicyTarget):
        target.finish()
    known_mass = mass if target.whole else None
    if not predictions:
        weighed = WeightsAndPredictions(weights, mass=known_mass, drawn=drawn, mean_shown=mean_shown)
        return [weighed._replace(missed=target.missed)]
    return [WeightsAndPredictions(weights, *arrays, known_mass, drawn) for arrays in predictions]


class WeighedBlock(NamedTuple):
    """What came of a block of m rows, as in `WeightsAndPredictions`.

    For each reward model there are `predictions`, of logged products and expected ones `(m,)`; `drawn` is of the
    block's own visits. `mass` is empty where the target does not give all probabilities; `counts` are the
    target's.
    """

    weights: FloatArray
    predictions: list[tuple[FloatArray, FloatArray]]
    mass: FloatArray
    drawn: IntArray
    mean_shown: FloatArray
    counts: FloatArray


class Weighing(NamedTuple):
    """What is asked about the rows of a log: see `weigh_and_predict`."""

    log: Log
    target: Target
    models: Sequence[RewardModel]
    visits: DrawnVisits
    features: FloatArray

    def weigh(self, rows: slice) -> WeighedBlock:
        """Return what comes of a block of rows."""
        log = self.log
        if log.is_streamed:  # what is read in blocks is read once here, and asked about as a log of its own
            log = log.rows(rows)
            rows_in_log = slice(0, len(log))
        else:
            rows_in_log = rows
        block = RowBlock(log, rows_in_log, self.models_of(rows), self.visits.inside(rows))
        return block.weigh(self.target, self.features)

    def models_of(self, rows: slice) -> list[RewardModel]:
        """Return the reward models of some rows alone; those of different rewards see rows alike."""
        if not self.models:
            return []
        own = self.models[0].of_rows(rows)
        return [model._replace(inputs=own.inputs, fold=own.fold) for model in self.models]


Weighed = Generator[tuple[int, WeighedBlock], None, None]
"""Blocks of rows that are weighed, in any order: the number of each, and what came of it."""

Spread = Callable[[Weighing, Sequence[slice], Progress], Weighed]
"""Weighs blocks of rows, perhaps in other processes."""


def weigh_here(weighing: Weighing, blocks: Sequence[slice], progress: Progress) -> Weighed:
    """Weigh blocks of rows in this process, one after another: a `Spread`."""
    tells_itself = isinstance(weighing.target, PolicyTarget)
    for number, rows in enumerate(blocks):
        yield number, weighing.weigh(rows)
        if weighing.log.is_streamed and not tells_itself:
            progress(f"judged {rows.stop:,} of {len(weighing.log):,} rows")


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


class RowBlock:
    """A block of rows to be weighed.

    Args:
        log: The log that holds them.
        rows: Where they stand in it.
        models: Reward models of these rows alone.
        visits: The visits for which choices are drawn, counted from the block's first row.
    """

    def __init__(self, log: Log, rows: slice, models: Sequence[RewardModel], visits: DrawnVisits) -> None:
        self._log = log
        self._rows = rows
        self._models = [frozen_parts(model) for model in models]
        self._visits = visits

    def weigh(self, target: Target, features: FloatArray) -> WeighedBlock:
        """Ask a target for all rows, and average the products' `features (K, d)` over what it shows.

        Each piece has a sum of its own, added in order, so that the number of threads changes no bit.
        """
        m = self._rows.stop - self._rows.start
        out = WeighedBlock(
            weights=np.empty(m),
            predictions=[(np.empty(m), np.empty(m)) for _ in self._models],
            mass=np.zeros(self._log.n_actions),
            drawn=np.empty((len(self._visits.rows), ACTIONS_A_VISIT), np.int64),
            mean_shown=np.empty((m, features.shape[1])),
            counts=np.zeros_like(target.counts),
        )
        target.counts = out.counts
        pieces = _pieces(target.widths(self._log, self._rows))
        at_once = 1 if isinstance(target, PolicyTarget) else PIECES_AT_ONCE  # one object, asked in turn
        mass = out.mass
        for first in range(0, len(pieces), at_once):
            for added in map_in_threads(partial(self._weigh, target, features, out), pieces[first : first + at_once]):
                mass += added
        return out if target.whole else out._replace(mass=mass[:0])

    def _weigh(self, target: Target, features: FloatArray, out: WeighedBlock, place: slice) -> FloatArray:
        """Check and weigh some rows of the block; return what the target gives each product `(K,)`."""
        log = self._log
        rows = slice(self._rows.start + place.start, self._rows.start + place.stop)
        asked = frozen_parts(target.distributions(log, rows.start, rows.stop))
        masks = np.zeros((0, 0), bool)
        mask_of = np.zeros(0, np.int64)
        if target.whole and asked.are_dense and not log.candidates.are_everything:
            masks, mask_of = log.candidates.distinct_masks(log.candidate_set[rows])
        masks = frozen_view(masks)
        actions = frozen_view(log.actions[rows])
        weights = out.weights[place]
        mass = np.zeros(log.n_actions)
        if not _sound(asked, actions, masks, mask_of, target.whole, SUM_TOLERANCE, weights, mass):
            check_probabilities(asked, log, rows.start, whole=target.whole)
        weights /= target.logged(log)[rows]
        here = self._visits.within(place)
        visits = self._visits.inside(place)
        if len(visits.rows):
            draw_products(frozen_parts(asked.rows(visits.rows)), visits.uniforms, out.drawn[here])
        if features.shape[1]:
            out.mean_shown[place] = asked.matrix(log.n_actions) @ features
        for model, (predicted, expected) in zip(self._models, out.predictions, strict=True):
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
