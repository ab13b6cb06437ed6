"""Generalised linear mixed models of rewards: what visitors like in products, and what is particular to each product.

The linear predictor of a visitor x `(P,)` and product k with features z_k `(Q,)`, both with a leading 1, is

    x^T (M z_k + u_k),

where M says what visitors like in products' features, and u_k what each likes in product k beyond those. All
coefficients are drawn from normal distributions around 0, one variance for each pair of a block of visitors' columns
and a block of products' columns, so that what tells nothing is shrunk to nothing. Zhang et al. (2016), "GLMix:
generalized linear mixed models for large-scale response prediction" (https://doi.org/10.1145/2939672.2939684), fit
such models by coordinate descent. Here the posterior is exact for normal rewards and Laplace's approximation for
clicks. Products enter it through their sums of squares alone, and their own coefficients are eliminated, so that what
is solved has P Q unknowns, however many products there are. Variances follow MacKay (1992), "Bayesian interpolation"
(https://doi.org/10.1162/neco.1992.4.3.415), section 4.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import linalg, special

from zoosim.core.jit import jit
from zoosim.core.types import FloatArray, IntArray, Progress

PART_BYTES = 64_000_000
"""Memory for the pairs of columns of the products that are solved for at once."""
FIRST_STEPS = 3
"""Steps of Newton's method before variances are estimated."""
MOST_STEPS = 15
"""The most steps after these, each followed by new variances."""
CAREFUL_STEPS = 3
"""How many of these estimate variances by expectation maximisation, which is slow, but safe far from the optimum."""
SETTLED, NEGLIGIBLE = 0.05, 1e-3
"""Variances are settled when none above the second number changes by more than the first, as a share."""
INTERCEPT_VARIANCE = 1e4
FIRST_VARIANCE = 0.05
"""The other variances to start from: of log odds, or of rewards in units of their standard deviation."""
LEAST_VARIANCE, LEAST_NOISE = 1e-8, 1e-8
MOST_CHANGE = 10.0
"""By what factor a variance may change at once."""
HALVINGS = 20
"""How often a step that makes the fit worse is halved."""


class Choices(NamedTuple):
    """Logged choices: `actions (n,)` and their `rewards (n,)`.

    `visitors (n, P)` are the rows' features, `products (K, Q)` the products', both with a leading 1.
    """

    visitors: FloatArray
    products: FloatArray
    actions: IntArray
    rewards: FloatArray


class Effects(NamedTuple):
    """Coefficients, or their variances.

    `shared (P, Q)` are those of visitors' columns times products' columns, `own (K, P)` what each product adds to them.
    """

    shared: FloatArray
    own: FloatArray


class Groups(NamedTuple):
    """Which coefficients have a variance in common: numbers `shared (P, Q)` and `own (P,)`; 0 is the intercept's."""

    shared: IntArray
    own: IntArray


class MixedModel(NamedTuple):
    """A fitted model: its `effects`, their `variances (G,)` by group, and the variance of normal rewards around it."""

    effects: Effects
    variances: FloatArray
    noise: float


class Derivatives(NamedTuple):
    """Of the log-likelihood by products' coefficients: the `gradient (K, P)` and minus the Hessian `(K, P, P)`."""

    gradient: FloatArray
    curvature: FloatArray


def fit_mixed_model(choices: Choices, groups: Groups, *, clicks: bool, progress: Progress) -> MixedModel:
    """Fit a mixed model to logged choices.

    Args:
        choices: The logged choices.
        groups: Which coefficients have a variance in common, such as `group_coefficients` returns.
        clicks: Whether rewards are 0 or 1 and the predictor their log odds; else they are normal around it.
        progress: Called with a line per step.
    """
    unit = 1.0 if clicks else float(choices.rewards.std()) or 1.0
    seen, actions = np.unique(choices.actions, return_inverse=True)
    order = np.argsort(actions, kind="stable")
    n_products, p = len(choices.products), choices.visitors.shape[1]
    choices = Choices(choices.visitors[order], choices.products[seen], actions[order], choices.rewards[order] / unit)
    parts = _in_parts(choices)
    noise = 1.0
    variances = np.full(1 + int(groups.own.max()), FIRST_VARIANCE)
    variances[0] = INTERCEPT_VARIANCE
    effects = Effects(np.zeros(groups.shared.shape), np.zeros((len(seen), p)))
    effects.shared[0, 0] = _level(choices.rewards, clicks)
    for number in range(FIRST_STEPS + MOST_STEPS):
        step, posterior = _solve(parts, effects, groups, variances, noise, clicks)
        effects = _take(step, choices, effects, groups, variances, noise, clicks)
        done = number - FIRST_STEPS + 1
        if done < 1:
            continue
        previous = variances
        variances = _new_variances(groups, effects, posterior, previous, careful=done <= CAREFUL_STEPS)
        if not clicks:
            noise = _noise(choices, effects, groups, posterior, previous)
        changes = np.abs(np.log(variances / previous))
        change = float(changes[np.maximum(variances, previous) > NEGLIGIBLE].max(initial=0.0))
        progress(f"step {done} of {MOST_STEPS} at most: variances change by {np.expm1(change):.0%}")
        if done > CAREFUL_STEPS and change < SETTLED:
            break
    own = np.zeros((n_products, p))
    own[seen] = unit * effects.own
    return MixedModel(Effects(unit * effects.shared, own), unit**2 * variances, unit**2 * noise)


def group_coefficients(visitor_blocks: IntArray, product_blocks: IntArray) -> Groups:
    """Return which coefficients have a variance in common: those of a pair of blocks.

    Args:
        visitor_blocks: The block of each of visitors' columns `(P - 1,)`, numbers from 0 without gaps.
        product_blocks: The block of each of products' columns `(Q - 1,)`, likewise.
    """
    visitors = np.append(0, visitor_blocks + 1)
    products = np.append(0, product_blocks + 1)
    n_products = int(products.max()) + 1
    shared = visitors[:, None] * n_products + products
    return Groups(shared, int(shared.max()) + 1 + visitors)


def exclusive_blocks(columns: FloatArray) -> IntArray:
    """Return the block of each of `columns (n, d)`, such as the levels of a category: `(d,)`, from 0.

    Columns next to each other of which at most one is not 0 in any row are a block.
    """
    blocks = np.zeros(columns.shape[1], np.int64)
    is_taken = np.zeros(len(columns), bool)
    for number in range(1, columns.shape[1]):
        is_taken |= columns[:, number - 1] != 0.0
        overlaps = bool((is_taken & (columns[:, number] != 0.0)).any())
        blocks[number] = blocks[number - 1] + overlaps
        if overlaps:
            is_taken[:] = False
    return blocks


class Scaling(NamedTuple):
    """How columns are scaled: less `centre (d,)`, times `scale (d,)`; and the block that each is in `(d,)`."""

    centre: FloatArray
    scale: FloatArray
    blocks: IntArray


def scale_blocks(columns: FloatArray) -> Scaling:
    """Return how `columns (n, d)` are scaled: by block, so that the levels of a category stay comparable.

    A column that does not vary becomes 0.
    """
    blocks = exclusive_blocks(columns)
    variances = columns.var(axis=0)
    means = np.bincount(blocks, variances) / np.bincount(blocks).clip(1)
    scale = np.where(variances > 0.0, 1.0 / np.sqrt(np.where(variances > 0.0, means[blocks], 1.0)), 0.0)
    return Scaling(columns.mean(axis=0), scale, blocks)


def with_leading_one(columns: FloatArray) -> FloatArray:
    """Return a column of ones before the `columns (n, d)`: `(n, 1 + d)`."""
    return np.hstack([np.ones((len(columns), 1)), columns])


def product_coefficients(products: FloatArray, effects: Effects) -> FloatArray:
    """Return what the predictor multiplies visitors' columns by, for `products (K, Q)`: `(K, P)`."""
    return np.asarray(products @ effects.shared.T + effects.own)


def _level(rewards: FloatArray, clicks: bool) -> float:
    """Return the predictor that stands for the mean reward."""
    if not clicks:
        return float(rewards.mean())
    return float(special.logit((rewards.sum() + 0.5) / (len(rewards) + 1.0)))


def _differentiate(choices: Choices, effects: Effects, noise: float, clicks: bool) -> Derivatives:
    coefficients = product_coefficients(choices.products, effects)
    n_products, p = coefficients.shape
    result = Derivatives(np.zeros((n_products, p)), np.zeros((n_products, p, p)))
    _add_rows(choices, coefficients, noise, clicks, result)
    upper = np.triu(np.ones((p, p), bool))
    return result._replace(curvature=np.where(upper, result.curvature, result.curvature.swapaxes(1, 2)))


@jit
def _add_rows(choices: Choices, coefficients: FloatArray, noise: float, clicks: bool, out: Derivatives) -> None:
    """Add each row's share to the gradient and to the upper half of the curvature."""
    p = coefficients.shape[1]
    for row in range(choices.actions.shape[0]):
        action = choices.actions[row]
        predictor = 0.0
        for i in range(p):
            predictor += coefficients[action, i] * choices.visitors[row, i]
        if clicks:
            rate = 1.0 / (1.0 + np.exp(-predictor))
            residual = choices.rewards[row] - rate
            weight = rate * (1.0 - rate)
        else:
            residual = (choices.rewards[row] - predictor) / noise
            weight = 1.0 / noise
        for i in range(p):
            out.gradient[action, i] += residual * choices.visitors[row, i]
            for j in range(i, p):
                out.curvature[action, i, j] += weight * choices.visitors[row, i] * choices.visitors[row, j]


class _Own(NamedTuple):
    """What rows say of the own effects of m products, given the shared ones.

    `gradient (m, P)` and `curvature (m, P, P)` of the log posterior, the posterior `covariance (m, P, P)`, and the
    `response (m, P, P)` of the estimates to what the shared effects make of the products.
    """

    gradient: FloatArray
    curvature: FloatArray
    covariance: FloatArray
    response: FloatArray


def _in_parts(choices: Choices) -> list[tuple[slice, Choices]]:
    """Return choices, which are in order of products, in parts by products, so that memory is bounded."""
    size = max(1, PART_BYTES // (8 * max(choices.products.shape[1], choices.visitors.shape[1]) ** 2))
    parts = []
    for start in range(0, len(choices.products), size):
        place = slice(start, start + size)
        rows = slice(*np.searchsorted(choices.actions, [start, start + size]))
        part = choices.visitors[rows], choices.products[place], choices.actions[rows] - start, choices.rewards[rows]
        parts.append((place, Choices(*part)))
    return parts


def _own_given_shared(
    choices: Choices, effects: Effects, precision: FloatArray, noise: float, clicks: bool
) -> tuple[_Own, FloatArray]:
    """Return what rows say of the own effects, and their gradient `(m, P)` without the prior's share."""
    gradient, curvature = _differentiate(choices, effects, noise, clicks)
    covariance = np.asarray(np.linalg.inv(curvature + np.diag(precision)), float)
    return _Own(gradient - precision * effects.own, curvature, covariance, covariance @ curvature), gradient


def _solve(
    parts: Sequence[tuple[slice, Choices]],
    effects: Effects,
    groups: Groups,
    variances: FloatArray,
    noise: float,
    clicks: bool,
) -> tuple[Effects, Effects]:
    """Return a step of Newton's method to the largest posterior, and the posterior variances of the effects.

    Given the shared effects, products are independent of one another. So their own effects are eliminated product by
    product, which leaves a system of the shared ones alone, and follow from its solution.
    """
    p, q = groups.shared.shape
    precision = 1.0 / variances[groups.own]
    upper_p, upper_q = np.triu_indices(p), np.triu_indices(q)
    sums = np.zeros((len(upper_p[0]), len(upper_q[0])))
    gradient = -effects.shared / variances[groups.shared]
    for place, part in parts:
        here = effects._replace(own=effects.own[place])
        own, of_rows = _own_given_shared(part, here, precision, noise, clicks)
        remaining = precision[:, None] * own.response  # G - G (G + D)^-1 G = D (G + D)^-1 G, without cancellation
        sums += remaining[:, *upper_p].T @ _pairs(part.products)
        eliminated = _times(own.curvature, _times(own.covariance, own.gradient))
        gradient += (of_rows - eliminated).T @ part.products
    system = sums[_upper_places(p)][:, :, _upper_places(q)].swapaxes(1, 2).reshape(p * q, p * q)
    system[np.diag_indices(p * q)] += 1.0 / variances[groups.shared].ravel()
    covariance = linalg.inv(system, overwrite_a=True, check_finite=False)
    shared_step = (covariance @ gradient.ravel()).reshape(p, q)

    by_pairs = covariance.reshape(p, q, p, q).swapaxes(1, 2)[upper_p]
    by_pairs = (by_pairs + by_pairs.swapaxes(1, 2))[:, *upper_q]
    by_pairs[:, upper_q[0] == upper_q[1]] /= 2.0
    own_step, own_variances = np.empty_like(effects.own), np.empty_like(effects.own)
    for place, part in parts:
        here = effects._replace(own=effects.own[place])
        own, _ = _own_given_shared(part, here, precision, noise, clicks)
        own_step[place] = _times(own.covariance, own.gradient) - _times(own.response, part.products @ shared_step.T)
        of_shared = (_pairs(part.products) @ by_pairs.T)[:, _upper_places(p)]  # their covariance, for each product
        own_variances[place] = np.einsum("kii->ki", own.covariance)
        own_variances[place] += ((own.response @ of_shared) * own.response).sum(axis=2)
    shared_variances = np.diagonal(covariance).reshape(p, q)
    return Effects(shared_step, own_step), Effects(shared_variances, own_variances)


def _times(matrices: FloatArray, vectors: FloatArray) -> FloatArray:
    """Return each of `matrices (m, P, P)` times its vector of `vectors (m, P)`."""
    return np.asarray((matrices @ vectors[:, :, None])[:, :, 0])


def _pairs(products: FloatArray) -> FloatArray:
    """Return the products of each two columns of `products (m, Q)`: `(m, Q (Q + 1) / 2)`."""
    first, second = np.triu_indices(products.shape[1])
    return products[:, first] * products[:, second]


def _upper_places(size: int) -> IntArray:
    """Return where the elements of a symmetric matrix stand among those of its upper half `(size, size)`."""
    places = np.zeros((size, size), np.int64)
    places[np.triu_indices(size)] = np.arange(size * (size + 1) // 2)
    return np.maximum(places, places.T)


def _take(
    step: Effects,
    choices: Choices,
    effects: Effects,
    groups: Groups,
    variances: FloatArray,
    noise: float,
    clicks: bool,
) -> Effects:
    """Return the effects after a step, halved as long as the posterior gets smaller; normal rewards need no halving."""
    if not clicks:
        return Effects(effects.shared + step.shared, effects.own + step.own)
    least = _log_posterior(choices, effects, groups, variances)
    share = 1.0
    for _ in range(HALVINGS):
        taken = Effects(effects.shared + share * step.shared, effects.own + share * step.own)
        if _log_posterior(choices, taken, groups, variances) >= least - 1e-9 * abs(least):
            return taken
        share /= 2.0
    return effects


def _log_posterior(choices: Choices, effects: Effects, groups: Groups, variances: FloatArray) -> float:
    """Return the log of the posterior density of the effects on clicks, but for a constant."""
    predictor = _predictors(choices, effects)
    log_likelihood = (choices.rewards * predictor - np.logaddexp(0.0, predictor)).sum()
    penalty = (effects.shared**2 / variances[groups.shared]).sum() + (effects.own**2 / variances[groups.own]).sum()
    return float(log_likelihood - 0.5 * penalty)


def _predictors(choices: Choices, effects: Effects) -> FloatArray:
    coefficients = product_coefficients(choices.products, effects)
    return np.asarray(np.einsum("np,np->n", choices.visitors, coefficients[choices.actions]))


def _new_variances(
    groups: Groups, effects: Effects, posterior: Effects, variances: FloatArray, *, careful: bool
) -> FloatArray:
    """Return the variances of the groups that make the choices likelier, by one step of a fixed point."""
    count, squares, uncertain = _sums(groups, effects, posterior, len(variances))
    if careful:
        updated = (squares + uncertain) / count
    else:
        determined = np.maximum(count - uncertain / variances, 1e-9 * count)
        updated = squares / determined
    updated = np.clip(updated, variances / MOST_CHANGE, variances * MOST_CHANGE)
    updated = np.maximum(updated, LEAST_VARIANCE)
    updated[0] = variances[0]
    return np.asarray(updated)


def _sums(groups: Groups, effects: Effects, posterior: Effects, n: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return, for each group, the number of its effects, the sum of their squares, and of their posterior variances."""
    numbers = np.append(groups.shared.ravel(), np.broadcast_to(groups.own, effects.own.shape).ravel())
    values = np.append(effects.shared.ravel(), effects.own.ravel())
    uncertain = np.append(posterior.shared.ravel(), posterior.own.ravel())

    def total(weights: FloatArray) -> FloatArray:
        return np.asarray(np.bincount(numbers, weights, n), float)

    return total(np.ones(len(numbers))), total(values**2), total(uncertain)


def _noise(choices: Choices, effects: Effects, groups: Groups, posterior: Effects, variances: FloatArray) -> float:
    """Return the variance of rewards around their predictors: squares over what the effects leave of the rows."""
    residuals = choices.rewards - _predictors(choices, effects)
    count, _, uncertain = _sums(groups, effects, posterior, len(variances))
    determined = float((count - uncertain / variances).sum())
    free_rows = max(len(residuals) - determined, 1.0)
    return max(float(residuals @ residuals) / free_rows, LEAST_NOISE)
