"""Functions with known maxima in the box [-.5, .5]^d, for m requests: actions `(m, n, d)` to values `(m, n)`."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Many = Callable[[Floats], Floats]


def quadratic(x: Floats) -> Many:
    """Return x'a - .1 |a|^2 for the rows of `x (m, d)`: equation 7.11, its maximum is at clip(5x)."""
    return lambda a: np.einsum("mnd,md->mn", a, x) - 0.1 * (a * a).sum(axis=2)


def rastrigin(centres: Floats) -> Many:
    """Return Rastrigin's function, turned over and scaled to the box, with its maximum, 0, at `centres (m, d)`."""

    def values(a: Floats) -> Floats:
        z = 5.12 / 0.5 * (a - centres[:, np.newaxis])
        return np.asarray(-(z * z - 10 * np.cos(2 * np.pi * z) + 10).sum(axis=2))

    return values


def typical(objective: Many, m: int, d: int) -> float:
    """Return the mean value of uniform actions: what knowing nothing is worth."""
    return float(objective(np.random.default_rng(9).uniform(-0.5, 0.5, (m, 2_000, d))).mean())


def rotated(rng: np.random.Generator, m: int, d: int) -> tuple[Many, Floats]:
    """Return concave functions -|L (a - c)|^2 with random axes and curvatures from 1 to 10, and their maxima."""
    axes = np.linalg.qr(rng.normal(size=(m, d, d)))[0]
    stretched = np.sqrt(np.logspace(0, 1, d))[:, np.newaxis] * axes
    centres = rng.uniform(-0.4, 0.4, (m, d))

    def values(a: Floats) -> Floats:
        z = np.einsum("med,mnd->mne", stretched, a - centres[:, np.newaxis])
        return np.asarray(-(z * z).sum(axis=2))

    return values, centres
