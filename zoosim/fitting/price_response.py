"""How many clicks more or fewer a fitted search shop's segments make where a product's price is 10% higher."""

import numpy as np

from zoosim.core.search_config import Behaviour
from zoosim.core.statistics import Interval
from zoosim.core.types import BoolArray, FloatArray, IntArray
from zoosim.fitting.search_behaviour import FittedBehaviour
from zoosim.fitting.search_design import SearchDesign
from zoosim.fitting.search_parameters import parameter_effects

HIGHER = 0.10
"""By how much a price is higher, a share of it."""

NODES = 15
NORMAL = 1.96
"""How many standard errors reach from an estimate to the ends of its interval."""


def price_responses(design: SearchDesign, fitted: FittedBehaviour) -> tuple[Interval, ...]:
    """Return the relative change of each segment's clicks on a product whose price is 10% higher, with 95% intervals.

    The product keeps its place and all others their prices. Averaged over the products that the segment was shown, in
    proportion to the clicks on them, which is the change in their sum. -.05 are 5% fewer clicks. Errors by the delta
    method, those of `price_sd` left out, which hardly move it.

    Args:
        design: Searches, among whose clicks averages are taken.
        fitted: What was estimated.
    """
    design = design.head(fitted.depth)
    effects = parameter_effects(design, fitted.layout)
    values = fitted.layout.pack(fitted.estimates)
    utility = np.ravel(effects.predictors(values).utility)
    segment = np.repeat(design.segment, design.shown.shape[1])
    log_price = np.ravel(design.log_price)
    higher = np.log1p((1.0 + HIGHER) * np.expm1(log_price)) - log_price
    price_sd = float(fitted.estimates.price_sd)
    # Visitors differ more in what they think of dear products, which by itself changes how many of them click.
    noise_sd, higher_sd = (np.hypot(Behaviour().utility_sd, price_sd * at) for at in (log_price, log_price + higher))
    price = np.asarray(fitted.estimates.price)[segment]
    cells = _cells(design, segment, len(fitted.estimates.price))
    responses = []
    for number, rows in enumerate(cells):
        chance, slope = _click_chance(utility[rows], noise_sd[rows])
        moved, moved_slope = _click_chance(utility[rows] + price[rows] * higher[rows], higher_sd[rows])
        ratio = moved / chance
        by_utility = moved_slope / chance - ratio * slope / chance
        gradient = effects.matrix[rows].T @ by_utility / len(rows)
        gradient[fitted.layout.places("price")[number]] += np.mean(higher[rows] * moved_slope / chance)
        variance = gradient @ fitted.covariance @ gradient + ratio.var() / len(rows)
        value = float(ratio.mean() - 1.0)
        margin = NORMAL * float(np.sqrt(variance))
        responses.append(Interval(value, value - margin, value + margin))
    return tuple(responses)


def _cells(design: SearchDesign, segment: IntArray, n_segments: int) -> list[IntArray]:
    """Return the places that each segment clicked; all that it was shown where it clicked none."""
    clicked: BoolArray = np.ravel(design.clicks) > 0
    shown: BoolArray = np.ravel(design.shown) > 0
    cells = []
    for number in range(n_segments):
        of_segment = np.flatnonzero(clicked & (segment == number))
        if not len(of_segment):
            of_segment = np.flatnonzero(shown & (segment == number))
        cells.append(of_segment if len(of_segment) else np.flatnonzero(shown))
    return cells


def _click_chance(utility: FloatArray, sd: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the chance that an examined product is clicked, and its derivative, the noise of utility summed out."""
    points, weights = np.polynomial.hermite_e.hermegauss(NODES)
    weights = weights / weights.sum()
    chances = 1.0 / (1.0 + np.exp(-(utility[:, None] + sd[:, None] * points)))
    return chances @ weights, (chances * (1.0 - chances)) @ weights
