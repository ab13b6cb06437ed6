"""Kernel weights: let logged boosts stand for those of a policy that draws nothing.

`actions (n, d)` were logged with `densities (n,)` above 0 on the box `[low, high]^d`; the target policy would take
`targets (n, d)`. A kernel of width `bandwidth` lets actions near the target stand for it (Kallus & Zhou 2018): with
these weights `ips`, `self_normalised_ips` and `doubly_robust` of `zoosim.off_policy.estimators.single` estimate the
reward of the target blurred by the kernel. A bias of order bandwidth^2 remains, and the variance grows as bandwidth^-d.
"""

import numpy as np

from zoosim.core.errors import ConfigError, DataError
from zoosim.core.types import FloatArray
from zoosim.off_policy.estimators.terms import check_arrays


def kernel_weights(
    actions: FloatArray, densities: FloatArray, targets: FloatArray, bandwidth: float, low: float, high: float
) -> FloatArray:
    """Return K((a - t) / h) / (h^d density) `(n,)`, Epanechnikov's kernel a coordinate (Kallus & Zhou 2018).

    Each coordinate's kernel is divided by its mass within the box, so that none is lost at the edges.
    """
    check_arrays(actions=actions, targets=targets)
    check_arrays(densities=densities, actions=actions[:, 0])
    if not (bandwidth > 0.0 and np.isfinite(bandwidth)):
        raise ConfigError(f"bandwidth: got {bandwidth!r}, expected a finite number above 0")
    if densities.min() <= 0.0:
        raise DataError(f"densities: got {densities.min():g} in row {int(densities.argmin())}, expected above 0")
    for name, points in (("actions", actions), ("targets", targets)):
        outside = (points < low).any(axis=1) | (points > high).any(axis=1)
        if outside.any():
            raise DataError(f"{name}: row {int(outside.argmax())} is outside the box {low:g} to {high:g}")
    shape = 0.75 * (1.0 - np.clip((actions - targets) / bandwidth, -1.0, 1.0) ** 2)
    inside = _mass((low - targets) / bandwidth, (high - targets) / bandwidth)
    weights: FloatArray = (shape / (bandwidth * inside)).prod(axis=1) / densities
    return weights


def _mass(start: FloatArray, stop: FloatArray) -> FloatArray:
    """Return the mass of Epanechnikov's kernel from `start` to `stop`, to full precision however near these are."""
    a = np.clip(start, -1.0, 1.0)
    b = np.clip(stop, -1.0, 1.0)
    # The integral of .75 (1 - u^2), with b^3 - a^3 = (b - a)(a^2 + a b + b^2): as a product nothing cancels.
    return np.asarray((b - a) * (0.75 - 0.25 * (a**2 + a * b + b**2)))
