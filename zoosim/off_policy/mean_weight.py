"""Tests of a mean weight: it should be 1, but heavy-tailed weights miss that by chance far more than they show."""

import math
from typing import Any

import numpy as np

from zoosim.core.blocks import row_blocks
from zoosim.core.order_statistics import largest as largest_of
from zoosim.core.types import FloatArray

FINITE_VARIANCE = 0.5
"""The shape of a Pareto tail from which on the variance is infinite, and a standard error says nothing."""

FEWEST = 30
"""Weights above 0 by which anything can be told."""

FEWEST_SIZES = 5
"""Sizes of the largest weights that make a tail."""

TAIL_SHARE, TAIL_SIZE = 0.2, 3.0
"""The tail is at most this share of the weights, and this often the root of their number (Vehtari et al. 2024)."""

EVIDENCE = math.log(1_000.0)
"""The logarithm of what a bet against right propensities must win, which happens by chance in one of 1,000 logs."""

BETS = 2.0 ** -np.arange(1.0, 15.0)


def has_light_tail(weights: Any) -> bool:
    """Return whether the standard error of the mean of `weights (n,)`, 0 or more, can be believed.

    So it is where the shape of a generalised Pareto distribution, fitted to the largest of them (Zhang & Stephens
    2009), is below 1/2 by a standard error (Vehtari, Simpson, Gelman, Yao & Gabry 2024,
    https://jmlr.org/papers/v25/19-556.html).
    """
    positive = sum(int(np.count_nonzero(weights[rows])) for rows in row_blocks(len(weights)))
    if positive < FEWEST:
        return False
    size = int(min(TAIL_SHARE * positive, TAIL_SIZE * math.sqrt(positive)))
    largest = np.sort(largest_of(weights, size + 1))
    excesses = largest[1:] - largest[0]
    excesses = excesses[excesses > 1e-9 * largest[-1]]
    if len(np.unique(excesses)) < FEWEST_SIZES:
        return True  # the largest are all alike, so there is no tail
    shape = pareto_shape(excesses)
    # (1 + shape) / sqrt(m) is the asymptotic standard error of the shape's maximum likelihood estimate.
    return shape + (1.0 + shape) / math.sqrt(len(excesses)) < FINITE_VARIANCE


def pareto_shape(excesses: FloatArray) -> float:
    """Return the shape of a generalised Pareto distribution of sorted `excesses (m,)` above 0 (Zhang & Stephens 2009).

    Weakly drawn towards 1/2, as if ten more had been seen there (Vehtari et al. 2024, appendix C).
    """
    m = len(excesses)
    n_points = 20 + int(math.sqrt(m))
    points = 1.0 - np.sqrt(n_points / (np.arange(1, n_points + 1) - 0.5))
    points = points / (3.0 * excesses[int(m / 4 + 0.5) - 1]) + 1.0 / excesses[-1]
    points = points[np.abs(points) * excesses[-1] > 1e-9]  # 0 stands for an exponential tail, where this is 0 / 0
    shapes = np.log1p(-points[:, None] * excesses).mean(axis=1)
    # Given b, the shape of the largest likelihood is the mean of ln(1 - b x); this is the likelihood there.
    likelihoods = m * (np.log(-points / shapes) - shapes - 1.0)
    chances = np.exp(likelihoods - likelihoods.max())
    point = float((points * chances).sum() / chances.sum())
    shape = float(np.log1p(-point * excesses).mean())
    return (m * shape + 10.0 * 0.5) / (m + 10.0)


def is_surely_below_one(weights: Any, largest: float) -> bool:
    """Return whether the mean of `weights (n,)` is below 1 beyond doubt, if none can be larger than `largest`.

    By bets whose stake no weight can use up: where propensities are right they win nothing on average, so they rarely
    win much (Waudby-Smith & Ramdas 2024; Ville 1939). It needs no central limit theorem, and so no light tail.
    """
    bets = BETS[BETS * max(largest - 1.0, 1.0) < 1.0]
    if not len(bets) or not np.isfinite(largest):
        return False
    gains = np.zeros(len(bets))
    for rows in row_blocks(len(weights)):
        above = weights[rows] - 1.0
        gains += [float(np.log1p(-bet * above).sum()) for bet in bets]
    # Money shared out evenly over fair bets is a fair bet itself, so no bet has to be chosen by the log.
    return bool(np.logaddexp.reduce(gains) - math.log(len(bets)) >= EVIDENCE)
