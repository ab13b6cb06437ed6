"""Small products that compiled loops spend their time in. Sums run in a fixed order, so results repeat bit for bit."""

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.types import FloatArray, IntArray


@jit
def copy_vector(source: np.ndarray, target: np.ndarray) -> None:
    """Copy `source (n,)` to `target (n,)`; `target[:] = source` and `target[i] = row` would compile for 3 seconds."""
    for i in range(source.shape[0]):
        target[i] = source[i]


@jit
def copy_matrix(source: FloatArray, target: FloatArray) -> None:
    """Copy a matrix to another of the same size."""
    for i in range(source.shape[0]):
        for j in range(source.shape[1]):
            target[i, j] = source[i, j]


@jit
def scale_vector(vector: np.ndarray, factor: float) -> None:
    """Multiply `vector (n,)` by a factor, in place."""
    for i in range(vector.shape[0]):
        vector[i] *= factor


@jit
def joined(first: FloatArray, second: FloatArray) -> FloatArray:
    """Return [first, second] `(m + n,)`."""
    out = np.empty(first.shape[0] + second.shape[0])
    copy_vector(first, out[: first.shape[0]])
    copy_vector(second, out[first.shape[0] :])
    return out


@jit
def add_product(x: np.ndarray, matrix: np.ndarray, out: np.ndarray) -> None:
    """Add x' M to `out (n,)`: x `(m,)`, `matrix (m, n)`. Takes four rows at once and skips them where x is 0."""
    rows = x.shape[0]
    columns = out.shape[0]
    i = 0
    while i < rows - 3:
        a, b, c, d = x[i], x[i + 1], x[i + 2], x[i + 3]
        # Where x is one-hot, most rows of M are never read.
        if a != 0.0 or b != 0.0 or c != 0.0 or d != 0.0:
            for j in range(columns):
                # The brackets are those of `_add_four`: a row alone and four rows together get the same bits.
                out[j] += (a * matrix[i, j] + b * matrix[i + 1, j]) + (c * matrix[i + 2, j] + d * matrix[i + 3, j])
        i += 4
    while i < rows:
        if x[i] != 0.0:
            for j in range(columns):
                out[j] += x[i] * matrix[i, j]
        i += 1


@jit
def add_matrix(left: np.ndarray, matrix: np.ndarray, out: np.ndarray) -> None:
    """Add L M to `out (r, n)`: `left (r, m)`, `matrix (m, n)`. The sums of each row run as in `add_product`.

    It is fast where `matrix` and `out` are contiguous; columns of `matrix` beyond those of `out` are left out.
    """
    for i in range(0, left.shape[0], 4):
        if i + 4 <= left.shape[0]:
            _add_four(left[i : i + 4], matrix, out[i : i + 4])
        else:
            for j in range(i, left.shape[0]):
                add_product(left[j], matrix, out[j])


@jit
def _add_four(left: np.ndarray, matrix: np.ndarray, out: np.ndarray) -> None:
    """Do four rows of `add_matrix`, so that each row of M is read once for all of them."""
    inner = left.shape[1]
    columns = out.shape[1]
    i = 0
    # Written `i + 3 < inner` the loop takes 1.5 times as long at 64 x 64: the compiler optimises it less.
    while i < inner - 3:
        for j in range(columns):
            m0, m1, m2, m3 = matrix[i, j], matrix[i + 1, j], matrix[i + 2, j], matrix[i + 3, j]
            for row in range(4):
                # Two pairs, then their sum: the order of `add_product`, so that both give the same bits.
                first_pair = left[row, i] * m0 + left[row, i + 1] * m1
                second_pair = left[row, i + 2] * m2 + left[row, i + 3] * m3
                out[row, j] += first_pair + second_pair
        i += 4
    while i < inner:
        for k in range(4):
            for j in range(columns):
                out[k, j] += left[k, i] * matrix[i, j]
        i += 1


@jit
def dot(x: np.ndarray, y: np.ndarray) -> float:
    """Return x' y of two vectors `(n,)`, in four interleaved sums."""
    size = x.shape[0]
    i = 0
    # Four sums that do not wait for one another; how they are put together is part of the result, to the bit.
    # In the type of the vectors: a plain 0.0 would make sums of float32 float64.
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
    out = np.empty(x.shape[0], np.int64)
    count = 0
    for i in range(x.shape[0]):
        if x[i] != 0.0:
            out[count] = i
            count += 1
    return out[:count]


BLOCK = 64
"""Rows that `quadratic_forms` works on at once: with 64 columns they still fit into the fastest cache."""


@jit
def quadratic_forms(rows: FloatArray, matrix: FloatArray, out: FloatArray) -> None:
    """Write x' M x of each row x of `rows (n, m)` to `out (n,)`: `matrix (m, m)`, symmetric.

    Runs over blocks of rows that are turned into columns, so that the innermost loop is over rows, however few columns
    there are; it takes four columns at once, and adds them in the order in which it would take them alone.
    """
    count, dim = rows.shape
    columns = np.empty((dim, BLOCK))
    inner = np.empty(BLOCK)
    for start in range(0, count, BLOCK):
        size = min(BLOCK, count - start)
        for n in range(size):
            out[start + n] = 0.0
            for i in range(dim):
                columns[i, n] = rows[start + n, i]
        for i in range(dim):
            for n in range(size):
                # x' M x = sum over i of x_i (M_ii x_i + 2 sum of M_ij x_j over j < i).
                inner[n] = matrix[i, i] * columns[i, n]
            j = 0
            while j < i - 3:
                # Twice, for M_ij and M_ji.
                a, b, c, d = 2.0 * matrix[i, j], 2.0 * matrix[i, j + 1], 2.0 * matrix[i, j + 2], 2.0 * matrix[i, j + 3]
                for n in range(size):
                    first_two = inner[n] + a * columns[j, n] + b * columns[j + 1, n]
                    inner[n] = first_two + c * columns[j + 2, n] + d * columns[j + 3, n]
                j += 4
            while j < i:
                twice = 2.0 * matrix[i, j]
                for n in range(size):
                    inner[n] += twice * columns[j, n]
                j += 1
            for n in range(size):
                out[start + n] += inner[n] * columns[i, n]


SQUARINGS = 3
"""With 3, `bound_of_forms` is at most n^(1/16) times the least bound: 1.24 times for 32 columns."""

ALLOWED = 1.0 + 1e-6
"""What rounding may take from a bound, and more."""


@jit
def bound_of_forms(matrix: FloatArray) -> float:
    """Return a number that x' M x is at most, as `quadratic_forms` computes it, for every x of length 1.

    M `(m, m)` is read as symmetric, by its lower half. For its largest eigenvalue l, l^8 is one of M^8, which is at
    most the square root of the sum of all squared entries of M^8.
    """
    dim = matrix.shape[0]
    power = np.empty((dim, dim))
    largest = 0.0
    for i in range(dim):
        for j in range(i + 1):
            power[i, j] = power[j, i] = matrix[i, j]
            largest = max(largest, abs(matrix[i, j]))
    if largest == 0.0:
        return 0.0
    for i in range(dim):
        scale_vector(power[i], 1.0 / largest)
    for _ in range(SQUARINGS):
        square = np.zeros((dim, dim))
        add_matrix(power, power, square)
        power = square
    bound = 0.0
    for i in range(dim):
        bound += dot(power[i], power[i])
    for _ in range(1 + SQUARINGS):
        bound = np.sqrt(bound)
    return ALLOWED * largest * bound


@jit
def fill_square_lengths(columns: FloatArray, out: FloatArray) -> None:
    """Write the sum of squares of each column `(m, n)` to `out (n,)`."""
    for n in range(out.shape[0]):
        out[n] = 0.0
    for i in range(columns.shape[0]):
        for n in range(out.shape[0]):
            out[n] += columns[i, n] ** 2


@jit
def is_dense(rows: FloatArray) -> bool:
    """Return whether more than half of the numbers are not 0: then skipping zeros costs more than it saves."""
    filled = 0
    for n in range(rows.shape[0]):
        for i in range(rows.shape[1]):
            filled += rows[n, i] != 0.0
    return bool(2 * filled > rows.shape[0] * rows.shape[1])
