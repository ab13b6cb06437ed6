"""What a target policy and a reward model say of each row of a log."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from zoosim.core.errors import PolicyError
from zoosim.core.jit import jit
from zoosim.core.threads import in_threads
from zoosim.core.types import BoolArray, FloatArray, IntArray
from zoosim.logs.log import Log
from zoosim.models.linear_rewards import RewardModel, model_terms
from zoosim.off_policy.direct_method import ACTIONS_A_VISIT, draw_actions
from zoosim.off_policy.targets.products import TOLERANCE, PolicyTarget, Target, check_probabilities

BLOCK, MOST_CELLS = 16_384, 2**24
"""Rows that are asked at once; fewer where there are so many actions that they have more probabilities than that."""


class WeightsAndPredictions(NamedTuple):
    """Importance weights `(n,)`, and where the target gives all probabilities what else follows from them.

    `predicted (n,)` are a reward model's predictions for the logged products, `expected (n,)` their means under the
    target, `mass (K,)` the target's probabilities of each product, summed over rows; `drawn` is what `draw_actions`
    drew for some visits. None where they are not known.
    """

    weights: FloatArray
    predicted: FloatArray | None = None
    expected: FloatArray | None = None
    mass: FloatArray | None = None
    drawn: IntArray | None = None


class Visits(NamedTuple):
    """Visits for which a target's choices are drawn: sorted `rows (v,)`, and uniforms in [0, 1) `(v,)`."""

    rows: IntArray
    uniforms: FloatArray


def weigh_and_predict(
    log: Log, target: Target, models: Sequence[RewardModel], visits: Visits | None = None
) -> list[WeightsAndPredictions]:
    """Ask the target once for its probabilities, block by block; raises `PolicyError` where they are none.

    Returns one for each of the `models`, which are used where the target gives the probabilities of all products;
    without models, one of weights alone. For `visits` the target's choices are drawn, too.
    """
    n, k = len(log), log.n_actions
    block = min(BLOCK, max(1, MOST_CELLS // k))
    starts = range(0, n, block)
    predictions = [Predictions(model, np.empty(n), np.empty(n)) for model in models if target.whole]
    if visits is None or not target.whole:
        visits = Visits(np.zeros(0, np.int64), np.zeros(0))
    drawn = np.empty((len(visits.rows), ACTIONS_A_VISIT), np.int64)
    out = _Blocks(np.empty(n), np.zeros((len(starts), k)), predictions, visits, drawn)

    def work(number: int) -> None:
        _weigh_block(log, target, starts[number], min(starts[number] + block, n), number, out)

    if isinstance(target, PolicyTarget):  # one object, asked in turn
        for number in range(len(starts)):
            work(number)
        target.finish()
    else:
        in_threads(work, len(starts))
    mass = out.mass.sum(axis=0) if target.whole else None
    if not predictions:
        return [WeightsAndPredictions(out.weights, mass=mass, drawn=drawn)] * max(1, len(models))
    return [WeightsAndPredictions(out.weights, each.predicted, each.expected, mass, drawn) for each in predictions]


class Predictions(NamedTuple):
    """A reward model, and arrays `(n,)` for its predictions, as in `WeightsAndPredictions`."""

    model: RewardModel
    predicted: FloatArray
    expected: FloatArray


class _Blocks(NamedTuple):
    """Arrays `(n,)` that blocks of rows fill in, each its own part, and the target's `mass (blocks, K)` in each.

    `drawn` holds the target's choices for some `visits`.
    """

    weights: FloatArray
    mass: FloatArray
    predictions: Sequence[Predictions]
    visits: Visits
    drawn: IntArray


def _weigh_block(log: Log, target: Target, start: int, stop: int, number: int, out: _Blocks) -> None:
    """Check and weigh rows `start` to `stop - 1`, which are block `number`."""
    asked = _asked(log, target, start, stop)
    masks, mask_of = log.candidates.distinct_masks(log.candidate_set[start:stop])
    if not _sound(asked, masks, mask_of, TOLERANCE, out.mass[number]):
        check_probabilities(asked, log.available(start, stop), start)
    actions = log.actions[start:stop]
    of_logged = asked[:, 0] if asked.shape[1] == 1 else asked[np.arange(len(actions)), actions]
    out.weights[start:stop] = of_logged / log.propensities[start:stop]
    first, last = np.searchsorted(out.visits.rows, [start, stop])
    if last > first:
        rows = out.visits.rows[first:last] - start
        out.drawn[first:last] = draw_actions(asked[rows], out.visits.uniforms[first:last])
    for model, predicted, expected in out.predictions:
        model_terms(model, start, actions, asked, predicted[start:stop], expected[start:stop])


def _asked(log: Log, target: Target, start: int, stop: int) -> FloatArray:
    """Return the target's probabilities: `(stop - start, K)`, or `(stop - start, 1)` of the logged products alone."""
    asked = np.ascontiguousarray(target.probabilities(log, start, stop), np.float64)
    shape = (stop - start, log.n_actions) if target.whole else (stop - start,)
    if asked.shape != shape:
        raise PolicyError(f"gives probabilities of shape {asked.shape}, expected {shape}")
    return asked if target.whole else asked[:, None]


@jit
def _sound(asked: FloatArray, masks: BoolArray, mask_of: IntArray, tolerance: float, mass: FloatArray) -> bool:
    """Check that rows of `asked (m, K)` are probabilities over their candidates, and add them to `mass (K,)`.

    A single column holds the probabilities of the logged products alone, which need not add up to 1.
    """
    sound = True
    logged_alone = asked.shape[1] < mass.shape[0]
    for i in range(asked.shape[0]):
        total, least, outside = 0.0, 0.0, 0.0
        is_candidate = masks[mask_of[i]]
        for a in range(asked.shape[1]):
            p = asked[i, a]
            total += p
            least = min(least, p)
            outside = max(outside, 0.0 if is_candidate[a] or logged_alone else p)
            mass[a] += p
        excess = max(total - 1.0, 0.0) if logged_alone else abs(total - 1.0)
        if not (excess <= tolerance and least >= 0.0 and outside <= 0.0):  # so that NaN is not sound either
            sound = False
    return sound
