"""A generalised linear model in blocks: coefficients of each product, and effects that rows share.

The linear predictor of a row is x' b_k, of the visitor's features x and the product's coefficients b_k
(`zoosim.models.hierarchy`), and the effects of the row's groups (`zoosim.models.row_effects`). All are normal a priori,
with a variance a block that the data choose. Each pass over the rows makes the quadratic approximation to their log
likelihood (iteratively reweighted least squares) and solves for the blocks. The posterior is taken to be normal around
its mean, which solves the score equations with the expected response in place of that at the mean: so the model expects
as many clicks as came (Opper & Archambeau 2009). Coefficients are drawn as if the effects of rows were known: where
visitors come so often that their effects are told from their features' by themselves, that is a little too sure.
"""

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

import numpy as np
from scipy import special

from zoosim.core.threads import map_in_threads
from zoosim.core.types import FloatArray, IntArray, Progress
from zoosim.models.deviations import PrecisionBlock
from zoosim.models.hierarchy import (
    Covariances,
    Design,
    Posterior,
    ProductSums,
    draw_coefficients,
    fit_hierarchy,
    start_variances,
)
from zoosim.models.row_effects import (
    LARGEST_STEP,
    Family,
    RowEffects,
    estimate_spread,
    no_effects,
    pair_moments,
    shrunk_effects,
)

LEAST_SHARE = 1e-6
"""The least variance of residuals, as a share of that of all amounts."""

PRODUCTS_AT_ONCE, ROWS_AT_ONCE = 256, 2**15
"""Of a part of the rows at most, if more than one product stands there."""


class Response(Enum):
    """Kind of response: yes or no, by the logistic link, or amounts with normal noise, by the identity.

    `rounds` passes over the rows are made by default, with so many `updates` of variances in each.
    """

    CLICKS = 14, 2
    AMOUNTS = 6, 4

    def __init__(self, rounds: int, updates: int) -> None:
        self.rounds = rounds
        self.updates = updates


class FittedGLM(NamedTuple):
    """A fitted model: coefficients of all products with their posterior, and effects of each family.

    `sums` and `posterior` are those of responses less `level`, over `unit`, with `noise` as their variance around the
    linear predictor; clicks have 0, 1 and no noise. `residuals (n,)` are what the last pass left of these responses.
    """

    design: Design
    sums: ProductSums
    posterior: Posterior
    effects: tuple[RowEffects, ...]
    level: float
    unit: float
    noise: float
    residuals: FloatArray

    @property
    def shared(self) -> FloatArray:
        """The coefficients by products' features `(q, r)`, in units of the responses."""
        shared = self.unit * self.posterior.shared
        shared[0, 0] += self.level
        return shared

    @property
    def mean(self) -> FloatArray:
        """The products' coefficients `(K, q)`, in units of the responses."""
        return self._unscaled(self.posterior.mean)

    def draw(self, draws: int, *, rng: np.random.Generator) -> FloatArray:
        """Draw the products' coefficients from the posterior `(draws, K, q)`, in units of the responses."""
        return self._unscaled(draw_coefficients(self.design, self.sums, self.posterior, draws, rng=rng)[1])

    def _unscaled(self, coefficients: FloatArray) -> FloatArray:
        in_units = self.unit * coefficients
        in_units[..., 0] += self.level
        return in_units


def expected_probability(logits: FloatArray, variances: FloatArray) -> FloatArray:
    """Return the mean of the logistic function where logits are normal, to second order in their variance."""
    # E s(l) is near s + s'' v / 2, and s'' = s' (1 - 2 s): as if the logit moved by (1/2 - s) v.
    chances = special.expit(logits)
    return np.asarray(special.expit(logits + (0.5 - chances) * variances))


def fit_glm(
    response: Response,
    visitors: FloatArray,
    actions: IntArray,
    values: FloatArray,
    design: Design,
    families: Sequence[Family] = (),
    *,
    rounds: int | None = None,
    progress: Progress = lambda line: None,
) -> FittedGLM:
    """Fit the model to rows.

    Args:
        response: What the responses are.
        visitors: Features of each row's visitor `(n, q)`, the first column 1.
        actions: The product that each row showed `(n,)`.
        values: Whether it was clicked, 0 or 1, or what it was worth, `(n,)`.
        design: The products' features, and which coefficients share a variance. Priors of amounts are as wide as these
            vary.
        families: Effects that rows of clicks share. A family that divides another comes after it.
        rounds: Passes over the rows.
        progress: Called with a line for each pass over the rows.
    """
    rows = RowsByProduct(visitors, actions, len(design.products))
    are_clicks = response is Response.CLICKS
    mean = np.zeros((len(design.products), visitors.shape[1]))
    level = 0.0
    unit = 1.0
    noise = 0.0
    if are_clicks:
        # Half a click more, so that the level is finite where none or all of the rows were clicked.
        mean[:, 0] = special.logit((values.sum() + 0.5) / (len(values) + 1.0))
    else:
        # Amounts that are all alike have no spread to be measured by.
        level = float(values.mean())
        unit = float(values.std()) or 1.0
        noise = 1.0
        values = (values - level) / unit
    variances = start_variances(design)
    effects = [no_effects(family) for family in families]
    rounds = rounds or response.rounds
    linear, spread = rows.predictor(mean, np.broadcast_to(0.0, (*mean.shape, mean.shape[1])))
    # Amounts once more, without new variances, at the noise that the last round ended with.
    for number in range(rounds if are_clicks else rounds + 1):
        if are_clicks:
            progress(f"pass {number + 1} of {rounds} over the rows")
            chances = _chances(linear, spread, families, effects)
            residuals = values - chances
            weights = chances * (1.0 - chances)
            sums = rows.sums(residuals, weights, mean)
        else:
            residuals = values - linear
            # E (y - x'b)^2 over the posterior: the squared residual plus the variance of x'b, as in the M step of EM.
            # In the first round nothing is explained yet, and amounts have been brought to a variance of 1.
            noise = max(float((residuals**2 + spread).mean()), LEAST_SHARE) if number else 1.0
            sums = rows.sums(residuals / noise, np.full(len(values), 1.0 / noise), mean)
        posterior = fit_hierarchy(design, sums, variances, response.updates if number < rounds else 0)
        variances = posterior.variances
        mean = mean + rows.limited(posterior.mean - mean) if are_clicks else posterior.mean
        linear, spread = rows.predictor(mean, posterior.covariance)
        effects = _fit_effects(linear, spread, values, families, effects)
    return FittedGLM(design, sums, posterior, tuple(effects), level, unit, noise, residuals)


class RowsByProduct:
    """Rows of visitors `(n, q)` by the product that each showed, in parts of products with about as many rows each.

    A part holds its products `(B,)`, the numbers of their rows `(B, m)`, n where a product has fewer, and the visitors
    of these rows `(B, m, q)`, 0 where there is none.
    """

    def __init__(self, visitors: FloatArray, actions: IntArray, n_products: int) -> None:
        self.n = n = len(actions)
        self.parts: list[tuple[IntArray, IntArray, FloatArray]] = []
        counts = np.bincount(actions, minlength=n_products)
        # Stable, so that sums over the rows of a product run in the order of the log.
        order = np.argsort(actions, kind="stable")
        starts = np.cumsum(counts) - counts
        padded = np.vstack([visitors, np.zeros(visitors.shape[1])])
        # Products with about as many rows stand together, so that little of a part is padding.
        left = np.argsort(-counts, kind="stable")
        while len(left):
            most = int(counts[left[0]])
            products, left = np.split(left, [max(1, min(PRODUCTS_AT_ONCE, ROWS_AT_ONCE // max(most, 1)))])
            places = starts[products, None] + np.arange(most)
            rows = np.where(np.arange(most) < counts[products, None], order[np.minimum(places, n - 1)], n)
            self.parts.append((products, rows, padded[rows]))

    def predictor(self, mean: FloatArray, covariance: FloatArray | Covariances) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance of each row's linear predictor `(n,)`, without effects."""
        # One place more, which padding writes to; it is cut off at the end.
        linear, variances = np.empty((2, self.n + 1))

        def predict(part: tuple[IntArray, IntArray, FloatArray]) -> None:
            products, rows, x = part
            linear[rows] = (x @ mean[products, :, None])[:, :, 0]
            variances[rows] = ((x @ covariance[products]) * x).sum(axis=2)

        map_in_threads(predict, self.parts)
        return linear[:-1], variances[:-1]

    def sums(self, scores: FloatArray, weights: FloatArray, mean: FloatArray) -> ProductSums:
        """Return the quadratic approximation to the log likelihood of each product's coefficients around `mean`.

        Args:
            scores: Its derivative by each row's linear predictor `(n,)`.
            weights: The negative of the second one.
            mean: Coefficients `(K, q)`.
        """
        target = np.zeros_like(mean)
        scores = np.append(scores, 0.0)
        weights = np.append(weights, 0.0)
        parts = []
        for products, rows, x in self.parts:
            of_rows = weights[rows][:, :, None]
            turned = x.transpose(0, 2, 1)
            # Newton in its full form: with precision X'WX the target is
            # X'(score + W X b), b being the coefficients so far.
            target[products] = (turned @ (scores[rows][:, :, None] + of_rows * (x @ mean[products, :, None])))[:, :, 0]
            has_few = x.shape[1] < x.shape[2]
            parts.append(PrecisionBlock(products, x * np.sqrt(of_rows) if has_few else turned @ (x * of_rows)))
        return ProductSums(tuple(parts), target)

    def limited(self, step: FloatArray) -> FloatArray:
        """Return a step of the coefficients `(K, q)`, for each product as long as its rows' predictors permit."""
        step = step.copy()
        for products, _, x in self.parts:
            # At least the longest step that is allowed, so that shorter ones are divided by nothing.
            moved = np.abs(x @ step[products, :, None]).max(axis=(1, 2), initial=LARGEST_STEP)
            step[products] *= (LARGEST_STEP / moved)[:, None]
        return step


def _chances(
    logits: FloatArray,
    variances: FloatArray,
    families: Sequence[Family],
    effects: Sequence[RowEffects],
    without: Sequence[int] = (),
) -> FloatArray:
    """Return each row's expected probability `(n,)`.

    Args:
        logits: Means of the rows' logits without effects `(n,)`.
        variances: Their variances.
        families: Effects that rows share.
        effects: What is known of these.
        without: Families that count as if their groups had not been met.
    """
    for number, (family, of_family) in enumerate(zip(families, effects, strict=True)):
        if number in without:
            variances = variances + of_family.spread
        else:
            logits = logits + family.of_rows(of_family.mean)
            variances = variances + family.of_rows(of_family.variance)
    return expected_probability(logits, variances)


def _fit_effects(
    logits: FloatArray,
    variances: FloatArray,
    clicks: FloatArray,
    families: Sequence[Family],
    effects: Sequence[RowEffects],
) -> list[RowEffects]:
    """Return the effects of each family, the others and the coefficients being as they are; see `_chances`."""
    fitted = list(effects)
    for number, family in enumerate(families):
        if family.spread is None:
            chances = _chances(logits, variances, families, fitted, without=_related(families, number))
            # Residuals must add up to 0: an offset that all rows share would make all pairs agree, and pass for spread.
            estimate, error = _spread(_as_many(chances, clicks), clicks, families, fitted, number)
        else:
            estimate = family.spread
            error = 0.0
        chances = _chances(logits, variances, families, fitted)
        weights = chances * (1.0 - chances)
        fitted[number] = shrunk_effects(family, fitted[number], estimate, error, clicks - chances, weights)
    return fitted


def _related(families: Sequence[Family], number: int) -> list[int]:
    """Return the places of a family, of that which it divides, and of all others that divide the same."""
    within = families[number].within
    outer = number if within is None else within
    return [place for place, other in enumerate(families) if outer in (place, other.within)]


def _spread(
    chances: FloatArray, clicks: FloatArray, families: Sequence[Family], effects: Sequence[RowEffects], number: int
) -> tuple[float, float]:
    """Estimate the variance of a family's effects by chances `(n,)` in which neither they nor related effects count."""
    family = families[number]
    residuals = clicks - chances
    weights = chances * (1.0 - chances)
    moments = pair_moments(family, residuals, weights)
    for part in families:
        if part.within == number:  # pairs of different parts tell of the whole alone
            parts = pair_moments(part, residuals, weights)
            part_of = np.zeros(part.n_groups, np.int64)
            part_of[part.groups] = family.groups
            products = moments.products - np.bincount(part_of, parts.products, family.n_groups)
            weights_of_pairs = moments.weights - np.bincount(part_of, parts.weights, family.n_groups)
            moments = moments._replace(products=products, weights=weights_of_pairs)
    spread, error = estimate_spread(moments, effects[number].spread)
    if family.within is not None:
        # Two rows of one part share the effect of the part and that of the
        # whole, so the latter's variance is taken off.
        spread -= effects[family.within].spread
    return spread, error


def _as_many(chances: FloatArray, clicks: FloatArray) -> FloatArray:
    """Return probabilities with their logits moved alike, to expect as many clicks as came (two Newton steps)."""
    for _ in range(2):
        step = (clicks.sum() - chances.sum()) / (chances * (1.0 - chances)).sum()
        chances = special.expit(special.logit(chances) + step)
    return chances
