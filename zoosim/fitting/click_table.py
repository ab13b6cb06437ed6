"""Click probabilities of cells, shrunk towards their common mean by an empirical amount."""

from typing import NamedTuple

import numpy as np
from scipy import special

from zoosim.core.types import FloatArray, IntArray
from zoosim.off_policy.intervals.clusters import Clusters, dot

LEAST_STRENGTH = 0.05
MOST_STRENGTH = 1_000.0
N_STRENGTHS = 64
"""How many rows the common mean may count for: from a fixed few to a multiple of the cells' mean number of rows."""
NODES = np.linspace(-3.5, 3.5, 15)
"""Where the common mean is tried, in standard deviations around the likeliest, for each strength."""
TAIL = (1.0 - 0.95) / 2
"""Probability of each tail outside of a 95% interval."""


class Estimates(NamedTuple):
    """Estimates for m cells: click probabilities and the ends of their intervals, each `(m,)`.

    `strength` is how many rows the common mean `mean` counts for beside a cell's own.
    """

    clicks: FloatArray
    low: FloatArray
    high: FloatArray
    mean: float
    strength: float


def estimate_clicks(rows: FloatArray, clicks: FloatArray) -> Estimates:
    """Estimate the click probability of cells with `rows (m,)` and `clicks (m,)`, numbers that need not be whole.

    A beta-binomial model: each cell's probability is drawn from Beta(M mu, M (1 - mu)), with Jeffreys' prior on mu and
    the uniform shrinkage prior on M (Daniels 1999); both are summed out on a grid. A cell's posterior is taken to be
    the beta distribution of the same mean and variance (Christiansen & Morris 1997). Where cells differ a lot, or have
    many rows, this is nearly the cell's own rate; a cell without rows has the common mean.
    """
    total = float(rows.mean())
    strengths = np.geomspace(LEAST_STRENGTH, MOST_STRENGTH * max(total, 1.0), N_STRENGTHS)
    means, deviations = _modes(rows, clicks, strengths)
    grid = special.expit(means[:, None] + deviations[:, None] * NODES)  # (M, nodes)
    m = np.broadcast_to(strengths[:, None], grid.shape)
    log_weights = _log_likelihood(rows, clicks, grid.ravel(), m.ravel()) + 0.5 * np.log(grid * (1 - grid)).ravel()
    prior = np.log(strengths) - 2.0 * np.log(strengths + total)
    log_weights += (prior + np.log(deviations))[:, None].repeat(len(NODES), 1).ravel()
    weights = np.exp(log_weights - log_weights.max())
    keep = weights > 1e-5
    weights = weights[keep] / weights[keep].sum()
    return _mixed(rows, clicks, grid.ravel()[keep], m.ravel()[keep], weights)


def _mixed(
    rows: FloatArray, clicks: FloatArray, mean: FloatArray, strength: FloatArray, weights: FloatArray
) -> Estimates:
    """Return the mean of the cells' posteriors over the grid, and the quantiles of a beta distribution like them."""
    posterior_means = (clicks[:, None] + mean * strength) / (rows[:, None] + strength)
    estimates = posterior_means @ weights
    within = (posterior_means * (1 - posterior_means) / (rows[:, None] + strength + 1.0)) @ weights
    variance = within + ((posterior_means - estimates[:, None]) ** 2) @ weights
    size = estimates * (1 - estimates) / variance - 1.0
    low, high = (special.betaincinv(estimates * size, (1 - estimates) * size, p) for p in (TAIL, 1 - TAIL))
    return Estimates(estimates, low, high, float(mean @ weights), float(np.exp(np.log(strength) @ weights)))


def _log_likelihood(rows: FloatArray, clicks: FloatArray, mean: FloatArray, strength: FloatArray) -> FloatArray:
    """Return log P(clicks | mean, strength) `(g,)` over pairs of a grid, without what does not depend on them."""
    a = mean * strength
    b = (1 - mean) * strength
    log_ratios = special.betaln(clicks[:, None] + a, (rows - clicks)[:, None] + b) - special.betaln(a, b)
    return np.asarray(log_ratios.sum(axis=0))


def _modes(rows: FloatArray, clicks: FloatArray, strengths: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the likeliest logit of the common mean for each strength, and its standard deviation: `(g,)` each."""
    low, high = np.full(len(strengths), -20.0), np.full(len(strengths), 20.0)
    for _ in range(40):
        middle = (low + high) / 2
        up = _slope(rows, clicks, middle, strengths) > 0.0
        low, high = np.where(up, middle, low), np.where(up, high, middle)
    mode = (low + high) / 2
    step = 1e-3
    bend = (_slope(rows, clicks, mode - step, strengths) - _slope(rows, clicks, mode + step, strengths)) / (2 * step)
    return mode, 1.0 / np.sqrt(np.maximum(bend, 1e-6))


def _slope(rows: FloatArray, clicks: FloatArray, logit: FloatArray, strength: FloatArray) -> FloatArray:
    """Return the derivative by the logit of the log posterior of the common mean `(g,)`."""
    mean = special.expit(logit)
    a = mean * strength
    b = (1 - mean) * strength
    up = special.digamma(clicks[:, None] + a) - special.digamma(a)
    down = special.digamma((rows - clicks)[:, None] + b) - special.digamma(b)
    inner = mean * (1 - mean) * strength * (up - down).sum(axis=0)
    return np.asarray(inner + 0.5 * (1 - 2 * mean))


def design_effect(clusters: Clusters, cells: IntArray, rewards: FloatArray, n_cells: int) -> float:
    """Return how much more clicks of a cell vary than independent ones would, 1 at least (Rao & Scott 1992).

    Rows of a group of `clusters` go together; rates of `cells (n,)` are those of the `rewards (n,)`. Rows and clicks
    divided by it can be treated as independent.
    """
    rows = np.bincount(cells, minlength=n_cells)
    rates = np.bincount(cells, rewards, n_cells) / np.maximum(rows, 1)
    independent = float((rows * rates * (1 - rates)).sum())
    if independent == 0.0 or len(clusters.sizes) < 2:
        return 1.0
    place, inverse = np.unique(clusters.group * n_cells + cells, return_inverse=True)
    sums = np.bincount(inverse.reshape(-1), rewards - rates[cells], len(place)).astype(np.float64)
    return max(1.0, dot(sums, sums) / independent)
