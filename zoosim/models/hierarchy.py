"""Coefficients of each product, drawn around what its features predict: posterior, variances and draws.

Product k has coefficients b_k = M z_k + a_k `(q,)` for the visitor's features x `(q,)`, the first of which is 1: what
the product's features z_k `(r,)` predict, and a deviation of its own. The entries of M and of a_k are normal around 0,
and blocks of them, such as country x category, share a variance that is estimated from the data (empirical Bayes;
Gelman & Hill 2007, chapter 13). Data come in as sums of each product, of a normal likelihood or of the quadratic
approximation to another one: precision A_k `(q, q)` and weighted target r_k `(q,)`, log L being r_k' b - b' A_k b / 2.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from scipy import linalg

from zoosim.core.arrays import with_ones
from zoosim.core.threads import map_in_threads
from zoosim.core.types import FloatArray, IntArray
from zoosim.models.deviations import Deviations, PrecisionBlock
from zoosim.models.product_pairs import (
    SparseProducts,
    all_pairs,
    dense_pairs,
    pair_weights,
    places_in_upper,
    sum_pairs,
    upper_places,
    weigh_pairs,
)

INTERCEPT_VARIANCE = 100.0
"""Prior variance of the overall level: next to no prior."""

LEAST_VARIANCE, MOST_VARIANCE = 1e-5, 25.0
START_VARIANCE = 0.1
PRODUCTS_AT_ONCE = 256
"""Products whose pairs of features are in memory at once; of four times as many, threads share the work."""

PIECES = 8
"""Sums over products are made of so many, whatever the number of threads, so that these change no bits."""

SPARSE_PIECES = 2
"""The same of sums by the few numbers of products, each of which takes more memory."""

UPDATES = 25
SETTLED = 0.01
"""Relative change of all variances at which they are settled."""


Item = TypeVar("Item")
Result = TypeVar("Result")


class Design(NamedTuple):
    """Features of the products `z (K, r)`, the first column 1, and the blocks of coefficients that share a variance.

    `visitor_block (q,)` and `product_block (r,)` number the blocks of both kinds of features from 0, the 1s alone.
    `sparse` is the same as few numbers per product, where there are so many products that this pays.
    """

    products: FloatArray
    visitor_block: IntArray
    product_block: IntArray
    sparse: SparseProducts | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of M, `(q, r)`."""
        return len(self.visitor_block), len(self.product_block)


def make_design(
    products: FloatArray, visitor_blocks: IntArray, product_blocks: IntArray, sparse: SparseProducts | None = None
) -> Design:
    """Return the design of features without the 1s: `products (K, r - 1)`, and blocks that are numbered anyhow."""
    visitor_block, product_block = (
        np.append(0, 1 + np.unique(numbers, return_inverse=True)[1]).astype(np.int64)
        for numbers in (visitor_blocks, product_blocks)
    )
    return Design(with_ones(products), visitor_block, product_block, sparse)


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
    covariance: "Covariances"
    variances: Variances
    freedom: Variances


class Covariances:
    """The covariances of products' coefficients `(K, q, q)`, worked out when products are asked for by their numbers.

    So many as all are never in memory: they take K q^2 numbers, where the rows take q each.
    """

    def __init__(self, design: Design, deviations: Sequence[Deviations], of_shared: FloatArray) -> None:
        n_products = len(design.products)
        self._design = design
        self._deviations = deviations
        self._weights = _weights_of_pairs(design, of_shared)
        self._part = np.empty(n_products, np.int64)
        self._place = np.empty(n_products, np.int64)
        for number, part in enumerate(deviations):
            self._part[part.products] = number
            self._place[part.products] = np.arange(len(part.products))

    def __getitem__(self, products: IntArray | int) -> FloatArray:
        """Return those of some products `(B, q, q)`, or of one `(q, q)`."""
        wanted = np.atleast_1d(products)
        part = self._part[wanted]
        q = self._design.shape[0]
        out = np.empty((len(wanted), q, q))
        for number in np.unique(part):
            chosen = part == number
            deviations = self._deviations[number]
            places = self._place[wanted[chosen]]
            if not np.array_equal(places, np.arange(len(deviations.products))):
                deviations = deviations.among(places)
            out[chosen] = deviations.covariance_around(self.of_predicted(deviations.products))
        return out if np.ndim(products) else np.asarray(out[0])

    def of_predicted(self, products: IntArray) -> FloatArray:
        """Return the covariances of what products' features predict of their coefficients `(B, q, q)`."""
        design = self._design
        if design.sparse is None:
            upper = dense_pairs(design.products[products]) @ self._weights.T
        else:
            upper = weigh_pairs(design.sparse, products, self._weights)
        return np.asarray(np.take(upper, places_in_upper(design.shape[0]), axis=1))


class _Solution(NamedTuple):
    """The posterior at some variances: of M the mean, flattened, and its precision's Cholesky factor; of deviations."""

    shared: FloatArray
    factor: FloatArray
    deviations: list[Deviations]


def start_variances(design: Design) -> Variances:
    """Return variances to start from."""
    n_visitor = int(design.visitor_block.max()) + 1
    n_product = int(design.product_block.max()) + 1
    return Variances(np.full((n_visitor, n_product), START_VARIANCE), np.full(n_visitor, START_VARIANCE))


def fit_hierarchy(design: Design, sums: ProductSums, start: Variances, updates: int = UPDATES) -> Posterior:
    """Return the posterior at the variances that the data favour (MacKay 1992, fixed-point updates)."""
    variances = start
    for _ in range(updates):
        posterior = posterior_at(design, sums, variances)
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


def posterior_at(design: Design, sums: ProductSums, variances: Variances) -> Posterior:
    """Return the posterior of all coefficients where the variances are known."""
    q, r = design.shape
    solution = _solve(design, sums, variances)
    of_shared = _inverse(solution.factor)
    covariance = Covariances(design, solution.deviations, of_shared)
    shared = solution.shared.reshape(q, r)
    mean = design.products @ shared.T

    def complete(deviations: Deviations) -> FloatArray:
        """Write means of coefficients; return by how much the data determine deviations."""
        chosen = deviations.products
        # E b = (A + D^-1)^-1 (r + D^-1 M z).
        mean[chosen] = deviations.times(sums.target[chosen] + mean[chosen] / deviations.prior)
        return deviations.determined(covariance.of_predicted(chosen))

    known_own = np.sum(_for_each(complete, solution.deviations, len(mean)), axis=0)
    return Posterior(shared, mean, covariance, variances, _freedom(design, variances, of_shared, known_own))


def _solve(design: Design, sums: ProductSums, variances: Variances) -> _Solution:
    """Solve for M with the deviations summed out, so that only a matrix of M's size is factored."""
    q, r = design.shape
    prior = variances.of_deviations(design)
    target = np.empty((len(design.products), q))
    add_up = _sum_out if design.sparse is None else _sum_out_sparse
    deviations, of_pairs = add_up(design, sums, prior, target)
    whole = np.asarray(of_pairs)[places_in_upper(q)]
    precision = whole.transpose(0, 2, 1, 3).reshape(q * r, q * r)
    precision[np.diag_indices(q * r)] += 1.0 / variances.of_entries(design).ravel()
    factor = linalg.cholesky(precision, lower=True, check_finite=False)
    shared = linalg.cho_solve((factor, True), (target.T @ design.products).ravel(), check_finite=False)
    return _Solution(shared, factor, deviations)


def _sum_out(
    design: Design, sums: ProductSums, prior: FloatArray, target: FloatArray
) -> tuple[list[Deviations], FloatArray]:
    """Sum out the deviations of all products, whose variances are `prior (q,)`.

    Write to `target (K, q)` what rows say of M z once they are, and return what is known of deviations, and the sum of
    precisions of M z times pairs of products' features `(q (q + 1) / 2, r, r)`.
    """
    q, r = design.shape
    n_products = len(design.products)
    upper = upper_places(q)
    marginal = np.empty((n_products, len(upper)))

    def sum_out(part: PrecisionBlock) -> Deviations:
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
        return sum((marginal[part].T @ dense_pairs(design.products[part]) for part in parts), start=np.zeros(()))

    of_pairs = sum(_for_each(add_up, range(min(PIECES, len(starts))), n_products), start=np.zeros(()))
    return deviations, of_pairs[:, places_in_upper(r)]


def _sum_out_sparse(
    design: Design, sums: ProductSums, prior: FloatArray, target: FloatArray
) -> tuple[list[Deviations], FloatArray]:
    """Do the same by the few numbers that products have: no matrix of all products and pairs is made."""
    products = design.sparse
    assert products is not None
    upper = upper_places(design.shape[0])
    m = len(products.basis)
    deviations: list[Deviations | None] = [None] * len(sums.parts)

    def add_up(first: int) -> FloatArray:
        total = np.zeros((m, m, len(upper)))
        for number in range(first, len(sums.parts), SPARSE_PIECES):
            part = sums.parts[number]
            known = deviations[number] = part.summed_out(prior)
            marginal = np.take(known.marginal.reshape(len(part.products), -1), upper, axis=1)
            sum_pairs(products, part.products, marginal, total)
            target[part.products] = known.times(sums.target[part.products]) / prior
        return total

    total = sum(map_in_threads(add_up, range(SPARSE_PIECES)), start=np.zeros(()))
    return [known for known in deviations if known is not None], all_pairs(products, total)


def _weights_of_pairs(design: Design, of_shared: FloatArray) -> FloatArray:
    """Return the covariance of M `(q r, q r)` as weights of pairs of products' features, for each pair of visitors'."""
    q, r = design.shape
    by_pairs = of_shared.reshape(q, r, q, r).transpose(0, 2, 1, 3)[np.triu_indices(q)]
    if design.sparse is not None:
        return pair_weights(design.sparse, by_pairs)
    upper = np.triu_indices(r)
    by_pairs = (by_pairs + by_pairs.transpose(0, 2, 1))[:, *upper]
    by_pairs[:, upper[0] == upper[1]] /= 2.0  # a feature with itself was added twice
    return np.asarray(by_pairs)


def _for_each(function: Callable[[Item], Result], items: Sequence[Item], n_products: int) -> list[Result]:
    """Return what a function makes of each item, in threads where there are so many products that these pay."""
    return map_in_threads(function, items) if n_products > 4 * PRODUCTS_AT_ONCE else [function(item) for item in items]


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
