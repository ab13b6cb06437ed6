"""Coefficients of each product, drawn around what its features predict: posterior, variances and draws.

Product k has coefficients b_k = M z_k + a_k `(q,)` for the visitor's features x `(q,)`, the first of which is 1: what
the product's features z_k `(r,)` predict, and a deviation of its own. The entries of M and of a_k are normal around 0,
and blocks of them, such as country x category, share a variance that is estimated from the data (empirical Bayes;
Gelman & Hill 2007, chapter 13). Data come in as sums of each product, of a normal likelihood or of the quadratic
approximation to another one: precision A_k `(q, q)` and weighted target r_k `(q,)`, log L being r_k' b - b' A_k b / 2.
"""

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from scipy import linalg

from zoosim.core.arrays import with_ones
from zoosim.core.threads import map_in_threads
from zoosim.core.types import FloatArray, IntArray

INTERCEPT_VARIANCE = 100.0
"""Prior variance of the overall level: next to no prior."""

LEAST_VARIANCE, MOST_VARIANCE = 1e-5, 25.0
START_VARIANCE = 0.1
PRODUCTS_AT_ONCE = 256
"""Products whose pairs of features are in memory at once; of four times as many, threads share the work."""

PIECES = 8
"""Sums over products are made of so many, whatever the number of threads, so that these change no bits."""

UPDATES = 25
SETTLED = 0.01
"""Relative change of all variances at which they are settled."""


Item = TypeVar("Item")
Result = TypeVar("Result")


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


class PrecisionBlock(NamedTuple):
    """Precisions A that the data give some `products (B,)`, as `matrices (B, q, q)` or as fewer rows of each.

    With m < q rows `matrices (B, m, q)` are F with A = F' F: then all costs what the rows tell, not q^3.
    """

    products: IntArray
    matrices: FloatArray

    @property
    def is_whole(self) -> bool:
        """True if the matrices are the precisions themselves."""
        return bool(self.matrices.shape[1] == self.matrices.shape[2])

    def summed_out(self, variances: FloatArray) -> "_Deviations":
        """Return what is known of deviations whose prior variances are `variances (q,)`."""
        f = self.matrices
        if self.is_whole:
            # G = (A^-1 + D)^-1 = A (A + D^-1)^-1 D^-1.
            inverse = np.asarray(np.linalg.inv(f + np.diag(1.0 / variances)), np.float64)
            return _Deviations(self.products, variances, f, f @ inverse / variances, inverse)  # for A singular, too
        inner = np.eye(f.shape[1]) + (f * variances) @ f.transpose(0, 2, 1)
        return _Deviations(self.products, variances, f, np.asarray(np.linalg.solve(inner, f), np.float64), None)


class _Deviations(NamedTuple):
    """Precisions and covariances of some `products (B,)`, whose deviations have prior variances D, `prior (q,)`.

    Of whole precisions A there are `right`, G = (A^-1 + D)^-1, and `inverse`, (A + D^-1)^-1. Of `rows` F there is
    `right`, (1 + F D F')^-1 F, and the others follow (Woodbury 1950).
    """

    products: IntArray
    prior: FloatArray
    rows: FloatArray
    right: FloatArray
    inverse: FloatArray | None

    @property
    def marginal(self) -> FloatArray:
        """The precision of coefficients around what is predicted, G `(B, q, q)`."""
        return self.right if self.inverse is not None else np.asarray(self.rows.transpose(0, 2, 1) @ self.right)

    @property
    def covariance(self) -> FloatArray:
        """The covariance of coefficients, what is predicted being true, (A + D^-1)^-1 `(B, q, q)`."""
        if self.inverse is not None:
            return self.inverse
        return np.asarray(np.diag(self.prior) - (self.rows * self.prior).transpose(0, 2, 1) @ (self.right * self.prior))

    def times(self, vectors: FloatArray) -> FloatArray:
        """Return the covariance times `vectors (B, q)`."""
        if self.inverse is not None:
            return np.asarray((self.inverse @ vectors[:, :, None])[:, :, 0])
        scaled = self.prior * vectors
        told = self.rows.transpose(0, 2, 1) @ (self.right @ scaled[:, :, None])
        return np.asarray(scaled - self.prior * told[:, :, 0])

    def covariance_around(self, of_predicted: FloatArray) -> FloatArray:
        """Return the covariances of coefficients where those of what is predicted are S, `of_predicted (B, q, q)`."""
        if self.inverse is not None:
            gain = self.inverse / self.prior
            return np.asarray(self.inverse + gain @ of_predicted @ gain.transpose(0, 2, 1))
        # With G = F' R: D - D G D + (1 - D G) S (1 - G D), in products of few rows alone.
        scaled = self.rows * self.prior
        along = self.right @ of_predicted
        half = 0.5 * self.right * self.prior + along - 0.5 * (along @ self.right.transpose(0, 2, 1)) @ scaled
        told = scaled.transpose(0, 2, 1) @ half
        return np.asarray(np.diag(self.prior) + of_predicted - told - told.transpose(0, 2, 1))

    def determined(self, of_predicted: FloatArray) -> FloatArray:
        """Return by how much the data determine deviations, added up `(q,)`: of each 1 less posterior over prior.

        That is D (G - G S G), S being the covariances of what is predicted, `of_predicted (B, q, q)`.
        """
        along = self.right @ of_predicted
        if self.inverse is not None:
            known = np.einsum("kii->i", self.right) - np.einsum("kij,kji->i", along, self.right)
        else:
            along = along @ self.rows.transpose(0, 2, 1)
            known = np.einsum("kai,kai->i", self.rows, self.right - along @ self.right)
        return np.asarray(self.prior * known)


class ProductSums(NamedTuple):
    """The data's sums for each product: precisions in `parts`, each product being in one, and `target (K, q)`."""

    parts: tuple[PrecisionBlock, ...]
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
    """The posterior at some variances: of M the mean, flattened, and its precision's Cholesky factor; of deviations."""

    shared: FloatArray
    factor: FloatArray
    deviations: list[_Deviations]


def start_variances(design: Design) -> Variances:
    """Return variances to start from."""
    n_visitor = int(design.visitor_block.max()) + 1
    n_product = int(design.product_block.max()) + 1
    return Variances(np.full((n_visitor, n_product), START_VARIANCE), np.full(n_visitor, START_VARIANCE))


def fit_hierarchy(design: Design, sums: ProductSums, start: Variances, updates: int = UPDATES) -> Posterior:
    """Return the posterior at the variances that the data favour (MacKay 1992, fixed-point updates)."""
    variances = start
    for _ in range(updates):
        posterior = posterior_at(design, sums, variances, with_covariance=False)
        updated = _updated(design, posterior)
        # As ratios: variances of blocks differ by orders of magnitude.
        change = max(float(np.abs(np.log(a / b)).max()) for a, b in zip(updated, variances, strict=True))
        variances = updated
        if change < SETTLED:
            break
    return posterior_at(design, sums, variances)


def joint_precision(design: Design, sums: ProductSums, variances: Variances) -> FloatArray:
    """Return the posterior precision of all coefficients together, `(K q, K q)`, where the variances are known."""
    q = design.shape[0]
    n_products = len(design.products)
    shared = variances.of_entries(design)
    own = variances.of_deviations(design)
    precision = np.zeros((n_products, q, n_products, q))
    for j in range(q):  # a priori coefficients of different features are independent of one another
        prior = (design.products * shared[j]) @ design.products.T + own[j] * np.eye(n_products)
        precision[:, j, :, j] = np.linalg.inv(prior)
    for part in sums.parts:
        whole = part.matrices if part.is_whole else part.matrices.transpose(0, 2, 1) @ part.matrices
        for product, matrix in zip(part.products, whole, strict=True):
            precision[product, :, product] += matrix
    return precision.reshape(n_products * q, n_products * q)


def posterior_at(design: Design, sums: ProductSums, variances: Variances, *, with_covariance: bool = True) -> Posterior:
    """Return the posterior of all coefficients where the variances are known.

    Without covariance those of the products' coefficients are left out, `(0, q, q)`, which saves time.
    """
    q, r = design.shape
    solution = _solve(design, sums, variances)
    covariance = _inverse(solution.factor)
    by_pairs = _by_pairs(design, covariance)
    places = _places(q)
    shared = solution.shared.reshape(q, r)
    mean = design.products @ shared.T
    of_product = np.empty((len(mean), q, q) if with_covariance else (0, q, q))

    def complete(deviations: _Deviations) -> FloatArray:
        """Write means and covariances of coefficients; return by how much the data determine deviations."""
        chosen = deviations.products
        of_predicted = np.take(_pairs(design.products[chosen]) @ by_pairs.T, places, axis=1)
        # E b = (A + D^-1)^-1 (r + D^-1 M z).
        mean[chosen] = deviations.times(sums.target[chosen] + mean[chosen] / deviations.prior)
        if with_covariance:
            of_product[chosen] = deviations.covariance_around(of_predicted)
        return deviations.determined(of_predicted)

    known_own = np.sum(_for_each(complete, solution.deviations, len(mean)), axis=0)
    return Posterior(shared, mean, of_product, variances, _freedom(design, variances, covariance, known_own))


def _solve(design: Design, sums: ProductSums, variances: Variances) -> _Solution:
    """Solve for M with the deviations summed out, so that only a matrix of M's size is factored."""
    q, r = design.shape
    n_products = len(design.products)
    prior = variances.of_deviations(design)
    upper = _upper(q)
    marginal = np.empty((n_products, len(upper)))
    target = np.empty((n_products, q))

    def sum_out(part: PrecisionBlock) -> _Deviations:
        deviations = part.summed_out(prior)
        marginal[part.products] = np.take(deviations.marginal.reshape(len(part.products), -1), upper, axis=1)
        # D^-1 (A + D^-1)^-1 r: what the target says of M z once the deviations are integrated out.
        target[part.products] = deviations.times(sums.target[part.products]) / prior
        return deviations

    deviations = _for_each(sum_out, sums.parts, n_products)
    starts = range(0, n_products, PRODUCTS_AT_ONCE)

    def add_up(first: int) -> FloatArray:
        """Return the sum over every so many parts of the products, of precisions of pairs of M's columns."""
        parts = [slice(start, start + PRODUCTS_AT_ONCE) for start in starts[first::PIECES]]
        return sum((marginal[part].T @ _pairs(design.products[part]) for part in parts), start=np.zeros(()))

    of_pairs = sum(_for_each(add_up, range(min(PIECES, len(starts))), n_products), start=np.zeros(()))
    whole = of_pairs[_places(q)][:, :, _places(r)]
    precision = whole.transpose(0, 2, 1, 3).reshape(q * r, q * r)
    precision[np.diag_indices(q * r)] += 1.0 / variances.of_entries(design).ravel()
    factor = linalg.cholesky(precision, lower=True, check_finite=False)
    shared = linalg.cho_solve((factor, True), (target.T @ design.products).ravel(), check_finite=False)
    return _Solution(shared, factor, deviations)


def _by_pairs(design: Design, covariance: FloatArray) -> FloatArray:
    """Return the covariance of M as weights of pairs of products' features, for each pair of visitors' features."""
    q, r = design.shape
    upper = np.triu_indices(r)
    by_pairs = covariance.reshape(q, r, q, r).transpose(0, 2, 1, 3)[np.triu_indices(q)]
    by_pairs = (by_pairs + by_pairs.transpose(0, 2, 1))[:, *upper]
    by_pairs[:, upper[0] == upper[1]] /= 2.0  # a feature with itself was added twice
    return np.asarray(by_pairs)


def _for_each(function: Callable[[Item], Result], items: Sequence[Item], n_products: int) -> list[Result]:
    """Return what a function makes of each item, in threads where there are so many products that these pay."""
    return map_in_threads(function, items) if n_products > 4 * PRODUCTS_AT_ONCE else [function(item) for item in items]


def _pairs(products: FloatArray) -> FloatArray:
    """Return the products of each two features of `products (m, r)`: `(m, r (r + 1) / 2)`."""
    columns = np.ascontiguousarray(products.T)  # so that all loops run along products
    r, m = columns.shape
    pairs = np.empty((r * (r + 1) // 2, m))
    end = 0
    for i in range(r):
        start = end
        end = end + r - i
        np.multiply(columns[i], columns[i:], out=pairs[start:end])
    return pairs.T


@functools.cache
def _upper(size: int) -> IntArray:
    """Return where the upper half of a matrix `(size, size)` stands among all of its elements."""
    return np.ravel_multi_index(np.triu_indices(size), (size, size))


@functools.cache
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
    # Above 0, since squares are divided by it where the data determine nothing.
    return Variances(np.maximum(shared, 1e-3), np.maximum(own, 1e-3))


def _by_block(design: Design, shared: FloatArray, own: FloatArray) -> Variances:
    """Add up values of the entries of M `(q, r)`, all but the overall level, and of deviations `(q,)`, by block."""
    n_visitor = int(design.visitor_block.max()) + 1
    n_product = int(design.product_block.max()) + 1
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
    design: Design,
    sums: ProductSums,
    posterior: Posterior,
    draws: int,
    *,
    rng: np.random.Generator,
    variances_are_known: bool = False,
) -> tuple[FloatArray, FloatArray]:
    """Draw M `(draws, q, r)` and all coefficients `(draws, K, q)` from their posterior.

    Variances are drawn, too, unless they are taken to be known, which is far cheaper: one system is solved for all.
    """
    q, r = design.shape
    shared = np.empty((draws, q, r))
    coefficients = np.empty((draws, len(design.products), q))
    for number in range(draws):
        if number == 0 or not variances_are_known:
            variances = posterior.variances if variances_are_known else _draw_variances(posterior, rng)
            solution = _solve(design, sums, variances)
            roots = [np.linalg.cholesky(deviations.covariance) for deviations in solution.deviations]
        # The precision of M is L L', so L'^-1 z has its inverse as covariance.
        noise = linalg.solve_triangular(solution.factor.T, rng.normal(size=q * r), check_finite=False)
        shared[number] = (solution.shared + noise).reshape(q, r)
        predicted = design.products @ shared[number].T
        normals = rng.normal(size=(len(predicted), q, 1))
        for deviations, root in zip(solution.deviations, roots, strict=True):
            chosen = deviations.products
            around = deviations.times(sums.target[chosen] + predicted[chosen] / deviations.prior)
            coefficients[number, chosen] = around + (root @ normals[chosen])[:, :, 0]
    return shared, coefficients


def _draw_variances(posterior: Posterior, rng: np.random.Generator) -> Variances:
    """Draw variances: estimated from m coefficients, one's logarithm has a variance of about 2 / m."""
    pairs = zip(posterior.variances, posterior.freedom, strict=True)
    drawn = (mean * np.exp(rng.normal(size=mean.shape) * np.sqrt(2.0 / np.maximum(m, 2.0))) for mean, m in pairs)
    return Variances(*(np.clip(variance, LEAST_VARIANCE, MOST_VARIANCE) for variance in drawn))
