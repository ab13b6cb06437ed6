"""Small products that compiled loops spend their time in. Sums run in a fixed order, so results repeat bit for bit."""

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.types import FloatArray, IntArray


@jit
def add_product(x: np.ndarray, matrix: np.ndarray, out: np.ndarray) -> None:
    """Add x' M to `out (n,)`: x `(m,)`, `matrix (m, n)`. Takes four rows at once and skips them where x is 0."""
    rows, columns, i = x.shape[0], out.shape[0], 0
    while i < rows - 3:
        a, b, c, d = x[i], x[i + 1], x[i + 2], x[i + 3]
        if a != 0.0 or b != 0.0 or c != 0.0 or d != 0.0:
            for j in range(columns):
                out[j] += (a * matrix[i, j] + b * matrix[i + 1, j]) + (c * matrix[i + 2, j] + d * matrix[i + 3, j])
        i += 4
    while i < rows:
        if x[i] != 0.0:
            for j in range(columns):
                out[j] += x[i] * matrix[i, j]
        i += 1


@jit
def dot(x: np.ndarray, y: np.ndarray) -> float:
    """Return x' y of two vectors `(n,)`, in four interleaved sums."""
    size, i = x.shape[0], 0
    a = b = c = d = x.dtype.type(0.0)
    while i < size - 3:
        a += x[i] * y[i]
        b += x[i + 1] * y[i + 1]
        c += x[i + 2] * y[i + 2]
        d += x[i + 3] * y[i + 3]
        i += 4
    while i < size:
        a += x[i] * y[i]
        i += 1
    total: float = (a + b) + (c + d)
    return total


@jit
def nonzeros(x: FloatArray) -> IntArray:
    """Return the indices `(m,)` where x `(d,)` is not 0."""
    out, count = np.empty(x.shape[0], np.int64), 0
    for i in range(x.shape[0]):
        if x[i] != 0.0:
            out[count] = i
            count += 1
    return out[:count]
