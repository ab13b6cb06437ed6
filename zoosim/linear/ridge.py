"""Ridge posteriors: one truth for every linear policy.

For each of n models, A = gram + lambda I with gram = sum w x x', b = sum w r x, theta = A^-1 b (Li, Chu, Langford &
Schapire 2010, algorithm 1). The inverse follows each observation by Sherman & Morrison (1950) in O(d^2) and is rebuilt
from the sums by Cholesky every `period = max(64, d)` observations of its model, so rounding cannot build up and an
update stays O(d^2) amortised. Matrices of joint models with many features follow by terms that wait, see `rank_one`.
Forgetting (D-LinUCB, Russac, Vernade & Cappe 2019) happens at the rebuild: there the
sums are multiplied by discount^period while lambda is not, so the weights are a staircase, exact at every step.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from zoosim.core.jit import inlined, jit
from zoosim.core.types import FloatArray, IntArray
from zoosim.linear.cholesky import invert_lower_half
from zoosim.linear.dense import add_product, copy_matrix, dot, scale_vector
from zoosim.linear.rank_one import (
    LARGE,
    MOST_TERMS,
    add_term,
    add_terms_product,
    count_terms,
    drop_terms,
    holds_terms,
    mirror,
    settle_terms,
    terms_quadratic,
)

MIN_PERIOD = 64
STEP = 1e7
"""The factor by which one observation may change the determinant of A; by more, following it loses too many digits."""

SLACK = 1.001
"""Factor for rounding on a bound that holds in exact numbers."""


class Ridge(NamedTuple):
    """The sums and the posterior of n ridge models of d features.

    `gram (n, d + m, d)`, `inverse (n, d + m, d)` of A, with m rows for terms that wait, most often 0 (see `rank_one`);
    `b (n, d)`, `theta (n, d)`, `age (n,)` observations since the last rebuild; `condition (n + 1,)` the largest
    condition number that a solution of each model met, and last the largest of all; `regularization` lambda > 0;
    `discount` in (0, 1] per observation.
    """

    gram: FloatArray
    inverse: FloatArray
    b: FloatArray
    theta: FloatArray
    age: IntArray
    condition: FloatArray
    regularization: float
    discount: float

    def flaws(self) -> Iterator[str]:
        """Yield what does not fit together."""
        for name in ("gram", "inverse"):
            matrices = getattr(self, name)
            # The last row counts the terms that wait by numbers other than 0; there is always room for one more.
            if holds_terms(matrices) and matrices[:, -1, MOST_TERMS - 1 :].any():
                yield f"{name} holds more terms that wait than the {MOST_TERMS - 1} that there is room for"


def new_ridge(n: int, dim: int, regularization: float = 1.0, discount: float = 1.0, more_rows: int = 0) -> Ridge:
    """Return `n` models of `dim` features that have seen nothing, with `more_rows` for terms that wait."""
    matrices = (n, dim + more_rows, dim)
    vectors = (n, dim)
    inverse = np.zeros(matrices)
    inverse[:, np.arange(dim), np.arange(dim)] = 1.0 / regularization
    return Ridge(
        gram=np.zeros(matrices),
        inverse=inverse,
        b=np.zeros(vectors),
        theta=np.zeros(vectors),
        age=np.zeros(n, np.int64),
        condition=np.zeros(n + 1),
        regularization=regularization,
        discount=discount,
    )


def grown_ridge(ridge: Ridge, n: int) -> Ridge:
    """Return the same models with room for more: the new ones, up to `n` in all, have seen nothing."""
    _, rows, dim = ridge.gram.shape
    larger = new_ridge(n, dim, ridge.regularization, ridge.discount, rows - dim)
    # The first five are arrays over models; `condition` has one entry more, the largest of all, which must stay last.
    for old, new in zip(ridge[:5], larger[:5], strict=True):
        new[: len(old)] = old
    larger.condition[: len(ridge.age)] = ridge.condition[:-1]
    larger.condition[-1] = ridge.condition[-1]
    return larger


@jit
def copy_models(source: Ridge, target: Ridge, count: int) -> None:
    """Copy the first `count` models to others of the same number and size."""
    for model in range(count):
        copy_matrix(source.gram[model], target.gram[model])
        copy_matrix(source.inverse[model], target.inverse[model])
        for i in range(source.b.shape[1]):
            target.b[model, i] = source.b[model, i]
            target.theta[model, i] = source.theta[model, i]
        target.age[model] = source.age[model]
        target.condition[model] = source.condition[model]
    target.condition[-1] = source.condition[-1]


@jit
def observe(ridge: Ridge, model: int, x: FloatArray, nonzero: IntArray, reward: float) -> None:
    """Add the observation (x, reward) to `model`: x `(d,)`, `nonzero` the indices where it is not 0.

    Where the inverse cannot follow, or goes astray by it, the model is solved anew.
    """
    # The sums take in the observation whether the inverse could follow or not: `solve` then reads it from them.
    followed = follow(ridge.inverse[model], ridge.theta[model], x, reward)
    accumulate(ridge.gram[model], ridge.b[model], x, nonzero, reward, 1.0)
    ridge.age[model] += 1
    due = ridge.age[model] >= period_of(ridge)
    # Sums are faded right before a rebuild only, so that inverse and sums always agree.
    if due:
        _forget(ridge, model)
    if due or not followed or _is_astray(ridge, model):
        solve(ridge, model)


@inlined
def variance(ridge: Ridge, model: int, x: FloatArray, nonzero: IntArray) -> float:
    """Return x' A^-1 x, in units of the noise's variance."""
    square = quadratic(ridge.inverse[model], x, nonzero)
    if holds_terms(ridge.inverse):
        # Terms of an inverse have factors below 0: a difference of numbers that are nearly equal may end below 0.
        square = max(square + terms_quadratic(ridge.inverse[model], x), 0.0)
    return square


@jit
def add_sums(ridge: Ridge, model: int, x: FloatArray, nonzero: IntArray, weight: float, total: float) -> None:
    """Add observations of x `(d,)` to the sums of a model that was cleared: their weight, and its sum with rewards."""
    accumulate(ridge.gram[model], ridge.b[model], x, nonzero, total / weight, weight)


@jit
def accumulate(gram: FloatArray, b: FloatArray, x: FloatArray, nonzero: IntArray, reward: float, weight: float) -> None:
    """Add weight x x' to `gram (d, d)` and weight reward x to `b (d,)`."""
    dim = x.shape[0]
    waits = holds_terms(gram)
    # Both ways add the same numbers, since zeros of x add 0; loops over whole rows are contiguous and vectorise.
    dense = 4 * nonzero.shape[0] > dim
    if waits:
        add_term(gram, weight, x)
    for i in nonzero:
        # b never waits: theta is computed from it whenever a model is solved, and adding to it costs next to nothing.
        xi = weight * x[i]
        b[i] += reward * xi
        if waits:
            continue
        if dense:
            for j in range(dim):
                gram[i, j] += xi * x[j]
        else:
            for j in nonzero:
                gram[i, j] += xi * x[j]


@jit
def follow(inverse: FloatArray, theta: FloatArray, x: FloatArray, reward: float) -> bool:
    """Follow A <- A + x x' and b <- b + reward x in the inverse `(d, d)` and in theta `(d,)`.

    False when A changes so much that digits would be lost: nothing is done then, and the model is to be solved anew.
    """
    dim = x.shape[0]
    # v = A^-1 x, from rows in place of columns, since A^-1 is symmetric: the loops run along memory.
    v = np.zeros(dim)
    add_product(x, inverse, v)
    if holds_terms(inverse):
        add_terms_product(inverse, x, v)
    leverage = dot(x, v)
    # det(A + x x') = (1 + x' A^-1 x) det A (matrix determinant lemma), so this is the factor that `STEP` bounds.
    spread = 1.0 + leverage
    # `not <` in place of `>=`: NaN ends here, too.
    if leverage < 0.0 or not spread < STEP:
        return False
    # (A + x x')^-1 = A^-1 - v v' / (1 + x'v), and with it theta moves by v (reward - x'theta) / (1 + x'v).
    error = reward - dot(x, theta)
    waits = holds_terms(inverse)
    if waits:
        add_term(inverse, -1.0 / spread, v)
        if count_terms(inverse) == 0:  # it filled the room, and was settled left of the diagonal alone
            mirror(inverse)
    for i in range(dim):
        if v[i] != 0.0:
            scale = v[i] / spread
            theta[i] += scale * error
            if not waits:
                for j in range(dim):
                    inverse[i, j] -= scale * v[j]
    return True


@jit
def clear(ridge: Ridge, model: int) -> None:
    """Make `model` forget all it has seen."""
    _, rows, dim = ridge.gram.shape
    for i in range(rows):
        for j in range(dim):
            ridge.gram[model, i, j] = 0.0
            ridge.inverse[model, i, j] = 0.0
    for i in range(dim):
        ridge.inverse[model, i, i] = 1.0 / ridge.regularization
        ridge.b[model, i] = 0.0
        ridge.theta[model, i] = 0.0
    ridge.age[model] = 0


@jit
def rebuild(ridge: Ridge, model: int) -> None:
    """Forget by discount^age, then compute inverse and theta of `model` from its sums."""
    _forget(ridge, model)
    solve(ridge, model)


@jit
def _forget(ridge: Ridge, model: int) -> None:
    if ridge.discount < 1.0:
        if holds_terms(ridge.gram):
            # The factors of terms that wait stand in a row below the
            # matrix, which the loop over its rows does not reach.
            settle_terms(ridge.gram[model])
        keep = ridge.discount ** ridge.age[model]
        for i in range(ridge.b.shape[1]):
            scale_vector(ridge.gram[model, i], keep)
        scale_vector(ridge.b[model], keep)
    ridge.age[model] = 0


@jit
def fade(ridge: Ridge, first: int, learning: int, models: int, visit: int) -> None:
    """Fade models `first` to first + `models` - 1 by the visits to all of them, one of which is `learning` now.

    Each is rebuilt once in a period of visits, in turn, seen or not; the one that is learning gets its age in visits,
    so that its own observation rebuilds it when its turn is now. Call before `observe`; `visit` counts from 1.
    """
    period = period_of(ridge)
    # Where it is its turn, visit and `learning` are equal modulo the
    # period: the age is period - 1, and `observe` adds 1.
    ridge.age[first + learning] = (visit - 1 - learning) % period
    for n in range(visit % period, models, period):
        if n != learning:
            _take_turn(ridge, first + n, period)


@jit
def fade_by_turns(ridge: Ridge, first: int, learning: int, turns: IntArray, visit: int) -> None:
    """Fade models as `fade` does, each at turns of its own: `turns (models,)`, from 0 to `period_of(ridge)` - 1."""
    period = period_of(ridge)
    ridge.age[first + learning] = (visit - 1 - turns[learning]) % period
    now = visit % period
    for n in range(turns.shape[0]):
        if turns[n] == now and n != learning:
            _take_turn(ridge, first + n, period)


@jit
def period_of(ridge: Ridge) -> int:
    """Return after how many observations a model is rebuilt from its sums."""
    return max(MIN_PERIOD, int(ridge.b.shape[1]))


@jit
def _take_turn(ridge: Ridge, model: int, period: int) -> None:
    """Fade a model that has seen anything by a whole period."""
    # Sums of 0 stay 0 when they fade, so nothing of a model that has seen nothing would change.
    if _seen(ridge.gram[model]):
        ridge.age[model] = period
        rebuild(ridge, model)


@jit
def _seen(gram: FloatArray) -> bool:
    i = 0
    dim = gram.shape[1]
    while i < dim and gram[i, i] <= 0.0:
        i += 1
    return bool(i < dim or (holds_terms(gram) and count_terms(gram) > 0))


@jit
def solve(ridge: Ridge, model: int) -> None:
    """Compute inverse and theta of `model` from its sums, by Cholesky."""
    gram, inverse, b, theta = ridge.gram[model], ridge.inverse[model], ridge.b[model], ridge.theta[model]
    dim = b.shape[0]
    if holds_terms(gram):
        settle_terms(gram)
        mirror(gram)
        # The inverse is written anew from the sums, which hold all that its terms stood for.
        drop_terms(inverse)
        gram = gram[:dim]
        inverse = inverse[:dim]
    _invert_regularized(gram, ridge.regularization, inverse)
    _note_condition(ridge, model)
    if not _is_plausible(inverse, ridge.regularization):
        _raise_regularization(gram, ridge.regularization, inverse)
    for i in range(dim):
        theta[i] = 0.0
        for j in range(dim):
            theta[i] += inverse[i, j] * b[j]


@jit
def _invert_regularized(gram: FloatArray, regularization: float, out: FloatArray) -> None:
    """Write (gram + `regularization` I)^-1 to `out (d, d)`."""
    a = gram.copy()
    for i in range(a.shape[0]):
        a[i, i] += regularization
    invert(a, out, regularization)


@jit
def _raise_regularization(gram: FloatArray, regularization: float, out: FloatArray) -> None:
    """Write (gram + mu I)^-1 to `out (d, d)`, with the first mu > lambda of a few that gives a plausible inverse.

    A gram that is ill-conditioned, or from which a larger one was subtracted, may hold nothing but rounding errors.
    The last mu makes any gram diagonally dominant.
    """
    largest = 0.0
    for i in range(gram.shape[0]):
        for j in range(gram.shape[0]):
            largest = max(largest, abs(gram[i, j]))
    # Rounding errors of a sum of products are about 1e-16 times its largest entries: levels begin right above that.
    for level in (1e-15, 1e-10, 1e-5, 1.0):
        _invert_regularized(gram, regularization + 2.0 * level * gram.shape[0] * largest, out)
        if _is_plausible(out, regularization):
            break


@jit
def _is_plausible(inverse: FloatArray, regularization: float) -> bool:
    """Return whether no entry of A^-1 exceeds 1 / lambda and none of its diagonal is negative, as in exact numbers."""
    # A >= lambda I, so A^-1 <= I / lambda; no entry of a positive
    # semidefinite matrix exceeds the largest of its diagonal.
    most = SLACK / regularization
    for i in range(inverse.shape[0]):
        if inverse[i, i] < 0.0:
            return False
        for j in range(inverse.shape[0]):
            if not -most <= inverse[i, j] <= most:  # NaN is not plausible either
                return False
    return True


@jit
def _is_astray(ridge: Ridge, model: int) -> bool:
    """Return whether rounding errors show in O(d): by a variance outside [0, 1 / lambda], or |theta| > |b| / lambda."""
    inverse = ridge.inverse[model]
    theta = ridge.theta[model]
    b = ridge.b[model]
    most = SLACK / ridge.regularization
    # In exact numbers |theta_i| <= |theta|_2 <= |b|_2 / lambda <= |b|_1 / lambda.
    most_theta = 0.0
    for i in range(b.shape[0]):
        most_theta += most * abs(b[i])
    sound = True
    for i in range(b.shape[0]):
        sound = sound and 0.0 <= inverse[i, i] <= most and abs(theta[i]) <= most_theta
    return not sound


@jit
def _note_condition(ridge: Ridge, model: int) -> None:
    """Note the condition number |A| |A^-1| in the 1-norm; rounding errors count as d / lambda, the most it can be."""
    gram = ridge.gram[model]
    inverse = ridge.inverse[model]
    dim = ridge.b.shape[1]
    # The 1-norm is the largest sum of a column, which in a symmetric matrix is that of a row.
    size = 0.0
    inverse_size = 0.0
    most = dim / ridge.regularization
    for i in range(dim):
        # The diagonal of a gram is not below 0, so |gram_ii + lambda| = |gram_ii| + lambda.
        row = ridge.regularization
        inverse_row = 0.0
        for j in range(dim):
            row += abs(gram[i, j])
            inverse_row += abs(inverse[i, j])
        size = max(size, row)
        inverse_size = max(inverse_size, inverse_row if inverse_row < most else most)
    number = size * inverse_size
    ridge.condition[model] = max(ridge.condition[model], number)
    ridge.condition[-1] = max(ridge.condition[-1], number)


@jit
def invert(a: FloatArray, out: FloatArray, least: float = 0.0) -> None:
    """Write the inverse of the symmetric positive definite `a (d, d)` to `out`, by Cholesky of its upper triangle.

    What stands in `a` is destroyed. No eigenvalue is below `least`, so that no pivot is: where rounding has it so, it
    is raised.

    Loops run along rows and add in a fixed order, so the bits do not depend on threads or on a library.
    """
    dim = a.shape[0]
    if dim >= LARGE:
        invert_lower_half(a, least, out)
        return
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
    # Forwards U'Y = I, whose Y is lower triangular: columns up to k alone.
    for k in range(dim):
        for j in range(k + 1):
            out[k, j] /= upper[k, k]
        for i in range(k + 1, dim):
            if upper[k, i] != 0.0:
                for j in range(k + 1):
                    out[i, j] -= upper[k, i] * out[k, j]
    # Backwards U X = Y.
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
        # Entries left of the diagonal stand for those right of it, too: half of the matrix is read.
        row = 0.0
        for m in range(n):
            row += x[nonzero[m]] * matrix[i, nonzero[m]]
        total += x[i] * (x[i] * matrix[i, i] + 2.0 * row)
    return max(total, 0.0)
