"""What a target policy and a reward model say of each row of a log."""

from typing import NamedTuple

import numpy as np

from zoosim.core.errors import PolicyError
from zoosim.core.jit import jit
from zoosim.core.threads import in_threads
from zoosim.core.types import BoolArray, FloatArray, IntArray
from zoosim.logs.log import Log
from zoosim.models.linear_rewards import RewardModel, model_terms
from zoosim.off_policy.targets.products import TOLERANCE, PolicyTarget, Target, check_probabilities

BLOCK, MOST_CELLS = 16_384, 2**24
"""Rows that are asked at once; fewer where there are so many actions that they have more probabilities than that."""


class Judged(NamedTuple):
    """Weights `(n,)`, and where the target gives all probabilities: a model's guesses and the mass on each action.

    `predicted (n,)` are guesses for the logged actions, `expected (n,)` their means under the target, `mass (K,)` the
    target's probabilities of each action, summed over rows. None where they are not known.
    """

    weights: FloatArray
    predicted: FloatArray | None = None
    expected: FloatArray | None = None
    mass: FloatArray | None = None


def judge(log: Log, target: Target, model: RewardModel | None = None) -> Judged:
    """Ask the target for its probabilities, block by block; raises `PolicyError` for what are none."""
    n, k = len(log), log.n_actions
    block = min(BLOCK, max(1, MOST_CELLS // k))
    weights, starts = np.empty(n), range(0, n, block)
    whole, guessed = target.whole, target.whole and model is not None
    predicted, expected = (np.empty(n) if guessed else None for _ in range(2))
    masses = np.zeros((len(starts), k)) if whole else None

    def work(piece: int) -> None:
        start, stop = starts[piece], min(starts[piece] + block, n)
        found = _asked(log, target, start, stop)
        mass = np.zeros(k) if masses is None else masses[piece]
        if not _sound(found, log.candidates, log.candidate_set[start:stop], TOLERANCE, mass):
            check_probabilities(found, log.available(start, stop), start)
        weights[start:stop] = _of_logged(found, log.actions[start:stop]) / log.propensities[start:stop]
        if model is not None and predicted is not None and expected is not None:
            parts = (predicted[start:stop], expected[start:stop])
            model_terms(model, start, log.actions[start:stop], found, *parts)

    if isinstance(target, PolicyTarget):  # one object, asked in turn
        for piece in range(len(starts)):
            work(piece)
        target.finish()
    else:
        in_threads(work, len(starts))
    return Judged(weights, predicted, expected, None if masses is None else masses.sum(axis=0))


def _asked(log: Log, target: Target, start: int, stop: int) -> FloatArray:
    found = np.ascontiguousarray(target.probabilities(log, start, stop), np.float64)
    shape = (stop - start, log.n_actions) if target.whole else (stop - start,)
    if found.shape != shape:
        raise PolicyError(f"gives probabilities of shape {found.shape}, expected {shape}")
    return found if target.whole else found[:, None]


def _of_logged(found: FloatArray, actions: IntArray) -> FloatArray:
    return found[:, 0] if found.shape[1] == 1 else np.asarray(found[np.arange(len(actions)), actions])


@jit
def _sound(
    found: FloatArray, candidates: BoolArray, candidate_set: IntArray, tolerance: float, mass: FloatArray
) -> bool:
    """Tell whether rows are probabilities over their candidates, and add them to `mass (K,)`.

    One column alone holds probabilities of the logged actions, which need not add up to 1.
    """
    sound, alone = True, found.shape[1] < mass.shape[0]
    for i in range(found.shape[0]):
        total, least, stray = 0.0, 0.0, 0.0
        own = candidates[candidate_set[i]]
        for a in range(found.shape[1]):
            p = found[i, a]
            total += p
            least = min(least, p)
            stray = max(stray, 0.0 if own[a] or alone else p)
            mass[a] += p
        apart = max(total - 1.0, 0.0) if alone else abs(total - 1.0)
        if not (apart <= tolerance and least >= 0.0 and stray <= 0.0):
            sound = False
    return sound
