"""Interquartile means with bootstrap intervals over seeds (Agarwal, Schwarzer, Castro, Courville & Bellemare 2021)."""

import numpy as np

from zoosim.core.statistics import Interval
from zoosim.core.types import FloatArray

SAMPLES = 2_000
"""Samples of a bootstrap."""


def interquartile_mean(scores: FloatArray) -> FloatArray:
    """Return the mean of the middle half of the scores along the last axis.

    Of n scores the n // 4 lowest and the n // 4 highest are left out, as by Agarwal et al. (2021, section 4.3).

    Args:
        scores: Any number of rows of scores, `(..., n)`.

    Returns:
        A mean for each row, `(...)`.
    """
    ordered = np.sort(scores, axis=-1)
    count = ordered.shape[-1]
    cut = count // 4
    mean: FloatArray = ordered[..., cut : count - cut].mean(axis=-1)
    return mean


def interquartile_interval(scores: FloatArray, *, rng: np.random.Generator) -> Interval:
    """Return the interquartile mean over worlds and seeds with its 95% interval; no interval for one seed.

    The interval is that of a stratified bootstrap: seeds are drawn again in each world apart, so that it says how much
    hangs on seeds, not on the choice of worlds (Agarwal et al. 2021, section 4.1).

    Args:
        scores: What was reached, `(worlds, seeds)`.
        rng: Source of the draws.
    """
    worlds, seeds = scores.shape
    mean = float(interquartile_mean(scores.ravel()))
    if seeds == 1:
        return Interval(mean, None, None)
    drawn = rng.integers(seeds, size=(SAMPLES, worlds, seeds))
    samples = scores[np.arange(worlds)[:, np.newaxis], drawn].reshape(SAMPLES, -1)
    low, high = np.quantile(interquartile_mean(samples), [0.025, 0.975])
    return Interval(mean, float(low), float(high))
