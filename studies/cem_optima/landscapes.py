"""Objectives with their gradients in the box [-.5, .5]^d, one a seed.

Concave ones, what a trained Q-ensemble makes of these, a random network's, and ones with many optima.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from studies.quadratic import STATE_DIM, TRAINED, draw_points, fit_ours
from zoosim.core.rng import stream
from zoosim.core.types import FloatArray
from zoosim.models.ensemble_gradient import gradient
from zoosim.models.ensemble_objective import EnsembleObjective

A_MAX = 0.5
WIDTH = 64
BETA = 1.0

Slope = Callable[[FloatArray], tuple[FloatArray, FloatArray]]
"""Actions `(m, n, d)`, those of seed i in row i, to values `(m, n)` and gradients `(m, n, d)`."""


class Landscape(NamedTuple):
    """Objectives of m seeds, and how much there is to gain: from the mean of uniform actions to the best known."""

    slope: Slope
    typical: FloatArray  # (m,)


def landscape(kind: str, d: int, seeds: Sequence[int]) -> Landscape:
    """Make the objectives called `kind`, one of `KINDS`."""
    slope = KINDS[kind](d, [stream(seed, "landscape", kind, str(d)) for seed in seeds])
    anywhere = np.stack([stream(seed, "anywhere").uniform(-A_MAX, A_MAX, (500, d)) for seed in seeds])
    return Landscape(slope, slope(anywhere)[0].mean(axis=1))


def repeated(slope: Slope, times: int) -> Slope:
    """Make the objective of m `times` as many requests, those of a seed next to each other."""

    def whole(actions: FloatArray) -> tuple[FloatArray, FloatArray]:
        rows, n, d = actions.shape
        values, gradients = slope(actions.reshape(rows // times, times * n, d))
        return values.reshape(rows, n), gradients.reshape(rows, n, d)

    return whole


def concave(d: int, rngs: Sequence[np.random.Generator]) -> Slope:
    """Return x'a - .1 |a|^2 (equation 7.11) with x from N(0, I): one optimum, clip(5x)."""
    x = np.stack([rng.normal(size=d) for rng in rngs])[:, np.newaxis]
    return lambda a: (np.sum(a * x - 0.1 * a * a, axis=2), x - 0.2 * a)


def ensemble(d: int, rngs: Sequence[np.random.Generator]) -> Slope:
    """Return mean + std of Q-ensembles that learned x'a - .1 |a|^2 from 1,000 points, x having 5 numbers."""
    objectives = [_trained(d, int(rng.integers(2**31))) for rng in rngs]

    def slope(a: FloatArray) -> tuple[FloatArray, FloatArray]:
        found = [gradient(objective, rows) for objective, rows in zip(objectives, a, strict=True)]
        return np.stack([values for values, _ in found]), np.stack([gradients for _, gradients in found])

    return slope


@lru_cache(maxsize=1_000)
def _trained(d: int, seed: int) -> EnsembleObjective:
    rng = stream(seed, "quadratic")
    return fit_ours(draw_points(TRAINED, d, rng=rng), seed).objective(rng.normal(size=STATE_DIM), BETA)


def network(d: int, rngs: Sequence[np.random.Generator]) -> Slope:
    """Return networks d-64-64-1 with tanh and random weights, as wavy over the box as a critic that fits noise."""
    first = np.stack([rng.normal(0, 4 / d**0.5, (d, WIDTH)) for rng in rngs])
    shift = np.stack([rng.normal(0, 1, (1, WIDTH)) for rng in rngs])
    second = np.stack([rng.normal(0, 1.4 / WIDTH**0.5, (WIDTH, WIDTH)) for rng in rngs])
    last = np.stack([rng.normal(0, 1 / WIDTH**0.5, (1, WIDTH)) for rng in rngs])

    def slope(a: FloatArray) -> tuple[FloatArray, FloatArray]:
        hidden = np.tanh(a @ first + shift)
        top = np.tanh(hidden @ second)
        back = ((last * (1 - top**2)) @ second.transpose(0, 2, 1)) * (1 - hidden**2)
        return (top * last).sum(axis=2), back @ first.transpose(0, 2, 1)

    return slope


def rastrigin(d: int, rngs: Sequence[np.random.Generator]) -> Slope:
    """Return Rastrigin's function (1974), turned over and scaled to the box, its best of 11^d optima anywhere in it."""
    centre = np.stack([rng.uniform(-0.8 * A_MAX, 0.8 * A_MAX, d) for rng in rngs])[:, np.newaxis]
    scale = 5.12 / A_MAX

    def slope(a: FloatArray) -> tuple[FloatArray, FloatArray]:
        z = scale * (a - centre)
        values = -(z * z - 10 * np.cos(2 * np.pi * z) + 10).sum(axis=2)
        return values, -scale * (2 * z + 20 * np.pi * np.sin(2 * np.pi * z))

    return slope


KINDS = {"concave": concave, "ensemble": ensemble, "network": network, "rastrigin": rastrigin}
