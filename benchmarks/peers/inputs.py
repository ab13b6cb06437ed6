"""What the libraries are given of a request, and of a policy's generator."""

import numpy as np

from zoosim import Context
from zoosim.core.types import FloatArray

MOST_SEED = 2**31 - 1


def visitor_row(context: Context) -> FloatArray:
    """Return the visitor's features and a constant, `(1, d_u + 1)`."""
    return np.append(context.user, 1.0)[np.newaxis]


def draw_seed(rng: np.random.Generator) -> int:
    """Draw a seed for a library's own generator."""
    return int(rng.integers(MOST_SEED))
