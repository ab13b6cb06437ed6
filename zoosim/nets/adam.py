"""Adam (Kingma & Ba 2015), with moments of .9 and .999 and an epsilon of 1e-8."""

import numpy as np

from zoosim.core.jit import jit

LARGEST_ERROR = 1e10
"""The size at which an error's slope stops growing, as in Huber (1964): far beyond any reward, far below overflow."""

LARGEST_SLOPE = 1e18
"""The largest slope of a weight that is taken in: the square of a larger one is beyond float32."""


@jit
def adam_step(trained: np.ndarray, gradient: np.ndarray, rate: float, step: int) -> None:
    """Move weights against a gradient, which is set to 0.

    Args:
        trained: Weights, and their first and second moments `(3, p)`.
        gradient: Slopes of a loss in the weights `(p,)`.
        rate: The step size.
        step: The number of this step: 1, 2, ...
    """
    params = trained[0]
    first = trained[1]
    second = trained[2]
    number = params.dtype.type
    # Corrections of both moments for their start at 0, put into the step size and the root.
    size = number(rate / (1.0 - 0.9**step))
    root = number(1.0 / np.sqrt(1.0 - 0.999**step))
    largest = number(LARGEST_SLOPE)
    # In the type of the weights: one number of 64 bits would make the whole loop compute in 64.
    keep1 = number(0.9)
    keep2 = number(0.999)
    one = number(1.0)
    tiny = number(1e-8)
    for i in range(params.shape[0]):
        slope = max(min(gradient[i], largest), -largest)
        gradient[i] = 0.0
        first[i] = keep1 * first[i] + (one - keep1) * slope
        second[i] = keep2 * second[i] + (one - keep2) * slope * slope
        params[i] -= size * first[i] / (np.sqrt(second[i]) * root + tiny)
