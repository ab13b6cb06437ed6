"""Features brought to mean 0 and standard deviation 1, as far as they were seen."""

from typing import Annotated, NamedTuple

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.limits import COUNTS, NOT_NEGATIVE
from zoosim.core.types import BoolArray, FloatArray

FARTHEST = 4.0
"""Standard deviations beyond which a feature says no more."""

LEAST_SHARE = 1e-9
"""Least standard deviation of a feature, as a share of its mean: less is rounding."""


class FeatureScales(NamedTuple):
    """Mean and sum of squares around it of each of d features, `mean (d,)` and `squares (d,)`, of so many `rows (1,)`.

    `norm (1,)` is the mean square length of the standardised rows.
    """

    mean: FloatArray
    squares: Annotated[FloatArray, NOT_NEGATIVE]
    norm: Annotated[FloatArray, NOT_NEGATIVE]
    rows: Annotated[FloatArray, COUNTS]


def new_scales(dim: int) -> FeatureScales:
    """Return scales of rows that were never seen."""
    return FeatureScales(np.zeros(dim), np.zeros(dim), np.ones(1), np.zeros(1))


@jit
def clipped(score: float) -> float:
    """Return a standard score, brought next to the farthest that says something."""
    return min(max(score, -FARTHEST), FARTHEST)


@jit
def scale_of(scales: FeatureScales, i: int) -> float:
    """Return 1 / standard deviation of feature i, 0 where it does not vary."""
    deviation = np.sqrt(scales.squares[i] / max(scales.rows[0], 1.0))
    return 0.0 if deviation <= LEAST_SHARE * abs(scales.mean[i]) else float(1.0 / deviation)


@jit
def _scored(scales: FeatureScales, row: FloatArray, binary: BoolArray, out: FloatArray) -> float:
    """Write a row, standardised where it is not binary, to `out (d,)`; return its square length."""
    length = 0.0
    for i in range(row.shape[0]):
        out[i] = row[i] if binary[i] else clipped(scale_of(scales, i) * (row[i] - scales.mean[i]))
        length += out[i] ** 2
    return length


@jit
def see_row(scales: FeatureScales, row: FloatArray, binary: BoolArray) -> None:
    """Take in a row `(d,)` (Welford 1962); columns that are `binary (d,)` are not scaled."""
    scales.rows[0] += 1.0
    count = scales.rows[0]
    for i in range(row.shape[0]):
        difference = row[i] - scales.mean[i]
        scales.mean[i] += difference / count
        scales.squares[i] += difference * (row[i] - scales.mean[i])
    length = _scored(scales, row, binary, np.empty(row.shape[0]))
    # The 1 that `norm` starts at counts as one row, so that a first row of zeros leaves no division by 0.
    scales.norm[0] += (length - scales.norm[0]) / (count + 1.0)


@jit
def length_factor(scales: FeatureScales) -> float:
    """Return what standardised rows are multiplied by so that their mean square length is 1."""
    return float(1.0 / np.sqrt(max(scales.norm[0], 1e-12)))


@jit
def unit_row(scales: FeatureScales, row: FloatArray, binary: BoolArray) -> FloatArray:
    """Return [1, row] `(1 + d,)`, the row standardised and of mean square length 1."""
    out = np.empty(1 + row.shape[0])
    out[0] = 1.0
    _scored(scales, row, binary, out[1:])
    factor = length_factor(scales)
    for i in range(row.shape[0]):
        out[1 + i] *= factor
    return out
