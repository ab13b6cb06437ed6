"""Estimate from a log of rankings how visitors examine, click and buy: by maximum likelihood, with pooled effects.

Segments differ in how often they click, in how far down they look, and in what price, private labels and categories
do to them; products in how often they are clicked beyond what their columns say. Each kind of effect is drawn from a
normal distribution whose variance is estimated (empirical Bayes): what little a log says of a small segment or a rare
product is drawn towards the others, and what differs between them is not mistaken for a response to price.

Not identified, and left as in `Behaviour`: the noise of utilities, what a click, a purchase and a skip do to
satisfaction, and the weights of price and private label, whose products with the segments' tastes are estimated.
"""

from typing import NamedTuple

import numpy as np
from scipy import sparse

from zoosim.core.types import FloatArray, Progress
from zoosim.fitting.search_design import DesignSizes, SearchDesign
from zoosim.fitting.search_likelihood import gradients, log_likelihoods
from zoosim.fitting.search_parameters import (
    KINDS,
    MOST_POSITIONS,
    EstimatedParameters,
    Layout,
    ParameterEffects,
    parameter_effects,
)

INFORMATIVE = 0.995
"""The share of the clicks that the positions have which are looked at."""

MOST_STEPS = 30
SMALL_STEP = 0.05
"""The fit ends when no estimate moves by more than this share of its standard error."""

SMALL_CHANGE = 0.03
"""... and no standard deviation of a kind of effects by more than this share of itself."""

HALVINGS = 6


class FittedBehaviour(NamedTuple):
    """Estimates, their standard `errors`, and the mean log likelihood of a search.

    `sds` are the estimated standard deviations of the kinds of effects. `covariance (P, P)` is that of the estimates in
    the order of `layout`. `depth` positions from the top were looked at.
    """

    estimates: EstimatedParameters
    errors: EstimatedParameters
    log_likelihood: float
    sds: dict[str, float]
    layout: Layout
    covariance: FloatArray
    depth: int


def fit_behaviour(
    design: SearchDesign,
    sizes: DesignSizes,
    *,
    start: FittedBehaviour | None = None,
    progress: Progress = lambda line: None,
) -> FittedBehaviour:
    """Estimate behaviour from searches.

    Args:
        design: The searches.
        sizes: Of the shop.
        start: A fit to begin from; by default the behaviour of the built-in search world.
        progress: Called with a line now and then.
    """
    design = design.head(informative_depth(design))
    n_positions = min(MOST_POSITIONS, design.shown.shape[1])
    layout = Layout.of(sizes, n_positions)
    values = layout.prior_mean()
    sds = {name: kind.usual_sd for name, kind in KINDS.items()}
    if start is not None:
        # A start of fewer positions lends those beyond the bias of its last one.
        places = np.minimum(np.arange(n_positions), start.estimates.bias.shape[1] - 1)
        values = layout.pack(start.estimates._replace(bias=start.estimates.bias[:, places]))
        sds = start.sds
    return _fit(parameter_effects(design, layout), design, layout, values, sds, progress)


def informative_depth(design: SearchDesign) -> int:
    """Return how many positions from the top have nearly all clicks: those below cost time and tell next to nothing.

    What happens at the first positions does not depend on those below, so leaving these out biases nothing.
    """
    clicks = np.cumsum(design.clicks.sum(axis=0))
    return int(np.searchsorted(clicks, INFORMATIVE * clicks[-1])) + 1


def _fit(
    effects: ParameterEffects,
    design: SearchDesign,
    layout: Layout,
    values: FloatArray,
    sds: dict[str, float],
    progress: Progress,
) -> FittedBehaviour:
    """Climb by scoring, and let the kinds' variances follow what is known of their effects after each step.

    Information is the outer product of the searches' gradients (Berndt, Hall, Hall & Hausman 1974).
    """
    prior = layout.prior_mean()
    for step in range(MOST_STEPS):
        precision = layout.prior_precision(sds)
        likelihoods, slopes = gradients(effects.predictors(values), design)
        scores = effects.scores(slopes)
        gradient = np.asarray(scores.sum(axis=0)).reshape(-1) - precision @ (values - prior)
        # The whole inverse, as errors and the kinds' variances are read from it, too.
        covariance = np.asarray(np.linalg.inv(_information(scores) + precision), np.float64)
        change = covariance @ gradient
        errors = np.sqrt(np.diag(covariance))
        largest = float(np.abs(change / errors).max())
        progress(f"fitting behaviour, step {step + 1}: estimates move by {largest:.2g} standard errors")
        updated = layout.updated_sds(values, covariance, sds)
        moves = max(abs(updated[name] / sds[name] - 1.0) for name in sds)
        # Both must settle: while priors move, estimates follow.
        if largest < SMALL_STEP and moves < SMALL_CHANGE:
            break
        values = _climb(values, change, float(likelihoods.sum()), effects, design, prior, precision)
        if largest < 1.0:  # far from the estimates, effects that are not yet there say nothing of their variance
            sds = updated
    estimates = layout.unpack(values)
    # Tastes lie alike on both sides of 0, so the likelihood does not know its sign.
    estimates = estimates._replace(price_sd=np.abs(estimates.price_sd))
    mean = float(likelihoods.mean())
    return FittedBehaviour(estimates, layout.unpack(errors), mean, sds, layout, covariance, effects.length)


def _information(scores: sparse.csr_array) -> FloatArray:
    # Never indefinite, which second derivatives may be far from the maximum; and it takes first ones alone.
    information: FloatArray = (scores.T @ scores).toarray()
    return information


def _climb(
    values: FloatArray,
    change: FloatArray,
    likelihood: float,
    effects: ParameterEffects,
    design: SearchDesign,
    prior: FloatArray,
    precision: FloatArray,
) -> FloatArray:
    """Return parameters after a step, halved until the posterior density is no lower than before."""
    away = values - prior
    before = likelihood - 0.5 * away @ precision @ away
    for halving in range(HALVINGS):
        moved = values + change / 2**halving
        away = moved - prior
        after = float(log_likelihoods(effects.predictors(moved), design).sum() - 0.5 * away @ precision @ away)
        # Near the top, rounding must not refuse a step.
        if after >= before - 1e-6:
            return np.asarray(moved)
    # No halving gained anything. The next step is another one if variances move, so the loop may go on.
    return values
