"""Ridge models that forget nothing, beside the same ones that fade: who has predicted better lately is believed.

In a market that stands still what fades throws knowledge away; after a jump what does not fade is wrong for long. When
the fading models win, the others begin again from them.
"""

from typing import NamedTuple

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.types import FloatArray, IntArray
from zoosim.linear.dense import dot, quadratic_forms, scale_vector
from zoosim.linear.lens import Lens, see_mean, see_spread
from zoosim.linear.ridge import Ridge, clear, copy_ridge, fade, grown_ridge, new_ridge, observe

STEADY, FADING = 0, 1
GAIN, SQUARES = 0, 1

MARGIN, MEMORY = 5.0, 0.999
"""How much better, in nats over about 1,000 visits, one must predict to be believed in the other's place."""


SURE = 4.0
"""How many standard deviations of luck the lead of the fading models must exceed, too."""

NOISE_RATE = 1 / 500
"""Weight of the newest squared prediction error in the estimate of the rewards' variance."""


class Rivals(NamedTuple):
    """Both kinds, n models of d features each, and how many `visits (1,)` they learned from.

    `losses (2,)` lately, in nats; `lead (2,)` of the fading models, the sum of their gains lately and that of their
    squares; `noise (1,)`, the mean square of recent prediction errors.
    """

    steady: Ridge
    fading: Ridge
    losses: FloatArray
    lead: FloatArray
    noise: FloatArray
    visits: IntArray


def new_rivals(n: int, dim: int, horizon: float) -> Rivals:
    """Return models that have seen nothing; after `horizon` visits an observation weighs 1/e in the fading ones."""
    fading = new_ridge(n, dim, discount=1.0 - 1.0 / horizon)
    return Rivals(new_ridge(n, dim), fading, np.zeros(2), np.zeros(2), np.full(1, 0.25), np.zeros(1, np.int64))


def grown_rivals(rivals: Rivals, n: int) -> Rivals:
    """Return the same models with room for `n`; the new ones have seen nothing."""
    return rivals._replace(steady=grown_ridge(rivals.steady, n), fading=grown_ridge(rivals.fading, n))


@jit
def clear_rivals(rivals: Rivals, model: int) -> None:
    """Let both models of a number forget all they have seen."""
    clear(rivals.steady, model)
    clear(rivals.fading, model)


@jit
def learn(rivals: Rivals, model: int, x: FloatArray, nonzero: IntArray, reward: float) -> None:
    """Add the observation (x, reward in [0, 1]) to `model`: x `(d,)`, `nonzero` the indices where it is not 0."""
    losses, lead = rivals.losses, rivals.lead
    scale_vector(losses, MEMORY)
    scale_vector(lead, MEMORY)
    expected = dot(x, rivals.steady.theta[model])
    rivals.noise[0] += NOISE_RATE * ((reward - expected) ** 2 - rivals.noise[0])
    loss, other = log_loss(expected, reward), log_loss(dot(x, rivals.fading.theta[model]), reward)
    losses[STEADY] += loss
    losses[FADING] += other
    lead[GAIN] += loss - other
    lead[SQUARES] += (loss - other) ** 2
    rivals.visits[0] += 1
    fade(rivals.fading, 0, model, rivals.fading.b.shape[0], rivals.visits[0])
    observe(rivals.steady, model, x, nonzero, reward)
    observe(rivals.fading, model, x, nonzero, reward)
    if lead[GAIN] > max(MARGIN, SURE * np.sqrt(lead[SQUARES])):
        _take_over(rivals)


@jit
def _take_over(rivals: Rivals) -> None:
    """Let the steady models begin again from the fading ones."""
    copy_ridge(rivals.fading, rivals.steady)
    rivals.losses[STEADY] = rivals.losses[FADING]
    rivals.lead[:] = 0.0


@jit
def bounds(rivals: Rivals, model: int, lens: Lens, rows: FloatArray, alpha: float) -> FloatArray:
    """Return upper confidence bounds `(n,)` of `rows (n, 1 + m)`, as a visitor sees them through a lens.

    What is long past counts for the estimate, not for certainty. In blocks it takes a tenth of the time of x' A^-1 x
    for each of 10,000 products (d = 20).
    """
    scores = np.zeros(rows.shape[0])
    if alpha > 0.0:
        quadratic_forms(rows, see_spread(lens, rivals.fading.inverse[model]), scores)
    mean = see_mean(lens, rivals.steady.theta[model])
    for n in range(rows.shape[0]):
        scores[n] = alpha * np.sqrt(rivals.noise[0] * max(scores[n], 0.0))
        for i in range(mean.shape[0]):
            scores[n] += mean[i] * rows[n, i]
    return scores


@jit
def log_loss(chance: float, reward: float) -> float:
    """Return the loss of predicting `chance`, brought into [.01, .99], in nats."""
    chance = min(max(chance, 0.01), 0.99)
    loss: float = -reward * np.log(chance) - (1.0 - reward) * np.log(1.0 - chance)
    return loss
