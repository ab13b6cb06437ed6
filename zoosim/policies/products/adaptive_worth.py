"""What candidates of `Adaptive` are worth, by the chance that they pay and by how much they pay then."""

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.types import FloatArray, IntArray
from zoosim.policies.products.adaptive_parts import LEAST_WEIGHT
from zoosim.policies.products.adaptive_sizes import (
    GAIN,
    LOSS,
    RAW,
    SIGN,
    RewardSizeModels,
    goes_by_logarithms,
    size_of,
)
from zoosim.policies.products.adaptive_state import AdaptiveState

FARTHEST_LOGIT = 12.0


@jit
def fill_worth(
    state: AdaptiveState,
    mean: FloatArray,
    cells: FloatArray,
    groups: IntArray,
    weight: float,
    from_log: FloatArray,
    log_weight: float,
    values: FloatArray,
) -> None:
    """Write what candidates are worth to `values (K,)`: logits, or rewards where these have several sizes.

    `mean (1 + MODELS, K)` holds logits of rewards and scores of sizes by effects, `cells (R,)` logits by categories,
    of which `groups (K,)` is that of each candidate.
    """
    for k in range(values.shape[0]):
        values[k] = min(max(mean[0, k], -FARTHEST_LOGIT), FARTHEST_LOGIT)
        if weight > LEAST_WEIGHT:
            values[k] = weight * cells[groups[k]] + (1.0 - weight) * values[k]
    if state.sizes.several[0]:
        sizes = np.empty(values.shape[0])
        fill_sizes(state.sizes, mean, sizes)
        for k in range(values.shape[0]):
            values[k] = sizes[k] / (1.0 + np.exp(-values[k]))
    elif state.sizes.first[0] < 0.0:
        for k in range(values.shape[0]):
            values[k] = -values[k]
    if log_weight > 0.0:
        for k in range(values.shape[0]):
            values[k] += log_weight * (from_log[k] - values[k])


@jit
def fill_sizes(sizes: RewardSizeModels, scores: FloatArray, out: FloatArray) -> None:
    """Write what candidates earn if they earn something to `out (K,)`, by `scores (1 + MODELS, K)` of sizes."""
    for k in range(out.shape[0]):
        if not goes_by_logarithms(sizes):
            out[k] = size_of(sizes, RAW, scores[1 + RAW, k])
        else:
            out[k] = size_of(sizes, GAIN, scores[1 + GAIN, k])
            if sizes.negative[0]:
                positive = 1.0 / (1.0 + np.exp(-scores[1 + SIGN, k]))
                out[k] = positive * out[k] - (1.0 - positive) * size_of(sizes, LOSS, scores[1 + LOSS, k])


@jit
def logit_of(chance: float) -> float:
    """Return the logit of a chance, at most about 14 in size."""
    return float(np.log(max(chance, 1e-6) / max(1.0 - chance, 1e-6)))
