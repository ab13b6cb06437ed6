"""Model of rewards that are not 0: their sign, and their size on a logarithmic or on its own scale.

Rewards of shops are mostly 0, else of very different sizes: revenue is near to log-normal, margins are at times
negative. So a reward is a chance that it is not 0, times what it then is. Of that there are two models, and the one
that has lately given rewards the higher density is believed: a sign, and a normal logarithm for each sign; or a normal
distribution. Rewards are divided by the power of two next to the first one, so that scaling all of them by a power of
two changes no decision.
"""

from collections.abc import Iterator
from typing import Annotated, NamedTuple

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.limits import FLAGS, NOT_NEGATIVE, Limits
from zoosim.core.types import FloatArray, IntArray
from zoosim.models.shrunk_effects import FeatureRow, ShrunkEffects, learn_amount, learn_chance

MODELS = 4
SIGN, GAIN, LOSS, RAW = range(MODELS)
"""Models of sizes, counted from the first of them: of the sign, of the logarithm of gains and of losses, of both."""

LOGARITHMIC, PLAIN = 0, 1
"""Places in `losses`."""

MEMORY = 0.999
"""Weight that an observation keeps from one reward that is not 0 to the next, in `losses`."""

STEADY = 1_000.0
"""Observations after which the newest one counts no less in means and variances."""

LARGEST = 2.0**60
"""Largest size, in units, and least one's inverse; beyond that sizes are cut."""

LOG_LARGEST = float(np.log(LARGEST))

LEAST_REWARD = 1e-250
"""Rewards next to 0 that are taken for 0: powers of two below them would not be exact."""

OBSERVED = Limits(0.0, STEADY)

WIDEST = 4.0
"""Largest variance of a logarithm that raises the mean of what it is the logarithm of."""

LEAST_NOISE = 1e-4

LOG_TAU = float(np.log(2.0 * np.pi))


class RewardSizeModels(NamedTuple):
    """State of the models of rewards that are not 0.

    `unit (1,)`, a power of two, 0 before the first one; `first (1,)` in that unit; `several (1,)` is 1 once another
    value came; `negative (1,)` once a negative one did. By model `(4,)`: `observed` rewards, `mean` and `variance` of
    what it learns, and `noise`, the variance that it leaves, in units of that. `losses (2,)` of both ways, lately.
    """

    unit: Annotated[FloatArray, NOT_NEGATIVE]
    first: FloatArray
    several: Annotated[IntArray, FLAGS]
    negative: Annotated[IntArray, FLAGS]
    observed: Annotated[FloatArray, OBSERVED]
    mean: FloatArray
    variance: Annotated[FloatArray, NOT_NEGATIVE]
    noise: Annotated[FloatArray, NOT_NEGATIVE]
    losses: FloatArray

    def flaws(self) -> Iterator[str]:
        """Yield what does not fit together."""
        if self.noise.min() < LEAST_NOISE:
            yield f"noise holds {self.noise.min():g}, expected at least {LEAST_NOISE:g}"
        unit = float(self.unit[0])
        if unit and np.frexp(unit)[0] != 0.5:
            yield f"unit holds {unit:g}, expected 0 or a power of two"


def new_sizes() -> RewardSizeModels:
    """Return what is known before the first reward."""
    return RewardSizeModels(
        unit=np.zeros(1),
        first=np.zeros(1),
        several=np.zeros(1, np.int64),
        negative=np.zeros(1, np.int64),
        observed=np.zeros(MODELS),
        mean=np.zeros(MODELS),
        variance=np.ones(MODELS),
        noise=np.full(MODELS, 0.5),
        losses=np.zeros(2),
    )


@jit
def learn_size(
    sizes: RewardSizeModels, effects: ShrunkEffects, first_model: int, clock: float, row: FeatureRow, reward: float
) -> None:
    """Learn from a reward that is not 0."""
    if sizes.unit[0] == 0.0:
        sizes.unit[0] = 2.0 ** np.floor(np.log2(abs(reward)))
        sizes.first[0] = reward / sizes.unit[0]
    size = min(max(reward / sizes.unit[0], -LARGEST), LARGEST)
    size = max(size, 1.0 / LARGEST) if size > 0.0 else min(size, -1.0 / LARGEST)
    if size < 0.0:
        sizes.negative[0] = 1
    if size != sizes.first[0]:
        sizes.several[0] = 1
    if sizes.several[0]:
        expected = learn_chance(effects, first_model + SIGN, clock, row, size > 0.0)
        expected = min(max(expected if size > 0.0 else 1.0 - expected, 1e-6), 1.0)
        logarithm = np.log(abs(size))
        model = GAIN if size > 0.0 else LOSS
        # The density of a size is that of its logarithm over the size,
        # hence the logarithm; times the chance of its sign.
        loss = _learn(sizes, effects, first_model, model, clock, row, logarithm) + logarithm - np.log(expected)
        sizes.losses[LOGARITHMIC] = MEMORY * sizes.losses[LOGARITHMIC] + loss
        loss = _learn(sizes, effects, first_model, RAW, clock, row, size)
        sizes.losses[PLAIN] = MEMORY * sizes.losses[PLAIN] + loss


@jit
def _learn(
    sizes: RewardSizeModels,
    effects: ShrunkEffects,
    first_model: int,
    model: int,
    clock: float,
    row: FeatureRow,
    amount: float,
) -> float:
    """Update a model with an amount, in standard deviations; return the negative logarithm of its density."""
    sizes.observed[model] = min(sizes.observed[model] + 1.0, STEADY)
    share = 1.0 / sizes.observed[model]
    if sizes.observed[model] == 1.0:
        sizes.mean[model] = amount
    difference = amount - sizes.mean[model]
    sizes.mean[model] += share * difference
    sizes.variance[model] += (difference**2 - sizes.variance[model]) / (1.0 + sizes.observed[model])
    scale = np.sqrt(max(sizes.variance[model], 1e-12))
    noise = sizes.noise[model]
    standard = min(max((amount - sizes.mean[model]) / scale, -8.0), 8.0)
    error, variance = learn_amount(effects, first_model + model, clock, row, standard, noise)
    # E error^2 is `variance`, of which the noise is this share.
    sizes.noise[model] += (error**2 * noise / variance - noise) / (5.0 + sizes.observed[model])
    sizes.noise[model] = max(sizes.noise[model], LEAST_NOISE)
    # Of the amount, not of its standard score: only then can both ways to model sizes be compared.
    loss: float = 0.5 * (LOG_TAU + np.log(variance * scale**2) + error**2 / variance)
    return loss


@jit
def are_losses(sizes: RewardSizeModels) -> bool:
    """Return whether rewards that are not 0 are losses on average."""
    return bool((sizes.mean[RAW] if sizes.several[0] else sizes.first[0]) < 0.0)


@jit
def goes_by_logarithms(sizes: RewardSizeModels) -> bool:
    """Return whether sizes are believed to be near to log-normal."""
    return bool(sizes.losses[LOGARITHMIC] <= sizes.losses[PLAIN])


@jit
def size_of(sizes: RewardSizeModels, model: int, standard: float) -> float:
    """Return the size, in its unit, that a model's `standard` score stands for."""
    size: float = sizes.mean[model] + np.sqrt(sizes.variance[model]) * standard
    if model != RAW:
        spread = min(sizes.variance[model] * sizes.noise[model], WIDEST)
        # exp(mu + s^2 / 2) is the mean of a log-normal variable.
        size = np.exp(min(size + 0.5 * spread, 2.0 * LOG_LARGEST))
    return size
