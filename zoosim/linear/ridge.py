"""Ridge posteriors: one truth for every linear policy.

For each of n models, A = gram + lambda I with gram = sum w x x', b = sum w r x, theta = A^-1 b (Li, Chu, Langford &
Schapire 2010, algorithm 1). The inverse follows each observation by Sherman & Morrison (1950) in O(d^2) and is rebuilt
from the sums by Cholesky every `period = max(64, d)` observations of its model, so rounding cannot build up and an
update stays O(d^2) amortised. Forgetting (D-LinUCB, Russac, Vernade & Cappe 2019) happens at the rebuild: there the
sums are multiplied by discount^period while lambda is not, so the weights are a staircase, exact at every step.
"""

from typing import NamedTuple

import numpy as np

from zoosim.core.jit import inlined, jit
from zoosim.core.types import FloatArray, IntArray
from zoosim.linear import exact
from zoosim.linear.condition import HARD, NUMBER, WORST
from zoosim.linear.dense import add_product, dot
from zoosim.linear.exact import Pairs

MIN_PERIOD = 64

STEP, INFLATION = 1e7, 1e6
"""Where double precision ends: the factor by which one observation changes the determinant of A, and the largest
variance inflation factor. Both leave 8 digits or more."""


class Ridge(NamedTuple):
    """The sums and the posterior of n ridge models of d features.

    `gram (n, d, d)`, `inverse (n, d, d)` of A, `b (n, d)`, `theta (n, d)`, `age (n,)` observations since the last
    rebuild; `condition (n + 1, 2)` of each model, 1 where it is kept in pairs, and the largest condition number met,
    and at the end the largest of all models; `low (n, 2 d + 1, d)` the lower halves of gram, inverse and b of pairs;
    `regularization` lambda > 0; `discount` in (0, 1] per observation.
    """

    gram: FloatArray
    inverse: FloatArray
    b: FloatArray
    theta: FloatArray
    age: IntArray
    condition: FloatArray
    low: FloatArray
    regularization: float
    discount: float


def new_ridge(n: int, dim: int, regularization: float = 1.0, discount: float = 1.0) -> Ridge:
    """Return `n` models of `dim` features that have seen nothing."""
    inverse = np.zeros((n, dim, dim))
    inverse[:, np.arange(dim), np.arange(dim)] = 1.0 / regularization
    matrices, vectors = (n, dim, dim), (n, dim)
    return Ridge(
        gram=np.zeros(matrices),
        inverse=inverse,
        b=np.zeros(vectors),
        theta=np.zeros(vectors),
        age=np.zeros(n, np.int64),
        condition=np.zeros((n + 1, 2)),
        low=np.zeros((n, 2 * dim + 1, dim)),
        regularization=regularization,
        discount=discount,
    )


@inlined
def observe(ridge: Ridge, model: int, x: FloatArray, nonzero: IntArray, reward: float) -> None:
    """Add the observation (x, reward) to `model`: x `(d,)`, `nonzero` the indices where it is not 0."""
    change(ridge, model, x, nonzero, reward, 1.0)


@jit
def change(ridge: Ridge, model: int, x: FloatArray, nonzero: IntArray, reward: float, sign: float) -> None:
    """Add an observation to `model`, or with a `sign` of -1 subtract it.

    A model in which one observation changes too much for double precision is hard from then on.
    """
    was_hard = ridge.condition[model, HARD] > 0.0
    followed = not was_hard and follow(ridge.inverse[model], ridge.theta[model], x, reward, sign)
    if followed:
        accumulate(ridge.gram[model], ridge.b[model], x, nonzero, reward, sign)
    else:
        followed = _change_hard(ridge, model, x, nonzero, reward, sign) and was_hard
    ridge.age[model] += 1
    due = ridge.age[model] >= max(MIN_PERIOD, x.shape[0])
    if due:
        _forget(ridge, model)
    if due or not followed:
        solve(ridge, model)


@jit
def _change_hard(ridge: Ridge, model: int, x: FloatArray, nonzero: IntArray, reward: float, sign: float) -> bool:
    """Change the pairs of a model, which is hard from now on; tell whether its inverse could follow."""
    ridge.condition[model, HARD] = ridge.condition[-1, HARD] = 1.0
    pairs = pairs_of(ridge, model)
    exact.add(pairs, x, nonzero, reward, sign)
    return exact.follow(pairs, x, nonzero, sign) and exact.plausible(pairs)


@jit
def pairs_of(ridge: Ridge, model: int) -> Pairs:
    """Return a hard model's own arrays."""
    low, dim = ridge.low[model], ridge.b.shape[1]
    return Pairs(
        ridge.gram[model],
        low[:dim],
        ridge.inverse[model],
        low[dim : 2 * dim],
        ridge.b[model],
        low[2 * dim],
        ridge.theta[model],
        ridge.regularization,
    )


@jit
def variance(ridge: Ridge, model: int, x: FloatArray, nonzero: IntArray) -> float:
    """Return x' A^-1 x, in units of the noise's variance."""
    if ridge.condition[model, HARD]:
        dim = x.shape[0]
        return exact.quadratic(ridge.inverse[model], ridge.low[model, dim : 2 * dim], x, nonzero)
    return quadratic(ridge.inverse[model], x, nonzero)


@jit
def add(ridge: Ridge, model: int, x: FloatArray, nonzero: IntArray, reward: float) -> None:
    """Add an observation to the sums of `model` alone."""
    if ridge.condition[model, HARD]:
        exact.add(pairs_of(ridge, model), x, nonzero, reward, 1.0)
    else:
        accumulate(ridge.gram[model], ridge.b[model], x, nonzero, reward, 1.0)


@jit
def add_sums(ridge: Ridge, model: int, x: FloatArray, nonzero: IntArray, weight: float, total: float) -> None:
    """Add observations of x `(d,)` to the sums of a model that was cleared: their weight, and its sum with rewards."""
    accumulate(ridge.gram[model], ridge.b[model], x, nonzero, total / weight, weight)


@jit
def accumulate(gram: FloatArray, b: FloatArray, x: FloatArray, nonzero: IntArray, reward: float, sign: float) -> None:
    """Add sign x x' to `gram (d, d)` and sign reward x to `b (d,)`."""
    dim = x.shape[0]
    dense = 4 * nonzero.shape[0] > dim
    for i in nonzero:
        xi = sign * x[i]
        b[i] += reward * xi
        if dense:
            for j in range(dim):
                gram[i, j] += xi * x[j]
        else:
            for j in nonzero:
                gram[i, j] += xi * x[j]


@jit
def follow(inverse: FloatArray, theta: FloatArray, x: FloatArray, reward: float, sign: float) -> bool:
    """Follow A <- A + sign x x' and b <- b + sign reward x in the inverse `(d, d)` and in theta `(d,)`.

    False when A changes so much that digits would be lost: nothing is done then, and the model is to be solved anew.
    """
    dim = x.shape[0]
    v = np.zeros(dim)
    add_product(x, inverse, v)
    spread, error = 1.0 + sign * dot(x, v), reward - dot(x, theta)
    if not 1.0 / STEP < spread < STEP:
        return False
    for i in range(dim):
        if v[i] != 0.0:
            scale = sign * v[i] / spread
            theta[i] += scale * error
            for j in range(dim):
                inverse[i, j] -= scale * v[j]
    return True


@jit
def clear(ridge: Ridge, model: int) -> None:
    """Let `model` forget all it has seen."""
    ridge.gram[model] = 0.0
    ridge.inverse[model] = 0.0
    for i in range(ridge.b.shape[1]):
        ridge.inverse[model, i, i] = 1.0 / ridge.regularization
    ridge.b[model] = 0.0
    ridge.theta[model] = 0.0
    ridge.age[model] = 0
    if ridge.condition[model, HARD]:
        ridge.low[model] = 0.0
        ridge.condition[model, HARD] = 0.0


@jit
def rebuild(ridge: Ridge, model: int) -> None:
    """Forget by discount^age, then compute inverse and theta of `model` from its sums."""
    _forget(ridge, model)
    solve(ridge, model)


@jit
def _forget(ridge: Ridge, model: int) -> None:
    if ridge.discount < 1.0:
        keep = ridge.discount ** ridge.age[model]
        if ridge.condition[model, HARD]:
            exact.fade(pairs_of(ridge, model), keep)
        else:
            ridge.gram[model] *= keep
            ridge.b[model] *= keep
    ridge.age[model] = 0


@jit
def fade(ridge: Ridge, first: int, learning: int, models: int, visit: int) -> None:
    """Let models `first` to first + `models` - 1 fade by the visits to all of them, one of which is `learning` now.

    Each is rebuilt once in a period of visits, in turn, seen or not; the one that is learning gets its age in visits,
    so that its own observation rebuilds it when its turn is now. Call before `observe`; `visit` counts from 1.
    """
    period = max(MIN_PERIOD, ridge.b.shape[1])
    ridge.age[first + learning] = (visit - 1 - learning) % period
    for n in range(visit % period, models, period):
        if n != learning and _seen(ridge.gram[first + n]):
            ridge.age[first + n] = period
            rebuild(ridge, first + n)


@jit
def _seen(gram: FloatArray) -> bool:
    i = 0
    while i < gram.shape[0] and gram[i, i] <= 0.0:
        i += 1
    return bool(i < gram.shape[0])


@jit
def solve(ridge: Ridge, model: int) -> None:
    """Compute inverse and theta of `model` from its sums."""
    gram, inverse, b, theta = ridge.gram[model], ridge.inverse[model], ridge.b[model], ridge.theta[model]
    dim = b.shape[0]
    a = gram.copy()
    for i in range(dim):
        a[i, i] += ridge.regularization
    invert(a, inverse, ridge.regularization)
    if _inflation(ridge, model) > INFLATION:
        ridge.condition[model, HARD] = ridge.condition[-1, HARD] = 1.0
    if ridge.condition[model, HARD]:
        exact.solve(pairs_of(ridge, model))
        return
    for i in range(dim):
        theta[i] = 0.0
        for j in range(dim):
            theta[i] += inverse[i, j] * b[j]


@jit
def _inflation(ridge: Ridge, model: int) -> float:
    """Return the largest variance inflation factor A_ii (A^-1)_ii, which no scale of a feature changes.

    Note the condition number |A| |A^-1| in the 1-norm, which is what the scales make of it. An inverse that double
    precision does not hold has the worst of both.
    """
    gram, inverse = ridge.gram[model], ridge.inverse[model]
    inflation, size, inverse_size, held = 0.0, 0.0, 0.0, True
    for i in range(gram.shape[0]):
        inflation = max(inflation, (gram[i, i] + ridge.regularization) * inverse[i, i])
        row, inverse_row = ridge.regularization, 0.0
        for j in range(gram.shape[0]):
            row += abs(gram[i, j])
            inverse_row += abs(inverse[i, j])
        size, inverse_size = max(size, row), max(inverse_size, inverse_row)
        held = held and inverse_row < WORST  # which NaN is not
    number = min(size * inverse_size, WORST) if held else WORST
    ridge.condition[model, NUMBER] = max(ridge.condition[model, NUMBER], number)
    ridge.condition[-1, NUMBER] = max(ridge.condition[-1, NUMBER], number)
    return inflation if held else WORST


@jit
def invert(a: FloatArray, out: FloatArray, least: float = 0.0) -> None:
    """Write the inverse of the symmetric positive definite `a (d, d)` to `out`, by Cholesky of its upper triangle.

    What stands in `a` is destroyed. No eigenvalue is below `least`, so that no pivot is: where rounding has it so, it
    is raised.

    Loops run along rows and add in a fixed order, so the bits do not depend on threads or on a library.
    """
    dim = a.shape[0]
    for k in range(dim):
        a[k, k] = np.sqrt(max(a[k, k], least))
        for j in range(k + 1, dim):
            a[k, j] /= a[k, k]
        for i in range(k + 1, dim):
            if a[k, i] != 0.0:
                for j in range(i, dim):
                    a[i, j] -= a[k, i] * a[k, j]
    _solve_identity(a, out)


@jit
def _solve_identity(upper: FloatArray, out: FloatArray) -> None:
    """Solve U'U X = I row by row, all right-hand sides at once."""
    dim = upper.shape[0]
    out[:] = 0.0
    for i in range(dim):
        out[i, i] = 1.0
    for k in range(dim):
        for j in range(k + 1):
            out[k, j] /= upper[k, k]
        for i in range(k + 1, dim):
            if upper[k, i] != 0.0:
                for j in range(k + 1):
                    out[i, j] -= upper[k, i] * out[k, j]
    for k in range(dim - 1, -1, -1):
        for i in range(k + 1, dim):
            if upper[k, i] != 0.0:
                for j in range(dim):
                    out[k, j] -= upper[k, i] * out[i, j]
        for j in range(dim):
            out[k, j] /= upper[k, k]


@jit
def quadratic(matrix: FloatArray, x: FloatArray, nonzero: IntArray) -> float:
    """Return x' M x of the symmetric `matrix (d, d)`, over the non-zero entries of x."""
    total = 0.0
    for n in range(nonzero.shape[0]):
        i = nonzero[n]
        row = 0.0
        for m in range(n):
            row += x[nonzero[m]] * matrix[i, nonzero[m]]
        total += x[i] * (x[i] * matrix[i, i] + 2.0 * row)
    return max(total, 0.0)
