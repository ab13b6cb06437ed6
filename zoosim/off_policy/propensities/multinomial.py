"""Multinomial logistic regression of which product a visitor was shown, shrunk towards products that are alike.

The chance of product a is proportional to exp(x . w_a) among a visit's candidates, with w_a = v_a + M z_a: products
with like traits z share M, and each has an own v_a. Both are shrunk towards 0 by ridge penalties; x begins with a 1.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.sparse.linalg import LinearOperator, cg

from zoosim.core.types import FloatArray, IntArray
from zoosim.logs.candidate_sets import CandidateSets

BLOCK_CELLS = 2**20
"""Probabilities that are in memory at once."""

MOST_STEPS = 60
TOLERANCE = 1e-6
"""Relative decrease of the loss per step at which the fit stops. What is left is small beside the sampling error."""

SOLVER_STEPS = 12
"""Steps of conjugate gradients: with their preconditioner the residual is below 1% after fewer."""


class Contexts(NamedTuple):
    """Contexts of n visits, on which the chances of K products depend.

    `inputs (n, 1 + d)` are a 1 and the visitor's features, the first `n_plain`, and products of these, all scaled;
    `candidates`, sets of products, and which of them each visit had `candidate_set (n,)`; `traits (K, p)` of products.
    """

    inputs: FloatArray
    candidates: CandidateSets
    candidate_set: IntArray
    traits: FloatArray
    n_plain: int

    def rows(self, chosen: IntArray | slice) -> "Contexts":
        """Return the `chosen` visits."""
        return self._replace(inputs=self.inputs[chosen], candidate_set=self.candidate_set[chosen])

    def narrowed(self, width: int) -> "Contexts":
        """Return the same with the first inputs alone."""
        return self._replace(inputs=np.ascontiguousarray(self.inputs[:, :width]))

    @property
    def blocks(self) -> Iterator[tuple[slice, "Contexts"]]:
        """The visits in blocks whose probabilities fit into memory, with where each lies."""
        size = max(1, BLOCK_CELLS // len(self.traits))
        for start in range(0, len(self.inputs), size):
            block = slice(start, min(start + size, len(self.inputs)))
            yield block, self.rows(block)


class ObservedChoices(NamedTuple):
    """Visits, and the products that they were shown `actions (n,)`."""

    contexts: Contexts
    actions: IntArray

    def rows(self, chosen: IntArray) -> "ObservedChoices":
        """Return the `chosen` visits."""
        return ObservedChoices(self.contexts.rows(chosen), self.actions[chosen])

    def narrowed(self, width: int) -> "ObservedChoices":
        """Return the same with the first inputs alone."""
        return self._replace(contexts=self.contexts.narrowed(width))


class Counts(NamedTuple):
    """Choices counted: of distinct `contexts`, each `action (m,)` was shown in `context (m,)` so many `times (m,)`.

    Contexts are in order; no pair comes twice.
    """

    contexts: Contexts
    context: IntArray
    action: IntArray
    times: FloatArray

    def pairs_in(self, block: slice) -> slice:
        """Return where the pairs of a block of contexts lie."""
        return slice(*np.searchsorted(self.context, [block.start, block.stop]))

    def narrowed(self, width: int) -> "Counts":
        """Return the same with the first inputs alone; without any but the first 1, counted anew by candidates."""
        contexts = self.contexts.narrowed(width)
        if width > 1:
            return self._replace(contexts=contexts)
        rows = np.repeat(np.arange(len(self.times)), self.times.astype(int))
        return count_choices(ObservedChoices(contexts.rows(self.context[rows]), self.action[rows]))


class Shrinkage(NamedTuple):
    """Strengths of the penalties, in rows of features of variance 1.

    Those of features' weights, products' own and shared ones, of intercepts, by which products' shares differ, and of
    the weights of `crossed` features.
    """

    own: float
    shared: float
    share: float
    crossed: float

    def penalties(self, width: int, n_plain: int) -> tuple[FloatArray, FloatArray]:
        """Return the penalties of the columns of products' own weights and of shared ones, each `(1 + d,)`."""
        of_own, of_shared = np.full((2, width), [[self.own], [self.shared]])
        of_own[0] = of_shared[0] = self.share
        of_own[n_plain:] = of_shared[n_plain:] = self.crossed
        return of_own, of_shared


class Multinomial(NamedTuple):
    """A fitted model: weights `own (K, 1 + d)` and `shared (p, 1 + d)` under a `shrinkage`."""

    own: FloatArray
    shared: FloatArray
    shrinkage: Shrinkage

    def widened(self, width: int) -> "Multinomial":
        """Return a model of `width` inputs, those that it has not got without weight."""
        more = width - self.own.shape[1]
        own, shared = (np.pad(weights, ((0, 0), (0, more))) for weights in (self.own, self.shared))
        return self._replace(own=own, shared=shared)

    def scaled(self, factor: float) -> "Multinomial":
        """Return a model whose chances depend on features `factor` times as much; intercepts stay."""
        by_column = np.full(self.own.shape[1], factor)
        by_column[0] = 1.0
        return self._replace(own=self.own * by_column, shared=self.shared * by_column)

    def probabilities(self, contexts: Contexts) -> FloatArray:
        """Return the chance of each product `(n, K)`, 0 for those that are no candidates."""
        weights = self.own + contexts.traits @ self.shared
        scores = contexts.inputs @ weights.T
        if not contexts.candidates.are_everything:
            masks, mask_of = contexts.candidates.distinct_masks(contexts.candidate_set)
            scores[~masks[mask_of]] = -np.inf
        scores -= scores.max(axis=1, keepdims=True)
        np.exp(scores, out=scores)
        scores /= scores.sum(axis=1, keepdims=True)
        return np.asarray(scores)


def count_choices(choices: ObservedChoices) -> Counts:
    """Count choices by context: visitors with the same features and candidates need one row."""
    contexts = choices.contexts
    keys = np.ascontiguousarray(np.column_stack([contexts.inputs, contexts.candidate_set]))
    packed = keys.view(np.dtype((np.void, keys.itemsize * keys.shape[1])))[:, 0]
    _, first, context = np.unique(packed, return_index=True, return_inverse=True)
    n_products = len(contexts.traits)
    pairs, times = np.unique(context * n_products + choices.actions, return_counts=True)
    return Counts(contexts.rows(first), pairs // n_products, pairs % n_products, times.astype(float))


def loss_of(model: Multinomial, counts: Counts) -> float:
    """Return minus the log-likelihood of choices."""
    return _loss_and_slope(model, counts, with_slope=False)[0]


def fit_multinomial(counts: Counts, shrinkage: Shrinkage, start: Multinomial | None = None) -> Multinomial:
    """Fit by maximum penalised likelihood (L-BFGS); `start` is a model to begin with, perhaps of fewer inputs."""
    traits = counts.contexts.traits
    n_products = len(traits)
    width = counts.contexts.inputs.shape[1]
    if start is None:
        start = Multinomial(np.zeros((n_products, 1)), np.zeros((traits.shape[1], 1)), shrinkage)
    start = start.widened(width)
    of_own, of_shared = shrinkage.penalties(width, counts.contexts.n_plain)

    def penalised(flat: FloatArray) -> tuple[float, FloatArray]:
        model = Multinomial(*_unflattened(flat, n_products, width), shrinkage)
        loss, slope = _loss_and_slope(model, counts)
        loss += 0.5 * float((of_own * model.own**2).sum() + (of_shared * model.shared**2).sum())
        own = slope + of_own * model.own
        shared = traits.T @ slope + of_shared * model.shared
        return loss, np.concatenate([own.ravel(), shared.ravel()])

    first = np.concatenate([start.own.ravel(), start.shared.ravel()])
    options = {"maxiter": MOST_STEPS, "ftol": TOLERANCE, "gtol": 1e-3}
    found = minimize(penalised, first, jac=True, method="L-BFGS-B", options=options)
    return Multinomial(*_unflattened(found.x, n_products, width), shrinkage)


def _loss_and_slope(model: Multinomial, counts: Counts, with_slope: bool = True) -> tuple[float, FloatArray]:
    """Return minus the log-likelihood of choices, and its slope along the weights of products `(K, 1 + d)`."""
    loss = 0.0
    slope = np.zeros_like(model.own)
    for block, contexts in counts.contexts.blocks:
        pairs = counts.pairs_in(block)
        context = counts.context[pairs] - block.start
        action = counts.action[pairs]
        times = counts.times[pairs]
        chances = model.probabilities(contexts)
        # An exponential may underflow to 0, and the loss would be infinite.
        loss -= float(times @ np.log(np.maximum(chances[context, action], 1e-300)))
        if with_slope:
            # Minus the log-likelihood has the slope (expected - shown) x.
            chances *= np.bincount(context, times, len(chances))[:, None]
            chances[context, action] -= times
            slope += chances.T @ contexts.inputs
    return loss, slope


def solve_information(model: Multinomial, contexts: Contexts, slope: FloatArray, scale: float = 1.0) -> FloatArray:
    """Return the directions `(K, 1 + d)` that the penalised Fisher information maps to a `slope (K, 1 + d)`.

    The information is that of visits in `contexts`, `scale` times. Conjugate gradients with a diagonal preconditioner
    (Hestenes & Stiefel 1952).
    """
    traits = contexts.traits
    of_own, of_shared = model.shrinkage.penalties(slope.shape[1], contexts.n_plain)
    parts = [(part.inputs, model.probabilities(part)) for _, part in contexts.blocks]
    diagonal = scale * sum((chances * (1.0 - chances)).T @ inputs**2 for inputs, chances in parts)
    # Of shared weights an approximation, without products' covariances: a preconditioner need not be exact.
    by_diagonal = 1.0 / np.vstack([of_own + diagonal, of_shared + (traits**2).T @ diagonal])

    def applied(flat: FloatArray) -> FloatArray:
        own, shared = _unflattened(flat, len(traits), slope.shape[1])
        weights = own + traits @ shared
        image = np.zeros_like(own)
        for inputs, chances in parts:
            # The information of a visit is (diag(p) - p p') (x) x x'.
            moved = inputs @ weights.T
            moved -= (chances * moved).sum(axis=1, keepdims=True)
            image += scale * (chances * moved).T @ inputs
        return np.vstack([image + of_own * own, traits.T @ image + of_shared * shared]).ravel()

    target = np.vstack([slope, traits.T @ slope]).ravel()
    shape = (len(target), len(target))
    information = LinearOperator(shape, matvec=applied, dtype=np.float64)
    preconditioner = LinearOperator(shape, matvec=lambda flat: by_diagonal.ravel() * flat, dtype=np.float64)
    # All steps are made, unless nothing is left; before what is left is so small that its square is 0.
    direction = cg(information, target, rtol=1e-30, atol=0.0, maxiter=SOLVER_STEPS, M=preconditioner)[0]
    own, shared = _unflattened(direction, len(traits), slope.shape[1])
    return np.asarray(own + traits @ shared)


def scores_along(model: Multinomial, choices: ObservedChoices, direction: FloatArray) -> FloatArray:
    """Return the slope of each row's log-likelihood along a `direction (K, 1 + d)` of the weights: `(n,)`."""
    along = np.empty(len(choices.actions))
    for block, contexts in choices.contexts.blocks:
        moved = contexts.inputs @ direction.T
        expected = (model.probabilities(contexts) * moved).sum(axis=1)
        along[block] = moved[np.arange(len(moved)), choices.actions[block]] - expected
    return along


def weighted_slope(model: Multinomial, choices: ObservedChoices, weights: FloatArray) -> FloatArray:
    """Return the sum of each row's slope of the log-likelihood, times its `weights (n,)`: `(K, 1 + d)`."""
    total = np.zeros_like(model.own)
    for block, contexts in choices.contexts.blocks:
        slope = -model.probabilities(contexts)
        slope[np.arange(len(slope)), choices.actions[block]] += 1.0
        total += (slope * weights[block, None]).T @ contexts.inputs
    return total


def _unflattened(flat: FloatArray, n_products: int, width: int) -> tuple[FloatArray, FloatArray]:
    """Return products' own weights and the shared ones, which the optimiser holds in one row."""
    own, shared = np.split(flat, [n_products * width])
    return own.reshape(-1, width), shared.reshape(-1, width)
