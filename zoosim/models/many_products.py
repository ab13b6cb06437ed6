"""Compiled loops over many products with few rows each, for `zoosim.models.hierarchy` and `click_model`.

What m rows say of q coefficients of a product is a precision A = F' F of rank min(m, q). With D the variances of its
deviations a priori, V = L^-1 F where L L' = 1 + F D F' (so `rank` rows), and G = V' V, all follows from V: the
posterior covariance of the deviations is D - D G D, and (A^-1 + D)^-1 = G (Woodbury 1950). So a product costs what its
rows tell, not q^3.
"""

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.types import FloatArray, IntArray

NEGLIGIBLE = 1e-13
"""Share of a precision's largest element below which the rest of it is rounding."""


@jit
def fill_pairs(vectors: FloatArray, pairs: FloatArray) -> None:
    """Write the products of each two elements of `vectors (m, r)` to `pairs (m, r (r + 1) / 2)`, row by row."""
    size = vectors.shape[1]
    for k in range(vectors.shape[0]):
        place = 0
        for i in range(size):
            for j in range(i, size):
                pairs[k, place + j - i] = vectors[k, i] * vectors[k, j]
            place += size - i


@jit
def _factor(matrix: FloatArray, rows: FloatArray, diagonal: FloatArray) -> int:
    """Write rows F with F' F = `matrix (q, q)` to `rows (q, q)`; return how many (Cholesky with diagonal pivoting)."""
    q = matrix.shape[0]
    least = 0.0
    for i in range(q):
        diagonal[i] = matrix[i, i]
        least = max(least, NEGLIGIBLE * matrix[i, i])
    for rank in range(q):
        pivot = 0
        for i in range(q):
            if diagonal[i] > diagonal[pivot]:
                pivot = i
        if diagonal[pivot] <= least:
            return rank
        for j in range(q):
            rows[rank, j] = matrix[pivot, j]
        for before in range(rank):
            factor = rows[before, pivot]
            for j in range(q):
                rows[rank, j] -= factor * rows[before, j]
        scale = 1.0 / np.sqrt(diagonal[pivot])
        for j in range(q):
            rows[rank, j] *= scale
            diagonal[j] -= rows[rank, j] * rows[rank, j]
        diagonal[pivot] = 0.0  # exactly, so that no pivot comes twice
    return int(q)


@jit
def _whiten(rows: FloatArray, rank: int, prior: FloatArray, inner: FloatArray) -> None:
    """Turn rows F into V = L^-1 F, where L L' = 1 + F D F', with `inner (q, q)` as room for L."""
    q = prior.shape[0]
    for a in range(rank):
        for b in range(a + 1):
            total = 1.0 if a == b else 0.0
            for j in range(q):
                total += rows[a, j] * prior[j] * rows[b, j]
            inner[a, b] = total
    for a in range(rank):
        for b in range(a + 1):
            total = inner[a, b]
            for c in range(b):
                total -= inner[a, c] * inner[b, c]
            inner[a, b] = np.sqrt(total) if a == b else total / inner[b, b]
    for a in range(rank):
        for b in range(a):
            factor = inner[a, b]
            for j in range(q):
                rows[a, j] -= factor * rows[b, j]
        scale = 1.0 / inner[a, a]
        for j in range(q):
            rows[a, j] *= scale


@jit
def marginalise(
    precision: FloatArray,
    target: FloatArray,
    prior: FloatArray,
    whitened: FloatArray,
    ranks: IntArray,
    marginal: FloatArray,
    marginal_target: FloatArray,
) -> None:
    """Sum the deviations of m products out of what the data say of them.

    Args:
        precision: A of each product `(m, q, q)`.
        target: Its weighted target t `(m, q)`.
        prior: Variances of the deviations `(q,)`.
        whitened: To write V to: `(m, q, q)`, of which the first `ranks (m,)` rows count.
        ranks: To write their numbers to.
        marginal: To write the upper triangle of G to: `(m, q (q + 1) / 2)`.
        marginal_target: To write (1 - G D) t to: `(m, q)`.
    """
    q = prior.shape[0]
    diagonal, inner = np.empty(q), np.empty((q, q))
    for k in range(precision.shape[0]):
        rows = whitened[k]
        rank = _factor(precision[k], rows, diagonal)
        _whiten(rows, rank, prior, inner)
        ranks[k] = rank
        for place in range(marginal.shape[1]):
            marginal[k, place] = 0.0
        for j in range(q):
            marginal_target[k, j] = target[k, j]
        for a in range(rank):
            place, along = 0, 0.0
            for i in range(q):
                for j in range(i, q):
                    marginal[k, place + j - i] += rows[a, i] * rows[a, j]
                place += q - i
                along += rows[a, i] * prior[i] * target[k, i]
            for j in range(q):
                marginal_target[k, j] -= along * rows[a, j]


@jit
def finish(
    precision: FloatArray,
    target: FloatArray,
    prior: FloatArray,
    whitened: FloatArray,
    ranks: IntArray,
    of_predicted: FloatArray,
    mean: FloatArray,
    known: FloatArray,
    covariance: FloatArray,
) -> None:
    """Work out the coefficients of m products from what their features predict.

    Args:
        precision: As in `marginalise`, like `target`, `prior`, `whitened` and `ranks`.
        target: t.
        prior: D.
        whitened: V.
        ranks: How many rows of V count.
        of_predicted: Covariance S of what features predict, its upper triangle: `(m, q (q + 1) / 2)`.
        mean: What features predict `(m, q)`; becomes the posterior mean.
        known: To add to by how much the deviations are determined, D (G - G S G), its diagonal: `(q,)`.
        covariance: To write D - D G D + (1 - D G) S (1 - G D) to: `(m, q, q)`, or empty.
    """
    q = prior.shape[0]
    spread, rest = np.empty((q, q)), np.empty(q)
    along, inner, half = np.empty((q, q)), np.empty((q, q)), np.empty((q, q))
    for k in range(precision.shape[0]):
        rows, rank = whitened[k], ranks[k]
        place = 0
        for i in range(q):
            for j in range(i, q):
                spread[i, j] = spread[j, i] = of_predicted[k, place + j - i]
            place += q - i
        for a in range(rank):  # along: V S, inner: V S V'
            for j in range(q):
                along[a, j] = 0.0
            for i in range(q):
                factor = rows[a, i]
                for j in range(q):
                    along[a, j] += factor * spread[i, j]
            for b in range(rank):
                total = 0.0
                for j in range(q):
                    total += along[a, j] * rows[b, j]
                inner[a, b] = total
        for a in range(rank):  # half: (1 - V S V') V
            for j in range(q):
                half[a, j] = rows[a, j]
            for b in range(rank):
                factor = inner[a, b]
                for j in range(q):
                    half[a, j] -= factor * rows[b, j]
            for j in range(q):
                known[j] += prior[j] * rows[a, j] * half[a, j]
        for i in range(q):
            rest[i] = target[k, i]
            for j in range(q):
                rest[i] -= precision[k, i, j] * mean[k, j]
        for j in range(q):
            mean[k, j] += prior[j] * rest[j]
        for a in range(rank):
            total = 0.0
            for j in range(q):
                total += rows[a, j] * prior[j] * rest[j]
            for j in range(q):
                mean[k, j] -= prior[j] * rows[a, j] * total
        if covariance.shape[0] > 0:
            _fill_covariance(prior, rows, rank, along, half, spread, covariance[k])


@jit
def _fill_covariance(
    prior: FloatArray,
    rows: FloatArray,
    rank: int,
    along: FloatArray,
    half: FloatArray,
    spread: FloatArray,
    out: FloatArray,
) -> None:
    """Write D + S - Y' Z - Z' Y to `out (q, q)`, with Y = V D and Z = V S + (1 - V S V') V D / 2."""
    q = prior.shape[0]
    for i in range(q):
        for j in range(q):
            out[i, j] = spread[i, j]
        out[i, i] += prior[i]
    for a in range(rank):
        for j in range(q):
            along[a, j] += 0.5 * half[a, j] * prior[j]
        for i in range(q):
            left, right = rows[a, i] * prior[i], along[a, i]
            for j in range(q):
                out[i, j] -= left * along[a, j] + right * (rows[a, j] * prior[j])


@jit
def fill_logits(
    visitors: FloatArray,
    ends: IntArray,
    mean: FloatArray,
    covariance: FloatArray,
    logits: FloatArray,
    variances: FloatArray,
) -> None:
    """Write mean and variance of the logit of each row `(n,)`; rows `ends[k]` to `ends[k + 1]` showed product k."""
    q = mean.shape[1]
    for k in range(mean.shape[0]):
        for n in range(ends[k], ends[k + 1]):
            logit, variance = 0.0, 0.0
            for i in range(q):
                along = 0.0
                for j in range(q):
                    along += covariance[k, i, j] * visitors[n, j]
                logit += visitors[n, i] * mean[k, i]
                variance += visitors[n, i] * along
            logits[n] = logit
            variances[n] = variance


@jit
def fill_sums(
    visitors: FloatArray,
    ends: IntArray,
    weights: FloatArray,
    residuals: FloatArray,
    mean: FloatArray,
    precision: FloatArray,
    target: FloatArray,
) -> None:
    """Write X' W X and X' (residuals + W X mean) of each product to `precision (K, q, q)` and `target (K, q)`."""
    q = mean.shape[1]
    for k in range(mean.shape[0]):
        for i in range(q):
            target[k, i] = 0.0
            for j in range(q):
                precision[k, i, j] = 0.0
        for n in range(ends[k], ends[k + 1]):
            logit = 0.0
            for i in range(q):
                logit += visitors[n, i] * mean[k, i]
            response = residuals[n] + weights[n] * logit
            for i in range(q):
                target[k, i] += visitors[n, i] * response
                weighted = weights[n] * visitors[n, i]
                for j in range(q):
                    precision[k, i, j] += weighted * visitors[n, j]


@jit
def largest_moves(visitors: FloatArray, ends: IntArray, step: FloatArray) -> FloatArray:
    """Return by how much `step (K, q)` moves the logit of a row of each product at most `(K,)`."""
    largest = np.zeros(step.shape[0])
    for k in range(step.shape[0]):
        for n in range(ends[k], ends[k + 1]):
            moved = 0.0
            for i in range(step.shape[1]):
                moved += visitors[n, i] * step[k, i]
            largest[k] = max(largest[k], abs(moved))
    return largest
