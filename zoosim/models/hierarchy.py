"""Coefficients of each product, drawn around what its features predict: posterior, variances and draws.

Product k has coefficients b_k = M z_k + a_k `(q,)` for the visitor's features x `(q,)`, the first of which is 1: what
the product's features z_k `(r,)` predict, and a deviation of its own. The entries of M and of a_k are normal around 0,
and blocks of them, such as country x category, share a variance that is estimated from the data (empirical Bayes;
Gelman & Hill 2007, chapter 13). Data come in as sums of each product, of a normal likelihood or of the quadratic
approximation to another one: precision A_k `(q, q)` and weighted target r_k `(q,)`, log L being r_k' b - b' A_k b / 2.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy import linalg

from zoosim.core.arrays import with_ones
from zoosim.core.threads import map_in_threads
from zoosim.core.types import FloatArray, IntArray
from zoosim.models.many_products import fill_pairs, finish, marginalise

INTERCEPT_VARIANCE = 100.0
"""Prior variance of the overall level: next to no prior."""

LEAST_VARIANCE, MOST_VARIANCE = 1e-5, 25.0
START_VARIANCE = 0.1
PART_BYTES = 64_000_000
"""Memory for the pairs of features of the products that are worked on at once."""
MANY_PRODUCTS = 1_000
"""With more products, most have few rows, and low-rank forms of what these say are several times faster. With fewer
the plain ones are fast enough, and published figures rest on their last digits."""

PIECES = 8
"""Parts of many products that are summed by themselves, whatever the number of threads."""

PRODUCTS_AT_ONCE = 256
"""So few that what is made of them stays in a cache."""

UPDATES = 25
SETTLED = 0.01
"""Relative change of all variances at which they are settled."""


class Design(NamedTuple):
    """Features of the products `z (K, r)`, the first column 1, and the blocks of coefficients that share a variance.

    `visitor_block (q,)` and `product_block (r,)` number the blocks of both kinds of features from 0, the 1s alone.
    """

    products: FloatArray
    visitor_block: IntArray
    product_block: IntArray

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of M, `(q, r)`."""
        return len(self.visitor_block), len(self.product_block)


def make_design(products: FloatArray, visitor_blocks: IntArray, product_blocks: IntArray) -> Design:
    """Return the design of features without the 1s: `products (K, r - 1)`, and blocks that are numbered anyhow."""
    blocks = [
        np.append(0, 1 + np.unique(numbers, return_inverse=True)[1]).astype(np.int64)
        for numbers in (visitor_blocks, product_blocks)
    ]
    return Design(with_ones(products), *blocks)


class Variances(NamedTuple):
    """Variances of the entries of M by block `shared (U, V)`, and of the deviations by visitor block `own (U,)`."""

    shared: FloatArray
    own: FloatArray

    def of_entries(self, design: Design) -> FloatArray:
        """Return the variance of each entry of M `(q, r)`."""
        variances = self.shared[np.ix_(design.visitor_block, design.product_block)]
        variances[0, 0] = INTERCEPT_VARIANCE
        return variances

    def of_deviations(self, design: Design) -> FloatArray:
        """Return the variance of each entry of a_k `(q,)`."""
        return self.own[design.visitor_block]


class Sums(NamedTuple):
    """The data's sums for each product: precisions `(K, q, q)` and weighted targets `(K, q)`."""

    precision: FloatArray
    target: FloatArray


class Posterior(NamedTuple):
    """The posterior of all coefficients: means of M `(q, r)` and of b `(K, q)`, and the covariance of each b_k.

    `freedom` counts the coefficients of each block that the data determine, as `Variances` hold them: how well a
    variance is known.
    """

    shared: FloatArray
    mean: FloatArray
    covariance: FloatArray
    variances: Variances
    freedom: Variances


class _Solution(NamedTuple):
    """The posterior at some variances: mean and covariance of M, flattened, and inverses `(K, q, q)` of A_k + P."""

    shared: FloatArray
    factor: FloatArray
    inverse: FloatArray


def start_variances(design: Design) -> Variances:
    """Return variances to start from."""
    n_visitor, n_product = int(design.visitor_block.max()) + 1, int(design.product_block.max()) + 1
    return Variances(np.full((n_visitor, n_product), START_VARIANCE), np.full(n_visitor, START_VARIANCE))


def fit_hierarchy(design: Design, sums: Sums, start: Variances, updates: int = UPDATES) -> Posterior:
    """Return the posterior at the variances that the data favour (MacKay 1992, fixed-point updates)."""
    variances = start
    for _ in range(updates):
        posterior = posterior_at(design, sums, variances, with_covariance=False)
        updated = _updated(design, posterior)
        change = max(float(np.abs(np.log(a / b)).max()) for a, b in zip(updated, variances, strict=True))
        variances = updated
        if change < SETTLED:
            break
    return posterior_at(design, sums, variances)


def posterior_at(design: Design, sums: Sums, variances: Variances, *, with_covariance: bool = True) -> Posterior:
    """Return the posterior of all coefficients where the variances are known.

    Without covariance those of the products' coefficients are left out, `(0, q, q)`, which saves time.
    """
    if len(design.products) > MANY_PRODUCTS:
        return _posterior_of_many(design, sums, variances, with_covariance=with_covariance)
    q, r = design.shape
    solution = _solve(design, sums, variances)
    covariance = _inverse(solution.factor)
    shared = solution.shared.reshape(q, r)
    predicted = design.products @ shared.T
    precisions = 1.0 / variances.of_deviations(design)
    mean = np.einsum("kij,kj->ki", solution.inverse, sums.target + precisions * predicted)
    of_predicted = _covariance_of_predicted(design, covariance)
    of_product = np.empty((0, q, q))
    if with_covariance:
        gain = solution.inverse * precisions
        of_product = solution.inverse + gain @ of_predicted @ gain.transpose(0, 2, 1)
    spread = solution.inverse @ sums.precision
    of_deviation = solution.inverse + spread @ of_predicted @ spread.transpose(0, 2, 1)
    known_own = (1.0 - np.diagonal(of_deviation, axis1=1, axis2=2) / variances.of_deviations(design)).sum(axis=0)
    freedom = _freedom(design, variances, covariance, known_own)
    return Posterior(shared, mean, of_product, variances, freedom)


def _solve(design: Design, sums: Sums, variances: Variances) -> _Solution:
    """Solve for M with the deviations summed out, so that only a matrix of M's size is factored."""
    q, r = design.shape
    precisions = 1.0 / variances.of_deviations(design)
    inverse = np.linalg.inv(sums.precision + np.diag(precisions))
    marginal = sums.precision @ inverse * precisions  # (A^-1 + P^-1)^-1 of each product, for A singular, too
    upper = np.triu_indices(q)
    of_pairs = np.zeros((len(upper[0]), r * (r + 1) // 2))
    for part in _parts(design):
        of_pairs += marginal[part][:, *upper].T @ _pairs(design.products[part])
    target = precisions * np.einsum("kij,kj->ki", inverse, sums.target)
    factor, shared = _solve_shared(design, of_pairs, target.T @ design.products, variances)
    return _Solution(shared, factor, np.asarray(inverse, np.float64))


def _solve_shared(
    design: Design, of_pairs: FloatArray, target: FloatArray, variances: Variances
) -> tuple[FloatArray, FloatArray]:
    """Return the Cholesky factor of the precision of M, flattened, and its mean `(q r,)`.

    `of_pairs` are the precisions of pairs of visitors' features, summed with pairs of products' features as weights,
    `target (q, r)` the weighted targets likewise.
    """
    q, r = design.shape
    whole = of_pairs[_places(q)][:, :, _places(r)]
    precision = whole.transpose(0, 2, 1, 3).reshape(q * r, q * r)
    precision[np.diag_indices(q * r)] += 1.0 / variances.of_entries(design).ravel()
    factor = linalg.cholesky(precision, lower=True, check_finite=False)
    return factor, linalg.cho_solve((factor, True), target.ravel(), check_finite=False)


def _posterior_of_many(design: Design, sums: Sums, variances: Variances, *, with_covariance: bool) -> Posterior:
    """Do what `posterior_at` does for many products: part by part, by low-rank forms of what their rows say."""
    q, r = design.shape
    n_products = len(design.products)
    prior = variances.of_deviations(design)
    whitened, ranks = np.empty((n_products, q, q)), np.empty(n_products, np.int64)

    def sum_up(piece: IntArray) -> tuple[FloatArray, FloatArray]:
        of_pairs, target = np.zeros((q * (q + 1) // 2, r * (r + 1) // 2)), np.zeros((q, r))
        for part in _small_parts(piece):
            z = design.products[part]
            marginal, of_product = np.empty((len(z), len(of_pairs))), np.empty((len(z), q))
            parts = (sums.precision[part], sums.target[part], prior, whitened[part], ranks[part])
            marginalise(*parts, marginal, of_product)
            of_pairs += marginal.T @ _filled_pairs(z)
            target += of_product.T @ z
        return of_pairs, target

    pieces = np.array_split(np.arange(n_products), PIECES)
    of_pieces = map_in_threads(sum_up, pieces)
    of_pairs = sum((of_piece for of_piece, _ in of_pieces[1:]), start=of_pieces[0][0])
    target = sum((of_piece for _, of_piece in of_pieces[1:]), start=of_pieces[0][1])
    factor, flat = _solve_shared(design, of_pairs, target, variances)
    shared = flat.reshape(q, r)
    covariance = _inverse(factor)
    by_pairs = _by_pairs(design, covariance)
    mean = design.products @ shared.T
    of_products = np.empty((n_products, q, q) if with_covariance else (0, q, q))

    def complete(piece: IntArray) -> FloatArray:
        known = np.zeros(q)
        for part in _small_parts(piece):
            of_predicted = _filled_pairs(design.products[part]) @ by_pairs.T
            parts = (sums.precision[part], sums.target[part], prior, whitened[part], ranks[part])
            finish(*parts, of_predicted, mean[part], known, of_products[part] if with_covariance else of_products)
        return known

    known_own = np.sum(map_in_threads(complete, pieces), axis=0)
    return Posterior(shared, mean, of_products, variances, _freedom(design, variances, covariance, known_own))


def _small_parts(piece: IntArray) -> Iterator[slice]:
    """Yield a piece of the products in parts of `PRODUCTS_AT_ONCE` at most."""
    for start in range(int(piece[0]), int(piece[-1]) + 1, PRODUCTS_AT_ONCE):
        yield slice(start, min(start + PRODUCTS_AT_ONCE, int(piece[-1]) + 1))


def _filled_pairs(products: FloatArray) -> FloatArray:
    """Return what `_pairs` does, faster where there are few products."""
    r = products.shape[1]
    pairs = np.empty((len(products), r * (r + 1) // 2))
    fill_pairs(products, pairs)
    return pairs


def _covariance_of_predicted(design: Design, covariance: FloatArray) -> FloatArray:
    """Return the covariance of M z_k for each product `(K, q, q)`."""
    by_pairs = _by_pairs(design, covariance)
    of_products = np.vstack([_pairs(design.products[part]) @ by_pairs.T for part in _parts(design)])
    return np.asarray(of_products[:, _places(design.shape[0])])


def _by_pairs(design: Design, covariance: FloatArray) -> FloatArray:
    """Return the covariance of M as weights of pairs of products' features, for each pair of visitors' features."""
    q, r = design.shape
    upper = np.triu_indices(r)
    by_pairs = covariance.reshape(q, r, q, r).transpose(0, 2, 1, 3)[np.triu_indices(q)]
    by_pairs = (by_pairs + by_pairs.transpose(0, 2, 1))[:, *upper]
    by_pairs[:, upper[0] == upper[1]] /= 2.0  # a feature with itself was added twice
    return np.asarray(by_pairs)


def _parts(design: Design) -> Iterator[slice]:
    """Yield products in parts whose pairs of features take `PART_BYTES` at most."""
    size = max(1, PART_BYTES // (8 * design.shape[1] ** 2))
    for start in range(0, len(design.products), size):
        yield slice(start, start + size)


def _pairs(products: FloatArray) -> FloatArray:
    """Return the products of each two features of `products (m, r)`: `(m, r (r + 1) / 2)`."""
    first, second = np.triu_indices(products.shape[1])
    return products[:, first] * products[:, second]


def _places(size: int) -> IntArray:
    """Return where the elements of a symmetric matrix stand among those of its upper half `(size, size)`."""
    places = np.zeros((size, size), np.int64)
    places[np.triu_indices(size)] = np.arange(size * (size + 1) // 2)
    return np.maximum(places, places.T)


def _inverse(factor: FloatArray) -> FloatArray:
    """Return the inverse of a matrix by its lower Cholesky factor."""
    lower = np.tril(linalg.lapack.dpotri(factor, lower=1)[0])
    return np.asarray(lower + np.tril(lower, -1).T)


def _freedom(design: Design, variances: Variances, covariance: FloatArray, known_own: FloatArray) -> Variances:
    """Count the coefficients that the data determine: of each, 1 less posterior over prior variance.

    `known_own (q,)` are the counts of the deviations.
    """
    known_shared = 1.0 - np.diag(covariance).reshape(design.shape) / variances.of_entries(design)
    shared, own = _by_block(design, known_shared, known_own)
    return Variances(np.maximum(shared, 1e-3), np.maximum(own, 1e-3))


def _by_block(design: Design, shared: FloatArray, own: FloatArray) -> Variances:
    """Add up values of the entries of M `(q, r)`, all but the overall level, and of deviations `(q,)`, by block."""
    n_visitor, n_product = int(design.visitor_block.max()) + 1, int(design.product_block.max()) + 1
    shared = shared.copy()
    shared[0, 0] = 0.0
    block = np.add.outer(design.visitor_block * n_product, design.product_block)
    of_shared = np.bincount(block.ravel(), shared.ravel(), n_visitor * n_product).astype(np.float64)
    of_own = np.bincount(design.visitor_block, own, n_visitor).astype(np.float64)
    return Variances(of_shared.reshape(n_visitor, n_product), of_own)


def _updated(design: Design, posterior: Posterior) -> Variances:
    """Return the variances that the posterior implies: squares over the number of determined coefficients."""
    deviations = posterior.mean - design.products @ posterior.shared.T
    squares = _by_block(design, posterior.shared**2, (deviations**2).sum(axis=0))
    ratios = (squared / free for squared, free in zip(squares, posterior.freedom, strict=True))
    return Variances(*(np.clip(ratio, LEAST_VARIANCE, MOST_VARIANCE) for ratio in ratios))


def draw_coefficients(
    design: Design, sums: Sums, posterior: Posterior, draws: int, *, rng: np.random.Generator
) -> FloatArray:
    """Draw all coefficients from their posterior `(draws, K, q)`, the variances being uncertain, too."""
    q, r = design.shape
    out = np.empty((draws, len(design.products), q))
    for number in range(draws):
        variances = _draw_variances(posterior, rng)
        solution = _solve(design, sums, variances)
        # The precision of M is L L', so L'^-1 z has its inverse as covariance.
        noise = linalg.solve_triangular(solution.factor.T, rng.normal(size=q * r), check_finite=False)
        shared = (solution.shared + noise).reshape(q, r)
        precisions = 1.0 / variances.of_deviations(design)
        targets = sums.target + precisions * (design.products @ shared.T)
        roots = np.linalg.cholesky(solution.inverse)
        mean = np.einsum("kij,kj->ki", solution.inverse, targets)
        out[number] = mean + np.einsum("kij,kj->ki", roots, rng.normal(size=(len(design.products), q)))
    return out


def draw_at_variances(
    design: Design, sums: Sums, posterior: Posterior, draws: int, *, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Draw M `(draws, q, r)` and all coefficients `(draws, K, q)` as if the variances were known.

    Far cheaper than `draw_coefficients`: one system is solved for all draws.
    """
    q, r = design.shape
    solution = _solve(design, sums, posterior.variances)
    roots = np.linalg.cholesky(solution.inverse)
    precisions = 1.0 / posterior.variances.of_deviations(design)
    shared = np.empty((draws, q, r))
    coefficients = np.empty((draws, len(design.products), q))
    for number in range(draws):
        noise = linalg.solve_triangular(solution.factor.T, rng.normal(size=q * r), check_finite=False)
        shared[number] = (solution.shared + noise).reshape(q, r)
        targets = sums.target + precisions * (design.products @ shared[number].T)
        own = rng.normal(size=(len(design.products), q))
        mean = np.einsum("kij,kj->ki", solution.inverse, targets)
        coefficients[number] = mean + np.einsum("kij,kj->ki", roots, own)
    return shared, coefficients


def _draw_variances(posterior: Posterior, rng: np.random.Generator) -> Variances:
    """Draw variances: estimated from m coefficients, one's logarithm has a variance of about 2 / m."""
    pairs = zip(posterior.variances, posterior.freedom, strict=True)
    drawn = (mean * np.exp(rng.normal(size=mean.shape) * np.sqrt(2.0 / np.maximum(m, 2.0))) for mean, m in pairs)
    return Variances(*(np.clip(variance, LEAST_VARIANCE, MOST_VARIANCE) for variance in drawn))
