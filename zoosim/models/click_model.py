"""A hierarchical logistic model: who responds to which product, and how sure that is.

The logit of a row is x' b_k, of the visitor's features x and the product's coefficients b_k
(`zoosim.models.hierarchy`), and the effects that rows share (`zoosim.models.row_effects`). All are normal a priori,
with variances that the data choose. Their posterior is taken to be normal around its mean, which solves the score
equations with the expected probability in place of that at the mean: so the model expects as many responses as came
(Opper & Archambeau 2009). Coefficients are drawn as if the effects of rows were known: where visitors come so often
that their effects are told from their features' by themselves, that is a little too sure.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import special

from zoosim.core.types import FloatArray, IntArray, Progress
from zoosim.models.hierarchy import (
    MANY_PRODUCTS,
    Design,
    Posterior,
    Sums,
    draw_coefficients,
    fit_hierarchy,
    start_variances,
)
from zoosim.models.many_products import fill_logits, fill_sums, largest_moves
from zoosim.models.row_effects import (
    LARGEST_STEP,
    Effects,
    Family,
    estimate_spread,
    no_effects,
    pair_moments,
    shrunk_effects,
)

ROUNDS = 14
UPDATES_A_ROUND = 2


class ClickModel(NamedTuple):
    """A fitted model: coefficients of all products with their posterior, and effects of each family."""

    design: Design
    sums: Sums
    posterior: Posterior
    effects: tuple[Effects, ...]

    def logits(self, visitors: FloatArray) -> FloatArray:
        """Return the mean logits of all products `(n, K)` for visitors `(n, q)`, without effects of rows."""
        return visitors @ self.posterior.mean.T

    def draw(self, draws: int, *, rng: np.random.Generator) -> FloatArray:
        """Draw the products' coefficients from the posterior `(draws, K, q)`."""
        return draw_coefficients(self.design, self.sums, self.posterior, draws, rng=rng)


def expected_probability(logits: FloatArray, variances: FloatArray) -> FloatArray:
    """Return the mean of the logistic function where logits are normal, to second order in their variance."""
    chances = special.expit(logits)
    return np.asarray(special.expit(logits + (0.5 - chances) * variances))


def fit_clicks(
    visitors: FloatArray,
    actions: IntArray,
    clicks: FloatArray,
    design: Design,
    families: Sequence[Family] = (),
    *,
    rounds: int = ROUNDS,
    progress: Progress = lambda line: None,
) -> ClickModel:
    """Fit the model to rows.

    Args:
        visitors: Features of each row's visitor `(n, q)`, the first column 1.
        actions: The product that each row showed `(n,)`.
        clicks: Whether it was clicked, 0 or 1, `(n,)`.
        design: The products' features, and which coefficients share a variance.
        families: Effects that rows share. A family that divides another comes after it.
        rounds: Passes over the rows.
        progress: Called with a line for each pass over the rows.
    """
    rows = _Rows(visitors, actions, clicks, len(design.products))
    variances = start_variances(design)
    mean = np.zeros((len(design.products), visitors.shape[1]))
    # Half a click more, so that the level is finite where none or all of the rows were clicked.
    mean[:, 0] = special.logit((clicks.sum() + 0.5) / (len(clicks) + 1.0))
    covariance = np.zeros((*mean.shape, visitors.shape[1]))
    effects = [no_effects(family) for family in families]
    for number in range(rounds):
        progress(f"pass {number + 1} of {rounds} over the rows")
        chances = rows.chances(mean, covariance, families, effects)
        sums = rows.sums(chances, mean)
        posterior = fit_hierarchy(design, sums, variances, UPDATES_A_ROUND)
        mean = mean + rows.step(mean, posterior.mean)
        covariance, variances = posterior.covariance, posterior.variances
        effects = _fit_effects(rows, mean, covariance, families, effects)
    return ClickModel(design, sums, posterior, tuple(effects))


class _Rows:
    """The rows of a log, sorted by product."""

    def __init__(self, visitors: FloatArray, actions: IntArray, clicks: FloatArray, n_products: int) -> None:
        # Stable, so that sums over the rows of a product run in the order of the log.
        self.order = np.argsort(actions, kind="stable")
        self.visitors = visitors[self.order]
        self.clicks = clicks[self.order]
        self.actions = actions[self.order]
        self.ends = np.searchsorted(self.actions, np.arange(n_products + 1))
        self.are_many = n_products > MANY_PRODUCTS  # then loops over products are compiled

    def logits(self, mean: FloatArray, covariance: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance of each row's logit, without effects."""
        logits = np.empty(len(self.clicks))
        variances = np.empty(len(self.clicks))
        if self.are_many:
            fill_logits(self.visitors, self.ends, mean, covariance, logits, variances)
            return logits, variances
        for product, (start, stop) in enumerate(zip(self.ends[:-1], self.ends[1:], strict=True)):
            x = self.visitors[start:stop]
            logits[start:stop] = x @ mean[product]
            variances[start:stop] = ((x @ covariance[product]) * x).sum(axis=1)
        return logits, variances

    def chances(
        self,
        mean: FloatArray,
        covariance: FloatArray,
        families: Sequence[Family],
        effects: Sequence[Effects],
        without: Sequence[int] = (),
    ) -> FloatArray:
        """Return each row's expected probability; of families `without` as if their groups had not been met."""
        logits, variances = self.logits(mean, covariance)
        for number, (family, of_family) in enumerate(zip(families, effects, strict=True)):
            if number in without:
                variances = variances + of_family.spread
            else:
                logits = logits + family.of_rows(of_family.mean)[self.order]
                variances = variances + family.of_rows(of_family.variance)[self.order]
        return expected_probability(logits, variances)

    def sums(self, chances: FloatArray, mean: FloatArray) -> Sums:
        """Return the quadratic approximation to the log likelihood of each product's coefficients."""
        weights = chances * (1.0 - chances)
        residuals = self.clicks - chances
        n_products, q = mean.shape
        precision = np.zeros((n_products, q, q))
        target = np.zeros((n_products, q))
        if self.are_many:
            fill_sums(self.visitors, self.ends, weights, residuals, mean, precision, target)
            return Sums(precision, target)
        for product, (start, stop) in enumerate(zip(self.ends[:-1], self.ends[1:], strict=True)):
            x = self.visitors[start:stop]
            precision[product] = x.T @ (x * weights[start:stop, None])
            target[product] = x.T @ residuals[start:stop]
        target += np.einsum("kij,kj->ki", precision, mean)
        return Sums(precision, target)

    def step(self, before: FloatArray, after: FloatArray) -> FloatArray:
        """Return the step from coefficients to others, for each product as long as its rows' logits permit."""
        step = after - before
        if self.are_many:
            moved = largest_moves(self.visitors, self.ends, step)
            return np.asarray(step * (LARGEST_STEP / np.maximum(moved, LARGEST_STEP))[:, None])
        for product, (start, stop) in enumerate(zip(self.ends[:-1], self.ends[1:], strict=True)):
            moved = np.abs(self.visitors[start:stop] @ step[product]).max(initial=LARGEST_STEP)
            step[product] *= LARGEST_STEP / moved
        return step

    def in_order(self, values: FloatArray) -> FloatArray:
        """Return values of sorted rows in the order of the log."""
        out = np.empty_like(values)
        out[self.order] = values
        return out


def _fit_effects(
    rows: _Rows, mean: FloatArray, covariance: FloatArray, families: Sequence[Family], effects: Sequence[Effects]
) -> list[Effects]:
    """Return the effects of each family, the others and the coefficients being as they are."""
    clicks = rows.in_order(rows.clicks)
    fitted = list(effects)
    for number, family in enumerate(families):
        if family.spread is None:
            estimate, error = _spread(rows, mean, covariance, families, fitted, number)
        else:
            estimate, error = family.spread, 0.0
        chances = rows.in_order(rows.chances(mean, covariance, families, fitted))
        residuals, weights = clicks - chances, chances * (1.0 - chances)
        fitted[number] = shrunk_effects(family, fitted[number], estimate, error, residuals, weights)
    return fitted


def _spread(
    rows: _Rows,
    mean: FloatArray,
    covariance: FloatArray,
    families: Sequence[Family],
    effects: Sequence[Effects],
    number: int,
) -> tuple[float, float]:
    """Estimate the variance of a family's effects from residuals in which neither they nor related effects count."""
    family = families[number]
    outer = number if family.within is None else family.within
    related = [place for place, other in enumerate(families) if outer in (place, other.within)]
    chances = rows.in_order(rows.chances(mean, covariance, families, effects, without=related))
    clicks = rows.in_order(rows.clicks)
    chances = _as_many(chances, clicks)
    residuals, weights = clicks - chances, chances * (1.0 - chances)
    moments = pair_moments(family, residuals, weights)
    for place in related:
        if families[place].within == number:  # pairs of different parts tell of the whole alone
            parts = pair_moments(families[place], residuals, weights)
            part_of = np.zeros(families[place].n_groups, np.int64)
            part_of[families[place].groups] = family.groups
            products = moments.products - np.bincount(part_of, parts.products, family.n_groups)
            weights_of_pairs = moments.weights - np.bincount(part_of, parts.weights, family.n_groups)
            moments = moments._replace(products=products, weights=weights_of_pairs)
    spread, error = estimate_spread(moments, effects[number].spread)
    if family.within is not None:
        spread -= effects[family.within].spread
    return spread, error


def _as_many(chances: FloatArray, clicks: FloatArray) -> FloatArray:
    """Return probabilities with their logits moved alike, to expect as many clicks as came (two Newton steps)."""
    for _ in range(2):
        step = (clicks.sum() - chances.sum()) / (chances * (1.0 - chances)).sum()
        chances = special.expit(special.logit(chances) + step)
    return chances
