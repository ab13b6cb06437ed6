"""The studentised bootstrap over groups of rows: estimates on resampled logs, each with its own standard error."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import special

from zoosim.core.jit import jit
from zoosim.core.rng import mix, stream_key
from zoosim.core.threads import in_threads
from zoosim.core.types import FloatArray, IntArray
from zoosim.off_policy.intervals.clusters import ClusterSums, standard_error

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
            ratios = self.deviations / self.errors
        return np.where(np.isnan(ratios), 0.0, ratios)


def bootstrap(sums: ClusterSums, *, samples: int = SAMPLES, seed: int = 0) -> Bootstrap:
    """Resample groups with Poisson(1) counts (Hanley & MacGibbon 2006), drawn by (seed, sample, group).

    The same draws serve every estimate of a log, so differences are paired. Any number of threads gives the same bits.
    """
    return bootstraps([sums], samples=samples, seed=seed)[0]


def bootstraps(estimates: Sequence[ClusterSums], *, samples: int = SAMPLES, seed: int = 0) -> list[Bootstrap]:
    """Resample several estimates of the same groups at once, which saves drawing the counts again for each."""
    if not estimates:
        return []
    key = stream_key(seed, "bootstrap")
    columns = np.stack([_centred(sums) for sums in estimates])
    law = poisson_law()
    deviations = np.zeros((samples, len(estimates)))
    errors = np.zeros((samples, len(estimates)))
    bounds = np.linspace(0, samples, PIECES + 1).astype(int).tolist()

    def draw(piece: int) -> None:
        _bootstrap(key, columns, law, bounds[piece], bounds[piece + 1], deviations, errors)

    in_threads(draw, PIECES)
    for own_errors, sums in zip(errors.T, estimates, strict=True):
        own_errors[own_errors < ROUNDING * standard_error(sums)] = 0.0
    return [Bootstrap(deviations[:, e], errors[:, e]) for e in range(len(estimates))]


def _centred(sums: ClusterSums) -> FloatArray:
    """Return `(G, 6)`: sizes, and base, tops and bottoms so scaled and centred that the estimate itself comes to 0."""
    # Centred before resampling: a deviation is then a sum of small numbers, not a difference of large ones.
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
    """Fill in samples `start` to `stop - 1` of `(B, E)`, from `columns (E, G, 6)`."""
    counts = np.empty(columns.shape[1])
    for s in range(start, stop):
        row = mix(np.uint64(key ^ mix(np.uint64(s))))
        for g in range(counts.shape[0]):
            counts[g] = poisson(np.uint64(mix(np.uint64(row ^ np.uint64(g)))), law)
        for e in range(columns.shape[0]):
            deviations[s, e], errors[s, e] = _resampled(counts, columns[e])


@jit
def _resampled(counts: FloatArray, columns: FloatArray) -> tuple[float, float]:
    """Return a sample's deviation and standard error; 0 for an empty sample, or one without weight."""
    size = base = top = bottom = top2 = bottom2 = 0.0  # six sums of their own, so that none waits for another
    for g in range(counts.shape[0]):
        k = counts[g]
        x = columns[g]
        size += k * x[0]
        base += k * x[1]
        top += k * x[2]
        bottom += k * x[3]
        top2 += k * x[4]
        bottom2 += k * x[5]
    if size <= 0.0 or bottom <= 0.0 or bottom2 <= 0.0:
        return 0.0, 0.0
    mean = base / size
    ratio = top / bottom
    ratio2 = top2 / bottom2
    scale = 1.0 / size
    ratio_scale = 1.0 / bottom
    ratio2_scale = 1.0 / bottom2
    # As in `standard_error`, with counts as weights and without its factor of groups / (groups - 1).
    squares = 0.0
    for g in range(counts.shape[0]):
        x = columns[g]
        share = (x[1] - mean * x[0]) * scale
        share += (x[2] - ratio * x[3]) * ratio_scale
        share += (x[4] - ratio2 * x[5]) * ratio2_scale
        squares += counts[g] * share * share
    return mean + ratio + ratio2, np.sqrt(squares)


def poisson_law() -> tuple[FloatArray, IntArray]:
    """Return the distribution function of Poisson(1) at 0, 1, ..., and the least draw for each leading byte."""
    law = special.pdtr(np.arange(21), 1.0)
    # Above all draws, so that the search ends there.
    law[-1] = 2.0
    return law, np.searchsorted(law, np.arange(256) / 256.0, side="right").astype(np.int64)


@jit
def poisson(bits: np.uint64, law: tuple[FloatArray, IntArray]) -> float:
    """Return a draw from Poisson(1), 20 at most, of 64 random bits: inversion from the leading byte's least on."""
    u = float(bits >> np.uint64(11)) * 2.0**-53
    k = law[1][bits >> np.uint64(56)]
    while u >= law[0][k]:
        k += 1
    return float(k)
