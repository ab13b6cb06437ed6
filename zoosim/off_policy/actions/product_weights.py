"""Importance weights and model predictions of each row of a log, for a target policy."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from zoosim.core.distributions import Distributions, draw_products
from zoosim.core.jit import jit
from zoosim.core.threads import in_threads
from zoosim.core.types import BoolArray, FloatArray, IntArray
from zoosim.logs.log import Log
from zoosim.models.linear_rewards import RewardModel, model_terms
from zoosim.off_policy.direct_method import ACTIONS_A_VISIT
from zoosim.off_policy.targets.products import TOLERANCE, PolicyTarget, Target, check_probabilities

BLOCK, MOST_CELLS = 16_384, 2**24
"""Rows that are asked at once; fewer where they have more probabilities than that."""


class WeightsAndPredictions(NamedTuple):
    """Importance weights `(n,)`, and where the target gives all probabilities what else follows from them.

    `predicted (n,)` are a reward model's predictions for the logged products, `expected (n,)` their means under the
    target, `mass (K,)` the target's probabilities of each product, summed over rows; `drawn` is what `draw_products`
    drew for some visits, `mean_shown (n, d)` the mean features of what the target shows. None where they are not known.
    """

    weights: FloatArray
    predicted: FloatArray | None = None
    expected: FloatArray | None = None
    mass: FloatArray | None = None
    drawn: IntArray | None = None
    mean_shown: FloatArray | None = None


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
) -> list[WeightsAndPredictions]:
    """Ask the target once for its probabilities, block by block; raises `PolicyError` where they are none.

    Returns one for each of the `models`, which are used where the target gives the probabilities of all products;
    without models, one of weights alone. For `visits` the target's choices are drawn, too. Of the products' features
    `shown (K, d)` the mean over the target's choices is returned.
    """
    n = len(log)
    k = log.n_actions
    blocks = _blocks(target.widths(log))
    pieces = np.array_split(blocks, min(len(blocks), max(1, MOST_CELLS // k)))
    predictions = [Predictions(model, np.empty(n), np.empty(n)) for model in models if target.whole]
    if visits is None or not target.whole:
        visits = DrawnVisits(np.zeros(0, np.int64), np.zeros(0))
    drawn = np.empty((len(visits.rows), ACTIONS_A_VISIT), np.int64)
    features = np.zeros((k, 0)) if shown is None else shown
    mean_shown = np.empty((n, features.shape[1]))
    out = _Blocks(np.empty(n), np.zeros((len(pieces), k)), predictions, visits, drawn, features, mean_shown)

    def work(number: int) -> None:
        for start, stop in pieces[number].tolist():
            _weigh_block(log, target, start, stop, number, out)

    if isinstance(target, PolicyTarget):  # one object, asked in turn
        for number in range(len(pieces)):
            work(number)
        target.finish()
    else:
        in_threads(work, len(pieces))
    # Each piece has sums of its own, added in order, so that the number of threads changes no bit.
    mass = out.mass.sum(axis=0) if target.whole else None
    if not predictions:
        return [WeightsAndPredictions(out.weights, mass=mass, drawn=drawn, mean_shown=mean_shown)] * max(1, len(models))
    return [WeightsAndPredictions(out.weights, each.predicted, each.expected, mass, drawn) for each in predictions]


def _blocks(widths: IntArray) -> IntArray:
    """Cut rows that take `widths (n,)` probabilities into blocks `(b, 2)`, each from a start to before a stop."""
    before = np.append(0, np.cumsum(widths))
    blocks = []
    start = 0
    while start < len(widths):
        fitting = int(np.searchsorted(before, before[start] + MOST_CELLS, "right")) - 1
        stop = min(max(fitting, start + 1), start + BLOCK)
        blocks.append((start, stop))
        start = stop
    return np.array(blocks)


class Predictions(NamedTuple):
    """A reward model, and arrays `(n,)` for its predictions, as in `WeightsAndPredictions`."""

    model: RewardModel
    predicted: FloatArray
    expected: FloatArray


class _Blocks(NamedTuple):
    """Arrays `(n,)` that blocks of rows fill in, each its own part, and the target's `mass (pieces, K)` in some each.

    `drawn` holds the target's choices for some `visits`.
    """

    weights: FloatArray
    mass: FloatArray
    predictions: Sequence[Predictions]
    visits: DrawnVisits
    drawn: IntArray
    features: FloatArray
    mean_shown: FloatArray


def _weigh_block(log: Log, target: Target, start: int, stop: int, number: int, out: _Blocks) -> None:
    """Check and weigh rows `start` to `stop - 1`, which are of piece `number`."""
    asked = target.distributions(log, start, stop)
    masks = np.zeros((0, 0), bool)
    mask_of = np.zeros(0, np.int64)
    if target.whole and asked.are_dense and not log.candidates.are_everything:
        masks, mask_of = log.candidates.distinct_masks(log.candidate_set[start:stop])
    actions = log.actions[start:stop]
    if not _sound(asked, actions, masks, mask_of, target.whole, TOLERANCE, out.weights[start:stop], out.mass[number]):
        check_probabilities(asked, log, start, whole=target.whole)
    out.weights[start:stop] /= log.propensities[start:stop]
    first, last = np.searchsorted(out.visits.rows, [start, stop])
    if last > first:
        rows = out.visits.rows[first:last] - start
        draw_products(asked.rows(rows), out.visits.uniforms[first:last], out.drawn[first:last])
    if out.features.shape[1]:
        out.mean_shown[start:stop] = asked.matrix(log.n_actions) @ out.features
    for model, predicted, expected in out.predictions:
        model_terms(model, start, actions, asked, predicted[start:stop], expected[start:stop])


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
