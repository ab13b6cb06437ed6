"""The studentised bootstrap over groups of rows: estimates on resampled logs, each with its own standard error."""

from typing import NamedTuple

import numpy as np
from scipy import special

from zoosim.core.jit import jit
from zoosim.core.rng import mix, stream_key
from zoosim.core.types import FloatArray, IntArray
from zoosim.evaluation.off_policy.clusters import Sums, standard_error
from zoosim.evaluation.off_policy.threads import in_threads

SAMPLES = 1_000
PIECES = 16
ROUNDING = 1e-9
"""A sample's error below this share of the estimate's own is none."""


class Bootstrap(NamedTuple):
    """Resampled estimates `(B,)` less the estimate, each with its own standard error `(B,)`."""

    deviations: FloatArray
    errors: FloatArray

    @property
    def ratios(self) -> FloatArray:
        """Return deviations in standard errors; infinite where a sample has none."""
        with np.errstate(divide="ignore", invalid="ignore"):
            found = self.deviations / self.errors
        return np.where(np.isnan(found), 0.0, found)


def bootstrap(sums: Sums, *, samples: int = SAMPLES, seed: int = 0) -> Bootstrap:
    """Resample groups with Poisson(1) counts (Hanley & MacGibbon 2006), drawn by (seed, sample, group).

    The same draws serve every estimate of a log, so differences are paired. Any number of threads gives the same bits.
    """
    key, columns, law = stream_key(seed, "bootstrap"), _centred(sums), poisson_law()
    deviations, errors = np.empty(samples), np.empty(samples)
    bounds = np.linspace(0, samples, PIECES + 1).astype(int).tolist()

    def draw(piece: int) -> None:
        _bootstrap(key, columns, law, bounds[piece], bounds[piece + 1], deviations, errors)

    in_threads(draw, PIECES)
    errors[errors < ROUNDING * standard_error(sums)] = 0.0
    return Bootstrap(deviations, errors)


def _centred(sums: Sums) -> FloatArray:
    """Return `(G, 6)`: sizes, and base, tops and bottoms so scaled and centred that the estimate itself comes to 0."""
    n = sums.sizes.sum()
    rows = [sums.sizes / n, (sums.base - sums.base.sum() / n * sums.sizes) / n]
    for top, bottom in sums.ratios:
        total = bottom.sum()
        rows += [(top - top.sum() / total * bottom) / total, bottom / total]
    return np.ascontiguousarray(np.array(rows).T)


@jit
def _bootstrap(
    key: np.uint64,
    columns: FloatArray,
    law: tuple[FloatArray, IntArray],
    start: int,
    stop: int,
    deviations: FloatArray,
    errors: FloatArray,
) -> None:
    """Fill in samples `start` to `stop - 1`; an empty sample, or one without weight, deviates by nothing."""
    groups = columns.shape[0]
    counts = np.empty(groups)
    for s in range(start, stop):
        row = mix(np.uint64(key ^ mix(np.uint64(s))))
        total = np.zeros(6)
        for g in range(groups):
            counts[g] = poisson(np.uint64(mix(np.uint64(row ^ np.uint64(g)))), law)
            for c in range(6):
                total[c] += counts[g] * columns[g, c]
        deviations[s] = errors[s] = 0.0
        if total[0] <= 0.0 or total[3] <= 0.0 or total[5] <= 0.0:
            continue
        base, first, second = total[1] / total[0], total[2] / total[3], total[4] / total[5]
        by = (1.0 / total[0], 1.0 / total[3], 1.0 / total[5])
        squares = 0.0
        for g in range(groups):
            share = (columns[g, 1] - base * columns[g, 0]) * by[0]
            share += (columns[g, 2] - first * columns[g, 3]) * by[1]
            share += (columns[g, 4] - second * columns[g, 5]) * by[2]
            squares += counts[g] * share * share
        deviations[s], errors[s] = base + first + second, np.sqrt(squares)


def poisson_law() -> tuple[FloatArray, IntArray]:
    """Return the distribution function of Poisson(1) at 0, 1, ..., and the least draw for each leading byte."""
    law = special.pdtr(np.arange(21), 1.0)
    law[-1] = 2.0
    return law, np.searchsorted(law, np.arange(256) / 256.0, side="right").astype(np.int64)


@jit
def poisson(bits: np.uint64, law: tuple[FloatArray, IntArray]) -> float:
    """Return a draw from Poisson(1), 20 at most, of 64 random bits: inversion from the leading byte's least on."""
    u, k = float(bits >> np.uint64(11)) * 2.0**-53, law[1][bits >> np.uint64(56)]
    while u >= law[0][k]:
        k += 1
    return float(k)
