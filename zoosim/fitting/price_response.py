"""The response of segments' clicks to a price that is 10% higher, whatever way visitors look.

A click needs that a product is looked at and liked, and its chance is the product of both. So in a model of the
logarithm of that chance (Poisson pseudo-maximum likelihood, Santos Silva & Tenreyro 2006), how far visitors look is an
effect of segment, position, type of query and the clicks above, free of any theory of looking, and the effect of a
price is what it adds. That differs from the fitted world's own response, which is right only as far as its cascade and
its logit are.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from zoosim.core.statistics import Interval
from zoosim.core.types import FloatArray, IntArray
from zoosim.fitting.search_behaviour import informative_depth
from zoosim.fitting.search_design import DesignSizes, SearchDesign
from zoosim.fitting.search_parameters import OVERSHOOT

HIGHER = 0.10
"""By how much a price is higher, a share of it."""

NORMAL = 1.96
"""Standard errors from an estimate to the ends of its interval."""

MOST_CLICKS_ABOVE = 2
"""Clicks above a position that are told apart: so many, or more."""

FREE_SD = 3.0
"""Prior standard deviation of effects that are not pooled, around 0 or the mean click rate."""

USUAL_SD = 0.3
PRIOR_WEIGHT = 0.1
"""The standard deviation of pooled effects before anything is known, and as how many effects that counts."""

MOST_STEPS = 60
LARGEST_STEP = 2.0
SMALL_STEP = 1e-3
SMALL_CHANGE = 0.02
"""Of Newton's method: how far a step moves a log chance at most; by how much it ends; and of variances, a share."""


class _Clicks(NamedTuple):
    """The m products shown: who saw them, whether they were clicked, and their log(1 + price)."""

    user: IntArray
    segment: IntArray
    clicks: FloatArray
    log_price: FloatArray


class _Effects(NamedTuple):
    """The design of the log chance of a click: a `matrix (m, P)`; where each kind stands; which are `pooled`."""

    matrix: sparse.csr_array
    places: dict[str, slice]
    pooled: frozenset[str]


def price_responses(design: SearchDesign, sizes: DesignSizes, users: IntArray) -> tuple[Interval, ...]:
    """Return the relative change of each segment's clicks on a product whose price is 10% higher, with 95% intervals.

    The product keeps its place and all others their prices. Averaged over the products that the segment was shown, in
    proportion to the clicks on them, which is the change in their sum. -.05 are 5% fewer clicks. The log chance is a
    parabola of log(1 + price) for each segment. Products differ beyond their columns; errors count that, and that what
    one user does hangs together (clustered, Liang & Zeger 1986), by the delta method.

    Args:
        design: n searches.
        sizes: Of the shop.
        users: Who searched `(n,)`, by name or number.
    """
    design = design.head(informative_depth(design))
    seen = _seen(design, users)
    effects = _effects(design, sizes)
    values, covariance = _fit(effects, seen)
    # From log(1 + price) back to the price, and from the higher one to its logarithm.
    dearer = np.log1p((1.0 + HIGHER) * np.expm1(seen.log_price))
    difference = _curve(dearer, seen.log_price) - _curve(seen.log_price, seen.log_price)
    responses = []
    for number in range(sizes.segments):
        rows, weights = _weights(seen, number)
        # Two columns per segment, side by side, as `_columns` lays them out.
        own = np.arange(effects.matrix.shape[1])[effects.places["price"]].reshape(-1, 2)[number]
        change = difference[rows]
        ratio = np.exp(change @ values[own])
        # The derivative of sum w exp(d'b) by b.
        gradient = (weights * ratio) @ change
        value = float(weights @ ratio - 1.0)
        # Which products were clicked is chance, too: the mean is over the clicks that there happened to be.
        variance = gradient @ covariance[np.ix_(own, own)] @ gradient + weights**2 @ (ratio - 1.0 - value) ** 2
        margin = NORMAL * float(np.sqrt(variance))
        responses.append(Interval(value, value - margin, value + margin))
    return tuple(responses)


def _seen(design: SearchDesign, users: IntArray) -> _Clicks:
    """Return what was shown, one product after the other."""
    shown = np.ravel(design.shown) > 0
    length = design.shown.shape[1]
    user, segment = (
        np.repeat(part, length)[shown] for part in (np.unique(users, return_inverse=True)[1], design.segment)
    )
    return _Clicks(user.reshape(-1), segment, np.ravel(design.clicks)[shown], np.ravel(design.log_price)[shown])


def _effects(design: SearchDesign, sizes: DesignSizes) -> _Effects:
    """Return what effects do to what was shown."""
    shown = np.ravel(design.shown) > 0
    n, length = design.shown.shape
    segment, kind = (np.repeat(part, length)[shown] for part in (design.segment, design.query_type))
    position = np.tile(np.arange(length), n)[shown]
    # Clicks above decide whether a visitor goes on; what stands below cannot matter.
    clicks_above = (np.cumsum(design.clicks, axis=1) - design.clicks).clip(max=MOST_CLICKS_ABOVE).astype(np.int64)
    above = np.ravel(clicks_above)[shown]
    category, product = (np.ravel(part)[shown] for part in (design.category, design.product))
    log_price, label, score, taste = (
        np.ravel(part)[shown] for part in (design.log_price, design.label, design.score, design.taste)
    )
    # Base scores come in any unit, and `FREE_SD` is meant for standardised ones.
    score = (score - score.mean()) / max(float(score.std()), 1e-9)
    ones = np.ones(len(score))
    histories = MOST_CLICKS_ABOVE + 1
    # Hardly shrunk: pulling the effect of a price towards 0 would bias the answer. What is pooled only has to be out of
    # its way.
    free = {
        "position": _columns(segment * length + position, sizes.segments * length, ones),
        "price": _columns(segment, sizes.segments, _curve(log_price, log_price)),
        "label": _columns(segment, sizes.segments, label),
        "fit": sparse.csr_array(np.column_stack([score, score**2, taste])),
    }
    pooled = {
        "type": _columns(kind * length + position, sizes.types * length, ones),
        "segment type": _columns(segment * sizes.types + kind, sizes.segments * sizes.types, ones),
        "above": _columns((segment * histories + above) * length + position, sizes.segments * histories * length, ones),
        "category": _columns(segment * sizes.categories + category, sizes.segments * sizes.categories, ones),
        "product": _columns(product, sizes.products, ones),
    }
    blocks = free | pooled
    ends = np.cumsum([block.shape[1] for block in blocks.values()])
    places = {name: slice(end - blocks[name].shape[1], end) for name, end in zip(blocks, ends.tolist(), strict=True)}
    return _Effects(sparse.csr_array(sparse.hstack(list(blocks.values()))), places, frozenset(pooled))


def _columns(group: IntArray, n_groups: int, values: FloatArray) -> sparse.csr_array:
    """Return values `(m,)` or `(m, V)` in the columns of their groups `(m, n_groups * V)`, 0 elsewhere."""
    values = values.reshape(len(group), -1)
    m, width = values.shape
    rows = np.repeat(np.arange(m), width)
    columns = (group[:, None] * width + np.arange(width)).ravel()
    return sparse.csr_array((values.ravel(), (rows, columns)), shape=(m, n_groups * width))


def _curve(log_price: FloatArray, shown: FloatArray) -> FloatArray:
    """Return log(1 + price), from the mean of what was `shown`, and its square `(m, 2)`."""
    centred = log_price - shown.mean()
    return np.column_stack([centred, centred**2])


def _fit(effects: _Effects, seen: _Clicks) -> tuple[FloatArray, FloatArray]:
    """Return effects `(P,)` and their covariance, clustered by user, with the variances of pooled ones estimated.

    Newton's method; each step lets variances follow, as in `Layout.updated_sds`.
    """
    matrix = effects.matrix
    centre = np.zeros(matrix.shape[1])
    # Every row has the effect of just one position, so these carry the level.
    centre[effects.places["position"]] = np.log(seen.clicks.mean())
    values = centre
    sds = dict.fromkeys(effects.pooled, USUAL_SD)
    for _ in range(MOST_STEPS):
        precision = np.full(len(values), FREE_SD**-2)
        for name, sd in sds.items():
            precision[effects.places[name]] = sd**-2
        # Clicks are no Poisson counts, but clicks - rates has mean 0 if the rates are right, which is all that
        # consistency takes (Gourieroux, Monfort & Trognon 1984).
        rates = np.exp(matrix @ values)
        weighted = sparse.csr_array(sparse.diags_array(rates) @ matrix)
        information = np.asarray((matrix.T @ weighted).todense()) + np.diag(precision)
        inverse = np.asarray(np.linalg.inv(information))
        change = inverse @ (matrix.T @ (seen.clicks - rates) - precision * (values - centre))
        largest = float(np.abs(change).max())
        moves = 0.0
        if largest < 0.5:  # far from the estimates, effects that are not yet there say nothing of their variance
            updated = {name: _updated_sd(values, inverse, effects.places[name], sd) for name, sd in sds.items()}
            moves = max(abs(updated[name] / sds[name] - 1.0) for name in sds)
            sds = updated
        # By what it does to chances: of a product of which little is like any other, small effects do much.
        reach = float(np.abs(matrix @ change).max())
        values = values + change * min(1.0, LARGEST_STEP / max(reach, 1e-12))
        if largest < SMALL_STEP and moves < SMALL_CHANGE:
            break
    # The sandwich: the Poisson likelihood has clicks, which are 0 or 1, vary too
    # much, and takes rows of one user for independent.
    return values, inverse @ (_by_user(effects, seen, seen.clicks - rates) + np.diag(precision)) @ inverse


def _updated_sd(values: FloatArray, covariance: FloatArray, places: slice, sd: float) -> float:
    """Return the standard deviation of a kind of pooled effects after a step."""
    effects = values[places]
    total = float(effects @ effects + np.diag(covariance)[places].sum()) + PRIOR_WEIGHT * USUAL_SD**2
    step = float(np.sqrt(total / (len(effects) + PRIOR_WEIGHT))) / sd
    return float(sd * step**OVERSHOOT)


def _by_user(effects: _Effects, seen: _Clicks, surplus: FloatArray) -> FloatArray:
    """Return the outer product of the users' gradients `(P, P)`: how much estimates vary with who came."""
    n_users = int(seen.user.max()) + 1
    weights = sparse.csr_array((surplus, (seen.user, np.arange(len(surplus)))), shape=(n_users, len(surplus)))
    gradients: Any = weights @ effects.matrix
    return np.asarray((gradients.T @ gradients).todense())


def _weights(seen: _Clicks, segment: int) -> tuple[IntArray, FloatArray]:
    """Return the products that a segment was shown, and how much each counts: its clicks, or alike without any.

    Where the segment was shown none, those of all segments.
    """
    rows = np.flatnonzero(seen.segment == segment)
    rows = rows if len(rows) else np.arange(len(seen.segment))
    clicks = seen.clicks[rows]
    weights = clicks if clicks.any() else np.ones(len(rows))
    return rows, weights / weights.sum()
