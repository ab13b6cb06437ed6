"""Are a model's uncertainties honest? Standardised errors, coverage, and what mends them: pure functions of arrays.

z = (r - mean) / std should look like N(0, 1). std(z) above 1 says that std is too small: overconfidence. Whatever is
fitted here is fitted on held-out rows, and judged on others.

An ensemble's spread is about the mean reward. For single rewards, which scatter around it, there are conformal limits
(Vovk, Gammerman & Shafer 2005): their coverage is what was promised whatever the model is like.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from zoosim.core.checks import check_array, check_number, written_shape
from zoosim.core.errors import ConfigError, DataError
from zoosim.core.parameters import shown
from zoosim.core.types import FloatArray

FLOORS = (0.0, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0)
"""Floors that are tried, in units of the root mean square of std."""


GROWTHS = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0)
"""Powers of the distance from the data that are tried."""


class Recalibration(NamedTuple):
    """std becomes `scale` sqrt(std^2 + `floor`^2) distance^`growth`, the distance from the data being 1 on average."""

    scale: float
    floor: float
    growth: float

    def apply(self, std: FloatArray, distance: FloatArray | None = None) -> FloatArray:
        """Return the recalibrated std `(n,)` of rows at a `distance (n,)`; without, all are as far as the data are."""
        checked = _at_least_0("std", std, None)
        far = None if distance is None else _above_0("distance", distance, len(checked))
        mended: FloatArray = self.scale * _widened(checked, far, self.floor, self.growth)
        return mended


def z_scores(rewards: FloatArray, mean: FloatArray, std: FloatArray) -> FloatArray:
    """Return standardised errors (r - mean) / std.

    Args:
        rewards: What came, `(n,)`.
        mean: What was predicted, `(n,)`.
        std: Its standard deviation, `(n,)`, above 0.

    Raises:
        DataError: an array is of another shape, or not finite.
        ConfigError: a standard deviation is 0 or less.
    """
    r = check_array("rewards", rewards, (None,))
    m = check_array("mean", mean, (len(r),))
    s = _above_0("std", std, len(r), "; one network alone has no spread")
    z: FloatArray = (r - m) / s
    return z


def normal_interval(mean: FloatArray, std: FloatArray, level: float = 0.95) -> tuple[FloatArray, FloatArray]:
    """Return the ends `(n,)` of the central intervals of N(mean, std^2) at a `level`, of n means and stds."""
    middle = check_array("mean", mean, (None,))
    half = _half_width(level) * _at_least_0("std", std, len(middle))
    return middle - half, middle + half


def coverage(rewards: FloatArray, low: FloatArray, high: FloatArray) -> float:
    """Return the share of `rewards (n,)` in [low, high], ends `(n,)` or the same for all, which may be infinite.

    Raises `DataError` for NaN and other shapes, and for an end below that should lie above.
    """
    r = check_array("rewards", rewards, (None,))
    ends = [_scores(name, end, len(r)) for name, end in (("low", low), ("high", high))]
    crossed = ends[0] > ends[1]
    if crossed.any():
        row = int(crossed.argmax())
        raise DataError(f"low: got {ends[0][row]:g} in row {row}, expected at most high = {ends[1][row]:g}")
    return float(np.mean((r >= ends[0]) & (r <= ends[1])))


def reliability_curve(z: FloatArray, levels: Sequence[float]) -> FloatArray:
    """Return which share of `z (n,)` the central interval of N(0, 1) at each level covers, `(len(levels),)`."""
    size = np.abs(check_array("z", z, (None,)))
    return np.array([np.mean(size <= _half_width(level)) for level in levels])


def fit_recalibration(
    rewards: FloatArray, mean: FloatArray, std: FloatArray, distance: FloatArray | None = None
) -> Recalibration:
    """Fit on held-out rows: floor and growth of the highest normal likelihood, and the scale that makes std(z) 1.

    Few members often agree by chance; the floor keeps std from believing that. And they agree too much far from the
    data, where all extrapolate alike; `distance (n,)`, above 0, such as `QEnsembleRegressor.distance`, makes up for it.
    """
    z_scores(rewards, mean, std)
    errors = np.subtract(rewards, mean, dtype=float)
    spread = np.asarray(std, float)
    far = None if distance is None else _above_0("distance", distance, len(errors))
    growths = (0.0,) if far is None else GROWTHS
    unit = float(np.sqrt(np.mean(np.square(spread))))
    found = [_scaled(errors, spread, far, floor * unit, growth) for floor in FLOORS for growth in growths]
    return min(found, key=lambda pair: pair[0])[1]


def _scaled(
    errors: FloatArray, std: FloatArray, distance: FloatArray | None, floor: float, growth: float
) -> tuple[float, Recalibration]:
    """Return the negative log likelihood of a floor and a growth with their best scale, and all three."""
    wide = _widened(std, distance, floor, growth)
    scale = float((errors / wide).std())
    if scale == 0.0:
        raise ConfigError("rewards: got errors that are all the same, expected at least two that differ")
    return float(np.mean(np.log(scale * wide))), Recalibration(scale, floor, growth)


def _widened(std: FloatArray, distance: FloatArray | None, floor: float, growth: float) -> FloatArray:
    wide: FloatArray = np.sqrt(np.square(std) + floor**2)
    return wide if distance is None else wide * distance**growth


def adaptive_beta(rewards: FloatArray, mean: FloatArray, std: FloatArray, target: float = 0.95) -> float:
    """Return the smallest beta of at least 0 with which mean + beta std bounds a share `target` of held-out rewards.

    Recomputed as data comes in, it takes the place of a schedule: bounds of a UCB policy then hold as often as asked.
    """
    return max(0.0, conformal_quantile(z_scores(rewards, mean, std), target))


def conformal_quantile(scores: FloatArray, level: float) -> float:
    """Return the ceil((n + 1) level)-th smallest of `scores (n,)`, infinity where there are too few, or none.

    A new exchangeable row has a score of at most that with probability `level` or more (Vovk et al. 2005). Raises
    `DataError` for NaN, which would count as a high score, and other shapes, `ConfigError` for another level.
    """
    check_number("level", level, 0.0, 1.0)
    ordered = np.sort(_scores("scores", scores))
    place = int(np.ceil((len(ordered) + 1) * level - 1e-9))
    return float(ordered[max(place, 1) - 1]) if place <= len(ordered) else np.inf


class Threshold(NamedTuple):
    """A conformal limit on scores: below it a row is covered; at it, with probability `share`.

    Where many rewards are equal, as zeros are, coverage jumps past the level at one limit; `share` makes it exact.
    """

    limit: float
    share: float


def conformal_threshold(scores: FloatArray, level: float) -> Threshold:
    """Return the limit of `conformal_quantile`, and the share of ties at it that makes the coverage exact."""
    limit = conformal_quantile(scores, level)
    count = (len(scores) + 1) * level
    ties = np.sum(scores == limit) + 1
    return Threshold(limit, float(np.clip((count - np.sum(scores < limit)) / ties, 0.0, 1.0)))


def _half_width(level: float) -> float:
    if not isinstance(level, int | float | np.floating) or not 0 < level < 1:
        raise ConfigError(f"level: got {shown(level)}, expected a number above 0 and below 1")
    return float(special.ndtri(0.5 + 0.5 * level))


def _above_0(label: str, value: Any, n: int, advice: str = "") -> FloatArray:
    numbers = check_array(label, value, (n,))
    if numbers.min() <= 0:
        raise ConfigError(f"{label}: got {numbers.min():g}, expected numbers above 0{advice}")
    return numbers


def _at_least_0(label: str, value: Any, n: int | None) -> FloatArray:
    numbers = check_array(label, value, (n,))
    if numbers.min() < 0:
        raise ConfigError(f"{label}: got {numbers.min():g}, expected numbers of at least 0")
    return numbers


def _scores(label: str, value: Any, n: int | None = None) -> FloatArray:
    """Return numbers `(n,)`, one for all where `n` is given, infinity among them maybe; raises `DataError`."""
    try:
        numbers = np.asarray(value, float)
    except (TypeError, ValueError, OverflowError):
        raise DataError(f"{label}: got {shown(value)}, expected an array of numbers") from None
    if n is not None and numbers.size == 1 and numbers.ndim < 2:
        numbers = np.broadcast_to(numbers.reshape(-1), (n,))
    if numbers.ndim != 1 or (n is not None and len(numbers) != n):
        came = written_shape(np.shape(value))
        raise DataError(f"{label}: got an array of shape {came}, expected {written_shape((n,))}")
    if np.isnan(numbers).any():
        raise DataError(f"{label}: got nan in row {int(np.isnan(numbers).argmax())}, expected numbers")
    return numbers
