"""The likelihood of the clicks and purchases of searches, and its gradient for each search.

Visitors look from the top and leave sooner or later: a cascade (Craswell et al. 2008) with abandonment that depends on
the position, the type of the query and the satisfaction so far (Chapelle & Zhang 2009, whose satisfaction is a click's
own). What nobody reports is summed out: which positions below the last click were examined, by a recursion from the
bottom; the noise of utilities, and how much visitors of a segment differ in their taste for price, by Gauss-Hermite
quadrature. One thing is approximate: satisfaction follows from the utility that a click or purchase lets expect, with
its variance, not from the utility itself.
"""

import math
from typing import NamedTuple

import numpy as np

from zoosim.core.jit import jit
from zoosim.core.search_config import Behaviour
from zoosim.core.types import FloatArray
from zoosim.fitting.search_design import SearchDesign
from zoosim.fitting.search_parameters import Predictors

NODES = 5
VISITOR_NODES = 3
"""Points of the quadrature over utilities, and over visitors' tastes for price."""

LEAST_SD = 0.02
LEAST_CHANCE = 1e-4
"""The least deviation of satisfaction, and the least chance of staying: a click below has happened all the same."""

USUAL = Behaviour()
USUAL_SD = USUAL.utility_sd
USUAL_SKIP = USUAL.skip_satisfaction
USUAL_CLICK = USUAL.click_satisfaction
USUAL_PURCHASE = USUAL.purchase_satisfaction
USUAL_MOST = USUAL.max_purchases
LEAVE = USUAL.leave_below + 0.5 * USUAL.skip_satisfaction
"""Satisfaction at which a visitor leaves. Half a skip is added, so that rounding does not decide whether a visitor who
never clicked is still there."""

# Rows of what is computed at the positions of a search. What an examined product brings about: the chance of the click,
# purchase or skip that is seen, the expected change of satisfaction, and its variance (the doubt) ...
CHANCE, CHANGE, DOUBT = range(3)
# ... with the derivatives of each of the three by the utility, the slope of a purchase and its log odds ...
BY_UTILITY, BY_SLOPE, BY_PURCHASE = 3, 6, 9
# ... then what is so far: satisfaction and its deviation, the chances that visitors are still there and that they look,
# and the chance of all that is seen from a position on.
SATISFACTION, DEVIATION, STAYS, LOOKS, REST = range(12, 17)
ROWS = 17


def log_likelihoods(predictors: Predictors, design: SearchDesign) -> FloatArray:
    """Return the log likelihood of each search `(n,)`."""
    return _evaluated(predictors, design, derive=False)[0]


def gradients(predictors: Predictors, design: SearchDesign) -> tuple[FloatArray, Predictors]:
    """Return the log likelihood of each search `(n,)`, and its derivative by each of the search's predictors."""
    return _evaluated(predictors, design, derive=True)


class Outcomes(NamedTuple):
    """The outcomes of n searches: `shown`, `clicks` and `purchases`, 0 or 1, and `log_price`, each `(n, L)`."""

    shown: FloatArray
    clicks: FloatArray
    purchases: FloatArray
    log_price: FloatArray


class Rule(NamedTuple):
    """Points of a quadrature over N(0, 1), and their shares."""

    points: FloatArray
    weights: FloatArray


def _rule(nodes: int) -> Rule:
    points, weights = np.polynomial.hermite_e.hermegauss(nodes)
    # Weights of exp(-x^2 / 2) add up to sqrt(2 pi); N(0, 1) has shares.
    return Rule(points, weights / weights.sum())


def _evaluated(predictors: Predictors, design: SearchDesign, derive: bool) -> tuple[FloatArray, Predictors]:
    inputs = Predictors(*(np.ascontiguousarray(part, np.float64) for part in predictors))
    seen = Outcomes(*(np.ascontiguousarray(getattr(design, name), np.float64) for name in Outcomes._fields))
    values = np.empty(len(seen.shown))
    slopes = Predictors(*(np.zeros_like(part) for part in inputs))
    _evaluate(inputs, seen, _rule(NODES), _rule(VISITOR_NODES), derive, values, slopes)
    return values, slopes


@jit
def _evaluate(
    predictors: Predictors,
    seen: Outcomes,
    noise: Rule,
    tastes: Rule,
    derive: bool,
    values: FloatArray,
    slopes: Predictors,
) -> None:
    """Write log likelihoods `(n,)`, and add their derivatives to `slopes` if they are wanted."""
    count, length = seen.shown.shape
    work = np.empty((VISITOR_NODES, ROWS, length + 1))
    by_taste = np.empty(VISITOR_NODES)
    for n in range(count):
        highest = -np.inf
        for t in range(VISITOR_NODES):
            for j in range(length):
                utility = predictors.utility[n, j] + tastes.points[t] * predictors.price_sd[n] * seen.log_price[n, j]
                if seen.clicks[n, j] > 0.0:
                    odds = predictors.purchase[n, j]
                    slope = predictors.purchase_slope[n]
                    _click(utility, odds, slope, seen.purchases[n, j], noise, work[t, :, j])
                else:
                    _skip(utility, noise, work[t, :, j])
            by_taste[t] = _chance_of_all(n, predictors, seen, work[t])
            highest = max(highest, by_taste[t])
        total = 0.0
        for t in range(VISITOR_NODES):
            # Relative to the likeliest taste, so that not all of them underflow.
            by_taste[t] = tastes.weights[t] * np.exp(by_taste[t] - highest)
            total += by_taste[t]
        values[n] = highest + np.log(total)
        if derive:
            for t in range(VISITOR_NODES):
                # The slope of a log of a sum is the mean of the terms' own,
                # weighted by each taste's share of the likelihood.
                _derive(n, by_taste[t] / total, tastes.points[t], predictors, seen, work[t], slopes)


@jit
def _sigmoid(x: float) -> float:
    return float(1.0 / (1.0 + np.exp(-x)))


@jit
def _skip(utility: float, noise: Rule, out: FloatArray) -> None:
    """Write what an examined product without a click brings about, the noise of utilities summed out."""
    for row in range(BY_PURCHASE + 3):
        out[row] = 0.0
    out[CHANGE] = USUAL_SKIP
    for k in range(NODES):
        skips = _sigmoid(-utility - USUAL_SD * noise.points[k])
        out[CHANCE] += noise.weights[k] * skips
        out[BY_UTILITY + CHANCE] -= noise.weights[k] * skips * (1.0 - skips)


@jit
def _click(utility: float, odds: float, slope: float, bought: float, noise: Rule, out: FloatArray) -> None:
    """Write what a click brings about, with a purchase or none, the noise of utilities summed out."""
    sign = 2.0 * bought - 1.0
    chance = 0.0
    first = 0.0
    second = 0.0
    for row in range(BY_PURCHASE + 3):
        out[row] = 0.0
    for k in range(NODES):
        u = utility + USUAL_SD * noise.points[k]
        joint = noise.weights[k] * _sigmoid(u) * _sigmoid(sign * (slope * u + odds))
        chance += joint
        first += joint * u
        second += joint * u * u
    # Bayes: given a click, and a purchase or none, the utility has these moments.
    first /= chance
    second /= chance
    variance = second - first * first
    out[CHANCE] = chance
    out[CHANGE] = USUAL_CLICK * first + USUAL_PURCHASE * bought
    out[DOUBT] = USUAL_CLICK**2 * max(variance, 0.0)
    # Each derivative is that of log(joint), the mean of which over the nodes moves the chance and the two moments.
    for k in range(NODES):
        u = utility + USUAL_SD * noise.points[k]
        buys = sign * (slope * u + odds)
        joint = noise.weights[k] * _sigmoid(u) * _sigmoid(buys)
        by_odds = sign * _sigmoid(-buys)
        far = (u * u - second - 2.0 * first * (u - first)) * (variance > 0.0)
        for start, by in (
            (BY_UTILITY, _sigmoid(-u) + slope * by_odds),
            (BY_SLOPE, u * by_odds),
            (BY_PURCHASE, by_odds),
        ):
            out[start + CHANCE] += joint * by
            out[start + CHANGE] += USUAL_CLICK * joint * by * (u - first) / chance
            out[start + DOUBT] += USUAL_CLICK**2 * joint * by * far / chance
    out[BY_UTILITY + CHANGE] += USUAL_CLICK  # a utility moves all nodes with it


@jit
def _chance_of_all(n: int, predictors: Predictors, seen: Outcomes, work: FloatArray) -> float:
    """Return the log likelihood of search n, whose reactions stand in `work`, and write what it follows from."""
    length = seen.shown.shape[1]
    so_far = 0.0
    doubt = 0.0
    bought = 0.0
    last_click = -1
    for j in range(length):
        deviation = math.sqrt(max(doubt, LEAST_SD**2))
        work[SATISFACTION, j] = so_far
        work[DEVIATION, j] = deviation
        work[STAYS, j] = LEAST_CHANCE
        if bought < USUAL_MOST:
            work[STAYS, j] = max(0.5 * math.erfc(-(so_far - LEAVE) / deviation / math.sqrt(2.0)), LEAST_CHANCE)
        work[LOOKS, j] = _sigmoid(predictors.look[n, j] + predictors.examine_satisfaction[n] * so_far)
        so_far += work[CHANGE, j]
        doubt += work[DOUBT, j]
        bought += seen.purchases[n, j]
        if seen.clicks[n, j] > 0.0:
            last_click = j
    # From the bottom up: the chance of all that is seen from a position on, given that its visitor came to it.
    work[REST, length] = 1.0
    for j in range(length - 1, -1, -1):
        examines = seen.shown[n, j] * work[STAYS, j] * work[LOOKS, j]
        goes_on = examines * work[CHANCE, j] * work[REST, j + 1]
        # Down to the last click all positions were examined; below it the visitor may have left, which looks the same.
        work[REST, j] = goes_on if j <= last_click else 1.0 - examines + goes_on
    return float(np.log(work[REST, 0]))


@jit
def _derive(
    n: int,
    share: float,
    taste: float,
    predictors: Predictors,
    seen: Outcomes,
    work: FloatArray,
    slopes: Predictors,
) -> None:
    """Add `share` times the derivatives of the log likelihood of search n, backwards through `_chance_of_all`.

    Its rows of chances, satisfaction and deviations are overwritten by derivatives.
    """
    length = seen.shown.shape[1]
    by_rest = share / work[REST, 0]
    last_click = -1
    for j in range(length):
        if seen.clicks[n, j] > 0.0:
            last_click = j
    for j in range(length):
        stays = work[STAYS, j]
        looks = work[LOOKS, j]
        chance = work[CHANCE, j]
        below = work[REST, j + 1]
        by_examines = by_rest * (chance * below - (0.0 if j <= last_click else 1.0)) * seen.shown[n, j]
        work[CHANCE, j] = by_rest * seen.shown[n, j] * stays * looks * below
        by_rest *= seen.shown[n, j] * stays * looks * chance  # what the position below is reached by
        by_odds = by_examines * stays * looks * (1.0 - looks)
        slopes.look[n, j] += by_odds
        slopes.examine_satisfaction[n] += by_odds * work[SATISFACTION, j]
        by_satisfaction = by_odds * predictors.examine_satisfaction[n]
        by_doubt = 0.0
        # At its bound the chance does not move.
        if stays > LEAST_CHANCE:
            deviation = work[DEVIATION, j]
            z = (work[SATISFACTION, j] - LEAVE) / deviation
            # The chance of staying is the normal distribution function at z, whose slope is the density.
            by_z = by_examines * looks * math.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
            by_satisfaction += by_z / deviation
            if deviation > LEAST_SD:
                # z goes by 1 / sqrt(doubt), so its slope along the doubt is -z / (2 doubt).
                by_doubt = -0.5 * by_z * z / deviation**2
        work[SATISFACTION, j] = by_satisfaction
        work[DEVIATION, j] = by_doubt
    # What changes satisfaction at a position changes that of all positions below.
    by_change = 0.0
    by_doubt = 0.0
    for j in range(length - 1, -1, -1):
        moved = work[:, j]
        by_utility = _through(moved, BY_UTILITY, by_change, by_doubt)
        slopes.utility[n, j] += by_utility
        slopes.price_sd[n] += by_utility * taste * seen.log_price[n, j]
        slopes.purchase_slope[n] += _through(moved, BY_SLOPE, by_change, by_doubt)
        slopes.purchase[n, j] += _through(moved, BY_PURCHASE, by_change, by_doubt)
        by_change += moved[SATISFACTION]
        by_doubt += moved[DEVIATION]


@jit
def _through(moved: FloatArray, start: int, by_change: float, by_doubt: float) -> float:
    """Return a derivative through the chance, the change and the doubt of one position."""
    later = by_change * moved[start + CHANGE] + by_doubt * moved[start + DOUBT]
    return float(moved[CHANCE] * moved[start + CHANCE] + later)
